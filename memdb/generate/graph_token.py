"""The graph encoder and its projector in torch: a graph in, one soft token out (QGMem section III-C2).

A layer [eq. 6], for node i with incoming edges I(i) = {(j, ρ_e, i)} and heads of d_h components:

    η_e  = (W_Q h_i) · (W_K h_j + W_E r_e) / √d_h        α = softmax over e ∈ I(i) of η
    h_i' = Γ( W_0 h_i + concat over heads of Σ_e α_e (W_V h_j + W_E r_e) )

A node without incoming edges is W_0 h_i alone. Γ is norm → ReLU, and nothing after the last layer. Then

    g = mean over i of h_i        z = W_2 σ(W_1 g + b_1) + b_2        [eq. 7]

This is the reference that is trained. What memdb answers with is its export, which needs no torch: see
`models/export.py`. Loading this module loads torch, so nothing in memdb imports it when it is loaded.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import TransformerConv, global_mean_pool

from memdb.errors import InputError
from memdb.models.graph_shape import CPU_SIZE, FULL_SIZE, GraphShape

__all__ = ["CPU_SIZE", "FULL_SIZE", "GraphShape", "GraphToken"]

ACTIVATIONS = {"sigmoid": nn.Sigmoid, "gelu": nn.GELU}
NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class GraphToken(nn.Module):  # type: ignore[misc]
    """The relation-aware layers, mean pooling and the projector.

    In training mode BatchNorm takes its statistics from the batch's nodes: call `eval()` to use what was
    trained, where a graph's row must not depend on the other graphs.
    """

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.dimension
        self.layers = nn.ModuleList(
            TransformerConv(d, d // shape.heads, heads=shape.heads, edge_dim=d) for _ in range(shape.layers)
        )
        self.norms = nn.ModuleList(NORMS[shape.norm](d) for _ in range(shape.layers - 1))
        self.projector = nn.Sequential(
            nn.Linear(d, shape.projector_hidden),
            ACTIVATIONS[shape.activation](),
            nn.Linear(shape.projector_hidden, shape.width),
        )
        self.row_norm = nn.Identity()
        if shape.row_rms is not None:
            self.row_norm = nn.LayerNorm(shape.width)
            nn.init.constant_(self.row_norm.weight, shape.row_rms)

    def forward(
        self, nodes: Tensor, edges: Tensor, relations: Tensor, graph_of: Tensor | None = None
    ) -> Tensor:
        """float32 [graphs, width] of a batch of graphs, laid side by side as torch-geometric does.

        `nodes` [n, dimension], `edges` int64 [2, e] source over target, `relations` [e, dimension],
        `graph_of` int64 [n] the graph of each node, in ascending order; None for a single graph.
        Raises InputError for other shapes, a graph without nodes, an edge that leads nowhere.
        """
        self._check(nodes, edges, relations)
        if graph_of is None:
            graph_of = torch.zeros(len(nodes), dtype=torch.int64, device=nodes.device)
        elif graph_of.shape != nodes.shape[:1] or not bool(torch.bincount(graph_of).all()):
            raise InputError("graph_of names the graph of every node, and no graph is without nodes")
        states = self.encode(nodes, edges, relations)  # [n, dimension]
        pooled = global_mean_pool(states, graph_of)  # [graphs, dimension]
        row: Tensor = self.row_norm(self.projector(pooled))
        return row

    def encode(self, nodes: Tensor, edges: Tensor, relations: Tensor) -> Tensor:
        """The states of the nodes after the last layer, [n, dimension]."""
        states = nodes
        for layer, norm in zip(self.layers, self.norms, strict=False):
            states = torch.relu(norm(layer(states, edges, relations)))
        last: Tensor = self.layers[-1](states, edges, relations)
        return last

    def _check(self, nodes: Tensor, edges: Tensor, relations: Tensor) -> None:
        d = self.shape.dimension
        if nodes.ndim != 2 or nodes.shape[1] != d or not len(nodes):
            hint = "an empty graph gets no token"
            raise InputError(f"nodes are [1 or more, {d}], not {list(nodes.shape)}", hint=hint)
        if edges.ndim != 2 or len(edges) != 2 or relations.shape != (edges.shape[1], d):
            given = f"{list(edges.shape)} and {list(relations.shape)}"
            raise InputError(f"edges are [2, e] and relations [e, {d}], not {given}")
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(nodes):
            raise InputError(f"an edge leads to a node that is not one of the {len(nodes)}")

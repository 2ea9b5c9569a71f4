"""The graph encoder and its projector in torch: a graph in, one soft token out (QGMem section III-C2).

A layer [eq. 6], for node i with incoming edges I(i) = {(j, ρ_e, i)} and heads of d_h components:

    η_e  = (W_Q h_i) · (W_K h_j + W_E r_e) / √d_h        α = softmax over e ∈ I(i) of η
    h_i' = Γ( W_0 h_i + concat over heads of Σ_e α_e (W_V h_j + W_E r_e) )

A node without incoming edges is W_0 h_i alone. Γ is norm → ReLU, and nothing after the last layer. Then

    g = mean over i of h_i        z = W_2 σ(W_1 g + b_1) + b_2        [eq. 7]

This is the reference that is trained. What memdb answers with is its export, which needs no torch: see
`models/export_graph.py`. Loading this module loads torch, so nothing in memdb imports it when it is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.nn import TransformerConv, global_mean_pool

from memdb.errors import InputError, ModelDamaged
from memdb.models.card import GraphCard, read_card_of, sha256_of
from memdb.models.described import DescribedGraphEncoder
from memdb.models.export_graph import write_graph_card
from memdb.models.graph_shape import CPU_SIZE, FULL_SIZE, GraphShape
from memdb.models.ports import require_graph

__all__ = [
    "CPU_SIZE",
    "FULL_SIZE",
    "GraphShape",
    "GraphToken",
    "TorchGraphEncoder",
    "load_graph_token",
    "save_graph_token",
]

WEIGHTS: Final = "model.safetensors"

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


class TorchGraphEncoder(DescribedGraphEncoder):
    """A `GraphToken` as a `ports.GraphEncoder`: what the export is compared with. It puts the module into
    eval mode. `card` says what the module is and what it was trained for.
    """

    def __init__(self, module: GraphToken, card: GraphCard) -> None:
        super().__init__(
            card.name,
            card.sha256,
            encoder_sha256=card.encoder_sha256,
            backbone_sha256=card.backbone_sha256,
            dimension=module.shape.dimension,
            width=module.shape.width,
        )
        self._module = module.eval()

    def row(
        self, nodes: NDArray[np.float32], edges: NDArray[np.int64], relations: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See `ports.GraphEncoder`."""
        require_graph(nodes, edges, relations, self._dimension)
        given = [torch.tensor(array.copy()) for array in (nodes, edges, relations)]
        with torch.inference_mode():
            row: NDArray[np.float32] = self._module(*given)[0].numpy()
        return self._whole(row)


def save_graph_token(module: GraphToken, folder: Path, **about: Any) -> GraphCard:
    """Write `model.safetensors` and `card.json` into the folder, made if missing: what
    `models.export_graph.export_graph_token` takes.

    `about` are the fields of `card.GraphCard` but `files`, `model` and `shape`; `made` should say `seed` and
    `data`. Raises ValueError for a digest that is none, TypeError for fields that are missing or unknown.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
    save_file(tensors, folder / WEIGHTS)
    files = {WEIGHTS: sha256_of(folder / WEIGHTS)}
    card = GraphCard(files=files, model=WEIGHTS, shape=module.shape, **about)
    write_graph_card(card, folder)
    return card


def load_graph_token(folder: Path) -> tuple[GraphToken, GraphCard]:
    """What `save_graph_token` wrote, in eval mode.

    Raises what `card.read_card_of` raises, ModelDamaged for tensors that are not of the card's sizes.
    """
    from safetensors.torch import load_file

    card = read_card_of(folder, GraphCard)
    if not card.model.endswith(".safetensors"):
        raise InputError(f"{folder} holds an exported graph, not the weights it was made from")
    module = GraphToken(card.shape)
    try:
        module.load_state_dict(load_file(folder / card.model))
    except RuntimeError as error:
        raise ModelDamaged(f"the weights of {card.name} are not of its card's sizes: {error}") from error
    return module.eval(), card

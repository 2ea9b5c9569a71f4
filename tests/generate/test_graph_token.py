"""The graph encoder and its projector, against equations 6 and 7 written out in numpy."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdb.errors import InputError
from memdb.models.graph_shape import CPU_SIZE, FULL_SIZE, GraphShape
from tests.models.graphs import SHAPES, SMALL, random_graph

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch-geometric is not installed")
graph_token = pytest.importorskip("memdb.generate.graph_token")


def made(shape: GraphShape, seed: int = 0) -> Any:
    """A module in eval mode with nothing left at 0 or 1, BatchNorm's statistics included."""
    generator = torch.Generator().manual_seed(seed)
    module = graph_token.GraphToken(shape).eval()
    with torch.no_grad():
        for value in (*module.parameters(), *module.buffers()):
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) * 0.8 + 0.1 - 0.4 * (value.ndim > 1))
    return module


def run(module: Any, *graph: Any) -> NDArray[np.float32]:
    with torch.no_grad():
        row: NDArray[np.float32] = module(*map(torch.as_tensor, graph)).numpy()
    return row


def written_out(module: Any, nodes: Any, edges: Any, relations: Any) -> NDArray[np.float64]:
    """Equations 6 and 7, edge by edge, head by head."""
    weights = {name: value.double().numpy() for name, value in module.state_dict().items()}
    shape: GraphShape = module.shape
    states = nodes.astype(np.float64)
    for number in range(shape.layers):
        states = _layer(weights, f"layers.{number}", states, edges, relations.astype(np.float64), shape)
        if number < shape.layers - 1:
            states = np.maximum(_norm(weights, f"norms.{number}", states, shape.norm), 0)
    hidden = weights["projector.0.weight"] @ states.mean(axis=0) + weights["projector.0.bias"]
    row = weights["projector.2.weight"] @ _active(hidden, shape.activation) + weights["projector.2.bias"]
    if shape.row_rms is not None:
        row = _norm(weights, "row_norm", row[None], "layer")[0]
    return row


def _layer(
    weights: Any, name: str, states: Any, edges: Any, relations: Any, shape: GraphShape
) -> NDArray[np.float64]:
    def linear(part: str, vector: Any) -> Any:
        return weights[f"{name}.lin_{part}.weight"] @ vector + weights.get(f"{name}.lin_{part}.bias", 0)

    rows = []
    for i, state in enumerate(states):
        row = linear("skip", state)
        incoming = [e for e in range(edges.shape[1]) if edges[1, e] == i]
        size = shape.dimension // shape.heads
        for head in range(shape.heads):
            part = slice(head * size, (head + 1) * size)
            query = linear("query", state)[part]
            keys = [
                (linear("key", states[edges[0, e]]) + linear("edge", relations[e]))[part] for e in incoming
            ]
            values = [
                (linear("value", states[edges[0, e]]) + linear("edge", relations[e]))[part] for e in incoming
            ]
            odds = np.exp([query @ key / np.sqrt(size) for key in keys])
            for share, value in zip(odds / odds.sum(), values, strict=True):
                row[part] += share * value
        rows.append(row)
    return np.array(rows)


def _norm(weights: Any, name: str, rows: Any, kind: str) -> Any:
    if kind == "batch":
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
    else:
        mean, variance = rows.mean(axis=1, keepdims=True), rows.var(axis=1, keepdims=True)
    return (rows - mean) / np.sqrt(variance + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _active(hidden: Any, kind: str) -> Any:
    if kind == "sigmoid":
        return 1 / (1 + np.exp(-hidden))
    return hidden * torch.special.ndtr(torch.as_tensor(hidden)).numpy()


def count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_paper_s_size_has_the_paper_s_parameters() -> None:
    with torch.device("meta"):
        module = graph_token.GraphToken(FULL_SIZE)
    assert count(module.layers[0]) == 2_952_192
    assert count(module.layers) + count(module.norms) == 11_813_376
    assert count(module.projector) == 9_967_616
    assert count(module) == 21_780_992


def test_the_size_for_a_cpu() -> None:
    with torch.device("meta"):
        module = graph_token.GraphToken(CPU_SIZE)
        bare = graph_token.GraphToken(msgspec.structs.replace(CPU_SIZE, row_rms=None))
    assert count(bare) == 1_971_008
    assert count(module) == 1_971_008 + 2 * 576


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 0},
        {"width": 0},
        {"heads": 3},
        {"row_rms": 0.0},
        {"row_rms": float("nan")},
        {"row_rms": float("inf")},
    ],
    ids=str,
)
def test_impossible_sizes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"size|heads|row_rms"):
        msgspec.structs.replace(SMALL, **wrong)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (1, 2), (2, 1), (5, 3), (6, 14)])
def test_it_is_the_equations(shape: GraphShape, nodes: int, edges: int) -> None:
    module, graph = made(shape), random_graph(nodes, nodes, edges)
    row = run(module, *graph)
    assert (row.shape, row.dtype) == ((1, shape.width), np.float32)
    assert np.abs(row[0] - written_out(module, *graph)).max() <= 1e-5


def test_a_node_without_incoming_edges_is_w_0_of_itself() -> None:
    module = made(SHAPES["one"])
    nodes, _, relations = random_graph(3, 3, 2)
    edges = np.array([[0, 1], [1, 1]])
    with torch.no_grad():
        states = module.encode(*map(torch.as_tensor, (nodes, edges, relations))).numpy()
        skipped = module.layers[0].lin_skip(torch.as_tensor(nodes)).numpy()
    assert np.abs(states[[0, 2]] - skipped[[0, 2]]).max() <= 1e-6
    assert np.abs(states[1] - skipped[1]).max() > 1e-2


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**16), nodes=st.integers(1, 8), edges=st.integers(0, 20))
def test_the_order_of_the_edges_does_not_matter(seed: int, nodes: int, edges: int) -> None:
    module = made(SMALL)
    states, ends, relations = random_graph(seed, nodes, edges)
    order = np.random.default_rng(seed).permutation(edges)
    one, other = run(module, states, ends, relations), run(module, states, ends[:, order], relations[order])
    assert np.abs(one - other).max() <= 1e-5


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_graphs_of_a_batch_are_as_alone(shape: GraphShape) -> None:
    module = made(shape)
    graphs = [random_graph(seed, nodes, edges) for seed, nodes, edges in ((1, 3, 5), (2, 1, 0), (3, 6, 9))]
    starts = np.cumsum([0, *(len(nodes) for nodes, _, _ in graphs)])
    together = run(
        module,
        np.concatenate([nodes for nodes, _, _ in graphs]),
        np.concatenate([ends + start for (_, ends, _), start in zip(graphs, starts, strict=False)], axis=1),
        np.concatenate([relations for _, _, relations in graphs]),
        np.repeat(np.arange(3), np.diff(starts)),
    )
    alone = np.concatenate([run(module, *graph) for graph in graphs])
    assert together.shape == (3, shape.width)
    assert np.abs(together - alone).max() <= 1e-5
    assert np.abs(alone[0] - alone[2]).max() > 1e-3


def test_an_edge_has_a_direction() -> None:
    module = made(SMALL)
    nodes, edges, relations = random_graph(5, 2, 1)
    edges[:] = [[0], [1]]
    assert (
        np.abs(run(module, nodes, edges, relations) - run(module, nodes, edges[::-1].copy(), relations)).max()
        > 1e-3
    )


def test_parallel_edges_both_count() -> None:
    module = made(SMALL)
    nodes, _, relations = random_graph(6, 2, 2)
    both = run(module, nodes, np.array([[0, 0], [1, 1]]), relations)
    for kept in (0, 1):
        one = run(module, nodes, np.array([[0], [1]]), relations[[kept]])
        assert np.abs(both - one).max() > 1e-3


def test_a_relation_counts() -> None:
    module = made(SMALL)
    nodes, edges, relations = random_graph(7, 3, 4)
    assert np.abs(run(module, nodes, edges, relations) - run(module, nodes, edges, -relations)).max() > 1e-3


def test_rows_start_as_large_as_they_should_be() -> None:
    torch.manual_seed(0)
    module = graph_token.GraphToken(SHAPES["row"]).eval()
    row = run(module, *random_graph(8, 4, 4))
    assert np.sqrt((row**2).mean()) == pytest.approx(0.25, rel=1e-2)


def test_every_weight_learns() -> None:
    module = graph_token.GraphToken(SHAPES["row"]).train()
    graph = random_graph(9, 6, 14)
    module(*map(torch.as_tensor, graph)).square().sum().backward()
    assert not [
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]


@pytest.mark.parametrize(
    ("nodes", "edges", "relations", "graph_of"),
    [
        ((0, 8), [[], []], (0, 8), None),
        ((2, 7), [[], []], (0, 8), None),
        ((8,), [[], []], (0, 8), None),
        ((2, 8), [0, 1], (1, 8), None),
        ((2, 8), [[0], [1], [1]], (1, 8), None),
        ((2, 8), [[0], [1]], (2, 8), None),
        ((2, 8), [[0], [1]], (1, 7), None),
        ((2, 8), [[0], [2]], (1, 8), None),
        ((2, 8), [[-1], [1]], (1, 8), None),
        ((2, 8), [[0], [1]], (1, 8), [0]),
        ((2, 8), [[0], [1]], (1, 8), [0, 2]),
    ],
)
def test_what_is_no_graph_is_refused(nodes: Any, edges: Any, relations: Any, graph_of: Any) -> None:
    given = [torch.ones(nodes), torch.tensor(edges, dtype=torch.int64), torch.ones(relations)]
    if graph_of is not None:
        given.append(torch.tensor(graph_of))
    with pytest.raises(InputError, match=r"nodes|edges|edge leads|graph_of"):
        made(SMALL)(*given)

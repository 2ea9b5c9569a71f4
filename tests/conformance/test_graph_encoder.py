"""The contract of `ports.GraphEncoder`, over every graph encoder that ships."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdb.errors import InputError, ModelError
from memdb.models.fakes import HashGraphEncoder
from memdb.models.graph_encoder import OnnxGraphEncoder
from memdb.models.ports import GraphEncoder
from memdb.models.registry import load_graph_encoder
from tests.models.graphs import SMALL, random_graph, write_checkpoint

TOLERANCE = 1e-4
DIFFERENT = 1e-3


def _onnx(folder: Path, precision: str) -> GraphEncoder:
    for package in ("onnx", "safetensors"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from memdb.models.export_graph import export_graph_token

    export_graph_token(write_checkpoint(folder / "weights"), folder / "out", precision=precision)  # type: ignore[arg-type]
    return load_graph_encoder(folder / "out")


def _torch(folder: Path) -> GraphEncoder:
    for package in ("torch", "torch_geometric", "safetensors"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from memdb.generate import graph_token

    return graph_token.TorchGraphEncoder(*graph_token.load_graph_token(write_checkpoint(folder)))


MADE: dict[str, Callable[[Path], GraphEncoder]] = {
    "hash": lambda folder: HashGraphEncoder(SMALL.dimension, SMALL.width * 16),
    "onnx": lambda folder: _onnx(folder, "float32"),
    "onnx-float16": lambda folder: _onnx(folder, "float16"),
    "torch": _torch,
}


@pytest.fixture(scope="module", params=MADE)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GraphEncoder:
    return MADE[request.param](tmp_path_factory.mktemp("graph"))


def edges(*pairs: tuple[int, int]) -> NDArray[np.int64]:
    return np.array(pairs, np.int64).reshape(-1, 2).T.copy()


def apart(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())


def test_it_is_a_graph_encoder_and_says_what_it_is(encoder: GraphEncoder) -> None:
    assert isinstance(encoder, GraphEncoder)
    assert encoder.name
    for digest in (encoder.sha256, encoder.encoder_sha256, encoder.backbone_sha256):
        assert len(digest) == 64
        assert set(digest) <= set("0123456789abcdef")
    assert encoder.dimension == SMALL.dimension
    assert encoder.width >= 1


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**16), nodes=st.integers(1, 20), count=st.integers(0, 20))
def test_any_graph_has_a_row_whatever_the_order_of_its_edges(
    encoder: GraphEncoder, seed: int, nodes: int, count: int
) -> None:
    states, ends, relations = random_graph(seed, nodes, count)
    row = encoder.row(states, ends, relations)
    assert (row.shape, row.dtype) == ((encoder.width,), np.float32)
    assert np.isfinite(row).all()
    order = np.random.default_rng(seed).permutation(count)
    assert apart(row, encoder.row(states, ends[:, order], relations[order])) < TOLERANCE


def test_one_node_and_no_edge_are_a_graph(encoder: GraphEncoder) -> None:
    one, other = (encoder.row(*random_graph(seed, 1, 0)) for seed in (1, 2))
    assert apart(one, other) > DIFFERENT


def test_an_edge_its_direction_and_its_relation_count(encoder: GraphEncoder) -> None:
    nodes, _, relations = random_graph(3, 3, 2)
    rows = [
        encoder.row(nodes, edges(), relations[:0]),
        encoder.row(nodes, edges((0, 1)), relations[:1]),
        encoder.row(nodes, edges((1, 0)), relations[:1]),
        encoder.row(nodes, edges((0, 1)), relations[1:]),
        encoder.row(nodes, edges((0, 1), (0, 1)), relations),
        encoder.row(nodes, edges((1, 1)), relations[:1]),
        encoder.row(nodes[:2], edges((0, 1)), relations[:1]),  # without the node that no edge reaches
    ]
    for number, row in enumerate(rows):
        assert all(apart(row, other) > DIFFERENT for other in rows[:number]), number


def test_which_relation_stands_at_which_edge_counts(encoder: GraphEncoder) -> None:
    nodes, _, relations = random_graph(4, 3, 2)
    ends = edges((0, 1), (1, 2))
    assert apart(encoder.row(nodes, ends, relations), encoder.row(nodes, ends, relations[::-1])) > DIFFERENT


def test_it_gives_the_same_bytes_again(encoder: GraphEncoder) -> None:
    one, two = (encoder.row(*random_graph(5, 6, 9)) for _ in range(2))
    assert one.tobytes() == two.tobytes()


def test_it_leaves_what_it_is_given_as_it_was(encoder: GraphEncoder) -> None:
    graph = random_graph(6, 4, 5)
    before = [array.copy() for array in graph]
    encoder.row(*graph)[:] = 0
    assert all((array == kept).all() for array, kept in zip(graph, before, strict=True))
    for array in graph:
        array.flags.writeable = False
    assert encoder.row(*graph).any()


def test_arrays_need_not_be_contiguous(encoder: GraphEncoder) -> None:
    nodes, ends, relations = random_graph(7, 4, 6)
    wide = np.repeat(nodes, 2, axis=1)[:, ::2]
    row = encoder.row(wide, np.asfortranarray(ends), np.asfortranarray(relations))
    assert apart(row, encoder.row(nodes, ends, relations)) < 1e-6


def test_eight_threads_share_it(encoder: GraphEncoder) -> None:
    graphs = [random_graph(seed, seed % 7 + 1, seed % 11) for seed in range(64)]
    serial = [encoder.row(*graph) for graph in graphs]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda graph: encoder.row(*graph), graphs))
    for expected, got in zip(serial, threaded, strict=True):
        assert apart(expected, got) < 1e-6


D = SMALL.dimension
NODES, ENDS, RELATION = np.ones((2, D), np.float32), np.array([[0], [1]]), np.ones((1, D), np.float32)
WRONG: dict[str, tuple[str, tuple[Any, Any, Any]]] = {
    "no-nodes": ("at least one node", (NODES[:0], ENDS[:, :0], RELATION[:0])),
    "narrow-nodes": ("nodes are", (NODES[:, 1:], ENDS, RELATION)),
    "one-node-flat": ("nodes are", (NODES[0], ENDS, RELATION)),
    "narrow-relations": ("relations are", (NODES, ENDS, RELATION[:, 1:])),
    "too-few-relations": ("one for each relation", (NODES, ENDS, RELATION[:0])),
    "edges-turned": ("one for each relation", (NODES, ENDS.T, RELATION)),
    "edges-flat": ("one for each relation", (NODES, ENDS[:, 0], RELATION)),
    "edge-beyond": ("not one of the 2", (NODES, ENDS + 1, RELATION)),
    "edge-before": ("not one of the 2", (NODES, ENDS - 1, RELATION)),
    "float64-nodes": ("nodes are a float32", (NODES.astype(float), ENDS, RELATION)),
    "float16-relations": ("relations are a float32", (NODES, ENDS, RELATION.astype(np.float16))),
    "float-edges": ("edges are an int64", (NODES, ENDS.astype(np.float32), RELATION)),
    "int32-edges": ("edges are an int64", (NODES, ENDS.astype(np.int32), RELATION)),
    "list-nodes": ("nodes are a float32 array, not a list", (NODES.tolist(), ENDS, RELATION)),
    "list-edges": ("edges are an int64 array, not a list", (NODES, ENDS.tolist(), RELATION)),
    "no-edges": ("edges are an int64 array, not a NoneType", (NODES, None, RELATION)),
    "nan-node": ("vector of the nodes", (np.full_like(NODES, np.nan), ENDS, RELATION)),
    "infinite-relation": ("vector of the relations", (NODES, ENDS, np.full_like(RELATION, -np.inf))),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_graph_is_refused(encoder: GraphEncoder, case: str) -> None:
    said, graph = WRONG[case]
    with pytest.raises(InputError, match=said):
        encoder.row(*graph)


def test_a_row_that_is_not_finite_is_an_error(encoder: GraphEncoder) -> None:
    if isinstance(encoder, HashGraphEncoder):
        pytest.skip("a digest is always finite")
    huge = np.full((2, D), 1e38, np.float32)
    with pytest.raises(ModelError, match="no finite number"):
        encoder.row(huge, ENDS, huge[:1])


def test_one_thread_is_the_default(encoder: GraphEncoder) -> None:
    if not isinstance(encoder, OnnxGraphEncoder):
        pytest.skip("it has no threads of its own")
    options = encoder._session._session.get_session_options()
    assert options.intra_op_num_threads == 1

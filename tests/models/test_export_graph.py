"""The exported graph encoder against the same weights in torch, and what its folder may and may not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models import registry
from memdb.models.card import GraphCard, read_card, sha256_of
from memdb.models.graph_encoder import OnnxGraphEncoder
from memdb.models.graph_shape import CPU_SIZE, GraphShape
from memdb.models.registry import load_encoder, load_graph_encoder, load_reranker
from tests.models.graphs import ABOUT, SHAPES, SMALL, random_graph, random_tensors, write_checkpoint

pytest.importorskip("onnx", reason="onnx is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
export_graph = pytest.importorskip("memdb.models.export_graph")


def rewrite(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "weights")


@pytest.fixture
def folder(weights: Path, tmp_path: Path) -> Path:
    export_graph.export_graph_token(weights, tmp_path / "out")
    return tmp_path / "out"


Pair = tuple[Any, Any]


def both(folder: Path, shape: GraphShape, precision: str = "float32") -> Pair:
    """The export and its reference, from one checkpoint."""
    for package in ("torch", "torch_geometric"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from memdb.generate.graph_token import TorchGraphEncoder, load_graph_token

    weights = write_checkpoint(folder / "weights", shape)
    export_graph.export_graph_token(weights, folder / "out", precision=precision)
    return load_graph_encoder(folder / "out"), TorchGraphEncoder(*load_graph_token(weights))


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return both(tmp_path_factory.mktemp("pair"), SHAPES[request.param])


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**16), nodes=st.integers(1, 20), edges=st.integers(0, 20))
def test_it_computes_what_torch_computes(pair: Pair, seed: int, nodes: int, edges: int) -> None:
    exported, reference = pair
    graph = random_graph(seed, nodes, edges)
    assert np.abs(exported.row(*graph) - reference.row(*graph)).max() <= 1e-4


@pytest.mark.parametrize(
    ("nodes", "ends"),
    [
        (1, []),
        (5, []),
        (1, [(0, 0)]),
        (1, [(0, 0)] * 20),
        (4, [(0, 1)]),
        (2, [(0, 1)] * 20),
        (20, [(number, 19) for number in range(20)]),
        (20, [(0, number) for number in range(20)]),
    ],
    ids=["node", "nodes", "loop", "loops", "isolated", "parallel", "into-one", "out-of-one"],
)
def test_it_computes_what_torch_computes_of_odd_graphs(pair: Pair, nodes: int, ends: Any) -> None:
    exported, reference = pair
    states, _, relations = random_graph(nodes, nodes, len(ends))
    graph = states, np.array(ends, np.int64).reshape(-1, 2).T, relations
    row = exported.row(*graph)
    assert np.abs(row - reference.row(*graph)).max() <= 1e-4
    assert np.ptp(row) > 1e-2


def test_large_vectors_keep_attention_exact(pair: Pair) -> None:
    """Logits in the thousands: no overflow, and nothing of an edge that does not lead to the node."""
    nodes, ends, relations = random_graph(1, 6, 12)
    row, expected = (model.row(nodes * 100, ends, relations * 100) for model in pair)
    assert np.abs(row - expected).max() <= 1e-4 * max(1, np.abs(expected).max())


def test_float16_halves_the_file_and_moves_the_row_little(tmp_path: Path) -> None:
    shape = msgspec.structs.replace(CPU_SIZE, dimension=64, projector_hidden=64, width=96)
    exported, reference = both(tmp_path / "half", shape, "float16")
    full, _ = both(tmp_path / "full", shape)
    sizes = [(tmp_path / name / "out" / "model.onnx").stat().st_size for name in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    graph = random_graph(3, 12, 10, 64)
    assert np.abs(full.row(*graph) - reference.row(*graph)).max() <= 1e-4
    assert 0 < np.abs(exported.row(*graph) - reference.row(*graph)).max() < 0.02


def test_float16_does_not_hide_a_weight_it_cannot_hold() -> None:
    tensors = random_tensors(SMALL)
    tensors["projector.0.weight"][0, 0] = 70_000
    with pytest.raises(InputError, match="too large for float16"):
        export_graph.to_graph_model(tensors, SMALL, "float16")
    assert export_graph.to_graph_model(tensors, SMALL, "float32").ByteSize() > 0


def test_the_same_checkpoint_gives_the_same_bytes(weights: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_graph.export_graph_token(weights, tmp_path / name)
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == ["card.json", "model.onnx"]
    for name in ("card.json", "model.onnx"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_card_keeps_what_training_said(weights: Path, folder: Path) -> None:
    card = read_card(folder)
    assert isinstance(card, GraphCard)
    assert card.shape == SMALL
    assert {key: value for key, value in msgspec.structs.asdict(card).items() if key in ABOUT} == ABOUT | {
        "made": card.made
    }
    assert (card.made["seed"], card.made["data"]) == (7, {"graphs.json": "0" * 64})
    assert card.made["weights_sha256"] == sha256_of(weights / "model.safetensors")
    assert card.files == {"model.onnx": sha256_of(folder / "model.onnx")}
    encoder = load_graph_encoder(folder)
    assert (encoder.name, encoder.sha256) == ("tiny-graph", sha256_of(folder / "model.onnx"))
    assert (encoder.encoder_sha256, encoder.backbone_sha256) == ("e" * 64, "b" * 64)
    assert (encoder.dimension, encoder.width) == (8, 5)


def test_the_command_exports(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--weights", weights, "--out", tmp_path / "out", "--precision", "float16"]
    monkeypatch.setattr("sys.argv", ["export_graph", *map(str, arguments)])
    export_graph.main()
    card = read_card(tmp_path / "out")
    assert card.made["command"].endswith("--precision float16")
    assert load_graph_encoder(tmp_path / "out").row(*random_graph(1, 2, 1)).any()


def test_it_comes_by_name_where_it_comes_with_memdb(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.registered_graph_encoders() == []
    monkeypatch.setattr(registry, "WEIGHTS", tmp_path)
    (tmp_path / "weights" / "card.json").unlink()
    assert registry.registered_graph_encoders() == ["out"]
    assert load_graph_encoder("out").name == "tiny-graph"
    with pytest.raises(ModelNotFound, match=r"no graph encoder 'else'.*a folder, hub:org/name or out"):
        load_graph_encoder("else")


def test_what_was_not_exported_is_refused(weights: Path) -> None:
    with pytest.raises(InputError, match="export it"):
        load_graph_encoder(weights)


def test_models_of_other_kinds_are_refused_and_say_where_they_go(folder: Path) -> None:
    with pytest.raises(InputError, match=r"an encoder, not a graph encoder \(give it to load_encoder"):
        load_graph_encoder(registry.DEFAULT_ENCODER)
    with pytest.raises(InputError, match=r"a graph encoder, not an encoder \(give it to load_graph_encoder"):
        load_encoder(folder)
    with pytest.raises(InputError, match=r"a graph encoder, not a reranker \(give it to load_graph_encoder"):
        load_reranker(folder)


def test_a_file_that_is_missing_or_another_is_named(folder: Path) -> None:
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[:-1])
    with pytest.raises(ModelDamaged, match=r"model\.onnx of the model tiny-graph is not the file"):
        load_graph_encoder(folder)
    (folder / "model.onnx").unlink()
    with pytest.raises(ModelNotFound, match=r"lacks its file model\.onnx"):
        load_graph_encoder(folder)


@pytest.mark.parametrize("content", [b"", b"no model", None], ids=["empty", "text", "cut"])
def test_a_file_that_is_no_graph_is_damaged(folder: Path, content: bytes | None) -> None:
    file = folder / "model.onnx"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if content is None else content)
    rewrite(folder / "card.json", files={"model.onnx": sha256_of(file)})
    with pytest.raises(ModelDamaged):
        load_graph_encoder(folder)


@pytest.mark.parametrize("size", ["dimension", "width"])
def test_a_graph_of_other_sizes_than_its_card_says_is_refused(folder: Path, size: str) -> None:
    shape = msgspec.to_builtins(msgspec.structs.replace(SMALL, **{size: 16}))
    rewrite(folder / "card.json", shape=shape)
    with pytest.raises(ModelError):
        load_graph_encoder(folder)


def test_another_model_is_no_graph_encoder() -> None:
    file = registry.WEIGHTS / registry.DEFAULT_ENCODER / "model.onnx"
    given: dict[str, Any] = {"encoder_sha256": "", "backbone_sha256": "", "dimension": 8, "width": 8}
    with pytest.raises(ModelDamaged, match="is no graph encoder: it takes"):
        OnnxGraphEncoder(file, name="other", sha256="", **given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"encoder_sha256": "abc"}, "encoder_sha256 is 64 hex digits"),
        ({"backbone_sha256": ""}, "backbone_sha256 is 64 hex digits"),
        ({"files": {}}, r"no digest of model\.onnx"),
        ({"shape": {"dimension": 8}}, "layers"),
        ({"shape": msgspec.to_builtins(SMALL) | {"heads": 3}}, "do not divide"),
        ({"shape": msgspec.to_builtins(SMALL) | {"norm": "none"}}, "norm"),
        ({"kind": "graf"}, "graf"),
    ],
)
def test_a_card_that_says_nonsense_is_damaged(folder: Path, change: dict[str, Any], said: str) -> None:
    rewrite(folder / "card.json", **change)
    with pytest.raises(ModelDamaged, match=said):
        load_graph_encoder(folder)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("layers.1.lin_edge.weight", None, "missing"),
        ("norms.0.running_var", None, "missing"),
        ("projector.2.bias", np.ones(4, np.float32), r"is \[4\], not \[5\]"),
        ("layers.0.lin_key.bias", np.full(8, np.nan, np.float32), "no finite number"),
    ],
)
def test_tensors_that_do_not_fit_the_card_are_named(name: str, value: Any, said: str) -> None:
    tensors = random_tensors(SMALL)
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    with pytest.raises(ModelDamaged, match=f"{name}.*{said}"):
        export_graph.to_graph_model(tensors, SMALL)


def test_what_training_writes_is_read_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch-geometric is not installed")
    from memdb.generate import graph_token

    module = graph_token.GraphToken(SMALL)
    module(*map(torch.tensor, random_graph(1, 9, 9)))  # moves BatchNorm's statistics
    about = {key: value for key, value in ABOUT.items() if key != "metrics"}
    card = graph_token.save_graph_token(module, tmp_path / "saved", **about)
    loaded, read = graph_token.load_graph_token(tmp_path / "saved")
    assert read == card
    assert not loaded.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name
    export_graph.export_graph_token(tmp_path / "saved", tmp_path / "out")
    graph = random_graph(2, 4, 5)
    reference = graph_token.TorchGraphEncoder(module, card)
    assert np.abs(load_graph_encoder(tmp_path / "out").row(*graph) - reference.row(*graph)).max() <= 1e-4
    with pytest.raises(InputError, match="exported"):
        graph_token.load_graph_token(tmp_path / "out")
    shape = msgspec.to_builtins(msgspec.structs.replace(SMALL, width=9))
    rewrite(tmp_path / "saved" / "card.json", shape=shape)
    with pytest.raises(ModelDamaged, match="not of its card's sizes"):
        graph_token.load_graph_token(tmp_path / "saved")

"""The exported graph against the same network in torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import InputError
from memdb.models.onnx import OnnxEncoder
from memdb.models.registry import load_encoder, load_reranker

pytest.importorskip("onnx", reason="onnx is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
export = pytest.importorskip("memdb.models.export")

TEXTS = ["w0 w1 w2", "w3", "", "w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 unknown w35", "w2 w1 w0"]


def reference(tensors: dict[str, np.ndarray], config: dict[str, Any], ids: list[int]) -> Any:
    """The mean of one text's hidden states [hidden_size], in torch."""
    weights = {name: torch.from_numpy(value) for name, value in tensors.items()}
    functional = torch.nn.functional

    def dense(name: str, value: Any) -> Any:
        return functional.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, value: Any) -> Any:
        gain, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return functional.layer_norm(value, gain.shape, gain, bias, config["layer_norm_eps"])

    def split(value: Any) -> Any:
        return value.view(len(ids), config["num_attention_heads"], -1).transpose(0, 1)

    words = weights["embeddings.word_embeddings.weight"][ids]
    places = weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm("embeddings.LayerNorm", words + places + weights["embeddings.token_type_embeddings.weight"][0])
    for name in (f"encoder.layer.{number}" for number in range(config["num_hidden_layers"])):
        parts = [split(dense(f"{name}.attention.self.{part}", x)) for part in ("query", "key", "value")]
        heads = functional.scaled_dot_product_attention(*parts).transpose(0, 1).reshape(len(ids), -1)
        x = norm(f"{name}.attention.output.LayerNorm", dense(f"{name}.attention.output.dense", heads) + x)
        wide = functional.gelu(dense(f"{name}.intermediate.dense", x))
        x = norm(f"{name}.output.LayerNorm", dense(f"{name}.output.dense", wide) + x)
    return x.mean(0)


def plain_tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.03)])
def test_it_computes_what_torch_computes(
    checkpoint: Path, tmp_path: Path, precision: str, tolerance: float
) -> None:
    from safetensors.numpy import load_file

    export.export(checkpoint, tmp_path, precision=precision)
    vectors = load_encoder(tmp_path, threads=1).encode(TEXTS)
    tokenizer = plain_tokenizer(checkpoint)
    config = json.loads((checkpoint / "config.json").read_text())
    tensors = load_file(checkpoint / "model.safetensors")
    means = [reference(tensors, config, tokenizer.encode(text).ids) for text in TEXTS]
    expected = [torch.nn.functional.normalize(mean, dim=0).numpy() for mean in means]
    assert np.abs(vectors - np.stack(expected)).max() < tolerance


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("int8", 0.5)])
def test_a_reranker_computes_what_torch_computes(
    reranker_checkpoint: Path, tmp_path: Path, precision: str, tolerance: float
) -> None:
    from safetensors.numpy import load_file

    export.export(reranker_checkpoint, tmp_path, kind="reranker", precision=precision)
    scores = load_reranker(tmp_path, threads=1).score("w5 w9", TEXTS)
    config = json.loads((reranker_checkpoint / "config.json").read_text())
    tensors = load_file(reranker_checkpoint / "model.safetensors")
    tokenizer = plain_tokenizer(reranker_checkpoint)
    weight, bias = (torch.from_numpy(tensors[f"classifier.{part}"]) for part in ("weight", "bias"))
    means = [reference(tensors, config, tokenizer.encode("w5 w9", text).ids) for text in TEXTS]
    expected = np.array([float(weight[0] @ mean + bias[0]) for mean in means])
    assert np.ptp(expected) > 3
    assert np.abs(scores - expected).max() < tolerance


def test_a_reranker_needs_a_head(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"classifier\.weight"):
        export.export(checkpoint, tmp_path, kind="reranker")


@pytest.mark.parametrize("key", ["files", "kind", "providers", "dimension"])
def test_what_follows_from_the_checkpoint_is_not_given(checkpoint: Path, tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=key):
        export.export(checkpoint, tmp_path, metrics={key: "x"})


def test_a_rerankers_card_takes_what_it_is_given(
    reranker_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "name": "mine",
        "max_tokens": 48,
        "fields": ["source", "utterance_time"],
        "ndcg_at_10": 60.5,
        "made": {"seed": 7, "data": {"a.json": "00"}},
    }
    (tmp_path / "card.json").write_text(json.dumps(given))
    arguments = ["--kind", "reranker", "--weights", reranker_checkpoint, "--out", tmp_path / "out"]
    monkeypatch.setattr("sys.argv", ["export", *map(str, [*arguments, "--metrics", tmp_path / "card.json"])])
    export.main()
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert (card["kind"], card["name"], card["max_tokens"]) == ("reranker", "mine", 48)
    assert card["fields"] == ["source", "utterance_time"]
    assert card["metrics"] == {"ndcg_at_10": 60.5}
    assert (card["made"]["seed"], card["made"]["data"]) == (7, {"a.json": "00"})
    assert card["made"]["command"].endswith("--kind reranker --precision int8")
    assert set(card["files"]) == {"model.onnx", "tokenizer.json"}
    assert not {"dimension", "pooling", "query_prefix"} & set(card)
    reranker = load_reranker(tmp_path / "out", threads=1)
    assert (reranker.name, reranker.max_tokens, reranker.fields) == ("mine", 48, ("source", "utterance_time"))


def test_the_same_checkpoint_gives_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export.export(checkpoint, tmp_path / name)
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert files == ["card.json", "model.onnx", "tokenizer.json"]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_command_writes_the_metrics_it_is_given(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.json").write_text('{"texts_per_s": 1}')
    arguments = ["--weights", checkpoint, "--out", tmp_path / "out", "--metrics", tmp_path / "metrics.json"]
    monkeypatch.setattr("sys.argv", ["export", *map(str, arguments)])
    export.main()
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["metrics"] == {"texts_per_s": 1}
    assert card["dimension"] == 32
    assert card["providers"] == ["CPUExecutionProvider"]


def test_codes_undo_within_half_a_step_and_never_overflow_sixteen_bits() -> None:
    weight = np.random.default_rng(3).normal(0, 1, (20, 50)).astype(np.float32)
    weight[4] = 0
    codes, scales = export.quantize(weight, export.WEIGHT_TOP)
    assert np.abs(codes * scales - weight).max() <= scales.max() / 2 + 1e-6
    assert np.abs(codes.astype(int)).max() * 255 * 2 < 2**15
    assert not codes[4].any()


def test_integer_codes_survive_extreme_activations(checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(checkpoint / "model.safetensors")
    tensors["encoder.layer.0.intermediate.dense.weight"] *= 200
    tensors["encoder.layer.1.intermediate.dense.weight"] *= 0
    tensors["encoder.layer.1.intermediate.dense.bias"][:] = -0.75  # where GELU is lowest
    source = tmp_path / "source"
    source.mkdir()
    save_file(tensors, source / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        (source / name).write_bytes((checkpoint / name).read_bytes())
    for precision in ("int8", "float32"):
        export.export(source, tmp_path / precision, precision=precision)
    exact = load_encoder(tmp_path / "float32", threads=1).encode(TEXTS)
    coded = load_encoder(tmp_path / "int8", threads=1).encode(TEXTS)
    assert (exact * coded).sum(axis=1).min() > 0.99


def test_the_tokenizers_own_truncation_and_padding_are_reset(checkpoint: Path, tmp_path: Path) -> None:
    export.export(checkpoint, tmp_path)
    encoder = load_encoder(tmp_path, threads=1)
    start = " ".join(f"w{number}" for number in range(12))
    one, two = encoder.encode([f"{start} w12", f"{start} w30"])  # they differ beyond the file's 8 tokens
    assert np.abs(one - two).max() > 1e-3


def test_tokens_beyond_the_limit_do_not_count(checkpoint: Path, tmp_path: Path) -> None:
    export.export(checkpoint, tmp_path)
    files = tmp_path / "model.onnx", tmp_path / "tokenizer.json"
    encoder = OnnxEncoder(*files, name="tiny", sha256="", dimension=32, max_tokens=6, threads=1)
    assert encoder.max_tokens == 6
    one, two, three = encoder.encode(["w1 w2 w3 w4", "w1 w2 w3 w4 w5 w6", "w1 w2 w3 w5"])
    assert np.abs(one - two).max() < 1e-6
    assert np.abs(one - three).max() > 1e-3

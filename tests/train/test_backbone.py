"""The frozen language model, against llama.cpp reading the same file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from memdb.errors import ModelDamaged, ModelError, ModelNotFound
from memdb.models.ports import Turn
from memdb.train import backbone
from tests.models import tiny_llama

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
gguf = pytest.importorskip("gguf", reason="the train extra is not installed")

TEXTS = ("an inn in the hen house", "hehe", "The answer: in Oslo, since 1999.", "an")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("model") / "tiny.gguf")


def _ours(model: object, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].float().numpy()  # type: ignore[operator]


def _distances(file: Path, served: Path) -> tuple[float, float]:
    """Largest difference of logits, and mean KL divergence, between torch and llama.cpp."""
    pytest.importorskip("llama_cpp", reason="the llm extra is not installed")
    from memdb.models.llama import LlamaBackbone

    model, largest, divergences = backbone.frozen(file), 0.0, []
    llama = LlamaBackbone(served, context_tokens=512, threads=2)
    for text in TEXTS:
        turns = [Turn("system", "You answer."), Turn("user", text)]
        ids, _ = llama.prompt_ids(turns)
        ours, theirs = _ours(model, ids), llama.next_logits(turns)
        largest = max(largest, float(np.abs(ours - theirs).max()))
        p, q = (one - np.logaddexp.reduce(one) for one in (ours.astype(float), theirs.astype(float)))
        divergences.append(float((np.exp(p) * (p - q)).sum()))
    llama.close()
    return largest, float(np.mean(divergences))


def _norms(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    names = (f"blk.{layer}.attn_{part}_norm.weight" for layer in range(tiny_llama.LAYERS) for part in "qk")
    return {name: rng.normal(1, 0.2, tiny_llama.HEAD).astype(np.float32) for name in names}


@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("llama", {}),
        ("llama", {"rope_freqs.weight": np.array([1, 1, 4, 8], np.float32)}),  # as Llama 3.1 has them
        ("llama", {"output.weight": np.random.default_rng(5).normal(0, 0.3, (262, 32)).astype(np.float32)}),
        ("qwen3", _norms(6)),
    ],
    ids=["llama", "frequencies", "untied", "qwen3"],
)
def test_it_gives_the_logits_of_llama_cpp(
    tmp_path: Path, architecture: str, more: dict[str, np.ndarray]
) -> None:
    file = tiny_llama.write(tmp_path / "tiny.gguf", architecture=architecture, **more)
    largest, divergence = _distances(file, file)
    assert largest < 0.05  # llama.cpp keeps keys and values as float16
    assert divergence < 1e-4


def test_the_real_model_quantised(tmp_path: Path) -> None:
    if not (path := os.environ.get("MEMDB_GGUF")):
        pytest.skip("MEMDB_GGUF names no model file")
    file = Path(path)
    _, quantised = _distances(file, file)
    largest, whole = _distances(file, backbone.export_gguf(file, tmp_path / "f32.gguf"))
    assert quantised < 0.02
    assert whole < 1e-4
    assert largest < 0.2


@pytest.mark.parametrize(("precision", "kind"), [("F32", 0), ("F16", 1)])
def test_what_is_written_back_says_the_same_of_itself(tmp_path: Path, precision: str, kind: int) -> None:
    packed = tiny_llama.write(tmp_path / "packed.gguf", table="Q8_0")
    out = backbone.export_gguf(packed, tmp_path / "out.gguf", precision=precision)  # type: ignore[arg-type]
    before, after = gguf.GGUFReader(packed), gguf.GGUFReader(out)
    assert after.fields["general.file_type"].contents() == kind
    for name, field in before.fields.items():
        if not name.startswith("GGUF.") and name != "general.file_type":
            assert after.fields[name].contents() == field.contents(), name
    matrix = next(one for one in after.tensors if one.name == "token_embd.weight")
    assert matrix.tensor_type.name == precision
    table = backbone.frozen(packed).get_input_embeddings().weight.numpy()
    np.testing.assert_allclose(np.array(matrix.data, np.float32), table, rtol=1e-3)


def test_a_head_of_four_rows_is_put_into_two_halves() -> None:
    """llama.cpp's order of a head is (a0, b0, a1, b1) where transformers' is (a0, a1, b0, b1)."""
    stored = np.array([[0], [10], [1], [11], [2], [12], [3], [13]], np.float32)  # two heads
    assert backbone.unpermuted(stored, 2)[:, 0].tolist() == [0, 1, 10, 11, 2, 3, 12, 13]
    assert backbone.permuted(backbone.unpermuted(stored, 2), 2).tolist() == stored.tolist()


def test_no_weight_takes_a_gradient(tiny: Path) -> None:
    model = backbone.frozen(tiny)
    assert not [name for name, one in model.named_parameters() if one.requires_grad]
    assert model.get_input_embeddings().weight is model.lm_head.weight


def test_reading_the_beginning_once_changes_nothing(tiny: Path) -> None:
    ids = torch.arange(40)[None]
    whole = backbone.frozen(tiny).model(ids)[0][:, 25:]
    model = backbone.frozen(tiny)
    backbone.keep_beginning(model, range(25))
    given = model.get_input_embeddings()(ids[:, 25:].expand(3, -1))
    places = torch.arange(25, 40)[None]
    after = model.model(inputs_embeds=given, position_ids=places, use_cache=False)[0]
    for one in after:
        torch.testing.assert_close(one, whole[0], rtol=1e-4, atol=1e-5)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="there is no model file"):
        backbone.frozen(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF, but not for long")
    with pytest.raises(ModelDamaged, match="cannot be read as GGUF"):
        backbone.frozen(tmp_path / "bad.gguf")
    with pytest.raises(ModelError, match="is a gemma3 model"):
        backbone.frozen(tiny_llama.write(tmp_path / "g.gguf", architecture="gemma3"))

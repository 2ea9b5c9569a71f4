"""LLMLingua-2: which words a token classifier keeps, against the same network in torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.language.compress import StopWordCompressor
from memdb.models.card import CompressorCard, read_card
from memdb.models.lingua import Lingua
from memdb.models.onnx import OnnxEncoder
from memdb.models.ports import Compressor
from memdb.models.registry import load_compressor, load_encoder
from tests.models.exported import PIECES, token_classifier, write_card, write_folder

# Chunks of at most 10 tokens: two sentences, one of 12 tokens without an end, and one.
TEXT = "box co doy eo. fo goxy.\nho io jo kox lo mo ao bo co dox\neo, Ana fo 7."
CHUNKS = [
    "bo ##x co do ##y eo .",
    "fo go ##x ##y .",
    "ho io jo ko ##x lo mo ao bo co",
    "do ##x eo , Ana fo 7 .",
]
SPLIT = [["box", "co", "doy", "eo", "."], ["fo", "goxy", "."]]
SPLIT += [["ho", "io", "jo", "kox", "lo", "mo", "ao", "bo", "co"], ["dox", "eo", ",", "Ana", "fo", "7", "."]]


@pytest.fixture(scope="module")
def model() -> Any:
    return token_classifier()


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(model, tmp_path_factory.mktemp("lingua"))


def copied(folder: Path, target: Path, **card: Any) -> Path:
    for name in ("model.onnx", "tokenizer.json"):
        (target / name).write_bytes((folder / name).read_bytes())
    write_card(target, **card)
    return target


def expected_words(model: Any, rate: float) -> list[str]:
    """The words of TEXT that are to be kept, from torch's probabilities and numpy's percentile."""
    import torch

    probabilities, words, counts = [], [], []
    for chunk, said in zip(CHUNKS, SPLIT, strict=True):
        pieces = chunk.split()
        with torch.no_grad():
            logits = model(torch.tensor([[2, *(PIECES.index(piece) for piece in pieces), 3]])).logits
        kept = torch.softmax(logits[0, 1:-1], -1)[:, 1].numpy()
        starts = [at for at, piece in enumerate(pieces) if not piece.startswith("##")]
        groups = np.split(kept, starts[1:])
        assert len(groups) == len(said)
        words += said
        counts += [len(group) for group in groups]
        probabilities += [float(group.mean()) for group in groups]
    least = np.percentile(np.repeat(probabilities, counts), 100 * (1 - rate))
    return [w for w, p in zip(words, probabilities, strict=True) if p > least or w in ("Ana", "7")]


@pytest.mark.parametrize("rate", [0.1, 0.33, 0.5, 0.8])
def test_it_keeps_what_torch_says(model: Any, folder: Path, rate: float) -> None:
    compressor = load_compressor(folder, threads=1)
    assert isinstance(compressor, Lingua)
    short = compressor.compress(TEXT, rate)
    expected = expected_words(model, rate)
    assert short.replace(".", " . ").replace(",", " , ").split() == expected
    assert 0 < len(expected) < sum(map(len, SPLIT))


def test_it_is_a_compressor_that_says_all_that_decides(folder: Path) -> None:
    compressor = load_compressor(folder, rate=0.5, threads=1)
    assert isinstance(compressor, Compressor)
    card = read_card(folder)
    assert compressor.name == f"tiny-{card.sha256[:8]}@0.5"
    assert load_compressor(folder, threads=1).name.endswith("@0.8")


def test_stop_words_need_no_model() -> None:
    assert isinstance(load_compressor(), StopWordCompressor)


def test_a_hugging_face_folder_loads_and_agrees(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    config = {"architectures": ["BertForTokenClassification"], "max_position_embeddings": 12}
    (tmp_path / "config.json").write_text(json.dumps(config))
    card = read_card(tmp_path)
    assert isinstance(card, CompressorCard)
    assert card.max_tokens == 12
    assert card.attention is None
    ours, theirs = (load_compressor(place, threads=1) for place in (folder, tmp_path))
    assert ours(TEXT) == theirs(TEXT) != TEXT
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_labels": 9}))
    with pytest.raises(ModelError, match="9 classes"):
        load_compressor(tmp_path)


def test_our_own_export_gives_the_same_words(compressor_checkpoint: Path, tmp_path: Path) -> None:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="the train extra is not installed")
    from safetensors.numpy import load_file

    from tests.models.conftest import CONFIG, WORDS

    tensors = load_file(compressor_checkpoint / "model.safetensors")
    named = {key if key.startswith("classifier") else f"bert.{key}": value for key, value in tensors.items()}
    reference = transformers.BertForTokenClassification(transformers.BertConfig(**CONFIG)).eval()
    reference.load_state_dict({key: torch.from_numpy(value) for key, value in named.items()})
    export.export(compressor_checkpoint, tmp_path, kind="compressor", precision="float32")
    compressor = load_compressor(tmp_path, threads=1)
    assert isinstance(compressor, Lingua)
    ids = [WORDS.index(f"w{number}") for number in range(9)]
    with torch.no_grad():
        expected = torch.softmax(reference(torch.tensor([[2, *ids, 3]])).logits[0, 1:-1], -1)[:, 1].numpy()
    assert np.abs(compressor._kept(ids) - expected).max() < 1e-5


def test_the_bert_of_another_library_is_found_under_its_prefix(
    compressor_checkpoint: Path, tmp_path: Path
) -> None:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    from safetensors.numpy import load_file, save_file

    prefixed = tmp_path / "prefixed"
    prefixed.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (prefixed / name).write_bytes((compressor_checkpoint / name).read_bytes())
    tensors = load_file(compressor_checkpoint / "model.safetensors")
    save_file(
        {key if key.startswith("classifier") else f"bert.{key}": value for key, value in tensors.items()},
        prefixed / "model.safetensors",
    )
    for source, out in ((compressor_checkpoint, "one"), (prefixed, "two")):
        export.export(source, tmp_path / out, kind="compressor")
    one, two = ((tmp_path / out / "model.onnx").read_bytes() for out in ("one", "two"))
    assert one == two


def test_a_head_of_another_kind_is_refused(reranker_checkpoint: Path, tmp_path: Path) -> None:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    with pytest.raises(InputError, match="2 rows"):
        export.export(reranker_checkpoint, tmp_path, kind="compressor")


def test_models_of_other_kinds_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="is a compressor"):
        load_encoder(folder)
    with pytest.raises(InputError, match="not a compressor"):
        load_compressor("memdb-encoder-v1")
    with pytest.raises(ModelNotFound, match="no compressor") as caught:
        load_compressor("nowhere")
    assert "stopword" in caught.value.hint


def test_a_graph_of_another_kind_is_damage(folder: Path, checkpoint: Path, tmp_path: Path) -> None:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    export.export(checkpoint, tmp_path, precision="float32")
    write_card(tmp_path)
    assert isinstance(load_encoder("memdb-encoder-v1", threads=1), OnnxEncoder)
    with pytest.raises(ModelDamaged, match="gives"):
        load_compressor(tmp_path, threads=1)("ao bo")


@pytest.mark.parametrize("rate", [0, 1.5, float("nan")])
def test_a_rate_that_is_none_is_refused(folder: Path, rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        load_compressor(folder, rate=rate)
    compressor = load_compressor(folder, threads=1)
    assert isinstance(compressor, Lingua)
    with pytest.raises(InputError, match="rate"):
        compressor.compress("ao", rate)


def test_too_few_tokens_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no room"):
        load_compressor(copied(folder, tmp_path, max_tokens=2))

"""Attention read from inside a graph against the same network in torch."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import ModelDamaged
from memdb.models import attention as attention_module
from memdb.models.attention import AttentionReader, attention_shares
from memdb.models.card import AttentionShape, EncoderCard, read_card_of, sha256_of
from memdb.models.graph_bytes import as_output
from memdb.models.ports import AttentionScorer
from memdb.models.registry import WEIGHTS, load_compressor, load_encoder
from tests.models.conftest import CONFIG, WORDS
from tests.models.exported import PIECES, attention_card, token_classifier, write_card, write_folder

PAIRS = [
    ("w0 w1 w2", "w3 w4"),
    ("w3", "w3"),
    ("w5 w6 w7 w8 w9 w10 w11 w12 w13", "w1 w0 w14 w2 w5 w6 w7 w8 w9 w10"),  # both longer than is read
    ("w2 w1", ""),
    ("", "w4"),
    ("w3 w4", "w0 w1 w2"),
]


def mean_attention(attentions: list[np.ndarray], first: int, second: int) -> float:
    """The score of a pair from attentions [heads, t, t] of a text of `first` and `second` tokens."""
    if not first or not second:
        return 0.0
    mean = np.stack(attentions).mean((0, 1))
    return float(mean[1 + first : 1 + first + second, 1 : 1 + first].sum(1).mean())


def in_torch(model: Any, vocabulary: list[str], layers: int, limit: int) -> list[float]:
    """The scores of PAIRS, from what transformers says of attention in the last `layers` layers."""
    import torch

    scores = []
    for pair in PAIRS:
        one, two = ([vocabulary.index(word) for word in text.split()][:limit] for text in pair)
        with torch.no_grad():
            found = model(torch.tensor([[2, *one, *two, 3]]), output_attentions=True).attentions
        scores.append(mean_attention([layer[0].numpy() for layer in found[-layers:]], len(one), len(two)))
    return scores


@pytest.fixture(scope="module")
def model() -> Any:
    return token_classifier()


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(model, tmp_path_factory.mktemp("exported"), attention=attention_card())


def test_it_is_what_transformers_attends(model: Any, folder: Path) -> None:
    scorer = load_compressor(folder, threads=1)
    assert isinstance(scorer, AttentionScorer)
    expected = in_torch(model, PIECES, layers=2, limit=8)
    assert np.ptp(expected[:3]) > 0.05
    assert np.abs(scorer.attention(PAIRS) - expected).max() < 1e-5


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.03)])
def test_an_encoder_of_ours_attends_alike(
    checkpoint: Path, tmp_path: Path, precision: str, tolerance: float
) -> None:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="the train extra is not installed")
    from safetensors.numpy import load_file

    export.export(checkpoint, tmp_path, precision=precision)
    shape = read_card_of(tmp_path, EncoderCard).attention
    name = "encoder.layer.1.attention.self"  # the last third of two layers is one
    assert shape == AttentionShape(heads=4, layers=[(f"{name}.query", f"{name}.key")], text_tokens=31)
    encoder = load_encoder(tmp_path, threads=1)
    assert isinstance(encoder, AttentionScorer)
    reference = transformers.BertModel(
        transformers.BertConfig(**CONFIG, attn_implementation="eager"), add_pooling_layer=False
    ).eval()
    tensors = load_file(checkpoint / "model.safetensors")
    reference.load_state_dict({key: torch.from_numpy(value) for key, value in tensors.items()})
    expected = in_torch(reference, WORDS, layers=1, limit=31)
    assert np.abs(encoder.attention(PAIRS) - expected).max() < tolerance


def test_shares_of_hand_made_queries_and_keys() -> None:
    query = np.array([[[2.0, 0, 0, 0]]], np.float32)  # one head, one token, d = 4
    key = np.array([[[np.log(3), 0, 0, 0], [0, 5, 0, 0]]], np.float32)
    # 2 * log 3 / sqrt 4 = log 3 against 0: shares 3/4 and 1/4
    assert np.allclose(attention_shares(query, key), [[[0.75, 0.25]]])


def test_huge_logits_do_not_overflow() -> None:
    query = np.full((1, 1, 1), 1e4, np.float32)
    key = np.array([[[1e4], [-1e4]]], np.float32)
    assert np.array_equal(attention_shares(query, key), [[[1, 0]]])


def test_the_embedded_encoder_attends_as_it_did() -> None:
    encoder = load_encoder(threads=1)
    assert isinstance(encoder, AttentionScorer)
    hospital = "I went to the hospital yesterday."
    scores = encoder.attention(
        [(hospital, "Oh no, why did you go to the hospital?"), (hospital, "My cat likes tuna.")]
    )
    assert np.abs(scores - [0.1352, 0.1830]).max() < 2e-2


def test_the_file_keeps_its_bytes_and_vectors_keep_theirs() -> None:
    encoder = load_encoder(threads=1)
    before = encoder.encode(["My cat likes tuna."])
    assert isinstance(encoder, AttentionScorer)
    encoder.attention(PAIRS[:1])
    assert encoder.encode(["My cat likes tuna."]).tobytes() == before.tobytes()
    card = read_card_of(WEIGHTS / "memdb-encoder-v1", EncoderCard)
    assert encoder.sha256 == card.files["model.onnx"] == sha256_of(WEIGHTS / "memdb-encoder-v1/model.onnx")


def test_the_second_graph_is_loaded_once_and_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    class Counted(AttentionReader):
        def __init__(self, *args: Any, **given: Any) -> None:
            made.append(given)
            super().__init__(*args, **given)

    monkeypatch.setattr(attention_module, "AttentionReader", Counted)
    encoder = load_encoder(threads=1)
    encoder.encode(["w1"])
    assert not made
    assert isinstance(encoder, AttentionScorer)
    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(encoder.attention, [PAIRS] * 8))
    assert len(made) == 1
    assert made[0]["threads"] == 1
    assert all(score.tobytes() == scores[0].tobytes() for score in scores)


def test_a_card_without_attention_makes_no_scorer(folder: Path, tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    write_card(tmp_path)
    assert not isinstance(load_compressor(tmp_path, threads=1), AttentionScorer)
    export = pytest.importorskip("memdb.models.export")
    assert export.attention_shape(CONFIG | {"num_hidden_layers": 12})["layers"][0][0].startswith(
        "encoder.layer.8."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": [["nothing", "no more"]]}, "runtime"),
        ({"heads": 5}, "multiple of 5"),
        ({"layers": [["/bert/embeddings/Slice_output_0"] * 2]}, "runtime"),  # places, which are integers
    ],
    ids=str,
)
def test_a_card_that_names_what_is_not_there_is_damage(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    write_card(tmp_path, attention=attention_card() | changes)
    scorer = load_compressor(tmp_path, threads=1)
    assert isinstance(scorer, AttentionScorer)
    with pytest.raises(ModelDamaged, match=message):
        scorer.attention(PAIRS)


@pytest.mark.parametrize("changes", [{"heads": 0}, {"layers": []}, {"text_tokens": 0}, {"layers": [["q"]]}])
def test_a_card_with_a_bad_shape_is_refused(folder: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    write_card(tmp_path, attention=attention_card() | changes)
    with pytest.raises(ModelDamaged, match=r"card\.json"):
        load_compressor(tmp_path)


def test_weights_beside_the_graph_are_found(model: Any, folder: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("onnx", reason="onnx is not installed")
    library.save_model(
        library.load(folder / "model.onnx"),
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=0,
    )
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    write_card(tmp_path, attention=attention_card())
    scorer = load_compressor(tmp_path, threads=1)
    assert isinstance(scorer, AttentionScorer)
    assert np.abs(scorer.attention(PAIRS) - in_torch(model, PIECES, layers=2, limit=8)).max() < 1e-5


@pytest.mark.parametrize("name", ["q", "x" * 130, "é" * 9000])
def test_an_output_is_declared_as_onnx_declares_it(name: str) -> None:
    library = pytest.importorskip("onnx", reason="onnx is not installed")
    parsed = library.ModelProto.FromString(as_output(name))
    expected = library.helper.make_empty_tensor_value_info(name)
    expected.type.tensor_type.elem_type = library.TensorProto.FLOAT
    assert parsed == library.ModelProto(graph=library.GraphProto(output=[expected]))


def test_control_tokens_in_a_text_are_text(folder: Path) -> None:
    scorer = load_compressor(folder, threads=1)
    assert isinstance(scorer, AttentionScorer)
    named, unknown = scorer.attention([("w1", "[SEP] w2"), ("w1", "a q a w2")])
    assert named == unknown  # three pieces that the vocabulary lacks


def test_cards_are_json_of_pairs() -> None:
    card = json.loads((WEIGHTS / "memdb-encoder-v1" / "card.json").read_text())
    assert [len(layer) for layer in card["attention"]["layers"]] == [2, 2]

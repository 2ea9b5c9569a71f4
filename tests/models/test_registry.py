"""Finding, checking and describing models; nothing is fetched unless asked."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models import onnx, padding, registry
from memdb.models.card import EncoderCard, RerankerCard, read_card, sha256_of
from memdb.models.fakes import OverlapReranker
from memdb.models.onnx import OnnxEncoder, OnnxReranker
from memdb.models.ports import FIELDS
from memdb.models.qwen3 import Qwen3OnnxReranker
from memdb.models.registry import (
    WEIGHTS,
    as_reranker,
    load_backbone,
    load_encoder,
    load_reranker,
    registered,
    registered_rerankers,
)
from tests.models.tiny_qwen3 import make

EMBEDDED = WEIGHTS / registry.DEFAULT_ENCODER


@pytest.fixture
def folder(checkpoint: Path, tmp_path: Path) -> Path:
    """A tiny encoder in memdb's own layout."""
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    export.export(checkpoint, tmp_path / "tiny", precision="float32")
    return tmp_path / "tiny"


@pytest.fixture
def foreign(folder: Path, checkpoint: Path, tmp_path: Path) -> Path:
    """The same as Hugging Face lays it out."""
    target = tmp_path / "foreign"
    (target / "onnx").mkdir(parents=True)
    shutil.copy(folder / "model.onnx", target / "onnx" / "model.onnx")
    shutil.copy(folder / "tokenizer.json", target)
    shutil.copy(checkpoint / "config.json", target)
    return target


@pytest.fixture
def reranker_folder(reranker_checkpoint: Path, tmp_path: Path) -> Path:
    """A tiny cross-encoder in memdb's own layout."""
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    export.export(reranker_checkpoint, tmp_path / "judge", kind="reranker", precision="float32")
    return tmp_path / "judge"


@pytest.fixture
def cross_encoder(reranker_folder: Path, tmp_path: Path) -> Path:
    """The same as Hugging Face lays it out."""
    target = tmp_path / "cross-encoder"
    (target / "onnx").mkdir(parents=True)
    shutil.copy(reranker_folder / "model.onnx", target / "onnx" / "model.onnx")
    shutil.copy(reranker_folder / "tokenizer.json", target)
    config = {
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "max_position_embeddings": 64,
    }
    (target / "config.json").write_text(json.dumps(config))
    return target


def rewrite(file: Path, **changes: object) -> None:
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps(content))


def test_the_embedded_encoder_loads_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    encoder = load_encoder(threads=1)
    assert isinstance(encoder, OnnxEncoder)
    assert (encoder.name, encoder.dimension, encoder.max_tokens) == ("memdb-encoder-v1", 384, 256)
    assert encoder.provider == "CPUExecutionProvider"
    assert encoder.sha256 == sha256_of(EMBEDDED / "model.onnx")


def test_the_embedded_card_is_complete_and_small() -> None:
    card = read_card(EMBEDDED)
    assert card.licence == "Apache-2.0"
    assert card.source
    assert card.metrics["nDCG@10"] > card.metrics["nDCG@10 of all-MiniLM-L6-v2"]


def test_the_embedded_models_are_small_and_their_cards_tell_how_they_were_trained() -> None:
    folders = [registry.WEIGHTS / name for name in (*registered(), *registered_rerankers())]
    assert sum(file.stat().st_size for folder in folders for file in folder.iterdir()) < 60e6
    for folder in folders:
        card = read_card(folder)
        assert card.licence == "Apache-2.0"
        assert {"training", "seed", "data", "pool_sha256", "weights_sha256"} <= set(card.made)
        assert card.metrics


def test_names_are_registered() -> None:
    assert registry.DEFAULT_ENCODER in registered()
    assert load_encoder(registry.DEFAULT_ENCODER, threads=1).name == registry.DEFAULT_ENCODER


def test_a_folder_loads_by_path_and_by_str(folder: Path) -> None:
    for spec in (folder, str(folder)):
        assert load_encoder(spec, threads=1).dimension == 32


@pytest.mark.parametrize("spec", ["no-such-model", Path("/no/such/folder"), "", "../nowhere"])
def test_what_is_not_there_is_not_found(
    spec: str | Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound) as caught:
        load_encoder(spec)
    assert caught.value.hint


def test_another_files_bytes_are_refused(folder: Path) -> None:
    data = bytearray((folder / "model.onnx").read_bytes())
    data[-1] ^= 1
    (folder / "model.onnx").write_bytes(data)
    with pytest.raises(ModelDamaged, match=r"model\.onnx"):
        load_encoder(folder)


def test_a_changed_tokenizer_is_refused(folder: Path) -> None:
    rewrite(folder / "tokenizer.json", truncation=None)
    with pytest.raises(ModelDamaged, match=r"tokenizer\.json"):
        load_encoder(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelNotFound, match=r"tokenizer\.json"):
        load_encoder(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"pooling": "max"},
        {"dimension": "32"},
        {"dimension": 0},
        {"max_tokens": 0},
        {"files": {}},
        {"files": {"model.onnx": "00"}},
        {"name": None},
    ],
    ids=str,
)
def test_a_bad_card_is_refused(folder: Path, changes: dict[str, object]) -> None:
    rewrite(folder / "card.json", **changes)
    with pytest.raises(ModelDamaged, match=r"card\.json"):
        load_encoder(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_card_that_is_no_json_object_is_refused(folder: Path, content: bytes) -> None:
    (folder / "card.json").write_bytes(content)
    with pytest.raises(ModelDamaged, match=r"card\.json"):
        load_encoder(folder)


def test_a_card_with_another_dimension_than_the_model_is_refused(folder: Path) -> None:
    rewrite(folder / "card.json", dimension=16)
    with pytest.raises(ModelDamaged, match="gives"):
        load_encoder(folder, threads=1).encode(["w1"])


@pytest.mark.parametrize(("name", "message"), [("model.onnx", "runtime"), ("tokenizer.json", "tokenizer")])
def test_rubbish_under_a_right_digest_is_damage(folder: Path, name: str, message: str) -> None:
    (folder / name).write_bytes(b"rubbish")
    files = {file: sha256_of(folder / file) for file in ("model.onnx", "tokenizer.json")}
    rewrite(folder / "card.json", files=files)
    with pytest.raises(ModelDamaged, match=message):
        load_encoder(folder)


def test_a_hugging_face_folder_loads_and_agrees(folder: Path, foreign: Path) -> None:
    ours, theirs = load_encoder(folder, threads=1), load_encoder(foreign, threads=1)
    assert theirs.name == "foreign"
    assert theirs.sha256 == ours.sha256
    assert np.array_equal(ours.encode(["w1 w2", "w3"]), theirs.encode(["w1 w2", "w3"]))


def test_a_hugging_face_folder_says_how_it_pools_and_what_it_puts_in_front(foreign: Path) -> None:
    (foreign / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (foreign / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (foreign / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (foreign / "config_sentence_transformers.json").write_text('{"prompts": {"query": "w9 "}}')
    card = read_card(foreign)
    assert isinstance(card, EncoderCard)
    assert (card.pooling, card.max_tokens, card.query_prefix, card.document_prefix) == ("cls", 32, "w9 ", "")
    encoder = load_encoder(foreign, threads=1)
    asked = encoder.encode(["w1"], kind="query")
    assert np.abs(asked - encoder.encode(["w9 w1"])).max() < 1e-6
    assert np.abs(asked - encoder.encode(["w1"])).max() > 1e-3


def test_cls_pooling_takes_the_first_token() -> None:
    hidden = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [1, 1, 1]])
    assert onnx._pool(hidden, mask, "cls").tolist() == [[0, 1], [6, 7]]
    assert onnx._pool(hidden, mask, "mean").tolist() == [[1, 2], [8, 9]]


def test_unknown_pooling_is_refused_rather_than_guessed(foreign: Path) -> None:
    (foreign / "1_Pooling").mkdir()
    (foreign / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ModelError, match="max_tokens"):
        load_encoder(foreign)


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "config.json"])
def test_a_hugging_face_folder_without_a_file_is_not_found(foreign: Path, name: str) -> None:
    (foreign / name).unlink()
    with pytest.raises(ModelNotFound):
        load_encoder(foreign)


def test_a_hugging_face_folder_without_a_width_is_damaged(foreign: Path) -> None:
    (foreign / "config.json").write_text("{}")
    with pytest.raises(ModelDamaged, match="do not describe"):
        load_encoder(foreign)


def test_the_hub_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelNotFound, match="huggingface-hub") as caught:
        load_encoder("hub:org/name")
    assert "pip install" in caught.value.hint


def test_the_hub_is_asked_for_the_named_files_only(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")
    asked: list[tuple[str, list[str]]] = []

    def download(repository: str, *, allow_patterns: list[str]) -> str:
        asked.append((repository, allow_patterns))
        return str(foreign)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert load_encoder("hub:org/name", threads=1).dimension == 32
    assert asked == [("org/name", registry.HUB_FILES)]


def test_a_hub_that_cannot_be_reached_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")

    def download(repository: str, **options: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(hub, "snapshot_download", download)
    with pytest.raises(ModelNotFound, match="no route") as caught:
        load_encoder("hub:org/name")
    assert caught.value.retryable


def test_batches_are_bounded_by_padded_tokens_and_lose_no_row() -> None:
    lengths = [int(length) for length in np.random.default_rng(5).integers(2, 257, 500)] + [5000]
    batches = list(padding.batches(lengths))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= padding.BATCH_TOKENS


def test_a_vector_without_direction_is_an_error() -> None:
    for value in (0.0, np.nan, np.inf):
        with pytest.raises(ModelError, match="direction"):
            onnx._unit(np.full((1, 4), value, np.float32))


def test_cuda_is_taken_where_the_card_allows_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    real = onnxruntime.InferenceSession
    asked: list[list[str]] = []

    def session(file: str, options: object, *, providers: list[str]) -> object:
        asked.append(providers)
        return real(file, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: list(onnx.PROVIDERS))
    load_encoder(folder)
    load_encoder()
    assert asked == [["CUDAExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"]]


# --- Rerankers


def test_a_rerankers_folder_loads(reranker_folder: Path) -> None:
    for spec in (reranker_folder, str(reranker_folder)):
        made = load_reranker(spec, threads=1)
        assert isinstance(made, OnnxReranker)
        assert (made.name, made.max_tokens, made.fields) == ("memdb-reranker-v1", 256, FIELDS)
        assert made.sha256 == sha256_of(reranker_folder / "model.onnx")
        assert made.provider == "CPUExecutionProvider"


def test_a_cross_encoder_of_hugging_face_needs_no_card(reranker_folder: Path, cross_encoder: Path) -> None:
    ours, theirs = load_reranker(reranker_folder, threads=1), load_reranker(cross_encoder, threads=1)
    assert (theirs.name, theirs.fields, theirs.sha256) == ("cross-encoder", FIELDS, ours.sha256)
    assert theirs.max_tokens == 64
    assert np.array_equal(ours.score("w1", ["w2", "w3"]), theirs.score("w1", ["w2", "w3"]))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"model_max_length": 32}, 32),
        ({"model_max_length": 1e30}, 64),
        ({}, 64),
        ({"model_max_length": None}, 64),
    ],
    ids=str,
)
def test_a_pair_is_as_long_as_model_and_tokenizer_go(
    cross_encoder: Path, said: dict[str, object], expected: int
) -> None:
    (cross_encoder / "tokenizer_config.json").write_text(json.dumps(said))
    assert read_card(cross_encoder).max_tokens == expected


def test_a_pair_has_a_bound_of_ours(cross_encoder: Path) -> None:
    rewrite(cross_encoder / "config.json", max_position_embeddings=8192)
    assert read_card(cross_encoder).max_tokens == settings.PAIR_TOKENS


@pytest.mark.parametrize(
    "labels", [{"num_labels": 2}, {"id2label": {"0": "a", "1": "b", "2": "c"}}, {"id2label": None}]
)
def test_a_classifier_is_no_reranker(cross_encoder: Path, labels: dict[str, object]) -> None:
    rewrite(cross_encoder / "config.json", **labels)
    with pytest.raises(ModelError, match="classes apart"):
        load_reranker(cross_encoder)


def test_a_qwen3_cut_down_to_one_unit_is_refused(cross_encoder: Path) -> None:
    rewrite(cross_encoder / "config.json", architectures=["Qwen3ForSequenceClassification"])
    with pytest.raises(ModelError, match="Qwen3") as caught:
        load_reranker(cross_encoder)
    assert caught.value.hint


def test_a_qwen3_reranker_is_known_by_its_architecture(tmp_path: Path) -> None:
    assert isinstance(load_reranker(make.FOLDER, threads=1), Qwen3OnnxReranker)
    card = read_card(make.FOLDER)
    assert isinstance(card, RerankerCard)
    assert (card.reads, card.max_tokens, card.name) == ("qwen3", settings.YES_NO_TOKENS, "tiny_qwen3")
    folder = tmp_path / "embedding"
    shutil.copytree(make.FOLDER, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    with pytest.raises(ModelError, match="lasttoken"):
        load_encoder(folder)


def test_a_card_may_name_the_way_of_reading(tmp_path: Path) -> None:
    folder = tmp_path / "carded"
    shutil.copytree(make.FOLDER, folder)
    files = {name: sha256_of(folder / name) for name in ("model.onnx", "tokenizer.json")}
    card = {"kind": "reranker", "name": "mine", "files": files, "fields": ["fact"], "reads": "qwen3"}
    (folder / "card.json").write_text(json.dumps({**card, "max_tokens": 700}))
    made = load_reranker(folder, threads=1)
    assert isinstance(made, Qwen3OnnxReranker)
    assert (made.name, made.max_tokens, made.fields) == ("mine", 700, ("fact",))
    assert made.sha256 == files["model.onnx"]


def test_the_other_kind_is_refused_and_says_where_it_goes(
    folder: Path, foreign: Path, reranker_folder: Path, cross_encoder: Path
) -> None:
    for encoder in (folder, foreign, EMBEDDED, registry.DEFAULT_ENCODER):
        with pytest.raises(InputError, match="is an encoder, not a reranker") as caught:
            load_reranker(encoder)
        assert "load_encoder" in caught.value.hint
    for reranker in (reranker_folder, cross_encoder, make.FOLDER):
        with pytest.raises(InputError, match="is a reranker, not an encoder") as caught:
            load_encoder(reranker)
        assert "load_reranker" in caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": []},
        {"fields": ["fact", "fact"]},
        {"fields": ["colour"]},
        {"fields": None},
        {"kind": "judge"},
        {"reads": "tea leaves"},
        {"max_tokens": 0},
        {"files": {}},
    ],
    ids=str,
)
def test_a_bad_rerankers_card_is_refused(reranker_folder: Path, changes: dict[str, object]) -> None:
    rewrite(reranker_folder / "card.json", **changes)
    with pytest.raises(ModelDamaged, match=r"card\.json"):
        load_reranker(reranker_folder)


def test_another_rerankers_bytes_are_refused(reranker_folder: Path) -> None:
    with (reranker_folder / "model.onnx").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ModelDamaged, match=r"model\.onnx"):
        load_reranker(reranker_folder)


@pytest.mark.parametrize("spec", ["no-such-model", Path("/no/such/folder"), "openai:gpt"])
def test_what_is_no_reranker_is_not_found(spec: str | Path) -> None:
    with pytest.raises(ModelNotFound, match="no reranker") as caught:
        load_reranker(spec)
    assert ".gguf" in caught.value.hint


def test_the_hub_is_asked_for_rerankers_too(cross_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")
    monkeypatch.setattr(hub, "snapshot_download", lambda repository, **options: str(cross_encoder))
    assert load_reranker("hub:org/name", threads=1).max_tokens == 64


def test_names_of_each_kind_are_registered(
    folder: Path, reranker_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert registry.DEFAULT_ENCODER not in registered_rerankers()
    monkeypatch.setattr(registry, "WEIGHTS", tmp_path)
    assert (registered(), registered_rerankers()) == (["tiny"], ["judge"])
    assert load_reranker("judge", threads=1).fields == FIELDS
    reranker_folder.rename(tmp_path / registry.DEFAULT_RERANKER)
    assert load_reranker(threads=1).name == registry.DEFAULT_RERANKER
    with pytest.raises(InputError, match="not an encoder"):
        load_encoder(registry.DEFAULT_RERANKER)


def test_weights_beside_the_graph_are_part_of_what_it_is(foreign: Path) -> None:
    alone = read_card(foreign)
    (foreign / "onnx" / "model.onnx_data").write_bytes(b"one")
    one = read_card(foreign)
    (foreign / "onnx" / "model.onnx_data").write_bytes(b"two")
    two = read_card(foreign)
    assert alone.sha256 == sha256_of(foreign / "onnx" / "model.onnx")
    assert len({alone.sha256, one.sha256, two.sha256}) == 3
    assert len(one.sha256) == 64


def test_a_reranker_is_taken_as_it_is_or_by_name(reranker_folder: Path) -> None:
    given = OverlapReranker()
    assert as_reranker(given) is given
    assert as_reranker(str(reranker_folder)).name == "memdb-reranker-v1"
    for wrong in (None, 3, load_encoder(threads=1)):
        with pytest.raises(InputError, match="is no reranker"):
            as_reranker(wrong)


# --- Backbones


@pytest.mark.parametrize("spec", ["", "openai", "openai:", "gpt", "model.bin", Path("/no/folder"), "hub:a/b"])
def test_what_is_no_backbone_is_not_found(spec: str | Path) -> None:
    with pytest.raises(ModelNotFound, match="no backbone") as caught:
        load_backbone(spec)
    assert ".gguf" in caught.value.hint
    assert "openai:" in caught.value.hint


def test_a_gguf_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for spec in (tmp_path / "a.gguf", str(tmp_path / "a.gguf")):
        with pytest.raises(ModelNotFound, match=r"a\.gguf"):
            load_backbone(spec, threads=1, context_tokens=64)


def test_a_model_in_this_process_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="base_url"):
        load_backbone(tmp_path / "a.gguf", base_url="http://127.0.0.1:1/v1")


def test_an_endpoint_is_loaded_by_the_name_of_its_model() -> None:
    pytest.importorskip("openai", reason="openai is not installed")
    backbone = load_backbone("openai:qwen3:8b", base_url="http://127.0.0.1:1/v1", context_tokens=99)
    backbone.close()
    assert (backbone.name, backbone.identity) == ("qwen3:8b", "openai:qwen3:8b")
    assert backbone.context_tokens == 99
    default = load_backbone("openai:m", base_url="http://127.0.0.1:1/v1")
    default.close()
    assert default.context_tokens == settings.API_CONTEXT_TOKENS

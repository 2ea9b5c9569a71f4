"""The cross-encoder: what of a pair reaches the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models import onnx, padding
from memdb.models.onnx import Frame, OnnxReranker, Runtime
from memdb.models.padding import padded

CLS, SEP, UNK = 2, 3, 1  # of the tiny tokenizer; the word w0 is token 4


@pytest.fixture(scope="module")
def files(reranker_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    folder = tmp_path_factory.mktemp("cross-encoder")
    export.export(reranker_checkpoint, folder, kind="reranker", precision="float32")
    return folder / "model.onnx", folder / "tokenizer.json"


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, list[list[int]]]]:
    """What reaches a graph from now on."""
    seen: list[dict[str, list[list[int]]]] = []
    run = Runtime.run

    def watched(self: Runtime, output: str, feed: dict[str, Any]) -> Any:
        seen.append({name: value.tolist() for name, value in feed.items()})
        return run(self, output, feed)

    monkeypatch.setattr(Runtime, "run", watched)
    return seen


def made(files: tuple[Path, Path], max_tokens: int = 12) -> OnnxReranker:
    return OnnxReranker(*files, name="tiny", sha256="", max_tokens=max_tokens, threads=1)


def test_a_pair_is_framed_and_its_parts_are_numbered(files: tuple[Path, Path], fed: list[Any]) -> None:
    made(files).score("w0 w1", ["w2 w3 w4", "w5"])
    (feed,) = fed
    assert feed["input_ids"] == [[CLS, 4, 5, SEP, 9, SEP, 0, 0], [CLS, 4, 5, SEP, 6, 7, 8, SEP]]
    assert feed["attention_mask"] == [[1] * 6 + [0] * 2, [1] * 8]
    assert feed["token_type_ids"] == [[0] * 4 + [1] * 2 + [0] * 2, [0] * 4 + [1] * 4]


def test_the_frame_is_the_tokenizers_own(files: tuple[Path, Path]) -> None:
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_file(str(files[1]))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    templates = [
        tokenizer.post_processor,
        processors.RobertaProcessing(("[SEP]", SEP), ("[CLS]", CLS)),
        processors.TemplateProcessing(single="$A", pair="$A:0 [SEP]:0 $B:1", special_tokens=[("[SEP]", SEP)]),
        processors.TemplateProcessing(
            single="$A", pair="[CLS]:1 $A:0 $B:0 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
        ),
    ]
    for template in templates:
        tokenizer.post_processor = template
        frame = onnx._frame(tokenizer, "tiny")
        for question, document in (("w0 w1", "w2"), ("w3", "w4 w5 w6")):
            expected = tokenizer.encode(question, document)
            plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in (question, document)]
            assert frame.around(*plain) == (expected.ids, expected.type_ids)
            assert frame.size == expected.special_tokens_mask.count(1)


def test_a_tokenizer_that_turns_a_pair_around_is_refused(files: tuple[Path, Path]) -> None:
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_file(str(files[1]))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$B $A", special_tokens=[])
    with pytest.raises(ModelDamaged, match="no template for a pair"):
        onnx._frame(tokenizer, "tiny")


def test_the_document_is_cut_to_what_the_question_leaves(files: tuple[Path, Path], fed: list[Any]) -> None:
    made(files).score("w0 w1", ["w2 w3 w4 w5 w6 w7 w8 w9"])
    assert fed[0]["input_ids"] == [[CLS, 4, 5, SEP, 6, 7, 8, 9, 10, 11, 12, SEP]]


def test_the_question_is_cut_to_half(files: tuple[Path, Path], fed: list[Any]) -> None:
    made(files).score("w0 " * 50, ["w2 w3 w4 w5", ""])
    assert fed[0]["input_ids"][1] == [CLS, *[4] * 6, SEP, 6, 7, 8, SEP]
    assert fed[0]["input_ids"][0][:9] == [CLS, *[4] * 6, SEP, SEP]


def test_the_names_of_special_tokens_are_text(files: tuple[Path, Path], fed: list[Any]) -> None:
    made(files, 40).score("[CLS]", ["w2 [SEP] w3 [PAD]"])
    (ids,) = fed[0]["input_ids"]
    assert (ids.count(CLS), ids.count(SEP), ids.count(0)) == (1, 2, 0)
    assert ids.count(UNK) == 3 * 3


def test_the_least_of_tokens_holds_a_token_of_each(files: tuple[Path, Path], fed: list[Any]) -> None:
    made(files, 8).score("w0 w1 w2 w3 w4", ["w5 w6"])
    assert fed[0]["input_ids"] == [[CLS, 4, 5, 6, 7, SEP, 9, SEP]]
    with pytest.raises(InputError, match="7 tokens are too few"):
        made(files, 7)


def test_tokens_are_counted_beyond_every_limit(files: tuple[Path, Path]) -> None:
    reranker = made(files)
    assert reranker.count_tokens("") == 0
    assert reranker.count_tokens("w1 w2 unknown [SEP]") == 6
    assert reranker.count_tokens("w1 " * 5000) == 5000


def test_scores_go_back_to_their_documents(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [" ".join(f"w{number % 36}" for number in range(at, at + at % 17)) for at in range(60)]
    reranker = made(files, 40)
    expected = [reranker.score("w1 w2", [document])[0] for document in documents]
    monkeypatch.setattr(padding, "BATCH_TOKENS", 64)
    monkeypatch.setattr(onnx, "SLICE_TEXTS", 7)
    assert np.abs(reranker.score("w1 w2", documents) - expected).max() < 1e-4


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1, 1), ()])
def test_a_graph_that_gives_no_score_each_is_damaged(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(Runtime, "run", lambda *given: np.zeros(shape, np.float32))
    with pytest.raises(ModelDamaged, match=r"not \[n, 1\]"):
        made(files).score("w0", ["w1"])


def test_logits_of_one_dimension_are_as_good(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "run", lambda *given: np.array([2.5], np.float32))
    assert made(files).score("w0", ["w1"]).tolist() == [2.5]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_an_error(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.setattr(Runtime, "run", lambda *given: np.array([[value]], np.float32))
    with pytest.raises(ModelError, match="no finite number"):
        made(files).score("w0", ["w1"])


def test_a_graph_that_asks_for_more_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    library = pytest.importorskip("onnx", reason="onnx is not installed")
    model = library.load(files[0])
    model.graph.input.append(library.helper.make_tensor_value_info("pixel_values", 1, ["n"]))
    library.save(model, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="pixel_values"):
        made((tmp_path / "model.onnx", files[1]))


def test_a_missing_file_is_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"none\.json"):
        made((files[0], tmp_path / "none.json"))


def test_what_the_runtime_cannot_do_is_a_model_error(
    files: tuple[Path, Path], tmp_path: Path, reranker_checkpoint: Path
) -> None:
    content = json.loads(files[1].read_text())
    content["model"]["vocab"]["outside"] = 5_000  # beyond the table of words
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="the model tiny failed"):
        made((files[0], tmp_path / "tokenizer.json")).score("w0", ["outside"])


@settings(deadline=None, derandomize=True)
@given(
    parts=st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=5, max_size=5),
    numbers=st.tuples(*[st.integers(0, 1)] * 5),
)
def test_a_frame_loses_no_token(parts: list[list[int]], numbers: tuple[int, int, int, int, int]) -> None:
    before, question, between, document, after = parts
    frame = Frame(before=before, between=between, after=after, segments=numbers)
    ids, segments = frame.around(question, document)
    assert ids == before + question + between + document + after
    assert segments == [number for number, part in zip(numbers, parts, strict=True) for _ in part]
    assert len(ids) == frame.size + len(question) + len(document)


def test_rows_are_filled_up_on_either_side() -> None:
    assert padded([[1, 2], [], [3]]).tolist() == [[1, 2], [0, 0], [3, 0]]
    assert padded([[1, 2], [], [3]], left=True).tolist() == [[1, 2], [0, 0], [0, 3]]

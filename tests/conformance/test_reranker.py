"""The contract of `ports.Reranker`, over every reranker that ships."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.models.fakes import OverlapReranker
from memdb.models.late_interaction import LateInteractionReranker
from memdb.models.ports import FIELDS, Reranker
from memdb.models.registry import DEFAULT_RERANKER, load_encoder, load_reranker, registered_rerankers
from tests.models.conftest import tiny_head, tiny_tensors, write_checkpoint
from tests.models.tiny_qwen3 import make

QUESTION = "When was Ana at the hospital?"
DOCUMENTS = [
    "Source: Ana: I was at the hospital on Tuesday.\nUtterance time: 2023-05-08",
    "Source: Ben: We bought a cat.",
    "x",
    "w1 w2 w3",
    "Fact: The train to Lyon leaves at seven.\nSource: Cleo: my sister and both dogs are coming along. " * 4,
]
ODD = [
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "pair \ud83d\ude00 and lone \udfff",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "猫が好きです",
    "مرحبا بالعالم",
    "e\u0301\u0301\u0301",
    "\r\n\t",
    "[CLS] [SEP] [PAD] [MASK]",
    "<|im_end|>\n<|im_start|>system\n<think></think>",
    "word " * 2000,
    "y" * 10_000,
    "!" * 10_000,
]
TOLERANCE = 1e-3  # of one score, alone and among others


def _pair(folder: Path) -> Reranker:
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    source = write_checkpoint(folder, tiny_tensors() | tiny_head())
    export.export(source, folder / "out", kind="reranker", metrics={"max_tokens": 64})
    return load_reranker(folder / "out", threads=1)


def _embedded(folder: Path) -> Reranker:
    if DEFAULT_RERANKER not in registered_rerankers():
        pytest.skip(f"the weights of {DEFAULT_RERANKER} are not here")
    return load_reranker(threads=1)


def _gguf(folder: Path) -> Reranker:
    for package in ("llama_cpp", "gguf", "torch", "transformers"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from tests.models.tiny_qwen3 import gguf_file

    return load_reranker(gguf_file.write(folder / "tiny.gguf"), threads=1)


MADE: dict[str, Callable[[Path], Reranker]] = {
    "overlap": lambda folder: OverlapReranker(),
    "pair": _pair,
    "embedded": _embedded,
    "qwen3": lambda folder: load_reranker(make.FOLDER, threads=1),
    "qwen3-gguf": _gguf,
    "late-interaction": lambda folder: LateInteractionReranker(load_encoder(threads=1)),
}


@pytest.fixture(scope="module", params=MADE)
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    return MADE[request.param](tmp_path_factory.mktemp("reranker"))


def test_it_is_a_reranker_and_says_what_it_is(reranker: Reranker) -> None:
    assert isinstance(reranker, Reranker)
    assert reranker.name
    assert len(reranker.sha256) == 64
    assert set(reranker.sha256) <= set("0123456789abcdef")
    assert reranker.max_tokens >= 16
    assert isinstance(reranker.fields, tuple)
    assert reranker.fields
    assert set(reranker.fields) <= set(FIELDS)


def test_scores_are_finite_float32_one_for_each_document(reranker: Reranker) -> None:
    scores = reranker.score(QUESTION, DOCUMENTS)
    assert (scores.shape, scores.dtype) == ((len(DOCUMENTS),), np.float32)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0


def test_no_documents_give_no_scores(reranker: Reranker) -> None:
    scores = reranker.score(QUESTION, [])
    assert (scores.shape, scores.dtype) == ((0,), np.float32)


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_any_str_is_a_legal_question_and_a_legal_document(reranker: Reranker, text: str) -> None:
    for question, document in ((QUESTION, text), (text, DOCUMENTS[0]), (text, text)):
        scores = reranker.score(question, [document])
        assert scores.shape == (1,)
        assert np.isfinite(scores).all()
    assert reranker.count_tokens(text) >= 0


def test_a_megabyte_is_a_legal_text(reranker: Reranker) -> None:
    for text in ("word " * 200_000, "z" * 1_000_000, "\n" * 1_000_000):
        assert np.isfinite(reranker.score(text, ["", text])).all()


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    question=st.text(st.characters(exclude_categories=[]), max_size=40),
    documents=st.lists(st.text(st.characters(exclude_categories=[]), max_size=40), max_size=4),
)
def test_any_list_of_str_is_legal(reranker: Reranker, question: str, documents: list[str]) -> None:
    scores = reranker.score(question, documents)
    assert scores.shape == (len(documents),)
    assert np.isfinite(scores).all()


def test_a_score_depends_on_the_question_and_its_document_alone(reranker: Reranker) -> None:
    documents = DOCUMENTS + ODD
    together = reranker.score(QUESTION, documents)
    alone = [reranker.score(QUESTION, [document])[0] for document in documents]
    assert np.abs(together - alone).max() < TOLERANCE


def test_scores_keep_the_order_of_the_documents(reranker: Reranker) -> None:
    documents = DOCUMENTS + ODD
    order = np.random.default_rng(7).permutation(len(documents))
    shuffled = reranker.score(QUESTION, [documents[at] for at in order])
    assert np.abs(shuffled - reranker.score(QUESTION, documents)[order]).max() < TOLERANCE


def test_duplicates_get_one_score(reranker: Reranker) -> None:
    first, _, second = reranker.score(QUESTION, [DOCUMENTS[0], DOCUMENTS[1], DOCUMENTS[0]])
    assert abs(first - second) < 1e-6


def test_it_gives_the_same_bytes_again(reranker: Reranker) -> None:
    one, two = (reranker.score(QUESTION, DOCUMENTS) for _ in range(2))
    assert one.tobytes() == two.tobytes()


def test_the_question_counts(reranker: Reranker) -> None:
    one, other = (
        reranker.score(question, DOCUMENTS) for question in ("We bought w1", "the train w2 to Lyon")
    )
    assert np.abs(one - other).max() > TOLERANCE


def test_what_is_beyond_the_limit_of_a_document_does_not_count(reranker: Reranker) -> None:
    beginning = "w1 w2 hospital " * reranker.max_tokens
    one, other = reranker.score(QUESTION, [f"{beginning} Ana", f"{beginning} When was w3"])
    assert abs(one - other) < TOLERANCE


def test_what_fits_beside_the_question_counts_to_its_last_word(reranker: Reranker) -> None:
    """A document with as many tokens as are said to be left is read whole: its end moves the score."""
    question = "Where is w9 then?"
    left = reranker.document_tokens(question)
    assert 0 < left <= reranker.max_tokens
    assert reranker.document_tokens(question * 3) <= left
    filling = "w1 w2 "
    times = (left - 2 - reranker.count_tokens(" w9")) // reranker.count_tokens(filling)
    while reranker.count_tokens(filling * times + "w9") > left:
        times -= 1
    same, other = reranker.score(question, [filling * times + "w8", filling * times + "w9"])
    assert same != other


def test_a_long_question_does_not_hide_the_document(reranker: Reranker) -> None:
    question = "Ana cat train w1 " * 3000
    assert np.ptp(reranker.score(question, ["w1 w2 Ana", "w5 w6 w7 cat train", "dog"])) > TOLERANCE


def test_more_documents_than_a_batch_holds(reranker: Reranker) -> None:
    documents = [f"{DOCUMENTS[number % 2]} {number % 5}" for number in range(60)]
    scores = reranker.score(QUESTION, documents)
    assert np.abs(scores[:10] - scores[10:20]).max() < TOLERANCE


def test_tokens_are_counted_without_a_limit(reranker: Reranker) -> None:
    assert reranker.count_tokens("") == 0
    few, many = (reranker.count_tokens("word " * count) for count in (4, 4000))
    assert 4 <= few <= 24
    assert many >= 4000 > reranker.max_tokens


def test_eight_threads_share_it(reranker: Reranker) -> None:
    questions = [f"{QUESTION} {number}" for number in range(8)]
    serial = [reranker.score(question, DOCUMENTS) for question in questions]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(reranker.score, questions, [DOCUMENTS] * 8))
    for expected, got in zip(serial, threaded, strict=True):
        assert np.abs(expected - got).max() < 1e-6


def test_one_str_is_refused(reranker: Reranker) -> None:
    with pytest.raises(InputError, match="list of documents"):
        reranker.score(QUESTION, "Ana was at the hospital.")


@pytest.mark.parametrize("wrong", [None, 1, b"bytes", ["list"]])
def test_what_is_no_str_is_refused(reranker: Reranker, wrong: object) -> None:
    with pytest.raises(InputError, match="document 1 is a"):
        reranker.score(QUESTION, ["fine", wrong])  # type: ignore[list-item]
    for documents in ([], ["fine"]):
        with pytest.raises(InputError, match="the question is a"):
            reranker.score(wrong, documents)  # type: ignore[arg-type]

"""Late interaction, and the vectors of tokens it is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdb.errors import InputError
from memdb.models import late_interaction, onnx
from memdb.models.fakes import HashEncoder
from memdb.models.late_interaction import LateInteractionReranker, TokenEncoder, max_sim
from memdb.models.onnx import OnnxEncoder
from memdb.models.ports import Kind
from memdb.models.registry import load_encoder

VECTORS = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8], "-": [-1.0, 0.0]}


class Letters:
    """A token is a character, its vector is in VECTORS."""

    name = "letters"
    sha256 = "0" * 64
    max_tokens = 4
    dimension = 2

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        return np.array([vectors.mean(axis=0) for vectors in self.token_vectors(texts)], np.float32)

    def count_tokens(self, text: str) -> int:
        return len(text)

    def token_vectors(self, texts: Sequence[str], *, kind: Kind = "document") -> list[NDArray[np.float32]]:
        rows = [[VECTORS[letter] for letter in text[:4]] for text in texts]
        return [np.array(row, np.float32).reshape(-1, 2) for row in rows]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    made = load_encoder(threads=1)
    assert isinstance(made, OnnxEncoder)
    return made


def test_each_token_of_the_question_takes_its_nearest() -> None:
    scores = LateInteractionReranker(Letters()).score("ab", ["a", "ab", "ba", "c", "-", "", "bc-"])
    assert np.abs(scores - [1, 2, 2, 1.4, -1, -2, 1.6]).max() < 1e-6


def test_a_question_without_tokens_tells_documents_not_apart() -> None:
    assert LateInteractionReranker(Letters()).score("", ["a", ""]).tolist() == [0, 0]


def test_it_bears_its_encoders_name_and_digest() -> None:
    reranker = LateInteractionReranker(Letters(), fields=["fact", "source"])
    assert (reranker.name, reranker.sha256) == ("late-interaction:letters", "0" * 64)
    assert (reranker.max_tokens, reranker.fields) == (4, ("fact", "source"))
    assert reranker.count_tokens("abc") == 3
    assert reranker.document_tokens("abc") == 4, "a question takes nothing from the document"


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = ["a", "b", "c", "-", ""] * 5
    whole = LateInteractionReranker(Letters()).score("abc", documents)
    monkeypatch.setattr(late_interaction, "SLICE_DOCUMENTS", 3)
    assert np.array_equal(LateInteractionReranker(Letters()).score("abc", documents), whole)


def test_an_encoder_without_vectors_of_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="HashEncoder"):
        LateInteractionReranker(HashEncoder())


@settings(deadline=None, derandomize=True)
@given(asked=st.integers(0, 5), said=st.integers(0, 5), seed=st.integers(0, 99))
def test_a_score_keeps_within_the_number_of_tokens(asked: int, said: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=(count, 4)).astype(np.float32) for count in (asked, said))
    left, right = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right))
    expected = sum(max((float(row @ other) for other in right), default=-1.0) for row in left)
    assert abs(max_sim(left, right) - expected) < 1e-5
    assert abs(max_sim(left, right)) <= asked + 1e-5


# --- The vectors of tokens


def test_an_onnx_encoder_is_a_token_encoder(encoder: OnnxEncoder) -> None:
    assert isinstance(encoder, TokenEncoder)


def test_rows_are_unit_vectors_one_for_each_token(encoder: OnnxEncoder) -> None:
    texts = ["I went to the hospital yesterday.", "", "x", "We bought a cat. " * 5]
    vectors = encoder.token_vectors(texts)
    assert [rows.shape for rows in vectors] == [(encoder.count_tokens(text), 384) for text in texts]
    assert [len(rows) for rows in vectors] == [7, 0, 1, 25]
    for rows in vectors:
        assert rows.dtype == np.float32
        assert np.abs(np.linalg.norm(rows, axis=1) - 1).max(initial=0) < 1e-5


def test_the_mean_of_the_hidden_states_is_the_texts_vector(encoder: OnnxEncoder) -> None:
    """What is pooled and what is taken apart are the same states, but for the two special tokens."""
    (rows,), (vector,) = (given(["We bought a cat."]) for given in (encoder.token_vectors, encoder.encode))
    assert float(rows.mean(axis=0) @ vector) > 0.5


def test_tokens_beyond_the_limit_have_no_vector_but_are_counted(encoder: OnnxEncoder) -> None:
    assert [len(rows) for rows in encoder.token_vectors(["cat " * 1000])] == [254]
    assert encoder.count_tokens("cat " * 1000) == 1000


def test_order_and_neighbours_do_not_show(encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{'word ' * (number % 7)}number {number}" for number in range(40)]
    alone = [encoder.token_vectors([text])[0] for text in texts]
    monkeypatch.setattr(onnx, "SLICE_TEXTS", 11)
    for one, other in zip(alone, encoder.token_vectors(texts), strict=True):
        assert np.abs(one - other).max() < 1e-3


def test_one_str_is_refused(encoder: OnnxEncoder) -> None:
    with pytest.raises(InputError, match="one text"):
        encoder.token_vectors("a cat")

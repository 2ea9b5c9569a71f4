"""The contract of `ports.Encoder`, over every encoder that ships."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.models.fakes import HashEncoder
from memdb.models.ports import Encoder
from memdb.models.registry import load_encoder

SENTENCES = [
    "I went to the hospital yesterday.",
    "Yesterday I had to go to the hospital.",
    "We bought a cat.",
    "Melanie: I'm swamped with the kids and work, but the pottery class on Thursdays keeps me sane, really.",
    "x",
    "The train to Lyon leaves at seven in the morning and my sister is coming along with both dogs. " * 4,
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
    "나는 어제 병원에 갔다",
    "مرحبا بالعالم",
    "e\u0301\u0301\u0301",
    "\u202eright to left",
    "\r\n\t",
    "[CLS] [SEP] [PAD] [MASK]",
    "word " * 2000,
    "y" * 10_000,
    "!" * 10_000,
]


@pytest.fixture(scope="module", params=["embedded", "hash-64", "hash-3", "hash-512"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    name = str(request.param)
    return load_encoder(threads=1) if name == "embedded" else HashEncoder(int(name.removeprefix("hash-")))


def test_it_is_an_encoder_and_says_what_it_is(encoder: Encoder) -> None:
    assert isinstance(encoder, Encoder)
    assert encoder.name
    assert len(encoder.sha256) == 64
    assert set(encoder.sha256) <= set("0123456789abcdef")
    assert encoder.dimension >= 1
    assert encoder.max_tokens >= 1


def test_rows_are_unit_vectors_of_float32(encoder: Encoder) -> None:
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (len(SENTENCES), encoder.dimension)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5


def test_no_texts_give_no_rows(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dimension)
    assert encoder.encode([]).dtype == np.float32


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_any_str_is_a_legal_text(encoder: Encoder, text: str) -> None:
    for kind in ("document", "query"):
        (vector,) = encoder.encode([text], kind=kind)
        assert np.isfinite(vector).all()
        assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(exclude_categories=[]), max_size=40), max_size=6))
def test_any_list_of_str_is_legal(encoder: Encoder, texts: list[str]) -> None:
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), encoder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_row_depends_on_its_text_alone(encoder: Encoder) -> None:
    texts = SENTENCES + ODD
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert np.abs(together - alone).max() < 1e-3


def test_rows_keep_the_order_of_the_texts(encoder: Encoder) -> None:
    texts = SENTENCES + ODD
    order = np.random.default_rng(7).permutation(len(texts))
    shuffled = encoder.encode([texts[at] for at in order])
    assert np.abs(shuffled - encoder.encode(texts)[order]).max() < 1e-3


def test_duplicates_get_one_vector(encoder: Encoder) -> None:
    first, other, second = encoder.encode(["We bought a cat.", "I sold the house.", "We bought a cat."])
    assert np.abs(first - second).max() < 1e-6
    assert np.abs(first - other).max() > 1e-2


def test_it_gives_the_same_bytes_again(encoder: Encoder) -> None:
    assert encoder.encode(SENTENCES).tobytes() == encoder.encode(SENTENCES).tobytes()


def test_more_texts_than_a_batch_holds(encoder: Encoder) -> None:
    texts = [f"{SENTENCES[number % 3]} {number % 11}" for number in range(200)]
    vectors = encoder.encode(texts)
    assert np.abs(vectors[:33] - vectors[33:66]).max() < 1e-3


def test_sixteen_threads_share_it(encoder: Encoder) -> None:
    lists = [[f"{text} {number}" for text in SENTENCES[:3]] for number in range(16)]
    serial = [encoder.encode(texts) for texts in lists]
    with ThreadPoolExecutor(16) as pool:
        threaded = list(pool.map(encoder.encode, lists))
    for expected, got in zip(serial, threaded, strict=True):
        assert np.abs(expected - got).max() < 1e-6


def test_like_is_nearer_than_unlike(encoder: Encoder) -> None:
    if encoder.dimension < 16:
        pytest.skip("a few components hold no likeness")
    hospital, again, cat = encoder.encode(SENTENCES[:3])
    assert hospital @ again > hospital @ cat + 0.2


def test_one_str_is_refused(encoder: Encoder) -> None:
    with pytest.raises(InputError, match="one text"):
        encoder.encode("I went to the hospital.")


@pytest.mark.parametrize("wrong", [None, 1, b"bytes"])
def test_what_is_no_str_is_refused(encoder: Encoder, wrong: object) -> None:
    with pytest.raises(InputError, match="text 1 is a"):
        encoder.encode(["fine", wrong])  # type: ignore[list-item]

"""Texts without their least telling words: stop words, percentiles, chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.language.compress import (
    StopWordCompressor,
    Word,
    chunks,
    percentile,
    stays,
    without_unlikely,
)
from memdb.language.sentences import WORD, Span

shorten = StopWordCompressor()
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=80)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("we went to the harbour with my sister", "went harbour sister"),
        ("Where is it? There it was, in the (old) house of Anna.", "Where? There, (old) house Anna."),
        ("I'm sure it's nice, don't ask", "I'm sure nice, don't ask"),
        ("the 3 of us", "3"),
        ("lost at 2b of the pier", "lost 2b pier"),
        ("the harbour\nand the pier", "harbour\npier"),
        ("(the) harbour", "() harbour"),
        ("an apple 🍏 for me", "apple 🍏"),
        ("猫が好き the cat", "猫が好き cat"),
        ("", ""),
        ("is it?", "is it?"),
        ("what is that... of the", "what is that... of the"),
        (" \n", " \n"),
    ],
)
def test_stop_words_are_dropped(text: str, short: str) -> None:
    assert shorten(text) == short


@given(ANY_TEXT)
def test_no_word_is_made_up_and_what_stays_is_there(text: str) -> None:
    words, left = WORD.findall(text), WORD.findall(shorten(text))
    rest = iter(words)
    assert all(word in rest for word in left)  # a subsequence
    assert [word for word in words if stays(word)] == [word for word in left if stays(word)]


@given(ANY_TEXT)
def test_shortening_again_changes_nothing(text: str) -> None:
    once = shorten(text)
    assert shorten(once).strip() == once.strip()


@pytest.mark.parametrize(
    ("word", "kept"), [("Ana", True), ("Ärger", True), ("b52", True), ("ana", False), ("", False)]
)
def test_what_stays(word: str, kept: bool) -> None:
    assert stays(word) is kept


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40),
    st.floats(0, 1),
)
def test_the_percentile_is_numpys(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(np.percentile(values, 100 * share), abs=1e-9)


def words_of(text: str, *probabilities: float, tokens: tuple[int, ...] = ()) -> list[Word]:
    counts = tokens or (1,) * len(probabilities)
    return [
        Word(match.start(), match.end(), probability, count)
        for match, probability, count in zip(WORD.finditer(text), probabilities, counts, strict=True)
    ]


def test_words_above_the_percentile_are_kept() -> None:
    text = "one red fox ran home"
    words = words_of(text, 0.1, 0.9, 0.8, 0.3, 0.5)
    assert without_unlikely(text, words, 0.5) == "red fox"  # the median is 0.5, and not above itself
    assert without_unlikely(text, words, 0.75) == "red fox home"  # the 25th percentile is 0.3
    assert without_unlikely(text, words, 0.8) == "red fox ran home"  # the 20th is 0.26
    assert without_unlikely(text, words, 1) == text


def test_a_word_counts_as_often_as_it_has_tokens() -> None:
    text = "one red fox ran home"
    words = words_of(text, 0.1, 0.9, 0.8, 0.3, 0.5, tokens=(1, 5, 1, 1, 1))
    assert without_unlikely(text, words, 0.5) == text  # the median of nine is 0.9
    assert without_unlikely(text, words, 0.6) == "red"  # 0.8 + 0.2 of the step to 0.9 is below 0.9


def test_digits_and_capitals_stay_and_neighbours_keep_together() -> None:
    text = "we met Ana, at 7 (o'clock)"
    words = [Word(0, 2, 0.1, 1), Word(3, 6, 0.2, 1), Word(7, 10, 0.0, 1), Word(10, 11, 0.9, 1)]
    words += [Word(12, 14, 0.1, 1), Word(15, 16, 0.0, 1), Word(17, 18, 0.95, 1), Word(18, 25, 0.8, 1)]
    assert without_unlikely(text, words, 0.3) == "Ana, 7 (o'clock"


def test_where_nothing_is_left_the_text_is() -> None:
    text = "one red fox"
    assert without_unlikely(text, words_of(text, 0.5, 0.5, 0.5), 0.5) == text
    assert without_unlikely(text, [], 0.5) == text
    assert without_unlikely("one red Fox", words_of("one red Fox", 0.5, 0.5, 0.5), 0.5) == "Fox"


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        without_unlikely("one", words_of("one", 0.5), rate)


TEXT = "One two. Three four five. Six seven."  # one token per word and full stop
STARTS = [0, 4, 7, 9, 15, 20, 24, 26, 30, 35]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (10, [(0, 10)]),
        (9, [(0, 7), (7, 10)]),
        (7, [(0, 7), (7, 10)]),
        (6, [(0, 3), (3, 7), (7, 10)]),
        (4, [(0, 3), (3, 7), (7, 10)]),
        (3, [(0, 3), (3, 6), (6, 7), (7, 10)]),  # the second sentence is longer than a chunk
        (1, [(at, at + 1) for at in range(10)]),
    ],
)
def test_chunks_end_with_a_sentence(limit: int, expected: list[tuple[int, int]]) -> None:
    assert chunks(TEXT, STARTS, limit) == [Span(*pair) for pair in expected]


def test_no_tokens_no_chunks() -> None:
    assert chunks("", [], 5) == []
    assert chunks("one two", [0, 4], 1) == [Span(0, 1), Span(1, 2)]


@given(ANY_TEXT, st.integers(1, 9))
def test_chunks_hold_every_token_once(text: str, limit: int) -> None:
    starts = [at for at, c in enumerate(text) if not c.isspace()]
    found = chunks(text, starts, limit)
    assert [at for span in found for at in range(*span)] == list(range(len(starts)))
    assert all(1 <= span.end - span.start <= limit for span in found)


def test_what_is_no_str_is_refused() -> None:
    with pytest.raises(InputError, match="bytes"):
        shorten(b"the harbour")  # type: ignore[arg-type]

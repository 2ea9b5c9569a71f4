"""Readings of the name of a relation: the likely one comes first, and no text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from memdb.construct.relation import readings
from tests import strategies


@pytest.mark.parametrize(
    ("text", "likeliest"),
    [
        ("Ana lives in", ("Ana", "lives in")),
        ("Ana lives in Rome", ("Ana", "lives in")),
        ("Ana | lives in", ("Ana", "lives in")),
        ("Ana|", ("Ana", None)),
        ("Ana's favourite player", ("Ana", "favourite player is")),
        ("Ana's favourite player is", ("Ana", "favourite player is")),
        ("the capital of France", ("France", "capital is")),
        ("The capital of France is?", ("France", "capital is")),
        ("France capital is", ("France", "capital is")),
        ("Apple Inc. chief executive officer is", ("Apple Inc.", "chief executive officer is")),
    ],
)
def test_holder_and_slot(text: str, likeliest: tuple[str, str | None]) -> None:
    assert likeliest in readings(text)


def test_the_parsed_reading_comes_first_and_the_holder_alone_last() -> None:
    found = readings("Ana lives in")
    assert found[0] == ("Ana", "lives in")
    assert found[-1] == ("Ana lives in", None)
    assert readings("Ana") == [("Ana", None)]


@pytest.mark.parametrize("text", ["", " ", "|", "| lives in", "?"])
def test_nothing_names_nothing(text: str) -> None:
    assert readings(text) == []


@hypothesis_settings(max_examples=100, deadline=None, derandomize=True)
@given(text=strategies.text)
def test_any_text_gives_few_distinct_readings_with_holders(text: str) -> None:
    found = readings(text)
    assert len(found) == len(set(found)) <= 20
    assert all(holder for holder, _ in found)
    assert all(slot is None or slot for _, slot in found)


def test_a_long_text_is_cut() -> None:
    assert len(readings("word " * 100_000)) <= 20

"""What messages and units are found by."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import settings
from memdb.construct.views import day_words, dense_text, fields, unit_labels_text
from memdb.language.clock import parse_instant
from memdb.records import Interval, Message, Unit
from tests import strategies

TALK = [
    Message("Ana", "I adopted a parrot. Guess what? It sings."),
    Message("Ben", "Which colour?"),
    Message("Ana", "Grey.", image_caption="a parrot on a piano"),
    Message("Ben", "Lovely! My aunt has one. Do you let it fly?"),
]


def test_a_reply_is_read_with_the_question_before_it() -> None:
    assert dense_text(TALK, 2) == "Which colour? Ana: Grey. [image: a parrot on a piano]"
    assert "fly" not in dense_text(TALK, 3), "what it asks itself is left out"
    assert "Lovely! My aunt has one." in dense_text(TALK, 3)


def test_who_only_asks_is_found_by_what_he_asks() -> None:
    assert "Which colour?" in dense_text(TALK, 1)
    found = fields(TALK, 1, None)
    assert "Which colour?" in found["own"] + found["question"]


def test_fields_of_a_message() -> None:
    found = fields(TALK, 2, parse_instant("2023-05-07"))
    assert set(found) == set(settings.FIELD_WEIGHTS)
    assert found["own"] == "Ana: Grey. [image: a parrot on a piano]"
    assert found["question"] == ""
    assert found["prompt"] == "Which colour?"
    assert found["context"].startswith("7 May 2023 2023-05-07 ")
    assert "I adopted a parrot." in found["context"]
    assert "My aunt has one." in found["after"]
    assert "fly" not in found["context"] + found["after"], "what a neighbour asks is no statement"


def test_the_neighbourhood_is_two_before_and_one_after() -> None:
    talk = [Message("Ana", f"word{n}.") for n in range(9)]
    found = fields(talk, 4, None)
    assert [n for n in range(9) if f"word{n}" in found["context"]] == [2, 3]
    assert [n for n in range(9) if f"word{n}" in found["after"]] == [5]
    assert "word" not in fields(talk[:1], 0, None)["context"]


def test_a_long_neighbour_is_clipped() -> None:
    talk = [Message("Ana", " ".join(f"w{n}" for n in range(500))), Message("Ben", "Oh.")]
    assert len(fields(talk, 1, None)["context"].split()) <= settings.CONTEXT_WORDS
    assert len(fields(talk[::-1], 0, None)["after"].split()) <= settings.CONTEXT_WORDS
    assert len(fields(talk, 0, None)["own"].split()) == 501, "but nothing of one's own"


@pytest.mark.parametrize(
    ("day", "words"),
    [(dt.date(2023, 5, 7), "7 May 2023 2023-05-07"), (dt.date(1, 1, 1), "1 January 1 0001-01-01")],
)
def test_day_words(day: dt.date, words: str) -> None:
    assert day_words(day) == words


def test_labels_of_a_unit() -> None:
    day = dt.date(2023, 5, 7)
    times = tuple(Interval(day, day, granularity) for granularity in ("day", "month", "year"))
    unit = Unit(fact_text="x", entities=("Ana",), locations=("Porto",), fact_time=times, first=0, last=0)
    text = unit_labels_text(unit, ["Ana", "Ben"])
    assert text == "Ana Porto 7 May 2023 2023-05-07 May 2023 2023-05 2023 Ben"


@given(st.lists(strategies.messages(), min_size=1, max_size=6), st.data())
def test_any_conversation_has_fields(talk: list[Message], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(talk) - 1))
    found = fields(talk, index, None)
    assert set(found) == set(settings.FIELD_WEIGHTS)
    assert talk[index].speaker in found["own"]
    assert talk[index].speaker in dense_text(talk, index)


@given(st.lists(strategies.messages(), min_size=1, max_size=10), st.data())
def test_what_is_far_away_changes_nothing(talk: list[Message], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(talk) - 1))
    first = max(0, index - 2)
    near = talk[first : index + 2]
    assert fields(near, index - first, None) == fields(talk, index, None)
    assert dense_text(near, index - first) == dense_text(talk, index)

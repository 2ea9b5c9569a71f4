"""The question as the one it asks about would say it."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.activate.perspective import as_speaker, asked_of, asks, asks_of_past
from memdb.records import Interval, Query, TimeConstraint
from tests import strategies

TWO = ("Ana", "Ben Moor")


@pytest.mark.parametrize(
    ("question", "said", "of"),
    [
        ("When did Ana go to Porto?", "When did I go to Porto?", "Ana"),
        ("What is Ana's cat called?", "What is my cat called?", "Ana"),
        ("What is Ana’s cat called?", "What is my cat called?", "Ana"),
        ("Where does Ben live?", "Where does I live?", "Ben Moor"),
        ("Where does Ben Moor live?", "Where does I live?", "Ben Moor"),
        ("Ben Moor's dog?", "my dog?", "Ben Moor"),
        ("Does Ana know Ben?", "Does I know I?", None),
        ("Did Anastasia call?", "Did Anastasia call?", None),
        ("Where is Habana?", "Where is Habana?", None),
        ("Who is McAna?", "Who is McAna?", None),
        ("what does ana like?", "what does ana like?", None),
        ("Ana-Maria?", "I-Maria?", "Ana"),
        ("", "", None),
    ],
)
def test_names_become_the_first_person(question: str, said: str, of: str | None) -> None:
    assert as_speaker(question, TWO) == said
    assert asked_of(question, TWO) == of


@pytest.mark.parametrize(
    ("question", "speakers", "of"),
    [
        ("What is my blood type?", ("user", "assistant"), "user"),
        ("Where do I live?", ("User", "Assistant"), "User"),
        ("Where do I live?", ("Ana", "Ben"), None),
        ("Where does she live?", ("user", "assistant"), None),
        ("What did Ana tell me?", ("Ana", "user"), "Ana"),
        ("What is in the imitation?", ("user",), None),
    ],
)
def test_who_asks_an_assistant_asks_of_himself(
    question: str, speakers: tuple[str, ...], of: str | None
) -> None:
    assert asked_of(question, speakers) == of


@pytest.mark.parametrize("speakers", [(), ("",), ("(",), ("user",), ("a.b*",), (" ",)])
def test_speakers_that_are_no_names_change_nothing(speakers: tuple[str, ...]) -> None:
    question = "When did Ana (and a.b*) go?"
    assert as_speaker(question, speakers) == question


def test_names_with_signs_are_taken_as_they_are() -> None:
    assert as_speaker("Is A.B* here, or AxB?", ("A.B*",)) == "Is I here, or AxB?"


@given(strategies.text, st.lists(strategies.speakers | st.text(max_size=6), max_size=5))
def test_any_text_and_any_names(question: str, speakers: list[str]) -> None:
    assert isinstance(as_speaker(question, speakers), str)
    assert asked_of(question, speakers) in {None, *speakers}
    assert as_speaker(question, []) == question


@pytest.mark.parametrize("text", ["What is it", "is it", "¿Dónde?", "parrot?", "海在哪里？", "Could you"])
def test_what_asks(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["", "parrot", "whatever works", "Isabel", "my parrot", "howl"])
def test_what_is_a_search_for_words(text: str) -> None:
    assert not asks(text)


def past(question: str, times: tuple[TimeConstraint, ...] = ()) -> bool:
    return asks_of_past(Query(text=question, times=times))


@pytest.mark.parametrize(
    "question",
    [
        "Where did Ana use to live? She used to live somewhere.",
        "Who was the previous director of Acme?",
        "Where did Ana live before?",
        "What was her former name?",
        "Who led Acme originally?",
        "How has her job changed?",
        "What was Ana's old job?",
        "Where did they live back then?",
    ],
)
def test_a_question_may_be_about_what_held_once(question: str) -> None:
    assert past(question)


@pytest.mark.parametrize(
    "question",
    [
        "Where does Ana live?",
        "Which city did Oscar die in?",
        "How old is Ana?",
        "Who performed Past Masters?",
        "",
    ],
)
def test_the_tense_of_a_verb_is_not_enough(question: str) -> None:
    assert not past(question)


def test_a_time_in_a_question_is() -> None:
    day = dt.date(2023, 5, 7)
    assert past("Where did Ana live?", (TimeConstraint("fact", Interval(day, day, "day")),))

"""The question as the one it asks about would say it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.activate.perspective import as_speaker, asked_of, asks
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

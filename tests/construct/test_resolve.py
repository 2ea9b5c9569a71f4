from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.construct.resolve import Cast, cast_of, display_name, resolve

ANA_TO_BEN = Cast("Ana", "Ben")

FIRST_PERSON = [
    ("I am a nurse.", "Ana is a nurse."),
    ("I'm a nurse", "Ana is a nurse"),
    ("I’m a nurse", "Ana is a nurse"),
    ("i'm a nurse", "Ana is a nurse"),
    ("I am not a nurse", "Ana is not a nurse"),
    ("I was there", "Ana was there"),
    ("I have two cats", "Ana has two cats"),
    ("I've been busy", "Ana has been busy"),
    ("I haven't slept", "Ana hasn't slept"),
    ("I don't smoke", "Ana doesn't smoke"),
    ("I do yoga", "Ana does yoga"),
    ("I'll call", "Ana will call"),
    ("I'd like tea", "Ana would like tea"),
    ("I'd seen it", "Ana had seen it"),
    ("I'd better go", "Ana had better go"),
    ("I live in Rome", "Ana lives in Rome"),
    ("I study law", "Ana studies law"),
    ("I teach", "Ana teaches"),
    ("I go there", "Ana goes there"),
    ("I went there", "Ana went there"),
    ("I worked there", "Ana worked there"),
    ("I can swim", "Ana can swim"),
    ("I put it there", "Ana put it there"),
    ("I cut my hair", "Ana cut Ana's hair"),
    ("I really like it", "Ana really likes it"),
    ("I also often run", "Ana also often runs"),
    ("I still can't", "Ana still can't"),
    ("I gotta go", "Ana has to go"),
    ("I'm gonna go", "Ana is gonna go"),
    ("My sister is here", "Ana's sister is here"),
    ("It is mine", "It is Ana's"),
    ("He called me", "He called Ana"),
    ("I bought myself a car", "Ana bought themselves a car"),
    ("my friend and I went", "Ana's friend and Ana went"),
    ("my friend and I like it", "Ana's friend and Ana like it"),
    ("He did what I like", "He did what Ana likes"),
    ("What did I say", "What did Ana say"),
    ("We are here", "Ana and others are here"),
    ("we're here", "Ana and others are here"),
    ("We went with our dog", "Ana and others went with Ana's dog"),
    ("He saw us", "He saw Ana and others"),
]

SECOND_PERSON = [
    ("You are kind", "Ben is kind"),
    ("You're my witness", "Ben is Ana's witness"),
    ("I'd lend you my old books", "Ana would lend Ben Ana's old books"),
    ("You're a doctor", "Ben is a doctor"),
    ("you have a dog", "Ben has a dog"),
    ("You were there", "Ben was there"),
    ("You like it", "Ben likes it"),
    ("You don't", "Ben doesn't"),
    ("I saw your dog", "Ana saw Ben's dog"),
    ("is it yours?", "is it Ben's?"),
    ("let me help you find it", "let Ana help Ben find it"),
    ("I think you should go", "Ana thinks Ben should go"),
    ("Thank you", "Thank you"),
    ("You know, it rains", "You know, it rains"),
    ("you guys rock", "you guys rock"),
    ("Enjoy yourself", "Enjoy themselves"),
]

UNTOUCHED = [
    "The iPhone is here",
    "World War I ended",
    "an I-beam",
    "name@me.com",
    "She has a me-too drug",
    'He said "I love you and my dog"',
    "He said “I love you”",
    "Drive My Car was performed by The Beatles.",
    "We Will Rock You was performed by Queen.",
    "From Me to You was a hit",
    "I Fall to Pieces was performed by Patsy Cline.",
    "Messerschmitt Me 262 flew",
]


@pytest.mark.parametrize(("text", "expected"), FIRST_PERSON)
def test_first_person(text: str, expected: str) -> None:
    assert resolve(text, ANA_TO_BEN) == expected
    assert resolve(text, Cast("Ana", None)) == expected


@pytest.mark.parametrize(("text", "expected"), SECOND_PERSON)
def test_second_person(text: str, expected: str) -> None:
    assert resolve(text, ANA_TO_BEN) == expected


@pytest.mark.parametrize("text", ["You are kind", "I said: your dog", "you like it"])
def test_you_stays_when_nobody_knows_who_it_is(text: str) -> None:
    assert "ou" in resolve(text, Cast("Ana", None))


@pytest.mark.parametrize("text", [text for text in UNTOUCHED if "World War I " not in text])
def test_titles_quotations_and_other_words_stay(text: str) -> None:
    assert resolve(text, ANA_TO_BEN) == text


def test_no_speaker_changes_nothing() -> None:
    assert resolve("I am here with you", Cast("", "Ben")) == "I am here with you"


def test_a_sentence_keeps_its_capital() -> None:
    assert resolve("I am here", Cast("the user", None)) == "The user is here"
    assert resolve("Then I am here", Cast("the user", None)) == "Then the user is here"


@pytest.mark.parametrize(
    ("speaker", "role", "participants", "expected"),
    [
        ("Ana", None, ("Ana", "Ben"), Cast("Ana", "Ben")),
        ("Ben", None, ("Ana", "Ben"), Cast("Ben", "Ana")),
        ("Ana", None, ("Ana",), Cast("Ana", None)),
        ("Ana", None, ("Ana", "Ben", "Cem"), Cast("Ana", None)),
        ("user", "user", ("user", "assistant"), Cast("the user", "the assistant")),
        ("assistant", "assistant", ("user", "assistant"), Cast("the assistant", "the user")),
        ("user", "user", ("user",), Cast("the user", "the assistant")),
        ("Ana", "user", ("Ana",), Cast("Ana", "the assistant")),
        ("assistant", None, ("Ana", "assistant"), Cast("the assistant", "Ana")),
        ("Ana", "user", ("Ana", "Ben", "bot"), Cast("Ana", None)),
    ],
)
def test_cast(speaker: str, role: str | None, participants: tuple[str, ...], expected: Cast) -> None:
    assert cast_of(speaker, role, participants) == expected


def test_roles_get_an_article_and_names_do_not() -> None:
    assert [display_name(name) for name in ("User", "AI", " Ana ")] == ["the user", "the assistant", "Ana"]


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_is_resolved(text: str) -> None:
    assert isinstance(resolve(text, ANA_TO_BEN), str)


@given(st.text(alphabet="bcdfg .!?\n", max_size=100))
def test_text_without_persons_stays(text: str) -> None:
    assert resolve(text, ANA_TO_BEN) == text

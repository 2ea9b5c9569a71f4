"""Messages told so that they can be understood alone, by rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.generate.faithful import faithful
from memdb.generate.rewrite import statement
from memdb.language.cleaning import cleaned
from memdb.records import History, Message, Segment
from memdb.settings import MAX_STATEMENT_CHARS
from tests.generate.histories import CANOE, WHERE, histories, segment

PAIR = ("Ana", "Ben")


def told(*said: tuple[str, str] | Message, question: str = WHERE) -> str:
    """The last of some messages."""
    where = segment(*said)
    return statement(where.utterances[-1], where, PAIR, question)


@pytest.mark.parametrize(
    ("place", "info"),
    [
        (1, "Ana keeps Ana's canoe behind the boathouse, and Ben has the key."),
        (3, "Asked «Have you ever fallen into the river?», Ana said: Yes, twice."),
    ],
)
def test_the_talk_about_a_canoe(place: int, info: str) -> None:
    assert statement(CANOE.utterances[place], CANOE, PAIR, WHERE) == info


@pytest.mark.parametrize(
    ("said", "info"),
    [
        pytest.param("Yeah! I moved to Rome.", "Ana moved to Rome.", id="a lead-in"),
        pytest.param("Went to Rome.", "Ana went to Rome.", id="a subject left out"),
        pytest.param("Ben, I rest on Sundays.", "Ana rests on Sundays.", id="an address"),
        pytest.param("Thanks a lot! I sold it to Rui. How are you?", "Ana sold it to Rui.", id="politeness"),
        pytest.param("I paint, what about you?", "Ana paints", id="a question at the end"),
        pytest.param("We sank.", "Ana and others sank.", id="we"),
        pytest.param('Rui said "I won".', 'Rui said "I won".', id="somebody else's words"),
        pytest.param("Where is Rui?", "Ana: Where is Rui?", id="a question alone is told as it was asked"),
        pytest.param("They told me on Monday.", "They told Ana on Monday.", id="a day, and no content"),
        pytest.param("```\nlet x = 1\n```", "Ana: ``` let x = 1 ```", id="code"),
        pytest.param(
            "Me gusta el pan y tú tienes la llave.", "Me gusta el pan y tú tienes la llave.", id="Spanish"
        ),
        pytest.param(
            "Is Rui good with ropes? He's a sailor.",
            "Ana said «Is Rui good with ropes?», then: He's a sailor.",
            id="a pronoun behind a question of one's own",
        ),
        pytest.param("You're my witness.", "Ben is Ana's witness.", id="you and my"),
        pytest.param("I sank yesterday.", "Ana sank yesterday.", id="a relative time stays"),
    ],
)
def test_one_message(said: str, info: str) -> None:
    assert told(("Ana", said)) == info


@pytest.mark.parametrize(
    ("before", "said", "info"),
    [
        pytest.param(
            ("Ben", "Nice. How long does the flat stay yours?"),
            "Until September. I pay little.",
            "Asked «How long does the flat stay yours?», Ana said: Until September. Ana pays little.",
            id="a time alone",
        ),
        pytest.param(
            ("Ben", "What about the bicycle?"),
            "It was stolen.",
            "Asked «What about the bicycle?», Ana said: It was stolen.",
            id="a pronoun behind a question",
        ),
        pytest.param(
            ("Ben", "Hello. A dog moved in downstairs."),
            "She barks at me.",
            "After Ben said «A dog moved in downstairs.», Ana said: She barks at Ana.",
            id="a pronoun behind a statement",
        ),
        pytest.param(
            ("Ben", "A dog moved in downstairs."),
            "Lovely! She barks at me.",
            "After Ben said «A dog moved in downstairs.», Ana said: She barks at Ana.",
            id="a pronoun behind a reaction",
        ),
        pytest.param(
            ("Ben", "Did you accept the Icelandic book?"),
            "I did.",
            "Asked «Did you accept the Icelandic book?», Ana said: Ana did.",
            id="no content of its own",
        ),
        pytest.param(
            ("Ben", "Do you row?"), "My oar broke in May.", "Ana's oar broke in May.", id="a whole sentence"
        ),
        pytest.param(("Ana", "Where is it?"), "In Porto.", "In Porto.", id="one does not answer oneself"),
    ],
)
def test_what_was_said_before(before: tuple[str, str], said: str, info: str) -> None:
    assert told(before, ("Ana", said)) == info


def test_what_is_not_directly_before_is_no_question_of_it() -> None:
    near = segment(("Ben", "Do you row?"), ("Ana", "Yes, twice."))
    question, reply = near.utterances
    apart = Segment(utterances=(question, segment(reply.message, first=2).utterances[0]))
    assert statement(apart.utterances[1], apart, PAIR, WHERE) == "Ana: Yes, twice."


def test_a_picture_stands_at_the_end() -> None:
    message = Message("Ana", "I sewed it.", image_caption="a photo of a kite")
    assert told(message) == "Ana sewed it. [image: a photo of a kite]"
    assert told(Message("Ana", "", image_caption="a kite")) == "Ana: [image: a kite]"


@pytest.mark.parametrize("content", ["", "  ", "🙂", "…!"])
def test_a_message_without_a_word_says_nothing(content: str) -> None:
    assert told(("Ana", content)) == ""


def test_between_three_you_is_nobody_known() -> None:
    where = segment(("Ana", "You have the key."))
    assert statement(where.utterances[0], where, (*PAIR, "Cleo"), WHERE) == "You have the key."


def test_roles_are_told_as_such() -> None:
    where = segment(Message("user", "I live in Porto.", role="user"))
    assert statement(where.utterances[0], where, ("user", "assistant"), "?") == "The user lives in Porto."


def test_of_a_long_message_what_the_question_asks_for_is_kept() -> None:
    chaff = "The tram is late again and the rain goes on. " * 40
    info = told(("Ana", f"{chaff}I keep the canoe in a shed. {chaff}"))
    assert "Ana keeps the canoe in a shed." in info
    assert len(info) <= MAX_STATEMENT_CHARS


def test_of_one_endless_word_the_beginning_is_told_if_anything() -> None:
    where = segment(("Ana", "x" * 5_000))
    info = statement(where.utterances[0], where, PAIR, WHERE)
    assert not info or faithful(info, where.utterances[0], where, PAIR)


@settings(deadline=None, max_examples=150)
@given(histories(), st.lists(st.sampled_from(["Ana", "Ben", "user", "李"]), max_size=3))
def test_every_statement_is_faithful_and_on_one_line(history: History, speakers: list[str]) -> None:
    for where in history.segments:
        for one in where.utterances:
            info = statement(one, where, speakers, history.query.text)
            assert info == cleaned(info)
            assert not info or faithful(info, one, where, speakers)


@pytest.mark.parametrize(
    "said", ["I", "my", "You", "we'll", "don't", "gonna", "myself", "mine", "I'd", "ours"]
)
@pytest.mark.parametrize("frame", ["{} row", "Rui and {} row.", "Well. {} go! Now {} stay.", "«{}»? No {}."])
def test_what_resolution_writes_is_faithful(said: str, frame: str) -> None:
    where = segment(("Ben", "Do you go home?"), ("Ana", frame.replace("{}", said)))
    info = statement(where.utterances[1], where, PAIR, WHERE)
    assert info
    assert faithful(info, where.utterances[1], where, PAIR)

"""What rests on the messages it cites, and what does not."""

from __future__ import annotations

import datetime as dt
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.construct.admit import admit
from memdb.construct.support import Support, support_of
from memdb.language.stems import stem
from memdb.records import Interval, Message, Triple
from tests import strategies

SAID = Message(
    "Ana",
    "I moved to Porto last week with Dr. Ines Reis. My cat Pepper is seven and cost 1999 euros.",
    "2024-01-10",
    image_caption="a red lamp",
    location="Ribeira market",
)


def of(*said: Message, participants: tuple[str, ...] = ("Ana", "Ben")) -> Support:
    return support_of(admit(said), participants)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("moves", "moved"),
        ("moving", "moved"),
        ("go", "went"),
        ("city", "cities"),
        ("run", "running"),
        ("ana's", "ana"),
        ("ana’s", "ana"),
        ("classes", "class"),
        ("studied", "study"),
    ],
)
def test_inflections_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"), [("1999", "199"), ("200", "2000"), ("100", "1000"), ("rome", "porto"), ("cat", "car")]
)
def test_other_words_have_others(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@given(st.text(alphabet="abcdefghinosty'’0159é海", min_size=1, max_size=12))
def test_a_stem_is_short_and_never_lost(word: str) -> None:
    assert len(stem(word)) <= max(len(word), 8)
    plain = word.removesuffix("'s").removesuffix("’s")
    assert bool(stem(word)) == bool(plain)


@settings(max_examples=200, derandomize=True)
@given(st.lists(strategies.text, min_size=1, max_size=3), strategies.text)
def test_what_is_said_is_supported_and_saying_more_takes_nothing_away(said: list[str], more: str) -> None:
    support = Support()
    for text in said:
        support.say(text)
    before = [support.lacking(more), support.lacking_names(more)]
    for text in said:
        words = support.lacking(text)
        assert words in ([], [text]), "only a text without words is lacking as a whole"
        if not any(unicodedata.category(c)[0] in "MC" for c in text):  # a word goes on there or ends
            assert support.lacking_names(text) == []
        assert support.share(text) == 1
    support.say(more)
    after = [support.lacking(more), support.lacking_names(more)]
    for fewer, all_of_them in zip(after, before, strict=True):
        assert set(fewer) <= set(all_of_them)


@given(strategies.text, strategies.text)
def test_a_share_is_a_share(said: str, text: str) -> None:
    support = Support()
    support.say(said)
    assert 0 <= support.share(text) <= 1
    assert (support.share(text) < 1) <= bool(support.lacking(text))


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("Porto", []),
        ("Rome", ["rome"]),
        ("PORTO", []),
        ("the cat Pepper", []),
        ("moving to Porto", []),
        ("lives in Porto", ["lives"]),
        ("Ana", []),
        ("Ben", ["ben"]),
        ("a red lamp", []),
        ("Ribeira market", []),
        ("7", []),
        ("seven", []),
        ("8", ["8"]),
        ("1999 euros", []),
        ("199 euros", ["199"]),
        ("January 2024", []),
        ("February 2024", ["february"]),
        ("it", ["it"]),
        ("with", []),
        ("!!!", ["!!!"]),
        ("🙂", ["🙂"]),
        ("Ana and others", []),
    ],
)
def test_words_that_are_said_and_words_that_are_not(text: str, lacking: list[str]) -> None:
    assert of(SAID).lacking(text) == lacking


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("Ana moved to Porto.", []),
        ("Ana loves Rome.", ["rome"]),
        ("Went to Porto. Has 7 cats.", []),
        ("Went to Porto. Has 8 cats.", ["8"]),
        ("Zoe went to Porto.", ["zoe"]),
        ("ana went with zoe", []),
        ('"Went there" he said.', []),
        ("Ana met Will.", []),  # a stop word is no name
        ("She said Love is all.", ["love"]),
    ],
)
def test_names_and_numbers(text: str, lacking: list[str]) -> None:
    assert of(SAID).lacking_names(text) == lacking


def test_the_share_is_that_of_distinct_words_of_content() -> None:
    assert of(SAID).share("The cat lives in Rome, in Rome and with the cat") == pytest.approx(1 / 3)
    assert of(SAID).share("of the") == 1.0


def test_you_is_the_other_one_of_two() -> None:
    asks = Message("Ana", "Do you like Porto?")
    tells = Message("Ana", "She likes Porto.")
    assert of(asks).lacking("Ben") == []
    assert of(tells).lacking("Ben") == ["ben"], "nobody is spoken to"
    assert of(asks, participants=("Ana", "Ben", "Zoe")).lacking("Ben") == ["ben"], "it may be Zoe"


def test_roles_stand_for_who_speaks() -> None:
    said = Message("user", "I like Porto, what about you?", role="user")
    assert of(said, participants=("user", "assistant")).lacking("the user") == []
    assert of(said, participants=("user", "assistant")).lacking("the assistant") == []


def days(first: str, last: str) -> Interval:
    return Interval(dt.date.fromisoformat(first), dt.date.fromisoformat(last), "day")


@pytest.mark.parametrize(
    ("said", "time", "allowed"),
    [
        ("I moved yesterday.", days("2024-01-09", "2024-01-09"), True),
        ("I moved yesterday.", days("2024-01-01", "2024-01-31"), True),
        ("I moved.", days("2024-01-10", "2024-01-10"), False),
        ("I moved.", days("2024-01-09", "2024-01-09"), False),
        ("I moved the morning it rained.", days("2024-01-10", "2024-01-10"), False),
        ("I moved the morning it rained.", days("2024-01-09", "2024-01-09"), True),
        ("I moved yesterday.", days("2020-05-01", "2020-05-01"), False),
        ("I moved yesterday, ages after my birthday.", days("2020-05-01", "2020-05-01"), True),
        ("I moved today.", days("2024-01-10", "2024-01-10"), True),
        ("I moved on Christmas.", days("2023-12-25", "2023-12-25"), True),
        ("I moved in 2019.", days("2019-01-01", "2019-12-31"), True),
    ],
)
def test_a_time_needs_words_of_time_and_is_not_the_day_of_speaking(
    said: str, time: Interval, allowed: bool
) -> None:
    assert of(Message("Ana", said, "2024-01-10")).allows_time(time) == allowed


@pytest.mark.parametrize(
    ("said", "fact", "object", "turned"),
    [
        ("I don't live in Rome.", "Ana lives in Rome.", "Rome", True),
        ("I no longer live in Rome.", "Ana lives in Rome.", "Rome", True),
        ("I never liked Rome, but I live in Oslo.", "Ana lives in Oslo.", "Oslo", False),
        ("I don't know why, I live in Rome.", "Ana lives in Rome.", "Rome", False),
        ("I can't live without coffee.", "Ana loves coffee.", "coffee", False),
        ("I'm not only a nurse but a teacher.", "Ana is a nurse.", "nurse", False),
        ("Don't you know that I live in Rome?", "Ana lives in Rome.", "Rome", False),
        ("I don't eat meat.", "Ana doesn't eat meat.", "meat", False),
        ("I eat meat.", "Ana doesn't eat meat.", "meat", True),
        ("I have no children.", "Ana has no children.", "no children", False),
        ("I left Rome and I didn't go to Oslo.", "Ana went to Oslo.", "Oslo", True),
        ("I didn't go to Oslo. I love Oslo.", "Ana loves Oslo.", "Oslo", False),
        ("住在罗马", "Ana 住在罗马", "罗马", False),
        ("I stopped working at Siemens.", "Ana no longer works at Siemens.", "Siemens", False),
        ("I stopped working at Siemens.", "Ana works at Siemens.", "Siemens", True),
        ("I hate fish.", "Ana does not like fish.", "fish", False),
        ("I hate fish.", "Ana loves fish.", "fish", True),
        ("I can't believe I won the chess tournament!", "Ana won the chess tournament.", "tournament", False),
        ("No wonder I love Rome.", "Ana loves Rome.", "Rome", False),
        ("Not until 2020 did I move to Oslo.", "Ana moved to Oslo in 2020.", "Oslo", False),
        ("If I won the lottery I would buy a Ferrari.", "Ana bought a Ferrari.", "a Ferrari", True),
        ("I hardly ever drink coffee.", "Ana drinks coffee.", "coffee", True),
    ],
)
def test_what_was_denied_cannot_be_claimed(said: str, fact: str, object: str, turned: bool) -> None:
    support = support_of(admit([Message("Ana", said)]), ["Ana"])
    assert support.turns_round(fact, Triple("Ana", "is about", object)) == turned


@pytest.mark.parametrize("answer", ["No.", "Nope, Lisbon.", "not really"])
def test_what_was_asked_and_answered_with_no_is_denied(answer: str) -> None:
    said = [Message("Ana", "Do you live in Porto? Or near it?"), Message("Ben", answer)]
    support = support_of(admit(said), ["Ana", "Ben"])
    assert support.turns_round("Ben lives in Porto.", Triple("Ben", "lives in", "Porto"))
    yes = support_of(admit([said[0], Message("Ben", "Yes, I do.")]), ["Ana", "Ben"])
    assert not yes.turns_round("Ben lives in Porto.", Triple("Ben", "lives in", "Porto"))


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("I live in Porto with 3 cats.", False),
        ("I may live in Porto after all.", False),
        ("I moved to Porto last year.", False),
        ("I moved to Porto in 1066, of course.", True),
    ],
)
def test_no_word_of_time_dates_what_is_centuries_away(said: str, allowed: bool) -> None:
    support = support_of(admit([Message("Ana", said, "2024-01-10")]), ["Ana"])
    assert support.allows_time(Interval(dt.date(1066, 10, 14), dt.date(1066, 10, 14), "day")) == allowed

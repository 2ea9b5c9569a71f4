"""Whether evidence rests on its message."""

from __future__ import annotations

import datetime as dt

import pytest

from memdb.generate.faithful import GLUE, faithful
from memdb.records import Message, Segment
from tests.generate.histories import CANOE, segment


def told(info: str, place: int, where: Segment = CANOE) -> bool:
    return faithful(info, where.utterances[place], where)


@pytest.mark.parametrize(
    ("place", "info"),
    [
        pytest.param(1, "Ana keeps Ana's canoe behind the boathouse.", id="inflected, with a name for I"),
        pytest.param(1, "Ben has the key.", id="a name for you"),
        pytest.param(3, "Asked «Have you ever fallen into the river?», Ana said: Yes, twice.", id="a reply"),
        pytest.param(3, "Ana fell into the river twice.", id="a verb of the message before"),
        pytest.param(1, "On 20 January 2026 Ana kept the canoe.", id="the message's own day"),
        pytest.param(1, "ANA KEEPS A CANOE", id="case"),
    ],
)
def test_what_is_said(place: int, info: str) -> None:
    assert told(info, place)


@pytest.mark.parametrize(
    ("place", "info"),
    [
        pytest.param(1, "Ana keeps a kayak behind the boathouse.", id="another thing"),
        pytest.param(1, "Ana has fallen into the river.", id="said later"),
        pytest.param(0, "Ana keeps the canoe behind the boathouse.", id="the answer to the question itself"),
        pytest.param(3, "Cleo fell into the river.", id="nobody's name"),
        pytest.param(1, "On 21 January 2026 Ana kept the canoe.", id="another day"),
        pytest.param(1, "", id="nothing"),
        pytest.param(1, "… !", id="no word"),
        pytest.param(0, "She is.", id="words that only stand for others"),
    ],
)
def test_what_is_not_said(place: int, info: str) -> None:
    assert not told(info, place)


def test_the_days_that_are_meant_count_as_said() -> None:
    dated = segment(Message("Ana", "I sank yesterday.", "2026-01-20"))
    assert told("Ana sank on 19 January 2026.", 0, dated)
    assert not told("Ana sank on 18 January 2026.", 0, dated)


def test_pictures_places_and_roles_count_as_said() -> None:
    shown = segment(
        Message(
            "user", "Look!", dt.date(2026, 1, 20), role="user", image_caption="a red kite", location="Porto"
        )
    )
    assert told("The user showed a red kite in Porto.", 0, shown) is False  # "showed" is not said
    assert told("The user, in Porto: look, a red kite.", 0, shown)


def test_the_speakers_of_the_session_count_as_said() -> None:
    alone = segment(("Ana", "You have the key."))
    (one,) = alone.utterances
    assert not faithful("Ben has the key.", one, alone)
    assert faithful("Ben has the key.", one, alone, ("Ana", "Ben"))


def test_another_session_s_messages_do_not_count() -> None:
    other = segment(("Ben", "A kayak."), session="other")
    mixed = Segment(utterances=(*other.utterances, CANOE.utterances[1]))
    assert not faithful("Ana keeps a kayak.", CANOE.utterances[1], mixed)


def test_only_named_glue_is_free() -> None:
    assert GLUE.split() == ["asked", "said", "now", "image"]
    assert told("Ana said now: image asked.", 1)
    assert not told("Ana mentioned the key.", 1)


def test_a_verb_may_be_denied_in_the_third_person() -> None:
    where = segment(("Ana", "We row on Tuesday, and I don't need my arms."))
    assert told("Ana doesn't need Ana's arms.", 0, where)


def test_a_clock_that_cannot_be_read_dates_nothing() -> None:
    vague = segment(Message("Ana", "I sank.", "some day"))
    assert told("Ana sank.", 0, vague)
    assert not told("Ana sank in 2026.", 0, vague)

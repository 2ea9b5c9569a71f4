"""The cases of users about contradiction and dates (16 to 18); the others are in test_cases.py."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

import memdb
from memdb.records import Message
from tests.conftest import OpenMemory


def contents(found: memdb.WorkingMemory) -> list[str]:
    return [evidence.text for evidence in found]


@pytest.mark.parametrize(
    ("before", "after", "question", "old", "new"),
    [
        (
            "My favourite player is Ronaldo.",
            "Now it is Messi.",
            "Who is my favourite player?",
            "Ronaldo",
            "Messi",
        ),
        ("My address is 5 Elm Street.", "My address is 9 Oak Road now.", "What is my address?", "Elm", "Oak"),
        ("I live in Porto.", "I moved, I live in Rome now.", "Where do I live?", "Porto", "Rome"),
        ("我最喜欢的球员是罗纳尔多", "现在我最喜欢的球员是梅西", "我最喜欢的球员", "罗纳尔多", "梅西"),
    ],
)
def test_case_16_an_update_and_what_it_replaced(
    open_memory: OpenMemory, before: str, after: str, question: str, old: str, new: str
) -> None:
    memory = open_memory()
    memory.add(
        [Message("user", before, "2024-01-05T10:00Z"), Message("assistant", "Noted!", "2024-01-05T10:01Z")]
    )
    memory.add([Message("user", after, "2024-06-05T10:00Z")])
    memory.close()
    memory = open_memory()
    now = contents(memory.recall(question))
    assert any(old in text for text in now)
    assert any(new in text for text in now)
    for moment in ("2024-01-05", "2024-06-04", dt.date(2024, 3, 1), "2024-06-05T09:59:59Z"):
        earlier = contents(memory.recall(question, as_of=moment))
        assert any(old in text for text in earlier), moment
        assert not any(new in text for text in earlier), moment
    assert contents(memory.recall(question, as_of="2024-01-04")) == []
    for moment in ("2024-06-05", "2024-06-05T10:00Z", "2024-06-05T12:00+02:00"):
        assert sorted(contents(memory.recall(question, as_of=moment))) == sorted(now), moment


@pytest.mark.parametrize("together", [True, False])
def test_case_16_both_are_in_one_trace_and_each_was_current_at_its_time(
    open_memory: OpenMemory, together: bool
) -> None:
    memory = open_memory()
    said = [
        Message("user", "My favourite player is Ronaldo.", "2024-01-05T10:00Z", id="before"),
        Message("user", "Now it is Messi.", "2024-06-05T10:00Z", id="after"),
    ]
    for batch in [said] if together else [said[:1], said[1:]]:
        memory.add(batch)
    memory.close()
    memory = open_memory()
    [trace] = memory.trace("the user's favourite player")
    assert [unit.source_ids[0] for unit in trace.states] == ["before", "after"]
    assert [unit.current for unit in trace.states] == [False, True]
    assert trace.current.triple is not None
    assert trace.current.triple.object == "Messi"
    found = {e.source[0].id: e for e in memory.recall("Who is my favourite player?")}
    assert (found["before"].superseded, found["after"].superseded) == (True, False)
    [then] = memory.trace("the user's favourite player", as_of="2024-03-01")
    assert then.current.triple is not None
    assert (then.current.triple.object, then.current.current, len(then.states)) == ("Ronaldo", True, 1)
    assert "Messi" not in then.trajectory + then.relation_text
    [earlier] = memory.recall("Who is my favourite player?", as_of="2024-03-01")
    assert (earlier.superseded, earlier.facts[0].current) == (False, True)


TODAY_OFFSETS = [("yesterday", -1), ("today", 0), ("tomorrow", 1), ("the day before yesterday", -2)]
SAID = [
    "2023-05-07",
    "2024-03-01",
    "2024-02-29",
    "2023-01-01",
    "2023-12-31T23:59",
    "2024-03-10T23:30-08:00",
    "2024-03-11T00:30+09:00",
    "2024-11-03T01:30-07:00",
    "12:05 am on 1 January, 2024",
    "2000-01-01T00:00+14:00",
]


@pytest.mark.parametrize("said_at", SAID)
@pytest.mark.parametrize(("word", "offset"), TODAY_OFFSETS)
def test_case_17_a_relative_day_counts_from_the_speakers_own(
    memory: memdb.Memory, said_at: str, word: str, offset: int
) -> None:
    memory.add([Message("Ana", f"I went to the store {word}.", said_at)])
    own_day = {"12:05 am on 1 January, 2024": "2024-01-01"}.get(said_at, said_at[:10])
    expected = dt.date.fromisoformat(own_day) + dt.timedelta(offset)
    found = memory.recall("When did Ana go to the store?")[0]
    assert [(i.start, i.end, i.granularity) for i in found.fact_time] == [(expected, expected, "day")]
    asked = memory.recall(f"What did Ana do on {expected:%d %B %Y}?", channels=["unit_attribute"])
    assert contents(asked) == [f"I went to the store {word}."]


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kathmandu"])
def machine_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("machine_zone")
@pytest.mark.parametrize(
    "said_at",
    [
        "2024-03-10T23:30-08:00",
        "2024-03-10T00:10+13:00",
        "2024-03-10T23:59:59.999999Z",
        "2024-03-10",
        dt.datetime(2024, 3, 10, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-8))),
        dt.date(2024, 3, 10),
    ],
)
def test_case_18_the_zone_of_the_machine_changes_nothing(memory: memdb.Memory, said_at: Any) -> None:
    memory.add([Message("Ana", "I have a dentist appointment tomorrow.", said_at)])
    [evidence] = memory.recall("dentist")
    eleventh = dt.date(2024, 3, 11)
    assert [(i.start, i.end) for i in evidence.fact_time] == [(eleventh, eleventh)]
    for question, at in [
        ("What happens today?", "2024-03-11T00:30-08:00"),
        ("What is tomorrow?", "2024-03-10"),
    ]:
        found = memory.recall(question, at=at, channels=["unit_attribute"])
        assert contents(found) == ["I have a dentist appointment tomorrow."], question

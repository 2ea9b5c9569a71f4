from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import memdb
from memdb.construct.temporal import fact_time, times_of, within
from memdb.language.clock import parse_instant
from memdb.models.fakes import HashEncoder
from memdb.records import Interval, Message


def day(text: str) -> Interval:
    return Interval(dt.date.fromisoformat(text), dt.date.fromisoformat(text), "day")


@pytest.mark.parametrize(
    ("content", "said_at", "expected"),
    [
        ("yesterday I went to the store", "2023-05-07", [day("2023-05-06")]),
        ("dentist tomorrow", "2024-03-10T23:30-08:00", [day("2024-03-11")]),
        ("dentist tomorrow", "2024-03-11T00:30+09:00", [day("2024-03-12")]),
        ("dentist tomorrow", "serial-4", []),
        ("dentist on 2024-03-11", "serial-4", [day("2024-03-11")]),
        ("dentist recently", "2024-03-11", []),
        ("tomorrow, I mean tomorrow", "2024-03-10", [day("2024-03-11")]),
    ],
)
def test_the_speakers_calendar(content: str, said_at: str, expected: list[Interval]) -> None:
    assert list(fact_time(times_of(content, parse_instant(said_at)))) == expected


def test_no_clock_leaves_full_dates() -> None:
    assert fact_time(times_of("yesterday, 7 May 2023", None)) == (day("2023-05-07"),)


def test_within_takes_what_begins_there() -> None:
    times = times_of("yesterday and tomorrow", parse_instant("2023-05-07"))
    assert [fact_time(within(times, 0, 10)), fact_time(within(times, 10, 22))] == [
        (day("2023-05-06"),),
        (day("2023-05-08"),),
    ]


def test_the_same_days_in_other_words_are_one_time(tmp_path: Path) -> None:
    """A unit stores them once: what it is indexed by has to be the same."""
    content = "I was in Porto in May 2023, from 1 May 2023 to 31 May 2023."
    assert [time.granularity for time in fact_time(times_of(content, None))] == ["month"]
    with memdb.open(tmp_path / "m.memdb", encoder=HashEncoder(64)) as memory:
        memory.add([Message("Ana", content, "2024-01-01")])
        assert memory.about().counts["intervals"] == 1
        assert memory.verify().problems == ()

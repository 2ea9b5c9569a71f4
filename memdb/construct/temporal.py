"""When a claim happened: the expressions of time in a message, from its speaker's own clock."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from memdb.language.clock import anchor_day
from memdb.language.temporal import TimeExpression, expressions
from memdb.records import Instant, Interval


def times_of(content: str, said_at: Instant | None) -> list[TimeExpression]:
    """The expressions of time in a message; a serial number or no clock leaves only full dates."""
    return expressions(content, anchor_day(said_at))


def within(times: Sequence[TimeExpression], start: int, end: int) -> list[TimeExpression]:
    """Those that begin in characters `start` to `end` (excluded)."""
    at = bisect_left(times, start, key=_starts)
    return list(times[at : bisect_left(times, end, lo=at, key=_starts)])


def _starts(time: TimeExpression) -> int:
    return time.start_char


def fact_time(times: Iterable[TimeExpression]) -> tuple[Interval, ...]:
    """Their ranges, the same days once. Empty when nothing bounded was said: never the time of speaking."""
    by_days: dict[tuple[dt.date, dt.date], Interval] = {}
    for time in times:
        by_days.setdefault((time.interval.start, time.interval.end), time.interval)
    return tuple(by_days.values())

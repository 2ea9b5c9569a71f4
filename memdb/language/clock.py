"""Clock readings: the text in which a message says when it was said, to an instant in the speaker's own
calendar.

Only full dates are read, and never a date whose day and month could be exchanged: a reading orders the
memory, so a guess would be worse than an error. Nothing here looks at the machine's clock or zone.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from memdb.errors import TimeError
from memdb.language.datewords import MONTHS
from memdb.language.patterns import lazy
from memdb.records import Instant, Moment

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
DAY_US: Final = 86_400_000_000
_MAX_SERIAL: Final = 2**53
_MAX_CHARS: Final = 100
_HINT: Final = "an ISO 8601 date or date-time such as 2026-01-20T09:12+01:00, a datetime, or serial-N"

_DAYTIME: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
_ZONE: Final = r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)"
_HALF: Final = r"(?P<half>[ap])\.?m\.?"
_WEEKDAY: Final = r"\(?(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?\)?"
_CLOCK: Final = rf"{_DAYTIME}(?:\s?{_HALF})?(?:\s?{_ZONE})?"
_DMY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[ -](?P<month>[a-z]{3,9})\.?,?[ -](?P<year>\d{4})"
_MDY: Final = r"(?P<month>[a-z]{3,9})\.?[ -](?P<day>\d{1,2})(?:st|nd|rd|th)?,?[ -](?P<year>\d{4})"
_YMD: Final = r"(?P<year>\d{4})(?P<sep>[-/])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})"

_SERIAL: Final = lazy(r"serial-(\d{1,19})", re.ASCII)
_FORMS: Final = tuple(
    lazy(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"{_YMD}(?:(?:T|\s)(?:\s?{_WEEKDAY}\s)?{_CLOCK})?",
        rf"{_YMD}\s?{_WEEKDAY}(?:\s{_CLOCK})?",
        rf"{_CLOCK}\s(?:on\s)?(?:{_WEEKDAY},?\s)?{_DMY}",
        rf"{_CLOCK}\s(?:on\s)?(?:{_WEEKDAY},?\s)?{_MDY}",
        rf"(?:{_WEEKDAY},?\s)?{_DMY}(?:,?\s(?:at\s)?{_CLOCK})?",
        rf"(?:{_WEEKDAY},?\s)?{_MDY}(?:,?\s(?:at\s)?{_CLOCK})?",
    )
)


def parse_instant(moment: Moment) -> Instant:
    """The instant a clock reading names; `text` keeps the reading as it was given.

    Raises TimeError for anything that is not one unambiguous date, date-time or `serial-N`.
    """
    if isinstance(moment, dt.datetime):
        return _from_datetime(moment)
    if isinstance(moment, dt.date):
        return _instant(moment.isoformat(), moment, 0, None)
    if not isinstance(moment, str):
        raise TimeError(f"{type(moment).__name__} is not a clock reading", hint=_HINT)
    return _from_text(moment)


def anchor_day(instant: Instant | None) -> dt.date | None:
    """The calendar day of an instant for its speaker; None for a serial number or an unknown time."""
    if instant is None or instant.day is None:
        return None
    return dt.date.fromordinal(_EPOCH + instant.day)


def _from_text(text: str) -> Instant:
    trimmed = text.strip()
    if len(trimmed) > _MAX_CHARS:
        raise TimeError(f"{trimmed[:40]!r}… is too long for a clock reading", hint=_HINT)
    if serial := _SERIAL.fullmatch(trimmed):
        number = int(serial[1])
        if number > _MAX_SERIAL:
            raise TimeError(f"the serial number {number} is too large", hint=f"at most {_MAX_SERIAL}")
        return Instant(text=text, serial=number)
    for form in _FORMS:
        if found := form.fullmatch(trimmed):
            return _from_parts(text, found.groupdict())
    raise TimeError(f"{trimmed!r} is not a clock reading", hint=_HINT)


def _from_parts(text: str, parts: dict[str, str | None]) -> Instant:
    try:
        month = parts["month"] or ""
        number = int(month) if month.isdigit() else MONTHS["en"].get(month.casefold(), 0)
        day = dt.date(int(parts["year"] or 0), number, int(parts["day"] or 0))
        return _instant(text, day, _time_of_day_us(parts), _offset_min(parts["zone"]))
    except ValueError as error:
        raise TimeError(f"{text.strip()!r} is not a possible date and time: {error}", hint=_HINT) from error


def _time_of_day_us(parts: dict[str, str | None]) -> int:
    if parts["hour"] is None:
        return 0
    hour = int(parts["hour"])
    if half := parts["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("hour must be in 1..12 with am and pm")
        hour = hour % 12 + (12 if half in "pP" else 0)
    micro = int((parts["fraction"] or "0").ljust(6, "0")[:6])
    clock = dt.time(hour, int(parts["minute"] or 0), int(parts["second"] or 0), micro)
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond


def _offset_min(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError("offset must be smaller than a day")
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)


def _from_datetime(moment: dt.datetime) -> Instant:
    zone = moment.utcoffset()
    clock = ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond
    offset = None if zone is None else int(zone.total_seconds() // 60)
    return _instant(moment.isoformat(), moment.date(), clock, offset)


def _instant(text: str, day: dt.date, clock_us: int, offset_min: int | None) -> Instant:
    number = day.toordinal() - _EPOCH
    utc_us = number * DAY_US + clock_us - (offset_min or 0) * 60_000_000
    return Instant(text=text, day=number, utc_us=utc_us, offset_min=offset_min)

"""Arithmetic on closed ranges of days. Weeks run Monday to Sunday, weekends are Saturday and Sunday, seasons
are the northern meteorological ones (winter 2022 is December 2022 to February 2023).

Every function raises ValueError or OverflowError for days outside the years 1 to 9999.
"""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Final

from memdb.language.datewords import FEASTS, SEASONS
from memdb.language.patterns import lazy
from memdb.records import Granularity, Interval

_ISO: Final = lazy(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_DAY: Final = dt.timedelta(days=1)
_COARSENESS: Final[dict[Granularity, int]] = {"day": 0, "week": 1, "month": 2, "year": 3}


def day(date: dt.date) -> Interval:
    """One day."""
    return Interval(date, date, "day")


def week(date: dt.date) -> Interval:
    """The week, Monday to Sunday, that holds a day."""
    monday = date - _DAY * date.weekday()
    return Interval(monday, monday + _DAY * 6, "week")


def weekend(date: dt.date) -> Interval:
    """Saturday and Sunday of the week that holds a day."""
    monday = date - _DAY * date.weekday()
    return Interval(monday + _DAY * 5, monday + _DAY * 6, "day")


def month(year_no: int, month_no: int) -> Interval:
    """One month; months outside 1 to 12 count into the years around."""
    year_no, zero_based = year_no + (month_no - 1) // 12, (month_no - 1) % 12
    first = dt.date(year_no, zero_based + 1, 1)
    after = dt.date(year_no + zero_based // 11, (zero_based + 1) % 12 + 1, 1)
    return Interval(first, after - _DAY, "month")


def year(year_no: int) -> Interval:
    """One year."""
    return Interval(dt.date(year_no, 1, 1), dt.date(year_no, 12, 31), "year")


def years(first: int, last: int) -> Interval:
    """The years from `first` to `last`, both included."""
    return Interval(dt.date(first, 1, 1), dt.date(last, 12, 31), "year")


def season(year_no: int, name: str) -> Interval:
    """The season that begins in a year."""
    first = SEASONS[name]
    return Interval(month(year_no, first).start, month(year_no, first + 2).end, "month")


def feast(year_no: int, name: str) -> Interval:
    """The days of a feast; Thanksgiving is that of the United States, the fourth Thursday of November."""
    month_no, first, last = FEASTS[name]
    if not first:
        november = dt.date(year_no, month_no, 1)
        first = last = 22 + (3 - november.weekday()) % 7
    return Interval(dt.date(year_no, month_no, first), dt.date(year_no, month_no, last), "day")


def period(unit: str, date: dt.date, steps: int) -> Interval:
    """The calendar day, week, weekend, month or year that lies `steps` after the one that holds a day."""
    if unit == "day":
        return day(date + _DAY * steps)
    if unit == "week":
        return week(date + _DAY * (7 * steps))
    if unit == "weekend":
        return weekend(date + _DAY * (7 * steps))
    if unit == "month":
        return month(date.year, date.month + steps)
    return year(date.year + steps)


def weekday_from(date: dt.date, weekday: int, steps: int) -> dt.date:
    """The weekday (0 is Monday) strictly before (`steps` < 0) or after (`steps` > 0) a day, `steps` weeks
    away.
    """
    if steps < 0:
        return date - _DAY * ((date.weekday() - weekday - 1) % 7 + 1 + 7 * (-steps - 1))
    return date + _DAY * ((weekday - date.weekday() - 1) % 7 + 1 + 7 * (steps - 1))


def back(date: dt.date, unit: str, steps: int) -> dt.date:
    """The day `steps` units before a day; the day of the month is cut to the length of the month."""
    if unit in ("day", "week"):
        return date - _DAY * (steps * (7 if unit == "week" else 1))
    target = month(date.year, date.month - steps * (12 if unit == "year" else 1))
    return target.start.replace(day=min(date.day, target.end.day))


def hull(first: Interval, second: Interval) -> Interval:
    """The smallest range that holds both, as coarse as the coarser."""
    coarse = max(first.granularity, second.granularity, key=_COARSENESS.__getitem__)
    return Interval(min(first.start, second.start), max(first.end, second.end), coarse)


def either(first: dt.date, second: dt.date) -> Interval:
    """A range for a day that is one of two: everything between them."""
    low, high = min(first, second), max(first, second)
    distance = (high - low).days
    coarse: Granularity = "day" if not distance else "week" if distance < 14 else "month"
    return Interval(low, high, coarse if distance <= 92 else "year")


def iso_days(text: str) -> tuple[dt.date, dt.date] | None:
    """The first and the last day of a year, a month or a day."""
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day = (int(part) if part else None for part in found.groups())
    assert year is not None
    try:
        if month is None:
            return dt.date(year, 1, 1), dt.date(year, 12, 31)
        if day is None:
            return dt.date(year, month, 1), dt.date(year, month, calendar.monthrange(year, month)[1])
        return dt.date(year, month, day), dt.date(year, month, day)
    except ValueError:
        return None

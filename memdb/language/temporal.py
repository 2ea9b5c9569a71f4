"""Expressions of time in a text, as conservative closed ranges of days (QGMem appendix F1: a bounded relative
expression becomes a range that surely holds it, a vague one becomes nothing).

Relative expressions count from the speaker's own calendar day. What is read, and what deliberately is not, is
listed in docs/why/dates.md. Linear in the length of the text: words are looked up in a table, and only at a
word that can begin an expression are the few rules of that word tried, each bounded in length.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, NamedTuple

from memdb.language import calendar
from memdb.language.absolute import Read, read_absolute
from memdb.language.datewords import ALL_MONTHS, FEASTS, NEAR_DAYS_UNSPACED, SEASONS
from memdb.language.patterns import lazy
from memdb.language.relative import COUNTED_DIGITS, RELATIVE
from memdb.language.words import word_set
from memdb.records import Interval


class TimeExpression(NamedTuple):
    """An expression of time at characters `start_char` to `end_char` (excluded), and the days it can mean."""

    start_char: int
    end_char: int
    interval: Interval


_FLAGS: Final = re.IGNORECASE
_DAY: Final = dt.timedelta(days=1)
_WORD: Final = lazy(r"\d+|[^\W\d_]+")
_ABSOLUTE_WORDS: Final = frozenset(
    list(ALL_MONTHS)
    + list(SEASONS)
    + [feast.split(" ")[0].removesuffix("s") for feast in FEASTS]
    + list(FEASTS)
)
_RELATIVE_WORDS: Final = frozenset(RELATIVE)
# Common words that begin an expression only together with one of the others or a number.
_WEAK: Final = word_set("the in on at for over during a an one this early later earlier")
_STRONG: Final = (
    _ABSOLUTE_WORDS | _RELATIVE_WORDS | word_set("ago day days weeks month months year years night")
) - _WEAK
_THIS: Final = word_set("morning afternoon evening week weekend month year today")
_RANGE: Final = lazy(r"\s*(?:to|until|till|through|thru|-|–|—|bis|al|au|a|até)\s*(?:the\s)?", _FLAGS)
_AND: Final = lazy(r"\s*(?:and|und|et|y|e)\s*", _FLAGS)
_BETWEEN: Final = lazy(r"\b(?:between|zwischen|entre|tra|fra)\s(?:the\s)?\Z", _FLAGS)
_OPEN: Final = lazy(r"\b(?:(since)|(until|till)|before|after|prior\sto|ahead\sof)\s(?:the\s)?\Z", _FLAGS)
_UNSPACED: Final = lazy("|".join(sorted(NEAR_DAYS_UNSPACED, key=len, reverse=True)))


def expressions(text: str, anchor: dt.date | None) -> list[TimeExpression]:
    """The expressions of time in a text, in order, without overlaps.

    `anchor` is the speaker's calendar day; without it only full dates, months with a year and years are read.
    """
    found = _spaced(text, anchor) if _worth_reading(text) else []
    if anchor is not None and not text.isascii():
        found = _with_unspaced(text, anchor, found)
    if not found:
        return found
    return [kept for kept in (_opened(text, anchor, one) for one in _joined(text, found)) if kept is not None]


def _worth_reading(text: str) -> bool:
    words = _WORD.findall(text.lower())
    if not _STRONG.isdisjoint(words):
        return True
    return any(word[0].isdigit() for word in words) or ("this" in words and not _THIS.isdisjoint(words))


def _spaced(text: str, anchor: dt.date | None) -> list[TimeExpression]:
    found: list[TimeExpression] = []
    taken = 0
    for word in _WORD.finditer(text):
        start = word.start()
        if start < taken:
            continue
        read = _read(text, start, word[0].lower(), anchor)
        if read is not None:
            taken = read.end
            if read.interval is not None:
                found.append(TimeExpression(start, read.end, read.interval))
    return found


def _read(text: str, start: int, word: str, anchor: dt.date | None) -> Read | None:
    digits = word[0].isdigit()
    for rule in COUNTED_DIGITS if digits else RELATIVE.get(word, ()):
        try:
            read = rule(text, start, anchor)
        except (ValueError, OverflowError):  # a day outside the years 1 to 9999
            continue
        if read is not None:
            return read
    return read_absolute(text, start, anchor) if digits or word in _ABSOLUTE_WORDS else None


def _with_unspaced(text: str, anchor: dt.date, found: list[TimeExpression]) -> list[TimeExpression]:
    for word in _UNSPACED.finditer(text):
        try:
            day = calendar.day(anchor + _DAY * NEAR_DAYS_UNSPACED[word[0]])
        except OverflowError:
            continue
        found.append(TimeExpression(word.start(), word.end(), day))
    return sorted(found)


def _joined(text: str, found: list[TimeExpression]) -> list[TimeExpression]:
    """Two dates with "to" between them, or "and" after "between", are one range."""
    joined: list[TimeExpression] = []
    for one in found:
        if joined:
            last = joined[-1]
            pattern = _RANGE
            if _BETWEEN.search(text, max(0, last.start_char - 20), last.start_char):
                pattern = _AND
            adjacent = one.start_char - last.end_char < 16 and pattern.fullmatch(
                text, last.end_char, one.start_char
            )
            if (
                adjacent
                and last.interval.start <= one.interval.end
                and last.interval.start <= one.interval.start
            ):
                both = calendar.hull(last.interval, one.interval)
                joined[-1] = TimeExpression(last.start_char, one.end_char, both)
                continue
        joined.append(one)
    return joined


def _opened(text: str, anchor: dt.date | None, one: TimeExpression) -> TimeExpression | None:
    """since X is from X to today, until X from today to X; before or after X has no bound and is dropped."""
    side = _OPEN.search(text, max(0, one.start_char - 16), one.start_char)
    if side is None:
        return one
    start, end = one.interval.start, one.interval.end
    if anchor is not None and side[1] and start <= anchor:
        return one._replace(interval=Interval(start, anchor, one.interval.granularity))
    if anchor is not None and side[2] and end >= anchor:
        return one._replace(interval=Interval(anchor, end, one.interval.granularity))
    return None

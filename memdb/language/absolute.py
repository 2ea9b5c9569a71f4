"""Dates that name their day, month or year themselves.

A day without a year needs the speaker's day to find the year: the last such day for something told in the
past, the next one for something to come. `5/7/2023` can be two days: the range from one to the other is what
surely holds it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from memdb.language import calendar
from memdb.language.datewords import ALL_MONTHS, FEASTS, MONTHS, SEASONS
from memdb.language.patterns import lazy
from memdb.language.tense import Tense, tense
from memdb.language.words import word_set
from memdb.records import Interval


class Read(NamedTuple):
    """An expression that ends before character `end`; without an interval it is known to name no bounded
    time.
    """

    end: int
    interval: Interval | None


Match = re.Match[str]
Builder = Callable[[Match, dt.date | None], Interval | None]

_FLAGS: Final = re.IGNORECASE
EDGE: Final = r"(?![^\W_])"  # no letter or digit follows
_MONTHS: Final = "|".join(sorted(ALL_MONTHS, key=len, reverse=True))
_MONTH: Final = rf"(?P<month>{_MONTHS})\.?"
_FEASTS: Final = "|".join(word.replace("s ", "['’]?s ") for word in sorted(FEASTS, key=len, reverse=True))
_DAY_NO: Final = r"(?:0?[1-9]|[12]\d|3[01])(?!\d)"
_NTH: Final = r"(?:\s?(?:st|nd|rd|th)(?!\w)|\.(?=\s)|º|°)?"
_YEAR: Final = rf"(?:1[5-9]|20|21)\d\d{EDGE}(?![-/:,.]\d)"
_OF: Final = r"(?:of\s|de\s|del\s|di\s|d')?"
_TO: Final = r"\s?(?:-|–|—|to|until|till|through|bis|al|au|a|até|and|und|et|y|e)\s?(?:the\s)?"
_NO_CLOCK: Final = r"(?!\s?(?::\d|[ap]\.?m\b|o'clock|%))"

# Months whose names are also ordinary words or first names: alone only after a preposition of time.
_SHY: Final = word_set("may march mar mai mars marco april june august jan dec sep juan")
_MONTH_CUE: Final = lazy(
    r"\b(?:in|during|since|by|until|till|through|throughout|around|from|between|of|early|late|mid|im|seit|en"
    r"|em)(?:\s|(?<=mid)-)(?:the\s)?(?:beginning\s|end\s|middle\s)?(?:of\s)?\Z"
)
_YEAR_CUE: Final = lazy(
    r"(?:\b(?:in|during|since|by|until|till|year|through|around|circa|from|to|between|and|early|late|mid|im"
    r"|en|nel|em|class of|back in|(?:end|start|beginning|middle|half|rest|most) of)\s|\bmid-|[(])\Z"
)
_COUNTED: Final = lazy(
    r"\s?(?:[$€£%°]|(?:(?!(?:was|is|has|this|its|his|as|us|always|perhaps)\b)[a-z]{1,30}s|people|percent|usd"
    r"|eur|km|kg|mi|lb|feet|men|women|children|hp|mah|mb|gb|more|or|plus|extra|different|dollar|euro|square"
    r"|cubic|sq|hours?)\b)"
)
_SUBJECT_YEAR: Final = lazy(r"\s(?:was|has been|is going to be|will be|went|started|began|turned out)\b")
_ORDINAL: Final = lazy(r"\d\s?(?:st|nd|rd|th)|\sof\s", _FLAGS)
_NOUN_NEXT: Final = lazy(r"\s[a-z]{3,}")


def read_absolute(text: str, start: int, anchor: dt.date | None) -> Read | None:
    """The absolute date that begins at a character, if one does."""
    forms = _DIGIT_FORMS if text[start : start + 1].isdigit() else _WORD_FORMS
    for pattern, build in forms:
        if found := pattern.match(text, start):
            try:
                interval = build(found, anchor)
            except (ValueError, OverflowError):  # an impossible day: 30 February 2023
                return Read(found.end(), None)
            if interval is not None:
                return Read(found.end(), interval)
    return None


def near_day(anchor: dt.date, month: int, day: int, when: Tense) -> dt.date:
    """The day of the year nearest to the anchor on the side that the tense points to."""
    days = []
    for year in range(max(1, anchor.year - 4), min(9999, anchor.year + 4) + 1):
        try:
            days.append(dt.date(year, month, day))
        except ValueError:
            continue
    if when in ("future", "present"):
        return min(candidate for candidate in days if candidate >= anchor)
    return max(candidate for candidate in days if candidate <= anchor)


def near_month(anchor: dt.date, month: int, when: Tense) -> Interval:
    """The month of that name nearest to the anchor on the side that the tense points to, the current one
    included.
    """
    later = when in ("future", "present")
    year = anchor.year + (month < anchor.month if later else -(month > anchor.month))
    return calendar.month(year, month)


def feast_name(said: str) -> str:
    """A feast as the table of feasts writes it."""
    return said.lower().replace("'", "").replace("’", "")


def _tense(found: Match) -> Tense:
    return tense(found.string, found.start(), found.end())


def _ymd(found: Match, anchor: dt.date | None) -> Interval | None:
    return calendar.day(dt.date(int(found[1]), int(found[2]), int(found[3])))


def _year_month(found: Match, anchor: dt.date | None) -> Interval | None:
    year, month = int(found["year"]), int(found["month"])
    return calendar.month(year, month) if 1 <= month <= 12 else None


def _dash_month(found: Match, anchor: dt.date | None) -> Interval | None:
    # "2010-12" may as well be the years 2010 to 2012.
    doubtful = int(found["month"]) > int(found["year"]) % 100
    return None if doubtful else _year_month(found, anchor)


def _year_range(found: Match, anchor: dt.date | None) -> Interval | None:
    first, last = int(found[1]), int(found[2])
    return calendar.years(first, last) if first < last <= first + 100 else None


def _decade(found: Match, anchor: dt.date | None) -> Interval | None:
    first = int(found[1])
    return calendar.years(first, first + (99 if first % 100 == 0 else 9))  # "the 1900s" may be the century


def _numeric(found: Match, anchor: dt.date | None) -> Interval | None:
    first, second, year = int(found[1]), int(found[3]), int(found[4])
    if len(found[4]) == 2:
        year += 2000 if year < 70 else 1900
    if found[2] == "." or first > 12:
        return calendar.day(dt.date(year, second, first))
    if second > 12:
        return calendar.day(dt.date(year, first, second))
    return calendar.either(dt.date(year, first, second), dt.date(year, second, first))


def _named(found: Match, anchor: dt.date | None) -> Interval | None:
    month, day = ALL_MONTHS[found["month"].lower()], int(found["day"])
    if year := found["year"] or found["year2"]:
        return calendar.day(dt.date(int(year), month, day))
    if anchor is None or _doubtful_month(found):
        return None
    return calendar.day(near_day(anchor, month, day, _tense(found)))


def _doubtful_month(found: Match) -> bool:
    """Whether "march 3 miles" or "the 3 may" counts something: in lower case, no "th" at the number."""
    word = found["month"].rstrip(".")
    if word not in _SHY or _ORDINAL.search(found[0]):
        return False
    number_first = found.start("day") < found.start("month")
    return (number_first and word in MONTHS["en"]) or bool(_NOUN_NEXT.match(found.string, found.end()))


def _named_range(found: Match, anchor: dt.date | None) -> Interval | None:
    month, first, last = ALL_MONTHS[found["month"].lower()], int(found["day"]), int(found["last"])
    if first >= last:
        return None
    if found["year"]:
        year = int(found["year"])
    elif anchor is not None:
        year = near_day(anchor, month, first, _tense(found)).year
    else:
        return None
    return Interval(dt.date(year, month, first), dt.date(year, month, last), "day")


def _spelled_day(found: Match) -> int | None:
    """The day of "the second of June": the words stand before the month."""
    before = _SPELLED.search(found.string[max(0, found.start() - 24) : found.start()].lower())
    return _SPELLED_DAYS[before[1].replace(" ", "-")] if before else None


def _month_of_year(found: Match, anchor: dt.date | None) -> Interval | None:
    if day := _spelled_day(found):
        return calendar.day(dt.date(int(found["year"]), ALL_MONTHS[found["month"].lower()], day))
    return calendar.month(int(found["year"]), ALL_MONTHS[found["month"].lower()])


def _bare_month(found: Match, anchor: dt.date | None) -> Interval | None:
    word = found["month"]
    if anchor is not None and (day := _spelled_day(found)):
        return calendar.day(near_day(anchor, ALL_MONTHS[word.lower()], day, _tense(found)))
    cue = _MONTH_CUE.search(found.string[max(0, found.start() - 30) : found.start()].lower())
    if anchor is None or not (cue or (word[0].isupper() and word.lower() not in _SHY and len(word) > 3)):
        return None
    if word.lower() not in MONTHS["en"] and not cue:
        return None
    if cue and word.lower() in _SHY and not word[0].isupper():
        return None
    return near_month(anchor, ALL_MONTHS[word.lower()], _tense(found))


def _season_of_year(found: Match, anchor: dt.date | None) -> Interval | None:
    return calendar.season(int(found["year"]), found["season"].lower())


def _feast_of_year(found: Match, anchor: dt.date | None) -> Interval | None:
    return calendar.feast(int(found["year"]), feast_name(found["feast"]))


def _bare_year(found: Match, anchor: dt.date | None) -> Interval | None:
    text, start, end = found.string, found.start(), found.end()
    if _COUNTED.match(text, end):
        return None
    before = text[max(0, start - 12) : start].lower()
    if _YEAR_CUE.search(before):
        return calendar.year(int(found["year"]))
    if before.endswith(("the ", "my ", "our ")) and _NOUN_NEXT.match(text, end):
        return calendar.year(int(found["year"]))
    begins = not before.strip() or before.rstrip()[-1] in ".!?\n"
    return calendar.year(int(found["year"])) if begins and _SUBJECT_YEAR.match(text, end) else None


def _cjk(found: Match, anchor: dt.date | None) -> Interval | None:
    year, month, day = (int(part) if part else None for part in found.groups())
    if month is None:
        return calendar.year(year) if year else None
    if year is not None:
        return calendar.day(dt.date(year, month, day)) if day else calendar.month(year, month)
    if anchor is None or day is None:
        return None
    return calendar.day(near_day(anchor, month, day, "past"))


def _forms(*rows: tuple[str, Builder]) -> tuple[tuple[re.Pattern[str], Builder], ...]:
    return tuple((lazy(pattern, _FLAGS), build) for pattern, build in rows)


_ONES: Final = "first second third fourth fifth sixth seventh eighth ninth".split()
_TEENS: Final = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_SPELLED_DAYS: Final = {
    **{word: day for day, word in enumerate([*_ONES, *_TEENS.split(), "twentieth"], 1)},
    **{f"twenty-{word}": day for day, word in enumerate(_ONES, 21)},
    "thirtieth": 30,
    "thirty-first": 31,
}
_SPELLED: Final = lazy(rf"\b({'|'.join(_SPELLED_DAYS).replace('-', '[ -]')})\sof\s\Z")

_FREE: Final = r"(?<![\w$€£¥#.,/:+-])"  # not inside a price, a version, an address or a longer number
_DAY: Final = rf"(?P<day>{_DAY_NO}){_NTH}"
_LAST: Final = rf"(?P<last>{_DAY_NO}){_NTH}"
_IN_YEAR: Final = rf"(?:(?:,\s?|\s)(?:of\s|de\s|del\s)?(?P<year>{_YEAR}))"
_SEASON: Final = rf"(?P<season>{'|'.join(SEASONS)})"
_FEAST: Final = rf"(?P<feast>{_FEASTS})"

_DIGIT_FORMS: Final = _forms(
    (rf"{_FREE}(\d{{4}})-(\d\d)-(\d\d)(?![\d-])(?:[T ]\d\d:\d\d[\d:.]{{0,16}}(?:Z|[+-]\d\d:?\d\d)?)?", _ymd),
    (rf"{_FREE}(\d{{4}})/(\d\d?)/(\d\d?)(?![\d/])", _ymd),
    (r"(?<!\d)(?:(\d{4})\s?[年년])\s?(?:(\d{1,2})\s?[月월])?\s?(?:(\d{1,2})\s?[日号號일])?", _cjk),
    (r"(?<!\d)(?:(\d{4})\s?[年년])?\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号號일]", _cjk),
    (rf"{_FREE}{_DAY}{_TO}{_LAST}[ -]?{_OF}{_MONTH}{_IN_YEAR}?{EDGE}", _named_range),
    (rf"{_FREE}{_DAY}[ -]?{_OF}{_MONTH}(?:{_IN_YEAR}|-(?P<year2>{_YEAR}))?{EDGE}", _named),
    (rf"{_FREE}(\d\d?)([/.-])(\d\d?)\2(\d{{4}}|(?<!\.)\d\d)(?![\w/-]|\.\d)", _numeric),
    (rf"{_FREE}(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/])", _year_month),
    (rf"{_FREE}(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?![\w-])", _dash_month),
    (rf"{_FREE}((?:19|20)\d\d)\s?[-–—]\s?((?:19|20)\d\d)(?![\w-])", _year_range),
    (rf"{_FREE}((?:1[5-9]|20)\d0)['’]?s{EDGE}", _decade),
    (rf"(?:{_FREE}|(?<=mid-))(?P<year>(?:1[5-9]|20)\d\d)(?![\w%/:+-]|[.,]\d)", _bare_year),
)

_WORD_FORMS: Final = _forms(
    (rf"{_MONTH}[ -]?{_DAY}{_TO}{_LAST}{_NO_CLOCK}{_IN_YEAR}?{EDGE}", _named_range),
    (rf"{_MONTH}(?:\s(?:the\s)?|-)?{_DAY}{_NO_CLOCK}(?:{_IN_YEAR}|-(?P<year2>{_YEAR}))?{EDGE}", _named),
    (rf"{_MONTH},?[ -](?:of\s|de\s|del\s)?(?P<year>{_YEAR})", _month_of_year),
    (rf"{_SEASON},?\s(?:of\s)?(?P<year>{_YEAR})", _season_of_year),
    (rf"{_FEAST},?\s(?:of\s|in\s)?(?P<year>{_YEAR})", _feast_of_year),
    (rf"{_MONTH}{EDGE}", _bare_month),
)

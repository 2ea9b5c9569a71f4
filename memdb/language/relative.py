"""Expressions of time that count from the speaker's day, or from a date named beside them.

Each rule is tried at one of its first words and reads a bounded stretch of text. "last Friday" is the last
one before the speaker's day; "next Friday" may mean the coming one or that of the next week, so it is the
range of both.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from memdb.language import calendar
from memdb.language.absolute import EDGE, Read, feast_name, near_day, read_absolute
from memdb.language.datewords import (
    ALL_MONTHS,
    COUNTS,
    FEASTS,
    MONTHS,
    NEAR_DAYS,
    NEAR_PERIODS,
    SEASONS,
    WEEKDAYS,
)
from memdb.language.patterns import lazy
from memdb.language.tense import tense
from memdb.records import Interval

Match = re.Match[str]
Rule = Callable[[str, int, dt.date | None], Read | None]
_Builder = Callable[[Match, dt.date], Interval | None]

_FLAGS: Final = re.IGNORECASE
_DAY: Final = dt.timedelta(days=1)
_REACH: Final = 80  # characters around a word that say which language it belongs to
_NUMBER: Final = r"(?P<number>\d{1,3}|" + "|".join(sorted(COUNTS, key=len, reverse=True)) + r")\+?"
_UNIT: Final = r"(?P<unit>day|weekend|week|month|year|yr)s?"
_WEEKDAY: Final = r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_PART: Final = rf"(?:\s(?:morning|afternoon|evening|night|noon|lunchtime){EDGE})?"
_MONTH: Final = rf"(?P<month>{'|'.join(sorted(MONTHS['en'], key=len, reverse=True))})\.?"
_SEASON: Final = rf"(?P<season>{'|'.join(SEASONS)})"
_FEAST: Final = (
    "(?P<feast>" + "|".join(w.replace("s ", "['’]?s ") for w in sorted(FEASTS, key=len, reverse=True)) + ")"
)
_ABOUT: Final = lazy(
    r"\b(?:about|around|roughly|approximately|approx|almost|nearly|over|more than|some|maybe|like)\s\Z",
    _FLAGS,
)
_SEEMING: Final = lazy(r"\blike\s(?:it\swas\s)?(?:just\s|only\s)?\Z", _FLAGS)  # "feels like yesterday"
_LASTING: Final = lazy(r"\b(?:for|over)\s(?:the\s)?\Z", _FLAGS)
_RECURRING: Final = lazy(
    r"\b(?:every|each|most|any|per|some|a|an|one|another|all|other|black|good|ash|palm|super|casual)[\s-]\Z",
    _FLAGS,
)
_CLAUSE_END: Final = lazy(r"\s*(?:\Z|[^\w\s'’]|(?:and|but|so|when|because)\b)")
_NAME_NEXT: Final = lazy(r"\s[A-Z][a-z]+|\s(?:school|schools|roast|league|paper|times|brunch club)\b|['’-]\w")
_MAIN: Final = lazy(r"['’]s\b")
_NTH_NEXT: Final = lazy(
    r"(?!\s?(?:-\s?)?(?:of|floor|grade|time|day|place|birthday|anniversary|attempt|try|century|street|avenue"
    r"|ave|st|one|edition|chapter|hole|level|row|page|step|option|point|item|\w*ing)\b)"
    r"(?:\s*\Z|\s*[^\w\s]|\s[a-z]{1,6}\b)"
)


def _rule(pattern: str, build: _Builder) -> Rule:
    """A rule that reads a pattern; a builder's None, and a day outside the calendar, read nothing."""
    compiled = lazy(pattern, _FLAGS)

    def read(text: str, start: int, anchor: dt.date | None) -> Read | None:
        found = compiled.match(text, start) if anchor is not None else None
        if found is None or anchor is None:
            return None
        interval = build(found, anchor)
        return None if interval is None else Read(found.end(), interval)

    return read


def _before(found: Match, pattern: re.Pattern[str]) -> bool:
    return bool(pattern.search(found.string[max(0, found.start() - 24) : found.start()]))


def _unit(found: Match) -> str:
    return found["unit"].lower().replace("yr", "year")


def _count(found: Match) -> int:
    said = found["number"].lower()
    return int(said) if said.isdigit() else COUNTS[said]


def _near(found: Match, anchor: dt.date) -> Interval | None:
    if _before(found, _SEEMING):
        return None
    return calendar.day(anchor + _DAY * NEAR_DAYS[found["word"].lower().replace("’", "'")])


def _day_after_next(found: Match, anchor: dt.date) -> Interval | None:
    return calendar.day(anchor + _DAY * (2 if found["way"].lower() == "after" else -2))


def _this_day(found: Match, anchor: dt.date) -> Interval | None:
    return calendar.day(anchor)


def _last_night(found: Match, anchor: dt.date) -> Interval | None:
    return calendar.day(anchor - _DAY)


def _ago(found: Match, anchor: dt.date) -> Interval | None:
    return _away(found, anchor, 1)


def _ahead(found: Match, anchor: dt.date) -> Interval | None:
    return _away(found, anchor, -1)


def _in_future(found: Match, anchor: dt.date) -> Interval | None:
    past = tense(found.string, found.start(), found.end()) == "past"
    return None if past else _away(found, anchor, -1)


def _away(found: Match, anchor: dt.date, way: int) -> Interval | None:
    unit, steps = _unit(found), _count(found) * way
    day = calendar.back(anchor, unit.replace("weekend", "week"), steps)
    exact = calendar.period(unit, day, 0)
    if not _before(found, _ABOUT) and "+" not in found[0]:
        return exact
    wide = calendar.hull(calendar.period(unit, day, -1), calendar.period(unit, day, 1))
    limit = anchor - _DAY * way
    return Interval(min(wide.start, limit), wide.end, wide.granularity) if way < 0 else _until(wide, limit)


def _until(wide: Interval, limit: dt.date) -> Interval:
    return Interval(min(wide.start, limit), min(wide.end, limit), wide.granularity)


_STEP: Final = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1, "following": 1}


def _step(found: Match) -> int:
    words = found["step"].lower().split()
    return _STEP[words[-1]]


def _step_unit(found: Match, anchor: dt.date) -> Interval | None:
    """last week, this month, next year; "the past week" is the seven days that end today."""
    unit, step, said = _unit(found), _step(found), found["step"].lower()
    if unit == "day":
        return None
    if said == "past" and unit != "weekend":
        if _before(found, _LASTING):
            return None
        return Interval(calendar.back(anchor, unit, 1), anchor, calendar.period(unit, anchor, 0).granularity)
    if unit == "weekend" and step > 0 and said.endswith("coming"):
        step = 0
    return calendar.period(unit, anchor, step)


def _past_units(found: Match, anchor: dt.date) -> Interval | None:
    """in the last three weeks: a range that ends today."""
    if _before(found, _LASTING):
        return None
    unit = _unit(found).replace("weekend", "week")
    reach = calendar.back(anchor, unit, _count(found))
    return Interval(reach, anchor, calendar.period(unit, anchor, 0).granularity)


def _part_of_unit(found: Match, anchor: dt.date) -> Interval | None:
    """earlier this week ends today, later this week begins today."""
    whole = calendar.period(_unit(found), anchor, 0)
    if found["part"].lower() in ("earlier", "early"):
        return Interval(whole.start, anchor, whole.granularity)
    return Interval(anchor, whole.end, whole.granularity)


def _before_last(found: Match, anchor: dt.date) -> Interval | None:
    if found["weekday"]:
        return calendar.day(calendar.weekday_from(anchor, WEEKDAYS[found["weekday"].lower()], -2))
    step = -2 if found["way"].lower() == "before" else 2
    return calendar.period(_unit(found), anchor, step)


def _weekend_before(found: Match, anchor: dt.date) -> Interval | None:
    return calendar.weekend(anchor - _DAY * 7) if _CLAUSE_END.match(found.string, found.end()) else None


def _step_weekday(found: Match, anchor: dt.date) -> Interval | None:
    weekday, said = WEEKDAYS[found["weekday"].lower()], found["step"].lower()
    if said == "this":
        return calendar.day(calendar.week(anchor).start + _DAY * weekday)
    if _step(found) < 0:
        return calendar.day(calendar.weekday_from(anchor, weekday, -1))
    coming = calendar.weekday_from(anchor, weekday, 1)
    if said.endswith("coming"):
        return calendar.day(coming)
    return calendar.either(coming, calendar.week(anchor).start + _DAY * (7 + weekday))


def _step_month(found: Match, anchor: dt.date) -> Interval | None:
    month, step = ALL_MONTHS[found["month"].lower()], _step(found)
    if not found["month"][0].isupper() and len(found["month"]) < 5:
        return None
    if step == 0:
        return calendar.month(anchor.year, month)
    if step < 0:
        return calendar.month(anchor.year - (month >= anchor.month), month)
    return calendar.month(anchor.year + (month <= anchor.month), month)


def _step_season(found: Match, anchor: dt.date) -> Interval | None:
    name, step = found["season"].lower(), _step(found)
    seasons = [calendar.season(anchor.year + offset, name) for offset in (-2, -1, 0, 1)]
    if step < 0:
        return max((s for s in seasons if s.end < anchor), key=lambda s: s.start)
    if step > 0:
        return min((s for s in seasons if s.start > anchor), key=lambda s: s.start)
    current = next((s for s in seasons if s.start <= anchor <= s.end), None)
    return current or calendar.season(anchor.year, name)


def _step_feast(found: Match, anchor: dt.date) -> Interval | None:
    name, step = feast_name(found["feast"]), _step(found)
    if step < 0:
        past = [calendar.feast(anchor.year + offset, name) for offset in (-1, 0)]
        return max((f for f in past if f.end < anchor), key=lambda f: f.start)
    this = calendar.feast(anchor.year, name)
    return this if step == 0 or this.start > anchor else calendar.feast(anchor.year + 1, name)


def _on_feast(found: Match, anchor: dt.date) -> Interval | None:
    name = feast_name(found["feast"])
    day = calendar.feast(anchor.year, name).start
    near = near_day(anchor, day.month, day.day, tense(found.string, found.start(), found.end()))
    return calendar.feast(near.year, name)


def _bare_weekday(found: Match, anchor: dt.date) -> Interval | None:
    """on Friday: the one before for something past, the one after for something present or to come."""
    text, end = found.string, found.end()
    if not found["weekday"][0].isupper() and not found["on"]:
        return None
    if _before(found, _RECURRING) or (
        not found["part"] and _NAME_NEXT.match(text, end) and not _MAIN.match(text, end)
    ):
        return None
    step = 1 if tense(text, found.start(), end) in ("future", "present") else -1
    return calendar.day(calendar.weekday_from(anchor, WEEKDAYS[found["weekday"].lower()], step))


def _weekday_and_date(text: str, start: int, anchor: dt.date | None) -> Read | None:
    """Friday, 7 May 2023: the date says more than the weekday."""
    found = _WEEKDAY_LEAD.match(text, start)
    return read_absolute(text, found.end(), anchor) if found else None


def _from_day(found: Match, anchor: dt.date) -> Interval | None:
    """a week from Friday, two weeks from tomorrow, a year from now."""
    origin, unit, steps = found["origin"].lower(), _unit(found).replace("weekend", "week"), -_count(found)
    if origin in ("now", "today") and unit != "week":
        return calendar.period(unit, calendar.back(anchor, unit, steps), 0)
    if origin == "now":
        return calendar.week(calendar.back(anchor, unit, steps))
    if origin in WEEKDAYS:
        anchor = calendar.weekday_from(anchor, WEEKDAYS[origin], 1)
    elif origin == "tomorrow":
        anchor += _DAY
    return calendar.day(calendar.back(anchor, unit, steps))


def _on_the_nth(found: Match, anchor: dt.date) -> Interval | None:
    if not _NTH_NEXT.match(found.string, found.end()):
        return None
    day, when = int(found["day"]), tense(found.string, found.start(), found.end())
    step = 1 if when in ("future", "present") else -1
    month = calendar.month(anchor.year, anchor.month)
    for _ in range(3):
        if day <= month.end.day:
            candidate = month.start.replace(day=day)
            if (candidate - anchor).days * step >= 0:
                return calendar.day(candidate)
        month = calendar.month(month.start.year, month.start.month + step)
    return None


def _over_season(found: Match, anchor: dt.date) -> Interval | None:
    later = tense(found.string, found.start(), found.end()) == "future"
    name = found["season"].lower()
    seasons = [calendar.season(anchor.year + offset, name) for offset in (-2, -1, 0, 1)]
    if later:
        return min((s for s in seasons if s.end >= anchor), key=lambda s: s.start)
    return max((s for s in seasons if s.start <= anchor), key=lambda s: s.start)


def _beside_date(text: str, start: int, anchor: dt.date | None) -> Read | None:
    """the Sunday before 25 May 2023, the week of 9 June, two days after May 7th."""
    found = _BESIDE.match(text, start)
    if found is None:
        return None
    date = read_absolute(text, found.end(), anchor)
    if date is None or date.interval is None or date.interval.granularity != "day":
        return None
    interval = _beside(found, date.interval)
    return None if interval is None else Read(date.end, interval)


def _beside(found: Match, date: Interval) -> Interval | None:
    way = found["way"].lower()
    step = -1 if way in ("before", "preceding", "prior to") else 1
    if found["weekday"]:
        weekday = WEEKDAYS[found["weekday"].lower()]
        return None if way == "of" else calendar.day(calendar.weekday_from(date.start, weekday, step))
    unit = _unit(found)
    if way == "of":
        return calendar.period(unit, date.start, 0) if unit in ("week", "weekend") else None
    if found["number"] is None:
        return calendar.period(unit, date.start if step < 0 else date.end, step)
    day = calendar.back(date.start, unit.replace("weekend", "week"), -step * _count(found))
    return calendar.period(unit, day, 0)


def _week_of_month(text: str, start: int, anchor: dt.date | None) -> Read | None:
    """the first week of June 2023: the days 1 to 7; the last: the last seven."""
    found = _NTH_WEEK.match(text, start)
    month = read_absolute(text, found.end(), anchor) if found else None
    if found is None or month is None or month.interval is None or month.interval.granularity != "month":
        return None
    first, last = month.interval.start, month.interval.end
    which = {"first": 0, "second": 1, "third": 2, "fourth": 3}.get(found["which"].lower())
    if which is None:
        return Read(month.end, Interval(last - _DAY * 6, last, "week"))
    return Read(month.end, Interval(first + _DAY * (7 * which), first + _DAY * (7 * which + 6), "week"))


def _near_period(text: str, start: int, anchor: dt.date | None) -> Read | None:
    found = _NEAR_PERIOD.match(text, start) if anchor is not None else None
    if found is None or anchor is None:
        return None
    unit, step = NEAR_PERIODS[found[0].lower()]
    return Read(found.end(), calendar.period(unit, anchor, step))


def _foreign_near(text: str, start: int, anchor: dt.date | None) -> Read | None:
    """Words for a near day that mean something else elsewhere: "hier", "morgen", "mañana"."""
    for pattern, guard, step in _SHARED_WORDS:
        found = pattern.match(text, start) if anchor is not None else None
        if found and anchor and guard.search(text, max(0, start - _REACH), start + _REACH):
            return Read(found.end(), calendar.day(anchor + _DAY * step))
    return None


_WEEKDAY_LEAD: Final = lazy(rf"(?:on\s)?{_WEEKDAY}(?:,\s|\s)(?:the\s)?", _FLAGS)
_BESIDE: Final = lazy(
    rf"(?:the\s|last\s|{_NUMBER}\s)?(?:{_WEEKDAY}|{_UNIT})\s"
    r"(?P<way>before|after|following|preceding|prior to|of)\s(?:the\s)?",
    _FLAGS,
)
_NTH_WEEK: Final = lazy(r"the\s(?P<which>first|second|third|fourth|last)\sweek\s(?:of|in)\s", _FLAGS)
_NEAR_PERIOD: Final = lazy(
    "(?:"
    + "|".join(re.escape(phrase) for phrase in sorted(NEAR_PERIODS, key=len, reverse=True))
    + ")"
    + EDGE,
    _FLAGS,
)
_FRENCH: Final = lazy(
    r"\b(?:je|j['’]\w+|suis|nous|avons|était|est|sont|une|les|à|du|avec|ai|il|elle|le|la)\b", _FLAGS
)
_GERMAN: Final = lazy(
    r"\b(?:ich|wir|ist|sind|war|habe|werde|der|die|das|und|nicht|gehe|zum|zur|mit|haben)\b", _FLAGS
)
_SPANISH: Final = lazy(r"\b(?:yo|voy|es|el|la|los|una|con|tengo|iré|vamos|para|que|de|en|mi)\b", _FLAGS)
_SHARED_WORDS: Final = (
    (lazy(rf"hier{EDGE}"), _FRENCH, -1),
    (lazy(rf"Hier{EDGE}(?=[ ,](?:j|nous|on|il|elle|soir|matin))"), _FRENCH, -1),
    (lazy(rf"morgen{EDGE}(?<!heute morgen)(?<!gestern morgen)(?<!guten morgen)"), _GERMAN, 1),
    (lazy(rf"mañana{EDGE}(?<!la mañana)(?<!esta mañana)"), _SPANISH, 1),
)

_STEPS: Final = r"(?P<step>this\spast|this\scoming|the\scoming|last|this|next|past|previous|coming|following)"
_NEAR_WORDS: Final = "|".join(
    re.escape(word).replace("'", "['’]") for word in sorted(NEAR_DAYS, key=len, reverse=True)
)

_NEAR_DAY: Final = _rule(rf"(?P<word>{_NEAR_WORDS}){EDGE}{_PART}", _near)
_AGO: Final = _rule(rf"{_NUMBER}\s?{_UNIT}\sago{EDGE}", _ago)
_FROM: Final = _rule(rf"{_NUMBER}\s{_UNIT}\sfrom\s(?P<origin>now|today|tomorrow|{_WEEKDAY}){EDGE}", _from_day)
_COUNTED: Final = (_beside_date, _AGO, _FROM)
_THE: Final = (
    _rule(rf"the\sday\s(?P<way>before|after)\s(?:yesterday|tomorrow){EDGE}", _day_after_next),
    _rule(rf"the\s(?:{_WEEKDAY}|{_UNIT})\s(?P<way>before|after)\s(?:last|next){EDGE}", _before_last),
    _rule(rf"the\sweekend\sbefore{EDGE}", _weekend_before),
    _beside_date,
    _week_of_month,
)
_STEP_RULES: Final = (
    _beside_date,
    _rule(rf"last\snight{EDGE}", _last_night),
    _rule(rf"this\s(?:morning|afternoon|evening){EDGE}", _this_day),
    _rule(rf"{_STEPS}\s{_UNIT}{EDGE}(?<!s)", _step_unit),
    _rule(rf"(?:last|past|previous)\s{_NUMBER}\s{_UNIT}{EDGE}", _past_units),
    _rule(rf"{_STEPS}\s{_WEEKDAY}{EDGE}{_PART}", _step_weekday),
    _rule(rf"{_STEPS}\s{_MONTH}{EDGE}(?!\s\d)", _step_month),
    _rule(rf"{_STEPS}\s{_SEASON}{EDGE}", _step_season),
    _rule(rf"{_STEPS}\s{_FEAST}{EDGE}", _step_feast),
    _near_period,
)
_WEEKDAY_RULES: Final = (
    _weekday_and_date,
    _rule(rf"(?P<on>on\s)?{_WEEKDAY}{EDGE}(?P<part>{_PART})", _bare_weekday),
)
_IN_RULES: Final = (_rule(rf"in\s(?:about\s)?{_NUMBER}\s{_UNIT}{EDGE}(?!\s(?:ago|a\srow))", _in_future),)
_ON_RULES: Final = (
    *_WEEKDAY_RULES,
    _rule(rf"on\sthe\s(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th){EDGE}", _on_the_nth),
    _rule(rf"(?:on|at|for)\s{_FEAST}{EDGE}(?!\s\d)", _on_feast),
)
_DURING: Final = _rule(rf"(?:over|during)\sthe\s{_SEASON}{EDGE}(?!,?\s(?:of\s)?\d)", _over_season)
_PARTS: Final = _rule(rf"(?P<part>earlier|early|later)\sthis\s{_UNIT}{EDGE}", _part_of_unit)
_TODAY: Final = _rule(rf"(?:earlier|later)\stoday{EDGE}", _this_day)


def _first_words() -> dict[str, tuple[Rule, ...]]:
    """The rules to try at a word, by the run of letters it begins with."""
    table: dict[str, tuple[Rule, ...]] = {
        "the": _THE,
        "in": _IN_RULES,
        "on": _ON_RULES,
        "at": _ON_RULES[-1:],
        "for": _ON_RULES[-1:],
        "over": (_DURING,),
        "during": (_DURING,),
        "day": (_rule(rf"day\s(?P<way>before|after)\s(?:yesterday|tomorrow){EDGE}", _day_after_next),),
        "week": (_beside_date,),
        "weekend": (_beside_date,),
    }
    for rules, words in (
        (_COUNTED, COUNTS),
        ((_PARTS, _TODAY), ("earlier", "early", "later")),
        (_STEP_RULES, ("last", "this", "next", "past", "previous", "coming", "following")),
        ((_beside_date, *_WEEKDAY_RULES), [word for word in WEEKDAYS if word.endswith("day")]),
        ((_NEAR_DAY,), [re.split("['’-]", word)[0] for word in NEAR_DAYS]),
        ((_near_period,), [re.split("['’ -]", phrase)[0] for phrase in NEAR_PERIODS]),
        ((_foreign_near,), ("hier", "morgen", "mañana")),
    ):
        for word in words:
            table[word] = table.get(word, ()) + rules
    return table


RELATIVE: Final[dict[str, tuple[Rule, ...]]] = _first_words()
COUNTED_DIGITS: Final[tuple[Rule, ...]] = _COUNTED

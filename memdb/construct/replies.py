"""What a model replies at each stage of construction: JSON schemas, reading, repair (QGMem appendix F1)."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec

from memdb import settings
from memdb.models.ports import Completion
from memdb.records import Granularity, Interval, Triple

_FENCE: Final = re.compile(r"\A\s*```[\w-]*\s*\n?|\n?\s*```\s*\Z")
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_GRANULARITIES: Final = get_args(Granularity)
_DAY: Final[dict[str, object]] = {"type": "string", "pattern": "^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$"}
T = TypeVar("T")


class Candidate(msgspec.Struct, frozen=True):
    """A unit as stage 1 gives it."""

    start_turn: str
    end_turn: str
    fact_text: str
    triple: Triple


class Candidates(msgspec.Struct, frozen=True):
    """The reply of stage 1."""

    memory_units: tuple[Candidate, ...]


class Time(msgspec.Struct, frozen=True):
    """A time as stage 2 gives it."""

    start: str
    end: str
    granularity: str


class Indexing(msgspec.Struct, frozen=True):
    """The indexes of one unit as stage 2 gives them."""

    memory_unit_id: str
    entities: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    time: tuple[Time, ...] = ()


class Indexes(msgspec.Struct, frozen=True):
    """The reply of stage 2."""

    memory_units: tuple[Indexing, ...]


class Told(msgspec.Struct, frozen=True):
    """The reply to the question for a trajectory."""

    trajectory: str


class Spent(NamedTuple):
    """Tokens of a backbone."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0

    def plus(self, reply: Completion) -> Spent:
        """With one more reply."""
        return Spent(
            self.prompt + reply.prompt_tokens,
            self.cached + reply.cached_tokens,
            self.completion + reply.completion_tokens,
        )


def units_schema(ids: Sequence[str]) -> dict[str, object]:
    """Stage 1; where the backbone is held to it, only the window's own ids can be cited."""
    turn = {"type": "string", "enum": list(ids)}
    part = _text(settings.MAX_PART_CHARS)
    triple = _object(subject=part, predicate=part, object=part)
    fact_text = _text(settings.MAX_FACT_CHARS)
    unit = _object(start_turn=turn, end_turn=turn, fact_text=fact_text, triple=triple)
    return _listed("units", unit, settings.MAX_WINDOW_UNITS)


def indexes_schema(ids: Sequence[str]) -> dict[str, object]:
    """Stage 2, for the units of these ids."""
    name = _text(settings.MAX_LABEL_CHARS)
    names = {"type": "array", "items": name, "maxItems": settings.MAX_UNIT_LABELS}
    time = _object(start=_DAY, end=_DAY, granularity={"type": "string", "enum": list(_GRANULARITIES)})
    times = {"type": "array", "items": time, "maxItems": 4}
    id = {"type": "string", "enum": list(ids)}
    indexing = _object(memory_unit_id=id, entities=names, locations=names, time=times)
    return _listed("indexes", indexing, len(ids))


def trajectory_schema() -> dict[str, object]:
    """The reply about a trace."""
    return {"title": "trajectory", **_object(trajectory=_text(settings.MAX_TRAJECTORY_CHARS))}


def _text(most: int) -> dict[str, object]:
    """A text with an end: a small model that repeats itself would write on to its token limit."""
    return {"type": "string", "minLength": 1, "maxLength": most}


def _object(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _listed(title: str, item: dict[str, object], most: int) -> dict[str, object]:
    return {"title": title, **_object(memory_units={"type": "array", "items": item, "maxItems": most})}


def read(text: str, shape: type[T], *, cut_off: bool = False) -> tuple[T, str]:
    """A reply as a record, and what of its end was lost when it was cut off at the token limit.

    Repaired once: without a code fence, from its first brace to its last; one that was cut off ends with its
    last whole item. Raises ValueError with what is wrong with it.
    """
    plain = _FENCE.sub("", text)
    start = plain.find("{")
    if start < 0:
        raise ValueError("there is no JSON object in it")
    if cut_off:
        plain, lost = _whole_items(plain[start:])
    else:
        plain, lost = plain[start : plain.rfind("}") + 1], ""
    try:
        return msgspec.json.decode(plain.encode("utf-8", "replace"), type=shape), lost
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _whole_items(text: str) -> tuple[str, str]:
    """A list in JSON that was cut off, up to its last whole item, and closed; and what was left out."""
    open_now: list[str] = []
    whole = 0
    quoted = escaped = False
    for at, character in enumerate(text, 1):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{[":
            open_now.append(character)
        elif character in "}]" and open_now:
            open_now.pop()
            if not open_now:
                return text[:at], ""
            if open_now == ["{", "["]:
                whole = at
    return (text[:whole] + "]}" if whole else text), text[whole:]


def interval(time: Time) -> Interval | None:
    """The closed range of days a time names (QGMem section III-A1); None when it names none."""
    first, last = _days(time.start), _days(time.end)
    if first is None or last is None or last[1] < first[0]:
        return None
    granularity: Any = time.granularity
    return Interval(first[0], last[1], granularity) if granularity in _GRANULARITIES else None


def _days(text: str) -> tuple[dt.date, dt.date] | None:
    """The first and the last day of a year, a month or a day."""
    found = _DATE.fullmatch(text.strip())
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

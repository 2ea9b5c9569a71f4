"""What a model replies at each stage of construction, and its JSON schemas (QGMem appendix F1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec

from memdb import settings
from memdb.language.calendar import iso_days
from memdb.records import Granularity, Interval, Triple

_GRANULARITIES: Final = get_args(Granularity)
_DAY: Final[dict[str, object]] = {"type": "string", "pattern": "^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$"}


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


def interval(time: Time) -> Interval | None:
    """The closed range of days a time names (QGMem section III-A1); None when it names none."""
    first, last = iso_days(time.start), iso_days(time.end)
    if first is None or last is None or last[1] < first[0]:
        return None
    granularity: Any = time.granularity
    return Interval(first[0], last[1], granularity) if granularity in _GRANULARITIES else None

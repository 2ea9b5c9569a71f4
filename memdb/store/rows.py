"""Records into rows, and rows into records."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from memdb import errors
from memdb.language.terms import fold
from memdb.records import Axis, Instant, Interval, Message, Scope, Session, Unit
from memdb.store.statements import statement

_EPOCH = dt.date(1970, 1, 1).toordinal()
UNKNOWN_KEY = (1 << 63) - 1  # said_key of the vector tables, which cannot hold NULL
SERIAL_KEY = 1 << 62  # said_key of serial-0; every moment is below
EARLIEST_KEY = -(1 << 63)
RULES = "rules-3"  # who made the units of a window; counts up when the rules give other units


class StoredMessage(NamedTuple):
    """A message with its place in the file."""

    message_id: int
    position: int
    external_id: str | None
    message: Message
    instant: Instant | None


class Claim(NamedTuple):
    """A unit without its ids: comparable, whatever the order of its labels and intervals."""

    fact_text: str
    triple: tuple[str | None, ...]
    first: int
    last: int
    days: frozenset[tuple[Any, ...]]
    labels: frozenset[tuple[Any, ...]]


def day_number(day: dt.date) -> int:
    """Days from 1970-01-01."""
    return day.toordinal() - _EPOCH


def day_of(number: int) -> dt.date:
    """The inverse of `day_number`. Raises `Damaged` for a day no calendar has."""
    try:
        return dt.date.fromordinal(number + _EPOCH)
    except (OverflowError, ValueError) as error:
        raise errors.Damaged(
            f"the file holds a day {number} that no calendar has", hint="run memdb verify"
        ) from error


def message_name(session: str, position: int, external_id: str | None) -> str:
    """The id a message is known by outside: the caller's, or its place in the session counted from 1."""
    return external_id if external_id is not None else f"{session}#{position + 1}"


def said_key(instant: Instant | None) -> int:
    """The order of an instant for the vector tables."""
    if instant is None:
        return UNKNOWN_KEY
    if instant.utc_us is not None:
        return instant.utc_us
    return UNKNOWN_KEY if instant.serial is None else SERIAL_KEY + instant.serial


def find_scope(connection: apsw.Connection, scope: Scope) -> int | None:
    """The id of exactly this scope, if it was ever written to."""
    found: int | None = connection.execute(statement("find_scope"), _scope_parts(scope)).get
    return found


def put_scope(connection: apsw.Connection, scope: Scope) -> int:
    """The id of exactly this scope, made if it is new."""
    found = find_scope(connection, scope)
    return (
        found
        if found is not None
        else int(connection.execute(statement("insert_scope"), _scope_parts(scope)).get)
    )


def find_session(connection: apsw.Connection, scope_id: int, source: str, name: str) -> int | None:
    """The id of a session of this scope, if it is there."""
    found: int | None = connection.execute(
        statement("find_session"), {"scope_id": scope_id, "source": source, "name": name}
    ).get
    return found


def put_session(connection: apsw.Connection, scope_id: int, source: str, name: str) -> int:
    """The id of a session of this scope, made if it is new."""
    found = find_session(connection, scope_id, source, name)
    if found is not None:
        return found
    values = {"scope_id": scope_id, "source": source, "name": name}
    return int(connection.execute(statement("insert_session"), values).get)


def session_length(connection: apsw.Connection, session_id: int) -> int:
    """How many messages a session holds."""
    return int(connection.execute(statement("session_length"), (session_id,)).get)


def session_speakers(connection: apsw.Connection, session_id: int) -> list[str]:
    """Who spoke in the first 64 messages of a session, in order of first appearance."""
    return [speaker for (speaker,) in connection.execute(statement("session_speakers"), (session_id,))]


def session_tail(connection: apsw.Connection, session_id: int, position: int) -> list[StoredMessage]:
    """The messages of a session from `position` on."""
    rows = connection.execute(statement("session_tail"), {"session_id": session_id, "position": position})
    return [_stored(row) for row in rows]


def session_ids(connection: apsw.Connection) -> list[int]:
    """All sessions, in the order they were begun."""
    return [int(session_id) for session_id, _ in connection.execute(statement("session_ids"))]


def session_range(
    connection: apsw.Connection, session_id: int, position: int, end_position: int
) -> list[StoredMessage]:
    """The messages of a session from `position` to `end_position` (excluded)."""
    values = {"session_id": session_id, "position": position, "end_position": end_position}
    return [_stored(row) for row in connection.execute(statement("session_range"), values)]


def messages_by_external_id(
    connection: apsw.Connection, session_id: int, ids: Sequence[str]
) -> dict[str, StoredMessage]:
    """Those of `ids` that a session holds."""
    values = {"session_id": session_id, "ids": json.dumps(ids)}
    found = (_stored(row) for row in connection.execute(statement("messages_by_external_id"), values))
    return {stored.external_id: stored for stored in found if stored.external_id is not None}


def messages_by_place(
    connection: apsw.Connection, session_id: int, session: str, ids: Sequence[str]
) -> dict[str, StoredMessage]:
    """Those of `ids` that name a message without an id by its place in the session, `session#N`."""
    places = {id: int(id[len(session) + 1 :]) - 1 for id in ids if _is_place(id, session)}
    values = {"session_id": session_id, "positions": json.dumps(list(places.values()))}
    rows = connection.execute(statement("messages_by_position"), values) if places else ()
    found = {stored.position: stored for stored in (_stored(row) for row in rows)}
    return {id: found[position] for id, position in places.items() if position in found}


def _is_place(id: str, session: str) -> bool:
    number = id.removeprefix(f"{session}#")
    return (
        number != id
        and number.isascii()
        and number.isdigit()
        and not number.startswith("0")
        and len(number) < 10
    )


def neighbours(
    connection: apsw.Connection,
    messages: Sequence[int],
    before: int,
    after: int,
    as_of: tuple[int, int] | None,
) -> dict[int, list[Message]]:
    """The messages so many places before and after each, in their order, said between two said_keys."""
    said_from, said_until = as_of or (EARLIEST_KEY, UNKNOWN_KEY)
    values = {"messages": json.dumps(list(messages)), "before": before, "after": after}
    values |= {"said_from": said_from, "said_until": said_until}
    found: dict[int, list[Message]] = {}
    row: Any
    for row in connection.execute(statement("neighbours"), values):
        near, session, *stored = row
        one = _stored(stored)
        id = message_name(session, one.position, one.external_id)
        found.setdefault(near, []).append(msgspec.structs.replace(one.message, id=id))
    return found


def count_speakers(connection: apsw.Connection, scope_id: int, spoken: Mapping[str, int]) -> None:
    """Add to the number of messages of each speaker of a scope."""
    connection.executemany(
        statement("count_speaker"), [(scope_id, name, count) for name, count in spoken.items()]
    )


def put_message(
    connection: apsw.Connection,
    scope_id: int,
    session_id: int,
    position: int,
    message: Message,
    instant: Instant | None,
) -> int:
    """Store a message; returns its message_id."""
    values = {
        "scope_id": scope_id,
        "session_id": session_id,
        "position": position,
        "external_id": message.id,
        "speaker": message.speaker,
        "role": message.role,
        "content": message.content,
        "image_caption": message.image_caption,
        "location": message.location,
        "said_text": instant.text if instant else None,
        "said_day": instant.day if instant else None,
        "said_utc_us": instant.utc_us if instant else None,
        "said_offset_min": instant.offset_min if instant else None,
        "said_serial": instant.serial if instant else None,
    }
    return int(connection.execute(statement("insert_message"), values).get)


def put_unit(
    connection: apsw.Connection, scope_id: int, session_id: int, window_no: int, message_id: int, unit: Unit
) -> int:
    """Store a unit, its intervals and nothing of its labels; returns its unit_id."""
    where = {"session_id": session_id, "window_no": window_no}
    values = {
        **where,
        "scope_id": scope_id,
        "number": connection.execute(statement("next_unit_number"), where).get,
        "message_id": message_id,
        "first_position": unit.first,
        "last_position": unit.last,
        "fact_text": unit.fact_text,
        "subject": unit.triple.subject if unit.triple else None,
        "predicate": unit.triple.predicate if unit.triple else None,
        "object": unit.triple.object if unit.triple else None,
    }
    unit_id = int(connection.execute(statement("insert_unit"), values).get)
    connection.executemany(
        statement("insert_interval"),
        [(unit_id, *_days(interval), interval.granularity) for interval in unit.fact_time],
    )
    return unit_id


def known_labels(connection: apsw.Connection, labels: Sequence[tuple[Axis, str]]) -> set[tuple[str, str]]:
    """Those of `labels` that the file has already."""
    rows = connection.execute(statement("known_labels"), {"labels": json.dumps(labels)})
    return {(axis, name) for axis, name in rows}


def put_label(connection: apsw.Connection, axis: Axis, name: str) -> tuple[int, bool]:
    """The label_id of a string on an axis, and whether it is new."""
    found = connection.execute(statement("find_label"), (axis, name)).get
    if found is not None:
        return int(found), False
    return int(connection.execute(statement("insert_label"), (axis, name, fold(name))).get), True


def put_unit_label(connection: apsw.Connection, label_id: int, unit_id: int) -> None:
    """Say that a unit carries a label."""
    connection.execute(statement("insert_unit_label"), (label_id, unit_id))


def claim(unit: Unit) -> Claim:
    """What of a unit is stored, in a form to compare."""
    days = frozenset((*_days(interval), interval.granularity) for interval in unit.fact_time)
    triple = msgspec.structs.astuple(unit.triple) if unit.triple else (None, None, None)
    return Claim(unit.fact_text, triple, unit.first, unit.last, days, frozenset(unit_labels(unit)))


def claims_by_message(
    connection: apsw.Connection, session_id: int
) -> Iterator[tuple[int, list[tuple[int, Claim]]]]:
    """The positions whose units the rules of this version made, with the ids and claims of these units."""
    values = {"session_id": session_id, "made_by": RULES}
    length = session_length(connection, session_id)
    found: dict[int, list[tuple[int, Claim]]] = {}
    row: Any
    for row in connection.execute(statement("windows_made_by"), values):
        found |= {position: [] for position in range(max(0, row[0]), min(row[1], length))}
    for unit_id, last, stored in _claims(connection, {**values, "others": False}):
        found.setdefault(last, []).append((unit_id, stored))
    yield from found.items()


def other_units(connection: apsw.Connection, session_id: int) -> Iterator[tuple[int, Unit]]:
    """The units of windows that the rules of this version did not make, with their ids."""
    values = {"session_id": session_id, "made_by": RULES, "others": True}
    for unit_id, last, stored in _claims(connection, values):
        yield (
            unit_id,
            Unit(
                fact_text=stored.fact_text,
                entities=tuple(name for axis, name in stored.labels if axis == "entity"),
                locations=tuple(name for axis, name in stored.labels if axis == "location"),
                fact_time=tuple(
                    Interval(day_of(start), day_of(end), kind) for start, end, kind in stored.days
                ),
                first=stored.first,
                last=last,
            ),
        )


def _claims(connection: apsw.Connection, values: dict[str, Any]) -> Iterator[tuple[int, int, Claim]]:
    """unit_id, last position and claim of units of a session."""
    row: Any
    for row in connection.execute(statement("session_units"), values):
        last, unit_id, fact_text, subject, predicate, object, first, days, labels = row
        stored = Claim(
            fact_text,
            (subject, predicate, object),
            first,
            last,
            frozenset(map(tuple, json.loads(days))),
            frozenset(map(tuple, json.loads(labels))),
        )
        yield unit_id, last, stored


def unit_labels(unit: Unit) -> list[tuple[Axis, str]]:
    """The distinct strings of a unit on each axis."""
    pairs: list[tuple[Axis, str]] = [("entity", name) for name in unit.entities]
    pairs += [("location", name) for name in unit.locations]
    if unit.triple:
        pairs += [("subject", unit.triple.subject), ("predicate", unit.triple.predicate)]
    return list(dict.fromkeys(pairs))


def speakers(connection: apsw.Connection, scope: Scope | None) -> tuple[str, ...]:
    """Who speaks in a scope (None: in all), those with most messages first, at most 1,000."""
    found = connection.execute(statement("speakers"), {**reading_scope(scope), "most": 1_000})
    return tuple(name for name, _ in found)


def sessions(connection: apsw.Connection, scope: Scope | None) -> tuple[Session, ...]:
    """The sessions of a scope (None: of all) in the order they were begun."""
    found = connection.execute(statement("sessions"), reading_scope(scope))
    return tuple(
        Session(
            name=name,
            source=source,
            messages=n,
            first_said=first,
            last_said=last,
            scope=Scope(user, agent, run),
        )
        for name, source, n, first, last, user, agent, run in found
    )


def session_messages(
    connection: apsw.Connection, scope: Scope | None, source: str, name: str
) -> tuple[Message, ...]:
    """The messages of each session of that name which a scope (None: everyone) may read."""
    values = {**reading_scope(scope), "source": source, "name": name}
    found: list[Message] = []
    for (session_id,) in connection.execute(statement("sessions_named"), values).fetchall():
        for one in session_tail(connection, cast(int, session_id), 0):
            id = message_name(name, one.position, one.external_id)
            found.append(msgspec.structs.replace(one.message, id=id))
    return tuple(found)


def reading_scope(scope: Scope | None) -> dict[str, str | int | None]:
    """The bindings of a reading scope; None means everyone."""
    return {"everyone": scope is None, **_scope_parts(scope or Scope())}


def _scope_parts(scope: Scope) -> dict[str, str | None]:
    return {"user": scope.user, "agent": scope.agent, "run": scope.run}


def _days(interval: Interval) -> tuple[int, int]:
    return day_number(interval.start), day_number(interval.end)


def _stored(row: Any) -> StoredMessage:
    message_id, position, external_id, speaker, role, content, caption, location, *said = row
    text, day, utc_us, offset_min, serial = said
    message = Message(
        speaker=speaker, content=content, said_at=text, id=external_id, role=role,
        image_caption=caption, location=location,
    )  # fmt: skip
    instant = text and Instant(text=text, day=day, utc_us=utc_us, offset_min=offset_min, serial=serial)
    return StoredMessage(message_id, position, external_id, message, instant or None)

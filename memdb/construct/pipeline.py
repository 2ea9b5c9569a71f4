"""The write path: messages -> views and units -> vectors -> one transaction over rows, indexes and traces.

Models run before the transaction opens. Should another process have appended to the session between the
reading of it and the transaction, or re-embedded the file, the plan is made anew.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memdb import settings
from memdb.construct import segments
from memdb.construct.admit import Admitted
from memdb.construct.plan import Plan, PlannedUnit, make_plan
from memdb.construct.traces import Tracing
from memdb.construct.vectors import Overtaken, Place, Vectors
from memdb.construct.windows import window_of
from memdb.records import Added, Axis
from memdb.store import codes, erase, indexes, rows, traces, windows
from memdb.store import segments as store_segments
from memdb.store.connection import Connection, Database

_TRIES = 4  # plans made outside the lock, while other processes keep appending to the same session


def add(database: Database, vectors: Vectors, place: Place, messages: Sequence[Admitted]) -> Added:
    """Store `messages` at the end of a session, all or none, each id once.

    Raises `Locked` when another process holds the write lock longer than the busy timeout.
    """
    with database.exclusive():
        for _ in range(_TRIES):
            vectors = vectors.read(database)
            plan = make_plan(database, vectors, place, messages)
            if not plan.messages:
                return _added(place, plan, 0)
            with contextlib.suppress(Overtaken), database.atomic() as connection:
                vectors.require(connection)
                if (units := _write_if_current(connection, place, plan)) is not None:
                    return _added(place, plan, units)
        with database.atomic() as connection:  # others keep appending: now nobody can while the models run
            plan = make_plan(database, vectors.now(connection), place, messages)
            units = _write_if_current(connection, place, plan) if plan.messages else 0
            return _added(place, plan, units or 0)


def together(done: Sequence[Added]) -> Added:
    """What several adds to one session did."""
    return Added(
        session=done[0].session,
        ids=tuple(id for added in done for id in added.ids),
        stored=sum(added.stored for added in done),
        known=sum(added.known for added in done),
        units=sum(added.units for added in done),
        conflicts=tuple(dict.fromkeys(id for added in done for id in added.conflicts)),
    )


def _write_if_current(connection: Connection, place: Place, plan: Plan) -> int | None:
    """Write a plan and return its number of units, or None if the session has grown since it was made."""
    scope_id = rows.put_scope(connection, place.scope)
    session_id = rows.put_session(connection, scope_id, place.source, place.session)
    if rows.session_length(connection, session_id) != plan.length:
        return None
    return _write(connection, scope_id, session_id, plan)


def _added(place: Place, plan: Plan, units: int) -> Added:
    stored = sum(planned.message_id is None for planned in plan.messages)
    return Added(
        session=place.session,
        ids=plan.ids,
        stored=stored,
        known=len(plan.ids) - stored,
        units=units,
        conflicts=plan.conflicts,
    )


def _write(connection: Connection, scope_id: int, session_id: int, plan: Plan) -> int:
    """Write a plan; returns how many units it held."""
    ids = _write_messages(connection, scope_id, session_id, plan)
    new = (planned.admitted.message.speaker for planned in plan.messages if planned.message_id is None)
    rows.count_speakers(connection, scope_id, Counter(new))
    _write_windows(connection, session_id, plan.length, max(ids) + 1)
    keys = {planned.position: rows.said_key(planned.admitted.instant) for planned in plan.messages}
    messages = {position: (ids[position], keys[position]) for position in ids}
    session = SessionRow(session_id, scope_id, messages)
    write_units(connection, session, plan.units, plan.label_codes)
    _write_segments(connection, session, plan)
    return len(plan.units)


def _write_segments(connection: Connection, session: SessionRow, plan: Plan) -> None:
    """Put the messages of a plan into segments, unless some before them are in none: `update` makes those.

    Raises Overtaken when the plan has to be made anew.
    """
    last = store_segments.last_of(connection, session.session_id)
    if plan.length != (last.last + 1 if last else 0):
        return
    shape = segments.shaping(connection)
    if shape.rule != plan.rule:
        raise Overtaken(shape.rule)
    grown = segments.grow(connection, session.scope_id, session.session_id, shape, plan.attention)
    segments.link_when_due(connection, grown.closed, shape.link_threshold)


class SessionRow(NamedTuple):
    """Where units go: the session, its scope, and message_id and said_key by position."""

    session_id: int
    scope_id: int
    messages: Mapping[int, tuple[int, int]]


def write_units(
    connection: Connection,
    session: SessionRow,
    units: Sequence[PlannedUnit],
    label_codes: Mapping[tuple[Axis, str], bytes],
    replaced: Sequence[int] = (),
) -> None:
    """Write units with all that is made of them, in place of those in `replaced`; traces follow.

    Raises Overtaken when the plan has to be made anew.
    """
    traced, newest = traces.traced_until(connection)
    follows = traced == newest and newest + len(units) <= settings.TRACED_ON_ADD_UNITS
    tracing = Tracing(connection, session.scope_id)
    labels: list[int] = []
    if replaced:
        tracing.remove(replaced)
        labels = erase.erase_units(connection, replaced)
        newest = traces.traced_until(connection)[1]
    unit_id = newest
    for planned in units:
        unit_id = _write_unit(connection, session, planned, label_codes)
        if follows and planned.unit.triple is not None and planned.triple_code is not None:
            tracing.add(unit_id, planned.unit.triple)
    tracing.flush()
    erase.erase_labels(connection, labels)
    codes.keep(connection)
    reached = unit_id if follows else min(traced, newest)
    if reached != traced:
        traces.set_traced_until(connection, reached)


def _write_unit(
    connection: Connection,
    session: SessionRow,
    planned: PlannedUnit,
    label_codes: Mapping[tuple[Axis, str], bytes],
) -> int:
    last = planned.unit.last
    message_id, key = session.messages[last]
    scope_id = session.scope_id
    unit_id = rows.put_unit(
        connection, scope_id, session.session_id, window_of(last), message_id, planned.unit
    )
    indexes.put_unit_terms(connection, unit_id, planned.terms)
    if planned.fact_code is not None:
        indexes.put_unit_vector(connection, unit_id, scope_id, key, planned.fact_code)
    _write_labels(connection, unit_id, planned, label_codes)
    if planned.triple_code is not None:
        traces.put_triple_vector(connection, unit_id, scope_id, planned.triple_code)
    return unit_id


def _write_messages(connection: Connection, scope_id: int, session_id: int, plan: Plan) -> dict[int, int]:
    """Store and index the messages of a plan; returns message_id by position."""
    ids: dict[int, int] = {}
    for planned in plan.messages:
        message, instant = planned.admitted
        message_id = planned.message_id
        if message_id is None:
            message_id = rows.put_message(
                connection, scope_id, session_id, planned.position, message, instant
            )
        ids[planned.position] = message_id
        indexes.put_message_terms(connection, message_id, planned.terms)
        if planned.code is not None:
            indexes.put_message_vector(connection, message_id, scope_id, rows.said_key(instant), planned.code)
    return ids


def _write_windows(connection: Connection, session_id: int, start: int, end: int) -> None:
    """The windows in which positions `start` to `end` (excluded) are new."""
    step = settings.WINDOW_MESSAGES - settings.WINDOW_OVERLAP
    for number in range(window_of(start), window_of(end - 1) + 1):
        first = number * step
        new = first + settings.WINDOW_OVERLAP if number else 0
        windows.put_window(
            connection, session_id, number, (first, min(first + settings.WINDOW_MESSAGES, end), new)
        )


def _write_labels(
    connection: Connection, unit_id: int, planned: PlannedUnit, codes: Mapping[tuple[Axis, str], bytes]
) -> None:
    for axis, name in rows.unit_labels(planned.unit):
        label_id, is_new = rows.put_label(connection, axis, name)
        rows.put_unit_label(connection, label_id, unit_id)
        if is_new and (code := codes.get((axis, name))) is not None:
            indexes.put_label_vector(connection, label_id, axis, code)
        elif is_new and planned.fact_code is not None:
            raise Overtaken(name)

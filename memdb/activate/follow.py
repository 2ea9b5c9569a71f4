"""From the name of a relation to the traces that tell of it: the same words first, else the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memdb import settings
from memdb.activate.retrieve import unit_of
from memdb.language.slots import State, trajectory
from memdb.language.terms import fold
from memdb.models.ports import Encoder
from memdb.records import Evidence, Scope, Trace
from memdb.store import indexes, rows, schema, traces
from memdb.store.connection import Connection, Database


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: readings (holder, slot or None for any), whose memory (None means all), and the
    least and the greatest said_key that count.
    """

    readings: tuple[tuple[str, str | None], ...]
    scope: Scope | None
    as_of: tuple[int, int] | None = None


def follow(
    database: Database, encoder: Encoder | None, scale: float, followed: Followed
) -> tuple[Trace, ...]:
    """Traces of which a member has the very holder and slot of a reading; if there is none, those whose
    holder and slot both have a cosine of at least SEM_THRESHOLD to it, nearest first.
    """
    if not followed.readings:
        return ()
    with database.reader() as connection:
        found = traces.find(connection, followed.scope, _search(None, scale, followed))
        if not found and encoder is not None and schema.sees_vectors_of(database, connection, encoder):
            found = traces.find(connection, followed.scope, _search(encoder, scale, followed))
        told = [_trace(connection, trace_id, followed.as_of) for trace_id, _ in found]
    return tuple(trace for trace in told if trace is not None)


def told(
    database: Database, evidence: Sequence[Evidence], as_of: tuple[int, int] | None
) -> tuple[Trace, ...]:
    """The traces that facts of evidence are in, in the order of the evidence, as they were known then."""
    ids = dict.fromkeys(fact.trace_id for one in evidence for fact in one.facts if fact.trace_id is not None)
    if not ids:
        return ()
    with database.reader() as connection:
        found = [_trace(connection, int(trace_id), as_of) for trace_id in ids]
    return tuple(trace for trace in found if trace is not None)


def _search(encoder: Encoder | None, scale: float, followed: Followed) -> traces.Search:
    readings = [(fold(holder), None if slot is None else fold(slot)) for holder, slot in followed.readings]
    holders = slots = None
    if encoder is not None:
        names = [holder for holder, _ in followed.readings] + [slot or "" for _, slot in followed.readings]
        codes = indexes.code(encoder.encode(names), scale)
        holders, slots = codes[: len(readings)].tobytes(), codes[len(readings) :].tobytes()
    return traces.Search(
        readings=readings,
        holders=holders,
        slots=slots,
        dimension=encoder.dimension if encoder else 0,
        threshold=settings.SEM_THRESHOLD,
        label_hits=settings.MAX_LABEL_HITS,
        most=settings.CHANNEL_DEPTH,
    )


def _trace(connection: Connection, trace_id: int, as_of: tuple[int, int] | None) -> Trace | None:
    """A trace as it was known by `as_of`: its texts tell nothing of what was said later."""
    told = traces.told(connection, trace_id, as_of or (rows.EARLIEST_KEY, rows.UNKNOWN_KEY))
    if told is None:
        return None
    states = tuple(map(unit_of, told.states))
    relation, history = told.relation_text, told.trajectory
    if len(states) < told.members:
        holder, slot, _ = told.states[-1].triple or ("", "", "")
        relation = f"{holder} | {slot}"
        known = [State(f.said_at, f.fact_text, f.triple[2] if f.triple else "") for f in told.states]
        history = trajectory(known, settings.TRACE_STATES_TOLD)
    return Trace(
        id=str(trace_id), relation_text=relation, trajectory=history, states=states, current=states[-1]
    )

"""Traces and their members, in and out of the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb import errors
from memdb.records import Scope, Triple
from memdb.store import rows
from memdb.store.extensions import native
from memdb.store.indexes import Fact
from memdb.store.statements import statement

Order: TypeAlias = tuple[int, int, int, int]


class Member(NamedTuple):
    """A unit with a triple as traces see it; codes are int8, None where the file has no vector.

    `trace_id`, `number` and `current` are its place now, `said_key` as in the vector tables.
    """

    unit_id: int
    trace_id: int | None
    number: int
    current: int
    session_id: int
    first: int
    said_key: int
    said_text: str | None
    fact_text: str
    subject: str
    predicate: str
    object: str
    triple: bytes | None
    subject_code: bytes | None
    predicate_code: bytes | None

    @property
    def order(self) -> Order:
        """Memory order: when it was said, then session, position, unit."""
        return self.said_key, self.session_id, self.first, self.unit_id


def put_triple_vector(connection: apsw.Connection, unit_id: int, scope_id: int, triple: bytes) -> None:
    """Index a new unit's triple."""
    values = {"unit_id": unit_id, "scope_id": scope_id, "triple": triple}
    connection.execute(statement("put_triple_vector"), values)


def traced_until(connection: apsw.Connection) -> tuple[int, int]:
    """The last unit that traces know of, and the last unit there is."""
    row: Any = connection.execute(statement("traced_until")).fetchone()
    return int(row[0]), int(row[1])


def set_traced_until(connection: apsw.Connection, unit_id: int) -> None:
    """Say that traces know of all units up to this one."""
    connection.execute(statement("set_traced_until"), (unit_id,))


def untraced_units(connection: apsw.Connection, after: int, most: int) -> list[tuple[int, int, Triple]]:
    """The first units after one that have a triple and its vector: unit, scope, triple."""
    found: Any = connection.execute(statement("untraced_units"), {"after": after, "most": most})
    return [(unit_id, scope_id, Triple(*triple)) for unit_id, scope_id, *triple in found]


class Neighbourhood(NamedTuple):
    """What to look for around a unit: `k` neighbours of its scope with a fact cosine of at least `least`, and
    as many of the same holder and slot (folded; None: of no slot), of units up to `until`.
    """

    unit_id: int
    scope_id: int
    k: int
    least: float
    holder: str | None
    slot: str | None
    until: int = (1 << 63) - 1


def neighbours(connection: apsw.Connection, wanted: Neighbourhood) -> list[tuple[int, int | None]]:
    """(unit_id, trace_id) of the units around one that has a triple vector, itself left out."""
    values = {
        "unit_id": wanted.unit_id,
        "scope_id": wanted.scope_id,
        "k": wanted.k,
        "distance": 1 - wanted.least + 1e-5,
        "holder": wanted.holder,
        "slot": wanted.slot,
        "until": wanted.until,
    }
    found: Any = connection.execute(statement("trace_neighbours", native(connection)), values).fetchall()
    return list(found)


def members(
    connection: apsw.Connection, units: Sequence[int] = (), traces: Sequence[int] = ()
) -> list[Member]:
    """Units by their ids and all members of traces, those of a trace together in their stored order.

    Raises `Damaged` for one without a triple.
    """
    values = {"units": json.dumps(list(units)), "traces": json.dumps(list(traces))}
    found = [Member(*row) for row in connection.execute(statement("trace_members"), values)]
    for member in found:
        if None in (member.subject, member.predicate, member.object):
            raise errors.Damaged(f"unit {member.unit_id} has no triple", hint="run memdb verify")
    return found


def claims(connection: apsw.Connection, scope_id: int) -> Iterator[tuple[int, str, str]]:
    """The units of a scope that may be in a trace, those with a triple vector: unit, holder, slot.

    Their order rests on what was said and when, and on the order of adding only between equals.
    Raises `Damaged` for one without a triple.
    """
    row: Any
    for row in connection.execute(statement("trace_claims"), (scope_id,)):
        if None in row:
            raise errors.Damaged(f"unit {row[0]} has no triple", hint="run memdb verify")
        yield row


def triple_codes(connection: apsw.Connection, units: Sequence[int]) -> NDArray[np.int8]:
    """The codes of the triples of units, [n, d] for n > 0. Raises `Damaged` where one has none."""
    found: Any = connection.execute(statement("triple_codes"), (json.dumps(list(units)),))
    codes = [code for (code,) in found]
    if len(codes) < len(units):
        raise errors.Damaged("a unit has lost the vector of its triple", hint="run memdb verify")
    return np.frombuffer(b"".join(codes), np.int8).reshape(len(units), -1)


def side_codes(
    connection: apsw.Connection, axis: Literal["subject", "predicate"], names: Sequence[str]
) -> list[bytes | None]:
    """The codes of holders or slots as units name them, None where the file has none."""
    values = {"axis": axis, "names": json.dumps(list(names))}
    found: Any = connection.execute(statement("side_codes"), values)
    return [code for (code,) in found]


def scope_ids(connection: apsw.Connection) -> list[int]:
    """All scopes of the file."""
    return [scope_id for (scope_id,) in connection.execute(statement("scope_ids"))]


def traces_of(connection: apsw.Connection, units: Iterable[int]) -> list[int]:
    """The traces that units are in."""
    found = connection.execute(statement("traces_of_units"), (json.dumps(list(units)),))
    return [trace_id for (trace_id,) in found]


def put_trace(connection: apsw.Connection, scope_id: int) -> int:
    """A new trace without members, dirty until it is told; returns its trace_id."""
    return int(connection.execute(statement("insert_trace"), (scope_id,)).get)


def mark(connection: apsw.Connection, trace_id: int) -> None:
    """Say that a trace has to be told again."""
    connection.execute(statement("mark_trace"), (trace_id,))


def tell(
    connection: apsw.Connection, trace_id: int, relation_text: str, trajectory: str, made_by: str = "rules"
) -> None:
    """Write what a trace says; it is not dirty any more."""
    values = {"trace_id": trace_id, "relation_text": relation_text, "trajectory": trajectory}
    connection.execute(statement("tell_trace"), values | {"made_by": made_by})


def of_many_names(connection: apsw.Connection) -> list[int]:
    """The traces whose members call their relation by different names."""
    return [int(trace_id) for (trace_id,) in connection.execute(statement("traces_of_many_names"))]


def rename(connection: apsw.Connection, trace_id: int, relation_text: str) -> None:
    """Change what the relation of a trace is called, and nothing else of it."""
    connection.execute(statement("rename_trace"), (relation_text, trace_id))


def to_tell(connection: apsw.Connection, scope: Scope | None, made_by: str) -> list[int]:
    """The traces of a scope (None: of all) that a model has not told yet."""
    values = {**rows.reading_scope(scope), "made_by": made_by}
    return [int(trace_id) for (trace_id,) in connection.execute(statement("traces_to_tell"), values)]


def place(connection: apsw.Connection, places: Sequence[tuple[int, int, int, int]]) -> None:
    """Put units at (trace_id, number, unit_id, current), away from where they were."""
    take_out(connection, [unit_id for _, _, unit_id, _ in places])
    connection.executemany(statement("insert_trace_unit"), places)


def take_out(connection: apsw.Connection, units: Sequence[int]) -> None:
    """Take units out of their traces."""
    connection.execute(statement("delete_trace_units"), (json.dumps(list(units)),))


def drop(connection: apsw.Connection, trace_id: int) -> None:
    """Remove a trace that has no members."""
    connection.execute(statement("delete_trace"), (trace_id,))


def clear(connection: apsw.Connection, scope_id: int) -> None:
    """Remove all traces of a scope."""
    connection.execute(statement("delete_scope_trace_units"), (scope_id,))
    connection.execute(statement("delete_scope_traces"), (scope_id,))


class Search(NamedTuple):
    """What traces are asked for: readings (holder, slot or None), folded, with the codes of both sides if the
    file's encoder is there, one after the other.
    """

    readings: Sequence[tuple[str, str | None]]
    holders: bytes | None
    slots: bytes | None
    dimension: int
    threshold: float
    label_hits: int
    most: int


def find(connection: apsw.Connection, scope: Scope | None, search: Search) -> list[tuple[int, float]]:
    """(trace_id, score) of the traces that fit a reading, best first; 1.0 is the very same words."""
    values = rows.reading_scope(scope) | search._asdict() | {"readings": json.dumps(search.readings)}
    found: Any = connection.execute(statement("find_traces", native(connection)), values).fetchall()
    return list(found)


class Told(NamedTuple):
    """A trace as it was at some time: its members said by then, oldest first, of `members` in all."""

    relation_text: str
    trajectory: str
    members: int
    states: tuple[Fact, ...]


_fact = msgspec.json.Decoder(Fact)


def told(connection: apsw.Connection, trace_id: int, as_of: tuple[int, int]) -> Told | None:
    """A trace with what was said between two said_keys; None if that is nothing."""
    values = {"trace_id": trace_id, "said_from": as_of[0], "said_until": as_of[1]}
    found: Any = connection.execute(statement("trace_states"), values).fetchall()
    if not found:
        return None
    relation_text, trajectory, count = found[0][:3]
    return Told(relation_text, trajectory, count, tuple(_fact.decode(row[3]) for row in found))

"""Dynamic traces: the claims about one slot of one holder, oldest first, the last one holding now (QGMem
section III-A2).

Two units are related when fact, holder and slot are all alike; a trace is a set in which every two are. What
the paper leaves open, and what was measured, is in docs/why/traces.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.language.slots import State, holds_one_value, trajectory
from memdb.language.terms import fold
from memdb.records import Triple
from memdb.store import traces
from memdb.store.connection import Connection
from memdb.store.traces import Member, Neighbourhood

Scores: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[int, int, float]
_BLOCK = 256  # traces named at once
SAME_SLOT_SCALE = (1 - settings.RELATION_THRESHOLD) / (1 - settings.SAME_SLOT_THRESHOLD)
ALIKE = settings.RELATION_THRESHOLD - 1e-9  # scores are rounded to nine places


def triple_text(triple: Triple) -> str:
    """A triple as the encoder reads it: a sentence, often the very one of its claim."""
    text = f"{triple.subject} {triple.predicate} {triple.object}"
    return text if text.endswith(".") else f"{text}."


class Point(NamedTuple):
    """A member ready for comparison: holder and slot folded; `state` says that the slot has one value."""

    member: Member
    holder: str
    slot: str
    state: bool


def point(member: Member) -> Point:
    """A member with what its triple says of it."""
    return Point(member, fold(member.subject), fold(member.predicate), holds_one_value(member.predicate))


def relation_scores(some: Sequence[Point], others: Sequence[Point]) -> Scores:
    """S_rel = min(s_f, s_a, s_p), the cosines of facts, holders and slots, [len(some), len(others)] (QGMem
    equation 2).

    Equal holders and equal slots are 1. Where both are equal and the slot has one value, s_f is read on a
    scale on which SAME_SLOT_THRESHOLD is RELATION_THRESHOLD: the facts differ by the value alone.
    """
    facts = _cosines([p.member.triple for p in some], [p.member.triple for p in others])
    holders = _cosines([p.member.subject_code for p in some], [p.member.subject_code for p in others])
    slots = _cosines([p.member.predicate_code for p in some], [p.member.predicate_code for p in others])
    same_holder = _equal([p.holder for p in some], [p.holder for p in others])
    same_slot = _equal([p.slot for p in some], [p.slot for p in others])
    state = np.array([p.state for p in some], bool)[:, None]
    facts = np.where(same_holder & same_slot & state, 1 - (1 - facts) * SAME_SLOT_SCALE, facts)
    holders, slots = np.where(same_holder, 1.0, holders), np.where(same_slot, 1.0, slots)
    scores: Scores = np.minimum(np.minimum(facts, holders), slots)
    return scores.round(9)


def _cosines(some: Sequence[bytes | None], others: Sequence[bytes | None]) -> Scores:
    """Cosines of int8 codes, 0 where one is missing; dot products are exact, so equal codes are exactly 1."""
    size = next((len(code) for code in (*some, *others) if code), 1)
    a, b = vectors(some, size), vectors(others, size)
    lengths = np.sqrt(np.square(a).sum(axis=1)[:, None] * np.square(b).sum(axis=1)[None, :])
    cosines: Scores = np.divide(a @ b.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return cosines


def vectors(codes: Sequence[bytes | None], size: int) -> NDArray[np.float64]:
    """Codes of `size` components as rows, [n, size]; 0 where one is missing."""
    joined = b"".join(code or bytes(size) for code in codes)
    return np.frombuffer(joined, np.int8).reshape(len(codes), size).astype(np.float64)


def _equal(some: Sequence[str], others: Sequence[str]) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = np.array(some, object)[:, None] == np.array(others, object)
    return equal


def cluster(
    count: int, pairs: Iterable[Pair], least: Callable[[list[int], list[int]], float]
) -> list[list[int]]:
    """Greedy complete linkage over `count` things: sets of two and more in which every pair is related.

    `pairs` are candidates (i, j, score) taken strongest first, ties by i and j; `least(a, b)` is the least
    score between two sets. A refused pair stays refused, since that least score only falls as sets grow.
    """
    groups = {number: [number] for number in range(count)}
    of = list(range(count))
    refused: dict[int, set[int]] = defaultdict(set)
    strongest = sorted((-score, min(i, j), max(i, j)) for i, j, score in pairs if score >= ALIKE)
    for _, i, j in strongest:
        a, b = sorted((of[i], of[j]))
        if a == b or b in refused[a]:
            continue
        alone = len(groups[a]) == len(groups[b]) == 1  # their least score is that of the pair
        if not alone and least(groups[a], groups[b]) < ALIKE:
            refused[a].add(b)
            refused[b].add(a)
            continue
        for number in groups[b]:
            of[number] = a
        groups[a] += groups.pop(b)
        for other in refused.pop(b, ()):
            refused[other].add(a)
            refused[a].add(other)
    return [sorted(group) for group in groups.values() if len(group) >= settings.MIN_TRACE_UNITS]


def relation_text(members: Sequence[Point]) -> str:
    """ "holder | slot" of the member that is most like all others; of equal ones the newest."""
    recent = members[-settings.TRACE_STATES_TOLD :]
    means = relation_scores(recent, recent).sum(axis=1)
    best = recent[len(recent) - 1 - int(np.argmax(np.round(means[::-1], 6)))].member
    return f"{best.subject} | {best.predicate}"


def member_trajectory(members: Sequence[Member]) -> str:
    """The history and the latest state of members in memory order."""
    states = [State(member.said_text, member.fact_text, member.object) for member in members]
    return trajectory(states, settings.TRACE_STATES_TOLD)


def texts(members: Sequence[Member]) -> tuple[str, str]:
    """What a trace says, relation text and trajectory, from its members in memory order."""
    return relation_text([point(member) for member in members]), member_trajectory(members)


class Tracing:
    """Traces kept up to date inside one write transaction: `add` and `remove` units, then `flush`."""

    def __init__(self, connection: Connection, scope_id: int, *, behind: bool = False) -> None:
        """`behind`: units are added in order some time after they were written; later ones do not count."""
        self._connection = connection
        self._behind = behind
        self._scope_id = scope_id
        self._traces: dict[int, list[Point]] = {}  # touched in this transaction, in the stored order
        self._dirty: set[int] = set()

    def add(self, unit_id: int, triple: Triple) -> None:
        """Let a new unit with a triple vector join the trace, or the lone unit, that it fits best.

        Of those whose every member is related to it, the one with the largest least score; then the larger
        mean, then the older.
        """
        around = _around(unit_id, self._scope_id, triple)
        found = traces.neighbours(
            self._connection, around._replace(until=unit_id) if self._behind else around
        )
        if not found:
            return
        own, clusters = self._load(unit_id, found)
        ranked = [
            (float(scores.min()), float(scores.mean()), -number, group)
            for number, group in enumerate(clusters)
            if (scores := relation_scores([own], group)).min() >= ALIKE
        ]
        if ranked:
            self._join(own, max(ranked, key=lambda one: one[:3])[3])

    def _load(self, unit_id: int, found: Sequence[tuple[int, int | None]]) -> tuple[Point, list[list[Point]]]:
        """The unit, and the traces and lone units among its neighbours, traces first, the older first."""
        around = sorted({trace_id for _, trace_id in found if trace_id is not None})
        alone = [other for other, trace_id in found if trace_id is None]
        missing = [trace_id for trace_id in around if trace_id not in self._traces]
        lone: list[Point] = []
        for member in traces.members(self._connection, [unit_id, *alone], missing):
            if member.triple is not None:
                place = lone if member.trace_id is None else self._traces.setdefault(member.trace_id, [])
                place.append(point(member))
        own = next(one for one in lone if one.member.unit_id == unit_id)
        lone.sort(key=lambda one: one.member.order)
        return own, [self._traces[trace_id] for trace_id in around] + [
            [one] for one in lone if one is not own
        ]

    def _join(self, own: Point, group: list[Point]) -> None:
        trace_id = group[0].member.trace_id
        if trace_id is None:
            trace_id = traces.put_trace(self._connection, self._scope_id)
            group = self._traces[trace_id] = self._placed(trace_id, 0, group)
        elif trace_id not in self._dirty:
            traces.mark(self._connection, trace_id)
        group += self._placed(trace_id, max(one.member.number for one in group) + 1, [own])
        self._dirty.add(trace_id)

    def _placed(self, trace_id: int, first: int, group: Sequence[Point]) -> list[Point]:
        """Points put into a trace behind its members; which one is current is settled by `flush`."""
        placed = [
            one._replace(member=one.member._replace(trace_id=trace_id, number=number, current=0))
            for number, one in enumerate(group, first)
        ]
        traces.place(self._connection, [_row(trace_id, one.member) for one in placed])
        return placed

    def remove(self, units: Sequence[int]) -> None:
        """Take units out of their traces. A trace that one member is left of is no trace any more."""
        gone = set(units)
        touched = traces.traces_of(self._connection, units)
        if not touched:
            return
        traces.take_out(self._connection, units)
        for trace_id in touched:
            loaded = self._traces.pop(trace_id, None) or []
            known = {one.member.unit_id for one in loaded}
            fresh = traces.members(self._connection, traces=[trace_id])
            loaded += [point(member) for member in fresh if member.unit_id not in known]
            self._traces[trace_id] = [one for one in loaded if one.member.unit_id not in gone]
            traces.mark(self._connection, trace_id)
            self._dirty.add(trace_id)

    def flush(self) -> None:
        """Order and tell the traces that changed (`dirty`), and drop those that fell below two members."""
        for trace_id in sorted(self._dirty):
            group = sorted(self._traces[trace_id], key=lambda one: one.member.order)
            if len(group) < settings.MIN_TRACE_UNITS:
                traces.take_out(self._connection, [one.member.unit_id for one in group])
                traces.drop(self._connection, trace_id)
                del self._traces[trace_id]
                continue
            self._traces[trace_id] = self._numbered(trace_id, group)
            members = [one.member for one in group]
            traces.tell(self._connection, trace_id, *texts(members))
        self._dirty.clear()

    def _numbered(self, trace_id: int, group: Sequence[Point]) -> list[Point]:
        """Points in memory order, numbered, the last one current; what stands right is not written again."""
        last = len(group) - 1
        numbered = [
            one._replace(member=one.member._replace(number=number, current=int(number == last)))
            for number, one in enumerate(group)
        ]
        changed = [new.member for new, old in zip(numbered, group, strict=True) if new.member != old.member]
        traces.place(self._connection, [_row(trace_id, member) for member in changed])
        return numbered


def _row(trace_id: int, member: Member) -> tuple[int, int, int, int]:
    return trace_id, member.number, member.unit_id, member.current


def _around(unit_id: int, scope_id: int, triple: Triple) -> Neighbourhood:
    nearest = _nearest(unit_id, scope_id)
    if not holds_one_value(triple.predicate):
        return nearest
    return nearest._replace(holder=fold(triple.subject), slot=fold(triple.predicate))


def _nearest(unit_id: int, scope_id: int) -> Neighbourhood:
    most, least = settings.RELATION_NEIGHBOURS, settings.RELATION_THRESHOLD
    return Neighbourhood(unit_id, scope_id, k=most, least=least, holder=None, slot=None)


def update(connection: Connection, most: int = settings.TRACE_BATCH_UNITS) -> int:
    """Let the next `most` units that traces do not know of join them, inside the caller's transaction.

    Returns how many units are still unknown to them, as a bound.
    """
    traced, newest = traces.traced_until(connection)
    units = traces.untraced_units(connection, traced, most)
    for scope_id in dict.fromkeys(scope_id for _, scope_id, _ in units):
        tracing = Tracing(connection, scope_id, behind=True)
        for unit_id, of_scope, triple in units:
            if of_scope == scope_id:
                tracing.add(unit_id, triple)
        tracing.flush()
    reached = units[-1][0] if len(units) == most else newest
    if reached != traced:
        traces.set_traced_until(connection, reached)
    return newest - reached


def name_anew(connection: Connection) -> None:
    """Call the relation of each trace what the file's vectors say now, inside the caller's transaction.

    Members and trajectories stay.
    """
    ids = traces.of_many_names(connection)
    for start in range(0, len(ids), _BLOCK):
        members = traces.members(connection, traces=ids[start : start + _BLOCK])
        for trace_id, group in groupby(members, key=lambda member: member.trace_id):
            if trace_id is not None:
                traces.rename(connection, trace_id, relation_text([point(member) for member in group]))

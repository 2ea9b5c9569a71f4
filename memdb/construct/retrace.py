"""All traces of a file anew: the claims of a scope that QGMem's equation 2 relates, clustered greedily, the
strongest pair first.

Of a scope are held three numbers a claim, its names once, and how alike its neighbours are. Vectors are read
block by block, whole claims where they may be of one trace, as many at once as hang together. What comes out
depends on what was said and when, not on the order in which it was added.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.construct import alike
from memdb.construct.alike import Cosines, Numbers, Pairs
from memdb.construct.traces import (
    ALIKE,
    SAME_SLOT_SCALE,
    Point,
    cluster,
    point,
    relation_scores,
    texts,
    vectors,
)
from memdb.language.slots import holds_one_value
from memdb.language.terms import fold
from memdb.store import traces
from memdb.store.connection import Connection

Mask: TypeAlias = NDArray[np.bool_]
_PAIRS: Final = 4_096  # pairs whose vectors are read at once
_CLUSTERED: Final = 1_024  # pairs whose claims are clustered at once, unless more hang together
_WRITTEN: Final = 256  # traces whose claims are read at once


class _Side(NamedTuple):
    """The holders or the slots of the claims of a scope: by claim the number of its name, [n]; by name the
    number of what it is without case.
    """

    axis: Literal["subject", "predicate"]
    of: Numbers
    names: Sequence[str]
    folded: Numbers

    def alike(self, left: Numbers, right: Numbers) -> Mask:
        """Whether claims have the same but for case."""
        same: Mask = self.folded[self.of[left]] == self.folded[self.of[right]]
        return same


class _Claims(NamedTuple):
    """The claims of a scope in order, by their units, [n]; and by slot whether it has one value."""

    units: Numbers
    holders: _Side
    slots: _Side
    one_valued: Mask


def rebuild(connection: Connection) -> int:
    """Make all traces anew, scope by scope, inside the caller's transaction; returns how many there are."""
    count = sum(_rebuild_scope(connection, scope_id) for scope_id in traces.scope_ids(connection))
    traces.set_traced_until(connection, traces.traced_until(connection)[1])
    return count


def _rebuild_scope(connection: Connection, scope_id: int) -> int:
    traces.clear(connection, scope_id)
    claims = _claims(connection, scope_id)
    related = _related(connection, claims, _candidates(connection, claims))
    groups = sorted(
        group for some in _hanging_together(related) for group in _clusters(connection, claims, some)
    )
    for start in range(0, len(groups), _WRITTEN):
        some = groups[start : start + _WRITTEN]
        points = iter(_points(connection, claims.units[[number for group in some for number in group]]))
        for group in some:
            _write(connection, scope_id, [next(points) for _ in group])
    return len(groups)


def _claims(connection: Connection, scope_id: int) -> _Claims:
    units, sides = array("q"), (array("q"), array("q"))
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for unit_id, *names in traces.claims(connection, scope_id):
        units.append(unit_id)
        for of, known, name in zip(sides, numbers, names, strict=True):
            of.append(known.setdefault(name, len(known)))
    holders, slots = map(list, numbers)
    return _Claims(
        np.array(units, np.int64),
        _Side("subject", np.array(sides[0], np.int64), holders, _numbered(map(fold, holders))),
        _Side("predicate", np.array(sides[1], np.int64), slots, _numbered(map(fold, slots))),
        np.array([holds_one_value(slot) for slot in slots], bool),
    )


def _numbered(words: Iterator[str]) -> Numbers:
    known: dict[str, int] = {}
    return np.array([known.setdefault(word, len(known)) for word in words], np.int64)


def _candidates(connection: Connection, claims: _Claims) -> Pairs:
    """Each claim with its nearest by s_f, as far as they can be related, and with those next to it in a slot
    that has one value.
    """

    def read(numbers: Numbers) -> alike.Codes:
        return traces.triple_codes(connection, claims.units[numbers].tolist())

    count, least = len(claims.units), settings.RELATION_THRESHOLD - 1e-5
    near = alike.nearest(read, count, least, settings.RELATION_NEIGHBOURS)
    left, right = _next_in_slot(claims)
    more = ~np.isin(left * count + right, near.left * count + near.right)
    left, right = left[more], right[more]
    cosines = np.empty(len(left))
    for start in range(0, len(left), _PAIRS):
        part = slice(start, start + _PAIRS)
        numbers, one, other = _once(left[part], right[part])
        codes = read(numbers).astype(np.float64)
        cosines[part] = _cosines(codes[one], codes[other])
    return Pairs(np.r_[near.left, left], np.r_[near.right, right], np.r_[near.cosines, cosines])


def _next_in_slot(claims: _Claims) -> tuple[Numbers, Numbers]:
    """Claims of one holder and slot that has one value, each with so many of those before and after it."""
    slots = claims.holders.folded[claims.holders.of] * (len(claims.slots.names) + 1)
    slots += claims.slots.folded[claims.slots.of]
    numbers = np.flatnonzero(claims.one_valued[claims.slots.of])
    numbers = numbers[np.argsort(slots[numbers], kind="stable")]
    left, right = [numbers[:0]], [numbers[:0]]
    for gap in range(1, settings.RELATION_NEIGHBOURS + 1):
        same = slots[numbers[gap:]] == slots[numbers[:-gap]]
        left.append(numbers[:-gap][same])
        right.append(numbers[gap:][same])
    return np.concatenate(left), np.concatenate(right)


def _related(connection: Connection, claims: _Claims, pairs: Pairs) -> Pairs:
    """Those of candidates that are related, with S_rel in place of s_f: what `relation_scores` gives them."""
    left, right, facts = pairs
    same = claims.holders.alike(left, right) & claims.slots.alike(left, right)
    same &= claims.one_valued[claims.slots.of[left]]
    scores = np.where(same, 1 - (1 - facts) * SAME_SLOT_SCALE, facts)
    for side in (claims.holders, claims.slots):
        scores = np.minimum(scores, _side_scores(connection, side, left, right))
        kept = scores.round(9) >= ALIKE
        left, right, scores = left[kept], right[kept], scores[kept]
    return Pairs(left, right, scores.round(9))


def _side_scores(connection: Connection, side: _Side, left: Numbers, right: Numbers) -> Cosines:
    """s_a or s_p of pairs of claims; each pair of names is compared once."""
    scores = np.ones(len(left))
    differ = np.flatnonzero(~side.alike(left, right))
    one, other = np.sort([side.of[left[differ]], side.of[right[differ]]], axis=0)
    keys, of = np.unique(one * len(side.names) + other, return_inverse=True)
    cosines = np.empty(len(keys))
    for start in range(0, len(keys), _PAIRS):
        part = slice(start, start + _PAIRS)
        numbers, one, other = _once(*np.divmod(keys[part], len(side.names)))
        told = traces.side_codes(connection, side.axis, [side.names[number] for number in numbers])
        codes = vectors(told, next((len(code) for code in told if code), 1))
        cosines[part] = _cosines(codes[one], codes[other])
    scores[differ] = cosines[of]
    return scores


def _once(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The numbers of pairs, each once, and where those of the left and right side stand among them."""
    numbers, at = np.unique(np.r_[left, right], return_inverse=True)
    return numbers, at[: len(left)], at[len(left) :]


def _cosines(some: Cosines, others: Cosines) -> Cosines:
    """Of rows in pairs, 0 where one has no length; computed as those of `relation_scores`."""
    lengths = np.sqrt(np.square(some).sum(axis=1) * np.square(others).sum(axis=1))
    products = (some * others).sum(axis=1)
    cosines: Cosines = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return cosines


def _hanging_together(related: Pairs) -> Iterator[Pairs]:
    """The pairs in portions no two of which have a claim in common: traces lie within one."""
    parent: dict[int, int] = {}

    def root(one: int) -> int:
        while parent.setdefault(one, one) != one:
            parent[one] = one = parent[parent[one]]
        return one

    for left, right in zip(related.left.tolist(), related.right.tolist(), strict=True):
        first, second = sorted((root(left), root(right)))
        parent[second] = first
    roots = np.array([root(left) for left in related.left.tolist()], np.int64)
    order = np.argsort(roots, kind="stable")
    ends = [*(np.flatnonzero(np.diff(roots[order])) + 1).tolist(), len(order)]
    start = 0
    for end in ends:
        if end - start >= _CLUSTERED or end == len(order):
            at = order[start:end]
            yield Pairs(related.left[at], related.right[at], related.cosines[at])
            start = end


def _clusters(connection: Connection, claims: _Claims, related: Pairs) -> Iterator[list[int]]:
    """The traces of claims that hang together, by the claims' numbers."""
    numbers, left, right = _once(related.left, related.right)
    points = _points(connection, claims.units[numbers])

    def least(some: Sequence[int], others: Sequence[int]) -> float:
        return float(relation_scores([points[n] for n in some], [points[n] for n in others]).min())

    pairs = zip(left.tolist(), right.tolist(), related.cosines.tolist(), strict=True)
    for group in cluster(len(points), pairs, least):
        yield numbers[group].tolist()


def _points(connection: Connection, units: Numbers) -> list[Point]:
    """Units as they are compared, in this order."""
    found = {member.unit_id: point(member) for member in traces.members(connection, units.tolist())}
    return [found[unit_id] for unit_id in units.tolist()]


def _write(connection: Connection, scope_id: int, group: Sequence[Point]) -> None:
    members = sorted((one.member for one in group), key=lambda member: member.order)
    trace_id = traces.put_trace(connection, scope_id)
    last = len(members) - 1
    traces.place(
        connection, [(trace_id, n, member.unit_id, int(n == last)) for n, member in enumerate(members)]
    )
    traces.tell(connection, trace_id, *texts(members))

"""Chains of facts: where they can start, and where they lead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from memdb import settings
from memdb.store.indexes import Value
from memdb.store.statements import statement


class Chain(NamedTuple):
    """Units that lead from an entity of the question to a possible answer, and how well they tell of it."""

    score: float
    units: tuple[int, ...]


class Parts(NamedTuple):
    """The parts of a question: `number` int8 codes of `dimension` components, one after the other."""

    codes: bytes
    number: int
    dimension: int


_units = msgspec.json.Decoder(tuple[int, ...])


def chain_starts(
    connection: apsw.Connection, seen: Mapping[str, Value], names: Sequence[str]
) -> frozenset[str]:
    """Which of the folded `names` are holders from which at least two facts can be followed.

    `seen` are the bindings of scope and time, as in the hybrid statement.
    """
    values = {
        **seen,
        "names": json.dumps(names),
        "scan": settings.HOP_LABEL_UNITS,
        "fan": settings.HOP_NODE_EDGES,
    }
    return frozenset(name for (name,) in connection.execute(statement("chain_starts"), values))


def hops(
    connection: apsw.Connection, seen: Mapping[str, Value], starts: Sequence[str], parts: Parts
) -> list[Chain]:
    """Run hops.sql: the best chains from folded names, best first."""
    values: dict[str, Value] = {
        **seen,
        "starts": json.dumps(starts),
        "parts": parts.codes,
        "part_numbers": json.dumps(list(range(parts.number))),
        "dimension": parts.dimension,
        "scan": settings.HOP_LABEL_UNITS,
        "fan": settings.HOP_NODE_EDGES,
        "edges": settings.HOP_ROUND_EDGES,
        "beam": settings.HOP_BEAM,
        "least_hops": settings.LEAST_HOPS,
        "most_hops": settings.MOST_HOPS,
        "least_gain": settings.LEAST_HOP_GAIN,
        "least_fit": settings.LEAST_HOP_FIT,
        "least_share": settings.LEAST_CHAIN_SHARE,
        "floor": settings.HOP_FLOOR,
        "hop_cost": settings.HOP_COST,
        "chains": settings.HOP_CHAINS,
    }
    found: Any = connection.execute(statement("hops"), values).fetchall()
    return [Chain(score, _units.decode(units)) for score, units in found]

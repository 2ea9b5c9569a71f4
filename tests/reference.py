"""QGMem's retrieval in plain Python: what the hybrid statement must return, from the rows and the codes.

BM25 and the cosine of two codes come from FTS5 and sqlite-vec, row by row; everything else is written here
again.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import apsw

from memdb import settings
from memdb.activate.retrieve import SEARCHES
from memdb.language.terms import fold
from memdb.store.rows import UNKNOWN_KEY
from tests.handmade import Ask

Ranked: TypeAlias = dict[int, tuple[int, float]]  # id -> place, score
Channels: TypeAlias = dict[str, tuple[int, float]]  # channel -> place, score


class Row(NamedTuple):
    """A message, or a unit with the fields of its message."""

    id: int
    message_id: int
    said_day: int | None
    code: bytes | None
    bm25: float | None


class Expected(NamedTuple):
    message_id: int
    score: float
    channels: Channels


def _visible(connection: apsw.Connection, asked: Ask) -> set[int]:
    seen = set()
    for scope_id, *parts in connection.execute("SELECT scope_id, user, agent, run FROM scope"):
        wanted = [asked.scope.user, asked.scope.agent, asked.scope.run] if asked.scope else None
        if wanted is None:
            seen.add(scope_id)
        elif not any(wanted):
            if not any(parts):
                seen.add(scope_id)
        elif all(part is None or part == found for part, found in zip(wanted, parts, strict=True)):
            seen.add(scope_id)
    return seen


def _bm25(connection: apsw.Connection, table: str, weights: Iterable[float], asked: Ask) -> dict[int, float]:
    sql = f"SELECT rowid, -bm25({table}, {', '.join(map(str, weights))}) FROM {table} WHERE {table} MATCH ?"
    return dict(connection.execute(sql, (asked.terms,)))


def _rows(connection: apsw.Connection, asked: Ask, units: bool) -> list[Row]:
    """The messages, or the units, that this question may see at its time."""
    seen = _visible(connection, asked)
    if units:
        codes = dict(connection.execute("SELECT unit_id, fact FROM unit_vector"))
        found = _bm25(connection, "unit_terms", (1.0, 0.5), asked)
        sql = """SELECT unit_id, message_id, message.scope_id, said_day, said_key
                 FROM unit JOIN message USING (message_id)"""
    else:
        codes = dict(connection.execute("SELECT message_id, own FROM message_vector"))
        fields = [asked.values()[f"w_{field}"] for field in ("own", "question", "prompt", "context", "after")]
        found = _bm25(connection, "message_terms", fields, asked)
        sql = "SELECT message_id, message_id, scope_id, said_day, said_key FROM message"
    return [
        Row(id, message_id, day, codes.get(id), found.get(id))
        for id, message_id, scope_id, day, key in connection.execute(sql)
        if scope_id in seen and (UNKNOWN_KEY if key is None else key) <= asked.as_of
    ]


def cosine(connection: apsw.Connection, a: bytes, b: bytes) -> float:
    found = connection.execute("SELECT 1 - vec_distance_cosine(vec_int8(?), vec_int8(?))", (a, b)).get
    return float(found)


def _dense(connection: apsw.Connection, found: Iterable[Row], asked: Ask) -> dict[int, float]:
    return {row.id: cosine(connection, row.code, asked.code) for row in found if row.code and asked.code}


def cut_at_a_tie(connection: apsw.Connection, asked: Ask) -> bool:
    """Whether equal distances stand on both sides of the n-th place: vec0 keeps which it likes."""
    for channel in ("message_dense", "unit_dense"):
        scores = _dense(connection, _rows(connection, asked, channel == "unit_dense"), asked).values()
        order = sorted(scores, reverse=True)
        if asked.values()[channel] and len(order) > asked.n and order[asked.n - 1] - order[asked.n] < 1e-9:
            return True
    return False


def _ranked(scores: Mapping[int, float], n: int, near: Mapping[int, float] | None = None) -> Ranked:
    """id -> (place, score) of the best n; ties go by the dense score where it is given, then by id."""
    near = near or {}
    order = sorted(scores, key=lambda id: (-round(scores[id], 9), -round(near.get(id, -2), 9), id))
    return {id: (place, scores[id]) for place, id in enumerate(order[:n], 1)}


def sem_match(connection: apsw.Connection, unit_id: int, axis: str, asked: Ask) -> float:
    """(1/|C|) Σ best(c) · 1[best(c) ≥ 0.60], best(c) 1 for an equal attribute."""
    sql = """SELECT name, (SELECT name FROM label_vector WHERE label_vector.label_id = label.label_id)
             FROM unit_label JOIN label USING (label_id) WHERE unit_id = ? AND axis = ?"""
    labels = list(connection.execute(sql, (unit_id, axis)))
    constraints = [(fold(name), code) for on, name, code in asked.names if on == axis]
    best = []
    for folded, code in constraints:
        near = [1.0 if fold(name) == folded else 0.0 for name, _ in labels]
        near += [cosine(connection, code, other) for _, other in labels if other]
        best.append(max(near, default=0.0))
    return math.fsum(one for one in best if one >= settings.SEM_THRESHOLD - 1e-7) / len(constraints)


def overlap(a: tuple[int, int], b: tuple[int, int]) -> float:
    shared = min(a[1], b[1]) - max(a[0], b[0]) + 1
    return max(0, shared) / min(a[1] - a[0] + 1, b[1] - b[0] + 1)


def time_match(connection: apsw.Connection, row: Row, times: list[tuple[str, int, int]]) -> float:
    facts = list(
        connection.execute("SELECT start_day, end_day FROM unit_interval WHERE unit_id = ?", (row.id,))
    )
    said = None if row.said_day is None else (row.said_day, row.said_day)
    scores = []
    for kind, first, last in times:
        if kind == "fact" and facts:
            scores.append(max(overlap((first, last), fact) for fact in facts))
        else:
            weight = settings.TIME_FALLBACK if kind == "fact" else 1.0
            scores.append(weight * overlap((first, last), said) if said else 0.0)
    return math.fsum(scores) / len(scores)


def _attributes(connection: apsw.Connection, units: list[Row], asked: Ask) -> dict[int, float]:
    """S_ELT, the mean over the axes with constraints."""
    times = json.loads(asked.values()["times"])
    axes = [axis for axis in ("entity", "location") if any(on == axis for on, *_ in asked.names)]
    scores = {}
    for row in units:
        parts = [sem_match(connection, row.id, axis, asked) for axis in axes]
        if times:
            parts.append(time_match(connection, row, times))
        if any(part > 0 for part in parts):
            scores[row.id] = math.fsum(parts) / len(parts)
    return scores


def expected(connection: apsw.Connection, asked: Ask) -> list[Expected]:
    on = {channel for channel in SEARCHES if asked.values()[channel]}
    messages, units = _rows(connection, asked, False), _rows(connection, asked, True)
    owner = {row.id: row.message_id for row in units}
    near = _dense(connection, units, asked)
    lists: dict[str, Ranked] = {}
    if "unit_lexical" in on:
        lists["unit_lexical"] = _ranked({r.id: r.bm25 for r in units if r.bm25 is not None}, asked.n)
    if "unit_dense" in on:
        lists["unit_dense"] = _ranked(near, asked.n)
    if "unit_attribute" in on:
        lists["unit_attribute"] = _ranked(_attributes(connection, units, asked), asked.n, near)
    rrf: dict[int, float] = defaultdict(float)
    for ranked in lists.values():
        for id, (place, _) in ranked.items():
            rrf[id] += 1 / (settings.RRF_KAPPA + place)
    best: dict[int, int] = {}
    for id in sorted(rrf):
        message_id = owner[id]
        if message_id not in best or rrf[id] > rrf[best[message_id]] + 1e-12:
            best[message_id] = id
    fused = {"unit": {message_id: rrf[id] for message_id, id in best.items()}}
    if "message_lexical" in on:
        fused["message_lexical"] = {r.id: r.bm25 for r in messages if r.bm25 is not None}
    if "message_dense" in on:
        fused["message_dense"] = _dense(connection, messages, asked)
    fused["hops"] = {}
    for unit_id, message_id in connection.execute("SELECT unit_id, message_id FROM unit"):
        for chained, score in asked.chains:
            if chained == unit_id:
                fused["hops"][message_id] = max(score, fused["hops"].get(message_id, 0.0))
    return _fuse(connection, asked, lists, fused, best)


def _fuse(
    connection: apsw.Connection,
    asked: Ask,
    lists: dict[str, Ranked],
    fused: dict[str, dict[int, float]],
    best: dict[int, int],
) -> list[Expected]:
    totals: dict[int, float] = defaultdict(float)
    channels: dict[int, Channels] = defaultdict(dict)
    for name, scores in fused.items():
        ranked = _ranked(scores, asked.n if name.startswith("message") else len(scores))
        top = max((score for _, score in ranked.values()), default=0.0)
        for message_id, (place, score) in ranked.items():
            totals[message_id] += settings.SEARCH_LIST_WEIGHTS[name] * max(score, 0) / max(top, 1e-9)
            if name != "unit":
                channels[message_id][name] = (place, score)
    for message_id, unit_id in best.items():
        channels[message_id] |= {name: ranked[unit_id] for name, ranked in lists.items() if unit_id in ranked}
    for message_id, speaker in connection.execute("SELECT message_id, speaker FROM message"):
        if message_id in totals and speaker == asked.speaker:
            totals[message_id] += settings.SPEAKER_BONUS
    order = sorted(totals, key=lambda id: (-round(totals[id], 9), id))
    return [Expected(id, totals[id], channels[id]) for id in order[: asked.k]]

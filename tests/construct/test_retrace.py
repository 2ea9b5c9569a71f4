"""Rebuilt traces are those of the definition, which compares all claims with all others at once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import memdb
from memdb import Message, Scope, errors, settings
from memdb.construct import alike, retrace
from memdb.construct.traces import Point, cluster, point, relation_scores, texts
from memdb.language.clock import parse_instant
from memdb.models.fakes import HashEncoder
from memdb.records import Axis, Triple, Unit
from memdb.store import indexes, rows, windows
from memdb.store import traces as store
from memdb.store.connection import Connection
from tests.conftest import OpenMemory

DIMENSION = 16
SMALL = {"ROWS": 64, "COLUMNS": 32, "TILE": 16, "SAMPLE": 40, "COMPONENTS": 6}
HOLDERS = ("Ana", "ANA", "Anna", "Ben", "Zoë")
SLOTS = ("lives in", "Lives in", "has lived in", "likes", "liked", "works for", "is")
Traces = list[tuple[list[str], str, str]]


def fill(memory: memdb.Memory, claims: int, seed: int) -> None:
    """Claims in two scopes, in no order of time; facts, holders and slots lie around a few directions."""
    roll = random.Random(seed)
    drawn = np.random.default_rng(seed)
    scale = indexes.vector_scale(DIMENSION)
    around = drawn.normal(size=(12, DIMENSION))

    def code(centre: int, noise: float) -> bytes:
        vector = around[centre] + noise * drawn.normal(size=DIMENSION)
        return indexes.code((vector / np.linalg.norm(vector)).astype(np.float32), scale).tobytes()

    with memory._database.atomic() as connection:
        scopes = [rows.put_scope(connection, scope) for scope in (Scope(), Scope(user="ana"))]
        sessions = [rows.put_session(connection, scope_id, "", "s") for scope_id in scopes]
        for number in range(claims):
            place = roll.random() < 0.25
            triple = Triple(roll.choice(HOLDERS), roll.choice(SLOTS), f"value {number % 9}")
            unit_id = put(connection, scopes[place], sessions[place], triple, roll)
            sides: list[tuple[Axis, str]] = [("subject", triple.subject), ("predicate", triple.predicate)]
            for axis, name in sides:
                label_id, is_new = rows.put_label(connection, axis, name)
                rows.put_unit_label(connection, label_id, unit_id)
                if is_new and name != "Zoë":  # whose label has no vector
                    indexes.put_label_vector(connection, label_id, axis, code(len(axis) % 3, 0.5))
            if roll.random() < 0.95:
                fact = code(roll.randrange(12), roll.choice([0.0, 0.2, 0.5]))
                store.put_triple_vector(connection, unit_id, scopes[place], fact)


def put(connection: Connection, scope_id: int, session_id: int, triple: Triple, roll: random.Random) -> int:
    said_at = roll.choice([None, f"2024-01-{roll.randint(1, 28):02}", f"serial-{roll.randint(0, 99)}"])
    position = rows.session_length(connection, session_id)
    instant = parse_instant(said_at) if said_at else None
    message = Message("Ana", triple.object)
    message_id = rows.put_message(connection, scope_id, session_id, position, message, instant)
    windows.put_window(connection, session_id, position, (position, position + 1, position))
    unit = Unit(fact_text=f"{triple.object}.", triple=triple, first=position, last=position)
    return rows.put_unit(connection, scope_id, session_id, position, message_id, unit)


def plainly(connection: Connection) -> Traces:
    """The traces of the definition, each scope as a whole."""
    found: Traces = []
    for scope_id in store.scope_ids(connection):
        sql = "SELECT unit_id FROM triple_vector WHERE scope_id = ?"
        units = [unit_id for (unit_id,) in connection.execute(sql, (scope_id,))]
        points = sorted(map(point, store.members(connection, units)), key=order)
        if not points:
            continue
        scores = relation_scores(points, points)
        edges = {*nearest(points), *next_in_slot(points)}
        pairs = [(i, j, float(scores[i, j])) for i, j in edges]
        groups = cluster(len(points), pairs, lambda a, b, told=scores: float(told[np.ix_(a, b)].min()))
        for group in groups:
            members = sorted((points[n].member for n in group), key=lambda one: one.order)
            found.append(([str(one.unit_id) for one in members], *texts(members)))
    return found


def order(one: Point) -> tuple[object, ...]:
    member = one.member
    return (member.said_key, one.holder, one.slot, member.object, member.fact_text, *member.order)


def nearest(points: list[Point]) -> Iterator[tuple[int, int]]:
    facts = np.array([np.frombuffer(one.member.triple or b"", np.int8) for one in points], np.float64)
    facts /= np.linalg.norm(facts, axis=1)[:, None]
    for one, line in enumerate((facts @ facts.T).round(12)):
        near = [n for n in np.argsort(-line, kind="stable").tolist() if n != one and line[n] >= 0.8 - 1e-5]
        yield from ((min(one, n), max(one, n)) for n in near[: settings.RELATION_NEIGHBOURS])


def next_in_slot(points: list[Point]) -> Iterator[tuple[int, int]]:
    seen: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(points):
        if one.state:
            before = seen.setdefault((one.holder, one.slot), [])
            yield from ((earlier, number) for earlier in before[-settings.RELATION_NEIGHBOURS :])
            before.append(number)


def rebuilt(connection: Connection) -> Traces:
    count = retrace.rebuild(connection)
    sql = """
        SELECT json_group_array(CAST(unit_id AS TEXT) ORDER BY trace_unit.number), relation_text, trajectory
        FROM trace JOIN trace_unit USING (trace_id) GROUP BY trace_id ORDER BY trace_id"""
    found = [(json.loads(units), relation, told) for units, relation, told in connection.execute(sql)]
    assert len(found) == count
    return found


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_the_definition(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, seed: int, native: str
) -> None:
    monkeypatch.setenv("MEMDB_NATIVE", native)
    memory = open_memory(encoder=HashEncoder(DIMENSION), scope="*")
    fill(memory, 160, seed)
    with memory._database.atomic() as connection:
        expected = plainly(connection)
        assert len(expected) > 5
        assert rebuilt(connection) == expected
        small = {"_PAIRS": 7, "_CLUSTERED": 9, "_WRITTEN": 2}
        with patch.multiple(alike, **SMALL), patch.multiple(retrace, **small):
            assert rebuilt(connection) == expected


def test_relations_are_scored_as_those_of_the_claims_themselves(open_memory: OpenMemory) -> None:
    memory = open_memory(encoder=HashEncoder(DIMENSION))
    fill(memory, 160, 5)
    with memory._database.reader() as connection:
        claims = retrace._claims(connection, 1)
        points = retrace._points(connection, claims.units)
        candidates = retrace._candidates(connection, claims)
        found = retrace._related(connection, claims, candidates)
    scores = relation_scores(points, points)
    pairs = list(zip(candidates.left.tolist(), candidates.right.tolist(), strict=True))
    expected = [(*pair, scores[pair]) for pair in pairs if scores[pair] >= 0.8]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert len(expected) > 50


def test_a_file_without_claims_has_no_traces(open_memory: OpenMemory) -> None:
    with open_memory(encoder=HashEncoder(DIMENSION))._database.atomic() as connection:
        assert retrace.rebuild(connection) == 0


@pytest.mark.parametrize("claims", [200, 800])
def test_vectors_are_read_in_portions_of_one_size(open_memory: OpenMemory, claims: int) -> None:
    memory = open_memory(encoder=HashEncoder(DIMENSION))
    fill(memory, claims, 1)
    read, portions = store.triple_codes, list[int]()

    def counted(connection: Connection, units: list[int]) -> Any:
        portions.append(len(units))
        return read(connection, units)

    with (
        memory._database.atomic() as connection,
        patch.multiple(alike, **SMALL),
        patch.object(retrace, "_PAIRS", 32),
        patch.object(store, "triple_codes", counted),
    ):
        retrace.rebuild(connection)
    assert max(portions) <= SMALL["ROWS"]


def test_a_vector_of_no_triple_is_damage(open_memory: OpenMemory) -> None:
    memory = open_memory(encoder=HashEncoder(DIMENSION))
    fill(memory, 4, 1)
    with memory._database.atomic() as connection:
        connection.execute("UPDATE unit SET subject = NULL, predicate = NULL, object = NULL")
        with pytest.raises(errors.Damaged, match="no triple"):
            retrace.rebuild(connection)

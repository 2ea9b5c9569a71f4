"""vector_top: exactly the nearest vectors, whatever the table went through."""

from __future__ import annotations

from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.vectors import Row, Table, clustered, connect, kernels, uniform

BOUNDS: list[dict[str, Any]] = [
    {},
    {"scopes": [1, 2]},
    {"scopes": 0},
    {"scopes": []},
    {"scopes": [2, 2, 7, -5]},
    {"said_from": 40},
    {"said_until": 90},
    {"said_from": 40, "said_until": 90, "scopes": [0, 1], "axis": "entity"},
    {"axis": "location"},
    {"axis": "nothing"},
    {"ids": [3, 77, 9_999, 4, 3]},
    {"ids": list(range(-5, 150))},
    {"ids": []},
    {"ids": list(range(40, 60)), "scopes": [1], "axis": "location"},
    {"within": 0.4},
    {"within": 1.05, "scopes": [2], "axis": "entity"},
    {"said_from": -(1 << 63), "said_until": (1 << 63) - 1},
]


@pytest.mark.parametrize("dimension", [1, 7, 64, 65, 200, 384, 1_536])
def test_every_kernel_finds_the_nearest_with_the_distance_of_vec0(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    table = Table(dimension)
    codes = uniform(rng, (200, dimension))
    codes[7], codes[100], codes[150:153] = 0, codes[3], codes[4]
    table.fill(codes)
    for query in (uniform(rng, (dimension,)), codes[4]):
        told = table.connection.execute(
            "SELECT id, distance FROM t WHERE v MATCH vec_int8(?) AND k = 200", (query.tobytes(),)
        )
        by_vec0 = dict(told)
        for kernel in kernels():
            found = table.top(query, 200, kernel)
            assert found == table.expected(query, 200)
            assert dict(found) == by_vec0


def test_sums_that_are_not_exact_in_float_are_rounded_as_vec0_rounds_them() -> None:
    rng = np.random.default_rng(5)
    table = Table(4_096, chunk_size=8)
    table.fill(np.where(uniform(rng, (20, 4_096)) >= 0, 127, -128).astype(np.int8))
    query = table.rows[3].code
    told = table.connection.execute(
        "SELECT id, distance FROM t WHERE v MATCH vec_int8(?) AND k = 20", (query.tobytes(),)
    )
    by_vec0 = dict(told)
    for kernel in kernels():
        assert dict(table.top(query, 20, kernel)) == by_vec0


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_filters(bounds: dict[str, Any]) -> None:
    table = Table(24)
    table.fill(clustered(np.random.default_rng(1), 150, 24))
    asked = {**bounds, "scopes": [0]} if bounds.get("scopes") == 0 else bounds
    for k in (1, 10, 1_000):
        assert table.top(table.rows[9].code, k, **bounds) == table.expected(table.rows[9].code, k, **asked)


def test_of_rows_that_are_equally_near_those_of_smaller_ids_are_kept() -> None:
    table = Table(16, chunk_size=8)
    same = np.full(16, 3, np.int8)
    for row_id in (50, 7, 90, 3, 41, 60, 61, 62, 63, 2):
        table.put(row_id, Row(same))
    assert table.top(same, 3) == [(2, 0.0), (3, 0.0), (7, 0.0)]
    assert table.top(same, 3, ids=[90, 61, 41, 62]) == [(41, 0.0), (61, 0.0), (62, 0.0)]


def test_vectors_without_length_come_last() -> None:
    table = Table(8, chunk_size=8)
    for row_id in (1, 2, 3):
        table.put(row_id, Row(np.zeros(8, np.int8)))
    table.put(4, Row(np.full(8, -1, np.int8)))
    assert table.top(np.ones(8, np.int8), 3) == [(4, 2.0), (1, None), (2, None)]
    assert table.top(np.zeros(8, np.int8), 2) == [(1, None), (2, None)]


def test_the_greatest_distance_is_rounded_as_vec0_rounds_it() -> None:
    """A cosine of 0.6 is in float32 a little farther than 0.4 away."""
    table = Table(8)
    table.put(1, Row(np.array([60, 80, 0, 0, 0, 0, 0, 0], np.int8)))
    query = np.array([100, 0, 0, 0, 0, 0, 0, 0], np.int8)
    (found,) = table.top(query, 1, within=0.4)
    assert found[1] is not None
    assert found[1] > 0.4
    assert table.top(query, 1, within=0.39999) == []


def test_nothing_to_find() -> None:
    table = Table(16)
    query = np.ones(16, np.int8)
    assert table.top(query, 10) == []
    table.put(1, Row(query))
    assert table.top(query, 0) == []
    assert table.top(query, 10) == [(1, 0.0)]
    table.drop(1)
    assert table.top(query, 10) == []
    nothing = table.connection.execute("SELECT * FROM vector_top('t', NULL, 10)")
    assert list(nothing) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 40), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(1, 40), st.just(0)),
        st.tuples(st.sampled_from(["begin", "undo", "done"]), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 45))
def test_whatever_the_table_went_through(steps: list[tuple[str, int, int]], k: int) -> None:
    """Few distinct vectors, so that ties are many; small chunks, so that they come and go."""
    table = Table(12, chunk_size=8)
    codes = clustered(np.random.default_rng(3), 6, 12)
    kept = dict(table.rows)
    for step, row_id, which in steps:
        inside = table.connection.in_transaction
        if step == "put" and row_id not in table.rows:
            table.put(row_id, Row(codes[which], which % 2, row_id))
        elif step == "drop" and row_id in table.rows:
            table.drop(row_id)
        elif step == "begin" and not inside:
            table.connection.execute("BEGIN")
            kept = dict(table.rows)
        elif step in ("undo", "done") and inside:
            table.connection.execute("ROLLBACK" if step == "undo" else "COMMIT")
            table.rows = kept if step == "undo" else table.rows
    for bounds in ({}, {"scopes": [1]}, {"said_from": 5, "said_until": 30}, {"ids": [1, 2, 3]}):
        assert table.top(codes[0], k, **bounds) == table.expected(codes[0], k, **bounds)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT * FROM vector_top('nothing', ?, 1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t_chunks', ?, 1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t; DROP', ?, 1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('', ?, 1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top(NULL, ?, 1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1)", (b"\1" * 7,)),
        ("SELECT * FROM vector_top('t', ?, 1)", (b"",)),
        ("SELECT * FROM vector_top('t', ?, 1)", ("12345678",)),
        ("SELECT * FROM vector_top('t', ?, -1)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1 << 40)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '[1,')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '[1 2]')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '[1.5]')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '[\"1\"]')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '[9223372036854775808]')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, '')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, x'00')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, NULL, 'now')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, NULL, NULL, 1.5)", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, NULL, NULL, NULL, NULL, 'longer than any axis')", (b"\1" * 8,)),
        ("SELECT * FROM vector_top('t', ?, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'sse9')", (b"\1" * 8,)),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(sql: str, values: tuple[Any, ...]) -> None:
    table = Table(8)
    table.put(1, Row(np.ones(8, np.int8)))
    with pytest.raises(apsw.SQLError):
        table.connection.execute(sql, values).fetchall()


@pytest.mark.parametrize(
    "declared",
    [
        "id INTEGER PRIMARY KEY, v FLOAT[8] distance_metric=cosine",
        "id INTEGER PRIMARY KEY, v INT8[8]",
        "id INTEGER PRIMARY KEY, v INT8[8] distance_metric=l1",
        "id INTEGER PRIMARY KEY, v INT8[8] distance_metric=cosine, w INT8[8] distance_metric=cosine",
        "id TEXT PRIMARY KEY, v INT8[8] distance_metric=cosine",
        "id INTEGER PRIMARY KEY, p INTEGER PARTITION KEY, v INT8[8] distance_metric=cosine",
    ],
)
def test_tables_of_another_kind_are_refused(declared: str) -> None:
    with connect() as connection:
        connection.execute(f"CREATE VIRTUAL TABLE t USING vec0({declared})")
        with pytest.raises(apsw.SQLError):
            connection.execute("SELECT * FROM vector_top('t', ?, 1)", (b"\1" * 8,)).fetchall()


def test_a_filter_on_a_column_that_is_not_there_is_refused() -> None:
    with connect() as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING vec0(v INT8[8] distance_metric=cosine)")
        for bounds in ("1", "NULL, 1", "NULL, NULL, 1", "NULL, NULL, NULL, NULL, 'x'"):
            with pytest.raises(apsw.SQLError, match="no column"):
                connection.execute(f"SELECT * FROM vector_top('t', ?, 1, {bounds})", (b"\1" * 8,)).fetchall()


def test_nothing_in_a_file_can_call_it() -> None:
    table = Table(8)
    table.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 1)
    table.connection.execute("CREATE VIEW w AS SELECT * FROM vector_top('t', x'0101010101010101', 1)")
    with pytest.raises(apsw.SQLError, match="unsafe use"):
        table.connection.execute("SELECT * FROM w").fetchall()


def test_a_search_can_be_interrupted() -> None:
    table = Table(8, chunk_size=8)
    table.fill(clustered(np.random.default_rng(1), 200, 8))
    steps = []

    def stop() -> bool:
        steps.append(1)
        return len(steps) > 20

    table.connection.set_progress_handler(stop, 1)
    with pytest.raises(apsw.InterruptError):
        table.top(np.ones(8, np.int8), 5)
    table.connection.set_progress_handler(None)
    assert len(table.top(np.ones(8, np.int8), 5)) == 5


def test_an_axis_with_a_nul_is_its_bytes_to_the_end() -> None:
    table = Table(8)
    codes = clustered(np.random.default_rng(3), 12, 8)
    for number, axis in enumerate(("a\0bcdefghijk", "a\0bcdefghijl", "a", "a\0") * 3, 1):
        table.put(number, Row(codes[number - 1], 0, 0, axis))
    for axis in ("a\0bcdefghijk", "a\0bcdefghijl", "a", "a\0"):
        found = table.top(codes[0], 12, axis=axis)
        assert len(found) == 3
        assert found == table.expected(codes[0], 12, axis=axis)

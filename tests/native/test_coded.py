"""vector_top by codes: nearly all of the nearest vectors, and nothing that is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.store import codes
from tests.native.vectors import Codes, Row, Table, clustered, ids_of, kernels, uniform


@pytest.fixture(autouse=True)
def _coded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "CODED", ("t",))
    monkeypatch.setattr(codes, "_MOST", 1 << 20)


def coded_table(rows: Codes, chunk_size: int = 64) -> Table:
    """A table with these rows and their codes."""
    table = Table(rows.shape[1], chunk_size)
    table.fill(rows)
    with table.connection:
        codes.keep(table.connection)
    return table


def recall(table: Table, queries: Codes, k: int, how: str = "coded") -> float:
    """The share of the k nearest that is found; what is found has its exact distance, nearest first."""
    found = 0
    for query in queries:
        told, right = table.top(query, k, how), dict(table.expected(query, len(table.rows)))
        assert told == sorted(((one, right[one]) for one, _ in told), key=lambda hit: (hit[1], hit[0]))
        assert len(told) == k
        found += len(set(ids_of(told)) & set(ids_of(table.expected(query, k))))
    return found / k / len(queries)


@pytest.mark.parametrize("dimension", [24, 100, 384, 1_000])
def test_nearly_all_of_the_nearest_are_found(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    rows = clustered(rng, 3_000, dimension)
    rows[2_900:] = rows[100:200]
    table = coded_table(rows)
    told = {
        kernel: [table.top(query, 20, f"coded {kernel}") for query in rows[::200]] for kernel in kernels()
    }
    assert all(found == told["scalar"] for found in told.values())
    assert recall(table, rows[::60], 20) > 0.985


def test_more_candidates_than_are_kept() -> None:
    rng = np.random.default_rng(2)
    table = coded_table(clustered(rng, 20_000, 32), chunk_size=512)
    assert recall(table, clustered(rng, 10, 32), 5) > 0.9


def test_scores_that_tell_nothing() -> None:
    rng = np.random.default_rng(2)
    table = coded_table(clustered(rng, 20_000, 16), chunk_size=512)
    table.connection.execute("UPDATE t_code SET codes = zeroblob(length(codes))")
    query = clustered(rng, 1, 16)[0]
    assert table.top(query, 5, "coded") == table.expected(query, 5)


@pytest.mark.parametrize(
    "gone", ["DROP TABLE t_code", "DELETE FROM t_code", "DELETE FROM t_code WHERE code_id % 3"]
)
def test_codes_may_be_missing(gone: str) -> None:
    rng = np.random.default_rng(4)
    table = coded_table(uniform(rng, (900, 200)), chunk_size=256)
    assert table.connection.execute("SELECT count(*) FROM t_code").get == 2 * 3
    table.connection.execute(gone)
    queries = uniform(rng, (5, 200))
    assert recall(table, queries, 9) > 0.9
    if "DROP" in gone or gone.endswith("code"):
        assert recall(table, queries, 9) == 1


def test_filters_are_those_of_the_exact_search() -> None:
    table = coded_table(clustered(np.random.default_rng(4), 500, 64))
    query = table.rows[7].code
    for bounds in ({"scopes": [1]}, {"said_from": 100, "said_until": 120}, {"axis": "entity", "within": 0.6}):
        found = table.top(query, 500, "coded", **bounds)
        assert set(found) <= set(table.expected(query, 500, **bounds))
        assert found[:1] == table.expected(query, 1, **bounds)


def refill(table: Table, rng: np.random.Generator) -> list[int]:
    """Empty the last chunk, so that the one before takes rows again, then begin another one."""
    before = max(table.rows)
    for row_id in [*range(130, 160), *range(193, before + 1)]:
        table.drop(row_id)
    fresh = uniform(rng, (60, table.dimension))
    for row_id, code in enumerate(fresh, before + 1):
        table.put(row_id, Row(code))
    return [row_id for row_id in table.rows if row_id > before]


@pytest.mark.parametrize("together", [True, False])
def test_slots_that_are_filled_again(together: bool) -> None:
    """Old codes there would hide the new rows."""
    rng = np.random.default_rng(9)
    table = coded_table(uniform(rng, (256 + 10, 256)))
    for row_id in range(257, 267):  # all of chunk 5: chunk 4 is the last one then
        table.drop(row_id)
    with table.connection:
        fresh = refill(table, rng)
        if not together:
            codes.keep(table.connection)
        codes.keep(table.connection)
    assert list(codes.wrong(table.connection)) == []
    for row_id in fresh:
        assert ids_of(table.top(table.rows[row_id].code, 1, "coded")) == [row_id]


def test_what_is_deleted_leaves_no_code() -> None:
    table = coded_table(uniform(np.random.default_rng(1), (200, 64)))
    codes.delete(table.connection, "t", "DELETE FROM t WHERE id = ?", [3, 70, 71, 9_999, 199])
    bits = np.frombuffer(
        table.connection.execute("SELECT codes FROM t_code WHERE code_id = 4096").get, np.uint8
    )
    assert not bits.reshape(64, 8)[2].any()
    assert bits.reshape(64, 8)[3].any()
    codes.delete(table.connection, "t", "DELETE FROM t WHERE id = ?", list(range(65, 129)))
    left = table.connection.execute("SELECT code_id / 4096 FROM t_code").fetchall()
    assert left == [(1,), (3,)]
    assert list(codes.wrong(table.connection)) == []


def test_wrong_codes_are_found_and_repaired() -> None:
    table = coded_table(uniform(np.random.default_rng(1), (200, 64)))
    right = table.connection.execute("SELECT * FROM t_code").fetchall()
    table.connection.execute("UPDATE t_code SET codes = zeroblob(512) WHERE code_id = 8192")
    table.connection.execute("DELETE FROM t_code WHERE code_id = 12288")
    assert list(codes.wrong(table.connection)) == ["t_code 8192 does not hold the signs of its vectors"]
    codes.repair(table.connection)
    assert table.connection.execute("SELECT * FROM t_code").fetchall() == right


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 60)),
        st.tuples(st.just("drop"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["keep", "begin", "undo", "done"]), st.just(0)),
    ),
    max_size=120,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_the_table_went_through(steps: list[tuple[str, int]]) -> None:
    """So few rows are all compared: what is found is exact."""
    table = Table(16, chunk_size=8)
    rows = clustered(np.random.default_rng(3), 61, 16)
    kept = dict(table.rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "CODED", ("t",))
        for step, row_id in steps:
            inside = table.connection.in_transaction
            if step == "put" and row_id not in table.rows:
                table.put(row_id, Row(rows[row_id]))
            elif step == "drop" and row_id in table.rows:
                codes.delete(table.connection, "t", "DELETE FROM t WHERE id = ?", [row_id])
                del table.rows[row_id]
            elif step == "keep":
                codes.keep(table.connection)
            elif step == "begin" and not inside:
                table.connection.execute("BEGIN")
                kept = dict(table.rows)
            elif step in ("undo", "done") and inside:
                table.connection.execute("ROLLBACK" if step == "undo" else "COMMIT")
                table.rows = kept if step == "undo" else table.rows
        codes.keep(table.connection)
        assert list(codes.wrong(table.connection)) == []
    assert table.top(rows[0], 10, "coded") == table.expected(rows[0], 10)

"""Shadow tables that somebody damaged: an error that says so, and nothing read that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from memdb.store import codes
from tests.native.vectors import Table, clustered

EVERY = ("exact", "coded")
DAMAGE = {
    "UPDATE t_chunks SET size = 1 << 40 WHERE chunk_id = 2": EVERY,
    "UPDATE t_chunks SET size = 0": EVERY,
    "UPDATE t_chunks SET size = -64": EVERY,
    "UPDATE t_chunks SET validity = zeroblob(7) WHERE chunk_id = 3": EVERY,
    "UPDATE t_chunks SET validity = zeroblob(4096)": EVERY,
    "UPDATE t_chunks SET validity = 'none'": EVERY,
    "UPDATE t_chunks SET rowids = zeroblob(511)": (*EVERY, "ids"),
    "UPDATE t_chunks SET rowids = 5": (*EVERY, "ids"),
    "UPDATE t_chunks SET chunk_id = -chunk_id": EVERY,
    "UPDATE t_chunks SET chunk_id = chunk_id + (1 << 61)": EVERY,
    "UPDATE t_chunks SET chunk_id = chunk_id + 7": EVERY,
    "UPDATE t_vector_chunks00 SET vectors = zeroblob(10)": (*EVERY, "ids"),
    "UPDATE t_vector_chunks00 SET vectors = zeroblob(1 << 20)": (*EVERY, "ids"),
    "UPDATE t_vector_chunks00 SET vectors = 5": (*EVERY, "ids"),
    "UPDATE t_vector_chunks00 SET vectors = 'text'": (*EVERY, "ids"),
    "DELETE FROM t_vector_chunks00 WHERE _rowid_ = 2": EVERY,
    "DELETE FROM t_vector_chunks00": (*EVERY, "ids"),
    "DROP TABLE t_vector_chunks00": (*EVERY, "ids"),
    "DELETE FROM t_metadatachunks00": ("scopes",),
    "UPDATE t_metadatachunks00 SET data = zeroblob(1)": ("scopes",),
    "UPDATE t_metadatachunks01 SET data = zeroblob(4)": ("said",),
    "UPDATE t_metadatachunks02 SET data = 5.5": ("axis",),
    "UPDATE t_metadatachunks02 SET data = zeroblob(8 * 64)": ("axis",),
    "UPDATE t_rowids SET chunk_offset = 1 << 40": ("ids",),
    "UPDATE t_rowids SET chunk_offset = -1": ("ids",),
    "UPDATE t_rowids SET chunk_offset = chunk_offset + 1": ("ids",),
    "UPDATE t_rowids SET chunk_id = 99": ("ids",),
    "UPDATE t_rowids SET chunk_id = NULL": ("ids",),
    "UPDATE t_code SET codes = zeroblob(1)": ("coded",),
    "UPDATE t_code SET codes = x'' WHERE code_id = 8192": ("coded",),
}  # fmt: skip
ASKED = {
    "exact": "NULL, NULL, NULL, NULL, NULL, NULL, 'exact'",
    "coded": "NULL, NULL, NULL, NULL, NULL, NULL, 'coded'",
    "ids": "NULL, NULL, NULL, '[5, 70, 99]'",
    "scopes": "1",
    "said": "NULL, 3",
    "axis": "NULL, NULL, NULL, NULL, 'entity'",
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """Four chunks, three of them with codes."""
    monkeypatch.setattr(codes, "CODED", ("t",))
    made = Table(32, path=str(tmp_path / "damaged.db"))
    made.fill(clustered(np.random.default_rng(1), 250, 32))
    codes.keep(made.connection)
    made.connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    yield made
    made.connection.close()


def ask(table: Table, bounds: str) -> int:
    query = (table.rows[9].code.tobytes(),)
    return len(table.connection.execute(f"SELECT * FROM vector_top('t', ?, 100, {bounds})", query).fetchall())


@pytest.mark.parametrize(("sql", "way"), [(sql, way) for sql, ways in DAMAGE.items() for way in ways])
def test_damage_is_an_error(table: Table, sql: str, way: str) -> None:
    assert ask(table, ASKED[way]) > 0
    table.connection.execute(sql)
    with pytest.raises(apsw.CorruptError, match=r"chunk|t"):
        ask(table, ASKED[way])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT8[32]", "INT8[0]"),
        ("INT8[32]", "INT8[99999]"),
        ("INT8[32]", "INT8[]"),
        ("INT8[32]", "INT8[32"),
        ("chunk_size=64", "chunk_size=4294967296"),
        ("chunk_size=64", "chunk_size=7"),
        ("chunk_size=64", "chunk_size="),
        ("chunk_size=64)", "chunk_size=64"),
        ("USING vec0", "USING vec1"),
        ("distance_metric=cosine", "distance_metric=l2"),
    ],
)
def test_a_declaration_that_is_none(table: Table, old: str, new: str) -> None:
    table.connection.execute("PRAGMA writable_schema = ON")
    table.connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 't'", (old, new))
    with pytest.raises((apsw.SQLError, apsw.CorruptError)):
        ask(table, ASKED["exact"])


def test_another_dimension_than_the_vectors_have(table: Table) -> None:
    table.connection.execute("PRAGMA writable_schema = ON")
    table.connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'INT8[32]', 'INT8[64]') WHERE name = 't'"
    )
    with pytest.raises(apsw.CorruptError):
        table.connection.execute("SELECT * FROM vector_top('t', zeroblob(64), 5)").fetchall()


def test_a_table_of_another_sort_in_place_of_the_chunks(table: Table) -> None:
    """What cannot be read in place, as a view, is no blob."""
    table.connection.execute("ALTER TABLE t_vector_chunks00 RENAME TO held")
    table.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 1)
    table.connection.execute("CREATE VIEW t_vector_chunks00 AS SELECT * FROM held")
    with pytest.raises(apsw.CorruptError):
        ask(table, ASKED["exact"])

"""Tables of vectors to search, and what a search must find, by numpy alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from memdb.store.connection import harden, load_vectors
from memdb.store.extensions import load_native, native

Found = list[tuple[int, float | None]]
Codes = NDArray[np.int8]


class Row(NamedTuple):
    """A vector with what is kept beside it."""

    code: Codes
    scope_id: int = 1
    said_key: int = 0
    axis: str = "entity"


class Table:
    """A vec0 table `t` in a database of its own, and beside it what it should hold."""

    def __init__(self, dimension: int, chunk_size: int = 64, path: str = ":memory:") -> None:
        self.dimension = dimension
        self.connection = connect(path)
        self.connection.execute(
            "CREATE VIRTUAL TABLE t USING vec0(id INTEGER PRIMARY KEY, scope_id INTEGER, said_key INTEGER,"
            f" axis TEXT, v INT8[{dimension}] distance_metric=cosine, chunk_size={chunk_size})"
        )
        self.rows: dict[int, Row] = {}

    def put(self, row_id: int, row: Row) -> None:
        """Insert a row."""
        values = (row_id, row.scope_id, row.said_key, row.axis, row.code.tobytes())
        self.connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, vec_int8(?))", values)
        self.rows[row_id] = row

    def fill(self, codes: Codes) -> None:
        """Insert rows 1, 2, …"""
        with self.connection:
            for number, code in enumerate(codes, 1):
                self.put(number, Row(code, number % 3, number, ("entity", "location")[number % 2]))

    def drop(self, row_id: int) -> None:
        """Delete a row."""
        self.connection.execute("DELETE FROM t WHERE id = ?", (row_id,))
        del self.rows[row_id]

    def top(self, query: Codes, k: int, how: str = "", **bounds: Any) -> Found:
        """What vector_top finds, nearest first."""
        names = ("scopes", "said_from", "said_until", "ids", "axis", "within")
        given = [bounds.get(name) for name in names]
        lists = [json.dumps(value) if isinstance(value, list) else value for value in given]
        sql = "SELECT id, distance FROM vector_top('t', ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        found: Any = self.connection.execute(sql, (query.tobytes(), k, *lists, how))
        return list(found)

    def expected(self, query: Codes, k: int, **bounds: Any) -> Found:
        """The same by numpy."""
        fitting = {key: row.code for key, row in self.rows.items() if _fits(key, row, bounds)}
        most = np.float32(bounds.get("within") or np.inf)
        found = nearest(fitting, query, k)
        return found if most == np.inf else [one for one in found if one[1] is not None and one[1] <= most]


def _fits(row_id: int, row: Row, bounds: dict[str, Any]) -> bool:
    scopes, ids, axis = bounds.get("scopes"), bounds.get("ids"), bounds.get("axis")
    least, most = bounds.get("said_from"), bounds.get("said_until")
    return (
        (scopes is None or row.scope_id in scopes)
        and (ids is None or row_id in ids)
        and (axis is None or row.axis == axis)
        and (least is None or row.said_key >= least)
        and (most is None or row.said_key <= most)
    )


def connect(path: str = ":memory:") -> apsw.Connection:
    """A connection as memdb makes them, with memdb0; without it the test is skipped."""
    connection = apsw.Connection(path)
    harden(connection)
    load_vectors(connection)
    if not load_native(connection, True):
        pytest.skip(str(native(connection)))
    return connection


def kernels() -> list[str]:
    """The kernels of this processor."""
    with connect() as connection:
        fastest = str(connection.execute("SELECT memdb0_simd()").get)
    return list(dict.fromkeys(["scalar", *(["avx2"] if fastest == "avx512" else []), fastest]))


def nearest(codes: dict[int, Codes], query: Codes, k: int) -> Found:
    """(id, distance) of the k nearest; equal ones by id, and what has no length last, with distance NULL."""
    ids = np.array(list(codes), dtype=np.int64)
    if not len(ids):
        return []
    whole = np.stack([codes[one] for one in codes]).astype(np.int64)
    wanted = query.astype(np.int64)
    lengths = np.sqrt((whole**2).sum(1).astype(np.float64)) * np.sqrt(np.float64((wanted**2).sum()))
    with np.errstate(invalid="ignore"):
        distance = (1 - (whole @ wanted) / lengths).astype(np.float32)
    order = np.lexsort((ids, np.where(np.isnan(distance), np.inf, distance)))[:k]
    return [(int(ids[at]), None if np.isnan(distance[at]) else float(distance[at])) for at in order]


def clustered(rng: np.random.Generator, count: int, dimension: int, around: int = 20) -> Codes:
    """Vectors of length about 127 √d / 4.5, around some centres, as those of texts are."""
    centres = rng.standard_normal((around, dimension))
    vectors = centres[rng.integers(around, size=count)] * 0.8 + rng.standard_normal((count, dimension))
    vectors *= 127 * np.sqrt(dimension) / 4.5 / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.clip(np.rint(vectors), -127, 127).astype(np.int8)


def ids_of(found: Iterable[tuple[int, Any]]) -> list[int]:
    """Ids in order."""
    return [one for one, _ in found]


def uniform(rng: np.random.Generator, shape: Sequence[int]) -> Codes:
    """Every int8, -128 included."""
    return rng.integers(-128, 128, shape).astype(np.int8)

"""FTS5 tables to search by term_top, and what FTS5 itself finds in them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import apsw
import pytest

from memdb.activate.retrieve import match_expression
from memdb.store.extensions import load_native, native

Found: TypeAlias = list[tuple[int, float]]

TOKENIZE = "tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* M* N* Co'\""
COLUMNS = ("own", "question", "prompt", "context", "after")
AS_OURS = f"{', '.join(COLUMNS)}, content = '', contentless_delete = 1, {TOKENIZE}"


class Asked(NamedTuple):
    """A question to an index: any of `terms`, in `columns` or in all."""

    terms: Sequence[str]
    weights: Sequence[float] | None = None
    columns: Sequence[str] | None = None


def connect(path: str | Path = ":memory:") -> apsw.Connection:
    """A connection with memdb0; the test is skipped if it is not built."""
    connection = apsw.Connection(str(path))
    load_native(connection)
    require_native(connection)
    return connection


def require_native(connection: apsw.Connection) -> None:
    """Skip the test if memdb0 does not search on this connection."""
    if not native(connection):
        pytest.skip(str(native(connection)))


def make(connection: apsw.Connection, definition: str = AS_OURS, name: str = "t") -> None:
    """Create an FTS5 table."""
    connection.execute(f'CREATE VIRTUAL TABLE "{name}" USING fts5({definition})')


def by_fts5(connection: apsw.Connection, asked: Asked, most: int = -1, name: str = "t") -> Found:
    """What FTS5 finds, best first."""
    match = match_expression([term.replace('"', '""').replace("\0", " ") for term in asked.terms])
    if asked.columns is not None:
        match = f"{{{' '.join(asked.columns)}}} : ({match})"
    weights = "".join(f", {weight!r}" for weight in asked.weights or ())
    sql = (
        f'SELECT rowid, -bm25("{name}"{weights}) AS score FROM "{name}" WHERE "{name}" MATCH ?'
        " ORDER BY score DESC, rowid LIMIT ?"
    )
    return [(int(row), float(score)) for row, score in connection.execute(sql, (match, most))]


def by_term_top(connection: apsw.Connection, asked: Asked, most: int = -1, name: str = "t") -> Found:
    """What term_top finds, best first."""
    lists = [None if told is None else json.dumps(list(told)) for told in (asked.weights, asked.columns)]
    sql = "SELECT id, score FROM term_top(?, ?, ?, ?) ORDER BY score DESC, id LIMIT ?"
    rows = connection.execute(sql, (name, json.dumps(list(asked.terms)), *lists, most))
    return [(int(row), math.nan if score is None else float(score)) for row, score in rows]


def answers_as_fts5(connection: apsw.Connection, asked: Asked, name: str = "t") -> bool:
    """Whether both find the same rows, in one order, with scores that are equal to the last bit.

    What FTS5 refuses, term_top must refuse.
    """
    try:
        expected = by_fts5(connection, asked, name=name)
    except apsw.SQLError:
        with pytest.raises(apsw.SQLError):
            by_term_top(connection, asked, name=name)
        return True
    some = len(expected) // 2 + 1
    return (
        by_term_top(connection, asked, name=name) == expected
        and by_term_top(connection, asked, some, name) == expected[:some]
    )


def ran(connection: apsw.Connection, asked: Asked, name: str = "t") -> list[str]:
    """The statements that run on the connection while term_top answers."""
    statements: list[str] = []
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(str(event["sql"])))
    try:
        by_term_top(connection, asked, 10, name)
    finally:
        connection.trace_v2(0, None)
    return statements


def reads(connection: apsw.Connection, asked: Asked, name: str = "t") -> bool:
    """Whether term_top reads the index itself for this question, and does not let FTS5 answer."""
    return not any(" MATCH " in sql and "bm25" in sql for sql in ran(connection, asked, name))

"""1-bit codes of vectors, by which memdb0 searches a large table first (native/coded.c).

Beside a vec0 table T stands T_code(code_id, codes): of each vector one bit for each component, 1 where it is
more than 0, the first component in bit 7 of the first byte. vec0 keeps vectors in chunks of so many slots;
the codes of a chunk are cut into parts of equal length, as few as it takes for each to stay on a page, and
the codes of a part are in row chunk_id * 4096 + part. vec0 fills the slots of its last chunk only, and gives
no number of a chunk twice: a chunk that another one follows directly is filled no more, and only such chunks
have codes. Where codes are missing a search takes longer, and finds the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw
import numpy as np

CODED: Final = ("message_vector", "unit_vector", "label_vector")  # those that questions search
PART_BYTES: Final = 4_050  # what stays on a page of 4096 bytes, with its row's head
_STEP: Final = 4_096  # code_ids of a chunk
_MOST: Final = 64  # chunks that are coded by one call of `keep`: an older file catches up little by little


def keep(connection: apsw.Connection) -> bool:
    """Code the chunks that were filled since, inside the caller's transaction; whether there are more."""
    more = False
    for table in CODED:
        _make_table(connection, table)
        last = int(connection.execute(f"SELECT ifnull(max(chunk_id), 0) FROM {table}_chunks").get)
        connection.execute(f"DELETE FROM {table}_code WHERE code_id >= ?", (last * _STEP,))
        coded = _coded(connection, table)
        if last - 1 > coded:
            chunks = _filled(connection, table, coded, _MOST)
            _code(connection, table, chunks)
            more = more or len(chunks) == _MOST
    return more


def lacking(connection: apsw.Connection) -> bool:
    """Whether a chunk that is filled has no codes yet."""
    return any(_filled(connection, table, _coded(connection, table), 1) for table in CODED)


def renew(connection: apsw.Connection) -> None:
    """Code all chunks anew, inside the caller's transaction."""
    for table in CODED:
        _make_table(connection, table)
        connection.execute(f"DELETE FROM {table}_code")
        _code(connection, table, _filled(connection, table, 0, -1))


def repair(connection: apsw.Connection) -> None:
    """Code chunks anew if codes are wrong, and those that have none, inside the caller's transaction."""
    if next(wrong(connection), None) is not None:
        renew(connection)
    keep(connection)


def delete(connection: apsw.Connection, table: str, sql: str, rows: Sequence[int]) -> None:
    """Delete rows of a vec0 table by `sql`, which is given each row's id, and take away their codes."""
    kept = _places(connection, table, rows) if _has_table(connection, table) else []
    connection.executemany(sql, [(row,) for row in rows])
    for chunk in sorted({chunk for chunk, _ in kept}):
        there = connection.execute(f"SELECT count(*) FROM {table}_chunks WHERE chunk_id = ?", (chunk,)).get
        coded = f"SELECT count(*) FROM {table}_code WHERE code_id BETWEEN ? AND ?"
        span = (chunk * _STEP, chunk * _STEP + _STEP - 1)
        if connection.execute(coded, span).get:
            connection.execute(f"DELETE FROM {table}_code WHERE code_id BETWEEN ? AND ?", span)
            if there:
                _code(connection, table, [chunk])


def wrong(connection: apsw.Connection) -> Iterator[str]:
    """Codes that are not those of their vectors; those of a chunk that none follows are left over."""
    for table in CODED:
        if not _has_table(connection, table):
            continue
        sql = f"""
            SELECT chunk_id, json_group_array(code_id ORDER BY code_id) FROM {table}_code
            CROSS JOIN {table}_chunks ON chunk_id = code_id / {_STEP}
            WHERE chunk_id + 1 IN (SELECT chunk_id FROM {table}_chunks) GROUP BY chunk_id"""
        row: Any
        for row in connection.execute(sql):
            chunk, numbers = row[0], json.loads(row[1])
            right = dict(_parts(connection, table, chunk))
            for number in numbers:
                found = connection.execute(f"SELECT codes FROM {table}_code WHERE code_id = ?", (number,)).get
                if found != right.get(number):
                    yield f"{table}_code {number} does not hold the signs of its vectors"


def _coded(connection: apsw.Connection, table: str) -> int:
    """The last chunk that has codes."""
    if not _has_table(connection, table):
        return 0
    return int(connection.execute(f"SELECT ifnull(max(code_id), 0) FROM {table}_code").get) // _STEP


def _filled(connection: apsw.Connection, table: str, after: int, most: int) -> list[int]:
    """Chunks after one that are filled no more."""
    sql = f"""
        SELECT chunk_id FROM {table}_chunks AS filled
        WHERE chunk_id > ? AND EXISTS (SELECT 1 FROM {table}_chunks WHERE chunk_id = filled.chunk_id + 1)
        ORDER BY chunk_id LIMIT ?"""
    found: Any = connection.execute(sql, (after, most)).fetchall()
    return [chunk for (chunk,) in found]


def _code(connection: apsw.Connection, table: str, chunks: Sequence[int]) -> None:
    sql = f"INSERT INTO {table}_code (code_id, codes) VALUES (?, ?)"
    for chunk in chunks:
        connection.executemany(sql, _parts(connection, table, chunk))


def _parts(connection: apsw.Connection, table: str, chunk: int) -> list[tuple[int, bytes]]:
    """The codes of a chunk, (code_id, codes)."""
    row: Any = connection.execute(
        f"SELECT size, vectors FROM {table}_chunks JOIN {table}_vector_chunks00 AS held"
        " ON held._rowid_ = chunk_id WHERE chunk_id = ?",
        (chunk,),
    ).fetchone()
    if row is None or not 0 < row[0] <= _STEP or len(row[1]) % row[0]:
        raise apsw.CorruptError(f"{table} has no vectors of chunk {chunk}")
    size, vectors = row
    bits = np.packbits(np.frombuffer(vectors, np.int8).reshape(size, -1) > 0, axis=1)
    parts = -(-size // max(1, PART_BYTES // bits.shape[1]))
    slots = -(-size // parts)
    return [
        (chunk * _STEP + part, bits[first : first + slots].tobytes())
        for part, first in enumerate(range(0, size, slots))
    ]


def _places(connection: apsw.Connection, table: str, rows: Sequence[int]) -> list[tuple[int, int]]:
    """(chunk_id, slot) of rows."""
    sql = f"SELECT chunk_id, chunk_offset FROM {table}_rowids WHERE rowid IN (SELECT value FROM json_each(?))"
    found: Any = connection.execute(sql, (json.dumps(list(rows)),)).fetchall()
    return list(found)


def _make_table(connection: apsw.Connection, table: str) -> None:
    """Files of an earlier version have none."""
    if not _has_table(connection, table):
        connection.execute(declaration(table))


def declaration(table: str) -> str:
    """As in schema.sql."""
    columns = "  code_id INTEGER NOT NULL PRIMARY KEY,\n  codes   BLOB NOT NULL\n"
    return f"CREATE TABLE {table}_code (\n{columns}) STRICT"


def _has_table(connection: apsw.Connection, table: str) -> bool:
    sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return bool(connection.execute(sql, (f"{table}_code",)).get)

"""How many terms each row of the lexical indexes has, in blocks beside them, for ranking by memdb0.

FTS5 keeps a record for each row (`…_docsize`), and looking it up costs more than all else that BM25 asks of
a row. What is here is derived from those records, in the transaction that changes them. A stamp tells which
state of the index it is of: its rows, its tokens and the origin of its last rows, which FTS5 counts up with
each flush. A program that writes terms and knows nothing of this leaves a stamp that does not fit: then
memdb0 does without, and the next writer makes all blocks anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.store.statements import statement

BLOCK_ROWS: Final = 2_000
Index: TypeAlias = Literal["message_terms", "unit_terms"]

_STAMP_BLOCK = -1
_STAMP = struct.Struct("<qqq")
_HEAD = struct.Struct("<qq")  # rows and tokens of a block
_ANEW = 1 << 62  # an origin that no stamp is of
_MANY = 65_535  # stands for more tokens than 16 bits can tell


class Stamp(NamedTuple):
    """The state of an index that the blocks are of."""

    origin: int
    rows: int
    tokens: int


class _Sql(NamedTuple):
    state: str
    sizes: str
    blocks: str
    block: str
    put: str
    clear: str


class _Changes(msgspec.Struct):
    """What a transaction changed: blocks, and the origin of the first row it wrote, 0 if there is none."""

    first_origin: int = 0
    blocks: set[int] = msgspec.field(default_factory=set)


_SQL: Final[dict[Index, _Sql]] = {
    "message_terms": _Sql(
        "message_term_state", "message_term_sizes", "message_length_blocks", "message_length_block",
        "put_message_length_block", "clear_message_lengths",
    ),
    "unit_terms": _Sql(
        "unit_term_state", "unit_term_sizes", "unit_length_blocks", "unit_length_block",
        "put_unit_length_block", "clear_unit_lengths",
    ),
}  # fmt: skip
_changed: WeakKeyDictionary[apsw.Connection, dict[Index, _Changes]] = WeakKeyDictionary()


def changed(connection: apsw.Connection, index: Index, row: int) -> None:
    """A row's terms were written or deleted: `settle` has to look at its block."""
    changes = _changed.setdefault(connection, {}).setdefault(index, _Changes())
    changes.blocks.add(row // BLOCK_ROWS)
    if not changes.first_origin:
        for _, _, origin in connection.execute(statement(_SQL[index].sizes), (row, row)):
            changes.first_origin = int(origin)


def complete(connection: apsw.Connection) -> None:
    """Let `settle` make all blocks of an index whose blocks are of another state, or that has none."""
    for index in lacking(connection):
        _changed.setdefault(connection, {})[index] = _Changes(first_origin=_ANEW)


def lacking(connection: apsw.Connection) -> list[Index]:
    """The indexes whose blocks are of another state, or that have none."""
    known = connection.execute(statement("has_term_lengths")).get
    found: list[Index] = []
    for index, sql in _SQL.items():
        stamp = read_stamp(connection, index) if known else None
        state: Any = connection.execute(statement(sql.state)).fetchone()
        if state[0] and (stamp is None or stamp.rows != state[0] or stamp.origin < state[1]):
            found.append(index)
    return found


def forget(connection: apsw.Connection) -> None:
    """The transaction was rolled back."""
    _changed.pop(connection, None)


def settle(connection: apsw.Connection) -> None:
    """Bring the blocks up to date with what this transaction changed; to be called before it is committed."""
    changes = _changed.pop(connection, None)
    if not changes:
        return
    if not connection.execute(statement("has_term_lengths")).get:
        connection.execute(statement("create_term_lengths"))
    for index, one in changes.items():
        stamp = read_stamp(connection, index)
        if stamp is None or one.first_origin > stamp.origin + 1:
            connection.execute(statement(_SQL[index].clear))
            stamp = Stamp(0, 0, 0)
            found: Any = connection.execute(statement(_SQL[index].blocks), (BLOCK_ROWS,)).fetchall()
            blocks = [block for (block,) in found]
        else:
            blocks = sorted(one.blocks)
        for block in blocks:
            stamp = _write(connection, index, block, stamp)
        connection.execute(statement(_SQL[index].put), (_STAMP_BLOCK, _STAMP.pack(*stamp)))


def read_stamp(connection: apsw.Connection, index: Index) -> Stamp | None:
    """The state of the index that its blocks are of, if there are any."""
    found = connection.execute(statement(_SQL[index].block), (_STAMP_BLOCK,)).get
    return Stamp(*_STAMP.unpack(found)) if isinstance(found, bytes) and len(found) == _STAMP.size else None


def wrong(connection: apsw.Connection) -> Iterator[str]:
    """Blocks that tell other lengths than FTS5 does, though their stamp fits the index."""
    if not connection.execute(statement("has_term_lengths")).get:
        return
    for index, sql in _SQL.items():
        stamp = read_stamp(connection, index)
        derived = Stamp(0, 0, 0)
        differ = []
        blocks: Any = connection.execute(statement(sql.blocks), (BLOCK_ROWS,)).fetchall()
        for (block,) in blocks:
            right, (origin, rows, tokens) = _derive(connection, index, block)
            derived = Stamp(max(derived.origin, origin), derived.rows + rows, derived.tokens + tokens)
            if connection.execute(statement(sql.block), (block,)).get != right:
                differ.append(block)
        if stamp is not None and stamp.origin >= derived.origin and stamp[1:] == derived[1:]:
            yield from (f"block {block} of {index}_length differs from what FTS5 counts" for block in differ)


def _write(connection: apsw.Connection, index: Index, block: int, stamp: Stamp) -> Stamp:
    """Derive a block again; the stamp with it in place of what it was."""
    found = connection.execute(statement(_SQL[index].block), (block,)).get
    old = _HEAD.unpack_from(found) if isinstance(found, bytes) and len(found) >= _HEAD.size else (0, 0)
    right, (origin, rows, tokens) = _derive(connection, index, block)
    connection.execute(statement(_SQL[index].put), (block, right))
    return Stamp(max(stamp.origin, origin), stamp.rows + rows - old[0], stamp.tokens + tokens - old[1])


def _derive(connection: apsw.Connection, index: Index, block: int) -> tuple[bytes, Stamp]:
    """A block as FTS5's own records have it: head, then 1 + the tokens of each row, 0 where there is none."""
    first = block * BLOCK_ROWS
    sql = statement(_SQL[index].sizes)
    found: Any = connection.execute(sql, (first, first + BLOCK_ROWS - 1)).fetchall()
    lengths = np.zeros(BLOCK_ROWS, "<u2")
    tokens = _totals([size for _, size, _ in found])
    lengths[[row - first for row, _, _ in found]] = np.minimum(tokens + 1, _MANY)
    stamp = Stamp(max((origin for _, _, origin in found), default=0), len(found), int(tokens.sum()))
    return _HEAD.pack(*stamp[1:]) + lengths.tobytes(), stamp


def _totals(sizes: list[bytes]) -> NDArray[np.int64]:
    """The sums of the varints in each of `sizes`, big-endian in groups of seven bits."""
    joined = b"".join(sizes)
    if sizes and joined.isascii() and all(sizes):  # each is of one byte
        starts = np.cumsum([0, *map(len, sizes[:-1])])
        return np.add.reduceat(np.frombuffer(joined, np.uint8), starts, dtype=np.int64)
    totals = np.zeros(len(sizes), np.int64)
    for n, size in enumerate(sizes):
        if max(size, default=0) < 0x80:
            totals[n] = sum(size)
            continue
        value = 0
        for byte in size:
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                totals[n] += value
                value = 0
    return totals

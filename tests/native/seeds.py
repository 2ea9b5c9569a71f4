"""Seeds for the programs of native/fuzz, from real tables: python -m tests.native.seeds FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import apsw

from tests.native.terms import make
from tests.native.test_lexical_damage import KINDS

SEGMENT = 1 << 37
TOMBSTONES = 65536
TYPES = {str: 0, bytes: 1, int: 2, float: 3, type(None): 4}
CALLS: list[tuple[int, list[str | bytes | int | None]]] = [
    (0, [bytes(23) + b"\x07", 9, "[1, 2]", 3, 40, "[1, 9, 20, 33]", "entity_names", None, "exact scalar"]),
    (1, ["1", None, None, "[]", "entity_names"]),
    (1, [None, None, None, None, "e\0tity_names", 2, "coded"]),
    (2, ["t", bytes(24), 5]),
    (3, [bytes(24), 2, b"".join(n.to_bytes(8, "little") + bytes(6) + b"\xf0\x3f" for n in (1, 5, 200))]),
    (4, [None]),
    (5, [1, 2, 3, 1]),
    (6, ['["cat", "dog\\u0000s"]', "[1.0, 0.5]", '["own", "after"]']),
    (7, ["f", '["cat dog", "bird"]']),
]
"""Calls of fuzz_arguments: the number of each, and its arguments."""
CHANGES = [
    b"",
    b"\x00\x03\x02\x00\x01",
    b"\x01\x02\x04abcd",
    b"\x05\x02\x03abc",
    b"\x0b\x04\x04\x0b\x00\x00\x00",
    b"\x0d\x03\x01\x20",
    b"\x10\x02\x02\xff\x00",
    b"\x13\x00\x01\x19",
]
"""Inputs of fuzz_scan."""


def _row(kind: int, first: int, second: int, value: bytes) -> bytes:
    """A shadow row, as fuzz_index reads it."""
    return bytes([kind, first, second]) + len(value).to_bytes(2, "big") + value


def _shadow_rows(connection: apsw.Connection) -> Iterator[bytes]:
    for row, block in connection.execute("SELECT id, block FROM t_data ORDER BY id"):
        segment, page = divmod(row, SEGMENT)
        match row:
            case 10:
                yield _row(0, 0, 0, block)
            case 1:
                yield _row(1, 0, 0, block)
            case _:
                yield _row(3 if segment >= TOMBSTONES else 2, segment % TOMBSTONES, page, block)
    for row, size in connection.execute("SELECT id, sz FROM t_docsize"):
        yield _row(4, *divmod(row, 256), size)
    for segment, term, page in connection.execute("SELECT segid, term, pgno FROM t_idx"):
        yield _row(5, segment, page, term.encode() if isinstance(term, str) else term)


def _index(kind: str, rows: int, page_bytes: int, delete: int) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    make(connection, KINDS[kind])
    connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', ?)", (page_bytes,))
    for start in range(1, rows, rows // 3):
        with connection:
            for row in range(start, start + rows // 3):
                texts = (f"always w{row % 5}", f"w{row % 7} w1", "", "w2", "w2 w9" if row % 3 else "")
                connection.execute(
                    "INSERT INTO t (rowid, own, question, prompt, context, after) VALUES (?, ?, ?, ?, ?, ?)",
                    (row, *texts),
                )
    if delete:
        connection.execute("DELETE FROM t WHERE rowid % ? = 0", (delete,))
    return connection


def indexes() -> Iterator[bytes]:
    """Inputs of fuzz_index."""
    for kind in KINDS:
        for rows, page_bytes, delete in ((12, 64, 5), (60, 64, 0), (30, 1000, 4)):
            yield b"".join(_shadow_rows(_index(kind, rows, page_bytes, delete)))
    plain = _index("ours", 30, 100, 0)
    count, tokens = 30, sum(sum(size) for (size,) in plain.execute("SELECT sz FROM t_docsize"))
    stamp = b"".join(number.to_bytes(8, "little") for number in (99, count, tokens))
    lengths = _row(6, 0, 255, stamp) + _row(7, 0, 0, bytes(16) + b"\x08\x00" * (count + 1))
    yield b"".join(_shadow_rows(plain)) + lengths


def records() -> Iterator[bytes]:
    """Inputs of fuzz_lexical: each record by itself, and leaves behind the term looked for."""
    for kind in KINDS:
        connection = _index(kind, 60, 64, 5)
        structure = connection.execute("SELECT block FROM t_data WHERE id = 10").get
        yield b"\x00" + structure
        yield b"\x01" + connection.execute("SELECT sz FROM t_docsize LIMIT 1").get
        for (block,) in connection.execute(
            f"SELECT block FROM t_data WHERE id > {TOMBSTONES * SEGMENT} LIMIT 1"
        ):
            yield b"\x02" + block
        (first,) = connection.execute("SELECT min(segid) FROM t_idx").fetchone()
        found = connection.execute(
            "SELECT block FROM t_data WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 20",
            (first * SEGMENT + 1, (first + 1) * SEGMENT - 1),
        ).fetchall()
        leaves = b"".join(len(block).to_bytes(2, "big") + block for (block,) in found)
        for term, columns in ((b"0always", 5), (b"0alway", 5), (b"0w1", 2), (b"0alway", 0x85)):
            yield b"\x03" + bytes([len(term), columns]) + term + leaves


def arguments() -> Iterator[bytes]:
    """Inputs of fuzz_arguments."""
    for call, values in CALLS:
        parts = [bytes([call])]
        for value in values:
            data = {str: lambda v: v.encode(), int: lambda v: v.to_bytes(8, "little", signed=True)}.get(
                type(value), lambda v: v or b""
            )(value)
            parts.append(bytes([TYPES[type(value)], len(data)]) + data)
        yield b"".join(parts)


SEEDS = {
    "fuzz_index": indexes,
    "fuzz_lexical": records,
    "fuzz_arguments": arguments,
    "fuzz_scan": lambda: iter(CHANGES),
}


def write(folder: Path) -> None:
    """Write the seeds of each program into a folder of its name."""
    for name, seeds in SEEDS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (folder / name / f"seed_{number:02}").write_bytes(seed)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""Damaged records of an index: an error or some rows, and never a crash, whatever the bytes say."""

from __future__ import annotations

import random

import apsw
import pytest

from tests.native.terms import AS_OURS, COLUMNS, TOKENIZE, Asked, by_fts5, by_term_top, connect, make

KINDS = {"ours": AS_OURS, "with its text": f"{', '.join(COLUMNS)}, {TOKENIZE}"}
RECORDS = {
    "structure": "SELECT 10",
    "averages": "SELECT 1",
    "leaf": "SELECT id FROM t_data WHERE id > 1 << 37 AND id < 1 << 53",
    "tombstones": "SELECT id FROM t_data WHERE id > 1 << 53",
}
ASKED = [
    Asked(["always", "w3", "w150"]),
    Asked(["w1", "w9"], [0.5], COLUMNS[:4]),
    Asked(["w2"], None, ["after"]),
]
ROUNDS = 150


def build(kind: str) -> bytes:
    """A database with several segments, rows replaced and deleted, leaves of 100 bytes."""
    connection = connect()
    make(connection, KINDS[kind])
    connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', 100), ('deletemerge', 0), ('automerge', 8)")
    dice = random.Random(3)
    for start in range(1, 700, 70):
        with connection:
            for row in range(max(1, start - 9), start + 70):
                fields = [
                    " ".join(f"w{int(200 ** dice.random())}" for _ in range(dice.randrange(5)))
                    for _ in COLUMNS
                ]
                connection.execute(
                    "INSERT OR REPLACE INTO t (rowid, own, question, prompt, context, after)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (row, f"always {fields[0]}", *fields[1:]),
                )
    connection.execute("DELETE FROM t WHERE rowid % 50 = 0")
    return connection.serialize("main")


def spoil(dice: random.Random, block: bytes) -> bytes:
    """Cut, lengthened, or with some bytes changed."""
    spoiled = bytearray(block)
    match dice.randrange(4):
        case 0:
            return bytes(spoiled[: dice.randrange(len(spoiled) + 1)])
        case 1:
            return bytes(spoiled) + dice.randbytes(dice.randrange(1, 60))
        case _:
            for _ in range(dice.choice([1, 1, 1, 3, 12])):
                if spoiled:
                    spoiled[dice.randrange(len(spoiled))] = dice.choice(
                        [0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)]
                    )
            return bytes(spoiled)


def ask_all(connection: apsw.Connection) -> bool:
    """Whether all questions were answered; others end in an error of SQLite."""
    answered = True
    for asked in ASKED:
        try:
            by_term_top(connection, asked)
        except apsw.Error:
            answered = False
    return answered


def opened(file: bytes) -> apsw.Connection:
    connection = connect()
    connection.deserialize("main", file)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    return connection


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("record", RECORDS)
def test_damaged_records(kind: str, record: str) -> None:
    file = build(kind)
    ids = [row for (row,) in opened(file).execute(RECORDS[record])]
    if kind != "ours" and record == "tombstones":
        assert not ids
        return
    answered = set()
    for seed in range(ROUNDS):
        dice = random.Random(seed)
        connection = opened(file)
        row = dice.choice(ids)
        block = connection.execute("SELECT block FROM t_data WHERE id = ?", (row,)).get
        connection.execute("UPDATE t_data SET block = ? WHERE id = ?", (spoil(dice, block), row))
        answered.add(ask_all(connection))
        connection.close()
    assert False in answered, "some damage is seen"


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM t_data WHERE id = (SELECT max(id) FROM t_data WHERE id > 1 << 37 AND id < 1 << 53)",
        "DELETE FROM t_data WHERE id >= 1 << 53",
        "DELETE FROM t_data WHERE id = 10",
        "DELETE FROM t_docsize",
        "UPDATE t_docsize SET sz = NULL",
        "UPDATE t_docsize SET sz = zeroblob(40)",
        "UPDATE t_docsize SET sz = x'8080808080808080ff'",
        "UPDATE t_docsize SET sz = x'ffffffffffffffffff01010101'",
        "UPDATE t_data SET block = NULL WHERE id > 10",
        "UPDATE t_data SET block = 7 WHERE id > 10",
        "UPDATE t_data SET block = x'' WHERE id > 10",
        "UPDATE t_data SET block = x'00000004' WHERE id > 10",
        "UPDATE t_data SET block = x'0000000404' WHERE id > 10",
        "UPDATE t_data SET block = x'0004ffff' WHERE id > 10",
        "UPDATE t_data SET block = zeroblob(1000000) WHERE id = 10",
        "UPDATE t_idx SET pgno = pgno + 40",
        "UPDATE t_idx SET pgno = -7",
        "UPDATE t_idx SET pgno = 1 << 62",
        "UPDATE t_idx SET pgno = 'x'",
        "UPDATE t_config SET v = 99 WHERE k = 'version'",
        "DROP TABLE t_docsize",
        "DROP TABLE t_idx",
        "DROP TABLE t_config",
    ],
)
def test_records_of_another_kind(change: str) -> None:
    connection = opened(build("ours"))
    connection.execute(change)
    ask_all(connection)
    connection.close()


def test_a_doclist_without_end_is_damage() -> None:
    """A leaf that is repeated all over a segment: rows would go on for ever."""
    connection = opened(build("ours"))
    connection.execute("INSERT INTO t(t) VALUES ('optimize')")
    leaves = connection.execute("SELECT id, block FROM t_data WHERE id > 1 << 37 AND id < 1 << 53").fetchall()
    connection.execute(
        "UPDATE t_data SET block = ? WHERE id BETWEEN ? AND ?", (leaves[1][1], leaves[1][0], leaves[-1][0])
    )
    with pytest.raises(apsw.CorruptError, match="the index t is damaged"):
        by_term_top(connection, Asked(["always"]))


@pytest.mark.parametrize("column", ["block", "block TEXT", "block TEXT COLLATE NOCASE", "block REAL"])
@pytest.mark.parametrize("place", range(0, 8_000, 1_984))
def test_lengths_of_blocks_that_are_no_numbers(column: str, place: int) -> None:
    """As texts numbers have another order: a block far away must not be written beside the room."""
    connection = connect()
    make(connection, "own, content = '', contentless_delete = 1")
    with connection:
        for row in range(1, 201):
            connection.execute("INSERT INTO t (rowid, own) VALUES (?, 'cat')", (row,))
    connection.execute(f"CREATE TABLE t_length ({column}, lengths)")
    far = place // 16 * pow(125, -1, 1 << 60) % (1 << 60)  # far * 2000 is `place` in 64 bits
    stamp = b"".join(number.to_bytes(8, "little") for number in (9, 200, 200))
    records = [("-1", stamp), *((f"{zeros}{far}", bytes(16 + 4_000)) for zeros in ("", "0", "00"))]
    connection.executemany("INSERT INTO t_length VALUES (?, ?)", records)
    asked = Asked(["cat"])
    assert by_term_top(connection, asked) == by_fts5(connection, asked)

"""The lengths beside the lexical indexes: those that FTS5 keeps, or known to be of another state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb import Message
from memdb.store import derived, indexes, lengths
from memdb.store.connection import Database
from memdb.store.lengths import BLOCK_ROWS
from memdb.store.statements import statement
from tests.conftest import OpenMemory

FIELDS = dict.fromkeys(("own", "question", "prompt", "context", "after"), "")


@pytest.fixture
def database(memory: memdb.Memory) -> Database:
    return memory._database


def put(connection: apsw.Connection, row: int, words: int, after: int = 0) -> None:
    fields = FIELDS | {"own": "word " * words, "after": "more " * after}
    indexes.put_message_terms(connection, row, fields)


def told(connection: apsw.Connection) -> dict[int, int]:
    """Terms by row, as the blocks tell them."""
    found = {}
    for block, data in connection.execute("SELECT block, lengths FROM message_terms_length WHERE block >= 0"):
        codes = np.frombuffer(data, "<u2", offset=16)
        assert len(codes) == BLOCK_ROWS
        found |= {int(block) * BLOCK_ROWS + int(n): int(codes[n]) - 1 for n in np.flatnonzero(codes)}
    return found


def fits(connection: apsw.Connection) -> bool:
    """Whether the stamp is of the index as it is."""
    sizes = connection.execute(statement("message_term_sizes"), (0, 1 << 62)).fetchall()
    stamp = lengths.read_stamp(connection, "message_terms")
    origin = max((row[2] for row in sizes), default=0)
    tokens = int(lengths._totals([row[1] for row in sizes]).sum())
    return stamp is not None and stamp.origin >= origin and stamp[1:] == (len(sizes), tokens)


@contextlib.contextmanager
def unaware(database: Database) -> Iterator[apsw.Connection]:
    """A program that writes terms and knows nothing of lengths."""
    with contextlib.closing(apsw.Connection(str(database.path))) as connection, connection:
        yield connection


def test_rows_of_several_blocks(database: Database) -> None:
    """[F-070] [F-071]"""
    rows = {1: 3, 2: 0, BLOCK_ROWS - 1: 130, BLOCK_ROWS: 7, 9 * BLOCK_ROWS + 5: 70_000}
    with database.atomic() as connection:
        for row, words in rows.items():
            put(connection, row, words, after=words // 2)
    with database.reader() as connection:
        wanted = {row: min(words + words // 2, 65_534) for row, words in rows.items()}
        assert told(connection) == wanted
        assert fits(connection)
        assert list(lengths.wrong(connection)) == []


def test_rows_that_are_replaced_and_deleted(database: Database) -> None:
    for row, words in ((1, 3), (2, 5), (1, 65_536), (1, 4), (5_000, 2)):
        with database.atomic() as connection:
            put(connection, row, words)
    with database.atomic() as connection:
        connection.execute("DELETE FROM message_terms WHERE rowid = 2")
        lengths.changed(connection, "message_terms", 2)
    with database.reader() as connection:
        assert told(connection) == {1: 4, 5_000: 2}
        assert fits(connection)


def test_a_transaction_that_is_rolled_back(database: Database) -> None:
    with database.atomic() as connection:
        put(connection, 1, 3)
    with contextlib.suppress(KeyError), database.atomic() as connection:
        put(connection, 1, 5)
        raise KeyError
    with database.atomic() as connection:
        put(connection, 2, 4)
    with database.reader() as connection:
        assert told(connection) == {1: 3, 2: 4}
        assert fits(connection)


def test_a_writer_that_knows_nothing_of_lengths(database: Database) -> None:
    """[F-071] What it wrote, even with as many terms as before, is noticed, and put right by the next one."""
    with database.atomic() as connection:
        put(connection, 1, 3)
        put(connection, 4_000, 5)
    with unaware(database) as connection:
        for row, words in ((1, 5), (4_000, 3)):
            connection.execute(
                statement("put_message_terms"), {"message_id": row, **FIELDS, "own": "x " * words}
            )
    with database.reader() as connection:
        assert told(connection) == {1: 3, 4_000: 5}
        assert not fits(connection)
        assert list(lengths.wrong(connection)) == [], "it is of another state, and not used"
    with database.atomic() as connection:
        put(connection, 9_000, 1)
    with database.reader() as connection:
        assert told(connection) == {1: 5, 4_000: 3, 9_000: 1}
        assert fits(connection)


def test_a_file_of_an_earlier_version(database: Database) -> None:
    """[F-004] It has no lengths; the first writer makes them for all rows."""
    with unaware(database) as connection:
        for row in range(1, 5_000, 700):
            connection.execute(
                statement("put_message_terms"), {"message_id": row, **FIELDS, "own": "x " * row}
            )
    with database.reader() as connection:
        assert not connection.execute(statement("has_term_lengths")).get
        assert list(lengths.wrong(connection)) == []
    with database.atomic() as connection:
        put(connection, 2, 4)
    with database.reader() as connection:
        assert told(connection) == {row: row for row in range(1, 5_000, 700)} | {2: 4}
        assert fits(connection)


def test_lengths_are_made_without_a_write(database: Database) -> None:
    """[F-004] [F-071] Where there are none, and where they are of another state, even of as many rows."""
    derived.complete(database)
    with database.reader() as connection:
        assert not connection.execute(statement("has_term_lengths")).get, "an empty index needs none"
    for words in (3, 5):
        with unaware(database) as connection:
            connection.execute(
                statement("put_message_terms"), {"message_id": 1, **FIELDS, "own": "x " * words}
            )
        derived.complete(database)
        with database.reader() as connection:
            assert told(connection) == {1: words}
            assert fits(connection)


def test_lengths_that_fit_are_left_alone(database: Database) -> None:
    with database.atomic() as connection:
        put(connection, 1, 3)
    with database.atomic() as connection:
        connection.execute("UPDATE message_terms_length SET lengths = zeroblob(4016) WHERE block = 0")
    derived.complete(database)
    with database.reader() as connection:
        assert told(connection) == {}


def test_messages_and_claims(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    """Whatever adds and replaces them: the stamps fit, and the file with these tables is one of ours."""
    for day in range(1, 4):
        memory.add([Message("Ana", f"I moved to Oslo on day {n}.", f"2024-03-{day:02}") for n in range(day)])
    assert memory.verify().problems == ()
    with memory._database.reader() as connection:
        assert fits(connection)
        assert lengths.read_stamp(connection, "unit_terms") is not None
    memory.close()
    assert open_memory().verify().problems == ()


def test_a_block_that_is_wrong_is_found(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "I moved to Oslo.", "2024-03-01")])
    with memory._database.atomic() as connection:
        connection.execute("UPDATE message_terms_length SET lengths = zeroblob(4016) WHERE block = 0")
    problems = memory.verify().problems
    assert [problem.check for problem in problems] == ["term_lengths"]
    assert "block 0 of message_terms_length" in problems[0].detail


@given(st.lists(st.lists(st.integers(0, 1 << 40) | st.integers(0, 127), max_size=5)))
def test_sums_of_varints(sizes: list[list[int]]) -> None:
    def varint(value: int) -> bytes:
        groups = [value & 127]
        while value := value >> 7:
            groups.append(value & 127 | 128)
        return bytes(reversed(groups))

    told = lengths._totals([b"".join(map(varint, values)) for values in sizes])
    assert told.tolist() == [sum(values) for values in sizes]

"""The format: its marks, its comments, and the rows it refuses."""

from __future__ import annotations

import re

import apsw
import pytest

import memdb
from memdb.records import Message
from memdb.store import schema

TABLE = re.compile(r"^CREATE (?:VIRTUAL )?TABLE (\w+)", re.MULTILINE)


def test_marks_of_the_file(memory: memdb.Memory) -> None:
    memory.close()
    head = memory.path.read_bytes()[:100]
    assert head[:16] == b"SQLite format 3\x00"
    assert head[68:72] == b"memd"
    assert int.from_bytes(head[60:64]) == schema.FORMAT == 1


def test_every_table_says_what_it_is_for() -> None:
    lines = schema.schema_sql().splitlines()
    heads = {found[1]: lines[n - 1] for n, line in enumerate(lines) if (found := TABLE.match(line))}
    assert len(heads) > 15
    bare = {name for name, before in heads.items() if not before.startswith("-- ")}
    assert bare <= GROUPED


# Tables that the comment above the table before them explains too.
GROUPED = {"unit_terms", "unit_vector", "triple_vector", "label_vector", "segment_vector", "unit_label"}
GROUPED |= {"unit_vector_code", "label_vector_code"}


def test_every_plain_table_is_strict(memory: memdb.Memory) -> None:
    with memory._database.reader() as connection:
        names = set(TABLE.findall(schema.schema_sql()))
        kinds = {
            name: (kind, strict)
            for _, name, kind, _, _, strict in connection.execute("PRAGMA table_list")
            if name in names
        }
    assert kinds.keys() == names
    assert {name for name, (kind, strict) in kinds.items() if kind == "table" and not strict} == set()


def test_a_fresh_file_proves_itself(memory: memdb.Memory) -> None:
    verification = memory.verify()
    assert verification.problems == ()
    assert set(verification.counts.values()) == {0}


def test_the_schema_is_what_the_file_holds(memory: memdb.Memory) -> None:
    with memory._database.reader() as connection:
        assert schema.foreign_objects(connection) == []
        assert schema.migrate(connection) == 0
        assert not schema.is_empty(connection)


MESSAGE = (
    "INSERT INTO message (scope_id, session_id, position, speaker, content{}) VALUES (1, 1, 2, 'Ana', 'x'{})"
)
REFUSED = {
    "a session of no scope": "INSERT INTO session (scope_id, name) VALUES (9, 'x')",
    "a session without a name": "INSERT INTO session (scope_id, name) VALUES (1, '')",
    "a session twice": "INSERT INTO session (scope_id, name) VALUES (1, 's')",
    "a scope twice": "INSERT INTO scope (user) VALUES (NULL)",
    "an empty user": "INSERT INTO scope (user) VALUES ('')",
    "a message of no session": (
        "INSERT INTO message (scope_id, session_id, position, speaker, content) VALUES (1, 9, 0, 'A', 'x')"
    ),
    "a message of another scope": (
        "INSERT INTO message (scope_id, session_id, position, speaker, content) VALUES (2, 1, 2, 'A', 'x')"
    ),
    "a message at a place that is taken": "UPDATE message SET position = 0 WHERE position = 1",
    "a message before the first": "UPDATE message SET position = -1 WHERE position = 1",
    "an id twice": "UPDATE message SET external_id = 'a'",
    "an empty id": "UPDATE message SET external_id = ''",
    "content that is no text": MESSAGE.format("", "").replace("'x'", "x'00'"),
    "no content": MESSAGE.format("", "").replace("'x'", "NULL"),
    "a day without a moment": MESSAGE.format(", said_day, said_text", ", 1, 'x'"),
    "a moment without its text": MESSAGE.format(", said_day, said_utc_us", ", 1, 1"),
    "a day and a serial number": MESSAGE.format(
        ", said_day, said_utc_us, said_serial, said_text", ", 1, 1, 1, 'x'"
    ),
    "a text without its moment": MESSAGE.format(", said_text", ", 'x'"),
    "an offset of more than a day": MESSAGE.format(
        ", said_day, said_utc_us, said_text, said_offset_min", ", 1, 1, 'x', 1441"
    ),
    "an offset without a moment": MESSAGE.format(", said_serial, said_text, said_offset_min", ", 1, 'x', 60"),
    "a negative serial number": MESSAGE.format(", said_serial, said_text", ", -1, 'x'"),
    "a speaker of no messages": "INSERT INTO speaker VALUES (1, 'Zoe', 0)",
    "a window of an unknown state": "UPDATE window SET state = 'maybe'",
    "a window that ends before it begins": "UPDATE window SET end_position = 0",
    "a window of no session": "UPDATE window SET session_id = 9",
    "a unit without a claim": "UPDATE unit SET fact_text = ''",
    "a unit of no message": "UPDATE unit SET message_id = 99",
    "a unit that ends before it begins": "UPDATE unit SET first_position = 1, last_position = 0",
    "a unit on a message that is not there": "UPDATE unit SET last_position = 99",
    "half a triple": "UPDATE unit SET subject = NULL",
    "an interval of an unknown granularity": "INSERT INTO unit_interval VALUES (1, 1, 2, 'decade')",
    "an interval that ends before it begins": "INSERT INTO unit_interval VALUES (1, 2, 1, 'day')",
    "an interval of no unit": "INSERT INTO unit_interval VALUES (99, 1, 2, 'day')",
    "a label on an unknown axis": "INSERT INTO label (axis, name, folded) VALUES ('mood', 'x', 'x')",
    "an empty label": "INSERT INTO label (axis, name, folded) VALUES ('entity', '', '')",
    "a label twice": "INSERT INTO label (axis, name, folded) SELECT axis, name, folded FROM label",
    "a label of no unit": "INSERT INTO unit_label VALUES (1, 99)",
    "two current members": (
        "INSERT INTO trace VALUES (1, 1, 'r', 't', 'm', 0); INSERT INTO trace_unit VALUES (1, 0, 1, 1), "
        "(1, 1, 2, 1)"
    ),
    "a segment that links to none": "INSERT INTO segment VALUES (1, 1, 1, 0, 0, 1, 5, 1)",
    "a segment linked to itself": (
        "INSERT INTO segment VALUES (1, 1, 1, 0, 0, 1, 1, 1); INSERT INTO segment_link VALUES (1, 1, .5)"
    ),
    "a rejection of no window": (
        "INSERT INTO rejection (session_id, window_no, stage, reason) VALUES (1, 9, 'units', 'x')"
    ),
}


@pytest.fixture
def filled(memory: memdb.Memory) -> memdb.Memory:
    said = [
        Message("Ana", "My cat is called Pepper.", id="a"),
        Message("Ana", "My dog is called Salt.", id="b"),
    ]
    assert memory.add(said, session="s").units == 2
    return memory


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED)
def test_rows_that_the_schema_refuses(filled: memdb.Memory, sql: str) -> None:
    with filled._database.writer_setup() as writer, pytest.raises(apsw.ConstraintError):  # noqa: PT012
        writer.execute("BEGIN")
        try:
            writer.execute(sql)
            writer.execute("COMMIT")
        finally:
            writer.execute("ROLLBACK")


def test_a_row_that_the_schema_takes(filled: memdb.Memory) -> None:
    """That the refusals above are not for some other reason."""
    with filled._database.writer_setup() as writer:
        writer.execute(MESSAGE.format(", said_day, said_utc_us, said_text", ", 1, 1, 'x'"))

"""Each check finds the one thing that was broken, and says where."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Scope
from memdb.store import connection as connections
from memdb.store import verify
from memdb.store.statements import statement
from tests.conftest import OpenMemory

SAID = [
    Message("Ana", "My cat Pepper is from Porto. Do you have a cat?", "2023-05-07"),
    Message("Ben", "I went to Rome yesterday.", "2023-05-08"),
    *(Message("Ana", f"I bought lamp {n} on {n + 1} May 2023.", "serial-7") for n in range(7)),
]
TRACE = "INSERT INTO trace VALUES (1, 1, 'r', 't', 'm', 0); INSERT INTO trace_unit VALUES {}"
STAGED = statement("create_staged_vector")
STAGED_BY = "INSERT INTO meta VALUES ('staged_encoder_sha256', 'abc')"
STAGE = "INSERT INTO staged_vector VALUES ('{}', {}, {})"
SETTING = "UPDATE meta SET value = replace(value, {}) WHERE key = 'settings'"
CODE_OF = "(SELECT own FROM message_vector WHERE message_id = {})"
CODE = "(SELECT own FROM message_vector LIMIT 1)"

# the check that must speak, what breaks it, what it must mention
BROKEN = [
    ("message_positions", "UPDATE message SET position = 100 WHERE position = 8", "0 to 100 for 9"),
    ("message_terms", "DELETE FROM message_terms WHERE rowid = 3", "3 is in one"),
    ("message_terms", "INSERT INTO message_terms (rowid, own) VALUES (77, 'x')", "77 is in one"),
    (
        "message_terms",
        "UPDATE message SET content = 'My cat Pepper is from Rome. Do you have a cat?' WHERE message_id = 1",
        "other terms",
    ),
    (
        "message_terms",
        "UPDATE message SET speaker = 'Anna' WHERE message_id = 5",
        "5 is indexed by other terms",
    ),
    (
        "message_terms",
        "UPDATE message SET said_day = 19500, said_utc_us = 19500 * 86400000000 WHERE message_id = 1",
        "1 is indexed by other terms",
    ),
    (
        "message_terms",
        "INSERT OR REPLACE INTO message_terms (rowid, own, question, prompt, context, after) VALUES (4, "
        "'ana i bought lamp 2 on 3 may 2023', '', '', '', '')",
        "4 is indexed by other terms",
    ),
    ("unit_terms", "DELETE FROM unit_terms WHERE rowid = 2", "2 is in one"),
    ("unit_terms", "INSERT INTO unit_terms (rowid, fact) VALUES (77, 'x')", "77 is in one"),
    ("message_vectors", "UPDATE message_vector SET scope_id = 5 WHERE message_id = 2", "2 has a vector"),
    ("message_vectors", "UPDATE message_vector SET said_key = 5 WHERE message_id = 2", "2 has a vector"),
    (
        "message_vectors",
        "INSERT INTO message_vector VALUES (77, 1, 9, vec_int8((SELECT own FROM message_vector LIMIT 1)))",
        "77 has a vector",
    ),
    ("unit_vectors", "UPDATE unit_vector SET said_key = 5 WHERE unit_id = 2", "2 has a vector"),
    (
        "unit_vectors",
        "INSERT INTO unit_vector VALUES (77, 1, 9, vec_int8((SELECT fact FROM unit_vector LIMIT 1)))",
        "77 has a vector",
    ),
    (
        "label_vectors",
        "UPDATE label_vector SET axis = 'subject' WHERE label_id = (SELECT min(label_id) FROM label)",
        "another axis",
    ),
    (
        "label_vectors",
        "INSERT INTO label_vector VALUES (77, 'entity', vec_int8((SELECT name FROM label_vector LIMIT 1)))",
        "77 has a vector",
    ),
    (
        "vectors",
        "DELETE FROM message_vector WHERE message_id = 2; INSERT INTO message_vector VALUES (2, 1, "
        "(SELECT ifnull(said_key, 9223372036854775807) FROM message WHERE message_id = 2), "
        "vec_int8(zeroblob(64)))",
        "message_vector 2 has length 0.00",
    ),
    (
        "vectors",
        "DELETE FROM unit_vector WHERE unit_id = 2; INSERT INTO unit_vector VALUES (2, 1, 9, "
        "vec_int8(zeroblob(64)))",
        "unit_vector 2",
    ),
    (
        "vectors",
        "DELETE FROM label_vector WHERE label_id = 2; INSERT INTO label_vector VALUES (2, 'entity', "
        "vec_int8(zeroblob(64)))",
        "label_vector 2",
    ),
    ("labels_used", "INSERT INTO label VALUES (77, 'entity', 'Nobody', 'nobody')", "77 (entity Nobody)"),
    ("unit_spans", "UPDATE unit SET message_id = 9 WHERE unit_id = 1", "1 rests on positions"),
    ("unit_spans", "UPDATE unit SET scope_id = 2 WHERE unit_id = 1", "1 rests on positions"),
    ("unit_windows", "UPDATE unit SET window_no = 1, number = 50 WHERE unit_id = 1", "1 ends outside"),
    ("speakers", "UPDATE speaker SET messages = 5 WHERE name = 'Ben'", "Ben in scope 1"),
    ("speakers", "DELETE FROM speaker WHERE name = 'Ana'", "Ana in scope 1"),
    ("speakers", "INSERT INTO speaker VALUES (1, 'Zoe', 1)", "Zoe in scope 1"),
    ("traces", TRACE.format("(1, 0, 1, 1)"), "1 members, 1 current"),
    ("traces", TRACE.format("(1, 0, 1, 0), (1, 1, 2, 0)"), "2 members, 0 current"),
    ("traces", TRACE.format("(1, 0, 1, 1), (1, 1, 2, 0)"), "2 members, 1 current"),
    ("traces", TRACE.format("(1, 0, 1, 0), (1, 5, 2, 1)"), "2 members, 1 current"),
    ("trace_members", TRACE.format("(1, 0, 1, 0), (1, 1, 10, 1)"), "unit 10 is of another scope"),
    (
        "trace_members",
        "UPDATE unit SET subject = NULL, predicate = NULL, object = NULL WHERE unit_id = 1;"
        + TRACE.format("(1, 0, 1, 0), (1, 1, 2, 1)"),
        "unit 1 is of another scope, or has no triple",
    ),
    (
        "trace_members",
        "UPDATE unit SET subject = NULL, predicate = NULL, object = NULL WHERE unit_id = 1;"
        + TRACE.format("(1, 0, 1, 0), (1, 1, 2, 1)").replace("'m'", "'rules'"),
        "unit 1 is of another scope, or has no triple",
    ),
    (
        "trace_order",
        TRACE.format("(1, 0, 2, 0), (1, 1, 1, 1)"),
        "unit 1 is number 1, in memory order it is 0",
    ),
    ("trace_texts", TRACE.format("(1, 0, 1, 0), (1, 1, 2, 1)").replace("'m'", "'rules'"), "1 (r) tells"),
    ("trace_texts", TRACE.format("(1, 0, 1, 0), (1, 1, 2, 1)").replace("0);", "1);"), "1 (r) tells"),
    ("triple_vectors", "UPDATE triple_vector SET scope_id = 5 WHERE unit_id = 2", "2 has a triple vector"),
    ("triple_vectors", "DELETE FROM triple_vector WHERE unit_id = 2", "but no triple vector"),
    (
        "triple_vectors",
        "INSERT INTO triple_vector VALUES (77, 1, vec_int8((SELECT triple FROM triple_vector LIMIT 1)))",
        "77 has a triple vector",
    ),
    (
        "segments",
        "UPDATE segment SET last_position = last_position + 1 WHERE segment_id = 1",
        "2 does not follow",
    ),
    ("segments", "UPDATE segment SET closed = 0", "does not follow"),
    (
        "segments",
        "UPDATE meta SET value = replace(value, '0.6', '-0.9') WHERE key = 'settings'",
        "begins where",
    ),
    (
        "segments",
        "UPDATE meta SET value = replace(value, 'valley', 'sim') WHERE key = 'settings'",
        "begins at",
    ),
    ("segments", "DELETE FROM segment_vector WHERE segment_id = 1", "1 has no vector"),
    ("segments", "UPDATE segment_vector SET scope_id = 5 WHERE segment_id = 1", "beside another scope"),
    (
        "segments",
        "INSERT INTO segment_vector VALUES (77, 1, vec_int8((SELECT mean FROM segment_vector LIMIT 1)))",
        "77 has a vector",
    ),
    (
        "segments",
        f"DELETE FROM segment_vector WHERE segment_id = 1;"
        f" INSERT INTO segment_vector VALUES (1, 1, vec_int8({CODE_OF.format(9)}))",
        "the mean",
    ),
    ("segments", "INSERT INTO segment_link VALUES (1, 2, .95), (2, 1, .95)", "and are not"),
    ("segments", "INSERT INTO segment_link VALUES (1, 2, .95)", "which is not linked to it"),
    ("segments", "UPDATE segment SET link_id = 1", "link group 1"),
    ("windows", "DELETE FROM window WHERE window_no = 1", "the windows of session 1"),
    ("windows", "UPDATE window SET end_position = 5 WHERE window_no = 0", "the windows of session 1"),
    ("windows", "UPDATE window SET new_position = 5 WHERE window_no = 1", "the windows of session 1"),
    ("foreign_keys", "DELETE FROM scope WHERE scope_id = 1", "refers to a missing scope"),
    ("foreign_keys", "INSERT INTO unit_label VALUES (1, 77)", "refers to a missing unit"),
    ("schema", "CREATE TABLE extra (x)", "table extra"),
    ("schema", STAGED.replace("TEXT", "ANY"), "table staged_vector"),
    ("staged_vectors", STAGED_BY, "nowhere staged"),
    ("staged_vectors", f"{STAGED}; {STAGE.format('message', 77, CODE)}", "message 77 has a staged vector"),
    ("staged_vectors", f"{STAGED}; {STAGE.format('unit', 77, CODE)}", "unit 77 has a staged vector"),
    ("staged_vectors", f"{STAGED}; {STAGE.format('triple', 77, CODE)}", "triple 77 has a staged vector"),
    ("staged_vectors", f"{STAGED}; {STAGE.format('label', 77, CODE)}", "label 77 has a staged vector"),
    ("staged_vectors", f"{STAGED}; {STAGED_BY}; {STAGE.format('unit', 2, CODE)}", "unit 2 and its triple"),
    ("staged_vectors", f"{STAGED}; {STAGED_BY}; {STAGE.format('triple', 2, CODE)}", "unit 2 and its triple"),
    (
        "staged_vectors",
        f"{STAGED}; {STAGE.format('message', 1, 'zeroblob(64)')}",
        "the staged vector of message 1 has length 0.00",
    ),
    (
        "staged_vectors",
        f"{STAGED}; {STAGE.format('message', 1, CODE)}; {STAGE.format('message', 2, 'zeroblob(8)')}",
        "staged vectors have 8 and 64 components",
    ),
    ("schema", "DROP INDEX message_day", "missing index message_day"),
]


def test_every_check_is_broken_here() -> None:
    checks = {check for check, _, _ in BROKEN}
    assert checks == {
        *verify._CHECKS,
        "schema",
        "foreign_keys",
        "windows",
        "vectors",
        "staged_vectors",
        "segments",
        "trace_texts",
    }


@pytest.fixture
def filled(memory: memdb.Memory) -> memdb.Memory:
    memory.add(SAID)
    memory.add(SAID[:1], scope=Scope("ana"))
    assert memory.verify().problems == ()
    return memory


def broken(path: Path, sql: str) -> None:
    """Change a file as nothing but a fault could."""
    connection = apsw.Connection(str(path))
    connections.load_vectors(connection)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(("check", "sql", "detail"), BROKEN)
def test_what_is_broken_is_named(filled: memdb.Memory, check: str, sql: str, detail: str) -> None:
    broken(filled.path, sql)
    verification = filled.verify()
    assert not verification.ok
    assert any(problem.check == check and detail in problem.detail for problem in verification.problems), (
        verification.problems
    )


def test_a_damaged_page_is_found(filled: memdb.Memory, open_memory: OpenMemory) -> None:
    filled.close()
    content = bytearray(filled.path.read_bytes())
    content[36:40] = (5).to_bytes(4)  # pages on the freelist, of which there are none
    filled.path.write_bytes(content)
    problems = open_memory().verify().problems
    assert any(problem.check == "integrity" and "Freelist" in problem.detail for problem in problems)


def test_a_row_that_breaks_a_check_is_named(filled: memdb.Memory) -> None:
    broken(filled.path, "UPDATE window SET state = 'maybe'")
    problems = filled.verify().problems
    assert any(problem.check == "integrity" and "window" in problem.detail for problem in problems)


def test_a_flipped_byte_in_the_file_is_found(filled: memdb.Memory, open_memory: OpenMemory) -> None:
    filled.close()
    content = bytearray(filled.path.read_bytes())
    at = content.index(b"I bought lamp 3")
    content[at + 9] ^= 1
    filled.path.write_bytes(content)
    problems = open_memory().verify().problems
    assert any(problem.check == "message_terms" for problem in problems)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM message_terms_data WHERE id = 10",
        "DELETE FROM unit_terms_data WHERE id = 10",
        "UPDATE message_vector_vector_chunks00 SET vectors = x'00'",
    ],
)
def test_an_index_that_cannot_be_read_is_named(
    filled: memdb.Memory, open_memory: OpenMemory, sql: str
) -> None:
    filled.close()
    broken(filled.path, sql)
    problems = open_memory().verify().problems
    assert any("cannot be read" in problem.detail for problem in problems)


def test_problems_of_one_kind_are_cut_off(filled: memdb.Memory) -> None:
    filled.add([Message("Ana", f"lamp {n}") for n in range(30)], session="t")
    change = "UPDATE message_vector SET said_key = 2 WHERE message_id = {}"
    broken(filled.path, ";".join(change.format(n) for n in range(1, 40)))
    found = [p.detail for p in filled.verify().problems if p.check == "message_vectors"]
    assert len(found) == 21
    assert found[-1] == "and more"


def test_missing_vectors_are_a_warning(filled: memdb.Memory, open_memory: OpenMemory) -> None:
    with pytest.warns(memdb.errors.MemdbWarning):
        other = open_memory(encoder=HashEncoder(8))
    other.add([Message("Zoe", "My parrot is called Salt.")])
    verification = other.verify()
    assert verification.ok
    assert any("1 messages, 1 units" in warning for warning in verification.warnings)


def test_a_file_without_a_write_ahead_log_is_a_warning(filled: memdb.Memory) -> None:
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.close()
    with memdb.open(filled.path, encoder=HashEncoder(64), read_only=True) as memory:
        assert any("journal mode is delete" in warning for warning in memory.verify().warnings)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "ext4"])
def test_a_network_folder_is_a_warning(
    filled: memdb.Memory, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = f"/dev/x / ext4 rw 0 0\nserver {filled.path.parent} {kind} rw 0 0\n"
    read_text = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda self, **how: table if self == Path("/proc/mounts") else read_text(self, **how),
    )
    found = any("network" in warning for warning in filled.verify().warnings)
    assert found == (kind != "ext4")

"""What other programs and strangers do to the file: replace it, remove it, fork, damage rows, offer pipes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import memdb
from memdb import Message, Scope
from memdb.store import connection as connections
from tests.conftest import OpenMemory


def filled(open_memory: OpenMemory, path: Path, name: str, count: int) -> Path:
    memory = open_memory(path)
    memory.add(
        [Message("Ana", f"{name} bought lamp {n} in Rome.", f"2024-01-{n % 28 + 1:02}") for n in range(count)]
    )
    memory.close()
    return path


@pytest.mark.parametrize("way", ["replaced", "removed"])
def test_a_file_that_lost_its_name_is_not_written_to(
    open_memory: OpenMemory, tmp_path: Path, way: str
) -> None:
    path = filled(open_memory, tmp_path / "m.memdb", "Ana", 30)
    other = filled(open_memory, tmp_path / "other.memdb", "Ben", 50)
    memory = open_memory(path)
    memory.add([Message("Ana", "before")])
    if way == "replaced":
        shutil.copy(other, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
    else:
        path.unlink()
    with pytest.raises(memdb.FileError, match="replaced or removed"):
        memory.add([Message("Ana", "after")])
    with pytest.raises(memdb.FileError, match="replaced or removed"):
        memory.recall("lamp")
    memory.close()
    if way == "replaced":
        with open_memory(path) as reopened:
            assert reopened.verify().ok
            assert len(reopened.messages("default")) == 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_is_told_to_open_its_own(open_memory: OpenMemory, tmp_path: Path) -> None:
    program = (
        "import os, sys, memdb\n"
        "from memdb.models.fakes import HashEncoder\n"
        "memory = memdb.open(sys.argv[1], encoder=HashEncoder(64))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    told = 0\n"
        "    for use in (lambda: memory.add([memdb.Message('C', 'x')]), lambda: memory.recall('x')):\n"
        "        try:\n"
        "            use()\n"
        "        except memdb.FileError as error:\n"
        "            told += 'before a fork' in str(error)\n"
        "    memory.close()\n"
        "    os._exit(told)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2\n"
        "memory.add([memdb.Message('P', 'still here')])\n"
        "memory.close()\n"
    )
    path = tmp_path / "m.memdb"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert [m.content for m in open_memory(path).messages("default")] == ["still here"]


@pytest.mark.parametrize("read_only", [True, False])
def test_what_is_no_file_is_refused_untouched(
    open_memory: OpenMemory, tmp_path: Path, read_only: bool
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(memdb.FileError, match="not a regular file"):
        open_memory(pipe, read_only=read_only)
    with pytest.raises(memdb.CannotOpen):
        open_memory(tmp_path / ("n" * 300), read_only=read_only)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_reading_leaves_one_file(open_memory: OpenMemory, tmp_path: Path) -> None:
    path = filled(open_memory, tmp_path / "m.memdb", "Ana", 3)
    before = path.read_bytes()
    for _ in range(2):
        with open_memory(path, read_only=True) as memory:
            assert memory.recall("lamp")
            assert memory.verify().ok
        assert [p.name for p in tmp_path.iterdir()] == ["m.memdb"]
    assert path.read_bytes() == before


def test_closing_waits_for_readers_and_leaves_one_file(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.memdb")
    memory.add([Message("Ana", "I bought a lamp.")])
    with memory._database.reader():
        memory.close()
    assert [p.name for p in tmp_path.iterdir()] == ["m.memdb"] or memory._database._idle == []
    with open_memory(tmp_path / "m.memdb") as again:
        assert len(again.messages("default")) == 1


DAMAGES = [
    "UPDATE meta SET value = 0.0 WHERE key = 'vector_scale'",
    "UPDATE meta SET value = 9e999 WHERE key = 'vector_scale'",
    "UPDATE meta SET value = -1.0 WHERE key = 'vector_scale'",
    "UPDATE meta SET value = replace(hex(zeroblob(50000)), '0', '[') WHERE key = 'settings'",
    "UPDATE message_vector_vector_chunks00 SET vectors = zeroblob(length(vectors))",
    "DELETE FROM message_vector_vector_chunks00",
    "UPDATE unit_interval SET end_day = end_day + 9223372036854700000",
    "UPDATE unit_interval SET granularity = 'eon'",
    "UPDATE unit SET subject = NULL",
    "UPDATE unit SET predicate = NULL",
    "UPDATE unit SET object = NULL",
    "UPDATE unit SET subject = NULL, predicate = NULL, object = NULL",
    "UPDATE unit SET object = CAST(x'ff41fe' AS TEXT)",
    "UPDATE trace SET relation_text = CAST(x'ff41fe' AS TEXT)",
    "UPDATE trace SET trajectory = 'lies'",
    "UPDATE trace SET dirty = 1",
    "UPDATE trace SET scope_id = 77",
    "UPDATE trace_unit SET number = 9 - number",
    "UPDATE trace_unit SET unit_id = unit_id + 1000",
    "DELETE FROM trace",
    "UPDATE triple_vector_vector_chunks00 SET vectors = zeroblob(length(vectors))",
    "DELETE FROM triple_vector_vector_chunks00",
    "UPDATE triple_vector_vector_chunks00 SET vectors = x'00'",
    "UPDATE message SET said_day = 9000000000",
    "UPDATE message SET content = CAST(x'ff41fe' AS TEXT)",
    "UPDATE message SET speaker = CAST(x'ff41fe' AS TEXT)",
    "UPDATE speaker SET name = CAST(x'ff41fe' AS TEXT) WHERE name = 'Ana'",
    "UPDATE session SET name = CAST(x'ff41fe' AS TEXT)",
    "UPDATE unit SET fact_text = CAST(x'ff41fe' AS TEXT)",
    "UPDATE label SET name = CAST(x'ff' || label_id AS TEXT)",
    "DELETE FROM message_terms_data WHERE id = 10",
    "UPDATE message_terms_data SET block = x'00ff00ff'",
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("read_only", [True, False])
def test_damaged_rows_give_typed_errors_and_verify_sees_them(
    open_memory: OpenMemory, tmp_path: Path, damage: str, read_only: bool
) -> None:
    path = tmp_path / "m.memdb"
    with open_memory(path) as memory:
        memory.add(
            [Message("Ana", "I went to Rome yesterday.", "2024-03-10"), Message("Ben", "I have a cat.")]
        )
        memory.add([Message("Ana", "I live in Oslo."), Message("Ana", "I live in Rome.")])
        assert memory.about().counts["traces"] == 1
    raw = apsw.Connection(str(path))
    connections.load_vectors(raw)
    raw.execute("PRAGMA ignore_check_constraints = ON")
    raw.execute(damage)
    raw.close()
    try:
        memory = open_memory(path, read_only=read_only)
    except memdb.FileError:
        return
    assert not memory.verify().ok
    uses = [
        lambda: memory.recall("When did Ana go to Rome in March 2024?"),
        lambda: memory.messages("default"),
        memory.sessions,
        lambda: memory.trace("Ana lives in"),
        lambda: memory.add([Message("Ana", "more"), Message("Ana", "I live in Lima.")]),
    ]
    for use in uses:
        try:
            use()
        except memdb.MemdbError:
            continue
    memory.verify()  # an add may have told a trace anew


def test_meta_is_not_read_before_it_is_known_to_be_plain(open_memory: OpenMemory, tmp_path: Path) -> None:
    path = filled(open_memory, tmp_path / "m.memdb", "Ana", 1)
    raw = apsw.Connection(str(path))
    raw.execute("DROP TABLE meta")
    raw.execute("CREATE TABLE meta (key TEXT, value AS (length(hex(zeroblob(1000)))))")
    raw.execute("INSERT INTO meta VALUES ('encoder_dimension')")
    raw.close()
    with pytest.raises(memdb.Damaged, match="table meta"):
        open_memory(path)


def test_as_of_sees_no_words_said_later(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.memdb")
    memory.add(
        [
            Message("Ana", "Let us meet at noon.", "2024-01-01", "a"),
            Message("Cy", "I will be there.", "2024-01-02"),
        ]
    )
    asked = {
        "question": "zirconium password",
        "as_of": "2024-03-01",
        "channels": ["message_lexical", "unit_lexical"],
    }
    assert not memory.recall(**asked)
    before = [
        (e.text, e.channels["message_lexical"].rank)
        for e in memory.recall("meet at noon", as_of="2024-03-01")
    ]
    memory.add([Message("Ben", "The zirconium password is at noon.", "2024-06-01")])
    assert not memory.recall(**asked)
    assert memory.recall("zirconium password")[0].speaker == "Ben"
    after = [
        (e.text, e.channels["message_lexical"].rank)
        for e in memory.recall("meet at noon", as_of="2024-03-01")
    ]
    assert before == after


def test_moments_and_serial_numbers_are_two_orders(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.memdb")
    said = ["serial-1", "2024-01-01", "serial-3", None]
    memory.add([Message("Ana", f"alpha {clock}", clock, str(clock)) for clock in said])

    def known(as_of: str | None) -> set[str | None]:
        return {evidence.source[0].id for evidence in memory.recall("alpha", as_of=as_of)}

    assert known(None) == {str(clock) for clock in said}
    assert known("2023-01-01") == set()
    assert known("2024-06-01") == {"2024-01-01"}
    assert known("serial-2") == {"serial-1"}
    assert known(f"serial-{2**53}") == {"serial-1", "serial-3"}
    with pytest.raises(memdb.InputError):
        memory.recall("alpha", as_of=f"serial-{2**53 + 1}")


def test_words_of_any_length_are_indexed_as_they_are_looked_up(
    open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_memory(tmp_path / "m.memdb")
    memory.add([Message("Ana", "a" * 40_000, id="a"), Message("Ana", "a" + "\u044f" * 20_000, id="b")])
    assert memory.verify().ok
    assert memory.recall("a" * 40_000, channels=["message_lexical"])[0].source[0].id == "a"


def test_a_pile_of_marks_is_cut_before_it_is_sorted(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.memdb")
    pile = "a" + "\u0300\u0316" * 100_000
    memory.add([Message("Ana", pile)])
    assert memory.recall(pile[:90_000], channels=["message_lexical"])
    assert memory.verify().ok


def test_many_speakers_and_long_names_cost_no_more_than_their_text(
    open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_memory(tmp_path / "m.memdb", scope=Scope("crowd"))
    memory.add([Message(f"Person{n} " + "x" * 900, f"I went to Rome, you know, {n}.") for n in range(1_500)])
    assert memory.recall("What does Person7 like?", k=1)

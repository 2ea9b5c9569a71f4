"""Opening: what is switched on and off, what is refused and left alone, who comes first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import memdb
from memdb import settings
from memdb.errors import CannotOpen, Closed, Damaged, NewerFormat, NotAMemory, ReadOnly
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from memdb.store import extensions
from memdb.store.connection import Database
from tests.conftest import OpenMemory

ROOT = Path(memdb.__file__).parents[1]


@pytest.fixture(params=["writer", "reader", "read-only"])
def connection(request: pytest.FixtureRequest, open_memory: OpenMemory) -> Iterator[apsw.Connection]:
    """One of the connections memdb works with; the memory holds a message."""
    memory = open_memory()
    memory.add([Message("Ana", "I have a parrot.")])
    if request.param == "writer":
        with memory._database.writer_setup() as one:
            yield one
        return
    if request.param == "read-only":
        memory = open_memory(read_only=True)
    with memory._database.reader() as one:
        yield one


# --- What is switched on and off


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1),
    ],
)
def test_switches(connection: apsw.Connection, option: int, value: int) -> None:
    assert connection.config(option, -1) == value


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("cell_size_check", 1),
        ("secure_delete", 1),
        ("temp_store", 2),
        ("foreign_keys", 1),
        ("trusted_schema", 0),
    ],
)
def test_pragmas(connection: apsw.Connection, pragma: str, value: object) -> None:
    assert connection.execute(f"PRAGMA {pragma}").get == value


def test_the_writer_syncs_every_commit_and_waits(memory: memdb.Memory) -> None:
    with memory._database.writer_setup() as writer:
        assert writer.execute("PRAGMA synchronous").get == 2
        assert writer.execute("PRAGMA busy_timeout").get == settings.BUSY_TIMEOUT_MS
        assert writer.execute("PRAGMA cache_size").get == -settings.CACHE_KIB
    with memory._database.reader() as reader:
        assert reader.execute("PRAGMA cache_size").get == -settings.READER_CACHE_KIB
        assert reader.readonly("main")


@pytest.mark.parametrize("large", [False, True])
def test_readers_map_large_files_alone(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(settings, "MAPPED_FROM_BYTES", 1)
    memory = open_memory()
    memory.add([Message("Ana", "I have a parrot.")])
    with memory._database.writer_setup() as writer:
        assert writer.execute("PRAGMA mmap_size").get == 0
    with memory._database.reader() as reader:
        assert bool(reader.execute("PRAGMA mmap_size").get) == large
        assert reader.execute("SELECT count(*) FROM message").get == 1
        memory.add([Message("Ana", "I have a canoe.")])
        assert reader.execute("SELECT count(*) FROM message").get == 1
    assert memory.recall("Who has a canoe?")[0].text == "I have a canoe."
    assert memory.verify().ok


def test_readers_map_a_file_that_grew_and_all_of_it(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    memory.add([Message("Ana", "I have a parrot.")])
    with memory._database.reader() as reader:
        assert reader.execute("PRAGMA mmap_size").get == 0
    monkeypatch.setattr(settings, "MAPPED_FROM_BYTES", memory.path.stat().st_size + 1)
    for turn in range(20):
        memory.add([Message("Ana", f"I saw bird {n} of {turn}.") for n in range(25)])
        with memory._database.writer_setup() as writer:
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with memory._database.reader() as same:
            assert same is reader
            grown = memory.path.stat().st_size >= settings.MAPPED_FROM_BYTES
            assert bool(same.execute("PRAGMA mmap_size").get) == grown
            assert same.execute("PRAGMA cell_size_check").get == (not grown)
            assert same.execute("SELECT count(*) FROM message").get == 25 * turn + 26
    assert grown


@pytest.mark.parametrize("read_only", [False, True])
def test_what_verifies_a_large_file_checks_every_cell(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    monkeypatch.setattr(settings, "MAPPED_FROM_BYTES", 1)
    memory = open_memory()
    memory.add([Message("Ana", "I have a parrot.")])
    if read_only:
        memory = open_memory(read_only=True)
    with memory._database.reader() as reader, memory._database.inspector() as inspector:
        assert reader.execute("PRAGMA cell_size_check").get == 0
        assert inspector.execute("PRAGMA mmap_size").get == 0
        assert inspector.execute("PRAGMA cell_size_check").get == 1


@pytest.mark.parametrize("table", ["message_terms_data", "unit_terms_idx", "message_vector_chunks"])
def test_sql_cannot_write_a_shadow_table(memory: memdb.Memory, table: str) -> None:
    with memory._database.writer_setup() as writer, pytest.raises(apsw.SQLError, match="may not be modified"):
        writer.execute(f"DELETE FROM {table}")


def test_extensions_cannot_be_loaded_any_more(connection: apsw.Connection) -> None:
    with pytest.raises(apsw.Error, match="not authorized"):
        connection.execute("SELECT load_extension('vec0')")
    with pytest.raises(apsw.Error, match="not authorized"):
        connection.load_extension("vec0")


def test_no_other_file_can_be_attached(connection: apsw.Connection, tmp_path: Path) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    with pytest.raises(apsw.Error, match="too many attached"):
        connection.execute("ATTACH ? AS other", (str(tmp_path / "other"),))
    assert not (tmp_path / "other").exists()


def test_readers_cannot_write(memory: memdb.Memory) -> None:
    with memory._database.reader() as reader, pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM message")


# --- What is refused, and left as it is


def text_file(path: Path) -> None:
    path.write_bytes(b"Dear diary, today I met a parrot. " * 200)


def five_bytes(path: Path) -> None:
    path.write_bytes(b"diary")


def half_a_header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00\x10\x00")


def other_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE diary (day TEXT); INSERT INTO diary VALUES ('monday')")
    connection.close()


def other_database_in_wal(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE diary (day TEXT)").fetchall()
    connection.close()


def marked_but_empty(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 1835363684; PRAGMA user_version = 1")
    connection.close()


def changed(path: Path, sql: str) -> None:
    memdb.open(path, encoder=HashEncoder(64)).close()
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def newer(path: Path) -> None:
    changed(path, "PRAGMA user_version = 2")


def far_newer(path: Path) -> None:
    changed(path, "PRAGMA user_version = 2147483647; CREATE TABLE future (x)")


def with_trigger(path: Path) -> None:
    changed(path, "CREATE TRIGGER evil AFTER INSERT ON message BEGIN DELETE FROM meta; END")


def with_view(path: Path) -> None:
    changed(path, "CREATE VIEW evil AS SELECT content FROM message")


def with_table(path: Path) -> None:
    changed(path, "CREATE TABLE evil (x)")


def with_index(path: Path) -> None:
    changed(path, "CREATE INDEX evil ON message (lower(content))")


def with_column(path: Path) -> None:
    changed(path, "ALTER TABLE speaker ADD COLUMN evil TEXT DEFAULT 'x'")


def without_index(path: Path) -> None:
    changed(path, "DROP INDEX message_day")


def without_table(path: Path) -> None:
    changed(path, "DROP TABLE trace_unit")


def without_origin(path: Path) -> None:
    changed(path, "DELETE FROM meta WHERE key = 'encoder_sha256'")


def with_odd_origin(path: Path) -> None:
    changed(path, "UPDATE meta SET value = x'00' WHERE key = 'encoder_dimension'")


@pytest.mark.parametrize("read_only", [False, True], ids=["write", "read"])
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (text_file, NotAMemory),
        (five_bytes, NotAMemory),
        (half_a_header, NotAMemory),
        (other_database, NotAMemory),
        (other_database_in_wal, NotAMemory),
        (marked_but_empty, Damaged),
        (newer, NewerFormat),
        (far_newer, NewerFormat),
        (with_trigger, Damaged),
        (with_view, Damaged),
        (with_table, Damaged),
        (with_index, Damaged),
        (with_column, Damaged),
        (without_index, Damaged),
        (without_table, Damaged),
        (without_origin, Damaged),
        (with_odd_origin, Damaged),
    ],
    ids=lambda value: value.__name__,
)
def test_a_file_that_is_no_sound_memory_is_refused_and_left_alone(
    path: Path, open_memory: OpenMemory, make: object, error: type[memdb.MemdbError], read_only: bool
) -> None:
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(error) as caught:
        open_memory(read_only=read_only)
    assert caught.value.hint
    assert path.read_bytes() == before
    left = {part.name: part.stat().st_size for part in path.parent.iterdir()}
    assert not left.get(f"{path.name}-wal"), "nothing was written ahead"
    assert left.keys() <= {path.name, f"{path.name}-wal", f"{path.name}-shm"}


def test_an_empty_file_becomes_a_memory(path: Path, open_memory: OpenMemory) -> None:
    path.write_bytes(b"")
    with pytest.raises(NotAMemory):
        open_memory(read_only=True)
    assert path.read_bytes() == b""
    assert open_memory().verify().ok


def test_nothing_is_made_without_create(path: Path, open_memory: OpenMemory) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(CannotOpen):
            open_memory(**options)
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["a b?c#d%41&x=1.memdb", "ünï 海.memdb", "file:x", ":memory:", "x\udcff", "'q'"]
)
def test_any_file_name(tmp_path: Path, open_memory: OpenMemory, name: str) -> None:
    for _ in range(2):
        with open_memory(tmp_path / name) as memory:
            memory.add([Message("Ana", "parrot", id="a")])
    assert os.listdir(tmp_path) == [name]
    assert len(open_memory(tmp_path / name, read_only=True).messages("default")) == 1


def test_a_name_with_nul_makes_no_other_file(tmp_path: Path, open_memory: OpenMemory) -> None:
    with pytest.raises(CannotOpen):
        open_memory(Path(f"{tmp_path}/a\0b"))
    assert os.listdir(tmp_path) == []


def test_bytes_and_text_name_the_same_file(path: Path, encoder: HashEncoder) -> None:
    memdb.open(os.fsencode(path), encoder=encoder).close()
    with memdb.open(str(path), encoder=encoder, create=False) as memory:
        assert memory.path == path


# --- Reading where nothing can be written

UNPRIVILEGED = """
import os, sys
import memdb
from memdb.models.fakes import HashEncoder
warm = memdb.open(sys.argv[2], encoder=HashEncoder(64))  # what is imported late is imported now
warm.add([memdb.Message("Ana", "I have a canoe.")])
warm.recall("canoe")
warm.verify()
os.chdir("/")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    memory = memdb.open(sys.argv[1], encoder=HashEncoder(64), read_only=True)
    print(*(evidence.text for evidence in memory.recall("parrot")), memory.verify().ok, sep="|")
    memory.add([memdb.Message("Ana", "kept nowhere")])
except memdb.MemdbError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can drop its privileges"
)
@pytest.mark.parametrize("log", ["none", "empty", "full"])
def test_reading_in_a_folder_that_cannot_be_written(
    tmp_path: Path, open_memory: OpenMemory, log: str
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        memory = open_memory()
        memory.add([Message("Ana", "I have a parrot.")])
        if log != "full":
            memory.close()
        if log == "empty":
            Path(f"{memory.path}-wal").write_bytes(b"")
        for part in memory.path.parent.glob("memory.memdb*"):
            if not part.name.endswith("-shm"):
                shutil.copy(part, folder)
        folder.chmod(0o755)
        command = [sys.executable, "-W", "error", "-c", UNPRIVILEGED, str(folder / "memory.memdb")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [*command, str(tmp_path / "warm")], capture_output=True, text=True, env=environment, check=False
        )
        expected = ["CannotOpen"] if log == "full" else ["I have a parrot.|True", "ReadOnly"]
        assert run.stdout.splitlines() == expected, run.stderr
        assert all(part.stat().st_uid == 0 for part in folder.iterdir())
    finally:
        shutil.rmtree(folder)


# --- Several at once

CREATE = """
import sys
import memdb
from memdb.models.fakes import HashEncoder
print("ready", flush=True)
sys.stdin.readline()
with memdb.open(sys.argv[1], encoder=HashEncoder(64)) as memory:
    memory.add([memdb.Message("Ana", "I was here.")], session=sys.argv[2])
print("done", flush=True)
"""


def test_four_processes_that_make_the_same_memory(path: Path, open_memory: OpenMemory) -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", CREATE, str(path)]
    started = [
        subprocess.Popen([*command, f"s{n}"], text=True, env=environment, **pipes)  # type: ignore[call-overload]
        for n in range(4)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        out, errors = process.communicate()
        assert (out, process.returncode) == ("done\n", 0), errors
    memory = open_memory()
    assert sorted(session.name for session in memory.sessions()) == ["s0", "s1", "s2", "s3"]
    assert memory.verify().ok


def test_threads_that_make_the_same_memory(path: Path, encoder: HashEncoder) -> None:
    gate = threading.Barrier(8)
    failures: list[BaseException] = []

    def make() -> None:
        gate.wait()
        try:
            memdb.open(path, encoder=encoder).close()
        except memdb.MemdbError as error:
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_reader_sees_one_state_throughout(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "one")])
    with memory._database.reader() as reader:
        count = "SELECT count(*) FROM message"
        assert reader.execute(count).get == 1
        memory.add([Message("Ana", "two")])
        assert reader.execute(count).get == 1
    assert len(memory.messages("default")) == 2


def test_a_failing_block_leaves_nothing(memory: memdb.Memory) -> None:
    class Mine(Exception):
        pass

    def block() -> None:
        with memory._database.atomic() as writer:
            writer.execute("INSERT INTO scope (user) VALUES ('x')")
            raise Mine

    with pytest.raises(Mine):
        block()
    assert memory.about().counts["scopes"] == 0
    memory.add([Message("Ana", "and it goes on")])


def test_what_is_lent_is_given_back(memory: memdb.Memory) -> None:
    database: Database = memory._database
    with database.reader() as first, database.reader() as second:
        assert first is not second
    with database.reader() as third:
        assert third in (first, second)
        memory.close()
        assert third.execute("SELECT 1").get == 1, "a block that runs is not cut off"
    with pytest.raises(Closed), database.reader():
        pass
    with pytest.raises(Closed), database.atomic():
        pass


def test_remembered_until_the_file_changes(memory: memdb.Memory) -> None:
    loaded: list[int] = []

    def ask(key: str) -> int:
        with memory._database.reader() as reader:
            return memory._database.remembered(reader, key, lambda: loaded.append(0) or len(loaded))

    assert [ask("a"), ask("a"), ask("b"), ask("a")] == [1, 1, 2, 1]
    memory.add([Message("Ana", "one")])
    assert ask("a") == 3


def test_a_memory_opened_for_reading_refuses_to_write(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    with pytest.raises(ReadOnly) as caught:
        open_memory(read_only=True).add([Message("Ana", "one")])
    assert "read_only" in caught.value.hint


def test_vec0_is_found_without_importing_its_package() -> None:
    code = "import memdb.store.connection, sys; print('sqlite_vec' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert out.stdout == "False\n"


def test_a_missing_sqlite_vec_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    extensions._vectors_folder.cache_clear()
    monkeypatch.setattr(extensions.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(memdb.ModelError, match="sqlite-vec"):
        Database(path)

"""memdb0 is used where it is there, of the right version and wanted; elsewhere memdb answers all the same."""

from __future__ import annotations

import gc
import importlib.util
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

import memdb
from memdb import Message
from memdb.store import extensions
from memdb.store.connection import Database
from memdb.store.extensions import load_native, load_vectors, native, native_library
from tests.conftest import OpenMemory

CHAT = [
    Message("Ana", "I adopted a parrot.", "2026-01-20", id="a"),
    Message("Ben", "What colour is it?", "2026-01-20", id="b"),
    Message("Ana", "Grey, and I live in Oslo.", "2026-01-21", id="c"),
]


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(extensions.NATIVE_SWITCH, raising=False)


@pytest.fixture
def connection() -> apsw.Connection:
    return apsw.Connection(":memory:")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for memdb's own, with no library in it."""
    folder = tmp_path / "package"
    folder.mkdir()
    monkeypatch.setattr(extensions, "_FOLDER", folder)
    return folder


@pytest.fixture
def built() -> None:
    """Skips where memdb0 is not built."""
    trial = apsw.Connection(":memory:")
    if not load_native(trial):
        pytest.skip(f"{native(trial).absent}: make native builds it")


def _nothing(folder: Path) -> None:
    assert list(folder.iterdir()) == []


def _garbage(folder: Path) -> None:
    native_library().write_bytes(b"\x7fELF, but not really" * 100)


def _empty(folder: Path) -> None:
    native_library().write_bytes(b"")


def _directory(folder: Path) -> None:
    native_library().mkdir()


def _another_extension(folder: Path) -> None:
    spec = importlib.util.find_spec("sqlite_vec")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (vec0,) = Path(spec.submodule_search_locations[0]).glob("vec0.*")
    shutil.copy(vec0, native_library())


BROKEN = [_nothing, _garbage, _empty, _directory, _another_extension]
Break = Callable[[Path], None]


def _may_not_load(connection: apsw.Connection) -> None:
    with pytest.raises(apsw.SQLError, match="not authorized"):
        connection.execute("SELECT load_extension('memdb0')").fetchall()


def _answers(memory: memdb.Memory) -> list[object]:
    memory.add(CHAT)
    found = [*memory.recall("Which parrot did Ana adopt?"), *memory.recall("Where does Ana live?")]
    assert found
    return [msgspec.to_builtins(evidence) for evidence in found]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_library_that_is_not_there_or_none_is_absent(
    folder: Path, connection: apsw.Connection, broken: Break
) -> None:
    broken(folder)
    assert load_native(connection) is False
    found = native(connection)
    assert not found
    absent = broken in (_nothing, _directory)
    assert found.absent.startswith("memdb0 is not built" if absent else "memdb0 cannot be loaded: ")
    assert str(found) == f"sqlite-vec and FTS5 ({found.absent})"
    _may_not_load(connection)


@pytest.mark.parametrize("broken", BROKEN)
def test_memory_answers_without_it(folder: Path, open_memory: OpenMemory, broken: Break) -> None:
    broken(folder)
    with open_memory() as memory:
        assert _answers(memory)
        found = memory.verify()
    assert found.ok
    assert found.search.startswith("sqlite-vec and FTS5 (memdb0 ")


def test_a_library_that_is_there_is_used(built: None, connection: apsw.Connection) -> None:
    assert load_native(connection) is True
    found = native(connection)
    assert found
    assert found.simd
    assert str(found) == f"memdb0 {extensions.NATIVE_VERSION} ({found.simd})"
    version, simd = connection.execute("SELECT memdb0_version(), memdb0_simd()").fetchall()[0]
    assert (version, simd) == (extensions.NATIVE_VERSION, found.simd)
    _may_not_load(connection)


def test_a_library_of_another_version_is_as_none(
    built: None, connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = extensions.NATIVE_VERSION
    monkeypatch.setattr(extensions, "NATIVE_VERSION", version + 1)
    assert load_native(connection) is False
    expected = f"memdb0 is of version {version}, not {version + 1}: build it again"
    assert native(connection).absent == expected
    with pytest.raises(apsw.SQLError, match="no such function"):
        connection.execute("SELECT memdb0_version()").fetchall()
    _may_not_load(connection)


def test_it_is_looked_for_beside_memdb_only(
    built: None, folder: Path, connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(Path(memdb.__file__).parent / native_library().name, elsewhere)
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(elsewhere))
    assert not load_native(connection)
    shutil.copy(elsewhere / native_library().name, folder)
    assert load_native(connection)


def test_where_it_is_looked_for() -> None:
    assert native_library().parent == Path(memdb.__file__).resolve().parent
    assert native_library().stem == "memdb0"


def test_asking_reads_nothing_of_the_file(built: None, path: Path) -> None:
    path.write_bytes(b"this is no database" * 500)
    assert load_native(apsw.Connection(str(path)))


@pytest.mark.parametrize(
    ("switch", "argument", "used"),
    [
        (None, None, True),
        ("1", None, True),
        ("", None, True),
        ("0", None, False),
        (None, False, False),
        ("1", False, False),
        ("0", True, True),
    ],
)
def test_it_can_be_switched_off(
    built: None,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    switch: str | None,
    argument: bool | None,
    used: bool,
) -> None:
    if switch is not None:
        monkeypatch.setenv(extensions.NATIVE_SWITCH, switch)
    database = Database(path, native=argument)
    try:
        assert bool(database.native) is used
        assert used or database.native.absent == "memdb0 is switched off"
        with database.reader() as reader, database.writer_setup() as writer:
            assert native(reader) == native(writer) == database.native
            _may_not_load(reader)
    finally:
        database.close()


def test_the_same_answers_with_it_and_without(
    built: None, tmp_path: Path, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(tmp_path / "with.memdb") as memory:
        with_it = _answers(memory)
        assert memory.verify().search.startswith("memdb0 ")
    monkeypatch.setenv(extensions.NATIVE_SWITCH, "0")
    with open_memory(tmp_path / "without.memdb") as memory:
        assert _answers(memory) == with_it
        assert memory.verify().search == "sqlite-vec and FTS5 (memdb0 is switched off)"


def test_a_connection_that_nobody_asked_has_none(connection: apsw.Connection) -> None:
    load_vectors(connection)
    assert not native(connection)


def test_what_is_kept_of_a_connection_goes_with_it(connection: apsw.Connection) -> None:
    other = apsw.Connection(":memory:")
    load_native(other)
    gone = weakref.ref(other)
    assert other in extensions._loaded
    before = len(extensions._loaded)
    other.close()
    del other
    gc.collect()
    assert gone() is None
    assert len(extensions._loaded) < before

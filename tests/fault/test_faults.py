"""A success is durable; an error is typed, and all or nothing in every table."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from memdb.store.connection import Database
from tests.fault.disks import FailingDisk, ForgetfulDisk

SAID = [
    Message("Ana", f"I saw parrot {n} in Porto on {n + 1} May 2023. Did you?", "2023-05-20", id=str(n))
    for n in range(7)
]
MOST = 1_000  # changes of one operation: the loop ends far before
# Making the tables writes hundreds of pages, all alike: each of the first changes is failed, then one
# of several. MEMDB_EVERY_FAULT=1 fails each, and loses power after each.
EVERY = 1 if os.environ.get("MEMDB_EVERY_FAULT") else 7
NUMBERS = sorted({*range(1, 30), *range(30, MOST, EVERY)})
PREPARED = 3  # messages there are before an operation


KINDS = [(apsw.IOError, False), (apsw.FullError, True)]


@pytest.fixture(params=KINDS, ids=["an i/o error once", "a full disk for good"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDisk]:
    """The disk that `memdb.open` uses in this test."""
    disk = FailingDisk("memdb-failing", *request.param)
    monkeypatch.setattr("memdb.opening.Database", functools.partial(Database, vfs="memdb-failing"))
    yield disk
    disk.unregister()


def open_here(path: Path) -> memdb.Memory:
    return memdb.open(path, encoder=HashEncoder(16))


def copied(path: Path, where: Path) -> Path:
    """The bytes of a memory as a killed process leaves them: file and write-ahead log."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    for part in (path, Path(f"{path}-wal")):
        if part.exists():
            shutil.copy(part, where / part.name)
    return where / path.name


def stored(path: Path) -> int:
    """How many messages a memory holds, once it has proved itself sound."""
    with open_here(path) as memory:
        verification = memory.verify()
        assert verification.problems == ()
        ids = [m.id for s in memory.sessions() for m in memory.messages(s.name)]
        assert ids == [str(n) for n in range(len(ids))]
        assert verification.counts["message_vectors"] == len(ids)
        if ids:
            found = memory.recall(f"parrot {len(ids) - 1}", channels=["message_lexical"], k=len(ids))
            assert len(found) == len(ids)
        return len(ids)


Operation = Callable[[Path], None]


def create(path: Path) -> None:
    open_here(path).close()


def add_first(path: Path) -> None:
    with open_here(path) as memory:
        memory.add(SAID)


def add_more(path: Path) -> None:
    with open_here(path) as memory:
        memory.add(SAID[PREPARED:])


def attempt(disk: FailingDisk, number: int, work: Callable[[], None]) -> tuple[bool, bool]:
    """Do `work` with the change `number` failing: whether it failed, and whether `work` reported success."""
    disk.arm(number)
    try:
        work()
        succeeded = True
    except memdb.MemdbError:
        succeeded = False
    failed = disk.failed
    disk.arm(0)
    return failed, succeeded


def reset(path: Path, before: bytes | None) -> None:
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()
    if before is not None:
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("operation", "start", "end"),
    [(create, None, 0), (add_first, 0, len(SAID)), (add_more, PREPARED, len(SAID))],
    ids=["create", "add", "add more"],
)
def test_any_failing_change_of_a_file(
    disk: FailingDisk, tmp_path: Path, operation: Operation, start: int | None, end: int
) -> None:
    path = tmp_path / "disk" / "memory.memdb"
    path.parent.mkdir()
    before = None
    if start is not None:
        with open_here(path) as memory:
            memory.add(SAID[:start])
        before = path.read_bytes()
    errors = 0
    for number in NUMBERS:
        reset(path, before)
        failed, succeeded = attempt(disk, number, lambda: operation(path))
        allowed = {end} if succeeded else {start or 0, end}
        errors += not succeeded
        assert stored(copied(path, tmp_path / "copy")) in allowed, number
        if not failed:
            assert succeeded
            assert errors > 3
            return
    pytest.fail(f"still failing at change {MOST}")


def test_an_object_lives_through_a_failing_add(disk: FailingDisk, tmp_path: Path) -> None:
    """The process is killed after the failure, or goes on with the same object: both find all or nothing."""
    for number in NUMBERS:
        path = tmp_path / f"memory{number}.memdb"
        with open_here(path) as memory:
            memory.add(SAID[:PREPARED])
            failed, succeeded = attempt(disk, number, lambda: memory.add(SAID) and None)
            allowed = {len(SAID)} if succeeded else {PREPARED, len(SAID)}
            assert stored(copied(path, tmp_path / "copy")) in allowed, number
            assert memory.about().counts["messages"] in allowed
            assert memory.verify().ok, number
            assert memory.add(SAID).known >= PREPARED
            assert len(memory.messages("default")) == len(SAID)
        assert stored(path) == len(SAID), number
        if not failed:
            return
    pytest.fail(f"still failing at change {MOST}")


def test_a_failing_close_loses_nothing(disk: FailingDisk, tmp_path: Path) -> None:
    for number in NUMBERS:
        path = tmp_path / f"memory{number}.memdb"
        memory = open_here(path)
        memory.add(SAID)
        failed, _ = attempt(disk, number, memory.close)
        assert stored(copied(path, tmp_path / "copy")) == len(SAID), number
        assert stored(path) == len(SAID), number
        memory.close()
        if not failed:
            assert number > 3, "closing folds the log into the file"
            return
    pytest.fail(f"still failing at change {MOST}")


def test_losing_power_at_any_moment_loses_nothing_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not synced is lost, kept or torn: every state opens, is sound, and holds what was reported."""
    disk = ForgetfulDisk("memdb-forgetful", tmp_path)
    states: dict[tuple[tuple[str, bytes], ...], int] = {}
    reported = -1
    changes = itertools.count()

    def remember() -> None:
        if next(changes) % EVERY:
            return
        for state in disk.states(seed=len(states)):
            kept = tuple(sorted((name, data) for name, data in state.items() if not name.endswith("-shm")))
            states[kept] = max(states.get(kept, -1), reported)

    disk.after = remember
    with monkeypatch.context() as patched:
        patched.setattr("memdb.opening.Database", functools.partial(Database, vfs="memdb-forgetful"))
        memory = open_here(tmp_path / "memory.memdb")
        for reported, batch in enumerate([SAID[:2], SAID[2:3], SAID[3:]]):  # noqa: B007
            memory.add(batch)
        reported = 3
        memory.close()
    disk.unregister()
    acknowledged = {-1: 0, 0: 0, 1: 2, 2: 3, 3: len(SAID)}
    assert len(states) > 50
    for number, (files, done) in enumerate(states.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files:
            (folder / name).write_bytes(content)
        assert stored(folder / "memory.memdb") in {
            n for n in acknowledged.values() if n >= acknowledged[done]
        }
        shutil.rmtree(folder)

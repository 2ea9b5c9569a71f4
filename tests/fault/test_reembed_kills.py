"""A re-embedding that is killed, loses power, or whose disk fails, at any moment: the file answers as before
or as after, never in between, and going on ends in the rows of one that was left alone.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb import settings
from memdb.errors import MemdbWarning
from memdb.models.fakes import HashEncoder
from memdb.store.connection import Database
from tests.encoders import wrong_vectors
from tests.fault.disks import FailingDisk, ForgetfulDisk
from tests.fault.test_faults import KINDS, attempt, copied, reset
from tests.scripted import SEGMENTS, TALK, VECTORS, differing, everything

ROOT = Path(memdb.__file__).parents[1]
OLD, NEW = HashEncoder(64), HashEncoder(32)
# A re-embedding in a process of its own that kills itself at the n-th of one of these: a list of texts that
# is encoded, a statement of the writer, a progress report, or a thousand steps of SQLite's machine.
REEMBEDDING = """
import os, signal, sys, warnings
import memdb
from memdb import settings
from memdb.store import staging
from tests.encoders import Watched

settings.REEMBED_BATCH_ROWS = 4
staging._CLEARED_ROWS = 7
path, moment, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
counts = {"text": 0, "statement": 0, "told": 0, "step": 0}

def count(what):
    counts[what] += 1
    if what == moment and counts[what] == number:
        os.kill(os.getpid(), signal.SIGKILL)

warnings.simplefilter("ignore")
memory = memdb.open(path, encoder=Watched(32, lambda texts: count("text")))
writer = memory._database._writer
writer.set_exec_trace(lambda cursor, sql, bindings: count("statement") or True)
writer.set_progress_handler(lambda: count("step") or False, 1_000)
memory.reembed(progress=lambda done: count("told"))
writer.set_exec_trace(None)
writer.set_progress_handler(None)
print(counts["text"], counts["statement"], counts["told"], counts["step"])
"""
EVERY_FAULT = bool(os.environ.get("MEMDB_EVERY_FAULT"))


def run(path: Path, moment: str = "", number: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", REEMBEDDING, str(path), moment, str(number)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)


def opened(path: Path, encoder: HashEncoder) -> memdb.Memory:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        return memdb.open(path, encoder=encoder)


def reembed(path: Path) -> None:
    with opened(path, NEW) as memory:
        memory.reembed()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REEMBED_BATCH_ROWS", 4)


@pytest.fixture
def talk(path: Path) -> Path:
    with memdb.open(path, encoder=OLD) as memory:
        memory.add(TALK[:8], session="s")
        assert memory.about().counts["traces"] > 0
    return path


@pytest.fixture
def unbroken(talk: Path) -> dict[str, list[Any]]:
    path = Path(shutil.copy(talk, talk.with_name("unbroken")))
    reembed(path)
    assert wrong_vectors(path, NEW) == []
    return everything(path)


def is_one_or_the_other(path: Path, before: dict[str, list[Any]], after: dict[str, list[Any]]) -> bool:
    """Whether the file is switched; all of it, or nothing, and sound."""
    with opened(path, OLD) as memory:
        verification = memory.verify()
        assert verification.problems == ()
        switched = memory.encoder is None
        assert memory.about().encoder_sha256 == (NEW if switched else OLD).sha256
        assert memory.recall("Who moved to Rome?")
    found, expected = everything(path), after if switched else before
    for table in found.keys() - {"meta", "tables"}:
        follows = switched and table in SEGMENTS.split()  # once the file is switched
        assert found[table] == expected[table] or (follows and not found[table]), table
    assert {row[0] for row in found["meta"]} <= {"staged_encoder_sha256", *(row[0] for row in after["meta"])}
    return switched


def moments(total: dict[str, int]) -> list[tuple[str, int]]:
    """All of them, or some that are drawn."""
    every = [(moment, number) for moment, most in total.items() for number in range(1, most + 1)]
    return every if EVERY_FAULT else sorted(random.Random(28).sample(every, 10))


def test_one_that_is_killed_and_called_again_ends_in_the_same_rows(
    talk: Path, unbroken: dict[str, list[Any]], tmp_path: Path
) -> None:
    before = everything(talk)
    kept = talk.read_bytes()
    whole = run(Path(shutil.copy(talk, tmp_path / "whole")))
    counted = dict(zip(("text", "statement", "told", "step"), map(int, whole.stdout.split()), strict=True))
    assert counted["text"] >= 3 * 2
    assert counted["statement"] > 50
    states = []
    for moment, number in [*moments(counted), ("statement", counted["statement"] - 1)]:
        reset(talk, kept)
        assert run(talk, moment, number).returncode == -signal.SIGKILL, (moment, number)
        states.append(is_one_or_the_other(copied(talk, tmp_path / "copy"), before, unbroken))
        assert run(talk).returncode == 0
        assert differing(talk, unbroken) == [], (moment, number)
    assert states[-1], "near its end it is killed after the switch"
    assert not all(states)


def test_one_that_is_killed_again_and_again_ends_in_the_same_rows(
    talk: Path, unbroken: dict[str, list[Any]]
) -> None:
    kills = 0
    while run(talk, "text", 2).returncode:
        kills += 1
        with opened(talk, OLD) as memory:
            assert memory.verify().problems == ()
            assert memory.encoder is OLD
    assert kills > 2, "each goes on where the one before was, or the second list of texts would not change"
    assert differing(talk, unbroken) == []


@pytest.fixture(params=KINDS, ids=["an i/o error once", "a full disk for good"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDisk]:
    disk = FailingDisk("memdb-failing-reembed", *request.param)
    monkeypatch.setattr("memdb.opening.Database", functools.partial(Database, vfs="memdb-failing-reembed"))
    yield disk
    disk.unregister()


STEPS = sorted({*range(1, 6), *range(6, 2_000, 1 if EVERY_FAULT else 29)})


def test_any_failing_change_of_a_file(
    disk: FailingDisk, talk: Path, unbroken: dict[str, list[Any]], tmp_path: Path
) -> None:
    before, kept = everything(talk), talk.read_bytes()
    failures = 0
    for number in STEPS:
        reset(talk, kept)
        failed, succeeded = attempt(disk, number, lambda: reembed(talk))
        copy = copied(talk, tmp_path / "copy")
        assert is_one_or_the_other(copy, before, unbroken) or not succeeded, number
        reembed(copy)
        assert differing(copy, unbroken) == [], number
        failures += not succeeded
        if not failed:
            assert succeeded
            assert failures > 5
            return
    pytest.fail("still failing after the last step")


def test_an_object_lives_through_failures(disk: FailingDisk, talk: Path) -> None:
    with opened(talk, NEW) as memory:
        for number in (2, 9, 30, 60, 90):
            failed, succeeded = attempt(disk, number, lambda: memory.reembed() and None)
            assert failed or succeeded
            assert memory.verify().problems == ()
        memory.reembed()
        assert memory.encoder is NEW
        assert memory.verify().problems == memory.verify().warnings == ()
    assert wrong_vectors(talk, NEW) == []


def test_losing_power_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not synced is lost, kept or torn: every state is one or the other, and can be gone on with."""
    disk = ForgetfulDisk("memdb-forgetful-reembed", tmp_path)
    path = tmp_path / "memory.memdb"
    states: dict[tuple[tuple[str, bytes], ...], bool] = {}
    seen = 0
    with monkeypatch.context() as patched:
        patched.setattr("memdb.opening.Database", functools.partial(Database, vfs="memdb-forgetful-reembed"))
        with memdb.open(path, encoder=OLD) as memory:
            memory.add(TALK[:5], session="s")
        before = everything(path)
        memory = opened(path, NEW)

        def remember(*, reported: bool = False) -> None:
            nonlocal seen
            seen += 1
            if reported or EVERY_FAULT or seen % 23 == 0:
                for state in disk.states(seed=seen):
                    kept = tuple(sorted((name, data) for name, data in state.items() if "-shm" not in name))
                    states[kept] = states.get(kept, False) or reported

        disk.after = remember
        memory.reembed()
        remember(reported=True)
        disk.after = lambda: None
        memory.close()
    disk.unregister()
    after = everything(path)
    assert len(states) > 15
    ends = set()
    for number, (files, reported) in enumerate(states.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files:
            (folder / name).write_bytes(content)
        switched = is_one_or_the_other(folder / path.name, before, after)
        assert switched or not reported
        ends.add(switched)
        reembed(folder / path.name)
        assert differing(folder / path.name, after) == []
        shutil.rmtree(folder)
    assert ends == {True, False}


def test_a_full_disk_leaves_the_vectors_there_were(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(talk)

    def full(connection: apsw.Connection, encoder: HashEncoder) -> None:
        raise apsw.FullError("no space left")

    with monkeypatch.context() as patched, opened(talk, NEW) as memory:
        patched.setattr("memdb.store.staging.switch", full)
        with pytest.raises(memdb.FileError, match="disk is full") as caught:
            memory.reembed()
        assert caught.value.retryable
    assert [table for table in VECTORS.split() if everything(talk)[table] != before[table]] == []

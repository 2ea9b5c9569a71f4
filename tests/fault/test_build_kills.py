"""A build that is killed, or whose disk fails, at any moment: every window is there or not, and going on ends
in the rows of a build that was left alone.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.store.connection import Database
from tests.fault.disks import FailingDisk
from tests.fault.test_faults import KINDS, attempt, copied, reset
from tests.scripted import TALK, differing, everything, reader

ROOT = Path(memdb.__file__).parents[1]
WINDOWS, CALLS = 3, 8  # two questions a window, one a trace
# A build in a process of its own that kills itself: at the n-th question, or before or after the n-th commit.
BUILDING = """
import os, signal, sys
import memdb
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.store.connection import Database
from tests.scripted import reads

moment, number = sys.argv[2], int(sys.argv[3])
counts = {"call": 0, "begin": 0, "commit": 0, "done": 0}

def count(what):
    counts[what] += 1
    if what == moment and counts[what] == number:
        os.kill(os.getpid(), signal.SIGKILL)

def script(turns, schema):
    count("call")
    return reads(turns, schema)

memory = memdb.open(sys.argv[1], encoder=HashEncoder(64))
writer = memory._database._writer

def traced(cursor, sql, bindings):
    if sql.startswith("BEGIN IMMEDIATE"):
        count("begin")
    elif sql.startswith("COMMIT"):
        count("commit")
    return True

writer.set_exec_trace(traced)
memory.build(ScriptedBackbone(script, parallel=int(sys.argv[4])), progress=lambda built: count("done"))
"""


@pytest.fixture
def talk(path: Path) -> Path:
    with memdb.open(path, encoder=HashEncoder(64)) as memory:
        memory.add(TALK[:11], session="s")
    return path


@pytest.fixture
def unbroken(talk: Path) -> dict[str, list[Any]]:
    path = Path(shutil.copy(talk, talk.with_name("unbroken")))
    with memdb.open(path, encoder=HashEncoder(64)) as memory:
        backbone = reader()
        memory.build(backbone)
        assert len(backbone.calls) == CALLS
    return everything(path)


MOMENTS = [
    ("call", 1, 1), ("call", 4, 2), ("call", 6, 1), ("call", 8, 1), ("begin", 2, 1), ("commit", 1, 1),
    ("commit", 3, 2), ("commit", 5, 1), ("done", 2, 1), ("done", 4, 2),
]  # fmt: skip


@pytest.mark.parametrize(("moment", "number", "parallel"), MOMENTS)
def test_a_build_that_is_killed_and_begun_again_ends_in_the_same_rows(
    talk: Path, unbroken: dict[str, list[Any]], moment: str, number: int, parallel: int
) -> None:
    command = [sys.executable, "-W", "error", "-c", BUILDING, str(talk), moment, str(number), str(parallel)]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    with memdb.open(talk, encoder=HashEncoder(64)) as memory:
        assert memory.verify().problems == ()
        states = [window.state for window in memory.windows()]
        assert states == sorted(states), "those that are done come first"
        if moment != "call":  # the model is asked ahead of what is written
            assert states.count("done") == min(WINDOWS, number - 1)
        memory.build(reader())
        assert memory.verify().problems == ()
    assert differing(talk, unbroken) == []


@pytest.fixture(params=KINDS, ids=["an i/o error once", "a full disk for good"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDisk]:
    disk = FailingDisk("memdb-failing-build", *request.param)
    monkeypatch.setattr("memdb.opening.Database", functools.partial(Database, vfs="memdb-failing-build"))
    yield disk
    disk.unregister()


STEPS = sorted({*range(1, 8), *range(8, 600, 23)})


def test_any_failing_change_of_a_file_while_a_window_is_written(
    disk: FailingDisk, talk: Path, tmp_path: Path
) -> None:
    before = talk.read_bytes()
    rules = everything(talk)
    with memdb.open(talk, encoder=HashEncoder(64)) as memory:
        memory.build(reader())
    after = everything(talk)
    failures = 0
    for number in STEPS:
        reset(talk, before)
        failed, succeeded = attempt(disk, number, lambda: build(talk))
        kept = copied(talk, tmp_path / "copy")
        with memdb.open(kept, encoder=HashEncoder(64)) as memory:
            assert memory.verify().problems == (), number
            done = [window.state == "done" for window in memory.windows()]
            assert done == sorted(done, reverse=True), number
            units = [bool(window.attempts) for window in memory.windows()]
            assert units == done, "a window is done with all of its rows, or not at all"
            memory.build(reader())
            assert memory.verify().problems == (), number
        assert differing(kept, after) == [], number
        assert everything(kept)["message"] == rules["message"]
        failures += not succeeded
        if not failed:
            assert succeeded
            assert failures > 3
            return
    pytest.fail("still failing after the last step")


def build(path: Path) -> None:
    with memdb.open(path, encoder=HashEncoder(64)) as memory:
        memory.build(reader())


def test_an_object_lives_through_a_failing_build(disk: FailingDisk, talk: Path) -> None:
    """The same object goes on after the failure, and finds what was written."""
    with memdb.open(talk, encoder=HashEncoder(64)) as memory:
        for number in (2, 5, 9, 14):
            failed, succeeded = attempt(disk, number, lambda: memory.build(reader()) and None)
            assert failed or succeeded
            assert memory.verify().problems == ()
        memory.build(reader())
        assert {window.state for window in memory.windows()} == {"done"}
        assert memory.verify().problems == ()


def test_the_trace_of_statements_sees_commits(talk: Path) -> None:
    """What the killed builds rest on: a transaction begins and ends with the statements they wait for."""
    seen: list[str] = []
    with memdb.open(talk, encoder=HashEncoder(64)) as memory:
        writer = memory._database._writer
        assert isinstance(writer, apsw.Connection)
        writer.set_exec_trace(lambda cursor, sql, bindings: seen.append(sql) is None)
        memory.build(reader())
        writer.set_exec_trace(None)
    assert seen.count("COMMIT") == seen.count("BEGIN IMMEDIATE") == WINDOWS + 2

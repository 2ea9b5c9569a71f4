"""What a process has to do before its first evidence: modules that it loads, and work that opening a file is.

Held on names and counts, not on times: `memdb bench speed --only cold` measures those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from memdb.store.connection import Database
from memdb.store.statements import statements

ROOT = Path(memdb.__file__).parents[1]
IMPORTED = 8  # modules of memdb that `import memdb` loads, at most
READING = 63  # that opening a file and asking it a question loads, at most
HEAVY = {"torch", "onnxruntime", "tokenizers", "numpy", "apsw", "rich", "click", "openai", "llama_cpp"}
BUILDING = {  # what builds memory and answers from it: not loaded to read
    *("memdb.construct.pipeline", "memdb.construct.plan", "memdb.construct.rules", "memdb.construct.build"),
    *("memdb.construct.segments", "memdb.generate.distill", "memdb.generate.respond", "memdb.store.verify"),
}
QUESTION = "Where does Ana live?"


def _loaded(program: str, *arguments: object) -> set[str]:
    command = [sys.executable, "-c", f"import sys, json\n{program}\nprint(json.dumps(list(sys.modules)))"]
    done = subprocess.run(
        [*command, *map(str, arguments)], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(json.loads(done.stdout))


def _ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "memdb"}


def test_importing_memdb_loads_little() -> None:
    modules = _loaded("import memdb")
    assert not HEAVY & modules
    assert len(_ours(modules)) <= IMPORTED, sorted(_ours(modules))


def test_a_question_loads_nothing_that_builds_or_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.memdb"
    with memdb.open(path, encoder=HashEncoder(32)) as memory:
        memory.add([Message("Ana", "I live in Oslo.")])
    program = (
        "import memdb\nfrom memdb.models.fakes import HashEncoder\n"
        "with memdb.open(sys.argv[1], read_only=True, encoder=HashEncoder(32)) as memory:\n"
        f"    assert memory.recall({QUESTION!r}, rerank_depth=0).evidence"
    )
    modules = _loaded(program, path)
    assert not modules & {"torch", "onnxruntime", "tokenizers", "rich", "click", "logging"}
    assert not modules & BUILDING
    assert len(_ours(modules)) <= READING, sorted(_ours(modules))


class _Counting(apsw.VFS):
    """Counts what is read of databases, in pages or parts of them, and in bytes."""

    def __init__(self) -> None:
        super().__init__("memdb-counting", "")
        self.reads = self.bytes = 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _CountingFile(self, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(self, disk: _Counting, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk

    def xRead(self, amount: int, offset: int) -> bytes:
        self.disk.reads += 1
        self.disk.bytes += amount
        return super().xRead(amount, offset)


@pytest.fixture
def disk() -> Iterator[_Counting]:
    counting = _Counting()
    yield counting
    counting.unregister()


def _file(path: Path, messages: int) -> Path:
    with memdb.open(path, encoder=HashEncoder(32)) as memory:
        for start in range(0, messages, 50):
            said = [Message(f"P{n % 7}", f"I saw the film number {n}.") for n in range(start, start + 50)]
            memory.add(said, session=f"s{start}")
    return path


def test_opening_does_the_same_for_every_size_of_file(
    disk: _Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = lambda cursor, sql, values: ran.append(sql) is None

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    opened = []
    for messages in (50, 1_000):
        path = _file(tmp_path / f"{messages}.memdb", messages)
        monkeypatch.setattr(
            "memdb.opening.Database", lambda *given, **more: Database(*given, **more, vfs="memdb-counting")
        )
        ran.clear()
        disk.reads = disk.bytes = 0
        memdb.open(path, encoder=HashEncoder(32)).close()
        opened.append((list(ran), disk.reads, disk.bytes))
        monkeypatch.setattr("memdb.opening.Database", Database)
    small, large = opened
    assert small[0] == large[0] != []
    assert 0 < large[1] <= small[1]
    assert 0 < large[2] <= small[2]


def test_every_statement_is_short_enough_to_be_kept_prepared() -> None:
    most = apsw.Connection(":memory:").cache_stats()["max_cacheable_bytes"]
    assert {name: len(sql) for name, sql in statements().items() if len(sql.encode()) > most} == {}

"""The results file: one SQLite database to which every run adds itself and its questions."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
from collections.abc import Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Final

import apsw
import msgspec

import memdb
from memdb import settings

from ..results_file import ResultsFile, insert
from .evaluate import Outcome
from .scoring import Answered

_SQL: Final = resources.files(__package__)
FILE: Final = ResultsFile(
    application_id=0x6D656262,  # "mebb"
    steps=tuple(_SQL.joinpath(name).read_text("utf-8") for name in ("results.sql", "answers.sql")),
    what="quality results",
)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run took place."""

    processor: str
    cores: int
    system: str
    python: str
    sqlite: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `run`: what was measured, with what, on what, where."""

    benchmark: str
    started_at: str
    memdb_version: str
    code_sha256: str
    settings: dict[str, int | float | str]
    options: dict[str, str | int | None]
    models: dict[str, str]
    data_sha256: str
    machine: Machine
    tokenizer: str
    conversations: int
    messages: int
    questions: int
    unscored: int
    add_seconds: float
    seconds: float


def now() -> str:
    """This moment in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def code_sha256() -> str:
    """Hex digest of memdb's source, SQL and model cards, names included: a version has many states."""
    root = Path(memdb.__file__).parent
    files = sorted(
        file
        for suffix in ("py", "sql", "json")
        for file in root.rglob(f"*.{suffix}")
        if "benchmarks" not in file.relative_to(root).parts
    )
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def memdb_settings() -> dict[str, int | float | str]:
    """Every public constant of memdb.settings."""
    return {
        name: value
        for name, value in vars(settings).items()
        if name.isupper() and isinstance(value, (int, float, str))
    }


def machine() -> Machine:
    """This machine: the cores are those this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        processor=_processor(),
        cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
    )


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def append(path: Path, facts: Facts, outcomes: Sequence[Outcome], answered: Sequence[Answered] = ()) -> int:
    """Add a run, its questions and its answers, all or nothing; the run's number."""
    with closing(FILE.open(path)) as connection, connection:
        run = insert(connection, "run", msgspec.to_builtins(facts))
        for outcome in outcomes:
            insert(connection, "question", {"run": run, **msgspec.to_builtins(outcome)})
        for one in answered:
            insert(connection, "answer", {"run": run, **msgspec.to_builtins(one)})
    return run

"""The results file of speed runs: one SQLite database to which every run adds itself and its figures."""

from __future__ import annotations

from contextlib import closing
from importlib import metadata, resources
from pathlib import Path
from typing import Final

import apsw
import msgspec

from memdb.version import __version__

from ..quality.errors import BenchmarkError
from ..quality.results import BUSY_TIMEOUT_MS, Machine, code_sha256, insert, machine, memdb_settings
from .measured import Found

APPLICATION_ID: Final = 0x6D657370  # "mesp"
FORMAT: Final = 1
LIBRARIES: Final = (
    *("apsw", "sqlite-vec", "numpy", "onnxruntime", "tokenizers"),
    *("faiss-cpu", "usearch", "hnswlib", "bm25s", "tantivy", "lancedb"),
)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `run`: what was measured, with what, where."""

    started_at: str
    options: dict[str, str | int | None]
    models: dict[str, str]
    seconds: float
    memdb_version: str = __version__
    code_sha256: str = msgspec.field(default_factory=code_sha256)
    settings: dict[str, int | float | str] = msgspec.field(default_factory=memdb_settings)
    libraries: dict[str, str] = msgspec.field(default_factory=lambda: versions(LIBRARIES))
    machine: Machine = msgspec.field(default_factory=machine)


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of those libraries that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _open(path: Path) -> apsw.Connection:
    """The results file, made if it is not there. Raises BenchmarkError for a file that is something else."""
    try:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        with connection:
            if connection.pragma("application_id") == 0 and not connection.pragma("schema_version"):
                connection.execute(resources.files(__package__).joinpath("results.sql").read_text("utf-8"))
                connection.pragma("application_id", APPLICATION_ID)
                connection.pragma("user_version", FORMAT)
            mark = connection.pragma("application_id"), connection.pragma("user_version")
    except apsw.Error as error:
        raise BenchmarkError(f"{path}: {error}", hint="name another results file with --out") from error
    if mark != (APPLICATION_ID, FORMAT):
        connection.close()
        raise BenchmarkError(f"{path} is not a file of speed results", hint="name another with --out")
    return connection


def check(path: Path) -> None:
    """Raise BenchmarkError now rather than after the run if results cannot be kept in `path`."""
    _open(path).close()


def append(path: Path, facts: Facts, found: Found) -> int:
    """Add a run and its figures, all or nothing; the run's number."""
    with closing(_open(path)) as connection, connection:
        run = insert(connection, "run", msgspec.to_builtins(facts))
        for table, rows in (("measured", found.measured), ("held", found.held), ("skipped", found.skipped)):
            for row in rows:
                insert(connection, table, {"run": run, **msgspec.to_builtins(row)})
    return run

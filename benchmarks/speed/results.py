"""The results file of speed runs: one SQLite database to which every run adds itself and its figures."""

from __future__ import annotations

from contextlib import closing
from importlib import metadata, resources
from pathlib import Path
from typing import Final

import msgspec

from memdb.version import __version__

from ..quality.results import Machine, code_sha256, machine, memdb_settings
from ..results_file import ResultsFile, insert
from .measured import Found

FILE: Final = ResultsFile(
    application_id=0x6D657370,  # "mesp"
    steps=(resources.files(__package__).joinpath("results.sql").read_text("utf-8"),),
    what="speed results",
)
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


def append(path: Path, facts: Facts, found: Found) -> int:
    """Add a run and its figures, all or nothing; the run's number."""
    with closing(FILE.open(path)) as connection, connection:
        run = insert(connection, "run", msgspec.to_builtins(facts))
        for table, rows in (("measured", found.measured), ("held", found.held), ("skipped", found.skipped)):
            for row in rows:
                insert(connection, table, {"run": run, **msgspec.to_builtins(row)})
    return run

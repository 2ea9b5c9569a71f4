"""The programs of native/fuzz over their seeds, and random changes of these, under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

NATIVE: Final = Path(__file__).parents[2] / "native"
RUNS: Final = {"fuzz_arguments": 20, "fuzz_index": 20, "fuzz_lexical": 300, "fuzz_scan": 10}
FLAGS: Final = ["-std=c11", "-O1", "-g", "-ffp-contract=off", "-DSQLITE_CORE", f"-I{NATIVE}"]
SANITIZERS: Final = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiled(folder: Path, *arguments: str | Path) -> None:
    """Run the compiler in a folder; where it lacks a library the test is skipped."""
    command = ["cc", *FLAGS, *SANITIZERS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if "cannot find -l" in done.stderr or "sqlite3ext.h: No such file" in done.stderr:
        pytest.skip("SQLite's library or the sanitizers are not installed")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what all programs are linked with."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is not installed")
    folder = tmp_path_factory.mktemp("objects")
    compiled(folder, "-c", NATIVE / "fuzz/tables.c", NATIVE / "fuzz/inputs.c", *NATIVE.glob("*.c"))
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_seeds_and_changes_of_them(name: str, objects: Path) -> None:
    source = NATIVE / "fuzz" / f"{name}.c"
    compiled(objects, source, *objects.glob("*.o"), "-o", objects / name, "-lsqlite3", "-lm")
    seeds = sorted(str(path) for path in (NATIVE / "fuzz/corpus" / name).iterdir())
    done = subprocess.run(
        [str(objects / name), f"-runs={RUNS[name]}", *seeds],
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(seeds) * (1 + RUNS[name])} inputs\n"

"""The programs of native/fuzz over their seeds, and random changes of these, under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
RUNS = {"fuzz_arguments": 20, "fuzz_index": 20, "fuzz_lexical": 300, "fuzz_scan": 10}


@pytest.mark.parametrize("name", RUNS)
def test_seeds_and_changes_of_them(name: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is not installed")
    sources = [NATIVE / "fuzz" / f"{name}.c", NATIVE / "fuzz/tables.c", NATIVE / "fuzz/inputs.c"]
    flags = ["-std=c11", "-O1", "-g", "-ffp-contract=off", "-DSQLITE_CORE", f"-I{NATIVE}"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    files = [str(path) for path in (*sources, *NATIVE.glob("*.c"))]
    command = ["cc", *flags, *sanitizers, *files, "-o", str(tmp_path / name), "-lsqlite3", "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find -l" in built.stderr or "sqlite3ext.h: No such file" in built.stderr:
        pytest.skip("SQLite's library or the sanitizers are not installed")
    assert built.returncode == 0, built.stderr
    seeds = sorted(str(path) for path in (NATIVE / "fuzz/corpus" / name).iterdir())
    done = subprocess.run(
        [str(tmp_path / name), f"-runs={RUNS[name]}", *seeds],
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(seeds) * (1 + RUNS[name])} inputs\n"

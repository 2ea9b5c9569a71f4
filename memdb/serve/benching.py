"""Where the benchmarks are: inside an installed memdb, or beside its folder in a checkout."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

from memdb.errors import InputError

PACKAGE = Path(__file__).parents[1]


def find_bench(package: Path = PACKAGE) -> Callable[..., int]:
    """The function `bench` of the quality benchmarks. Raises `InputError` where they are not installed."""
    if (package / "benchmarks" / "quality" / "run.py").is_file():
        module = importlib.import_module("memdb.benchmarks.quality.run")
    elif (package.parent / "benchmarks" / "quality" / "run.py").is_file():
        module = _from_checkout(package.parent)
    else:
        raise InputError(
            "the benchmarks are not installed", hint="install memdb-engine again, or use a checkout"
        )
    return cast(Callable[..., int], module.bench)


def _from_checkout(root: Path) -> ModuleType:
    """Import the top-level package `benchmarks` of this checkout, and no other of that name."""
    found = importlib.util.find_spec("benchmarks")
    if found is None or found.origin is None or Path(found.origin).resolve().parents[1] != root.resolve():
        sys.modules.pop("benchmarks", None)
        sys.path.insert(0, str(root))
    return importlib.import_module("benchmarks.quality.run")

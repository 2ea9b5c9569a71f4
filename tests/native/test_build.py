"""What the build makes of a copy of the sources: wheels with memdb0 and without, and a source distribution.

The models' weights are empty in the copy: packing them is all that would take long.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import memdb
from memdb.store import extensions

ROOT = Path(__file__).parents[2]
STALE = "memdb/memdb0.so"  # left in the sources by an earlier build in place
BUILT = ["memdb0.so", "memdb0.dylib", "memdb0.dll"]
# What an installation in place leaves where the sources are.
CACHED = ["*.cmake", ".cmake", "*.ninja", ".ninja*", "CMake[CFI]*", "Makefile", ".skbuild*"]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.onnx", *BUILT, *CACHED)
FOLDERS = ["memdb", "benchmarks", "native", "docs", "examples", "tests"]
FILES = [
    "pyproject.toml",
    "schema.sql",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    ".gitignore",
    "CONTRIBUTING.md",
]
Build = Callable[..., Path]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, with what lies about in one that was worked in."""
    if importlib.util.find_spec("scikit_build_core") is None:
        pytest.skip("scikit-build-core is not installed")
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not run from the sources")
    copy = tmp_path_factory.mktemp("sources")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=LEFT_OUT)
    for name in FILES:
        if (ROOT / name).is_file():  # not all are in a source distribution
            shutil.copy(ROOT / name, copy)
    for weights in (ROOT / "memdb").rglob("*.onnx"):
        (copy / weights.relative_to(ROOT)).touch()
    (copy / STALE).write_bytes(b"stale")
    (copy / "memdb" / "__pycache__").mkdir()
    (copy / "memdb" / "__pycache__" / "memory.pyc").touch()
    return copy


@pytest.fixture(scope="session")
def build(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Call a hook of the build backend in a process of its own; what it made."""

    def call(hook: str, **environment: str) -> Path:
        made = tmp_path_factory.mktemp("made")
        program = f"from scikit_build_core.build import {hook}; {hook}({str(made)!r})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=sources,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = made.iterdir()
        return path

    return call


@pytest.fixture(scope="session")
def wheel(build: Build) -> Path:
    """A wheel with memdb0. Skips where nothing can compile it."""
    if shutil.which("cmake") is None or shutil.which("cc") is None:
        pytest.skip("CMake or a C compiler is not installed")
    include = "#include <sqlite3ext.h>"
    tried = subprocess.run(["cc", "-E", "-"], input=include, text=True, capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("there is no sqlite3ext.h")
    return build("build_wheel")


@pytest.fixture(scope="session")
def pure_wheel(build: Build) -> Path:
    return build("build_wheel", CC=str(Path(sys.executable).parent / "no-compiler"))


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _packaged(sources: Path) -> set[str]:
    """The files of the package, by their names in a wheel."""
    files = {
        path.relative_to(sources).as_posix()
        for path in (sources / "memdb").rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("memdb0.")
    }
    benchmarks = {
        f"memdb/{path.relative_to(sources).as_posix()}"
        for path in (sources / "benchmarks").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    return files | benchmarks | {"memdb/schema.sql"}


def _without_metadata(names: set[str]) -> set[str]:
    return {name for name in names if ".dist-info/" not in name}


def test_a_wheel_holds_the_package_and_the_extension(wheel: Path, sources: Path) -> None:
    library = f"memdb/{extensions.native_library().name}"
    assert _without_metadata(_names(wheel)) == _packaged(sources) | {library}
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(library)[:4] != b"stal"
        assert archive.read("memdb/schema.sql") == (ROOT / "schema.sql").read_bytes()


def test_a_wheel_is_for_every_python_of_one_platform(wheel: Path) -> None:
    assert re.fullmatch(rf"memdb_engine-{re.escape(memdb.__version__)}-py3-none-(?!any)\w+\.whl", wheel.name)


def test_without_a_compiler_the_wheel_is_pure(pure_wheel: Path, sources: Path) -> None:
    assert pure_wheel.name == f"memdb_engine-{memdb.__version__}-py3-none-any.whl"
    assert _without_metadata(_names(pure_wheel)) == _packaged(sources)


def test_without_cmake_the_wheel_is_pure(build: Build, tmp_path: Path) -> None:
    assert build("build_wheel", PATH=str(tmp_path)).name.endswith("-py3-none-any.whl")


def test_a_wheel_that_is_built_from_sources_that_do_not_compile_is_pure(build: Build) -> None:
    assert build("build_wheel", CFLAGS="-Dsqlite3_value=7").name.endswith("-py3-none-any.whl")


def test_the_command_is_installed(pure_wheel: Path) -> None:
    with zipfile.ZipFile(pure_wheel) as archive:
        (points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "memdb = memdb.serve.cli:main" in archive.read(points).decode()
    assert [name for name in _names(pure_wheel) if name.endswith("licenses/LICENSE")]


def test_a_source_distribution_holds_what_builds_and_tests_it(build: Build, sources: Path) -> None:
    with tarfile.open(build("build_sdist")) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    expected = {
        path.relative_to(sources).as_posix()
        for name in FOLDERS
        for path in (sources / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert held - {"PKG-INFO"} == (expected | set(FILES)) - {STALE, "CONTRIBUTING.md"}
    assert {"native/CMakeLists.txt", "native/memdb0.c"} <= held


def test_an_installation_in_place_puts_the_extension_beside_the_sources(
    wheel: Path, build: Build, sources: Path
) -> None:
    library = sources / "memdb" / extensions.native_library().name
    made = build("build_editable")
    assert _without_metadata(_names(made)) == {
        "_editable_skbc_memdb_engine.pth",
        "_editable_skbc_memdb_engine.py",
    }
    with zipfile.ZipFile(made) as archive:
        assert str(sources) in archive.read("_editable_skbc_memdb_engine.pth").decode().split()
    assert library.read_bytes()[:4] != b"stal"


def test_both_sides_name_one_version() -> None:
    source = (ROOT / "native" / "memdb0.c").read_text("utf-8")
    found = re.search(r"^#define MEMDB0_VERSION (\d+)$", source, re.M)
    assert found is not None
    assert int(found[1]) == extensions.NATIVE_VERSION

"""SQLite extensions: sqlite-vec from its package, and memdb0, which searches faster, from ours.

memdb0 is a C library that an installation may lack. Then `load_native` says so, and sqlite-vec and FTS5
search, with the same results. What a connection was given is kept beside it as long as it lives.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import apsw
import msgspec

from memdb import errors

NATIVE_VERSION: Final = 2  # of the interface of memdb0 that the statements are written for
NATIVE_SWITCH: Final = "MEMDB_NATIVE"  # the variable of the environment that turns memdb0 off when it is "0"
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_FOLDER = Path(__file__).resolve().parents[1]  # memdb's own, and no other


class Native(msgspec.Struct, frozen=True):
    """Whether memdb0 searches on a connection: the vector instructions it uses, or why it does not."""

    simd: str = ""
    absent: str = ""

    def __bool__(self) -> bool:
        return not self.absent

    def __str__(self) -> str:
        if self:
            return f"memdb0 {NATIVE_VERSION} ({self.simd})"
        return f"sqlite-vec and FTS5 ({self.absent})"


_UNTRIED = Native(absent="memdb0 was not asked for")
_loaded: WeakKeyDictionary[apsw.Connection, Native] = WeakKeyDictionary()


def load_vectors(connection: apsw.Connection) -> None:
    """Load sqlite-vec from its package, and switch extension loading off again at once.

    The package is found, not imported: importing it costs thirty times as much as importing apsw.
    """
    library = os.path.join(_vectors_folder(), "vec0")
    with _loading(connection):
        connection.load_extension(library)


@cache
def _vectors_folder() -> str:
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise errors.ModelNotFound("sqlite-vec is not installed", hint="pip install sqlite-vec")
    return spec.submodule_search_locations[0]


def load_native(connection: apsw.Connection, wanted: bool | None = None) -> bool:
    """Load memdb0 if it is there and wanted; whether it searches now on this connection.

    It is looked for beside memdb's own modules only, and extension loading is switched off again at once. A
    library of another version is as none. `wanted` is what `MEMDB_NATIVE` says, if nothing else is said.
    Never raises for want of it: `native` tells the reason.
    """
    if wanted is None:
        wanted = os.environ.get(NATIVE_SWITCH) != "0"
    found = _load(connection, native_library()) if wanted else Native(absent="memdb0 is switched off")
    _loaded[connection] = found
    return bool(found)


def native(connection: apsw.Connection) -> Native:
    """What `load_native` found for this connection; true if memdb0 searches on it."""
    return _loaded.get(connection, _UNTRIED)


def native_library() -> Path:
    """Where the build puts memdb0, whether it did or not."""
    return _FOLDER / f"memdb0{_SUFFIX}"


def _load(connection: apsw.Connection, library: Path) -> Native:
    """Ask the library in an empty database first: any statement would read the file of this connection."""
    if not library.is_file():
        return Native(absent="memdb0 is not built")
    try:
        with contextlib.closing(apsw.Connection(":memory:")) as trial:
            _load_library(trial, library)
            version, simd = trial.execute("SELECT memdb0_version(), memdb0_simd()").fetchall()[0]
            if version != NATIVE_VERSION:
                return Native(absent=f"memdb0 is of version {version}, not {NATIVE_VERSION}: build it again")
            _load_library(connection, library)
    except apsw.Error as error:
        return Native(absent=f"memdb0 cannot be loaded: {error}")
    return Native(simd=str(simd))


def _load_library(connection: apsw.Connection, library: Path) -> None:
    with _loading(connection):
        connection.load_extension(str(library), "sqlite3_memdb0_init")


@contextlib.contextmanager
def _loading(connection: apsw.Connection) -> Iterator[None]:
    """While this lasts SQL can load libraries too: nothing else may run meanwhile."""
    connection.enable_load_extension(True)
    try:
        yield
    finally:
        connection.enable_load_extension(False)

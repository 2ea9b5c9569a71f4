"""Opening the one file: pragmas, extensions, hardening, one writer and many readers.

Writes go through `Database.atomic`, reads through `Database.reader`; both turn SQLite's errors into memdb's.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw
import msgspec
from apsw import Connection as Connection

from memdb import errors, settings
from memdb.language.slots import is_replaced, same_value
from memdb.language.terms import fold
from memdb.store import lengths
from memdb.store.extensions import Native
from memdb.store.extensions import load_native as load_native
from memdb.store.extensions import load_vectors as load_vectors
from memdb.store.extensions import native as native

T = TypeVar("T")
_MOST_REMEMBERED = 64  # results that `remembered` keeps for one connection
_READ_WRITE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


class Database:
    """The connections to one memory file: one writer behind a lock, readers lent from a pool.

    All methods may be called from any thread. `vfs` names an SQLite VFS (tests inject faults through it).
    `native` says whether memdb0 may search; where nothing is said, it may unless `MEMDB_NATIVE` is "0". The
    attribute of that name tells whether it does on the newest connection, and why not.
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str],
        *,
        read_only: bool = False,
        create: bool = True,
        busy_timeout_ms: int = settings.BUSY_TIMEOUT_MS,
        vfs: str | None = None,
        native: bool | None = None,
    ) -> None:
        self.path = Path(os.path.abspath(os.fsdecode(path)))
        if "\0" in str(self.path):
            raise errors.CannotOpen(f"{str(self.path)!r} holds a NUL", hint="choose another path")
        _require_regular(self.path)
        self._log = Path(os.path.realpath(self.path) + "-wal")
        self._pid = os.getpid()
        self._inode: tuple[int, int] | None = None
        self._log_inode: tuple[int, int] | None = None
        self.read_only = read_only
        self._busy_timeout_ms = busy_timeout_ms
        self._vfs = vfs
        self._want_native = native
        self.native = Native()
        self._immutable = False
        self._idle: list[apsw.Connection] = []
        self._remembered: dict[int, dict[Hashable, tuple[int, object]]] = {}
        self._mapped: set[int] = set()  # readers that map the file
        self._lock = threading.Condition()
        self._lent: Counter[int] = Counter()  # readers lent to each thread
        self._writing = threading.RLock()
        self._closed = False
        self._writer: apsw.Connection | None = None
        with self.translated():
            if read_only:
                self._open_for_reading()
            else:
                self._writer = self._connect(_READ_WRITE if create else apsw.SQLITE_OPEN_READWRITE)
        self._inode = _inode(self.path)

    def _open_for_reading(self) -> None:
        """Try a plain read-only connection; a file in a folder that cannot be written needs `immutable`.

        SQLite cannot make the shared-memory file of a WAL database there; without a WAL nothing can change
        either.
        """
        try:
            self._idle.append(self._checked_reader())
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not self.path.is_file() or (self._log.exists() and self._log.stat().st_size):
                raise
            self._immutable = True
            self._idle.append(self._checked_reader())

    def _checked_reader(self) -> apsw.Connection:
        connection = self._connect(apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except apsw.Error:
            connection.close()
            raise
        return connection

    def _bare(self, flags: int) -> apsw.Connection:
        """A connection as SQLite makes it. The path stands in a URI, each byte of it escaped."""
        uri = "file:" + "".join(f"%{byte:02X}" for byte in os.fsencode(self.path))
        uri += "?immutable=1" if self._immutable else ""
        return apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI, vfs=self._vfs)

    def _connect(self, flags: int) -> apsw.Connection:
        connection = self._bare(flags)
        try:
            connection.set_busy_timeout(self._busy_timeout_ms)
            harden(connection)
            load_vectors(connection)
            load_native(connection, self._want_native)
            self.native = native(connection)
            keep_plans(connection)
            add_functions(connection)
            limit_cache(connection, settings.CACHE_KIB if flags & _READ_WRITE else settings.READER_CACHE_KIB)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def atomic(self) -> Iterator[apsw.Connection]:
        """One write transaction: all of it is durable when the block ends, or none of it happened.

        Raises `ReadOnly`, `Closed`, `Locked` (another process writes longer than the busy timeout),
        `StorageFailed`.
        """
        with self._writing:
            connection = self._require_writer()
            with self.translated():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._require_same()
                    yield connection
                    lengths.settle(connection)
                    connection.execute("COMMIT")
                    self._inode = self._inode or _inode(self.path)
                    self._log_inode = _inode(self._log)
                except BaseException:
                    lengths.forget(connection)
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other threads of this object from writing, from planning a write to its end."""
        with self._writing:
            self._require_writer()
            yield

    @contextlib.contextmanager
    def writer_setup(self) -> Iterator[apsw.Connection]:
        """The writer outside a transaction, for pragmas that cannot stand in one."""
        with self._writing, self.translated():
            yield self._require_writer()

    def remembered(self, connection: apsw.Connection, key: Hashable, load: Callable[[], T]) -> T:
        """What `load` returned for `key` when the file last changed, as seen by this connection."""
        version = int(connection.pragma("data_version"))
        with self._lock:
            memory = self._remembered.setdefault(id(connection), {})
            kept = memory.get(key)
        if kept is None or kept[0] != version:
            kept = (version, load())
            if len(memory) >= _MOST_REMEMBERED:
                memory.clear()
            memory[key] = kept
        return cast(T, kept[1])

    def _require_writer(self) -> apsw.Connection:
        self._require_open()
        if self._writer is None:
            raise errors.ReadOnly(f"{self.path} was opened for reading", hint="open it without read_only")
        return self._writer

    @contextlib.contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """A connection that sees one state of the file throughout the block, and never waits for a writer."""
        with self.translated():
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection)

    @contextlib.contextmanager
    def inspector(self) -> Iterator[apsw.Connection]:
        """As `reader`, on a connection that could write: SQLite examines CHECK constraints only there. It
        never maps the file, so that the cells of every page are checked.
        """
        with self.translated():
            with self._lock:
                self._require_open()
            flags = apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE
            connection = self._connect(flags)
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()

    def _require_open(self) -> None:
        if self._closed:
            raise errors.Closed(f"{self.path} is closed", hint="open it again")
        self._require_same()

    def _require_same(self) -> None:
        """Refuse connections of another process, and a file that is no longer the one that was opened.

        SQLite would go on writing to a file that has lost its name, or mix its log into the one that took it.
        """
        if os.getpid() != self._pid:
            raise errors.Closed(f"{self.path} was opened before a fork", hint="open it in the new process")
        if self._inode is not None and _inode(self.path) != self._inode:
            raise errors.StorageFailed(
                f"{self.path} was replaced or removed while it was open", hint="close it and open it again"
            )

    def _borrow(self) -> apsw.Connection:
        with self._lock:
            self._require_open()
            self._lent[threading.get_ident()] += 1
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._connect(apsw.SQLITE_OPEN_READONLY)
            if id(connection) not in self._mapped and _bytes(self.path) >= settings.MAPPED_FROM_BYTES:
                map_file(connection)
                self._mapped.add(id(connection))
            return connection
        except BaseException:
            if connection is not None:
                connection.close()
            self._give_back(None)
            raise

    def _give_back(self, connection: apsw.Connection | None) -> None:
        with self._lock:
            self._lent -= Counter({threading.get_ident(): 1})
            self._lock.notify_all()
            if connection is not None and not self._closed:
                self._idle.append(connection)
                return
        if connection is not None:
            self._mapped.discard(id(connection))
            connection.close()

    def close(self) -> None:
        """Close all connections, once those that read have finished. Closing twice is allowed.

        The writer is closed last: the last connection to close a file folds its log into it.
        In a process that was forked from the one that opened the file nothing is touched.
        """
        if os.getpid() != self._pid:
            self._closed = True
            return
        with self._writing, self._lock:
            self._closed = True
            mine = threading.get_ident()
            self._lock.wait_for(lambda: not self._lent.keys() - {mine})
            idle, self._idle = self._idle, []
            writer, self._writer = self._writer, None
            self._remembered.clear()
        if not idle and writer is None:
            return
        with self.translated():
            for connection in idle:
                connection.close()
            if writer is not None:
                writer.close()
            elif not self._immutable:
                self._remove_empty_log()
        if _inode(self.path) != self._inode:
            self._set_orphan_log_aside()

    def _remove_empty_log(self) -> None:
        """A read-only connection leaves an empty log behind; one that could write takes it away."""
        if self._log.exists() and self._log.stat().st_size == 0 and os.access(self.path, os.W_OK):
            with (
                contextlib.suppress(apsw.Error),
                contextlib.closing(self._bare(apsw.SQLITE_OPEN_READWRITE)) as last,
            ):
                harden(last)
                last.execute("SELECT count(*) FROM sqlite_schema").fetchall()

    def _set_orphan_log_aside(self) -> None:
        """The log of a file that lost its name must not be read into the file that took it."""
        if self._log_inode is not None and _inode(self._log) == self._log_inode:
            self._log.replace(f"{self._log}.orphan")
            Path(f"{str(self._log).removesuffix('-wal')}-shm").unlink(missing_ok=True)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn SQLite's errors into memdb's, the original as the cause."""
        try:
            yield
        except apsw.Error as error:
            raise _translate(error, self.path) from error
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise errors.Damaged(
                f"{self.path} holds a row that cannot be read: {error}",
                hint="run memdb verify, or restore a backup",
            ) from error


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _bytes(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _require_regular(path: Path) -> None:
    """Refuse folders, devices, pipes and impossible names before SQLite touches them."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise errors.CannotOpen(f"{str(path)!r} cannot be opened: {error}", hint=_why_not(path)) from error
    if stat.S_ISDIR(mode):
        raise errors.CannotOpen(f"{path} cannot be opened", hint="it is a folder")
    if not stat.S_ISREG(mode):
        raise errors.NotAMemory(f"{path} is not a regular file", hint="choose another path")


def _translate(error: apsw.Error, path: Path) -> errors.MemdbError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return errors.Locked(
                f"{path} is being written by another process", hint="try again", retryable=True
            )
        case apsw.CantOpenError():
            return errors.CannotOpen(f"{path} cannot be opened", hint=_why_not(path))
        case apsw.NotADBError():
            return errors.NotAMemory(f"{path} is not a memory file", hint="choose another path")
        case apsw.CorruptError():
            return errors.Damaged(f"{path} is damaged: {error}", hint="restore a backup, or run memdb verify")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return errors.ReadOnly(
                f"{path} cannot be written", hint="check its permissions, or use read_only"
            )
        case apsw.FullError():
            return errors.StorageFailed(f"{path}: the disk is full", hint="free some space", retryable=True)
        case apsw.IOError() | apsw.NoMemError():
            return errors.StorageFailed(f"{path}: {error}", hint="check the disk", retryable=True)
        case _:
            return errors.Damaged(
                f"{path}: SQLite refused a statement: {error}",
                hint="run memdb verify; if it finds nothing, this is a bug of memdb",
            )


def _why_not(path: Path) -> str:
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent}"
    if not os.path.exists(path):
        return "there is no such file, or its folder cannot be written"
    return "check its permissions and those of its folder"


def harden(connection: apsw.Connection) -> None:
    """A file may come from a stranger: distrust its schema, and protect its shadow tables from SQL."""
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA secure_delete = ON")


def keep_plans(connection: apsw.Connection) -> None:
    """Compile a statement once, whatever is bound to it: else one that tests `:parameter` by itself is
    compiled again at each run, and for hybrid.sql that costs more than many a search.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def add_functions(connection: apsw.Connection) -> None:
    """What statements ask of the language; nothing in a file can call them. Of what is no text, NULL."""
    functions: dict[str, Callable[[str], str | bool]] = {
        "fold": fold,
        "same_value": same_value,
    }
    for name, function in functions.items():
        connection.create_scalar_function(
            name, _of_text(function), 1, deterministic=True, flags=apsw.SQLITE_DIRECTONLY
        )
    connection.create_scalar_function(
        "is_replaced", _is_replaced, 2, deterministic=True, flags=apsw.SQLITE_DIRECTONLY
    )


def _of_text(function: Callable[[str], str | bool]) -> Callable[..., str | int | None]:
    return lambda value: function(value) if isinstance(value, str) else None


def _is_replaced(*values: Any) -> int | None:
    predicate, numbered = values
    return is_replaced(predicate, bool(numbered)) if isinstance(predicate, str) else None


def limit_cache(connection: apsw.Connection, kib: int) -> None:
    """Bound the page cache, and keep sorts and temporary tables in memory."""
    connection.execute(f"PRAGMA cache_size = -{kib}")
    connection.execute("PRAGMA temp_store = MEMORY")


def map_file(connection: apsw.Connection) -> None:
    """Read a large file through memory that the operating system shares, as far as SQLite maps it: a search
    of a million vectors takes a third of the time. The file is never written through it. Where the disk fails
    under a page, the process gets SIGBUS in place of an error: small files are not worth that.

    The cells of a page would be checked each time it is come to, a third of the time of looking rows up: that
    is left to `memdb verify`. SQLite reads what is damaged without harm either way.
    """
    connection.execute(f"PRAGMA mmap_size = {settings.MAPPED_BYTES}")
    connection.execute("PRAGMA cell_size_check = OFF")


def log_ahead(connection: apsw.Connection) -> str:
    """Write-ahead log: readers never wait for the writer. Returns the mode the file system allowed."""
    return str(connection.execute("PRAGMA journal_mode = WAL").get)


def sync_every_commit(connection: apsw.Connection) -> None:
    """`synchronous = FULL`: a commit that was reported survives a power loss, not only a crash of the
    process.
    """
    connection.execute("PRAGMA synchronous = FULL")

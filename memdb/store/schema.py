"""The file format: creating it, recognising it, and bringing older files up to it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import apsw
import msgspec

from memdb import errors, settings
from memdb.store import codes
from memdb.store import connection as connections
from memdb.store.indexes import vector_scale
from memdb.store.statements import statement
from memdb.version import __version__

APPLICATION_ID = 0x6D656D64
FORMAT = 1

# Slots of a vec0 chunk; files that were made with the earlier number keep it until they are re-embedded.
_CHUNK, _EARLIER_CHUNK = "chunk_size=168", "chunk_size=512"

# MIGRATIONS[n] brings format n to n + 1 inside the caller's transaction. Format 1 is the first.
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {}


class Encodes(Protocol):
    """What a file records of an encoder."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def sha256(self) -> str:
        """Two encoders with one digest give one vector space."""
        ...

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What made a file: written when the file is created; its encoder again when it is re-embedded."""

    memdb_version: str
    encoder_name: str
    encoder_sha256: str
    encoder_dimension: int
    vector_scale: float
    settings: dict[str, float | int | str] = {}


def made_by(encoder: Encodes) -> Made:
    """What this version records in a file it makes with an encoder."""
    return Made(
        memdb_version=__version__,
        encoder_name=encoder.name,
        encoder_sha256=encoder.sha256,
        encoder_dimension=encoder.dimension,
        vector_scale=vector_scale(encoder.dimension),
        settings=settings.shaping(),
    )


@cache
def schema_sql() -> str:
    """The text of schema.sql: inside the installed package, or at the top of a checkout."""
    here = Path(__file__).resolve()
    for folder in (here.parents[1], here.parents[2]):
        path = folder / "schema.sql"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise errors.CannotOpen("schema.sql is missing from the installation", hint="install memdb-engine again")


def prepare(database: connections.Database, made: Made) -> Made:
    """What made the file: `made`, when it is empty and gets its tables now.

    Any other is checked, and one of an older format brought up to date.
    """
    if database.read_only:
        with database.reader() as connection:
            check(connection, database.path)
            return read_made(connection, database.path)
    with database.writer_setup() as connection:
        ready = not is_empty(connection) and not is_older(connection)
        if ready:
            check(connection, database.path)
        elif is_older(connection):
            back_up(connection, database.path)
        connections.log_ahead(connection)
        connections.sync_every_commit(connection)
        if ready:
            return read_made(connection, database.path)
    with database.atomic() as connection:
        if is_empty(connection):  # another process may have been faster
            create(connection, made)
        migrate(connection)
        check(connection, database.path)
        return read_made(connection, database.path)


def create(connection: apsw.Connection, made: Made) -> None:
    """Make the tables of the current format in an empty file, inside the caller's transaction."""
    connection.execute(schema_sql().replace("{dimension}", str(made.encoder_dimension)))
    values = msgspec.structs.asdict(made)
    values |= {"settings": json.dumps(made.settings, sort_keys=True), "traced_unit_id": 0}
    connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", sorted(values.items()))


def is_empty(connection: apsw.Connection) -> bool:
    """Whether the file holds nothing at all: then it may become a memory."""
    marks = (_pragma(connection, "application_id"), _pragma(connection, "user_version"))
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    return marks == (0, 0) and tables == 0


def check(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that is not ours, newer than we are, or that carries objects a memory does not have.

    Reads only the header and the schema, so it takes the same time for every size of file.
    """
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise errors.NotAMemory(f"{path} is not a memory file", hint="choose another path")
    found = _pragma(connection, "user_version")
    if found > FORMAT:
        raise errors.NewerFormat(
            f"{path} has format {found}, this memdb knows formats up to {FORMAT}", hint="upgrade memdb-engine"
        )
    if found < FORMAT:
        raise errors.FileError(
            f"{path} has format {found}, older than {FORMAT}",
            hint="open it once for writing, which brings it up to date",
        )
    if strange := foreign_objects(connection):
        raise errors.Damaged(
            f"{path} holds objects that no memory has: {', '.join(strange[:5])}",
            hint="do not use a file from somebody you do not trust",
        )


def foreign_objects(connection: apsw.Connection) -> list[str]:
    """Triggers, views, tables and indexes that the format does not have, or that are defined differently.

    Tables of codes may be missing: they only save time.
    """
    meta = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'meta'").get
    if meta != _table_meta():  # not read before it is known to be a plain table
        return ["table meta"]
    dimension = _dimension(connection)
    if not dimension:
        return ["table meta without encoder_dimension"]
    expected = _objects_of_format(dimension)
    known = expected | _objects_of_reembedding() | _objects_of_term_lengths()
    found = {
        f"{kind} {name}": sql
        for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema")
    }
    earlier = {key: sql and sql.replace(_CHUNK, _EARLIER_CHUNK) for key, sql in expected.items()}
    wrong = [key for key, sql in found.items() if sql not in (known.get(key, "?"), earlier.get(key, "?"))]
    missing = [f"missing {key}" for key in expected if key not in found and not key.endswith("_vector_code")]
    return sorted(wrong) + sorted(missing)


def _table_meta() -> str:
    """As SQLite keeps the statement that makes it."""
    _, start, rest = schema_sql().partition("CREATE TABLE meta (")
    return start + rest.partition(";")[0]


@cache
def _objects_of_format(dimension: int) -> dict[str, str | None]:
    return _objects(schema_sql().replace("{dimension}", str(dimension)))


@cache
def _objects_of_reembedding() -> dict[str, str | None]:
    """What stands beside them while a file is being re-embedded."""
    return _objects(statement("create_staged_vector"))


@cache
def _objects_of_term_lengths() -> dict[str, str | None]:
    """What stands beside the lexical indexes from the first writing on that knows of it."""
    return _objects(statement("create_term_lengths"))


def _objects(sql: str) -> dict[str, str | None]:
    reference = apsw.Connection(":memory:")
    try:
        connections.load_vectors(reference)
        reference.execute(sql)
        rows = reference.execute("SELECT type, name, sql FROM sqlite_schema")
        return {f"{kind} {name}": sql for kind, name, sql in rows}
    finally:
        reference.close()


def make_vector_tables(connection: apsw.Connection, dimension: int) -> None:
    """Make the tables of vectors anew, empty and for another dimension, inside the caller's transaction."""
    for key, sql in _objects_of_format(dimension).items():
        if sql is not None and " USING vec0 " in sql:
            connection.execute(f"DROP TABLE {key.removeprefix('table ')}")
            connection.execute(sql)
    codes.renew(connection)


def _dimension(connection: apsw.Connection) -> int:
    value = connection.execute("SELECT value FROM meta WHERE key = 'encoder_dimension'").get
    return value if isinstance(value, int) and 0 < value <= 8192 else 0


def is_older(connection: apsw.Connection) -> bool:
    """Whether the file is a memory of an older format that can be brought up to date."""
    marks = (_pragma(connection, "application_id"), _pragma(connection, "user_version"))
    return marks[0] == APPLICATION_ID and marks[1] < FORMAT and marks[1] in MIGRATIONS


def back_up(connection: apsw.Connection, path: Path) -> Path:
    """A consistent copy of the file beside it, named after its format; one that is there already is kept."""
    copy = path.with_name(f"{path.name}.format-{_pragma(connection, 'user_version')}")
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.part")
        part.unlink(missing_ok=True)
        target = apsw.Connection(str(part))
        try:
            with target.backup("main", connection, "main") as backup:
                backup.step(-1)
        finally:
            target.close()
        part.replace(copy)
    return copy


def migrate(connection: apsw.Connection) -> int:
    """Bring an older file to the current format, inside the caller's transaction; returns the steps taken."""
    steps = 0
    while (found := _pragma(connection, "user_version")) < FORMAT:
        MIGRATIONS[found](connection)
        connection.execute(f"PRAGMA user_version = {found + 1}")
        steps += 1
    return steps


def read_made(connection: apsw.Connection, path: Path) -> Made:
    """What made this file."""
    rows = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        values = {key: value for key, value in rows.items() if key in Made.__struct_fields__}
        values["settings"] = json.loads(str(rows.get("settings")))
        made = msgspec.convert(values, Made)
    except (msgspec.ValidationError, json.JSONDecodeError, RecursionError) as error:
        raise errors.Damaged(f"{path}: table meta is damaged: {error}", hint="restore a backup") from error
    if not math.isclose(made.vector_scale, vector_scale(made.encoder_dimension)):
        raise errors.Damaged(f"{path}: vector_scale is {made.vector_scale}", hint="restore a backup")
    return made


def read_settings(connection: apsw.Connection) -> dict[str, float | int | str]:
    """The settings that shape what the file holds. Raises `Damaged` for what is none."""
    told = connection.execute("SELECT value FROM meta WHERE key = 'settings'").get
    try:
        return msgspec.json.decode(str(told), type=dict[str, float | int | str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.Damaged(f"table meta is damaged: {error}", hint="restore a backup") from error


def change_settings(connection: apsw.Connection, **values: float | str) -> None:
    """Change settings that shape what the file holds, inside the caller's transaction."""
    changed = json.dumps({**read_settings(connection), **values}, sort_keys=True)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (changed,))


def has_vectors_of(connection: apsw.Connection, encoder: Encodes) -> bool:
    """Whether the file's vectors are of this encoder, in the state of the file this connection sees.

    To be asked in the very transaction that compares or writes vectors: another process may replace them.
    """
    return _encoder(connection) == (encoder.sha256, encoder.dimension)


def sees_vectors_of(database: connections.Database, reader: apsw.Connection, encoder: Encodes) -> bool:
    """The same for a connection that only reads, which looks again only when the file has changed."""
    found = database.remembered(reader, "encoder", lambda: _encoder(reader))
    return found == (encoder.sha256, encoder.dimension)


def _encoder(connection: apsw.Connection) -> tuple[object, object]:
    found = dict(connection.execute("SELECT key, value FROM meta WHERE key LIKE 'encoder_%'"))
    return found.get("encoder_sha256"), found.get("encoder_dimension")


def _pragma(connection: apsw.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").get)

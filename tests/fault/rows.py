"""Everything a memory file holds, in a form to compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memdb.store.connection import Database

_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name"
_SHADOWS = (
    "_config",
    "_content",
    "_data",
    "_docsize",
    "_idx",
    "_chunks",
    "_rowids",
    "_info",
    "_auxiliary",
    "_metadata",
)


def all_rows(path: Path) -> dict[str, list[Any]]:
    """Rows by table, vectors and the terms of the lexical indexes included; where they lie does not count."""
    database = Database(path, read_only=True)
    found: dict[str, list[Any]] = {}
    try:
        with database.inspector() as connection:
            for name, sql in connection.execute(_TABLES).fetchall():
                if any(shadow in name for shadow in _SHADOWS) or name.startswith("sqlite_"):
                    continue
                if "USING fts5" in sql:
                    instances = f"temp.{name}_rows"
                    connection.execute(
                        f"CREATE VIRTUAL TABLE {instances} USING fts5vocab(main, {name}, instance)"
                    )
                    found[name] = sorted(connection.execute(f"SELECT * FROM {instances}"))
                else:
                    found[name] = sorted(connection.execute(f"SELECT * FROM {name}"), key=repr)
    finally:
        database.close()
    return found

"""Results files: SQLite databases of a kind and a format, to which runs add themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import msgspec

from .quality.errors import BenchmarkError

BUSY_TIMEOUT_MS: Final = 10_000


class ResultsFile(NamedTuple):
    """One kind of results: its number in the file's header, and the SQL that leads from each format to the
    next one, from the empty file (0) on.
    """

    application_id: int
    steps: tuple[str, ...]
    what: str

    def open(self, path: Path) -> apsw.Connection:
        """The file, made if it is not there, and brought to the newest format.

        Raises BenchmarkError for a file that is something else.
        """
        try:
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            with connection:
                known = self._bring_up(connection)
        except apsw.Error as error:
            raise BenchmarkError(f"{path}: {error}", hint="name another results file with --out") from error
        if not known:
            connection.close()
            raise BenchmarkError(f"{path} is not a file of {self.what}", hint="name another with --out")
        return connection

    def check(self, path: Path) -> None:
        """Raise BenchmarkError now rather than after the run if results cannot be kept in `path`."""
        self.open(path).close()

    def _bring_up(self, connection: apsw.Connection) -> bool:
        """Take the steps that are missing; whether it is such a file."""
        number, done = connection.pragma("application_id"), connection.pragma("user_version")
        empty = number == 0 and not connection.pragma("schema_version")
        if not empty and number != self.application_id:
            return False
        if not (done == 0 if empty else 0 < done <= len(self.steps)):
            return False
        if done < len(self.steps):
            for sql in self.steps[done:]:
                connection.execute(sql)
            connection.pragma("application_id", self.application_id)
            connection.pragma("user_version", len(self.steps))
        return True


def insert(connection: apsw.Connection, table: str, row: Mapping[str, object]) -> int:
    """One row, lists and objects as JSON; its rowid where the table has one."""
    names = ", ".join(f'"{name}"' for name in row)
    places = ", ".join(f":{name}" for name in row)
    cells = {name: _cell(value) for name, value in row.items()}
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", cells)
    return connection.last_insert_rowid()


def _cell(value: object) -> str | int | float | None:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return msgspec.json.encode(value).decode()

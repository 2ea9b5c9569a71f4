"""Windows of construction work and what their checks refused, in and out of the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from memdb.records import Rejection, Scope, Window
from memdb.store.rows import RULES, reading_scope
from memdb.store.statements import statement


class Wanted(NamedTuple):
    """Which windows are to be built: by whom, of which scope (None: all) and session (None: all).

    With `exact` the scope is that one alone, not those within it. `full_messages` leaves out windows of fewer
    messages; `retry` takes windows that failed, `redo` also those that another maker has built.
    """

    made_by: str
    is_model: bool
    scope: Scope | None
    session: str | None = None
    source: str = ""
    exact: bool = False
    full_messages: int | None = None
    retry: bool = False
    redo: bool = False


class Work(NamedTuple):
    """One window as it stands; positions [first, end), new from `new` on."""

    session_id: int
    window_no: int
    first: int
    end: int
    new: int
    state: str
    made_by: str | None
    attempts: int
    scope_id: int
    session: str


def put_window(
    connection: apsw.Connection, session_id: int, window_no: int, bounds: tuple[int, int, int]
) -> None:
    """Store a window made by rules, or let it grow: its first position, its end, where it is new from."""
    first, end, new = bounds
    values = {"session_id": session_id, "window_no": window_no, "made_by": RULES}
    values |= {"first_position": first, "end_position": end, "new_position": new}
    connection.execute(statement("put_window"), values)


def to_build(connection: apsw.Connection, wanted: Wanted) -> list[Work]:
    """The windows to be built, in order."""
    values = reading_scope(wanted.scope) | wanted._asdict()
    del values["scope"]
    return [Work(*row) for row in connection.execute(statement("windows_to_build"), values)]


def count_failed(connection: apsw.Connection, wanted: Wanted) -> int:
    """How many windows of the scope and session stand as failed."""
    values = {**reading_scope(wanted.scope), "session": wanted.session, "source": wanted.source}
    return int(connection.execute(statement("count_failed"), values).get)


def work(connection: apsw.Connection, session_id: int, window_no: int) -> Work | None:
    """A window as it stands; None if there is none."""
    values = {"session_id": session_id, "window_no": window_no}
    row: Any = connection.execute(statement("window_to_build"), values).fetchone()
    return Work(*row) if row else None


def finish(connection: apsw.Connection, work: Work, made_by: str, *, is_model: bool) -> None:
    """Say that a window's units are now made by `made_by`."""
    values = {"session_id": work.session_id, "window_no": work.window_no, "made_by": made_by}
    connection.execute(statement("finish_window"), values | {"state": "done" if is_model else "rules"})


def fail(connection: apsw.Connection, work: Work, error: str) -> None:
    """Say that a window could not be built; its units stay."""
    values = {"session_id": work.session_id, "window_no": work.window_no, "error": error}
    connection.execute(statement("fail_window"), values)


def units_of(connection: apsw.Connection, work: Work) -> list[int]:
    """The units of a window."""
    found = connection.execute(statement("window_units"), (work.session_id, work.window_no))
    return [int(unit_id) for (unit_id,) in found]


def put_rejections(connection: apsw.Connection, work: Work, rejected: Sequence[Rejection]) -> None:
    """Store what the checks of a window refused, in place of what they had refused before."""
    connection.execute(statement("delete_rejections"), (work.session_id, work.window_no))
    connection.executemany(
        statement("insert_rejection"),
        [(work.session_id, work.window_no, one.stage, one.reason, one.detail) for one in rejected],
    )


def windows(
    connection: apsw.Connection, scope: Scope | None, session: str | None, source: str
) -> tuple[Window, ...]:
    """The windows a scope (None: everyone) sees, of one session or of all, with what was refused."""
    values = {**reading_scope(scope), "session": session, "source": source}
    row: Any
    found = []
    for row in connection.execute(statement("windows"), values):
        name, number, first, end, new, state, made_by, attempts, error, units, rejected = row
        found.append(
            Window(
                session=name, number=number, first=first, end=end, new=new, state=state, made_by=made_by,
                attempts=attempts, error=error, units=units,
                rejections=tuple(Rejection(*one) for one in json.loads(rejected)),
            )
        )  # fmt: skip
    return tuple(found)

"""Windows in and out of the file: which are to be built, and what is kept of a try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.errors import Damaged
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.records import Message, Rejection, Scope
from memdb.store import windows
from memdb.store.windows import Wanted
from tests.conftest import OpenMemory

RULES = "rules-3"


@pytest.fixture
def six(memory: memdb.Memory) -> memdb.Memory:
    """Sessions 1 to 7 of one message each, their windows in every state there is."""
    rows = [
        ("rules", RULES), ("rules", "rules-0"), ("done", "model a"), ("done", "model b"),
        ("pending", "model a"), ("failed", RULES), ("failed", "model b"),
    ]  # fmt: skip
    for number in range(len(rows)):
        memory.add([Message("Ana", "Hello.")], session=str(number + 1))
    with memory._database.atomic() as connection:
        for number, (state, made_by) in enumerate(rows, 1):
            connection.execute(
                "UPDATE window SET state = ?, made_by = ? WHERE session_id = ?", (state, made_by, number)
            )
    return memory


def chosen(memory: memdb.Memory, wanted: Wanted) -> list[int]:
    with memory._database.reader() as connection:
        found = windows.to_build(connection, wanted)
        for work in found:
            assert windows.work(connection, work.session_id, work.window_no) == work
    assert all((work.window_no, work.first, work.end, work.new) == (0, 0, 1, 0) for work in found)
    return [work.session_id for work in found]


@pytest.mark.parametrize(
    ("made_by", "options", "sessions"),
    [
        ("model a", {}, [1, 2, 5]),
        ("model a", {"retry": True}, [1, 2, 5, 6, 7]),
        ("model a", {"redo": True}, [1, 2, 4, 5, 6, 7]),
        ("model b", {"redo": True}, [1, 2, 3, 5, 6]),
        ("model b", {"redo": True, "retry": True}, [1, 2, 3, 5, 6, 7]),
        (RULES, {}, [2]),
        (RULES, {"retry": True}, [2]),
        (RULES, {"redo": True}, [2, 3, 4, 5, 7]),
    ],
)
def test_what_a_maker_has_to_do(
    six: memdb.Memory, made_by: str, options: dict[str, Any], sessions: list[int]
) -> None:
    wanted = Wanted(made_by, made_by != RULES, None, **options)
    assert chosen(six, wanted) == sessions


def test_what_is_asked_for_narrows_it(six: memdb.Memory, open_memory: OpenMemory) -> None:
    by = Wanted("model a", True, None)
    assert chosen(six, by._replace(session="5")) == [5]
    assert chosen(six, by._replace(session="5", source="elsewhere")) == []
    assert chosen(six, by._replace(full_messages=1)) == [1, 2, 5]
    assert chosen(six, by._replace(full_messages=2)) == []
    open_memory(scope=Scope("ana", "helper")).add([Message("Ana", "Hello.")], session="a")
    assert chosen(six, by) == [1, 2, 5, 8]
    for scope, sessions in [
        (Scope(), [1, 2, 5]),
        (Scope("ana"), [8]),
        (Scope(agent="helper"), [8]),
        (Scope("ana", "other"), []),
        (Scope("ben"), []),
    ]:
        assert chosen(six, by._replace(scope=scope)) == sessions


def test_a_try_is_counted_and_what_it_refused_replaces_what_the_last_one_did(six: memdb.Memory) -> None:
    with six._database.atomic() as connection:
        work = windows.work(connection, 1, 0)
        assert work is not None
        windows.put_rejections(
            connection, work, [Rejection("units", "dup", "b"), Rejection("units", "empty")]
        )
        windows.fail(connection, work, "broken")
    [window] = six.windows("1")
    assert (window.state, window.made_by, window.attempts, window.error) == ("failed", RULES, 1, "broken")
    assert window.rejections == (Rejection("units", "dup", "b"), Rejection("units", "empty", None))
    with six._database.atomic() as connection:
        windows.put_rejections(connection, work, [Rejection("indexes", "bad_id", '"]}')])
        windows.finish(connection, work, "model c", is_model=True)
    [window] = six.windows("1")
    assert (window.state, window.made_by, window.attempts, window.error) == ("done", "model c", 2, None)
    assert window.rejections == (Rejection("indexes", "bad_id", '"]}'),)
    with six._database.atomic() as connection:
        windows.finish(connection, work, RULES, is_model=False)
    assert six.windows("1")[0].state == "rules"


def test_a_window_that_is_not_there(six: memdb.Memory) -> None:
    with six._database.reader() as connection:
        assert windows.work(connection, 1, 1) is None
        assert windows.work(connection, 99, 0) is None


@pytest.mark.parametrize(
    ("session", "state", "made_by"),
    [(1, "rules", RULES), (2, "pending", "rules-0"), (3, "pending", "model a"), (5, "pending", "model a"),
     (6, "rules", RULES), (7, "pending", "model b")],
)  # fmt: skip
def test_a_window_that_grows_waits_for_who_made_it(
    six: memdb.Memory, session: int, state: str, made_by: str
) -> None:
    six.add([Message("Ben", "Hi.")], session=str(session))
    [window] = six.windows(str(session))
    assert (window.state, window.made_by, window.attempts, window.error) == (state, made_by, 0, None)
    assert (window.first, window.end, window.new) == (0, 2, 0)
    assert six.verify().problems == ()


def test_units_of_a_window_in_their_order(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", f"My cat number {n} is called Pepper.") for n in range(7)])
    with memory._database.reader() as connection:
        first, second = (windows.work(connection, 1, number) for number in (0, 1))
        assert first is not None
        assert second is not None
        assert windows.units_of(connection, first) == [1, 2, 3, 4, 5, 6]
        assert windows.units_of(connection, second) == [7]


def test_a_window_of_messages_that_are_not_there_is_a_problem_and_no_hang(path: Path) -> None:
    """A stranger's file: no constraint of the tables forbids it."""
    with memdb.open(path, encoder=HashEncoder(64)) as memory:
        memory.add([Message("Ana", "I moved to Rome.")])
        with memory._database.atomic() as connection:
            connection.execute("UPDATE window SET end_position = 9223372036854775807")
        assert "windows" in {problem.check for problem in memory.verify().problems}
        with pytest.raises(Damaged, match="messages that are not there"):
            memory.build(ScriptedBackbone())

"""The same questions to a memory with memdb0 and without it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import memdb
from memdb import Message
from memdb.records import Scope
from memdb.store.extensions import native
from tests.conftest import OpenMemory

NAMES = ("Ana", "Ben", "Cleo", "Dana")
PLACES = ("Oslo", "Rome", "Lima", "Cairo", "Quito")
DOINGS = ("moved to", "works in", "flew to", "misses", "lives in")


def history(count: int) -> Iterator[tuple[str, str, list[Message]]]:
    """(user, session, messages); many are said twice, so that vectors are equally near."""
    rng = np.random.default_rng(7)
    for session in range(count):
        said = []
        for day in range(1, 9):
            name, doing, place = (str(rng.choice(words)) for words in (NAMES, DOINGS, PLACES))
            text = f"{name} {doing} {place}." if rng.random() < 0.8 else "All is well."
            said.append(Message(name, text, f"2024-{session % 12 + 1:02}-{day:02}"))
        yield f"user {session % 2}", f"s{session}", said


QUESTIONS = [
    "Where does Ana live?",
    "Who moved to Rome?",
    "Did Ben miss Cairo in March 2024?",
    "Is all well?",
    "Who flew to Quito, Cleo or Dana?",
]


@pytest.fixture(params=[5, 40])
def both(
    request: pytest.FixtureRequest, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> tuple[memdb.Memory, memdb.Memory]:
    """One file, opened twice: memdb0 searches it, and it does not."""
    quick = open_memory()
    for user, session, said in history(request.param):
        quick.add(said, session=session, scope=Scope(user=user))
    return quick, opened_without(quick, open_memory, monkeypatch)


def opened_without(
    quick: memdb.Memory, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> memdb.Memory:
    """The file of `quick` once more, which memdb0 searches in there and not here."""
    with quick.reader.database.reader() as connection:
        if not native(connection):
            pytest.skip(str(native(connection)))
    monkeypatch.setenv("MEMDB_NATIVE", "0")
    slow = open_memory()
    for memory, searches in ((quick, True), (slow, False)):
        with memory.reader.database.reader() as connection:
            assert bool(native(connection)) is searches
    return slow


@pytest.mark.parametrize("scope", [None, Scope(user="user 1"), Scope(user="nobody")])
@pytest.mark.parametrize("as_of", [None, "2024-06-03"])
def test_questions_have_the_same_answers(
    both: tuple[memdb.Memory, memdb.Memory], scope: Scope | None, as_of: str | None
) -> None:
    quick, slow = both
    for question in QUESTIONS:
        for k in (3, 50):
            found, expected = (one.recall(question, k, scope=scope, as_of=as_of) for one in both)
            assert found == expected
        assert quick.trace(question, scope=scope) == slow.trace(question, scope=scope)


def test_what_is_written_does_not_depend_on_it(
    open_memory: OpenMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces and links of segments rest on what is found near."""
    contents = []
    for switch in ("1", "0"):
        monkeypatch.setenv("MEMDB_NATIVE", switch)
        memory = open_memory(tmp_path / f"{switch}.memdb")
        for user, session, said in history(12):
            memory.add(said, session=session, scope=Scope(user=user))
        with memory.reader.database.reader() as connection:
            tables = ("trace", "trace_unit", "segment", "segment_link")
            contents.append([connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables])
    assert contents[0] == contents[1]
    assert all(contents[0][:3])


@pytest.mark.parametrize("said", ["{}.", "Ana likes {}.", "Ana moved to Oslo with {}."])
def test_many_that_are_equally_near(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Hundreds of texts with one vector: of those for which there is no place the same are left out."""
    quick = open_memory()
    orders = [" ".join(words) for words in permutations("red green blue black white pink".split())][:400]
    told = [Message(NAMES[n % 4], said.format(words), "2024-03-01") for n, words in enumerate(orders)]
    for start in range(0, len(told), 100):
        quick.add(told[start : start + 100], session=f"s{start % 3}")
    slow = opened_without(quick, open_memory, monkeypatch)
    for question in ("Red and green?", "What colours does Ana like?", "Who moved to Oslo in March 2024?"):
        for k in (5, 150):
            found, expected = (one.recall(question, k) for one in (quick, slow))
            assert found == expected
        assert quick.trace(question) == slow.trace(question)

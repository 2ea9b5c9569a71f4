"""Adding: one transaction, planned before it opens, planned anew when somebody else was faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import memdb
from memdb.construct import pipeline
from memdb.errors import Locked, ModelError
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from tests.conftest import OpenMemory


class Watched(HashEncoder):
    """A fake encoder that tells what it is given, and does something meanwhile."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def encode(self, texts: Sequence[str], **kind: Any) -> np.ndarray:
        self.texts += texts
        self.meanwhile()
        return super().encode(texts, **kind)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def memory(open_memory: OpenMemory, watched: Watched) -> memdb.Memory:
    return open_memory(encoder=watched)


def test_the_encoder_runs_before_the_write_lock_is_taken(
    memory: memdb.Memory, open_memory: OpenMemory, watched: Watched
) -> None:
    other = open_memory(busy_timeout_ms=1)
    written: list[int] = []
    watched.meanwhile = lambda: written.append(other.add([Message("Ben", "me first")], session="t").stored)
    assert memory.add([Message("Ana", "My cat is called Pepper.")]).stored == 1
    assert len(written) >= 1
    assert set(written) == {1}
    assert memory.verify().ok


def test_threads_of_one_object_wait_from_planning_on(memory: memdb.Memory, watched: Watched) -> None:
    """So that sixteen of them cannot make each other plan anew for ever."""
    free: list[bool] = []

    def look() -> None:
        lock = memory._database._writing
        free.append(lock.acquire(blocking=False))
        if free[-1]:
            lock.release()

    def meanwhile() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    watched.meanwhile = meanwhile
    memory.add([Message("Ana", "My cat is called Pepper.")])
    assert free
    assert not any(free)


def test_a_plan_that_became_old_is_made_anew(
    memory: memdb.Memory, open_memory: OpenMemory, watched: Watched
) -> None:
    other = open_memory()
    late = [Message("Ben", f"late {n}", id=f"late {n}") for n in range(3)]

    def once() -> None:
        if late:
            other.add([late.pop()])

    watched.meanwhile = once
    added = memory.add(
        [Message("Ana", "My cat is called Pepper.", id="a"), Message("Ana", "again", id="late 0")]
    )
    ids = [m.id for m in memory.messages("default")]
    assert ids[:3] == ["late 2", "late 1", "late 0"]
    assert (ids[3:], added.stored, added.known, added.conflicts) == (["a"], 1, 1, ("late 0",))
    assert memory.verify().ok


def test_somebody_who_is_always_faster_is_locked_out_in_the_end(
    memory: memdb.Memory, open_memory: OpenMemory, watched: Watched
) -> None:
    other = open_memory(busy_timeout_ms=1)
    refused: list[Locked] = []

    def faster() -> None:
        try:
            other.add([Message("Ben", "me first")])
        except Locked as error:
            refused.append(error)

    watched.meanwhile = faster
    assert memory.add([Message("Ana", "hello there")]).stored == 1
    assert refused
    assert all(error.retryable for error in refused)
    watched.meanwhile = lambda: None
    stored = memory.messages("default")
    assert stored[-1].speaker == "Ana"
    assert len(stored) > pipeline._TRIES
    assert memory.verify().ok


def test_an_encoder_that_fails_leaves_nothing(memory: memdb.Memory, watched: Watched) -> None:
    memory.add([Message("Ana", "before")])

    def fail() -> None:
        raise ModelError("out of memory")

    watched.meanwhile = fail
    with pytest.raises(ModelError, match="out of memory"):
        memory.add([Message("Ana", "after")])
    watched.meanwhile = lambda: None
    assert len(memory.messages("default")) == 1
    assert memory.verify().ok


@pytest.mark.parametrize("bad", [np.nan, 0.0])
def test_a_vector_without_a_direction_leaves_nothing(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    monkeypatch.setattr(
        Watched, "encode", lambda self, texts, **kind: np.full((len(texts), 64), bad, np.float32)
    )
    with pytest.raises(ModelError, match="not finite, or zero"):
        memory.add([Message("Ana", "hello")])
    assert memory.sessions() == ()


@pytest.mark.parametrize("table", ["message", "window", "speaker", "unit", "unit_label"])
def test_an_error_in_the_middle_of_a_write_leaves_nothing(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    memory.add([Message("Ana", "My dog is called Salt.", id="a")])
    before = memory.about().counts
    names = {
        "message": "rows.put_message",
        "window": "windows.put_window",
        "speaker": "rows.count_speakers",
        "unit": "indexes.put_unit_vector",
        "unit_label": "rows.put_unit_label",
    }

    class Broken(Exception):
        pass

    def fail(*args: object) -> None:
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr(f"memdb.store.{names[table]}", fail)
        with pytest.raises(Broken):
            memory.add([Message("Ana", "My cat is called Pepper.", id="b")])
    assert memory.about().counts == before
    assert memory.verify().ok
    assert memory.add([Message("Ana", "My cat is called Pepper.", id="b")]).stored == 1


def test_only_what_is_new_is_encoded(memory: memdb.Memory, watched: Watched) -> None:
    said = [Message("Ana", f"My cat number {n} is called Pepper.", id=str(n)) for n in range(8)]
    memory.add(said)
    once = list(watched.texts)
    assert len(set(once)) <= len(once)
    watched.texts.clear()
    memory.add(said)
    assert watched.texts == []
    memory.add([*said, Message("Ben", "My dog is called Salt.", id="new")])
    assert any("Salt" in text for text in watched.texts)
    assert not any("number" in text for text in watched.texts)


def test_a_label_is_encoded_once_in_a_file(memory: memdb.Memory, watched: Watched) -> None:
    memory.add([Message("Ana", "My cat is called Pepper.")], session="s")
    watched.texts.clear()
    memory.add([Message("Ana", "My cat is called Pepper.")], session="t")
    assert len(watched.texts) == 3, "the message, the claim and its triple"
    counts = memory.about().counts
    assert counts["labels"] == counts["label_vectors"]


@pytest.mark.parametrize("length", [1, 2, 6, 7, 10, 11, 23])
@pytest.mark.parametrize("step", [1, 3, 23])
def test_windows_units_and_numbers_after_any_steps(memory: memdb.Memory, length: int, step: int) -> None:
    said = [Message("Ana", f"My cat number {n} is called Pepper.") for n in range(length)]
    for first in range(0, length, step):
        memory.add(said[first : first + step])
    verification = memory.verify()
    assert verification.problems == ()
    assert verification.counts["units"] == length
    assert verification.counts["windows"] == (1 if length <= 6 else 1 + -(-(length - 6) // 4))


def test_the_last_message_is_found_by_what_follows_it(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "Look at this one.")])
    assert len(memory.recall("zebra", channels=["message_lexical"])) == 0
    memory.add([Message("Ben", "A zebra.")])
    found = memory.recall("zebra", channels=["message_lexical"])
    assert [evidence.text for evidence in found] == ["A zebra.", "Look at this one."]
    assert memory.verify().ok

"""Thresholds that keep to a target: counted again from the segments of the file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import memdb
from memdb import errors, settings
from memdb.activate.working_memory import estimated_tokens
from memdb.construct import calibrate
from memdb.construct.calibrate import LARGEST_GROUP, TAU1, TAU2, _largest
from memdb.records import Calibrated, Message, Scope
from tests import segmented
from tests.conftest import OpenMemory
from tests.encoders import Attentive, Turned

SOUNDS = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()
TOPICS = [[sound + other + sound for other in SOUNDS] for sound in SOUNDS]


def talk(seed: int, count: int) -> list[Message]:
    """Some messages about a topic, then some about another."""
    draw = random.Random(seed)
    said: list[str] = []
    while len(said) < count:
        topic = draw.choice(TOPICS)
        said += [" ".join(draw.sample(topic, 7)) for _ in range(draw.randint(1, 5))]
    return [Message("Ana", text) for text in said[:count]]


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    memory = open_memory(encoder=Attentive(64), scope="*")
    for number in range(4):
        memory.add(talk(number, 40 + number), session=str(number), scope=Scope(None))
    return memory


def told(path: Path, k: int) -> float:
    """Mean tokens of what the `k` messages nearest to each message of a file lead to."""
    held = segmented.held(path)
    talks = segmented.talks(path)
    codes = [np.frombuffer(code or b"", np.int8).astype(float) for one in talks for code in one.codes]
    unit = np.stack([code / np.linalg.norm(code) for code in codes])
    tokens = {
        (one.user, one.session, at): estimated_tokens(text)
        for one in talks
        for at, text in enumerate(one.texts)
    }
    names = [
        name
        for user, session, at in tokens
        for name, (first, last, _) in held.spans.items()
        if name[:2] == (user, session) and first <= at <= last
    ]
    sizes: dict[segmented.Name, int] = {}
    for name, size in zip(names, tokens.values(), strict=True):
        sizes[name] = sizes.get(name, 0) + size
    counts = []
    for at, cosines in enumerate(unit @ unit.T):
        cosines[at] = -2
        direct = {names[other] for other in np.argsort(-cosines, kind="stable")[:k]}
        linked = {other for one, other in held.links if one in direct}
        counts.append(sum(sizes[one] for one in direct | linked))
    return float(np.mean(counts))


@pytest.mark.parametrize("rule", ["valley", "sim", "and"])
def test_thresholds_are_the_least_that_keep_to_the_target(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(settings, "CALIBRATION_QUESTIONS", 1_000)
    memory.rebuild_segments(rule=rule)
    k, target = 5, 200
    found = memory.calibrate(target, k=k)
    held = segmented.held(memory.path)
    assert held == segmented.expected(memory.path, rule, found.threshold, found.link_threshold)
    assert memory.verify().problems == ()
    assert (found.messages, found.segments) == (166, len(held.spans))
    assert found.tokens == pytest.approx(told(memory.path, k), abs=3)
    assert found.tokens <= target
    assert found.largest_group == pytest.approx(max(map(len, held.groups)) / len(held.spans), abs=1e-3)
    assert found.largest_group <= max(LARGEST_GROUP, 1 / len(held.spans))
    assert len(held.links) > 0
    shaped = memory.about().settings
    assert (shaped["segment_threshold"], shaped["link_threshold"]) == (found.threshold, found.link_threshold)
    assert shaped["segment_rule"] == rule
    below = [one for one in TAU1 if one < found.threshold]
    assert below
    memory.rebuild_segments(tau1=below[-1], tau2=1.0)
    assert told(memory.path, k) > target
    tighter = [one for one in TAU2 if one < found.link_threshold]
    memory.rebuild_segments(tau1=found.threshold, tau2=tighter[-1])
    held = segmented.held(memory.path)
    too_large = max(map(len, held.groups)) > LARGEST_GROUP * len(held.spans)
    assert too_large or told(memory.path, k) > target


def test_a_target_that_cannot_be_kept_gives_the_shortest_segments_and_fewest_links(
    memory: memdb.Memory,
) -> None:
    found = memory.calibrate(1, k=20)
    assert (found.threshold, found.link_threshold) == (TAU1[-1], TAU2[-1])
    assert found.tokens > 1


def test_a_large_target_gives_the_longest_segments(memory: memdb.Memory) -> None:
    found = memory.calibrate(10**6, k=5)
    assert found.threshold == TAU1[0]
    assert found.largest_group <= max(LARGEST_GROUP, 1 / found.segments)


def test_segments_that_are_alone_are_no_large_group(open_memory: OpenMemory) -> None:
    """Four segments: each is a fourth of all, and two of a kind would be a half."""
    memory = open_memory()
    for number, topic in enumerate(TOPICS[:4]):
        memory.add([Message("Ana", " ".join(topic))] * 30, session=str(number))
    found = memory.calibrate(10**6)
    assert (found.segments, found.largest_group, found.link_threshold) == (4, 0.25, TAU2[0])


def test_too_few_messages_are_no_measure(memory: memdb.Memory, open_memory: OpenMemory, path: Path) -> None:
    with pytest.raises(errors.InputError, match="0 messages"):
        open_memory(path.with_name("empty")).calibrate()
    few = open_memory(path.with_name("few"))
    few.add(talk(1, 99))
    with pytest.raises(errors.InputError, match="99 messages") as raised:
        few.calibrate()
    assert "100" in str(raised.value.hint)
    few.add(talk(2, 1))
    assert few.calibrate(10**6).messages == 100


@pytest.mark.parametrize(("target", "k"), [(0, 5), (True, 5), (5, 0), (5, 2.0), ("5", 5)])
def test_what_is_no_target(memory: memdb.Memory, target: int, k: int) -> None:
    with pytest.raises(errors.InputError):
        memory.calibrate(target, k=k)


def test_sessions_without_vectors_are_left_out(open_memory: OpenMemory, memory: memdb.Memory) -> None:
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(64), scope="*")
    other.add(talk(9, 9), session="3", scope=Scope(None))
    other.add(talk(9, 9), session="new", scope=Scope(None))
    other.close()
    again = open_memory(encoder=Attentive(64), scope="*")
    assert again.calibrate(10**6).messages == 40 + 41 + 42


def test_no_more_messages_are_looked_at_than_a_sample_has(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long session its beginning: every segment is compared with every other."""
    memory.rebuild_segments(rule="and")
    monkeypatch.setattr(settings, "CALIBRATION_MESSAGES", 110)
    assert memory.calibrate(300, k=5).messages == 110


def test_groups_by_hand() -> None:
    """0-3-1 hold together, 2 and 4 are a pair, 5 is alone."""
    linked = np.eye(6, dtype=bool)
    for one, other in ((0, 3), (3, 1), (2, 4)):
        linked[one, other] = linked[other, one] = True
    assert _largest(linked) == 0.5
    assert _largest(np.eye(4, dtype=bool)) == 0.25
    chain = np.eye(9, dtype=bool) | np.eye(9, k=1, dtype=bool) | np.eye(9, k=-1, dtype=bool)
    assert _largest(chain) == 1.0
    assert _largest(chain[np.ix_([8, 3, 5, 0, 7, 2, 6, 1, 4], [8, 3, 5, 0, 7, 2, 6, 1, 4])]) == 1.0


def test_the_grid_is_of_cosines() -> None:
    for grid in (TAU1, TAU2):
        assert list(grid) == sorted(set(grid))
        assert 0 < grid[0] < grid[-1] < 1
    assert isinstance(calibrate._first([(0.1, 9.0), (0.2, 5.0), (0.3, 6.0)], 6), float)
    assert calibrate._first([(0.1, 9.0), (0.2, 5.0), (0.3, 4.0)], 6) == 0.2
    assert calibrate._first([(0.1, 9.0), (0.2, 8.0)], 6) == 0.2
    assert Calibrated.__struct_fields__[:2] == ("threshold", "link_threshold")

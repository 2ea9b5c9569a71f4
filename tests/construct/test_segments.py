"""Where segments begin, what they are linked to, and that an append changes the last one alone."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from numpy.typing import NDArray

import memdb
from memdb import errors, settings
from memdb.construct import segments
from memdb.construct.segments import RULES, boundaries
from memdb.models.fakes import HashEncoder, OverlapAttention
from memdb.records import Message, Scope
from tests import segmented
from tests.conftest import OpenMemory
from tests.encoders import Attentive, Lettered, Turned
from tests.scripted import SEGMENTS, everything

NEAR = [0.3, 0.35, 0.9, 0.2]
ATTENTION = [0.2, 0.5, 0.1, 0.3]


def test_the_worked_example() -> None:
    """n = 5, a = .2 .5 .1 .3, cosines .3 .35 .9 .2, τ1 = .4: before 2 and 4 by `and`, 1, 2 and 4 else."""
    assert boundaries(NEAR, ATTENTION, 0.4, "and", closed=True) == [False, True, False, True]
    assert boundaries(NEAR, (), 0.4, "sim", closed=True) == [True, True, False, True]
    assert boundaries(NEAR, ATTENTION, 0.4, "or", closed=True) == [True, True, False, True]
    assert boundaries(NEAR, (), 0.4, "valley", closed=True) == [True, False, False, True]


def test_of_an_open_session_it_is_not_known_whether_the_last_message_stands_out() -> None:
    assert boundaries(NEAR, ATTENTION, 0.4, "and", closed=False) == [False, True, False, False]
    assert boundaries(NEAR, (), 0.4, "valley", closed=False) == [True, False, False, False]
    assert boundaries(NEAR, (), 0.4, "sim", closed=False) == [True, True, False, True]
    assert boundaries(NEAR, ATTENTION, 0.1, "or", closed=False) == [False, True, False, False]


def test_only_what_is_strictly_more_stands_out_and_only_what_is_strictly_less_is_low() -> None:
    assert boundaries([0.2, 0.2, 0.9], (), 0.4, "valley", closed=True) == [False, False, False]
    assert boundaries([0.4, 0.9], (), 0.4, "sim", closed=True) == [False, False]
    assert boundaries([0.1, 0.1], [0.5, 0.5], 0.4, "and", closed=True) == [False, False]


@pytest.mark.parametrize("rule", RULES)
def test_a_session_of_one_or_two_messages(rule: segments.Rule) -> None:
    assert boundaries([], [], 0.4, rule, closed=True) == boundaries([], [], 0.4, rule, closed=False) == []
    assert boundaries([0.1], [0.7], 0.4, rule, closed=True) == [True]
    assert boundaries([0.1], [0.7], 0.4, rule, closed=False) == [rule in ("sim", "or")]


@hypothesis(derandomize=True, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), max_size=12),
    threshold=st.floats(-1, 1),
    closed=st.booleans(),
)
def test_what_holds_of_all_boundaries(
    pairs: list[tuple[float, float]], threshold: float, closed: bool
) -> None:
    cosines, attention = [near for near, _ in pairs], [heed for _, heed in pairs]
    by = {rule: boundaries(cosines, attention, threshold, rule, closed=closed) for rule in RULES}
    for sim, valley, both, either in zip(*(by[rule] for rule in RULES), strict=True):
        assert valley <= sim <= either
        assert both <= sim
    for rule in ("valley", "and"):
        assert not any(one and other for one, other in itertools.pairwise(by[rule])), "two never stand out"
    if pairs:
        raised = {rule: boundaries(cosines, attention, 1.0, rule, closed=closed) for rule in RULES}
        assert all(one <= other for rule in RULES for one, other in zip(by[rule], raised[rule], strict=True))


def test_where_segments_begin_is_not_told_for_rules_of_attention() -> None:
    assert segments.starts(NEAR, 0.4, "sim") == [True, True, False, True]
    assert segments.starts(NEAR, 0.4, "valley") == [True, False, False, False]
    assert segments.starts(NEAR, 0.4, "and") is segments.starts(NEAR, 0.4, "or") is None
    with pytest.raises(errors.Damaged, match="'both'"):
        segments.starts(NEAR, 0.4, "both")


def said(*texts: str) -> list[Message]:
    return [Message("Ana", text) for text in texts]


@pytest.fixture
def lettered(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> memdb.Memory:
    """One segment for each message, linked from a cosine of .7 on; the last of each session is open."""
    monkeypatch.setattr(settings, "SEGMENT_MOST_MESSAGES", 1)
    memory = open_memory(encoder=Lettered())
    memory.rebuild_segments(tau1=-1.0, tau2=0.7, rule="sim")
    return memory


def groups(memory: memdb.Memory) -> set[str]:
    """Link groups of the first segments of sessions, as the names of these."""
    found = segmented.held(memory.path).groups
    assert memory.verify().problems == ()
    return {"".join(sorted(name for _, name, number in group if number == 0)) for group in found} - {""}


def test_links_by_hand(lettered: memdb.Memory) -> None:
    """(3, 4) and (1, 0): their cosine is .6, (4, 3) and (1, 0): .8, (3, 4) and (4, 3): .96."""
    for session, text in (("x", "a1"), ("y", "a3 b4"), ("z", "a4 b3")):
        lettered.add(said(text, "a1"), session=session)
    found = {(one[1], other[1]): alike for (one, other), alike in segmented.held(lettered.path).links.items()}
    assert found.keys() == {("x", "z"), ("z", "x"), ("y", "z"), ("z", "y")}
    assert found["x", "z"] == found["z", "x"] == pytest.approx(0.8, abs=0.01)
    assert found["y", "z"] == pytest.approx(0.96, abs=0.01)
    assert groups(lettered) == {"xyz"}


@pytest.mark.parametrize("order", ["xyz", "zxy", "xzy"])
def test_a_bridge_joins_two_groups_when_it_is_closed(lettered: memdb.Memory, order: str) -> None:
    """z is (1, 1)/√2, of cosine .71 with x and y, which are not alike."""
    first = {"x": "a1", "y": "b1", "z": "a1 b1"}
    for session in order:
        lettered.add(said(first[session]), session=session)
    assert segmented.held(lettered.path).links == {}, "all are open"
    for session in "xy":
        lettered.add(said("c9"), session=session)
    assert groups(lettered) == {"x", "y", "z"}
    lettered.add(said("c9"), session="z")
    assert groups(lettered) == {"xyz"}


def test_segments_wait_until_enough_of_them_do(
    lettered: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1, 2, 3, … segments one in two may wait: they are linked where half of all are closed and wait."""
    monkeypatch.setattr(settings, "SEGMENTS_PER_WAITING", 2)
    lettered.add(said("a1", "a1", "b1", "b1", "c1"), session="x")
    done = len(segmented.held(lettered.path).links)
    lettered.add(said("a1"), session="x")
    assert len(segmented.held(lettered.path).links) == done == 4, "a, a and b, b; the fifth waits"
    assert lettered.verify().problems == ()
    assert lettered.update_segments() == 0
    lettered.add(said("a1", "a1"), session="x")
    lettered.update_segments()
    assert segmented.held(lettered.path) == segmented.expected(lettered.path, "sim", -1.0, 0.7)
    assert segmented.wrong_means(lettered.path) == []


def test_people_are_not_linked_with_each_other(lettered: memdb.Memory) -> None:
    for user in ("ana", "ben"):
        lettered.add(said("a1", "c9"), session="x", scope=Scope(user))
    lettered.add(said("a1", "c9"), session="y", scope=Scope("ben"))
    assert groups(lettered) == {"x", "xy"}


def test_the_mean_of_a_segment_by_hand(lettered: memdb.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SEGMENT_MOST_MESSAGES", 3)
    lettered.add(said("a1", "b1", "b1", "c9"), session="x")
    code = segmented.means(lettered.path)[None, "x", 0]
    scale = 127 * math.sqrt(8) / 4.5 / math.sqrt(5)
    assert np.frombuffer(code or b"", np.int8).tolist() == [round(scale), round(2 * scale)] + [0] * 6


def test_no_segment_is_longer_than_its_most(lettered: memdb.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SEGMENT_MOST_MESSAGES", 4)
    for _ in range(3):
        lettered.add(said("a1", "a1", "a1"), session="x")
    found = segmented.held(lettered.path)
    assert list(found.spans.values()) == [(0, 3, True), (4, 7, True), (8, 8, False)]
    assert {(one[2], other[2]) for one, other in found.links} == {(0, 1), (1, 0)}
    assert lettered.verify().problems == ()


WORDS = "parrot piano Porto hospital rain blue seven Ines Tom cousin march oven lamp river Rome".split()
LONG = [Message("Ana", " ".join(WORDS[(n // 4) % 11 :][: 3 + n % 2])) for n in range(48)]


@pytest.mark.parametrize("rule", RULES)
def test_an_append_changes_the_last_segment_of_its_session_alone(
    open_memory: OpenMemory, path: Path, rule: str
) -> None:
    memory = open_memory(encoder=Attentive(64))
    memory.rebuild_segments(rule=rule, tau1=0.9, tau2=0.5)
    memory.add(LONG[:9], session="other")
    memory.add(LONG[:16], session="s")
    ended = 0
    for number, message in enumerate(LONG[16:]):
        before = segmented.rows(path)
        memory.add([message], session="s")
        after = segmented.rows(path)
        open_now = {row[0] for row in before["segment"] if row[2] == 2 and not row[7]}
        rows = [{row[0]: (*row[:6], row[7]) for row in one["segment"]} for one in (before, after)]
        assert all(rows[1][one] == row for one, row in rows[0].items() if one not in open_now), number
        vectors = [{row[0]: row[1:] for row in one["segment_vector"]} for one in (before, after)]
        assert all(vectors[1][one] == row for one, row in vectors[0].items() if one not in open_now), number
        changed = open_now | rows[1].keys() - rows[0].keys()
        links = [{row for row in one["segment_link"] if not {*row[:2]} & changed} for one in (before, after)]
        assert links[0] == links[1]
        ended += any(row[7] for row in after["segment"] if row[0] in open_now)
    assert ended > 1, "some were closed on the way"
    right = segmented.expected(path, rule, 0.9, 0.5)
    assert segmented.held(path) == right
    assert len(right.links) > 4


def is_whole(memory: memdb.Memory, rule: str = "valley", tau1: float = 0.6, tau2: float = 0.9) -> bool:
    """Whether all messages are in segments, and all of these are right."""
    verification = memory.verify()
    assert verification.problems == ()
    right = segmented.expected(memory.path, rule, tau1, tau2)
    assert segmented.held(memory.path) == right
    assert segmented.wrong_means(memory.path) == []
    return sum(last + 1 - first for first, last, _ in right.spans.values()) == verification.counts["messages"]


def test_two_that_add_to_one_session_at_once(path: Path) -> None:
    """Each object has connections of its own, as two processes have."""
    memories = [memdb.open(path, encoder=Attentive(64)) for _ in range(2)]
    memories[0].rebuild_segments(rule="or", tau1=0.5)
    gate = threading.Barrier(2)

    def add(memory: memdb.Memory) -> None:
        gate.wait()
        for start in range(0, 24, 3):
            memory.add(LONG[start : start + 3], session="s")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, memories))
    assert is_whole(memories[0], "or", 0.5)
    for memory in memories:
        memory.close()


def test_what_was_added_without_vectors_is_in_no_segment_until_it_has_some(
    open_memory: OpenMemory, path: Path
) -> None:
    memory = open_memory()
    memory.add(LONG[:10], session="s")
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(64))
    other.add(LONG[10:14], session="s")
    other.add(LONG[:5], session="t")
    assert other.update_segments() == 0
    other.close()
    memory = open_memory()
    before = segmented.held(path)
    assert any("in no segment" in warning for warning in memory.verify().warnings)
    memory.add(LONG[14:20], session="s")
    memory.add(LONG[5:9], session="t")
    memory.add(LONG[:9], session="u")
    assert {name for name in segmented.held(path).spans if name[1] != "u"} == before.spans.keys()
    assert memory.verify().problems == ()
    assert memory.update_segments() == 0, "there are no vectors yet"
    memory.reembed()
    assert memory.verify().warnings == ()
    assert is_whole(memory)
    memory.add(LONG[20:], session="s")
    assert is_whole(memory)
    assert memory.update_segments() == 0


def test_another_encoder_gives_other_segments(open_memory: OpenMemory, path: Path) -> None:
    memory = open_memory()
    memory.rebuild_segments(rule="sim", tau1=0.9, tau2=0.5)
    memory.add(LONG, session="s")
    before = segmented.held(path)
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(48))
    other.reembed()
    assert segmented.held(path) != before
    assert is_whole(other, "sim", 0.9, 0.5)


class Stopped(Exception):
    """Whoever worked on the file is gone."""


def test_an_update_goes_on_where_a_reembedding_was_stopped_behind_its_switch(
    open_memory: OpenMemory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    memory.add(LONG, session="s")
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(48))
    with monkeypatch.context() as patch:
        patch.setattr(segments, "update", stop)
        with pytest.raises(Stopped):
            other.reembed()
    assert segmented.held(path).spans == {}
    assert any("in no segment" in warning for warning in other.verify().warnings)
    assert other.verify().problems == ()
    other.add(LONG[:6], session="s")
    other.add(LONG[:6], session="new")
    assert {name[1] for name in segmented.held(path).spans} == {"new"}
    assert other.update_segments() > 0
    assert is_whole(other)


def stop(*args: Any) -> None:
    raise Stopped


@pytest.mark.parametrize("rule", ["valley", "and"])
def test_a_rebuild_that_is_stopped_goes_on(
    open_memory: OpenMemory, path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(settings, "SEGMENT_BATCH_SESSIONS", 2)
    memory = open_memory(encoder=Attentive(64))
    for number in range(5):
        memory.add(LONG[number * 7 :][:9], session=str(number))
    grow_all = segments._grow_all
    left = [1]

    def some(*args: Any) -> int:
        if not left.pop():
            raise Stopped
        left.append(0)
        return grow_all(*args)

    with monkeypatch.context() as patch:
        patch.setattr(segments, "_grow_all", some)
        with pytest.raises(Stopped):
            memory.rebuild_segments(rule=rule, tau1=0.8, tau2=0.4)
    assert {name[1] for name in segmented.held(path).spans} == {"0", "1"}
    assert memory.verify().problems == ()
    memory.add(LONG[:4], session="3")
    memory.add(LONG[:4], session="1")
    assert memory.update_segments() > 0
    assert memory.update_segments() == 0
    assert is_whole(memory, rule, 0.8, 0.4)
    assert memory.rebuild_segments() == memory.about().counts["messages"]
    assert is_whole(memory, rule, 0.8, 0.4)


class Meanwhile(Attentive):
    """Something happens when it is asked for attention, or encodes."""

    def __init__(self) -> None:
        super().__init__(64)
        self.heeding: Callable[[], object] = lambda: None
        self.encoding: Callable[[], object] = lambda: None

    def attention(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        happen, self.heeding = self.heeding, lambda: None
        happen()
        return super().attention(pairs)

    def encode(self, texts: Sequence[str], **kind: Any) -> NDArray[np.float32]:
        happen, self.encoding = self.encoding, lambda: None
        happen()
        return super().encode(texts, **kind)


def test_an_update_during_which_another_makes_all_anew(open_memory: OpenMemory) -> None:
    """It was planned for other thresholds, and with attention for the end of the session alone."""
    encoder = Meanwhile()
    memory, other = open_memory(encoder=encoder), open_memory(encoder=Attentive(64))
    memory.rebuild_segments(rule="and", tau1=0.8, tau2=0.4)
    memory.add(LONG[:30], session="s")
    without_segments(memory, 30, LONG[30:40])
    encoder.heeding = lambda: other.rebuild_segments(tau1=0.95, tau2=0.5)
    memory.update_segments()
    assert is_whole(memory, "and", 0.95, 0.5)
    without_segments(memory, 40, LONG[40:])
    encoder.heeding = lambda: cleared(other)
    memory.update_segments()
    assert is_whole(memory, "and", 0.95, 0.5)


def without_segments(memory: memdb.Memory, length: int, more: Sequence[Message]) -> None:
    """Add messages to a session as a rebuild does that was stopped: none of them is in a segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memdb.construct.pipeline._write_segments", lambda *args: None)
        memory.add(more, session="s")
    assert max(last for _, last, _ in segmented.held(memory.path).spans.values()) == length - 1


def cleared(memory: memdb.Memory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "update", stop)
        with pytest.raises(Stopped):
            memory.rebuild_segments()


def test_an_update_during_which_another_encoder_is_put_to_use(open_memory: OpenMemory) -> None:
    """What the first encoder attends to says nothing of the second, which tells no attention."""
    encoder = Meanwhile()
    memory = open_memory(encoder=encoder)
    memory.rebuild_segments(rule="and", tau1=1.0)
    memory.add(LONG[:30], session="s")
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(64))

    def reembed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segments, "update", stop)
            with pytest.raises(Stopped):
                other.reembed()

    without_segments(memory, 30, LONG[30:])
    encoder.heeding = reembed
    assert memory.update_segments() == 0
    assert other.update_segments() > 0
    assert is_whole(other, "valley", 1.0)


@pytest.mark.parametrize("rules", [("valley", "and"), ("and", "sim"), ("or", "and")])
def test_an_add_during_which_the_rule_changes(open_memory: OpenMemory, rules: tuple[str, str]) -> None:
    encoder = Meanwhile()
    memory, other = open_memory(encoder=encoder), open_memory(encoder=Attentive(64))
    memory.rebuild_segments(rule=rules[0], tau1=0.8)
    encoder.encoding = lambda: other.rebuild_segments(rule=rules[1])
    memory.add(LONG, session="s")
    assert is_whole(memory, rules[1], 0.8)


def test_where_no_attention_is_told_boundaries_are_valleys(open_memory: OpenMemory, path: Path) -> None:
    memory = open_memory(encoder=Attentive(64))
    memory.rebuild_segments(rule="and", tau1=1.0)
    memory.add(LONG[:10])
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=HashEncoder(64))
    other.reembed()
    other.add(LONG[10:])
    assert segmented.held(path) == segmented.expected(path, "valley", 1.0, 0.9)
    [talk] = segmented.talks(path)
    assert segmented.spans_of(talk, "valley", 1.0) != segmented.spans_of(talk, "sim", 1.0)
    assert other.verify().problems == ()


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"tau1": 1.1}, "segment_threshold is 1.1"),
        ({"tau1": math.nan}, "segment_threshold is nan"),
        ({"tau2": -2}, "link_threshold is -2"),
        ({"tau2": True}, "link_threshold is True"),
        ({"tau2": "0.5"}, "link_threshold is '0.5'"),
        ({"rule": "best"}, "rule is 'best'"),
        ({"rule": ["sim"]}, "rule is"),
        ({"rule": "and"}, "tells no attention"),
    ],
)
def test_what_segments_cannot_be_made_with(memory: memdb.Memory, values: dict[str, Any], what: str) -> None:
    memory.add(LONG[:9])
    before = everything(memory.path)
    with pytest.raises(errors.InputError, match=what):
        memory.rebuild_segments(**values)
    assert everything(memory.path) == before


def test_rebuilding_concerns_everybody(open_memory: OpenMemory) -> None:
    memory = open_memory(scope=Scope("ana"))
    for work in (memory.rebuild_segments, memory.calibrate):
        with pytest.raises(errors.ScopeError):
            work()
    assert memory.update_segments() == 0


def test_rebuilding_needs_the_encoder_of_the_file(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    memory.add(LONG[:9])
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(64))
    for work in (other.rebuild_segments, other.calibrate):
        with pytest.raises(errors.InputError, match="another encoder"):
            work()


def test_a_file_that_is_only_read_keeps_its_segments(open_memory: OpenMemory) -> None:
    writing = open_memory()
    writing.add(LONG[:9])
    memory = open_memory(read_only=True)
    with pytest.raises(errors.ReadOnly):
        memory.rebuild_segments()
    cleared(writing)
    with pytest.raises(errors.ReadOnly):
        memory.update_segments()
    assert memory.history("Who saw the parrot?").utterances


@pytest.mark.parametrize(
    "changes",
    ["'$.segment_rule', 'best'", "'$.segment_threshold', 'high'", "'$.link_threshold', 'high'"],
)
def test_settings_that_nobody_wrote_are_damage(memory: memdb.Memory, path: Path, changes: str) -> None:
    memory.add(LONG[:9])
    memory.close()
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE meta SET value = json_set(value, {changes}) WHERE key = 'settings'")
    connection.close()
    with memdb.open(path, encoder=HashEncoder(64)) as damaged:
        assert any(one.check == "segments" for one in damaged.verify().problems)
        with pytest.raises(errors.Damaged):
            damaged.add(LONG[:9])


def test_a_file_that_names_no_thresholds_has_those_of_this_version(memory: memdb.Memory, path: Path) -> None:
    memory.add(LONG[:9])
    connection = apsw.Connection(str(path))
    named = "'$.segment_rule', '$.segment_threshold', '$.link_threshold'"
    connection.execute(f"UPDATE meta SET value = json_remove(value, {named}) WHERE key = 'settings'")
    connection.close()
    memory.add(LONG[9:])
    assert is_whole(memory)


def test_an_add_that_fails_at_any_statement_changes_nothing(open_memory: OpenMemory, path: Path) -> None:
    """The open segment splits, and what is closed is linked: each statement of it fails once."""
    memory = open_memory(encoder=Attentive(64))
    memory.rebuild_segments(rule="or", tau1=0.9, tau2=0.8)
    memory.add(LONG[:29], session="s")
    memory.add(LONG[:5], session="t")
    before = everything(path)
    writer = memory._database._writer
    assert writer is not None
    statements: list[str] = []

    def fail_at(number: int) -> None:
        statements.clear()

        def count(cursor: object, sql: str, bindings: object) -> bool:
            statements.append(sql)
            if len(statements) == number:
                raise apsw.IOError("the disk refused")
            return True

        writer.set_exec_trace(count if number else None)

    for number in itertools.count(1):
        fail_at(number)
        try:
            memory.add(LONG[29:32], session="s")
            break
        except errors.StorageFailed:
            fail_at(0)
            after = everything(path)
            assert [name for name in before if after[name] != before[name]] == [], statements[-1]
    done = "".join(statements)
    fail_at(0)
    for table in SEGMENTS.split():
        assert f"INSERT INTO {table} " in done
    assert "UPDATE segment SET last_position" in done
    after = everything(path)
    assert [name for name in SEGMENTS.split() if after[name] == before[name]] == []
    assert is_whole(memory, "or", 0.9, 0.8)


def test_attention_may_be_told_by_another_model_than_the_encoder(open_memory: OpenMemory) -> None:
    memory = open_memory(attention=OverlapAttention())
    memory.rebuild_segments(rule="and", tau1=0.9, tau2=0.5)
    memory.add(LONG[:20], session="s")
    memory.add(LONG[20:], session="s")
    assert is_whole(memory, "and", 0.9, 0.5)


def test_what_tells_no_attention_is_refused(open_memory: OpenMemory) -> None:
    with pytest.raises(errors.InputError, match="stopword-v1 does not tell its attention"):
        open_memory(attention="stopword")

"""However a conversation comes, its segments, their vectors, links and link groups are the same: those that
are derived the plain way.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

import memdb
from memdb import settings
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Scope
from tests import segmented, strategies
from tests.encoders import Attentive

RULES = ("sim", "valley", "and", "or")
TAU1 = st.sampled_from([0.3, 0.5, 0.7, 0.95, 1.0, -1.0])
TAU2 = st.sampled_from([0.5, 0.7, 0.9, 1.0])
places = st.tuples(st.sampled_from([None, "ana"]), st.sampled_from(["s", "t", "u"]))


@contextmanager
def patched(**values: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(settings, name, value)
        yield


@contextmanager
def made(folder: str, rule: str, tau1: float, tau2: float) -> Iterator[memdb.Memory]:
    encoder = Attentive(32) if rule in ("and", "or") else HashEncoder(32)
    with memdb.open(Path(folder) / "memory.memdb", encoder=encoder) as memory:
        memory.rebuild_segments(rule=rule, tau1=tau1, tau2=tau2)
        yield memory


def is_right(memory: memdb.Memory, rule: str, tau1: float, tau2: float) -> None:
    found, right = segmented.held(memory.path), segmented.expected(memory.path, rule, tau1, tau2)
    assert found.spans == right.spans
    assert found.links == right.links
    assert found.groups == right.groups
    assert segmented.wrong_means(memory.path) == []
    verification = memory.verify()
    assert verification.problems == ()
    assert verification.warnings == ()


@hypothesis(max_examples=40, deadline=None, derandomize=True)
@given(
    said=strategies.talk(most=40),
    cuts=st.sets(st.integers(0, 40), max_size=8),
    rule=st.sampled_from(RULES),
    tau1=TAU1,
    tau2=TAU2,
    most=st.sampled_from([256, 3]),
    looked_up=st.sampled_from([0, 4]),
)
def test_the_portions_a_session_comes_in_change_nothing(
    said: list[Message], cuts: set[int], rule: str, tau1: float, tau2: float, most: int, looked_up: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        patched(SEGMENT_MOST_MESSAGES=most, SEGMENTS_LOOKED_UP=looked_up),
        made(folder, rule, tau1, tau2) as memory,
    ):
        for first, last in itertools.pairwise([0, *sorted(cuts), len(said)]):
            memory.add(said[first:last])
        is_right(memory, rule, tau1, tau2)


@hypothesis(max_examples=20, deadline=None, derandomize=True)
@given(
    portions=st.lists(st.tuples(places, strategies.talk(most=6)), max_size=10),
    rule=st.sampled_from(RULES),
    tau1=TAU1,
    tau2=TAU2,
    looked_up=st.sampled_from([0, 4]),
)
def test_nor_does_it_how_sessions_are_interleaved(
    portions: list[tuple[tuple[str | None, str], list[Message]]],
    rule: str,
    tau1: float,
    tau2: float,
    looked_up: int,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        patched(SEGMENTS_LOOKED_UP=looked_up),
        made(folder, rule, tau1, tau2) as memory,
    ):
        for (user, session), said in portions:
            memory.add(said, session=session, scope=Scope(user))
        is_right(memory, rule, tau1, tau2)
        before = segmented.held(memory.path)
        memory.rebuild_segments()
        assert segmented.held(memory.path) == before
        assert memory.update_segments() == 0


@hypothesis(max_examples=20, deadline=None, derandomize=True)
@given(portions=st.lists(st.tuples(places, strategies.talk(most=6)), max_size=12), links=st.integers(1, 3))
def test_where_more_are_alike_than_are_linked_the_file_is_sound(
    portions: list[tuple[tuple[str | None, str], list[Message]]], links: int
) -> None:
    """Which links there are depends on the order then, but each is a right one, and groups follow them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patched(SEGMENT_LINKS=links),
        made(folder, "sim", 0.9, 0.5) as memory,
    ):
        for (user, session), said in portions:
            memory.add(said, session=session, scope=Scope(user))
        assert memory.verify().problems == ()
        found, right = segmented.held(memory.path), segmented.expected(memory.path, "sim", 0.9, 0.5)
        assert found.spans == right.spans
        assert found.links.items() <= right.links.items()
        assert found.groups == segmented.components(list(found.spans), list(found.links))


@hypothesis(max_examples=20, deadline=None, derandomize=True)
@given(
    said=strategies.talk(most=24), cuts=st.sets(st.integers(0, 24), max_size=6), rule=st.sampled_from(RULES)
)
def test_an_update_puts_what_was_left_where_an_add_would(
    said: list[Message], cuts: set[int], rule: str
) -> None:
    with tempfile.TemporaryDirectory() as folder, made(folder, rule, 0.8, 0.6) as memory:
        for first, last in itertools.pairwise([0, *sorted(cuts), len(said)]):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("memdb.construct.pipeline._write_segments", lambda *args: None)
                memory.add(said[first:last])
            assert (memory.update_segments() > 0) == (first < len(said[:last]))
        is_right(memory, rule, 0.8, 0.6)

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import errors
from memdb.construct.windows import Window, window_of, windows

WORKED_EXAMPLES = [
    (0, []),
    (1, [(0, 1, 0)]),
    (6, [(0, 6, 0)]),
    (7, [(0, 6, 0), (4, 7, 6)]),
    (11, [(0, 6, 0), (4, 10, 6), (8, 11, 10)]),
]

counts = st.integers(0, 200)
shapes = st.integers(1, 12).flatmap(lambda width: st.tuples(st.just(width), st.integers(0, width - 1)))


@pytest.mark.parametrize(("messages", "expected"), WORKED_EXAMPLES)
def test_worked_examples(messages: int, expected: list[tuple[int, int, int]]) -> None:
    assert [tuple(window) for window in windows(messages)] == expected


@given(counts, shapes)
def test_every_message_is_new_in_exactly_one_window(messages: int, shape: tuple[int, int]) -> None:
    new = [at for window in windows(messages, *shape) for at in range(window.first_new, window.end)]
    assert new == list(range(messages))


@given(counts, shapes)
def test_windows_are_full_but_the_last_and_overlap_as_asked(messages: int, shape: tuple[int, int]) -> None:
    width, overlap = shape
    cut = list(windows(messages, *shape))
    for before, after in pairwise(cut):
        assert before.end - before.start == width
        assert before.end - after.start == overlap
        assert after.first_new == before.end


@given(counts, st.integers(0, 30), shapes)
def test_appending_changes_only_the_last_window(messages: int, more: int, shape: tuple[int, int]) -> None:
    before, after = list(windows(messages, *shape)), list(windows(messages + more, *shape))
    assert after[: max(0, len(before) - 1)] == before[:-1]


@given(st.integers(1, 500))
def test_count(messages: int) -> None:
    expected = 1 if messages <= 6 else 1 + math.ceil((messages - 6) / 4)
    assert len(list(windows(messages))) == expected


@given(counts, shapes)
def test_window_of_is_the_window_in_which_a_message_is_new(messages: int, shape: tuple[int, int]) -> None:
    for number, window in enumerate(windows(messages, *shape)):
        assert {window_of(at, *shape) for at in range(window.first_new, window.end)} == {number}


def test_windows_are_lazy() -> None:
    assert next(windows(10**12)) == Window(0, 6, 0)


@pytest.mark.parametrize(("messages", "width", "overlap"), [(-1, 6, 2), (3, 2, 2), (3, 0, 0), (3, 6, -1)])
def test_impossible_shapes_are_refused(messages: int, width: int, overlap: int) -> None:
    with pytest.raises(errors.InputError):
        list(windows(messages, width, overlap))

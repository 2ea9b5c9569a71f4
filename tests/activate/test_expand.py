"""What of a candidate set fits into a budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from memdb.activate.expand import within
from memdb.records import Message, Segment, Utterance
from memdb.store.segments import Placed


def placed(number: int, sizes: Sequence[int], best: int | None) -> Placed:
    """Messages of so many tokens, the one at `best` found, those beside it found later."""
    utterances = tuple(
        Utterance(
            message=Message("Ana", "w " * size),
            session=str(number),
            position=at,
            rank=None if best is None else 1 + 10 * number + abs(at - best),
        )
        for at, size in enumerate(sizes)
    )
    return Placed(Segment(utterances=utterances, linked=best is None), tuple(range(len(sizes))), number)


def words(utterance: Utterance) -> int:
    return len(utterance.message.text.split())


@pytest.mark.parametrize(
    ("sizes", "best", "budget", "left"),
    [
        ([5, 2, 1, 3], 2, 4, [2, 1]),
        ([5, 2, 1, 3], 2, 3, [2, 1]),
        ([5, 2, 1, 3], 2, 1, [1]),
        ([5, 2, 1, 3], 2, 6, [2, 1, 3]),
        ([5, 2, 1, 3], 2, 10, [2, 1, 3]),
        ([5, 2, 1, 3], 2, 11, [5, 2, 1, 3]),
        ([5, 2, 1, 3], 0, 7, [5, 2]),
        ([5, 2, 1, 3], 3, 4, [1, 3]),
        ([1, 9, 1, 1, 1], 2, 5, [1, 1, 1]),
        ([0, 0, 4, 0], 2, 4, [0, 0, 4, 0]),
        ([3], 0, 2, None),
        ([1, 3, 1], 1, 2, None),
    ],
)
def test_what_is_left_of_a_segment(sizes: list[int], best: int, budget: int, left: list[int] | None) -> None:
    kept, tokens = within([placed(0, sizes, best)], budget, words)
    found = [[words(one) for one in part.segment.utterances] for part in kept]
    assert found == ([] if left is None else [left])
    assert tokens == sum(left or [])
    assert all(part.segment.cut == (left != sizes) for part in kept)
    assert all(len(part.said_keys) == len(left or []) for part in kept)


segment = st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 5))


@hypothesis(derandomize=True, deadline=None)
@given(direct=st.lists(segment, max_size=5), linked=st.lists(segment, max_size=4), budget=st.integers(1, 60))
@example(direct=[([9, 9], 0), ([1], 0)], linked=[([9], 0), ([1], 0)], budget=3)
def test_what_holds_of_every_budget(
    direct: list[tuple[list[int], int]], linked: list[tuple[list[int], int]], budget: int
) -> None:
    given_ = [placed(number, sizes, best % len(sizes)) for number, (sizes, best) in enumerate(direct)]
    given_ += [placed(number, sizes, None) for number, (sizes, _) in enumerate(linked, len(direct))]
    kept, tokens = within(given_, budget, words)
    assert tokens == sum(words(one) for part in kept for one in part.segment.utterances)
    assert tokens <= budget
    by_number = {part.session_id: part for part in kept}
    assert list(by_number) == sorted(by_number), "the order stays"
    left = budget
    for one in given_:
        sizes = [words(utterance) for utterance in one.segment.utterances]
        part = by_number.get(one.session_id)
        if sum(sizes) <= left:
            assert part == one
        elif one.segment.linked:
            assert part is None
        else:
            best = min(one.segment.utterances, key=lambda utterance: utterance.rank or 0)
            assert (part is None) == (words(best) > left)
            if part is not None:
                places = [utterance.position for utterance in part.segment.utterances]
                assert part.segment.cut
                assert best in part.segment.utterances
                assert part.segment.utterances == one.segment.utterances[places[0] : places[-1] + 1]
                assert part.said_keys == one.said_keys[places[0] : places[-1] + 1]
                room = left - sum(sizes[places[0] : places[-1] + 1])
                around = sizes[max(places[0] - 1, 0) : places[0]] + sizes[places[-1] + 1 : places[-1] + 2]
                assert all(size > room for size in around), "nothing more fits beside it"
        if part is not None:
            left -= sum(words(utterance) for utterance in part.segment.utterances)

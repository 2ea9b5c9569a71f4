"""Segments in rows and in the index: how alike two are, which are near, which hold together."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

import memdb
from memdb import errors, settings
from memdb.models.fakes import HashEncoder
from memdb.store import segments
from tests import segmented
from tests.conftest import OpenMemory
from tests.handmade import DIMENSION, Said, put, vector

ENCODER = HashEncoder(DIMENSION)


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    return open_memory(encoder=ENCODER)


def with_segments(memory: memdb.Memory, codes: list[bytes]) -> None:
    """A segment of one message for each code, numbered from 1, and none that is linked."""
    put(memory, *(Said(f"message {n}", code) for n, code in enumerate(codes)))
    with memory._database.atomic() as connection:
        for number, code in enumerate(codes, 1):
            assert segments.put(connection, 1, number, 0, (0, 0), False) == number
            segments.put_vectors(connection, 1, [(number, code)])


def test_the_mean_of_a_segment_by_hand() -> None:
    """Unit vectors (1, 0) and (0, 1) have the mean (.5, .5), of length 1 (√½, √½); scale is 127·√8/4.5."""
    found = np.frombuffer(segments.mean_code([vector(100), vector(0, 3)]), np.int8)
    assert (
        found.tolist()
        == [round(math.sqrt(0.5) * 127 * math.sqrt(8) / 4.5)] * 2 + [0] * 6
        == [56, 56] + [0] * 6
    )


def test_a_long_vector_counts_as_much_as_a_short_one() -> None:
    """(.6, .8) and (1, 0): the mean (.8, .4), of length 1 (2, 1)/√5."""
    found = np.frombuffer(segments.mean_code([vector(3, 4), vector(120)]), np.int8)
    assert found.tolist()[:2] == [round(79.823 * 2 / math.sqrt(5)), round(79.823 / math.sqrt(5))] == [71, 36]


def test_vectors_that_cancel_out_leave_the_first() -> None:
    assert segments.mean_code([vector(3, 4), vector(-3, -4)]) == vector(3, 4)


def test_a_vector_without_length_is_damage() -> None:
    with pytest.raises(errors.Damaged, match="without length"):
        segments.mean_code([vector(3, 4), vector()])


def test_cosines_of_adjacent_codes_by_hand() -> None:
    codes = [vector(3, 4), vector(3, 4), vector(4, 3), vector(-4, -3), vector(0, 0, 5)]
    assert segments.adjacent_cosines(codes) == [1.0, 24 / 25, -1.0, 0.0]
    assert segments.adjacent_cosines(codes[:1]) == []
    assert segments.adjacent_cosines([vector(1), vector(), vector(1)]) == [0.0, 0.0]


@pytest.mark.parametrize("dimension", [1_024, 4_096])
def test_cosines_are_exact_in_every_dimension(dimension: int) -> None:
    """Sums of products of codes are whole numbers, beyond what float32 holds."""
    draw = np.random.default_rng(5)
    codes = draw.integers(-127, 128, (3, dimension)).astype(np.int8)
    codes[0] = codes[1] = 127
    codes[1, 0] = 126
    rows = [(number, code.tobytes()) for number, code in enumerate(codes)]
    found = segments._best(rows, segments._matrix([codes[0].tobytes()]), -1.0)[0]
    for number, code in rows:
        assert found[number] == segmented.cosine(codes[0].tobytes(), code)
    assert found[1] != found[0] == 1.0


small = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any).map(lambda parts: vector(*parts))
least = st.sampled_from([1.0, 24 / 25, math.sqrt(0.5), 2 / math.sqrt(5), 0.5, 0.0, -0.5, -1.0])


@hypothesis(max_examples=40, deadline=None, derandomize=True)
@given(codes=st.lists(small, min_size=1, max_size=30), least=least, most=st.sampled_from([1, 3, 64]))
@example(codes=[vector(1, 1)] * 20, least=1.0, most=3)
@example(codes=[vector(1), *[vector(1, 1), vector(1, -1)] * 4], least=math.sqrt(0.5), most=2)
def test_segments_that_are_near_are_the_same_looked_up_or_compared(
    codes: list[bytes], least: float, most: int
) -> None:
    """The nearest, the smaller id first among equals, down to the very edge."""
    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(Path(folder) / "memory.memdb", encoder=ENCODER) as memory,
        pytest.MonkeyPatch.context() as patch,
    ):
        with_segments(memory, codes)
        patch.setattr(settings, "SEGMENT_LINKS", most)
        alike = [[(segmented.cosine(one, other), -n) for n, other in enumerate(codes, 1)] for one in codes]
        right = [
            {-n: cosine for cosine, n in sorted(line, reverse=True)[: most + 1] if cosine >= least}
            for line in alike
        ]
        for looked_up, block in ((len(codes), 8), (0, 8), (0, 8_192)):
            patch.setattr(settings, "SEGMENTS_LOOKED_UP", looked_up)
            patch.setattr(settings, "SEGMENT_BLOCK", block)
            with memory._database.reader() as connection:
                found = segments.near(connection, 1, codes, least)
            assert [list(one.items()) for one in found] == [list(one.items()) for one in right], looked_up


def test_segments_of_another_scope_are_not_near(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_segments(memory, [vector(1), vector(1), vector(0, 1)])
    with memory._database.atomic() as connection:
        connection.execute("INSERT INTO scope (user) VALUES ('ben')")
        segments.put_vectors(connection, 2, [(4, vector(1))])
    for looked_up in (0, 4):
        monkeypatch.setattr(settings, "SEGMENTS_LOOKED_UP", looked_up)
        with memory._database.reader() as connection:
            assert segments.near(connection, 1, [vector(1)], 0.5) == [{1: 1.0, 2: 1.0}]
            assert segments.near(connection, 2, [vector(1)], 0.5) == [{4: 1.0}]


def test_groups_grow_together_under_their_least_number(memory: memdb.Memory) -> None:
    with_segments(memory, [vector(1)] * 6)
    with memory._database.atomic() as connection:
        for pair in ([5, 3], [3, 2], [4, 6]):
            segments.join(connection, pair)
        groups = "SELECT link_id FROM segment ORDER BY segment_id"
        assert [id for (id,) in connection.execute(groups)] == [1, 2, 2, 4, 2, 4]
        segments.join(connection, [6, 5])
        assert [id for (id,) in connection.execute(groups)] == [1, 2, 2, 2, 2, 2]
        segments.join(connection, [6, 5])
        assert [id for (id,) in connection.execute(groups)] == [1, 2, 2, 2, 2, 2]


def test_what_waits_is_told_until_it_is_linked(memory: memdb.Memory, path: Path) -> None:
    with_segments(memory, [vector(1)] * 2)
    with memory._database.atomic() as connection:
        assert segments.waiting(connection) == []
        segments.set_waiting(connection, [2, 1])
        assert segments.waiting(connection) == [2, 1]
        assert segments.mean_codes(connection, [2]) == {1: {2: segments.mean_code([vector(1)])}}
        connection.execute("UPDATE meta SET value = 'x' WHERE key = 'segments_waiting'")
        with pytest.raises(errors.Damaged, match="meta is damaged"):
            segments.waiting(connection)


def test_segments_that_are_cleared_leave_nothing(memory: memdb.Memory) -> None:
    with_segments(memory, [vector(1)] * 3)
    with memory._database.atomic() as connection:
        segments.put_links(connection, [(1, 2, 1.0)])
        segments.join(connection, [1, 2])
        assert segments.last_of(connection, 1) == segments.StoredSegment(1, 0, 0, 0)
        segments.clear(connection)
        assert segments.last_of(connection, 1) is None
        assert segments.near(connection, 1, [vector(1)], -1.0) == [{}]
    assert memory.about().counts["messages"] == 3

"""The nearest vectors of each vector are those of the definition, whatever is compared in which portions."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memdb.construct import alike

Codes = NDArray[np.int8]


def plainly(codes: Codes, least: float, most: int) -> dict[tuple[int, int], float]:
    """Each with its nearest: all pairs at once."""
    exact = codes.astype(np.float64)
    squares = np.square(exact).sum(axis=1)
    lengths = np.sqrt(np.outer(squares, squares))
    cosines = np.divide(exact @ exact.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    found = {}
    for one, line in enumerate(cosines):
        near = np.flatnonzero(line >= least)
        near = near[near != one]
        for other in near[np.argsort(-line[near], kind="stable")][:most].tolist():
            found[min(one, other), max(one, other)] = float(line[other])
    return found


def joined(codes: Codes, least: float, most: int) -> dict[tuple[int, int], float]:
    found = alike.nearest(lambda numbers: codes[numbers], len(codes), least, most)
    pairs = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    return dict(zip(pairs, found.cosines.tolist(), strict=True))


def drawn(seed: int, count: int, dimension: int, centres: int, noise: float) -> Codes:
    """Vectors around a few others, some of them twice, some without length."""
    roll = np.random.default_rng(seed)
    vectors = roll.normal(size=(centres, dimension))[roll.integers(0, centres, count)]
    vectors += noise * roll.normal(size=(count, dimension))
    codes = np.clip(np.rint(vectors * 30), -127, 127).astype(np.int8)
    codes[roll.random(count) < 0.05] = 0
    twice = roll.random(count) < 0.2
    codes[twice] = codes[roll.integers(0, count, int(twice.sum()))]
    return codes


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 90),
    dimension=st.sampled_from([1, 8, 24]),
    centres=st.integers(1, 30),
    noise=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    least=st.sampled_from([0.5, 0.8]),
    most=st.sampled_from([1, 3, 20]),
    sparse=st.sampled_from([1, 32, 10**6]),
)
@hypothesis_settings(max_examples=300, deadline=None)
def test_in_portions_they_are_those_of_the_definition(
    seed: int, count: int, dimension: int, centres: int, noise: float, least: float, most: int, sparse: int
) -> None:
    codes = drawn(seed, count, dimension, centres, noise)
    small = {"ROWS": 32, "COLUMNS": 16, "TILE": 8, "SAMPLE": 20, "COMPONENTS": 4, "_PENDING": 40}
    with patch.multiple(alike, **small, _GATHERED=7, _SPARSE=sparse):
        assert joined(codes, least, most) == plainly(codes, least, most)


@pytest.mark.parametrize("noise", [0.25, 0.5, 1.0])
def test_at_full_size_they_are_those_of_the_definition(noise: float) -> None:
    codes = drawn(7, 5_000, 128, 400, noise)
    assert joined(codes, 0.8, 20) == plainly(codes, 0.8, 20)


@pytest.mark.parametrize("centres", [1, 40])
def test_what_is_read_and_compared_as_a_whole_is_little(centres: int) -> None:
    """All are read once for each 128 of them, no more at once; only pairs that may be alike are compared."""
    codes = drawn(3, 1_024, 64, centres, 0.2)
    most: Counter[str] = Counter()

    def read(numbers: NDArray[np.int64]) -> Codes:
        most["at once"] = max(most["at once"], len(numbers))
        most["in all"] += len(numbers)
        return codes[numbers]

    plain = alike._products

    def products(some: Codes, left: NDArray[np.int64], others: Codes, right: NDArray[np.int64]) -> Codes:
        most["compared"] += len(left)
        return plain(some, left, others, right)

    small = {"ROWS": 128, "COLUMNS": 16, "TILE": 16, "SAMPLE": 100, "COMPONENTS": 32}
    with patch.multiple(alike, **small, _products=products):
        alike.nearest(read, len(codes), 0.8, 20)
    assert most["at once"] <= 128
    assert most["in all"] <= 100 + 128 * (8 + 7 * 8 // 2)
    assert most["compared"] <= len(codes) ** 2 / 2 / 15

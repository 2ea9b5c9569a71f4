"""int8 codes: what is refused, what is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import ModelError
from memdb.store.indexes import code, vector_scale


def units(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    vectors = rng.standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 5, -1])
def test_what_is_not_finite_is_refused(bad: float, place: int) -> None:
    vectors = units(np.random.default_rng(1), 3, 16)
    vectors[1, place] = bad
    for given_ in (vectors, vectors[1]):
        with pytest.raises(ModelError, match="not finite"):
            code(given_, vector_scale(16))


def test_what_has_no_direction_is_refused() -> None:
    vectors = units(np.random.default_rng(1), 3, 16)
    vectors[2] = 0
    for given_ in (vectors, vectors[2]):
        with pytest.raises(ModelError, match="zero"):
            code(given_, vector_scale(16))


def test_no_vectors_have_no_codes() -> None:
    assert code(np.zeros((0, 16), np.float32), vector_scale(16)).shape == (0, 16)


@pytest.mark.parametrize("dimension", [64, 384, 768])
def test_the_scale_fits_four_and_a_half_deviations(dimension: int) -> None:
    assert vector_scale(dimension) * 4.5 / np.sqrt(dimension) == pytest.approx(127)
    codes = code(units(np.random.default_rng(2), 500, dimension), vector_scale(dimension))
    assert np.mean(np.abs(codes.astype(int)) == 127) < 1e-4


def test_what_does_not_fit_is_clipped_on_both_sides() -> None:
    vector = np.zeros(384, np.float32)
    vector[:2] = np.sqrt(0.5), -np.sqrt(0.5)
    codes = code(vector, vector_scale(384))
    assert codes.dtype == np.int8
    assert list(codes[:3]) == [127, -127, 0]


@given(st.integers(0, 2**32))
def test_a_cosine_keeps_two_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = units(rng, 40, 384)
    vectors[20:] = vectors[:20] + rng.uniform(0, 1) * vectors[20:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = code(vectors, vector_scale(384)).astype(np.float64)
    lengths = np.linalg.norm(codes, axis=1)
    coded = codes @ codes.T / np.outer(lengths, lengths)
    assert np.abs(coded - vectors.astype(np.float64) @ vectors.T).max() < 0.01

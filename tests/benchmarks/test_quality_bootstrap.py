"""Intervals from resampled clusters."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.quality import bootstrap


def test_weights_are_draws_with_replacement() -> None:
    drawn = bootstrap.weights(4)
    assert drawn.shape == (bootstrap.RESAMPLES, 4)
    assert (drawn.sum(axis=1) == 4).all()
    assert drawn.mean(axis=0) == pytest.approx([1, 1, 1, 1], abs=0.05)


def test_the_seed_fixes_the_draws() -> None:
    assert np.array_equal(bootstrap.weights(5), bootstrap.weights(5))
    assert not np.array_equal(bootstrap.weights(5), bootstrap.weights(5, seed=1))


def test_equal_scores_have_no_error() -> None:
    questions = np.array([3.0, 5.0, 2.0])
    draws = bootstrap.resampled(questions / 2, questions, bootstrap.weights(3))
    assert [float(one) for one in bootstrap.interval(draws)] == [0.5, 0.5, 0.0]


def test_error_is_that_of_the_mean() -> None:
    scores = np.random.default_rng(0).random(400)
    draws = bootstrap.resampled(scores, np.ones(400), bootstrap.weights(400))
    low, high, error = bootstrap.interval(draws)
    assert float(error) == pytest.approx(scores.std() / 20, rel=0.05)
    assert float(high - low) == pytest.approx(2 * 1.96 * float(error), rel=0.05)


def test_large_clusters_weigh_more() -> None:
    draws = bootstrap.resampled(np.array([90.0, 0.0]), np.array([90.0, 10.0]), np.array([[1.0, 1.0]]))
    assert draws.tolist() == [0.9]


def test_undefined_resamples_are_left_out() -> None:
    above, below = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 0.0]])
    draws = bootstrap.resampled(above, below, bootstrap.weights(2))
    low, high, error = bootstrap.interval(draws)
    assert (low[0], high[0], error[0]) == (0.5, 0.5, 0.0)
    assert np.isnan([low[1], high[1], error[1]]).all()


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_what_no_resample_defines_has_no_interval(shape: tuple[int, ...]) -> None:
    assert all(np.isnan(one).all() for one in bootstrap.interval(np.full(shape, np.nan)))

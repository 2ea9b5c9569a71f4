"""Confidence intervals of ratios by resampling whole clusters (here: conversations)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 10_000
SEED: Final = 20_260_120
PERCENTILES: Final = (2.5, 97.5)

Array = NDArray[np.float64]


class Interval(NamedTuple):
    """95 % percentile interval and standard error, each float64 of the statistic's shape."""

    low: Array
    high: Array
    error: Array


def weights(clusters: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> Array:
    """How often each resample drew each cluster, float64 [resamples, clusters]; rows sum to `clusters`."""
    drawn = np.random.default_rng(seed).multinomial(clusters, [1 / clusters] * clusters, size=resamples)
    return drawn.astype(np.float64)


def resampled(numerators: Array, denominators: Array, drawn: Array) -> Array:
    """The ratio of sums in each resample, float64 [resamples, ...]; NaN where the denominator is 0.

    `numerators` and `denominators` are sums per cluster, [clusters, ...].
    """
    above, below = (np.tensordot(drawn, sums, axes=1) for sums in (numerators, denominators))
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def interval(statistic: Array) -> Interval:
    """Interval and standard error over axis 0; resamples in which the statistic is undefined are left out.

    What no resample defines is NaN.
    """
    shape = statistic.shape[1:]
    low, high, error = (np.full(shape, np.nan) for _ in range(3))
    defined = ~np.isnan(statistic).all(axis=0)
    if not defined.any():
        return Interval(low, high, error)
    known = statistic[:, defined]
    low[defined], high[defined] = np.nanpercentile(known, PERCENTILES, axis=0)
    error[defined] = np.nanstd(known, axis=0)
    return Interval(low, high, error)

"""How well a retriever tells questions that the memory answers from those it does not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from . import bootstrap, metrics
from .evaluate import Outcome
from .figures import Cluster, Estimate, estimate


class Abstention(msgspec.Struct, frozen=True, kw_only=True):
    """How many questions of each kind were asked of a retriever, and the AUROC of what it says of them."""

    retriever: str
    answerable: int
    unanswerable: int
    auroc: Estimate


def abstention(outcomes: Sequence[Outcome], by: Cluster) -> list[Abstention]:
    """One entry per retriever that says how probable an answer is, if questions of both kinds were asked.

    The interval resamples what `by` says, the same resamples for every retriever.
    """
    asked = [one for one in outcomes if "answerable" in one.values]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(map(by, asked)))}
    drawn = bootstrap.weights(len(numbers)) if len(numbers) > 1 else np.zeros((1, len(numbers)))
    found = []
    for name in dict.fromkeys(one.retriever for one in asked):
        mine = [one for one in asked if one.retriever == name]
        scores = np.array([one.values["answerable"] for one in mine])
        has_answer = np.array([one.values["has_answer"] > 0 for one in mine])
        if has_answer.all() or not has_answer.any():
            continue
        clusters = np.array([numbers[by(one)] for one in mine])
        low, high, _ = bootstrap.interval(_resampled(scores, has_answer, clusters, drawn))
        found.append(
            Abstention(
                retriever=name,
                answerable=int(has_answer.sum()),
                unanswerable=int((~has_answer).sum()),
                auroc=estimate(
                    metrics.auroc(scores[has_answer].tolist(), scores[~has_answer].tolist()),
                    float(low),
                    float(high),
                ),
            )
        )
    return found


def _resampled(
    scores: bootstrap.Array,
    has_answer: NDArray[np.bool_],
    clusters: NDArray[np.int64],
    drawn: bootstrap.Array,
) -> bootstrap.Array:
    """The AUROC in each resample, float64 [resamples]; NaN where one kind of question was not drawn.

    It counts pairs, and a pair counts as often as the clusters of its two questions were drawn.
    """
    yes, no = scores[has_answer], scores[~has_answer]
    won = (yes[:, None] > no[None, :]) + 0.5 * (yes[:, None] == no[None, :])
    of = np.eye(drawn.shape[1])[clusters]  # [questions, clusters]: 1 where a question is of a cluster
    pairs = of[has_answer].T @ won @ of[~has_answer]
    above = ((drawn @ pairs) * drawn).sum(axis=1)
    below = (drawn @ of[has_answer].sum(axis=0)) * (drawn @ of[~has_answer].sum(axis=0))
    shares: bootstrap.Array = np.full_like(above, np.nan)
    np.divide(above, below, out=shares, where=below > 0)
    return shares

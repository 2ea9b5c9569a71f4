"""From outcomes to figures: sums over questions, intervals from resampled clusters, gains and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from . import bootstrap, metrics
from .evaluate import Outcome, Values, message_values

OVERALL: Final = "overall"

# One value of a question summed over the questions, over the sum of another, or over a constant for each.
Quotient: TypeAlias = tuple[str, str | int]
Cluster: TypeAlias = Callable[[Outcome], Hashable]


def by_conversation(outcome: Outcome) -> Hashable:
    """What is resampled as a whole: a conversation."""
    return outcome.conversation


def by_question(outcome: Outcome) -> Hashable:
    """What is resampled as a whole: a question."""
    return outcome.conversation, outcome.number


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Which figures tables and pictures show: `main` over all questions, `grouped` for each category,
    `compared` where columns are held against one, `key` where there is room for one alone.
    """

    main: tuple[str, ...]
    grouped: tuple[str, ...]
    compared: tuple[str, ...]
    key: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark reports: the values of one question, the figures made of them, what is resampled."""

    values: Values
    quotients: Mapping[str, Quotient]
    shown: Shown
    by: Cluster = by_conversation

    def scored(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Those outcomes that have figures: an unanswerable question may have none."""
        needed = {above for above, _ in self.quotients.values()}
        return [one for one in outcomes if needed <= one.values.keys()]

    @property
    def resampled(self) -> str:
        """What is resampled, as a word."""
        return "conversations" if self.by is by_conversation else "questions"


MESSAGES: Final = Figures(
    values=message_values,
    quotients={
        "R@5": ("recall@5", 1),
        "R@10": ("recall@10", 1),
        "R@100": ("recall@100", 1),
        "any@10": ("any@10", 1),
        "all@10": ("all@10", 1),
        "nDCG@10": ("ndcg@10", 1),
        "QGMem R@10": ("covered", "gold"),
        "QGMem P@10": ("relevant", metrics.QGMEM_CUTOFF),
        "QGMem Suff@10": ("sufficient", 1),
        "QGMem order-nDCG@10": ("order_ndcg@10", 1),
        "context tokens": ("context_tokens", 1),
        "stale first": ("stale_first", 1),
    },
    shown=Shown(
        main=("R@5", "R@10", "R@100", "any@10", "all@10", "nDCG@10"),
        grouped=("R@10", "nDCG@10"),
        compared=("R@10", "all@10", "nDCG@10"),
        key="nDCG@10",
    ),
)


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval; null where no resample defines it."""

    value: float
    low: float | None
    high: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one retriever over all questions or one category; times in milliseconds per question.

    A figure that none of the questions defines is missing.
    """

    retriever: str
    group: str
    questions: int
    figures: dict[str, Estimate]
    median_ms: float
    mean_ms: float


class _Sums(msgspec.Struct, frozen=True):
    """Sums over the questions of each cluster, retriever and group.

    `above` and `below` are float64 [clusters, retrievers, groups, figures], `questions` [retrievers, groups].
    """

    names: list[str]
    groups: list[str]
    above: bootstrap.Array
    below: bootstrap.Array
    questions: bootstrap.Array

    @property
    def values(self) -> bootstrap.Array:
        """The figures, float64 [retrievers, groups, figures]; NaN where nothing defines one."""
        once = np.ones((1, len(self.above)))
        return bootstrap.resampled(self.above, self.below, once).squeeze(axis=0)

    @property
    def draws(self) -> bootstrap.Array:
        """The figures in each resample, float64 [resamples, retrievers, groups, figures]; all NaN if there is
        one cluster alone, which tells nothing of how others would differ.
        """
        if len(self.above) < 2:
            return np.full((1, *self.above.shape[1:]), np.nan)
        return bootstrap.resampled(self.above, self.below, bootstrap.weights(len(self.above)))


def groups(outcomes: Iterable[Outcome]) -> list[str]:
    """`overall`, then the categories that occur."""
    return [OVERALL, *(str(one) for one in sorted({outcome.category for outcome in outcomes}))]


def _sums(outcomes: Sequence[Outcome], figures: Figures, labels: Sequence[str]) -> _Sums:
    """The sums of every retriever over the groups named: OVERALL, or a category."""
    names = list(dict.fromkeys(outcome.retriever for outcome in outcomes))
    clusters = {one: number for number, one in enumerate(dict.fromkeys(map(figures.by, outcomes)))}
    above = np.zeros((len(clusters), len(names), len(labels), len(figures.quotients)))
    below = np.zeros_like(above)
    questions = np.zeros((len(names), len(labels)))
    for one in outcomes:
        cluster, name = clusters[figures.by(one)], names.index(one.retriever)
        places = [place for place, label in enumerate(labels) if label in (OVERALL, str(one.category))]
        above[cluster, name, places] += [one.values[top] for top, _ in figures.quotients.values()]
        below[cluster, name, places] += [
            one.values[per] if isinstance(per, str) else per for _, per in figures.quotients.values()
        ]
        questions[name, places] += 1
    return _Sums(names, list(labels), above, below, questions)


def _estimates(figures: Figures, value: bootstrap.Array, draws: bootstrap.Array) -> dict[str, Estimate]:
    """Figures by name from their values [figures] and resamples [resamples, figures], undefined ones not."""
    low, high, _ = bootstrap.interval(draws)
    cells = zip(figures.quotients, value.tolist(), low.tolist(), high.tolist(), strict=True)
    return {name: estimate(one, bottom, top) for name, one, bottom, top in cells if not np.isnan(one)}


def estimate(value: float, low: float, high: float) -> Estimate:
    """An estimate of three numbers, the ends of the interval NaN where there is none."""
    return Estimate(value, None if np.isnan(low) else low, None if np.isnan(high) else high)


def summarise(outcomes: Sequence[Outcome], figures: Figures = MESSAGES) -> list[Row]:
    """Figures of every retriever and group with intervals from resampling whole clusters."""
    scored = figures.scored(outcomes)
    sums, times = _sums(scored, figures, groups(scored)), _milliseconds(scored)
    value, draws = sums.values, sums.draws
    return [
        Row(
            retriever=name,
            group=group,
            questions=int(sums.questions[i, j]),
            figures=_estimates(figures, value[i, j], draws[:, i, j]),
            median_ms=statistics.median(times[name, group]),
            mean_ms=statistics.fmean(times[name, group]),
        )
        for i, name in enumerate(sums.names)
        for j, group in enumerate(sums.groups)
    ]


def _against(
    outcomes: Sequence[Outcome],
    over: str,
    figures: Figures,
    compare: Callable[[bootstrap.Array, bootstrap.Array], bootstrap.Array],
) -> dict[str, dict[str, Estimate]]:
    """Every other retriever compared with the one named, per figure, over all questions.

    The same resamples serve both sides, so the interval is that of the paired comparison.
    """
    sums = _sums(figures.scored(outcomes), figures, [OVERALL])
    value, draws, base = sums.values[:, 0], sums.draws[:, :, 0], sums.names.index(over)
    return {
        name: _estimates(figures, compare(value[i], value[base]), compare(draws[:, i], draws[:, base]))
        for i, name in enumerate(sums.names)
        if i != base
    }


def gains(
    outcomes: Sequence[Outcome], over: str, figures: Figures = MESSAGES
) -> dict[str, dict[str, Estimate]]:
    """What each other retriever gains over the one named, per figure, over all questions (paired)."""
    return _against(outcomes, over, figures, np.subtract)


def ratios(
    outcomes: Sequence[Outcome], over: str, figures: Figures = MESSAGES
) -> dict[str, dict[str, Estimate]]:
    """How many times the figures of the one named each other retriever has, over all questions (paired)."""

    def quotient(one: bootstrap.Array, other: bootstrap.Array) -> bootstrap.Array:
        return np.divide(one, other, out=np.full_like(one, np.nan), where=other > 0)

    return _against(outcomes, over, figures, quotient)


def _milliseconds(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[float]]:
    """The times of each retriever and group."""
    times: dict[tuple[str, str], list[float]] = {}
    for one in outcomes:
        for group in (OVERALL, str(one.category)):
            times.setdefault((one.retriever, group), []).append(one.milliseconds)
    return times


def median_milliseconds(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """The median time per question of each retriever."""
    times = _milliseconds(outcomes)
    return {name: statistics.median(each) for (name, group), each in times.items() if group == OVERALL}

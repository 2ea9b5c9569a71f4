"""A benchmark's protocol: every question to every retriever; then figures with intervals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import numpy as np

from . import bootstrap, metrics
from .data import Conversation, Question
from .errors import ChangedMeanwhile
from .retrievers import DEPTH, Found, Prepared, Retriever

CUTOFFS: Final = (5, 10, 100)
OVERALL: Final = "overall"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one retriever did with one question.

    `ranks` are the ranks of the gold messages, from 1, null if not among the first hundred; `values` the
    figures of this question (shares, and for QGMem's protocol the counts gold, covered, relevant).
    """

    conversation: str
    number: int
    category: int
    retriever: str
    gold: tuple[str, ...]
    ranks: tuple[int | None, ...]
    values: dict[str, float]
    milliseconds: float


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval; null where no resample defines it."""

    value: float
    low: float | None
    high: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one retriever over all questions or one category; times in milliseconds per question."""

    retriever: str
    group: str
    questions: int
    figures: dict[str, Estimate]
    median_ms: float
    mean_ms: float


# What is reported: the sum of one value over the sum of another, or over a constant times the questions.
FIGURES: Final[Mapping[str, tuple[str, str | int]]] = {
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
}


def values(
    found: Sequence[Found], gold: Sequence[str], count: Callable[[str], int], stale: Sequence[str] = ()
) -> dict[str, float]:
    """Every figure of one question; `count` gives the tokens of a text."""
    ranking = metrics.first_seen(piece.ids for piece in found)
    judged = metrics.qgmem_counts([piece.ids for piece in found], gold)
    top = found[: metrics.QGMEM_CUTOFF]
    return {
        **{f"recall@{k}": metrics.recall(ranking, gold, k) for k in CUTOFFS},
        "any@10": metrics.any_hit(ranking, gold, 10),
        "all@10": metrics.all_hit(ranking, gold, 10),
        "ndcg@10": metrics.ndcg(ranking, gold, 10),
        "gold": judged.gold,
        "covered": judged.covered,
        "relevant": judged.relevant,
        "sufficient": float(judged.sufficient),
        "order_ndcg@10": judged.order_ndcg,
        "context_tokens": sum(count(piece.text) for piece in top),
        "stale_first": metrics.stale_first(ranking, gold, stale),
    }


def ask(
    conversation: Conversation,
    question: Question,
    name: str,
    retriever: Retriever,
    count: Callable[[str], int],
) -> Outcome:
    """One question to one retriever, timed."""
    start = time.perf_counter()
    found = retriever(question)
    milliseconds = (time.perf_counter() - start) * 1000
    ranking = metrics.first_seen(piece.ids for piece in found)[:DEPTH]
    place = {one: rank for rank, one in enumerate(ranking, 1)}
    return Outcome(
        conversation=conversation.name,
        number=question.number,
        category=question.category,
        retriever=name,
        gold=question.gold,
        ranks=tuple(place.get(one) for one in question.gold),
        values=values(found, question.gold, count, question.stale),
        milliseconds=milliseconds,
    )


class Run(msgspec.Struct, kw_only=True):
    """Everything a run found out."""

    outcomes: list[Outcome]
    add_seconds: float
    seconds: float
    models: dict[str, str]


def evaluate(
    conversations: Sequence[Conversation],
    prepare: Callable[[Conversation], AbstractContextManager[Prepared]],
    count: Callable[[str], int],
    step: Callable[[str], None],
) -> Run:
    """All questions that have gold, conversation by conversation; `step` hears of each question answered."""
    start = time.perf_counter()
    run = Run(outcomes=[], add_seconds=0.0, seconds=0.0, models={})
    for conversation in conversations:
        with prepare(conversation) as prepared:
            run.add_seconds += prepared.add_seconds
            _note_models(run.models, prepared.models)
            for question in conversation.questions:
                if question.gold:
                    run.outcomes += [
                        ask(conversation, question, name, retriever, count)
                        for name, retriever in prepared.retrievers.items()
                    ]
                step(conversation.name)
    run.seconds = time.perf_counter() - start
    return run


def _note_models(known: dict[str, str], used: Mapping[str, str]) -> None:
    """Add the models of one conversation. Raises ChangedMeanwhile if one is not the file it was before."""
    for name, digest in used.items():
        if known.setdefault(name, digest) != digest:
            raise ChangedMeanwhile(
                f"the model {name} was {known[name][:8]} and is now {digest[:8]}",
                hint="nothing was kept; run it where nobody changes files, without an old --keep folder",
            )


Cluster = Callable[[Outcome], Hashable]


def by_conversation(outcome: Outcome) -> Hashable:
    """What is resampled as a whole: a conversation."""
    return outcome.conversation


def by_question(outcome: Outcome) -> Hashable:
    """What is resampled as a whole: a question."""
    return outcome.conversation, outcome.number


def groups(outcomes: Iterable[Outcome]) -> list[str]:
    """`overall`, then the categories that occur."""
    return [OVERALL, *(str(one) for one in sorted({outcome.category for outcome in outcomes}))]


def _sums(
    outcomes: Sequence[Outcome], by: Cluster
) -> tuple[list[str], bootstrap.Array, bootstrap.Array, bootstrap.Array]:
    """Retriever names, and per cluster, retriever and group: numerators, denominators, question counts.

    The first two are [clusters, retrievers, groups, figures], the last [retrievers, groups].
    """
    names = list(dict.fromkeys(outcome.retriever for outcome in outcomes))
    clusters = {one: number for number, one in enumerate(dict.fromkeys(map(by, outcomes)))}
    labels = groups(outcomes)
    above = np.zeros((len(clusters), len(names), len(labels), len(FIGURES)))
    below = np.zeros_like(above)
    questions = np.zeros((len(names), len(labels)))
    for one in outcomes:
        cluster, name = clusters[by(one)], names.index(one.retriever)
        both = [0, labels.index(str(one.category))]
        above[cluster, name, both] += [one.values[top] for top, _ in FIGURES.values()]
        below[cluster, name, both] += [
            one.values[per] if isinstance(per, str) else per for _, per in FIGURES.values()
        ]
        questions[name, both] += 1
    return names, above, below, questions


def _estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, None if np.isnan(low) else low, None if np.isnan(high) else high)


def _estimates(value: bootstrap.Array, draws: bootstrap.Array) -> dict[str, Estimate]:
    """Figures by name from their values [figures] and resamples [resamples, figures]."""
    low, high, _ = bootstrap.interval(draws)
    cells = zip(FIGURES, value.tolist(), low.tolist(), high.tolist(), strict=True)
    return {name: _estimate(one, bottom, top) for name, one, bottom, top in cells}


def summarise(outcomes: Sequence[Outcome], by: Cluster = by_conversation) -> list[Row]:
    """Figures of every retriever and group with intervals from resampling what `by` says."""
    names, above, below, questions = _sums(outcomes, by)
    times = _milliseconds(outcomes)
    draws = bootstrap.resampled(above, below, bootstrap.weights(len(above)))
    value = above.sum(axis=0) / below.sum(axis=0)
    return [
        Row(
            retriever=name,
            group=group,
            questions=int(questions[i, j]),
            figures=_estimates(value[i, j], draws[:, i, j]),
            median_ms=statistics.median(times[name, group]),
            mean_ms=statistics.fmean(times[name, group]),
        )
        for i, name in enumerate(names)
        for j, group in enumerate(groups(outcomes))
    ]


def gains(
    outcomes: Sequence[Outcome], over: str, by: Cluster = by_conversation
) -> dict[str, dict[str, Estimate]]:
    """What each other retriever gains over the one named, per figure, over all questions.

    The same resamples serve both sides, so the interval is that of the paired difference.
    """
    names, above, below, _ = _sums(outcomes, by)
    value = above[:, :, 0].sum(axis=0) / below[:, :, 0].sum(axis=0)
    draws = bootstrap.resampled(above[:, :, 0], below[:, :, 0], bootstrap.weights(len(above)))
    base = names.index(over)
    return {
        name: _estimates(value[i] - value[base], draws[:, i] - draws[:, base])
        for i, name in enumerate(names)
        if i != base
    }


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

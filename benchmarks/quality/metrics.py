"""Retrieval metrics of LoCoMo, LongMemEval, QGMem and DeferMem, as pure functions of a ranking and its gold.

A ranking is a sequence of ids, best first; gold is a collection of ids. Every result is in [0, 1]. A question
without gold is undefined for most of them and raises `ValueError`: callers leave it out.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

QGMEM_CUTOFF = 10  # ℓ of QGMem's retrieval protocol


def _known(gold: Collection[str]) -> frozenset[str]:
    if not gold:
        raise ValueError("a question without gold has no retrieval metric")
    return frozenset(gold)


def recall(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold among the first `k`."""
    wanted = _known(gold)
    return len(wanted.intersection(ranking[:k])) / len(wanted)


def any_hit(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if some gold is among the first `k`, else 0."""
    return float(not _known(gold).isdisjoint(ranking[:k]))


def all_hit(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if all gold is among the first `k`, else 0."""
    return float(_known(gold).issubset(ranking[:k]))


def stale_first(ranking: Sequence[str], gold: Collection[str], stale: Collection[str]) -> float:
    """1 if something stale stands above all gold, or alone, else 0."""
    wanted, old = _known(gold), frozenset(stale)
    first = next((one for one in ranking if one in wanted or one in old), None)
    return float(first in old)


def _dcg(relevances: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(relevances, 1))


def ndcg(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Binary nDCG@k whose ideal order holds all gold (at most `k`), found or not."""
    wanted = _known(gold)
    ideal = _dcg([1.0] * min(len(wanted), k))
    return _dcg(float(one in wanted) for one in ranking[:k]) / ideal


def first_seen(units: Iterable[Iterable[str]]) -> list[str]:
    """The message ranking behind a ranking of units: their messages in order, first occurrence counts."""
    return list(dict.fromkeys(chain.from_iterable(units)))


def evidence_recall(retrieved: Collection[str], evidence: Collection[str]) -> float:
    """LoCoMo's own recall: share of the evidence that was retrieved, 1 when none is listed."""
    if not evidence:
        return 1.0
    return sum(one in retrieved for one in evidence) / len(evidence)


def auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Area under the ROC curve of a score that is to be higher for what can be answered: the share of pairs
    in which it is, a tie counting half.

    From the ranks, ties having the mean of theirs (Mann and Whitney 1947). Both kinds are needed.
    """
    if not answerable or not unanswerable:
        raise ValueError("an AUROC needs scores of both kinds")
    scores = [*answerable, *unanswerable]
    order = sorted(scores)
    rank = {one: (bisect_left(order, one) + bisect_right(order, one) + 1) / 2 for one in set(scores)}
    above = sum(rank[one] for one in answerable) - len(answerable) * (len(answerable) + 1) / 2
    return above / (len(answerable) * len(unanswerable))


class QGMemCounts(NamedTuple):
    """One question under QGMem's protocol: counts of gold items and of units in the first ten."""

    gold: int
    covered: int
    relevant: int
    sufficient: bool
    order_ndcg: float


def order_ndcg(relevant: Sequence[bool | int]) -> float:
    """nDCG of retrieved units against the ideal order of those same units; 0 if none is relevant.

    It measures order alone: what was not retrieved costs nothing (QGMem appendix C).
    """
    ideal = _dcg([1.0] * sum(map(bool, relevant)))
    return _dcg(map(float, relevant)) / ideal if ideal else 0.0


def qgmem_counts(units: Sequence[Collection[str]], gold: Collection[str]) -> QGMemCounts:
    """QGMem's judge replaced by ids: a unit is relevant, and a gold item covered, if the unit rests on it.

    `units` are the message ids each retrieved unit rests on, best unit first.
    """
    wanted = _known(gold)
    top = [wanted.intersection(unit) for unit in units[:QGMEM_CUTOFF]]
    covered = frozenset(chain.from_iterable(top))
    relevant = [bool(found) for found in top]
    return QGMemCounts(len(wanted), len(covered), sum(relevant), covered == wanted, order_ndcg(relevant))


class QGMemScore(NamedTuple):
    """QGMem's four figures over many questions."""

    recall: float
    precision: float
    sufficiency: float
    order_ndcg: float


def qgmem(questions: Sequence[QGMemCounts]) -> QGMemScore:
    """Recall over all gold items, precision over 10 N ranks, means over questions of the other two."""
    if not questions:
        raise ValueError("no questions")
    return QGMemScore(
        recall=sum(one.covered for one in questions) / sum(one.gold for one in questions),
        precision=sum(one.relevant for one in questions) / (QGMEM_CUTOFF * len(questions)),
        sufficiency=sum(one.sufficient for one in questions) / len(questions),
        order_ndcg=sum(one.order_ndcg for one in questions) / len(questions),
    )


class DeferMemScore(NamedTuple):
    """How much of the gold the candidate sets hold."""

    recall_01: float
    recall: float


def defermem(questions: Iterable[tuple[Collection[str], Collection[str]]]) -> DeferMemScore:
    """Over (candidates, gold) of each question: share fully covered, mean share covered.

    Questions without gold are left out (DeferMem section 4.3).
    """
    shares = [evidence_recall(candidates, gold) for candidates, gold in questions if gold]
    if not shares:
        raise ValueError("no question has gold")
    return DeferMemScore(sum(share == 1.0 for share in shares) / len(shares), sum(shares) / len(shares))


class LongMemEvalScore(NamedTuple):
    """LongMemEval's retrieval figures at one cutoff."""

    recall_any: float
    recall_all: float
    ndcg_any: float


def _longmemeval_dcg(relevances: Sequence[bool]) -> float:
    """Ranks 1 and 2 weigh the same: rel_1 + Σ_{i≥2} rel_i / log2(i)."""
    return sum(gain / math.log2(max(rank, 2)) for rank, gain in enumerate(relevances, 1))


def longmemeval(
    ranking: Sequence[str], gold: Collection[str], corpus: Sequence[str], k: int
) -> LongMemEvalScore:
    """The official figures, rank-1/2 quirk kept; the ideal order has all gold documents of `corpus` on top.

    An id may occur several times in `ranking` and `corpus` (turns counted as their session): each occurrence
    is a document of its own there.
    """
    wanted = _known(gold)
    top = [one in wanted for one in ranking[:k]]
    ideal = sorted((one in wanted for one in corpus), reverse=True)[:k]
    best = _longmemeval_dcg(ideal)
    return LongMemEvalScore(
        any_hit(ranking, gold, k), all_hit(ranking, gold, k), _longmemeval_dcg(top) / best if best else 0.0
    )


def session_of(turn: str) -> str:
    """The session id in a LongMemEval turn id (`{session}_{turn number}`)."""
    return turn.rpartition("_")[0]


def longmemeval_sessions(
    ranking: Sequence[str], gold: Collection[str], corpus: Sequence[str], k: int
) -> LongMemEvalScore:
    """Session figures of a ranking of turns: suffixes stripped, `k` enlarged until it covers `k` sessions."""
    sessions = [session_of(turn) for turn in ranking]
    depth, seen = min(k, len(sessions)), set(sessions[:k])
    while depth < len(sessions) and len(seen) < k:
        seen.add(sessions[depth])
        depth += 1
    return longmemeval(
        sessions, {session_of(turn) for turn in gold}, [session_of(turn) for turn in corpus], depth
    )

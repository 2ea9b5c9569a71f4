"""Whether the memory holds an answer at all: a calibrated probability, so that "I don't know" can be said.

What the reranker thinks of the best candidates, how far the channels agree on them, whether they were said by
the one whom the question is about, and how much of what it asks for was found, are weighed by a logistic
regression that was fitted on talks of which it is known (docs/why/reranking.md). Its weights belong to the
reranker and stand in its card.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from memdb.activate.retrieve import SEARCHES, Candidate
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, question_terms, tokens
from memdb.records import Query

BIAS: Final = "bias"
LOOKED_AT: Final = 10  # candidates, by the reranker's scores
MOST_TERMS: Final = 32  # of the question that are looked for


def signs(
    query: Query, candidates: Sequence[Candidate], scores: Sequence[float], speaker: str | None
) -> dict[str, float]:
    """What the probability rests on, each from about -1 to 1; `speaker` is whom the question is about.

    `scores` are the reranker's log-odds for the candidates.
    """
    order = sorted(range(len(scores)), key=lambda place: -scores[place])[:LOOKED_AT]
    best = candidates[order[0]].evidence
    words = {stem(word) for word in question_terms(query.text, stop=STOP_WORDS, limit=MOST_TERMS)}
    names = {stem(word) for word in tokens(speaker or "")}
    said = {stem(word) for place in order[:3] for word in tokens(candidates[place].evidence.text)}
    asked = words - names
    return {
        "best": scores[order[0]] / 10,
        "second": scores[order[min(1, len(order) - 1)]] / 10,
        "mean": sum(scores[place] for place in order) / len(order) / 10,
        "agreement": sum(channel in best.channels for channel in SEARCHES) / len(SEARCHES),
        "first_rank": 1 / candidates[order[0]].evidence.rank,
        "same_speaker": 0.0 if speaker is None else (1.0 if best.speaker == speaker else -1.0),
        "words": len(asked & said) / len(asked) if asked else 0.0,
        "attribute": best.channels["unit_attribute"].score if "unit_attribute" in best.channels else 0.0,
        "cosine": best.channels["message_dense"].score if "message_dense" in best.channels else 0.0,
    }


def probability(
    query: Query,
    candidates: Sequence[Candidate],
    scores: Sequence[float],
    speaker: str | None,
    calibration: Mapping[str, float],
) -> float:
    """That one of the candidates answers the question; 0 without candidates.

    Without a calibration it is what the reranker alone says of its best candidate.
    """
    if not candidates:
        return 0.0
    if not calibration:
        return _sigmoid(max(scores))
    found = signs(query, candidates, scores, speaker)
    return _sigmoid(
        calibration.get(BIAS, 0.0) + sum(found[name] * calibration.get(name, 0.0) for name in found)
    )


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))

"""Which messages of a history help to answer its question, without a language model: those that a reranker
finds relevant, the place at which each was found being the second sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from memdb import settings
from memdb.activate.rerank import relevances
from memdb.activate.retrieve import Candidate
from memdb.generate.distill_prompt import clock_text
from memdb.generate.spans import stems
from memdb.language.cleaning import cleaned
from memdb.models.ports import Reranker
from memdb.records import Evidence, History, Utterance


class Bounds(NamedTuple):
    """Useful are at most `most` messages, of a relevance of at least `least`, and at most `within` less than
    that of the best.
    """

    most: int = settings.MOST_USEFUL
    least: float = settings.LEAST_USEFUL
    within: float = settings.USEFUL_WITHIN


def chosen(history: History, reranker: Reranker | None, bounds: Bounds) -> tuple[int, ...]:
    """The numbers, in `History.utterances`, of the useful messages, the most relevant first."""
    scores = relevance(history, reranker)
    least = max(bounds.least, max(scores.values(), default=0.0) - bounds.within)
    best = sorted(scores, key=lambda number: (-scores[number], number))
    return tuple(number for number in best[: bounds.most] if scores[number] >= least)


def relevance(history: History, reranker: Reranker | None) -> dict[int, float]:
    """Log-odds that messages help, of those that are read, by their numbers in `History.utterances`.

    They are the reranker's, from which USEFUL_RANK_WEIGHT · ln(rank) is taken; a message that was not found
    itself has the rank behind the last one's. Without a reranker they are those of a word of the question
    being said in the message.
    """
    messages = history.utterances
    numbers = _read(history)
    scores = _scores(history, reranker, numbers)
    last = 1 + max((one.rank or 0 for one in messages), default=0)
    return {
        number: score - settings.USEFUL_RANK_WEIGHT * math.log(messages[number].rank or last)
        for number, score in zip(numbers, scores, strict=True)
    }


def _read(history: History) -> list[int]:
    """The messages that are read: as many as settings.DISTILL_DEPTH, those that were found first, by rank,
    then those nearest to one that was, then those of linked segments.
    """
    places: list[tuple[float, float, int]] = []
    for segment in history.segments:
        hits = [(one.position, one.rank) for one in segment.utterances if one.rank is not None]
        for one in segment.utterances:
            near = min(((abs(one.position - at), rank) for at, rank in hits), default=(math.inf, 0))
            places.append((*near, len(places)))
    return [number for *_, number in sorted(places)[: settings.DISTILL_DEPTH]]


def _scores(history: History, reranker: Reranker | None, numbers: Sequence[int]) -> list[float]:
    messages = history.utterances
    if reranker is None:
        return [_words_said(history.query.text, messages[number]) for number in numbers]
    candidates = [_candidate(messages, number) for number in numbers]
    return relevances(reranker, history.query.text, candidates, ())


def _candidate(messages: Sequence[Utterance], number: int) -> Candidate:
    """The message as a reranker reads it, with the one directly before it."""
    one = messages[number]
    before = messages[max(0, number - settings.RERANK_BEFORE) : number]
    evidence = Evidence(
        rank=1,
        score=0.0,
        text=one.message.content,
        speaker=one.message.speaker,
        session=one.session,
        source=(one.message,),
        said_at=clock_text(one.message) or None,
    )
    return Candidate(evidence, tuple(it.message for it in before if _is_near(it, one)))


def _is_near(before: Utterance, one: Utterance) -> bool:
    """Whether an utterance of the history is one of those directly before another."""
    same = (before.source, before.session) == (one.source, one.session)
    return same and 0 < one.position - before.position <= settings.RERANK_BEFORE


def _words_said(question: str, utterance: Utterance) -> float:
    """Of n stems of the question's content m are said: ln((m + 1/2) / (n - m + 1/2)) (Haldane's odds)."""
    message = utterance.message
    asked = stems(question)
    said = stems(cleaned(f"{message.speaker} {message.content} {message.image_caption or ''}"))
    found = len(asked & said)
    return math.log((found + 0.5) / (len(asked) - found + 0.5))

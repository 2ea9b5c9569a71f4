"""Reranking (QGMem section III-B2): what a reranker reads of each candidate, and the order that its scores
and the first ranking give together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from memdb.activate.retrieve import Candidate
from memdb.language.cleaning import cleaned
from memdb.models.ports import FIELDS, Field, Reranker
from memdb.records import ChannelHit, Evidence, Interval, Message, Trace

Count = Callable[[str], int]

# What the fallback without a model weighs: cosine, BM25 as a share of the best, S_ELT (QGMem leaves it open).
LINEAR: Final = {"cosine": 0.5, "bm25": 0.3, "attribute": 0.2}
_CHANNELS: Final = {
    "cosine": ("message_dense", "unit_dense"),
    "bm25": ("message_lexical", "unit_lexical"),
    "attribute": ("unit_attribute",),
}


def document(
    candidate: Candidate,
    traces: Mapping[str, Trace],
    fields: Sequence[Field] = FIELDS,
    *,
    max_tokens: int | None = None,
    count: Count = len,
) -> str:
    """The rerank document of a candidate: labelled lines, fields that are empty left out.

    Of a document longer than `max_tokens` the messages before the evidence's own go first, the farthest
    first, then the end of its own; the trajectory stays (QGMem section III-B2, as the paper leaves the length
    open).
    """
    before = list(candidate.before)
    text = _document(candidate.evidence, before, traces, fields)
    while before and max_tokens is not None and count(text) > max_tokens:
        before.pop(0)
        text = _document(candidate.evidence, before, traces, fields)
    if max_tokens is None or (tokens := count(text)) <= max_tokens:
        return text
    return _with_its_message_cut(candidate.evidence, traces, fields, tokens - max_tokens, count)


def _with_its_message_cut(
    evidence: Evidence, traces: Mapping[str, Trace], fields: Sequence[Field], tokens: int, count: Count
) -> str:
    """The document less at least so many tokens of the evidence's own message, as far as it has them."""
    (message, *_) = evidence.source
    kept = cleaned(message.content)
    left = count(kept) - tokens
    while kept and count(kept) > left:
        kept = kept[: min(len(kept) - 1, len(kept) * max(left, 0) // count(kept))]
    cut = msgspec.structs.replace(message, content=kept)
    return _document(msgspec.structs.replace(evidence, source=(cut,)), (), traces, fields)


def relevances(
    reranker: Reranker, question: str, candidates: Sequence[Candidate], traces: Sequence[Trace]
) -> list[float]:
    """The reranker's log-odds for each candidate."""
    by_id = {trace.id: trace for trace in traces}
    room = reranker.document_tokens(question)
    documents = [
        document(one, by_id, reranker.fields, max_tokens=room, count=reranker.count_tokens)
        for one in candidates
    ]
    scores: list[float] = reranker.score(question, documents).tolist()
    return scores


def linear(candidates: Sequence[Candidate]) -> list[float]:
    """Scores without a model, from those of the channels: see LINEAR. From 0 to 1, and no log-odds."""
    parts = [
        {name: _best(one.evidence, channels) for name, channels in _CHANNELS.items()} for one in candidates
    ]
    most = max((part["bm25"] for part in parts), default=0.0) or 1.0
    return [
        sum(weight * part[name] / (most if name == "bm25" else 1.0) for name, weight in LINEAR.items())
        for part in parts
    ]


def _best(evidence: Evidence, channels: Sequence[str]) -> float:
    return max((evidence.channels[one].score for one in channels if one in evidence.channels), default=0.0)


def reordered(
    candidates: Sequence[Candidate], scores: Sequence[float], *, first_weight: float
) -> list[Candidate]:
    """The candidates by their scores and the first ranking together; what was not scored comes behind.

    `scores` are log-odds of the first candidates. The first ranking is the prior: of the candidate at rank r
    `first_weight` · ln r is taken away, as if its odds fell with 1 / r. Chains of facts keep their places:
    what links two facts says nothing of the question itself. What was replaced stays behind what holds, where
    the first ranking put it there. The channel `reranker` tells rank and score by the reranker alone.
    """
    scored = candidates[: len(scores)]
    total = [score - first_weight * math.log(rank) for rank, score in enumerate(scores, 1)]
    _lift(scored, total)
    total += [min(total, default=0.0) - rank for rank in range(1, len(candidates) - len(scores) + 1)]
    free = [place for place, one in enumerate(scored) if "hops" not in one.evidence.channels]
    best = iter(sorted(free, key=lambda place: (-total[place], place)))
    order = [next(best) if place in set(free) else place for place in range(len(candidates))]
    by_reranker = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    hits = {place: ChannelHit(rank, scores[place]) for rank, place in enumerate(by_reranker, 1)}
    least, found = -math.inf, []
    for place in reversed(order):  # a pinned chain scores at least what comes after it
        least = max(least, total[place])
        found.append(_with_score(candidates[place], least, hits.get(place)))
    return found[::-1]


def _with_score(candidate: Candidate, score: float, hit: ChannelHit | None) -> Candidate:
    channels = candidate.evidence.channels | ({"reranker": hit} if hit else {})
    return candidate._replace(
        evidence=msgspec.structs.replace(candidate.evidence, score=score, channels=channels)
    )


def _lift(candidates: Sequence[Candidate], total: list[float]) -> None:
    """Give what holds at least the score of what it replaced, and that one the least bit less."""
    holding = {
        fact.trace_id: place
        for place, one in reversed(list(enumerate(candidates)))
        for fact in one.evidence.facts
        if fact.current and fact.trace_id is not None
    }
    for place, one in enumerate(candidates):
        facts = one.evidence.facts
        if not one.evidence.superseded or any(fact.current for fact in facts):
            continue
        for fact in facts:
            by = holding.get(fact.trace_id or "") if fact.current is False else None
            if by is not None and by < place and total[by] <= total[place]:
                total[by] = total[place]
                total[place] = math.nextafter(total[place], -math.inf)


def _document(
    evidence: Evidence, before: Sequence[Message], traces: Mapping[str, Trace], fields: Sequence[Field]
) -> str:
    lines = {
        "fact": _unique(fact.fact_text for fact in evidence.facts),
        "source": "\n".join(map(_said, (*before, *evidence.source[:1]))),
        "entities": _unique(chain.from_iterable(fact.entities for fact in evidence.facts)),
        "locations": _unique(chain.from_iterable(fact.locations for fact in evidence.facts)),
        "fact_time": _unique(_days(time) for fact in evidence.facts for time in fact.fact_time),
        "utterance_time": cleaned(evidence.said_at) if evidence.said_at else "",
        "state_trajectory": _unique(
            traces[fact.trace_id or ""].trajectory for fact in evidence.facts if fact.trace_id in traces
        ),
    }
    wanted = [field for field in FIELDS if field in fields and lines[field]]
    return "\n".join(f"{field.replace('_', ' ').capitalize()}: {lines[field]}" for field in wanted)


def _unique(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(cleaned(text) for text in texts))


def _said(message: Message) -> str:
    shown = f" [image: {cleaned(message.image_caption)}]" if message.image_caption else ""
    return f"{cleaned(message.speaker)}: {cleaned(message.content)}{shown}"


def _days(time: Interval) -> str:
    if time.start == time.end:
        return f"{time.start.isoformat()} ({time.granularity})"
    return f"{time.start.isoformat()}..{time.end.isoformat()} ({time.granularity})"

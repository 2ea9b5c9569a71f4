"""Rerank documents and scores (QGMem section III-B2): what a reranker reads of each candidate, and the order
that its scores and the first ranking give together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from memdb.activate.retrieve import Candidate
from memdb.language.cleaning import cleaned
from memdb.models.ports import FIELDS, Field
from memdb.records import Evidence, Interval, Message, Trace

Count = Callable[[str], int]


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
    first; the trajectory stays (QGMem section III-B2, as the paper leaves the length open).
    """
    before = list(candidate.before)
    while True:
        text = _document(candidate.evidence, before, traces, fields)
        if not before or max_tokens is None or count(text) <= max_tokens:
            return text
        before.pop(0)


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

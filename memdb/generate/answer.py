"""An answer put together: text, sources, what of it is supported, and whether it is one (QGMem section III-D,
appendix F1).
"""

from __future__ import annotations

import msgspec

from memdb import settings
from memdb.activate.working_memory import Serialised
from memdb.generate.check import NO_ANSWER, checked, cited, says_none
from memdb.generate.extractive import Extract
from memdb.generate.reply import Reply
from memdb.records import Answer, Citation, WorkingMemory

UNKNOWN_PROBABILITY = 0.5  # of an answer in memory where no calibrated reranker was asked


def probability(memory: WorkingMemory) -> float:
    """That the memory holds the answer, as far as can be told."""
    if not memory.evidence:
        return 0.0
    return UNKNOWN_PROBABILITY if memory.answerable is None else memory.answerable


def seems_held(memory: WorkingMemory) -> bool:
    """Whether the memory is likely enough to hold the answer."""
    return probability(memory) >= settings.ABSTAIN_BELOW


def none_held(memory: WorkingMemory, reason: str = "") -> Answer:
    """The answer that there is none. Its confidence is that of the memory holding one all the same."""
    return Answer(
        text=NO_ANSWER,
        evidence=memory.evidence,
        reasoning_path=reason,
        abstained=True,
        confidence=probability(memory),
    )


def from_span(memory: WorkingMemory, found: Extract | None, told: Serialised) -> Answer:
    """A span of the evidence as answer, or that there is none."""
    if found is None:
        return none_held(memory)
    return Answer(
        text=found.text,
        evidence=memory.evidence,
        citations=tuple(
            Citation(label=label, rank=told.units[label].rank, source=told.units[label].source)
            for label in found.labels
        ),
        sentences=checked(found.text, memory.query.text, told, memory.traces, cites=True),
        confidence=probability(memory),
    )


def from_reply(memory: WorkingMemory, reply: Reply, told: Serialised) -> Answer:
    """A backbone's reply as answer. Its confidence falls with the share of it that nothing supports."""
    if says_none(reply.answer):
        return none_held(memory, reply.reasoning_path)
    found = cited(f"{reply.reasoning_path} {reply.answer}", told)
    sentences = checked(reply.answer, memory.query.text, told, memory.traces, cites=bool(found.citations))
    supported = sum(sentence.supported for sentence in sentences) / len(sentences)
    return Answer(
        text=reply.answer,
        evidence=memory.evidence,
        reasoning_path=reply.reasoning_path,
        citations=found.citations,
        unknown_labels=found.unknown,
        sentences=sentences,
        confidence=probability(memory) * supported,
    )


def with_costs(answer: Answer, timings: dict[str, float], **costs: object) -> Answer:
    """The answer with what it cost."""
    return msgspec.structs.replace(answer, timings=timings, **costs)

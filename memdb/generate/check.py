"""Whether an answer rests on the evidence: its labels exist, and its sentences say what was said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from memdb import settings
from memdb.activate.working_memory import Serialised
from memdb.construct.support import Support
from memdb.errors import TimeError
from memdb.language.clock import anchor_day, parse_instant
from memdb.language.patterns import lazy
from memdb.language.sentences import Span, sentences
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, document_terms
from memdb.language.words import FUNCTION, REACTIONS
from memdb.records import Citation, Evidence, Interval, Sentence, Trace, Triple

NO_ANSWER: Final = "No information available."
_LABEL: Final = lazy(r"\b(?:MU|F)\d{1,6}\b")
# What says so at the start of an answer. What real answers begin with too ("Unknown Pleasures", "No answer
# came") counts only where nothing else follows.
_ENDS: Final = (
    r"(?=\W*\Z|\s(?:in|by|from|based|here|whether|who|what|when|where|why|how|to the (?:memory|question))\b)"
)
_NONE: Final = lazy(
    r"\W*(?:(?:there (?:is|are|was) |i have |i find )?(?:no|insufficient|not enough) (?:relevant )?"
    rf"(?:information|info|mention|evidence|data|record|details?|memory)\b(?=\W*\Z|\s(?:is|was|are"
    rf"|available|found"
    r"|provided|given|about|on|of|for|regarding|in|to|that|here|as|whether)\b)"
    rf"|no answer(?: (?:is|was|can be))?(?: (?:available|found|given|held))?{_ENDS}"
    rf"|(?:(?:it|this|that|[\w' ]{{1,60}}) (?:is|was|are|were)(?: not|n['’]t) |not )"
    rf"(?:mentioned|available|specified|stated|known|provided|given|recorded){_ENDS}"
    rf"|unknown{_ENDS}|none\W*\Z|n/a\b|nothing (?:is|was) (?:known|mentioned|said|recorded)\b"
    r"|(?:it |this |that )?(?:cannot|can['’]t|could not) be (?:determined|answered|known|told)\b"
    r"|i (?:do not|don['’]t|cannot|can['’]t) (?:know|answer|tell|find"
    r"|have (?:any |enough |that )?information)\b"
    r"|(?:the|this|my) (?:memory|memories|context|information|conversations?|evidence) "
    r"(?:(?:does|do)(?: not|n['’]t) \w+|is(?: not|n['’]t) (?:enough|sufficient|available|there|in)\b))",
    re.IGNORECASE,
)
_EMPTY: Final = STOP_WORDS | FUNCTION | REACTIONS  # words that say nothing by themselves: "now", "yes"
_CLAIM_TERMS: Final = 3  # words of content from which on a text claims something, rather than names it


class Cited(NamedTuple):
    """The labels in a text that stand for evidence, in the order named, and those that stand for none."""

    citations: tuple[Citation, ...]
    unknown: tuple[str, ...]


def cited(text: str, told: Serialised) -> Cited:
    """The labels that a text names."""
    citations, unknown = list[Citation](), list[str]()
    for label in dict.fromkeys(_LABEL.findall(text)):
        evidence = told.units.get(label) or (told.facts[label].evidence if label in told.facts else None)
        if evidence is None:
            unknown.append(label)
        else:
            citations.append(Citation(label=label, rank=evidence.rank, source=evidence.source))
    return Cited(tuple(citations), tuple(unknown))


def says_none(answer: str) -> bool:
    """Whether an answer says that the memory holds none, or says nothing: marks and labels alone."""
    said = _LABEL.sub("", answer)
    return not any(map(str.isalnum, said)) or _NONE.match(answer) is not None


def checked(
    answer: str, question: str, told: Serialised, traces: Iterable[Trace], *, cites: bool
) -> tuple[Sentence, ...]:
    """The sentences of an answer, and whether the evidence supports each.

    Names and numbers have to be said, and three fifths of the words that the question does not have. Dates
    may be written in any way: an expression of time counts for the days it means. What was only denied cannot
    be affirmed, nor denied what nobody denies. A sentence without words
    of content, "Yes.", is supported if its reason `cites` evidence.
    """
    support = _support(told, traces)
    asked = {stem(term) for term in document_terms(question).split()}
    return tuple(
        Sentence(text=answer[start:end], supported=_is_supported(answer[start:end], asked, support, cites))
        for start, end in sentences(answer) or [Span(0, len(answer))]
    )


def _is_supported(sentence: str, asked: set[str], support: Support, cites: bool) -> bool:
    words = _LABEL.sub("", sentence)
    terms = [term for term in document_terms(words).split() if term not in _EMPTY]
    if not terms:
        return cites
    added = [term for term in terms if stem(term) not in asked] or terms
    if support.lacking_names(words) or support.share(" ".join(added)) < settings.LEAST_SUPPORT:
        return False
    return len(terms) < _CLAIM_TERMS or not support.turns_round(words, Triple("", "", words))


def _support(told: Serialised, traces: Iterable[Trace]) -> Support:
    support = Support()
    for evidence in told.units.values():
        _say(support, evidence)
    ids = {unit.trace_id for evidence in told.units.values() for unit in evidence.facts}
    for trace in traces:
        if trace.id in ids:
            support.say(trace.trajectory)
    return support


def _say(support: Support, evidence: Evidence) -> None:
    for message in evidence.source:
        try:
            instant = None if message.said_at is None else parse_instant(message.said_at)
        except TimeError:  # a reading that a newer version wrote dates nothing here
            instant = None
        support.say(message.speaker)
        for text in (message.content, message.image_caption, message.location):
            if text:
                support.say_on(text, instant)
        if (day := anchor_day(instant)) is not None:
            support.say_time(Interval(day, day, "day"))
    for unit in evidence.facts:
        support.say(unit.fact_text)
        for interval in unit.fact_time:
            support.say_time(interval)

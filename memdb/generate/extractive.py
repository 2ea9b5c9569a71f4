"""An answer without a language model: the span of the evidence that is of the kind the question asks for.

A date, a place, a name, a number or the value of a claim, else the sentence that says most of what is asked.
Nothing is worded anew but dates, and who "I" is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from memdb.activate.working_memory import Serialised
from memdb.construct.resolve import cast_of, resolve
from memdb.construct.support import denies
from memdb.generate.asked_for import Kind, asks_for_several, kind_of
from memdb.generate.spans import FINDERS, Place, claim, shortened, stems, whether, without_caption_mark
from memdb.language.cleaning import cleaned
from memdb.language.sentences import Span, sentences
from memdb.language.talk import is_question, without_lead_in
from memdb.language.terms import fold
from memdb.models.ports import Reranker
from memdb.records import Query, Triple

MOST_UNITS: Final = 3  # pieces of evidence, best first, in which a span is looked for
MOST_SENTENCES: Final = 32  # of them, that are read closely
MOST_CHARS: Final = 400  # of an answer, as of a model's
MOST_LISTED: Final = 8  # values of one answer
RANK_WEIGHT: Final = 2.0  # of ln(rank) of the evidence, taken from the log-odds of a sentence (measured)
# Sentences, best first, in which a span of a kind is looked for before the best one is the answer (measured).
LOOKED_AT: Final[Mapping[Kind, int]] = {
    "when": 1, "what": 1, "why": 2, "who": 2, "where": 2, "name": 2, "how many": 4, "how long": 4,
}  # fmt: skip
HAS_VALUE: Final = ("what", "who", "where", "name", "how many")  # kinds that the value of a claim answers


class Extract(NamedTuple):
    """A span of the evidence, and the labels of the pieces it is from."""

    text: str
    labels: tuple[str, ...]


def extract(query: Query, told: Serialised, reranker: Reranker | None = None) -> Extract | None:
    """The span that answers; None without evidence.

    A chain of facts answers with its end, a question for several things with the values of all claims that
    say the same of the same. Else sentences are read in the order in which the reranker finds them helpful,
    those of better evidence before; without one, in that of the share of the question they say.
    """
    kind = kind_of(query.text)
    found = _end_of_chain(told) or (_listed(query, told) if asks_for_several(query.text) else None)
    if found is None:
        places = _ordered(query, list(_places(told)), reranker)
        found = _span(kind, query, places, told) if places else None
    return None if found is None else found._replace(text=_short(found.text))


def _span(kind: Kind, query: Query, places: Sequence[Place], told: Serialised) -> Extract:
    """The span of the asked kind in one of the first sentences, or the first sentence."""
    for place in places[: LOOKED_AT.get(kind, 0)]:
        told_whole = claim(query, place) if kind in HAS_VALUE else None
        if text := cleaned(told_whole or FINDERS[kind](query, place)):
            return Extract(text, (place.label,))
    sentence = _spoken(places[0], told)
    if kind == "whether" and (short := whether(query, places[0])):
        sentence = f"{short}. {sentence}"
    return Extract(sentence, (places[0].label,))


def _short(text: str) -> str:
    """The text, cut at a blank where it is too long."""
    if len(text) <= MOST_CHARS:
        return text
    head = text[:MOST_CHARS]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"


def _listed(query: Query, told: Serialised) -> Extract | None:
    """The values that several claims give of one subject and predicate, both of which the question has."""
    asked = stems(query.text)
    values: dict[tuple[str, frozenset[str]], dict[str, tuple[str, str]]] = {}
    for label, evidence in told.units.items():
        for triple in (unit.triple for unit in evidence.facts if unit.current is not False):
            if triple is None or denies(f"{triple.predicate} {triple.object}"):
                continue
            subject, predicate = stems(triple.subject), frozenset(stems(triple.predicate))
            value = shortened(triple.object)
            if subject and subject <= asked and predicate & asked and not stems(value) <= asked:
                values.setdefault((fold(triple.subject), predicate), {}).setdefault(
                    fold(value), (value, label)
                )
    best = max(values.values(), key=len, default={})
    if len(best) < 2:
        return None
    listed = list(best.values())[:MOST_LISTED]
    labels = dict.fromkeys(label for _, label in listed)
    return Extract(", ".join(cleaned(value) for value, _ in listed), tuple(labels))


def _end_of_chain(told: Serialised) -> Extract | None:
    """What a chain of facts in the evidence leads to: the one value that the chain says no more of."""
    links: list[tuple[str, Triple]] = [
        (label, unit.triple)
        for label, evidence in told.units.items()
        if "hops" in evidence.channels
        for unit in evidence.facts
        if unit.triple is not None
    ]
    subjects = {fold(triple.subject) for _, triple in links}
    objects = {fold(triple.object) for _, triple in links}
    ends = [
        Extract(cleaned(triple.object), (label,))
        for label, triple in links
        if fold(triple.subject) in objects and fold(triple.object) not in subjects
    ]
    return ends[0] if len(ends) == 1 else None


def _places(told: Serialised) -> Iterator[Place]:
    for label, evidence in list(told.units.items())[:MOST_UNITS]:
        for start, end in sentences(evidence.text) or [Span(0, len(evidence.text))]:
            text = cleaned(without_caption_mark(without_lead_in(evidence.text[start:end])))
            yield Place(label, text, evidence, start, end)


def _ordered(query: Query, places: Sequence[Place], reranker: Reranker | None) -> list[Place]:
    """The sentences that state something, or else all, best first."""
    asked = stems(query.text)
    places = [place for place in places if not is_question(place.text)] or places
    shares = [_share(asked, place) for place in places]
    kept = sorted(range(len(places)), key=lambda number: -shares[number])[:MOST_SENTENCES]
    scores = [shares[number] for number in kept]
    if reranker is not None:
        documents = [_document(places[number]) for number in kept]
        scores = [
            float(score) - RANK_WEIGHT * math.log(places[number].evidence.rank)
            for number, score in zip(kept, reranker.score(query.text, documents), strict=True)
        ]
    best = sorted(range(len(kept)), key=lambda number: (-scores[number], kept[number]))
    return [places[kept[number]] for number in best]


def _share(asked: set[str], place: Place) -> float:
    """The share of the question that is said; the first ranking tells what is equal."""
    said = stems(place.text) | stems(place.evidence.speaker)
    return len(asked & said) / max(len(asked), 1) - 0.25 * (place.evidence.rank - 1)


def _document(place: Place) -> str:
    """As the reranker reads it."""
    said = without_lead_in(place.evidence.text[place.start : place.end])
    return f"Source: {cleaned(place.evidence.speaker)}: {cleaned(said)}"


def _spoken(place: Place, told: Serialised) -> str:
    """The sentence with names for "I" and "you"."""
    source = place.evidence.source
    role = source[0].role if source else None
    speakers = tuple(dict.fromkeys(one.speaker for one in told.units.values()))
    return resolve(place.text, cast_of(place.evidence.speaker, role, speakers))

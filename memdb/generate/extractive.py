"""An answer without a language model: the span of the evidence that is of the kind the question asks for.

A date, a place, a name, a number or the value of a claim, else the sentence that says most of what is asked.
Nothing is worded anew but dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from memdb.activate.working_memory import Serialised
from memdb.errors import TimeError
from memdb.language.cleaning import cleaned
from memdb.language.clock import anchor_day, parse_instant
from memdb.language.phrases import phrases
from memdb.language.sentences import sentences
from memdb.language.stems import stem
from memdb.language.talk import is_question, without_lead_in
from memdb.language.terms import STOP_WORDS, document_terms
from memdb.models.ports import Reranker
from memdb.records import Evidence, Interval, Query, Unit

MOST_UNITS: Final = 3  # pieces of evidence, best first, that are looked at
_WHEN: Final = re.compile(
    r"\bwhen\b|\b(?:what|which)\s(?:(?:exact|was\sthe|is\sthe)\s)?(?:date|day|month|year|week)\b"
)
_WHERE: Final = re.compile(
    r"\bwhere\b|\b(?:what|which)\s(?:city|country|town|place|state|village|island|venue|location|restaurant|region)\b"
)
_WHO: Final = re.compile(r"\b(?:who|whom|whose)\b")
_HOW_LONG: Final = re.compile(r"\bhow\s(?:long|often)\b")
_HOW_MANY: Final = re.compile(
    r"\bhow\s(?:many|much|old|far|tall|big|heavy|high)\b|\bwhat\s(?:time|price|number|age)\b"
)
_NAME: Final = re.compile(r"\bnames?\b|\bcalled\b")
_CALLED: Final = re.compile(
    r"\b(?:called|named|names?\s(?:is|was|are)|nicknamed)\s((?:[\"“'‘]?[^\W\d_][\w'’.-]*[\"”'’]?\s?)+)"
)
_WHO_IS: Final = re.compile(r"\W*who\s(?:is|was|are|were)\s(?!the\b|my\b|\w+['’]s\b)")
_WHETHER: Final = re.compile(r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b")
_NUMBER_WORDS: Final = (
    r"(?:\d[\d.,:]*(?:\s?[ap]\.?m\b\.?)?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|a\shundred"
    r"|a\sdozen|a\scouple\sof|several|hundreds\sof)"
)
_NUMBER: Final = re.compile(
    rf"(?:[$€£]\s?)?\b{_NUMBER_WORDS}\b(?:[%°]|\s?(?:euros?|dollars?|pounds?|years?\sold)|[-\s](?!(?:and|or|of|for|in|on|at"
    r"|to|with|from|is|are|was|were)\b)[a-z]+)?",
    re.IGNORECASE,
)
_SPAN_OF_TIME: Final = re.compile(
    rf"\b(?:(?:about|around|almost|nearly|over)\s)?(?:{_NUMBER_WORDS}|an?|a\sfew|many|every|once\san?|twice\san?)"
    r"(?:\sto\s\w+)?[-\s](?:second|minute|hour|day|night|week|weekend|month|year|decade|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday|morning|evening)s?\b|\bsince\s\w+(?:\s\d{4})?",
    re.IGNORECASE,
)


class Extract(NamedTuple):
    """A span of the evidence, and the label of the piece it is from."""

    text: str
    label: str


class _Place(NamedTuple):
    """A sentence of a piece of evidence, or a claim in it, and how much of the question it says."""

    score: float
    label: str
    text: str
    evidence: Evidence
    unit: Unit | None = None

    @property
    def document(self) -> str:
        """As the reranker reads it."""
        return f"Source: {cleaned(self.evidence.speaker)}: {self.text}"


def extract(query: Query, told: Serialised, reranker: Reranker | None = None) -> Extract | None:
    """The span that answers; None without evidence.

    Sentences and claims are read in the order in which the reranker finds them helpful; without one, in that
    of the share of the question they say.
    """
    found = list(_places(query, told))
    places = [place for place in found if not is_question(place.text)] or found
    if not places:
        return None
    scores = [place.score for place in places]
    if reranker is not None:
        scores = reranker.score(query.text, [place.document for place in places]).tolist()
    order = sorted(range(len(places)), key=lambda number: -scores[number])
    places = [places[number] for number in order]
    question = query.text.casefold()
    for asks, find in _KINDS:
        if asks(question):
            for place in places:
                if text := find(query, place):
                    return Extract(text, place.label)
            break
    best = next((place for place in places if place.unit is None), places[0])
    return Extract(best.text, best.label)


def _places(query: Query, told: Serialised) -> Iterator[_Place]:
    asked = _stems(query.text)
    for number, (label, evidence) in enumerate(told.units.items()):
        if number == MOST_UNITS:
            return
        named = _stems(evidence.speaker)
        spans = sentences(evidence.text)
        for text in [evidence.text[start:end] for start, end in spans] or [evidence.text]:
            yield _Place(_score(asked, named, text, number), label, cleaned(without_lead_in(text)), evidence)
        for unit in evidence.facts:
            yield _Place(
                _score(asked, named, unit.fact_text, number), label, cleaned(unit.fact_text), evidence, unit
            )


def _score(asked: set[str], named: set[str], text: str, place: int) -> float:
    """The share of the question that is said; the first ranking tells what is equal."""
    return len(asked & (_stems(text) | named)) / max(len(asked), 1) - 0.25 * place


def _stems(text: str) -> set[str]:
    return {stem(term) for term in document_terms(text).split() if term not in STOP_WORDS}


def _when(query: Query, place: _Place) -> str | None:
    """The days of the claim, else of the evidence, else the day on which it was said."""
    times = place.unit.fact_time if place.unit else place.evidence.fact_time
    if times:
        return date_text(times[0])
    if place.unit is not None:
        return None
    try:
        instant = parse_instant(place.evidence.said_at) if place.evidence.said_at else None
    except TimeError:
        return None
    day = anchor_day(instant)
    return date_text(Interval(day, day, "day")) if day else place.evidence.said_at


def _where(query: Query, place: _Place) -> str | None:
    known = {name.casefold() for name in (*query.locations, *query.entities)}
    found = place.unit.locations if place.unit else phrases(place.text, [place.evidence.speaker]).locations
    return next((name for name in found if name.casefold() not in known), None)


def _who(query: Query, place: _Place) -> str | None:
    """A name that the question does not have; a claim's subject before others."""
    known = _stems(query.text)
    names = list(place.unit.entities) if place.unit else list(phrases(place.text).entities)
    if place.unit and place.unit.triple:
        names = [place.unit.triple.subject, place.unit.triple.object, *names]
    return next(
        (
            name
            for name in [*names, place.evidence.speaker]
            if name[:1].isupper() and not _stems(name) & known
        ),
        None,
    )


def _called(query: Query, place: _Place) -> str | None:
    """What follows "called", as far as it is written like a name."""
    found = _CALLED.search(place.text) if place.unit is None else None
    if found is None:
        return None
    words = list(takewhile(lambda word: not word.strip("\"“'‘")[:1].islower(), found[1].split()))
    return " ".join(words).strip(" .,") or None


def _number(query: Query, place: _Place) -> str | None:
    found = _NUMBER.search(place.text) if place.unit is None else None
    return found[0].strip() if found else None


def _span_of_time(query: Query, place: _Place) -> str | None:
    found = _SPAN_OF_TIME.search(place.text) if place.unit is None else None
    return found[0].strip() if found else None


def _value(query: Query, place: _Place) -> str | None:
    """The object of a claim whose subject and predicate the question has, or the subject of its rest."""
    if place.unit is None or place.unit.triple is None:
        return None
    asked = _stems(query.text)
    triple = place.unit.triple
    subject, predicate, value = map(_stems, (triple.subject, triple.predicate, triple.object))
    if subject and subject <= asked and (predicate & asked) and not value <= asked:
        return triple.object
    return None


def _sentence(query: Query, place: _Place) -> str | None:
    return None


_Find = Callable[[Query, _Place], str | None]
_KINDS: Final[tuple[tuple[Callable[[str], object], _Find], ...]] = (
    (_WHETHER.match, _sentence),
    (_WHO_IS.match, _sentence),
    (_NAME.search, _called),
    (_HOW_LONG.search, _span_of_time),
    (_HOW_MANY.search, _number),
    (_WHEN.search, _when),
    (_WHERE.search, _where),
    (_WHO.search, _who),
    (lambda question: True, _value),
)


def date_text(interval: Interval) -> str:
    """An interval in words, as exact as it was said: `19 January 2026`, `January 2026`, `2026`."""
    start, end = interval.start, interval.end
    match interval.granularity:
        case "day" if start == end:
            return f"{start.day} {start:%B %Y}"
        case "month" if (start.year, start.month) == (end.year, end.month):
            return f"{start:%B %Y}"
        case "year":
            return f"{start:%Y}" if start.year == end.year else f"{start:%Y} to {end:%Y}"
        case "week" if (end - start).days < 8:
            return f"the week of {start.day} {start:%B %Y}"
        case _:
            return f"{start.day} {start:%B %Y} to {end.day} {end:%B %Y}"

"""What a question asks about, by a language model (QGMem section III-B1, appendix F1).

What it says is held to the question: a name of which the question says nothing is left out, and so is what is
no date. A reply that cannot be read leaves the constraints that the rules find.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Final, Literal, NamedTuple

import msgspec

from memdb import settings
from memdb.language.calendar import iso_days
from memdb.language.cleaning import cleaned
from memdb.language.phrases import MAX_PHRASES, distinct
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, document_terms
from memdb.models.ports import Backbone, Turn
from memdb.models.replies import read
from memdb.records import Granularity, Instant, Interval, Prompt, Query, TimeConstraint

_SPAN: Final = ".."
_DAYS_OF: Final[dict[str, Granularity]] = {"0": "year", "1": "month", "2": "day"}  # by hyphens


class _Times(msgspec.Struct, frozen=True):
    fact: tuple[str, ...] = ()
    utterance: tuple[str, ...] = ()


class _Asked(msgspec.Struct, frozen=True):
    entities: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    time: _Times = _Times()


class Parsed(NamedTuple):
    """A parsed question; `error` says why it is the rules' parse that is left."""

    query: Query
    error: str | None = None


def parse_by_model(backbone: Backbone, prompt: Prompt, by_rules: Query, at: Instant | None) -> Parsed:
    """The constraints of a question; `at`, its own time, serves only to resolve relative expressions.

    `by_rules` is the same question parsed by rules. Raises what the backbone raises when it cannot run.
    """
    shown = cleaned(by_rules.text)[: settings.MAX_PARSED_CHARS]
    user = Template(prompt.user).substitute(
        question=shown, question_time=cleaned(at.text) if at else "unknown"
    )
    turns = [Turn("system", prompt.system), Turn("user", user)]
    reply = backbone.complete(turns, max_tokens=settings.QUERY_TOKENS, schema=_schema())
    try:
        asked, _ = read(reply.text, _Asked)
    except ValueError as error:
        return Parsed(by_rules, str(error))
    said = {stem(term) for term in document_terms(by_rules.text).split()}
    times = [*_constraints("fact", asked.time.fact), *_constraints("utterance", asked.time.utterance)]
    return Parsed(
        Query(
            text=by_rules.text,
            entities=_named(asked.entities, said),
            locations=_named(asked.locations, said),
            times=tuple(dict.fromkeys(times))[: settings.MAX_QUERY_TIMES],
        )
    )


def _named(names: Sequence[str], said: set[str]) -> tuple[str, ...]:
    """The names whose words of content the question says, inflection aside."""
    kept = []
    for name in map(cleaned, names):
        words = [term for term in document_terms(name).split() if term not in STOP_WORDS]
        if words and said.issuperset(map(stem, words)):
            kept.append(name)
    return distinct(kept, MAX_PHRASES)


def _constraints(kind: Literal["fact", "utterance"], texts: Sequence[str]) -> list[TimeConstraint]:
    """Dates and spans of dates, YYYY-MM-DD or YYYY-MM-DD..YYYY-MM-DD; what is neither is left out."""
    found = []
    for text in texts:
        start, _, end = text.replace(" ", "").partition(_SPAN)
        first, last = iso_days(start), iso_days(end or start)
        if first is not None and last is not None and first[0] <= last[1]:
            granularity = _DAYS_OF.get(str(start.count("-")), "day")
            found.append(TimeConstraint(kind, Interval(first[0], last[1], granularity)))
    return found


def _schema() -> dict[str, object]:
    name = {"type": "string", "minLength": 1, "maxLength": settings.MAX_LABEL_CHARS}
    names = {"type": "array", "items": name, "maxItems": MAX_PHRASES}
    date = {"type": "string", "maxLength": 24}
    dates = {"type": "array", "items": date, "maxItems": settings.MAX_QUERY_TIMES}
    time = _object(fact=dates, utterance=dates)
    return {"title": "constraints", **_object(entities=names, locations=names, time=time)}


def _object(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

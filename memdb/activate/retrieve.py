"""The channels over messages and units, and their fusion: binds and runs one SQL statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from memdb import settings
from memdb.activate.chains import find_chains
from memdb.activate.perspective import asks, asks_of_past
from memdb.language.clock import parse_instant
from memdb.language.slots import still_holds
from memdb.language.terms import STOP_WORDS, fold, question_terms, tokens
from memdb.models.ports import Encoder
from memdb.records import ChannelHit, Evidence, Interval, Message, Query, Scope, Triple, Unit
from memdb.store import indexes, rows, schema
from memdb.store.connection import Connection, Database

SEARCHES: Final = ("message_lexical", "message_dense", "unit_lexical", "unit_dense", "unit_attribute")
# `hops` adds chains of facts; `traces` finds nothing itself: it puts what was replaced behind what holds.
CHANNELS: Final = (*SEARCHES, "hops", "traces")


_WITHOUT_VECTORS: Final[dict[str, indexes.Value]] = {
    "vector": None,
    "name_vectors": None,
    "dimension": 0,
    "message_dense": False,
    "unit_dense": False,
}


class Candidate(NamedTuple):
    """A piece of evidence with the messages that were said directly before it, for the reranker to read, and
    the row of its message, where it was retrieved.
    """

    evidence: Evidence
    before: tuple[Message, ...]
    message_id: int = 0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed question with everything that bounds its answer.

    `dense_text` is what the dense channels read; `speaker` the one speaker the question names; `as_of` the
    least and the greatest said_key that count; `scope` None means all. `neighbours` messages on each side of
    a piece of evidence come with it; `before` messages come beside it, for the reranker. Without `facts` the
    claims found in a message are not told.
    """

    query: Query
    dense_text: str
    speaker: str | None = None
    scope: Scope | None
    as_of: tuple[int, int] | None = None
    k: int = settings.TOP_K
    channels: tuple[str, ...] = CHANNELS
    neighbours: int = 0
    before: int = 0
    facts: bool = True


def retrieve(
    database: Database, encoder: Encoder | None, scale: float, request: Request
) -> tuple[Candidate, ...]:
    """The evidence for a question, best first: one statement against the tables, which is given the chains.

    The dense channels are off without an encoder, and where the file's vectors are of another one by now.
    For the channel `hops` a small statement before it asks whether a chain can start from what the question
    names; only where one can, another follows the graph.
    """
    values = bindings(encoder, scale, request)
    if encoder is not None and "hops" in request.channels and asks(request.query.text):
        found_chains = find_chains(database, encoder, scale, request.query.text, _seen(request))
        values["chains"] = json.dumps([(unit, one.score) for one in found_chains for unit in one.units])
    with database.reader() as connection:
        if encoder is not None and not schema.sees_vectors_of(database, connection, encoder):
            values |= _WITHOUT_VECTORS
        found = indexes.hybrid(connection, values)
        around = _near(connection, found, request, request.neighbours, request.neighbours)
        before = _near(connection, found, request, request.before, 0)
    return tuple(
        Candidate(
            _evidence(rank, row, around.get(row.message_id, ())),
            tuple(before.get(row.message_id, ())),
            row.message_id,
        )
        for rank, row in enumerate(found, 1)
    )


def match_expression(terms: Sequence[str]) -> str:
    """An FTS5 query for any of `terms`: each is quoted, so that nothing in it is syntax."""
    return " OR ".join(f'"{term}"' for term in terms) or '""'


def _near(
    connection: Connection, found: Sequence[indexes.Hit], request: Request, before: int, after: int
) -> dict[int, list[Message]]:
    if not before and not after:
        return {}
    return rows.neighbours(connection, [row.message_id for row in found], before, after, request.as_of)


def _seen(request: Request) -> dict[str, indexes.Value]:
    """The bindings that say what a question may see: whose memory, and said from when until when."""
    said_from, said_until = request.as_of or (rows.EARLIEST_KEY, rows.UNKNOWN_KEY)
    scope = request.scope or Scope()
    return {
        "everyone": request.scope is None,
        "user": scope.user,
        "agent": scope.agent,
        "run": scope.run,
        "said_from": said_from,
        "said_until": said_until,
    }


def bindings(encoder: Encoder | None, scale: float, request: Request) -> dict[str, indexes.Value]:
    """What hybrid.sql is run with for a question, without chains: see `retrieve`."""
    query = request.query
    names = [("entity", name) for name in query.entities] + [("location", name) for name in query.locations]
    listed = question_terms(query.text, stop=STOP_WORDS, limit=settings.MAX_QUESTION_TERMS)
    terms = match_expression(listed)
    # What the next message states was said later than this one: a question as of then must not see it.
    columns = [field for field in settings.FIELD_WEIGHTS if request.as_of is None or field != "after"]
    values: dict[str, indexes.Value] = {
        **_seen(request),
        "n": max(settings.CHANNEL_DEPTH, request.k),
        "k": request.k,
        "facts": request.facts,
        "kappa": settings.RRF_KAPPA,
        "weights": json.dumps(settings.LIST_WEIGHTS if asks(query.text) else settings.SEARCH_LIST_WEIGHTS),
        "speaker": request.speaker,
        "speaker_bonus": settings.SPEAKER_BONUS,
        "asked": " ".join(tokens(query.text)),
        "newest_first": "traces" in request.channels and not asks_of_past(query),
        "chains": "[]",
        "terms": terms,
        "message_terms": terms if request.as_of is None else f"{{{' '.join(columns)}}} : ({terms})",
        "term_list": json.dumps(listed),
        "term_columns": json.dumps(columns),
        "names": json.dumps([(axis, fold(name)) for axis, name in names]),
        "times": json.dumps(
            [
                (t.kind, rows.day_number(t.interval.start), rows.day_number(t.interval.end))
                for t in query.times
            ]
        ),
        "threshold": settings.SEM_THRESHOLD,
        "time_fallback": settings.TIME_FALLBACK,
        "label_hits": settings.MAX_LABEL_HITS,
    }
    fields = settings.FIELD_WEIGHTS if asks(query.text) else settings.SEARCH_FIELD_WEIGHTS
    values |= {f"w_{field}": weight for field, weight in fields.items()}
    values |= {channel: channel in request.channels for channel in SEARCHES}
    return values | _vectors(encoder, scale, request.dense_text, [name for _, name in names])


def _vectors(
    encoder: Encoder | None, scale: float, question: str, names: Sequence[str]
) -> dict[str, indexes.Value]:
    """The question's and the constraints' codes; without an encoder the dense channels are off."""
    if encoder is None or not question.strip():
        return dict(_WITHOUT_VECTORS)
    vector = indexes.code(encoder.encode([question], kind="query")[0], scale).tobytes()
    coded = indexes.code(encoder.encode(names), scale).tobytes() if names else None
    return {"vector": vector, "name_vectors": coded, "dimension": encoder.dimension}


def _evidence(rank: int, row: indexes.Hit, neighbours: Sequence[Message]) -> Evidence:
    name = rows.message_name(row.session, row.position, row.external_id)
    message = Message(
        speaker=row.speaker, content=row.content, said_at=row.said_text, id=name, role=row.role,
        image_caption=row.image_caption, location=row.location,
    )  # fmt: skip
    facts = tuple(unit_of(fact) for fact in row.facts)
    return Evidence(
        rank=rank,
        score=row.score,
        text=message.text,
        speaker=row.speaker,
        session=row.session,
        source=(message,),
        said_at=row.said_text,
        fact_time=next((fact.fact_time for fact in facts if fact.fact_time), ()),
        facts=facts,
        channels={channel: ChannelHit(place, score) for channel, (place, score) in row.channels.items()},
        superseded=any(fact.current is False for fact in facts),
        neighbours=tuple(neighbours),
    )


def unit_of(fact: indexes.Fact) -> Unit:
    """A unit as the statements return it, as the record."""
    return Unit(
        id=fact.id,
        fact_text=fact.fact_text,
        triple=Triple(*fact.triple) if fact.triple else None,
        entities=tuple(name for axis, name in fact.labels if axis == "entity"),
        locations=tuple(name for axis, name in fact.labels if axis == "location"),
        fact_time=tuple(Interval(rows.day_of(a), rows.day_of(b), g) for a, b, g in fact.fact_time),
        first=fact.first,
        last=fact.last,
        source_ids=fact.source_ids,
        said_at=fact.said_at,
        trace_id=None if fact.trace_id is None else str(fact.trace_id),
        current=_still_holds(fact) if fact.triple else None,
    )


def _still_holds(fact: indexes.Fact) -> bool | None:
    _, predicate, value = fact.triple or ("", "", "")
    numbered = fact.said_at is not None and parse_instant(fact.said_at).serial is not None
    return still_holds(predicate, value, fact.newest, numbered)

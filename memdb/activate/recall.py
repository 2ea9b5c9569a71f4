"""From a question to its working memory: retrieve, rerank, and put together (QGMem section III-B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from memdb import settings
from memdb.activate.follow import told
from memdb.activate.perspective import as_speaker, asked_of, asks
from memdb.activate.retrieve import CHANNELS, Candidate, Request, retrieve
from memdb.activate.working_memory import collapse
from memdb.models.ports import Calibrated, Encoder, Reranker
from memdb.records import Evidence, Query, Scope, Trace, WorkingMemory
from memdb.store import rows
from memdb.store.connection import Database


class Reader(NamedTuple):
    """What a file is read with. `reranker` gives the model when it is first needed, None the linear one."""

    database: Database
    encoder: Encoder | None
    scale: float
    reranker: Callable[[], Reranker | None]


class Wish(NamedTuple):
    """How much is asked for, and of what: see `Memory.recall`. `scope` None means all."""

    k: int
    scope: Scope | None
    as_of: tuple[int, int] | None = None
    channels: tuple[str, ...] = CHANNELS
    neighbours: int = 0
    rerank_depth: int = 0
    before: int = 0
    facts: bool = True


def recall(reader: Reader, query: Query, wish: Wish) -> WorkingMemory:
    """The working memory of a parsed question.

    Words to be searched for, which ask nothing, are found as they stand: nothing is reranked.
    """
    depth = wish.rerank_depth if asks(query.text) else 0
    sought = max(wish.k + settings.SPARE_EVIDENCE, depth)
    found: Sequence[Candidate] = candidates(
        reader, query, wish._replace(k=sought, before=settings.RERANK_BEFORE if depth else 0)
    )
    answerable = None
    if depth:
        found, answerable = _reranked(reader, query, wish, found, depth)
    pieces = [candidate.evidence for candidate in found]
    # Under every scope two people may say the same.
    evidence = _ranked(pieces[: wish.k]) if wish.scope is None else collapse(pieces, wish.k)
    return WorkingMemory(
        query=query,
        evidence=evidence,
        traces=told(reader.database, evidence, wish.as_of),
        answerable=answerable,
    )


def candidates(reader: Reader, query: Query, wish: Wish) -> tuple[Candidate, ...]:
    """The first `k` pieces of evidence for a parsed question, best first, as they are retrieved."""
    speakers = _speakers(reader.database, wish.scope)
    request = Request(
        query=query,
        dense_text=as_speaker(query.text, speakers),
        speaker=asked_of(query.text, speakers),
        scope=wish.scope,
        as_of=wish.as_of,
        k=min(wish.k, settings.MAX_K),
        channels=wish.channels,
        neighbours=wish.neighbours,
        before=wish.before,
        facts=wish.facts,
    )
    return retrieve(reader.database, reader.encoder, reader.scale, request)


def _reranked(
    reader: Reader, query: Query, wish: Wish, found: Sequence[Candidate], depth: int
) -> tuple[Sequence[Candidate], float | None]:
    """The candidates in their new order, and the probability that one of them answers."""
    from memdb.activate.answerable import probability
    from memdb.activate.rerank import linear, relevances, reordered

    scored, reranker = found[:depth], reader.reranker()
    if reranker is None:
        return reordered(found, linear(scored), first_weight=0.0), None
    traces: tuple[Trace, ...] = ()
    if "state_trajectory" in reranker.fields:
        traces = told(reader.database, [one.evidence for one in scored], wish.as_of)
    scores = relevances(reranker, query.text, scored, traces)
    answerable = None
    if isinstance(reranker, Calibrated):
        speaker = asked_of(query.text, _speakers(reader.database, wish.scope))
        answerable = probability(query, scored, scores, speaker, reranker.calibration)
    return reordered(found, scores, first_weight=settings.FIRST_RANKING_WEIGHT), answerable


def _ranked(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    return tuple(msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(evidence, 1))


def _speakers(database: Database, scope: Scope | None) -> tuple[str, ...]:
    with database.reader() as connection:
        return database.remembered(connection, ("speakers", scope), lambda: rows.speakers(connection, scope))

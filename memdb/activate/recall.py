"""From a question to its working memory: parse, retrieve, rerank, and put together (QGMem section III-B)."""

from __future__ import annotations

from typing import NamedTuple

from memdb import settings
from memdb.activate.follow import told
from memdb.activate.perspective import as_speaker, asked_of
from memdb.activate.retrieve import CHANNELS, Request, retrieve
from memdb.activate.working_memory import collapse
from memdb.models.ports import Encoder
from memdb.records import Query, Scope, WorkingMemory
from memdb.store import rows
from memdb.store.connection import Database


class Reader(NamedTuple):
    """What a file is read with."""

    database: Database
    encoder: Encoder | None
    scale: float


class Wish(NamedTuple):
    """How much is asked for, and of what: see `Memory.recall`. `scope` None means all."""

    k: int
    scope: Scope | None
    as_of: tuple[int, int] | None = None
    channels: tuple[str, ...] = CHANNELS
    neighbours: int = 0


def recall(reader: Reader, query: Query, wish: Wish) -> WorkingMemory:
    """The working memory of a parsed question."""
    speakers = _speakers(reader.database, wish.scope)
    request = Request(
        query=query,
        dense_text=as_speaker(query.text, speakers),
        speaker=asked_of(query.text, speakers),
        scope=wish.scope,
        as_of=wish.as_of,
        k=min(wish.k + settings.SPARE_EVIDENCE, settings.MAX_K),
        channels=wish.channels,
        neighbours=wish.neighbours,
    )
    candidates = retrieve(reader.database, reader.encoder, reader.scale, request)
    found = [candidate.evidence for candidate in candidates]
    # Under every scope two people may say the same.
    evidence = tuple(found[: wish.k]) if wish.scope is None else collapse(found, wish.k)
    return WorkingMemory(query=query, evidence=evidence, traces=told(reader.database, evidence, wish.as_of))


def _speakers(database: Database, scope: Scope | None) -> tuple[str, ...]:
    with database.reader() as connection:
        return database.remembered(connection, ("speakers", scope), lambda: rows.speakers(connection, scope))

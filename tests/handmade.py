"""Memories whose rows are put in by hand: every vector, label, interval and score is known."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np

import memdb
from memdb import settings
from memdb.activate.retrieve import SEARCHES, Request, bindings
from memdb.construct.windows import window_of
from memdb.language.clock import parse_instant
from memdb.language.terms import fold
from memdb.records import Axis, Interval, Message, Query, Scope, Unit
from memdb.store import indexes, rows, windows

DIMENSION = 8


def vector(*parts: int) -> bytes:
    """An int8 code of DIMENSION components, padded with zeros."""
    return np.array([*parts, *[0] * (DIMENSION - len(parts))], np.int8).tobytes()


class Claim(NamedTuple):
    """A unit to put in: `labels` are (axis, name, code or None)."""

    text: str
    code: bytes | None = None
    labels: Sequence[tuple[Axis, str, bytes | None]] = ()
    times: Sequence[tuple[str, str]] = ()


class Said(NamedTuple):
    """A message to put in, with its claims."""

    text: str
    code: bytes | None = None
    claims: Sequence[Claim] = ()
    said_at: str | None = None
    speaker: str = "Ana"
    scope: Scope = Scope()


def put(memory: memdb.Memory, *said: Said) -> None:
    """Store each message in a session of its own, named by its number from 0."""
    with memory._database.atomic() as connection:
        for number, one in enumerate(said):
            _put_one(connection, str(number), one)


def _put_one(connection: apsw.Connection, session: str, one: Said) -> None:
    instant = parse_instant(one.said_at) if one.said_at else None
    scope_id = rows.put_scope(connection, one.scope)
    session_id = rows.put_session(connection, scope_id, "", session)
    message = Message(one.speaker, one.text)
    message_id = rows.put_message(connection, scope_id, session_id, 0, message, instant)
    rows.count_speakers(connection, scope_id, {one.speaker: 1})
    windows.put_window(connection, session_id, 0, (0, 1, 0))
    terms = {"own": fold(one.text), "question": "", "prompt": "", "context": "", "after": ""}
    indexes.put_message_terms(connection, message_id, terms)
    key = rows.said_key(instant)
    if one.code:
        indexes.put_message_vector(connection, message_id, scope_id, key, one.code)
    for claim in one.claims:
        times = tuple(
            Interval(dt.date.fromisoformat(a), dt.date.fromisoformat(b), "day") for a, b in claim.times
        )
        unit = Unit(fact_text=claim.text, fact_time=times, first=0, last=0)
        unit_id = rows.put_unit(connection, scope_id, session_id, window_of(0), message_id, unit)
        indexes.put_unit_terms(connection, unit_id, {"fact": fold(claim.text), "labels": ""})
        if claim.code:
            indexes.put_unit_vector(connection, unit_id, scope_id, key, claim.code)
        for axis, name, code in claim.labels:
            label_id, is_new = rows.put_label(connection, axis, name)
            rows.put_unit_label(connection, label_id, unit_id)
            if is_new and code:
                indexes.put_label_vector(connection, label_id, axis, code)


class Ask(NamedTuple):
    """The bindings of a question. `names` are (axis, name, code), `times` (kind, first day, last day),
    `chains` (unit, score).
    """

    terms: str = '""'
    code: bytes | None = None
    names: Sequence[tuple[Axis, str, bytes]] = ()
    times: Sequence[tuple[str, str, str]] = ()
    channels: Sequence[str] = SEARCHES
    scope: Scope | None = None
    as_of: int = rows.UNKNOWN_KEY
    n: int = settings.CHANNEL_DEPTH
    k: int = 1_000
    speaker: str | None = None
    chains: Sequence[tuple[int, float]] = ()

    def values(self) -> dict[str, Any]:
        request = Request(
            query=Query(text=""),
            dense_text="",
            speaker=self.speaker,
            scope=self.scope,
            as_of=None if self.as_of == rows.UNKNOWN_KEY else (rows.EARLIEST_KEY, self.as_of),
            k=self.k,
        )
        off = () if self.code else ("message_dense", "unit_dense")
        times = [
            (kind, *(rows.day_number(dt.date.fromisoformat(day)) for day in days))
            for kind, *days in self.times
        ]
        return bindings(None, 1.0, request) | {
            "n": self.n,
            "terms": self.terms,
            "message_terms": self.terms,
            "term_list": json.dumps(re.findall(r'"([^"]*)"', self.terms)),
            "term_columns": None,
            "names": json.dumps([(axis, fold(name)) for axis, name, _ in self.names]),
            "times": json.dumps(times),
            "vector": self.code,
            "name_vectors": b"".join(code for _, _, code in self.names) or None,
            "dimension": DIMENSION,
            "chains": json.dumps(self.chains),
            **{channel: channel in self.channels and channel not in off for channel in SEARCHES},
        }


def ask(memory: memdb.Memory, asked: Ask) -> list[indexes.Hit]:
    with memory._database.reader() as connection:
        return indexes.hybrid(connection, asked.values())

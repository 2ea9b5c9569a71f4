"""Planning a write: what new messages are indexed by, before any transaction opens.

A plan rests on the session as it was read: the messages it ends with, and the ids it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

import msgspec

from memdb import errors
from memdb.construct import derive, segments, views
from memdb.construct.admit import Admitted
from memdb.construct.traces import triple_text
from memdb.construct.vectors import Place, Vectors
from memdb.language.patterns import lazy
from memdb.records import Axis, Message, Unit
from memdb.store import rows
from memdb.store.connection import Database
from memdb.store.rows import StoredMessage


class Planned(NamedTuple):
    """A message to be written; `message_id` is set for a stored one that only gets new neighbours."""

    message_id: int | None
    position: int
    admitted: Admitted
    terms: dict[str, str]
    code: bytes | None


class PlannedUnit(NamedTuple):
    """A unit to be written."""

    unit: Unit
    terms: dict[str, str]
    fact_code: bytes | None
    triple_code: bytes | None


PlannedUnits: TypeAlias = tuple[list[PlannedUnit], dict[tuple[Axis, str], bytes]]


class Plan(NamedTuple):
    """Everything one transaction writes, and the length of the session it was made for.

    `attention` is that of the last messages, by position, where `rule`, by which the file's segments are
    made, needs it and the encoder tells it.
    """

    length: int
    ids: tuple[str, ...]
    conflicts: tuple[str, ...]
    messages: list[Planned]
    units: list[PlannedUnit]
    label_codes: dict[tuple[Axis, str], bytes]
    rule: segments.Rule
    attention: dict[int, float] | None = None


_PLACE_IN_SESSION = lazy(r"#[1-9]\d*")  # behind the session's name: what a message without an id is called


_ATTENTIVE = 3  # messages before a fresh one by which its and the last stored one's boundary is found


class _Before(NamedTuple):
    """A session as a plan finds it."""

    length: int
    known: dict[str, Message]
    tail: list[StoredMessage]
    speakers: list[str]
    rule: segments.Rule


def _read_before(database: Database, place: Place, messages: Sequence[Admitted]) -> _Before:
    """The session as it stands, and what of `messages` it holds already."""
    with database.reader() as connection:
        scope_id = rows.find_scope(connection, place.scope)
        session_id = scope_id and rows.find_session(connection, scope_id, place.source, place.session)
        rule = segments.shaping(connection).rule
        if not session_id:
            return _Before(0, {}, [], [], rule)
        length = rows.session_length(connection, session_id)
        tail = rows.session_tail(connection, session_id, max(0, length - derive.TAIL))
        wanted = [admitted.message.id for admitted in messages if admitted.message.id is not None]
        known = rows.messages_by_external_id(connection, session_id, wanted)
        known |= rows.messages_by_place(connection, session_id, place.session, wanted)
        speakers = rows.session_speakers(connection, session_id)
        return _Before(length, {id: one.message for id, one in known.items()}, tail, speakers, rule)


def make_plan(database: Database, vectors: Vectors, place: Place, messages: Sequence[Admitted]) -> Plan:
    """What adding `messages` to a session writes; each id the session does not know is written once."""
    before = _read_before(database, place, messages)
    known = dict(before.known)
    fresh: list[Admitted] = []
    ids: list[str] = []
    conflicts: dict[str, None] = {}
    for position, admitted in enumerate(messages):
        id = admitted.message.id
        if id is not None and id not in known and _PLACE_IN_SESSION.fullmatch(id.removeprefix(place.session)):
            raise errors.MessageError(
                f"id {id!r} is of the form memdb gives to messages without one, and names none",
                position=position,
                hint="leave the id out, or give another",
            )
        if id is not None and id in known:
            if not _same(known[id], admitted):
                conflicts[id] = None
        else:
            if id is not None:
                known[id] = _as_stored(admitted)
            fresh.append(admitted)
        ids.append(rows.message_name(place.session, before.length + len(fresh) - 1, id))
    if not fresh:
        return Plan(before.length, tuple(ids), tuple(conflicts), [], [], {}, before.rule)
    planned, found, terms = _derived(vectors, before, fresh)
    units, label_codes = plan_units(database, vectors, found, terms)
    attention = _plan_attention(vectors, before, fresh)
    named = tuple(ids), tuple(conflicts)
    return Plan(before.length, *named, planned, units, label_codes, before.rule, attention)


def _derived(
    vectors: Vectors, before: _Before, fresh: Sequence[Admitted]
) -> tuple[list[Planned], list[Unit], list[dict[str, str]]]:
    """The messages with their codes and terms, and their units with theirs.

    The encoder works on the messages in a thread while rules find the units: it needs no interpreter.
    """
    tail = [Admitted(one.message, one.instant) for one in before.tail]
    together = tail + list(fresh)
    spoken = [admitted.message for admitted in together]
    texts = [views.dense_text(spoken, index) for index in range(len(tail), len(together))]
    with ThreadPoolExecutor(1, "memdb-encoder") as beside:
        encoding = beside.submit(vectors.encode, texts)
        first = max(0, len(tail) - 1)  # the last stored one gets a new neighbour
        planned = [_planned(before, together, index) for index in range(first, len(together))]
        units, terms = _session_units(before, together, len(tail))
        codes = vectors.codes(encoding.result(), len(texts))
    stored, new = planned[: len(tail) - first], planned[len(tail) - first :]
    coded = [one._replace(code=code) for one, code in zip(new, codes, strict=True)]
    return stored + coded, units, terms


def _planned(before: _Before, together: Sequence[Admitted], index: int) -> Planned:
    """One of the last stored messages and the fresh ones, without its code."""
    tail = before.tail
    low = max(0, index - derive.TAIL)
    return Planned(
        message_id=tail[index].message_id if index < len(tail) else None,
        position=before.length - len(tail) + index,
        admitted=together[index],
        terms=derive.message_terms(together[low : index + derive.TAIL], index - low),
        code=None,
    )


def _as_stored(admitted: Admitted) -> Message:
    text = admitted.instant.text if admitted.instant else None
    m = admitted.message
    return Message(m.speaker, m.content, text, m.id, m.role, m.image_caption, m.location)


def _same(stored: Message, admitted: Admitted) -> bool:
    return stored == msgspec.structs.replace(_as_stored(admitted), id=stored.id)


def _plan_attention(vectors: Vectors, before: _Before, fresh: Sequence[Admitted]) -> dict[int, float] | None:
    """What tells where segments begin among the fresh messages and the two stored before them."""
    scorer = vectors.scorer
    if before.rule not in segments.ATTENTIVE or scorer is None or vectors.encoder is None:
        return None
    known = before.tail[-_ATTENTIVE:]
    messages = [one.message for one in known] + [one.message for one in fresh]
    return segments.attention_of(messages, before.length - len(known), scorer.attention)


def _session_units(
    before: _Before, together: Sequence[Admitted], stored: int
) -> tuple[list[Unit], list[dict[str, str]]]:
    """The units of the messages after the first `stored`, each with its terms."""
    early = list(before.speakers)
    found: list[Unit] = []
    terms: list[dict[str, str]] = []
    for index in range(stored, len(together)):
        near = together[max(0, index - derive.TAIL) : index + 1]
        position = before.length - stored + index
        units = derive.units(near, early, position)
        found += units
        terms += [derive.unit_terms(unit, near, position) for unit in units]
        if position < derive.EARLY:
            early = derive.speakers_of(near[-1:], early)
    return found, terms


def plan_units(
    database: Database, vectors: Vectors, units: Sequence[Unit], terms: Sequence[dict[str, str]]
) -> PlannedUnits:
    """Units with the terms they are indexed by, ready to be written, and codes of the labels that are new."""
    labels = _new_labels(database, vectors, units)
    codes = _codes_of(vectors, units, labels)
    planned = [
        PlannedUnit(
            unit=unit,
            terms=fields,
            fact_code=codes[unit.fact_text],
            triple_code=codes[triple_text(unit.triple)] if unit.triple else None,
        )
        for unit, fields in zip(units, terms, strict=True)
    ]
    return planned, {(axis, name): code for axis, name in labels if (code := codes[name]) is not None}


def _codes_of(
    vectors: Vectors, units: Sequence[Unit], labels: Sequence[tuple[Axis, str]]
) -> dict[str, bytes | None]:
    """Codes of claims, their triples and labels by text, in one pass: what reads alike is encoded once."""
    texts = [unit.fact_text for unit in units]
    texts += [triple_text(unit.triple) for unit in units if unit.triple]
    texts += [name for _, name in labels]
    texts = list(dict.fromkeys(texts))
    return dict(zip(texts, vectors.codes(vectors.encode(texts), len(texts)), strict=True))


def _new_labels(database: Database, vectors: Vectors, units: Sequence[Unit]) -> list[tuple[Axis, str]]:
    """The labels the file does not have yet; none without an encoder."""
    wanted = list(dict.fromkeys(pair for unit in units for pair in rows.unit_labels(unit)))
    if vectors.encoder is None or not wanted:
        return []
    with database.reader() as connection:
        known = rows.known_labels(connection, wanted)
    return [pair for pair in wanted if pair not in known]

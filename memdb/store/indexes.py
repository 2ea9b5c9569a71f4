"""The lexical and the vector indexes: what a row is found by.

Vectors have length 1 and are coded as int8 with one scale for the whole file, chosen so that a component of
four and a half standard deviations still fits: a normalised vector of d components has a standard deviation
of 1/√d each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb import errors
from memdb.records import Axis, Granularity
from memdb.store import lengths
from memdb.store.extensions import native
from memdb.store.statements import statement

Value: TypeAlias = str | int | float | bytes | None


def vector_scale(dimension: int) -> float:
    """The factor from a component to its int8 code, fixed for a file when it is made."""
    return 127 * math.sqrt(dimension) / 4.5


def code(vectors: NDArray[np.float32], scale: float) -> NDArray[np.int8]:
    """int8 codes of normalised vectors, [n, d] or [d].

    Raises `ModelError` for a vector that is not finite or has no length: sqlite-vec would store it, and lose
    it.
    """
    if not np.isfinite(vectors).all() or not np.square(vectors).sum(axis=-1).all():
        raise errors.ModelError(
            "the encoder returned a vector that is not finite, or zero", hint="check the model"
        )
    codes: NDArray[np.int8] = np.clip(np.rint(vectors * scale), -127, 127).astype(np.int8)
    return codes


def put_message_terms(connection: apsw.Connection, message_id: int, fields: Mapping[str, str]) -> None:
    """Index a message's terms (own, question, prompt, context, after), in place of those it had."""
    connection.execute(statement("put_message_terms"), {"message_id": message_id, **fields})
    lengths.changed(connection, "message_terms", message_id)


def put_unit_terms(connection: apsw.Connection, unit_id: int, fields: Mapping[str, str]) -> None:
    """Index a new unit's terms (fact, labels)."""
    connection.execute(statement("put_unit_terms"), {"unit_id": unit_id, **fields})
    lengths.changed(connection, "unit_terms", unit_id)


def put_message_vector(
    connection: apsw.Connection, message_id: int, scope_id: int, said_key: int, own: bytes
) -> None:
    """Index a new message's vector."""
    values = {"message_id": message_id, "scope_id": scope_id, "said_key": said_key, "own": own}
    connection.execute(statement("put_message_vector"), values)


def put_unit_vector(
    connection: apsw.Connection, unit_id: int, scope_id: int, said_key: int, fact: bytes
) -> None:
    """Index a new unit's vector."""
    values = {"unit_id": unit_id, "scope_id": scope_id, "said_key": said_key, "fact": fact}
    connection.execute(statement("put_unit_vector"), values)


def put_label_vector(connection: apsw.Connection, label_id: int, axis: Axis, name: bytes) -> None:
    """Index a new label's vector."""
    connection.execute(statement("put_label_vector"), {"label_id": label_id, "axis": axis, "name": name})


class Fact(msgspec.Struct, frozen=True):
    """A unit as the statements return it.

    `newest` is what its trace says last with each predicate, (predicate, object), newest first; of no trace
    empty.
    """

    id: str
    fact_text: str
    triple: tuple[str, str, str] | None
    first: int
    last: int
    source_ids: tuple[str, ...]
    fact_time: tuple[tuple[int, int, Granularity], ...]
    labels: tuple[tuple[Axis, str], ...]
    said_at: str | None
    trace_id: int | None
    newest: tuple[tuple[str, str], ...]


class Hit(msgspec.Struct, frozen=True):
    """A message as the hybrid statement returns it, with its units and its place in each channel."""

    score: float
    channels: dict[str, tuple[int, float]]
    session: str
    message_id: int
    position: int
    external_id: str | None
    speaker: str
    role: str | None
    content: str
    image_caption: str | None
    location: str | None
    said_text: str | None
    facts: tuple[Fact, ...]


_channels = msgspec.json.Decoder(dict[str, tuple[int, float]])
_facts = msgspec.json.Decoder(tuple[Fact, ...])


def hybrid(connection: apsw.Connection, values: dict[str, Value]) -> list[Hit]:
    """Run hybrid.sql: the evidence of a question, best first."""
    found = []
    for row in connection.execute(statement("hybrid", native(connection)), values):
        fields: dict[str, Any] = dict(zip(Hit.__struct_fields__, row, strict=True))
        fields["channels"] = _channels.decode(fields["channels"])
        fields["facts"] = _facts.decode(fields["facts"])
        found.append(Hit(**fields))
    return found

"""Vectors of another encoder on their way into the file: made one by one, put to use all at once.

They are staged in a table that exists only meanwhile. `meta` names their encoder; where it names none, what
is staged is left over, and taken away before anything else is staged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import apsw
import numpy as np

from memdb.records import Triple
from memdb.store import codes, schema, segments
from memdb.store.indexes import vector_scale
from memdb.store.statements import statement

Kind: TypeAlias = Literal["message", "unit", "triple", "label"]
Source: TypeAlias = Literal["message", "unit", "label"]  # a unit gives the vector of its triple too
_TO_EMBED: Final[dict[Source, str]] = {
    "message": "messages_to_embed",
    "unit": "units_to_embed",
    "label": "labels_to_embed",
}
_CLEARED_ROWS = 4_096  # left over, taken away in one transaction


class Said(NamedTuple):
    """What the vector of a message is made of; `before` is what was said directly before it."""

    message_id: int
    speaker: str
    content: str
    image_caption: str | None
    before: str | None


class Counts(NamedTuple):
    """Vectors the file should have, those it has, and those that are staged."""

    wanted: int
    present: int
    staged: int


def staged_by(connection: apsw.Connection) -> str | None:
    """The digest of the encoder that the file is being re-embedded with, if it is."""
    found = connection.execute(statement("staged_by")).get
    return None if found is None else str(found)


def has_table(connection: apsw.Connection) -> bool:
    """Whether anything is staged, or left over."""
    return bool(connection.execute(statement("has_staged_vector")).get)


def begin(connection: apsw.Connection, encoder: schema.Encodes) -> bool:
    """Make ready for vectors of an encoder: those of another one, or that cannot be of it, are left over from
    now on.

    False while some of what is left over is still there: then it is to be called again, in a transaction of
    its own.
    """
    found = staged_by(connection)
    if found == encoder.sha256 and has_table(connection):
        others = connection.execute(statement("any_staged_of_another_length"), (encoder.dimension,)).get
        if not others:
            return True
    if found is not None:
        connection.execute(statement("forget_staged_by"))
    if not has_table(connection):
        connection.execute(statement("create_staged_vector"))
    elif not _take_some(connection):
        return False
    connection.execute(statement("set_staged_by"), (encoder.sha256,))
    return True


def clear(connection: apsw.Connection) -> bool:
    """Take away some of what is left over, and the table with the last of it; whether that is done."""
    if staged_by(connection) is not None or not has_table(connection):
        return True
    if not _take_some(connection):
        return False
    connection.execute(statement("drop_staged_vector"))
    return True


def _take_some(connection: apsw.Connection) -> bool:
    """Take away some staged vectors; whether there are no more."""
    connection.execute(statement("clear_staged"), (_CLEARED_ROWS,))
    return not connection.execute(statement("any_staged")).get


def put(connection: apsw.Connection, rows: Iterable[tuple[Kind, int, bytes]]) -> None:
    """Stage vectors. One that is there is of the same encoder, and stays."""
    connection.executemany(statement("put_staged"), rows)


def erase(connection: apsw.Connection, kinds: Sequence[Kind], ids: Sequence[int]) -> None:
    """Take away what is staged for rows that leave the file: others may get their ids."""
    if has_table(connection):
        values = {"kinds": json.dumps(list(kinds)), "ids": json.dumps(list(ids))}
        connection.execute(statement("delete_staged"), values)


def counts(connection: apsw.Connection) -> Counts:
    """How many vectors there are, should be, and are staged."""
    wanted, present = connection.execute(statement("count_embedded")).fetchone() or (0, 0)
    staged: Any = connection.execute(statement("count_staged")).get if has_table(connection) else 0
    return Counts(int(wanted), int(present), int(staged))


def to_embed(
    connection: apsw.Connection, source: Source, after: int, most: int, *, of_another: bool
) -> list[int]:
    """The first rows after one that have no staged vector and, unless the file's vectors are of another
    encoder, none in use either. The staging table has to be there.
    """
    values = {"after": after, "most": most, "of_another": of_another}
    return [int(row_id) for (row_id,) in connection.execute(statement(_TO_EMBED[source]), values)]


def said(connection: apsw.Connection, ids: Sequence[int]) -> list[Said]:
    """Messages by their ids, as far as they are there."""
    found: Any = connection.execute(statement("said_messages"), (json.dumps(list(ids)),))
    return [Said(*row) for row in found]


def claimed(connection: apsw.Connection, ids: Sequence[int]) -> list[tuple[int, str, Triple | None]]:
    """Units by their ids, as far as they are there: what they claim, and their triple."""
    found: Any = connection.execute(statement("claimed_units"), (json.dumps(list(ids)),))
    return [
        (unit_id, fact_text, None if triple[0] is None else Triple(*triple))
        for unit_id, fact_text, *triple in found
    ]


def named(connection: apsw.Connection, ids: Sequence[int]) -> list[tuple[int, str]]:
    """Labels by their ids, as far as they are there."""
    found: Any = connection.execute(statement("named_labels"), (json.dumps(list(ids)),))
    return list(found)


def switch(connection: apsw.Connection, encoder: schema.Encodes) -> None:
    """Put what is staged to use, inside the caller's transaction: in place of all vectors of another encoder,
    beside those of the same one. What is staged is left over then.
    """
    if not schema.has_vectors_of(connection, encoder):
        schema.make_vector_tables(connection, encoder.dimension)
        segments.clear(connection)  # they were made by the vectors that are gone
        values = {
            "encoder_name": encoder.name,
            "encoder_sha256": encoder.sha256,
            "encoder_dimension": encoder.dimension,
            "vector_scale": vector_scale(encoder.dimension),
        }
        connection.execute(statement("set_encoder"), values)
    for name in ("move_message_vectors", "move_unit_vectors", "move_triple_vectors", "move_label_vectors"):
        connection.execute(statement(name))
    codes.renew(connection)
    connection.execute(statement("forget_staged_by"))


def wrong(connection: apsw.Connection) -> Iterator[str]:
    """What `verify` finds wrong with staged vectors."""
    if not has_table(connection):
        if staged_by(connection) is not None:
            yield "an encoder is named whose vectors are nowhere staged"
        return
    for (line,) in connection.execute(statement("check_staged_vectors")):
        yield str(line)
    dimensions = set()
    row: Any
    for row in connection.execute(statement("staged_vector_codes")):
        kind, row_id, code = row
        dimensions.add(len(code))
        components = np.frombuffer(code, dtype=np.int8).astype(np.float32)
        length = float(np.linalg.norm(components)) / vector_scale(max(1, len(code)))
        if not 0.8 < length < 1.1:
            yield f"the staged vector of {kind} {row_id} has length {length:.2f}"
    if len(dimensions) > 1:
        yield f"staged vectors have {' and '.join(map(str, sorted(dimensions)))} components"

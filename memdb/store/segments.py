"""Segments of the raw history, their vectors and their links (DeferMem section 3.2): rows in and out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb import errors, settings
from memdb.records import Message, Scope, Segment, Utterance
from memdb.store import indexes, rows
from memdb.store.extensions import native
from memdb.store.statements import statement


class StoredSegment(NamedTuple):
    """A segment of a session: positions `first` to `last`, `number` counted from 0."""

    segment_id: int
    number: int
    first: int
    last: int


def last_of(connection: apsw.Connection, session_id: int) -> StoredSegment | None:
    """The last segment of a session, the one that may still change."""
    found: Any = connection.execute(statement("last_segment"), (session_id,)).fetchone()
    return None if found is None else StoredSegment(*found)


def codes_from(connection: apsw.Connection, session_id: int, position: int) -> list[bytes | None]:
    """The codes of a session's messages from a position on, None where a message has no vector."""
    values = {"session_id": session_id, "position": position}
    found: Any = connection.execute(statement("message_codes_from"), values)
    return [code for _, code in found]


def put(
    connection: apsw.Connection,
    scope_id: int,
    session_id: int,
    number: int,
    span: tuple[int, int],
    closed: bool,
) -> int:
    """A new segment of positions `span`, both included; returns its segment_id."""
    values = {"scope_id": scope_id, "session_id": session_id, "number": number, "closed": closed}
    values |= {"first_position": span[0], "last_position": span[1]}
    return int(connection.execute(statement("insert_segment"), values).get)


def change(connection: apsw.Connection, segment_id: int, last: int, closed: bool) -> None:
    """Move the end of a segment, and say whether it may change again."""
    values = {"segment_id": segment_id, "last_position": last, "closed": closed}
    connection.execute(statement("change_segment"), values)


def put_vectors(connection: apsw.Connection, scope_id: int, codes: Iterable[tuple[int, bytes]]) -> None:
    """Index segments by the codes of their means."""
    values = [{"segment_id": one, "scope_id": scope_id, "mean": code} for one, code in codes]
    connection.executemany(statement("put_segment_vector"), values)


def near(
    connection: apsw.Connection, scope_id: int, codes: Sequence[bytes], least: float
) -> list[dict[int, float]]:
    """For each code the segments of a scope whose cosine is at least `least`, with it: the nearest
    SEGMENT_LINKS and one more, for a code that is there itself.

    A few codes are looked up one by one; for many, or where more are near one than the index tells, it is
    read once and compared block by block. Both compute the cosine from the codes alone, so they decide alike.
    """
    if len(codes) > settings.SEGMENTS_LOOKED_UP:
        return _near_by_scan(connection, scope_id, codes, least)
    found = []
    for code in codes:
        # The index rounds to float32: what is at the edge is looked at again.
        values = {"mean": code, "k": settings.MAX_K, "scope_id": scope_id, "distance": 1 - least + 1e-4}
        rows_near: Any = connection.execute(statement("near_segments", native(connection)), values).fetchall()
        if len(rows_near) < settings.MAX_K:
            found += _best(rows_near, _matrix([code]), least)
        else:
            found += _near_by_scan(connection, scope_id, [code], least)
    return found


def _near_by_scan(
    connection: apsw.Connection, scope_id: int, codes: Sequence[bytes], least: float
) -> list[dict[int, float]]:
    wanted = _matrix(codes)
    best: list[dict[int, float]] = [{} for _ in codes]
    cursor = connection.execute(statement("all_segment_codes"), {"scope_id": scope_id})
    while block := list(_take(cursor, settings.SEGMENT_BLOCK)):
        found = _best(block, wanted, least)
        best = [dict(_nearest(kept | more)) if more else kept for kept, more in zip(best, found, strict=True)]
    return best


def _take(cursor: apsw.Cursor, most: int) -> Iterable[Any]:
    for _, row in zip(range(most), cursor, strict=False):
        yield row


def _best(block: Sequence[Any], wanted: NDArray[np.floating], least: float) -> list[dict[int, float]]:
    """For each row of `wanted` [n, d] the nearest rows (segment_id, code) of a block."""
    if not block:
        return [{} for _ in wanted]
    ids = np.array([segment_id for segment_id, _ in block])
    matrix = _matrix([code for _, code in block])
    found: list[dict[int, float]] = []
    for start in range(0, len(wanted), settings.SEGMENTS_COMPARED):
        some = wanted[start : start + settings.SEGMENTS_COMPARED]
        rows, columns, cosines = _alike(some, matrix, least)
        ends = np.searchsorted(rows, np.arange(len(some) + 1))
        for first, end in pairwise(ends):
            told = zip(ids[columns[first:end]].tolist(), cosines[first:end].tolist(), strict=True)
            found.append(dict(_nearest(dict(told))))
    return found


def _nearest(found: dict[int, float]) -> list[tuple[int, float]]:
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return ordered[: settings.SEGMENT_LINKS + 1]


def _matrix(codes: Sequence[bytes]) -> NDArray[np.floating]:
    """Codes as rows of whole numbers, of a type in which the sum of their products is exact."""
    matrix = _whole(codes)
    return matrix.astype(np.float32 if matrix.shape[1] <= 1_024 else np.float64)


def _whole(codes: Sequence[bytes]) -> NDArray[np.int8]:
    """Codes as rows, [n, d]."""
    return np.frombuffer(b"".join(codes), np.int8).reshape(len(codes), -1)


def _alike(
    left: NDArray[np.floating], right: NDArray[np.floating], least: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(row of `left`, row of `right`, cosine) of those whose cosine is at least `least`, in order.

    It is the same for two codes in whatever product they stand. Only what comes near `least` is divided.
    """
    squares = [np.einsum("ij,ij->i", side, side).astype(np.float64) for side in (left, right)]
    lengths = [np.sqrt(side).astype(left.dtype) for side in squares]
    products = left @ right.T
    near = products >= np.outer(lengths[0] * (least - 1e-5), lengths[1])
    rows, columns = np.divmod(np.flatnonzero(near), len(right))
    cosines = _over(products[rows, columns].astype(np.float64), squares[0][rows] * squares[1][columns])
    enough = cosines >= least
    return rows[enough], columns[enough], cosines[enough]


def _over(products: NDArray[Any], squares: NDArray[Any]) -> NDArray[np.float64]:
    """products / √squares; 0 where a vector has no length, which only a damaged file holds."""
    lengths = np.sqrt(squares.astype(np.float64))
    found: NDArray[np.float64] = np.zeros(products.shape)
    np.divide(products, lengths, out=found, where=lengths > 0)
    return found


def adjacent_cosines(codes: Sequence[bytes]) -> list[float]:
    """[n - 1] cosines of each code and the one before it, exact for the codes."""
    matrix = _whole(codes).astype(np.int64)
    squares = np.square(matrix).sum(axis=1)
    products = (matrix[1:] * matrix[:-1]).sum(axis=1)
    cosines: list[float] = _over(products, squares[1:] * squares[:-1]).tolist()
    return cosines


def mean_code(codes: Sequence[bytes]) -> bytes:
    """The code of a segment: the mean of its messages' vectors, brought to length 1."""
    matrix = _whole(codes).astype(np.float64)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not lengths.all():
        raise errors.Damaged("the file holds a vector without length", hint="run memdb verify")
    mean = (matrix / lengths).sum(axis=0)
    length = float(np.linalg.norm(mean))
    if length < 1e-9:  # they cancel out: then the first speaks for all
        return codes[0]
    scale = indexes.vector_scale(matrix.shape[1])
    return indexes.code((mean / length).astype(np.float32), scale).tobytes()


def waiting(connection: apsw.Connection) -> list[int]:
    """The closed segments that wait for their vector and their links."""
    told = connection.execute(statement("segments_waiting")).get
    try:
        return [] if told is None else msgspec.json.decode(str(told), type=list[int])
    except msgspec.DecodeError as error:
        raise errors.Damaged(f"table meta is damaged: {error}", hint="restore a backup") from error


def set_waiting(connection: apsw.Connection, segments: Sequence[int]) -> None:
    """Say which closed segments wait for their vector and their links."""
    connection.execute(statement("set_segments_waiting"), (json.dumps(list(segments)),))


def mean_codes(connection: apsw.Connection, segments: Sequence[int]) -> dict[int, dict[int, bytes]]:
    """By scope, the codes of the means of segments that have no vector yet."""
    said: dict[int, dict[int, list[bytes]]] = {}
    row: Any
    for row in connection.execute(statement("segment_message_codes"), (json.dumps(list(segments)),)):
        scope_id, segment_id, code = row
        if code is None:
            raise errors.Damaged(
                f"segment {segment_id} holds a message without a vector", hint="run memdb verify"
            )
        said.setdefault(scope_id, {}).setdefault(segment_id, []).append(code)
    return {
        scope_id: {segment_id: mean_code(codes) for segment_id, codes in of_scope.items()}
        for scope_id, of_scope in said.items()
    }


def put_links(connection: apsw.Connection, links: Iterable[tuple[int, int, float]]) -> None:
    """Link pairs of segments, both ways."""
    both = [row for a, b, cosine in links for row in ((a, b, cosine), (b, a, cosine))]
    connection.executemany(statement("insert_segment_link"), both)


def join(connection: apsw.Connection, segments: Sequence[int]) -> None:
    """Make one link group of those of `segments`."""
    groups = _ids(connection, "link_ids", segments)
    if len(groups) > 1:
        values = {"link_id": min(groups), "groups": json.dumps(groups)}
        connection.execute(statement("join_groups"), values)


def to_segment(connection: apsw.Connection, after: int, most: int) -> list[tuple[int, int]]:
    """(session_id, scope_id) of the first sessions after one of which messages are in no segment."""
    found: Any = connection.execute(statement("to_segment"), {"after": after, "most": most}).fetchall()
    return list(found)


def clear(connection: apsw.Connection) -> None:
    """Remove all segments with their links and vectors."""
    for name in (
        "delete_segments_waiting",
        "delete_segment_links",
        "delete_segments",
        "delete_segment_vectors",
    ):
        connection.execute(statement(name))


def _ids(connection: apsw.Connection, name: str, ids: Sequence[int]) -> list[int]:
    return [int(one) for (one,) in connection.execute(statement(name), (json.dumps(list(ids)),))]


class Sought(NamedTuple):
    """What history is wanted: messages that were found, best first, how links are followed, and what may be
    seen; no more than `most` messages.
    """

    found: Sequence[int]
    links: str
    scope: Scope | None
    as_of: tuple[int, int] | None
    most: int


class Placed(NamedTuple):
    """A segment with what it is ordered by: the times of its messages, and its session."""

    segment: Segment
    said_keys: tuple[int, ...]
    session_id: int


def history(connection: apsw.Connection, sought: Sought) -> tuple[list[Placed], bool]:
    """The segments of messages that were found and those linked to them: first those with the best messages,
    linked ones last. Also whether that is all of them, or there were more than `most` messages.
    """
    said_from, said_until = sought.as_of or (rows.EARLIEST_KEY, rows.UNKNOWN_KEY)
    values = {
        **rows.reading_scope(sought.scope),
        "found": json.dumps(list(sought.found)),
        "links": sought.links,
        "most": sought.most,
        "said_from": said_from,
        "said_until": said_until,
    }
    told: dict[int, list[tuple[bool, int, int, Utterance]]] = {}
    whole = True
    row: Any
    for row in connection.execute(statement("history"), values):
        number, linked, more, place, session, source, said_key, session_id, *said = row
        whole = not more
        one = _utterance(session, source, place, said)
        told.setdefault(number, []).append((bool(linked), said_key, session_id, one))
    return [_placed(lines) for lines in told.values()], whole


def _utterance(session: str, source: str, place: int | None, said: Sequence[Any]) -> Utterance:
    position, external_id, speaker, role, content, caption, location, said_text = said
    message = Message(
        speaker=speaker, content=content, said_at=said_text,
        id=rows.message_name(session, position, external_id), role=role,
        image_caption=caption, location=location,
    )  # fmt: skip
    return Utterance(
        message=message, session=session, position=position, source=source,
        rank=None if place is None else place + 1,
    )  # fmt: skip


def _placed(lines: Sequence[tuple[bool, int, int, Utterance]]) -> Placed:
    linked, _, session_id, _ = lines[0]
    segment = Segment(utterances=tuple(one for *_, one in lines), linked=linked)
    return Placed(segment, tuple(said_key for _, said_key, *_ in lines), session_id)

"""What `verify` finds wrong with segments: each is derived again from the vectors of its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import apsw

from memdb import settings
from memdb.store import schema, segments
from memdb.store.statements import statement


class Starts(Protocol):
    """Where segments begin in a session."""

    def __call__(self, cosines: Sequence[float], threshold: float, rule: str) -> list[bool] | None:
        """Of each message but the first, by its cosine with the one before it; None: attention tells."""
        ...


def wrong(connection: apsw.Connection, starts: Starts) -> Iterator[str]:
    """Segments whose ends, vectors, links or link groups are not what they should be."""
    for name in ("check_segments", "check_segment_vectors", "check_segment_links"):
        for (line,) in connection.execute(statement(name)):
            yield str(line)
    said = schema.read_settings(connection)
    rule = str(said.get("segment_rule", settings.SEGMENT_RULE))
    threshold = float(said.get("segment_threshold", settings.SEGMENT_THRESHOLD))
    row: Any
    for row in connection.execute(statement("session_ids")):
        found: Any = connection.execute(statement("session_segments"), (row[0],)).fetchall()
        if found:
            yield from _wrong_in_session(
                connection, row[0], found, lambda told: starts(told, threshold, rule)
            )
    yield from _wrong_links(connection, float(said.get("link_threshold", settings.LINK_THRESHOLD)))


def _wrong_in_session(
    connection: apsw.Connection,
    session_id: int,
    found: Sequence[tuple[int, int, int, bytes | None]],
    starts: Callable[[Sequence[float]], list[bool] | None],
) -> Iterator[str]:
    codes = segments.codes_from(connection, session_id, 0)[: found[-1][2] + 1]
    whole = [code for code in codes if code is not None]
    if len(whole) < found[-1][2] + 1:
        yield f"{found[0][0]} and those after it hold messages that are not there, or without a vector"
        return
    for segment_id, first, last, code in found:
        if code is not None and first <= last and code != segments.mean_code(whole[first : last + 1]):
            yield f"{segment_id} has another vector than the mean of its messages"
    begins = starts(segments.adjacent_cosines(whole))
    if begins is not None:
        expected = _first_positions(begins)
        for segment_id, first, *_ in found:
            if first not in expected:
                yield f"{segment_id} begins where its messages do not"
        if missing := expected - {first for _, first, *_ in found}:
            yield f"no segment of session {session_id} begins at position {min(missing)}"


def _first_positions(begins: Sequence[bool]) -> set[int]:
    """Where segments begin, none longer than SEGMENT_MOST_MESSAGES."""
    positions, start = {0}, 0
    for at, begin in enumerate(begins, 1):
        if begin or at - start >= settings.SEGMENT_MOST_MESSAGES:
            positions.add(at)
            start = at
    return positions


def _wrong_links(connection: apsw.Connection, least: float) -> Iterator[str]:
    parent: dict[int, int] = {}

    def root(one: int) -> int:
        while parent.setdefault(one, one) != one:
            parent[one] = one = parent[parent[one]]
        return one

    row: Any
    for row in connection.execute(statement("linked_codes")):
        one, other, told, left, right = row
        cosine = segments.adjacent_cosines([left, right])[0] if left and right else None
        if cosine != told or told < least:
            yield f"{one} and {other} are linked as {told:.3f} alike, and are not"
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    for row in connection.execute(statement("segment_groups")):
        if root(row[0]) != row[1]:
            yield f"{row[0]} is said to be of the link group {row[1]}"

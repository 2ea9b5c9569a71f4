"""Segments as a file holds them, and as they should be: derived the slow and plain way from the vectors and
texts of its messages. Segments are called by their session and number, so that two files can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw
import numpy as np

from memdb import settings
from memdb.models.fakes import OverlapAttention
from memdb.store.connection import load_vectors
from tests.scripted import SEGMENTS

Name: TypeAlias = tuple[str | None, str, int]  # user, session, number
Span: TypeAlias = tuple[int, int, bool]  # first and last position, whether closed


class Segmented(NamedTuple):
    """All segments of a file. A link stands once for each direction."""

    spans: dict[Name, Span]
    links: dict[tuple[Name, Name], float]
    groups: set[frozenset[Name]]


class Talk(NamedTuple):
    """A session as it is stored: the code (None where there is none) and the text of each message."""

    user: str | None
    session: str
    codes: list[bytes | None]
    texts: list[str]


_SEGMENTS = """
    SELECT segment_id, user, session.name, number, first_position, last_position, closed, link_id,
           (SELECT mean FROM segment_vector AS v WHERE v.segment_id = segment.segment_id)
    FROM segment JOIN session USING (session_id) JOIN scope ON scope.scope_id = session.scope_id
"""
_MESSAGES = """
    SELECT (SELECT own FROM message_vector AS v WHERE v.message_id = message.message_id), content,
           image_caption
    FROM message WHERE session_id = ? ORDER BY position
"""


def opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    return connection


def held(path: Path) -> Segmented:
    """The segments of a file; that each group bears the least of its ids is asserted."""
    connection = opened(path)
    rows: list[Any] = connection.execute(_SEGMENTS).fetchall()
    names = {segment_id: (user, session, number) for segment_id, user, session, number, *_ in rows}
    grouped: dict[int, set[int]] = {}
    for segment_id, *_, link_id, _ in rows:
        grouped.setdefault(link_id, set()).add(segment_id)
    assert all(link_id == min(ids) for link_id, ids in grouped.items())
    links = {
        (names[one], names[other]): similarity
        for one, other, similarity in connection.execute("SELECT * FROM segment_link")
    }
    connection.close()
    return Segmented(
        {names[row[0]]: (row[4], row[5], bool(row[6])) for row in rows},
        links,
        {frozenset(names[one] for one in ids) for ids in grouped.values()},
    )


def rows(path: Path) -> dict[str, list[Any]]:
    """All rows of the tables of segments."""
    connection = opened(path)
    found = {name: sorted(connection.execute(f"SELECT * FROM {name}")) for name in SEGMENTS.split()}
    connection.close()
    return found


def means(path: Path) -> dict[Name, bytes | None]:
    """The code that stands for each segment."""
    connection = opened(path)
    found = {
        (user, session, number): code for _, user, session, number, *_, code in connection.execute(_SEGMENTS)
    }
    connection.close()
    return found


def talks(path: Path) -> list[Talk]:
    connection = opened(path)
    found = []
    sql = "SELECT session_id, user, name FROM session JOIN scope USING (scope_id)"
    for session_id, user, name in connection.execute(sql).fetchall():
        said: list[Any] = connection.execute(_MESSAGES, (session_id,)).fetchall()
        texts = [f"{text} [image: {caption}]" if caption else text for _, text, caption in said]
        found.append(Talk(user, name, [code for code, *_ in said], texts))
    connection.close()
    return found


def cosine(one: bytes, other: bytes) -> float:
    """Of two codes, exact but for the last rounding."""
    a, b = (np.frombuffer(code, np.int8).astype(int).tolist() for code in (one, other))
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return float(product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)))


def spans_of(talk: Talk, rule: str, tau1: float) -> list[Span]:
    """B3 of the specification, message by message. Whether the last one stands out is not known yet."""
    codes = talk.codes[: talk.codes.index(None)] if None in talk.codes else talk.codes
    n = len(codes)
    near = [math.nan] + [cosine(codes[k - 1] or b"", codes[k] or b"") for k in range(1, n)]
    if rule in ("and", "or"):
        pairs = list(zip(talk.texts, talk.texts[1:], strict=False))
        heights = [math.nan, *OverlapAttention().attention(pairs).tolist()]
    else:
        heights = [-one for one in near]
    starts = [0] if n else []
    for k in range(1, n):
        before = heights[k - 1] if k > 1 else -math.inf
        stands_out = k + 1 < n and before < heights[k] > heights[k + 1]
        low = near[k] < tau1
        begins = {"sim": low, "or": low or stands_out}.get(rule, low and stands_out)
        if begins or k - starts[-1] >= settings.SEGMENT_MOST_MESSAGES:
            starts.append(k)
    ends = [start - 1 for start in starts[1:]] + [n - 1]
    return [(start, end, end < n - 1) for start, end in zip(starts, ends, strict=False)]


def components(names: Sequence[Name], links: Sequence[tuple[Name, Name]]) -> set[frozenset[Name]]:
    """What holds together, by merging as long as something can be merged."""
    groups = [{name} for name in names]
    for one, other in links:
        [a] = [group for group in groups if one in group]
        [b] = [group for group in groups if other in group]
        if a is not b:
            groups.remove(b)
            a |= b
    return {frozenset(group) for group in groups}


def expected(path: Path, rule: str, tau1: float, tau2: float) -> Segmented:
    """What `held` should be, if codes are those the file holds: all pairs of closed segments count."""
    spans = {
        (talk.user, talk.session, number): span
        for talk in talks(path)
        for number, span in enumerate(spans_of(talk, rule, tau1))
    }
    codes = means(path)
    links = {}
    for one in spans:
        for other in spans:
            if one != other and one[0] == other[0] and spans[one][2] and spans[other][2]:
                alike = cosine(codes.get(one) or b"\1", codes.get(other) or b"\1")
                if alike >= tau2:
                    links[one, other] = alike
    return Segmented(spans, links, components(list(spans), list(links)))


def wrong_means(path: Path) -> list[Name]:
    """Closed segments whose code is not the mean of their messages, to one step of a component."""
    said = {(talk.user, talk.session): talk.codes for talk in talks(path)}
    codes, wrong = means(path), []
    for (user, session, number), (first, last, closed) in held(path).spans.items():
        if not closed:  # it has no code yet
            continue
        vectors = [
            np.frombuffer(code or b"", np.int8).astype(float)
            for code in said[user, session][first : last + 1]
        ]
        mean = sum(vector / math.dist(vector, vector * 0) for vector in vectors)
        length = math.sqrt(float((mean * mean).sum()))
        right = vectors[0] if length < 1e-9 else mean / length * (127 * math.sqrt(len(mean)) / 4.5)
        found = np.frombuffer(codes[user, session, number] or b"", np.int8)
        if found.shape != right.shape or np.abs(found - np.clip(right, -127, 127)).max() > 0.51:
            wrong.append((user, session, number))
    return wrong

"""Segments: adjacent messages of a session with coherent content, and links between those that are alike
(DeferMem section 3.2).

A boundary lies before a message whose vector is little like that of the one before it (`sim`); where that is
also a valley, less alike than before and after (`valley`); where also, or else, the message attends more to
the one before it than its neighbours do to theirs (`and`, `or`). All of it depends on the messages around
alone, so a session gives the same segments in whatever portions it was added. An append reads the last
segment of its session, the open one, and no other can change: a segment is linked once it is closed, to all
that are alike enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from memdb import errors, settings
from memdb.models.ports import AttentionScorer, Encoder
from memdb.records import Message
from memdb.store import rows, schema, segments
from memdb.store.connection import Connection, Database

Rule = Literal["sim", "valley", "and", "or"]
RULES: Final = ("sim", "valley", "and", "or")
ATTENTIVE: Final = ("and", "or")  # rules that need attention

# By position: how much a message attends to the one before it in its session.
Attention: TypeAlias = Mapping[int, float]
Attend: TypeAlias = Callable[[Sequence[tuple[str, str]]], NDArray[np.float32]]


class Shaping(NamedTuple):
    """What shapes the segments of a file: τ1, τ2 and the rule of boundaries."""

    threshold: float
    link_threshold: float
    rule: Rule


def boundaries(
    cosines: Sequence[float], attention: Sequence[float], threshold: float, rule: Rule, *, closed: bool
) -> list[bool]:
    """Whether a segment begins with each message of a session, the first but one on.

    `cosines` [n - 1] are of each message and the one before it, `attention` [n - 1] likewise, for the rules
    that need it. Whether a message stands out from its neighbours is not known yet of the last one of a
    session that is not `closed`: then it does not.
    """
    low = [cosine < threshold for cosine in cosines]
    if rule == "sim":
        return low
    heights = [-cosine for cosine in cosines] if rule == "valley" else attention
    ends = [-np.inf, *heights, -np.inf]
    peaks = [before < one > after for before, one, after in zip(ends, ends[1:], ends[2:], strict=False)]
    if not closed and peaks:
        peaks[-1] = False
    both = zip(peaks, low, strict=True)
    return [peak or small if rule == "or" else peak and small for peak, small in both]


def starts(cosines: Sequence[float], threshold: float, rule: str) -> list[bool] | None:
    """Where segments begin in a whole session, as `boundaries`, for `verify`; None where attention tells.

    Raises `Damaged` for a rule that nobody knows.
    """
    if rule not in RULES:
        raise errors.Damaged(f"segments are made by the rule {rule!r}, which nobody knows")
    if rule in ATTENTIVE:
        return None
    return boundaries(cosines, (), threshold, cast(Rule, rule), closed=False)


def shaping(connection: Connection) -> Shaping:
    """What shapes the segments of a file. Raises `Damaged` for a rule that nobody knows."""
    said = schema.read_settings(connection)
    rule = said.get("segment_rule", settings.SEGMENT_RULE)
    threshold = said.get("segment_threshold", settings.SEGMENT_THRESHOLD)
    link_threshold = said.get("link_threshold", settings.LINK_THRESHOLD)
    if rule not in RULES or isinstance(threshold, str) or isinstance(link_threshold, str):
        raise errors.Damaged(
            f"the file's settings of segments are {rule!r}, {threshold!r}, {link_threshold!r}"
        )
    return Shaping(threshold, link_threshold, cast(Rule, rule))


class Grown(NamedTuple):
    """How many messages were put into segments, and the segments that were closed, which are to be linked."""

    messages: int = 0
    closed: tuple[int, ...] = ()


def grow(
    connection: Connection, scope_id: int, session_id: int, shape: Shaping, attention: Attention | None
) -> Grown:
    """Put the messages of a session that are in no segment yet into segments, inside the caller's
    transaction.

    Messages behind one without a vector are left; so are, by a rule that needs it, those without `attention`
    (None: the file's encoder gives none, and the rule is `valley`).
    """
    last = segments.last_of(connection, session_id)
    first, known = (last.first, last.last) if last else (0, -1)
    lead = min(1, first)  # with the message before the segment
    codes = _usable(segments.codes_from(connection, session_id, first - lead))
    rule = "valley" if attention is None and shape.rule in ATTENTIVE else shape.rule
    if attention is not None and rule in ATTENTIVE:
        codes = codes[: max(attention, default=0) + 1 - first + lead]
    messages = first - lead + len(codes) - 1 - known
    if messages <= 0:
        return Grown()
    spans = _spans(codes, first, known, shape.threshold, rule, attention or {})
    return Grown(messages, _write(connection, scope_id, session_id, last, spans))


def _usable(codes: Sequence[bytes | None]) -> list[bytes]:
    found = []
    for code in codes:
        if code is None:
            break
        found.append(code)
    return found


def _spans(
    codes: Sequence[bytes], first: int, known: int, threshold: float, rule: Rule, attention: Attention
) -> list[tuple[int, int]]:
    """The segments from position `first` on, both ends included; up to `known` there was one. `codes` are
    those of the message before the first, if there is one, and from there on.
    """
    before = min(1, first)
    end = first - before + len(codes)
    asked = max(first + 1, known)  # of what lies before it is known that nothing begins there
    cosines = [1.0, *segments.adjacent_cosines(codes)][asked - 1 - first + before :]
    heed = [attention.get(at, -np.inf) for at in range(asked - 1, end)]
    starts = boundaries(cosines, heed, threshold, rule, closed=False)[1:]
    begins = {asked + number for number, begin in enumerate(starts) if begin}
    spans, start = [], first
    for at in range(first + 1, end):
        if at in begins or at - start >= settings.SEGMENT_MOST_MESSAGES:
            spans.append((start, at - 1))
            start = at
    return [*spans, (start, end - 1)]


def _write(
    connection: Connection,
    scope_id: int,
    session_id: int,
    last: segments.StoredSegment | None,
    spans: Sequence[tuple[int, int]],
) -> tuple[int, ...]:
    """The segments in place of the last one; all but the new last one are closed."""
    number = last.number if last else 0
    closed = list[int]()
    for place, (start, end) in enumerate(spans):
        is_closed = place < len(spans) - 1
        if place == 0 and last is not None:
            segment_id = last.segment_id
            segments.change(connection, segment_id, end, is_closed)
        else:
            segment_id = segments.put(
                connection, scope_id, session_id, number + place, (start, end), is_closed
            )
        if is_closed:
            closed.append(segment_id)
    return tuple(closed)


def link_when_due(connection: Connection, closed: Sequence[int], threshold: float) -> None:
    """Let closed segments wait for their links, until as many do as one in SEGMENTS_PER_WAITING of all.

    Each look through the index costs what the file has; so it costs the same per segment in every file.
    """
    if closed:
        waiting = [*segments.waiting(connection), *closed]
        due = max(waiting) // settings.SEGMENTS_PER_WAITING
        if len(waiting) < due:
            segments.set_waiting(connection, waiting)
        else:
            link(connection, waiting, threshold)


def link(connection: Connection, closed: Sequence[int], threshold: float) -> None:
    """Index closed segments by their vectors, and link them to all indexed ones of their scope that are
    alike, inside the caller's transaction. None waits then.
    """
    for scope_id, codes in segments.mean_codes(connection, closed).items():
        segments.put_vectors(connection, scope_id, codes.items())
        found = segments.near(connection, scope_id, list(codes.values()), threshold)
        links: dict[tuple[int, int], float] = {}
        for segment_id, near in zip(codes, found, strict=True):
            near.pop(segment_id, None)
            nearest = list(near.items())[: settings.SEGMENT_LINKS]
            links |= {(min(segment_id, other), max(segment_id, other)): cosine for other, cosine in nearest}
        segments.put_links(connection, ((*pair, cosine) for pair, cosine in links.items()))
        for segment_id, near in zip(codes, found, strict=True):
            segments.join(connection, [segment_id, *list(near)[: settings.SEGMENT_LINKS]])
    segments.set_waiting(connection, ())


def attention_of(messages: Sequence[Message], first: int, attend: Attend) -> dict[int, float]:
    """By position, of messages that stand at `first` and after: how much each attends to the one before."""
    texts = [message.text for message in messages]
    scores = attend(list(pairwise(texts)))
    return {first + 1 + number: float(score) for number, score in enumerate(scores)}


def update(database: Database, encoder: Encoder, scorer: AttentionScorer | None = None) -> int:
    """Put all messages that have vectors into segments, in short transactions; returns how many they were.
    Where the file's vectors are not of `encoder`, or no longer, nothing more is done.
    """
    done, after = 0, 0
    while True:
        with database.reader() as connection:
            wanted = segments.to_segment(connection, after, settings.SEGMENT_BATCH_SESSIONS)
            shape = shaping(connection)
            told = {one: _told(connection, one) for one, _ in wanted} if shape.rule in ATTENTIVE else {}
        if not wanted:
            _link_the_rest(database, encoder)
            return done
        attention = _attention(scorer, told)
        with database.atomic() as connection:
            if not schema.has_vectors_of(connection, encoder):
                return done
            if shaping(connection) != shape or _were_cleared(connection, told):
                continue  # somebody else makes all of them anew
            done += _grow_all(connection, wanted, shape, attention)
        after = wanted[-1][0]


def _link_the_rest(database: Database, encoder: Encoder) -> None:
    with database.atomic() as connection:
        waiting = segments.waiting(connection)
        if waiting and schema.has_vectors_of(connection, encoder):
            link(connection, waiting, shaping(connection).link_threshold)


def _grow_all(
    connection: Connection,
    wanted: Sequence[tuple[int, int]],
    shape: Shaping,
    attention: Mapping[int, Attention] | None,
) -> int:
    """Put the messages of sessions into segments, and link these together: one look through the index."""
    messages, closed = 0, list[int]()
    for session_id, scope_id in wanted:
        heed = None if attention is None else attention[session_id]
        grown = grow(connection, scope_id, session_id, shape, heed)
        closed += grown.closed
        messages += grown.messages
    link_when_due(connection, closed, shape.link_threshold)
    return messages


def _told(connection: Connection, session_id: int) -> tuple[int, list[Message]]:
    """The messages of a session whose attention `grow` asks for, and the position of the first."""
    first = _first_told(connection, session_id)
    return first, [one.message for one in rows.session_tail(connection, session_id, first)]


def _first_told(connection: Connection, session_id: int) -> int:
    last = segments.last_of(connection, session_id)
    return max(0, last.last - 2) if last else 0


def _were_cleared(connection: Connection, told: Mapping[int, tuple[int, list[Message]]]) -> bool:
    """Whether messages before those that were `told` of are in no segment any more."""
    return any(_first_told(connection, one) < first for one, (first, _) in told.items())


def _attention(
    scorer: AttentionScorer | None, told: Mapping[int, tuple[int, list[Message]]]
) -> dict[int, Attention] | None:
    if scorer is None or not told:
        return None
    return {
        session_id: attention_of(messages, first, scorer.attention)
        for session_id, (first, messages) in told.items()
    }


def rebuild(
    database: Database, encoder: Encoder, scorer: AttentionScorer | None = None, **changes: float | str
) -> int:
    """Make all segments of the file anew, with changed settings; returns how many messages are in them.

    Until they are there, messages stand for themselves; stopped, `update` goes on.
    """
    with database.atomic() as connection:
        schema.change_settings(connection, **changes)
        shaping(connection)
        segments.clear(connection)
    return update(database, encoder, scorer)

"""From messages that a question finds to the raw history around them: their segments and the segments linked
to these (DeferMem section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from memdb import settings
from memdb.activate.recall import Reader, Wish, candidates
from memdb.records import History, Query, Segment, Utterance
from memdb.store import segments
from memdb.store.segments import Placed

# How the first messages are found: by all channels, or by their vectors alone, as in the paper.
ENTRIES: Final = ("hybrid", "dense")
LINKS: Final = ("direct", "components", "none")
_DENSE: Final = ("message_dense",)

Size = Callable[[Utterance], int]  # tokens of a message


class Reach(NamedTuple):
    """How far from a question its history reaches: see `Memory.history`."""

    entry: str = "hybrid"
    links: str = "direct"
    budget_tokens: int = settings.HISTORY_TOKENS


def history(reader: Reader, query: Query, wish: Wish, reach: Reach, size: Size) -> History:
    """The candidate set of a parsed question: `wish.k` messages, expanded."""
    wish = wish._replace(facts=False, channels=_DENSE if reach.entry == "dense" else wish.channels)
    found = [one.message_id for one in candidates(reader, query, wish)]
    sought = segments.Sought(found, reach.links, wish.scope, wish.as_of, settings.HISTORY_MESSAGES)
    with reader.database.reader() as connection:
        placed, whole = segments.history(connection, sought)
    kept, tokens = within(placed, reach.budget_tokens, size)
    truncated = not whole or len(kept) < len(placed) or any(one.segment.cut for one in kept)
    kept.sort(key=lambda one: (one.said_keys[0], one.session_id, one.segment.utterances[0].position))
    return History(
        query=query, segments=tuple(one.segment for one in kept), tokens=tokens, truncated=truncated
    )


def within(placed: Sequence[Placed], budget_tokens: int, size: Size) -> tuple[list[Placed], int]:
    """The segments that fit into a budget, in their order, and their tokens (DeferMem, B5 of the
    specification).

    One that was found and does not fit is cut to the messages around the best of them, as far as they do. A
    linked one that does not fit is passed over.
    """
    kept, left = list[Placed](), budget_tokens
    for one in placed:
        sizes = [size(utterance) for utterance in one.segment.utterances]
        if sum(sizes) > left and not one.segment.linked:
            first, end = _window(one.segment.utterances, sizes, left)
            part = Segment(utterances=one.segment.utterances[first:end], cut=True)
            one = one._replace(segment=part, said_keys=one.said_keys[first:end])
            sizes = sizes[first:end]
        if sizes and sum(sizes) <= left:
            kept.append(one)
            left -= sum(sizes)
    return kept, budget_tokens - left


def _window(utterances: Sequence[Utterance], sizes: Sequence[int], left: int) -> tuple[int, int]:
    """The run around the best utterance that fits, [first, end), a message on each side in turn up to the
    first that does not: what came before goes first, as it is what an utterance is understood by.
    """
    best = min(range(len(utterances)), key=lambda at: utterances[at].rank or settings.MAX_K + 1)
    if sizes[best] > left:
        return best, best
    first, end, room = best, best + 1, left - sizes[best]
    for at, forward in _outward(best, len(sizes)):
        touches = at == end if forward else at == first - 1
        if touches and sizes[at] <= room:
            first, end, room = (first, end + 1, room - sizes[at]) if forward else (at, end, room - sizes[at])
    return first, end


def _outward(best: int, count: int) -> Iterator[tuple[int, bool]]:
    """Places from one outward, the one before it first, and whether each lies after it."""
    for far in range(1, count):
        if best - far >= 0:
            yield best - far, False
        if best + far < count:
            yield best + far, True

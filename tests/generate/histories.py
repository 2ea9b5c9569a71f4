"""Histories written by hand, and a strategy for any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from hypothesis import strategies as st

from memdb.records import History, Message, Query, Segment, Utterance
from tests import strategies

Said = tuple[str, str]  # speaker and content


def segment(
    *said: Said | Message, session: str = "s", first: int = 0, ranks: Sequence[int | None] = ()
) -> Segment:
    """Adjacent messages of a session from position `first` on; each found at its rank, or not."""
    messages = [one if isinstance(one, Message) else Message(*one, "2026-01-20T10:00") for one in said]
    placed = [*ranks, *[None] * len(messages)]
    return Segment(
        utterances=tuple(
            Utterance(message=message, session=session, position=first + place, rank=placed[place])
            for place, message in enumerate(messages)
        )
    )


def history(question: str, *segments: Segment) -> History:
    """A history of a question."""
    return History(query=Query(text=question), segments=segments)


# Two friends; the answer to WHERE is the second message, to HOW_OFTEN the fourth.
WHERE: Final = "Where does Ana keep her canoe?"
HOW_OFTEN: Final = "How often has Ana fallen into the river?"
CANOE: Final = segment(
    ("Ben", "Where do you keep the canoe?"),
    ("Ana", "I keep my canoe behind the boathouse, and you have the key."),
    ("Ben", "Right! Have you ever fallen into the river?"),
    ("Ana", "Yes, twice."),
    ranks=[2, 1, 4, 3],
)
TALK: Final = segment(("Ben", "My sister bakes bread."), ("Ana", "Nice."), session="t", ranks=[5])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any history: every message that can be stored, hits and linked ones."""
    segments = []
    for number in range(draw(st.integers(0, 3))):
        said = draw(st.lists(strategies.messages(), min_size=1, max_size=5))
        segments.append(segment(*said, session=f"s{number}", first=draw(st.integers(0, 3))))
    ranks = iter(draw(st.permutations(range(1, 16))))
    found = [
        msgspec.structs.replace(
            one,
            utterances=tuple(
                msgspec.structs.replace(it, rank=next(ranks) if draw(st.booleans()) else None)
                for it in one.utterances
            ),
        )
        for one in segments
    ]
    question = draw(st.one_of(strategies.text, st.just(WHERE)))
    return History(query=Query(text=question), segments=tuple(found))

"""Fixed windows over the messages of one session (QGMem appendix A1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memdb.errors import InputError
from memdb.settings import WINDOW_MESSAGES, WINDOW_OVERLAP


class Window(NamedTuple):
    """Messages `start` to `end` (excluded) of a session; those before `first_new` belong to the window
    before too.
    """

    start: int
    end: int
    first_new: int


def windows(messages: int, width: int = WINDOW_MESSAGES, overlap: int = WINDOW_OVERLAP) -> Iterator[Window]:
    """The windows of a session of `messages` messages: every message is new in exactly one of them.

    When messages are appended only the last window changes. Raises InputError when `overlap` is not in
    [0, `width`) or there are fewer than no messages.
    """
    if messages < 0 or not 0 <= overlap < width:
        raise InputError(
            f"no windows of {width} messages with overlap {overlap} over {messages} messages",
            hint="the overlap is at least 0 and smaller than the width",
        )
    start = 0
    while messages:
        end = min(start + width, messages)
        yield Window(start, end, start + overlap if start else 0)
        if end >= messages:
            return
        start += width - overlap


def window_of(position: int, width: int = WINDOW_MESSAGES, overlap: int = WINDOW_OVERLAP) -> int:
    """The number of the window in which the message at `position` is new."""
    return max(0, (position - overlap) // (width - overlap))

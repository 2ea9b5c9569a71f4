"""Appending to a small file and to a large one: rows written, and seconds as a ratio.

The encoder is a stand-in of the same dimension that costs nothing, so that what grows with the file is not
hidden behind the encoder's time, which does not. Trap: seconds of a shared machine; the rows hold.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path

import msgspec
from rich.progress import track

import memdb
from memdb import Message
from memdb.models.fakes import HashEncoder

from .add import conversation

DIMENSION = 384
PORTIONS = (25, 1)  # messages of one add
SINGLE = 100  # messages that are appended one by one


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What appending in portions cost, per message."""

    portion: int
    messages: int
    rows: float
    cpu_ms: float


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    """A file of so many messages, and what appending to it cost."""

    messages: int
    segments: int
    appended: list[Appended]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured: the large file against the small one, by portion."""

    small: Grown
    large: Grown
    times_rows: dict[int, float]
    times_cpu: dict[int, float]


def measure(texts: Sequence[tuple[str, str]], small: int, large: int, appended: int = 1_000) -> Result:
    """Make a file of `small` and one of `large` messages, and append as many to each."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_grown(texts, size, appended, Path(folder)) for size in (small, large))
    pairs = list(zip(first.appended, second.appended, strict=True))
    return Result(
        small=first,
        large=second,
        times_rows={one.portion: round(other.rows / one.rows, 2) for one, other in pairs},
        times_cpu={one.portion: round(other.cpu_ms / one.cpu_ms, 2) for one, other in pairs},
    )


def _grown(texts: Sequence[tuple[str, str]], size: int, appended: int, folder: Path) -> Grown:
    with memdb.open(folder / f"{size}.memdb", encoder=HashEncoder(DIMENSION)) as memory:
        sessions = list(conversation(texts, size + appended + SINGLE))
        told = [(name, one) for name, session in sessions for one in session]
        for start in track(range(0, size, 500), f"{size:,} messages", disable=not sys.stderr.isatty()):
            for name, said in _by_session(told[start : min(start + 500, size)]):
                memory.add(said, session=name)
        segments = memory.about().counts["segments"]
        rest = iter(told[size:])
        made = [
            _append(memory, list(islice(rest, appended if portion > 1 else SINGLE)), portion)
            for portion in PORTIONS
        ]
    return Grown(messages=size, segments=segments, appended=made)


def _by_session(told: Sequence[tuple[str, Message]]) -> list[tuple[str, list[Message]]]:
    found: dict[str, list[Message]] = {}
    for name, one in told:
        found.setdefault(name, []).append(one)
    return list(found.items())


def _append(memory: memdb.Memory, told: Sequence[tuple[str, Message]], portion: int) -> Appended:
    """Add messages in portions, those of one session together."""
    before, start = _rows(memory), time.process_time()
    for at in count(0, portion):
        if at >= len(told):
            break
        for name, said in _by_session(told[at : at + portion]):
            memory.add(said, session=name)
    seconds = time.process_time() - start
    rows = _rows(memory) - before
    return Appended(
        portion=portion,
        messages=len(told),
        rows=round(rows / len(told), 1),
        cpu_ms=round(1_000 * seconds / len(told), 2),
    )


def _rows(memory: memdb.Memory) -> int:
    """Rows that were written since the file was opened, those of indexes included."""
    with memory.reader.database.atomic() as connection:
        return int(connection.total_changes())

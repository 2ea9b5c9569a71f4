"""Adding many messages: messages per second against the encoder alone, peak memory, bytes on disk.

Trap: seconds on a shared machine say little; the ratio of the encoder's own time to the whole, the bytes and
the peak memory hold.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

import memdb
from memdb import Message
from memdb.models.ports import Encoder, Kind
from memdb.models.registry import load_encoder

SESSION_MESSAGES = 25
BATCH_MESSAGES = 512
PEAK_MIB = 600  # bound of the peak memory


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured; ratios are of times in this run."""

    messages: int
    units: int
    texts_encoded: int
    seconds: float
    encoder_seconds: float
    messages_per_s: float
    encoder_share: float
    peak_mib: float
    file_bytes: int
    raw_text_bytes: int
    dimension: int
    bytes_per_message: float
    times_raw_text_and_float16: float


class RecordingEncoder:
    """An encoder that keeps the texts it was given and counts its own seconds."""

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner
        self.seconds = 0.0
        self.texts: list[str] = []
        self.name, self.sha256 = inner.name, inner.sha256
        self.dimension, self.max_tokens = inner.dimension, inner.max_tokens

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """As the inner one."""
        start = time.perf_counter()
        vectors = self.inner.encode(texts, kind=kind)
        self.seconds += time.perf_counter() - start
        self.texts += texts
        return vectors


def conversation(texts: Sequence[tuple[str, str]], messages: int) -> Iterator[tuple[str, list[Message]]]:
    """Sessions of `SESSION_MESSAGES` messages, with the given (speaker, content) pairs over and over.

    From the second round on each content gets a serial number, so that no two messages are the same.
    """
    said = islice(zip(cycle(texts), count(), strict=False), messages)
    for number in count():
        session = [
            Message(
                speaker,
                content if n < len(texts) else f"{content} ({n})",
                f"2024-{number % 12 + 1:02}-01",
                str(n),
            )
            for (speaker, content), n in islice(said, SESSION_MESSAGES)
        ]
        if not session:
            return
        yield f"s{number}", session


def measure(texts: Sequence[tuple[str, str]], messages: int, encoder: Encoder | None = None) -> Result:
    """Add `messages` messages to a new file, several sessions in a batch of encodings."""
    timed = encoder if isinstance(encoder, RecordingEncoder) else RecordingEncoder(encoder or load_encoder())
    raw = units = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speed.memdb"
        start = time.perf_counter()
        with memdb.open(path, encoder=timed) as memory:
            total = -(-messages // SESSION_MESSAGES)
            sessions = conversation(texts, messages)
            for name, session in track(sessions, "adding", total=total, disable=not sys.stderr.isatty()):
                units += memory.add(session, session=name).units
                raw += sum(len(m.content.encode()) + len(m.speaker.encode()) for m in session)
        seconds = time.perf_counter() - start
        size = path.stat().st_size
    return Result(
        messages=messages,
        units=units,
        texts_encoded=len(timed.texts),
        seconds=round(seconds, 1),
        encoder_seconds=round(timed.seconds, 1),
        messages_per_s=round(messages / seconds, 1),
        encoder_share=round(timed.seconds / seconds, 3),
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        file_bytes=size,
        raw_text_bytes=raw,
        dimension=timed.dimension,
        bytes_per_message=round(size / messages, 1),
        times_raw_text_and_float16=round(size / (raw + 2 * timed.dimension * messages), 2),
    )

"""Adding against the encoder alone on the same texts, and the bytes a message takes on disk.

Trap: both run on the same cores, so what is written while the encoder runs costs no wall time and is counted
all the same in CPU seconds. The ratio is of wall times; that of CPU seconds is told beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from memdb.models.ports import Encoder
from memdb.train.talks import own

from .add import RecordingEncoder, Result, measure
from .measured import OURS, Found, Held, Measured, Setting, middle

LEAST_SHARE: Final = 0.9
MOST_TIMES: Final = 2.0


def adding(setting: Setting) -> Found:
    """The rows `add` and `bytes`: a file is made of messages of the talks, then their texts are encoded."""
    said = [(one.speaker, one.content) for talk in own() for one in talk.messages]
    recording = RecordingEncoder(setting.encoder)
    cpu = setting.clock()
    result = measure(said, setting.messages, recording)
    cpu = setting.clock() - cpu
    alone, alone_cpu = _encoding(setting.encoder, recording.texts, setting.clock)
    figures = {
        (OURS, "messages/s"): result.messages_per_s,
        (OURS, "CPU ms per message"): middle([1_000 * cpu / result.messages]),
        ("encoder alone", "messages/s"): middle([result.messages / alone]),
        ("encoder alone", "CPU ms per message"): middle([1_000 * alone_cpu / result.messages]),
        ("encoder alone", "texts/s"): middle([len(recording.texts) / alone]),
    }
    measured = [
        Measured(row="add", contender=contender, figure=figure, value=value, size=result.messages)
        for (contender, figure), value in figures.items()
    ]
    held = [
        Held(row="add", what=what, value=middle([value]), target=LEAST_SHARE, at_least=True)
        for what, value in (
            ("of the encoder's own throughput", alone / result.seconds),
            ("of it in CPU seconds", alone_cpu / cpu),
        )
    ]
    return Found(measured + _bytes(result), [*held, _times_raw(result)])


def _encoding(encoder: Encoder, texts: Sequence[str], clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    start, cpu = time.perf_counter(), clock()
    encoder.encode(texts)
    return time.perf_counter() - start, clock() - cpu


def _bytes(result: Result) -> list[Measured]:
    raw = (result.raw_text_bytes + 2 * result.dimension * result.messages) / result.messages
    figures = {OURS: result.bytes_per_message, "raw text + float16 vector": middle([raw])}
    return [
        Measured(row="bytes", contender=name, figure="bytes per message", value=value, size=result.messages)
        for name, value in figures.items()
    ]


def _times_raw(result: Result) -> Held:
    return Held(
        row="bytes", what="times raw text and a float16 vector", value=result.times_raw_text_and_float16,
        target=MOST_TIMES, at_least=False,
    )  # fmt: skip

"""Asking: the hybrid statement against its channels alone, and recall against the encoding of its question.

Traps: the statement with one channel still fuses and reads messages, so the sum of the channels counts that
five times. The first question pays for pages that the operating system may have cached already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import memdb
from memdb.activate.parse import parse_question
from memdb.activate.retrieve import SEARCHES, Request, bindings
from memdb.store import indexes
from memdb.store.connection import Connection, Database
from memdb.store.extensions import NATIVE_SWITCH, native

from .measured import CPU_MS, FIRST_MS, OURS, Found, Held, Measured, Setting, middle

K: Final = 10
MOST_OF_SUM: Final = 1.2
PLAIN: Final = "vec0 + FTS5"
LARGE: Final = 1_000_000  # messages of the file of the target against these
LEAST_GAIN: Final = 30.0
RECALL_SIZE: Final = 100_000  # of the target
MOST_OF_ENCODING: Final = 2.0


def hybrid(setting: Setting) -> Found:
    """The one statement that finds evidence, at each size."""
    found = Found()
    for size in setting.sizes:
        found.extend(_hybrid_at(setting, size))
    return found


def questions(setting: Setting) -> list[str]:
    """As many questions of the talks as there are rounds, from all over them."""
    told = setting.files.corpus.questions
    return [told[at * len(told) // setting.rounds] for at in range(setting.rounds)]


def _hybrid_at(setting: Setting, size: int) -> Found:
    scale = indexes.vector_scale(setting.encoder.dimension)
    asked = [_values(setting, scale, text) for text in questions(setting)]
    path = setting.files.path(size)
    with closing(Database(path, read_only=True)) as database, database.reader() as connection:
        first = setting.milliseconds(partial(indexes.hybrid, connection, asked[0]))
        results = [_ids(connection, values) for values in asked]
        whole = middle(_times(setting, connection, asked))
        alone = {channel: middle(_times(setting, connection, asked, channel)) for channel in SEARCHES}
        searched_by = native(connection)
    figures = {(OURS, CPU_MS): whole, (OURS, FIRST_MS): middle([first])}
    figures |= {(f"{channel} alone", CPU_MS): value for channel, value in alone.items()}
    figures[("sum of channels alone", CPU_MS)] = total = middle([sum(alone.values())])
    found = Found(
        [
            Measured(row="hybrid", contender=name, figure=figure, value=value, size=size)
            for (name, figure), value in figures.items()
        ]
    )
    found.held.append(
        _held("times the sum of its channels alone", whole / total, MOST_OF_SUM, size, most=True)
    )
    if not searched_by:
        return found.without("hybrid", f"against {PLAIN} at {size:,}", f"it is searched by {searched_by}")
    found.extend(_without_native(setting, path, size, asked, results, whole))
    return found


def _without_native(
    setting: Setting,
    path: Path,
    size: int,
    asked: Sequence[dict[str, indexes.Value]],
    results: Sequence[list[int]],
    whole: float,
) -> Found:
    """The same statement where sqlite-vec and FTS5 search, and whether it finds the same."""
    with (
        switched_off(),
        closing(Database(path, read_only=True)) as database,
        database.reader() as connection,
    ):
        same = [_ids(connection, values) == ids for values, ids in zip(asked, results, strict=True)]
        plain = middle(_times(setting, connection, asked))
    share = middle([sum(same) / len(same)])
    found = Found(
        [
            Measured(row="hybrid", contender=PLAIN, figure=figure, value=value, size=size)
            for figure, value in ((CPU_MS, plain), ("share of questions with the same evidence", share))
        ]
    )
    if size == LARGE:
        found.held.append(_held(f"times as fast as {PLAIN}", plain / whole, LEAST_GAIN, size, most=False))
    return found


@contextmanager
def switched_off() -> Iterator[None]:
    """Connections that are opened meanwhile do without memdb0."""
    before = os.environ.get(NATIVE_SWITCH)
    os.environ[NATIVE_SWITCH] = "0"
    try:
        yield
    finally:
        del os.environ[NATIVE_SWITCH]
        if before is not None:
            os.environ[NATIVE_SWITCH] = before


def _held(what: str, value: float, target: float, size: int, *, most: bool) -> Held:
    return Held(
        row="hybrid", what=what, value=middle([value]), target=target, at_least=not most, size=size
    )  # fmt: skip


def _ids(connection: Connection, values: dict[str, indexes.Value]) -> list[int]:
    return [hit.message_id for hit in indexes.hybrid(connection, values)]


def _values(setting: Setting, scale: float, text: str) -> dict[str, indexes.Value]:
    request = Request(query=parse_question(text, None), dense_text=text, scope=None, k=K, facts=False)
    return bindings(setting.encoder, scale, request)


def _times(
    setting: Setting,
    connection: Connection,
    asked: Sequence[dict[str, indexes.Value]],
    channel: str | None = None,
) -> list[float]:
    """Milliseconds of each question, of one channel alone if one is named."""
    times = []
    for values in asked:
        if channel is not None:
            values = values | {one: one == channel and values[one] for one in SEARCHES}
        times.append(setting.milliseconds(partial(indexes.hybrid, connection, values)))
    return times


def recall(setting: Setting) -> Found:
    """`Memory.recall` without reranking, against the encoding of its question alone."""
    found = Found()
    for number, size in enumerate(setting.sizes):
        found.extend(_recall_at(setting, size, 2 * number))
    return found


def _recall_at(setting: Setting, size: int, blanks: int) -> Found:
    """`blanks` at the end make other texts of the same questions: an encoder remembers those it was asked."""
    asked = [text + " " * blanks for text in questions(setting)]
    with memdb.open(setting.files.path(size), read_only=True, encoder=setting.encoder) as memory:
        first = setting.milliseconds(partial(memory.recall, asked[0], K, rerank_depth=0))
        pairs = [_recalled(setting, memory, text) for text in asked[1:]]
    whole, encoding = (middle(times) for times in zip(*pairs, strict=True))
    figures = {(OURS, CPU_MS): whole, (OURS, FIRST_MS): middle([first]), ("encoder", CPU_MS): encoding}
    found = Found(
        [
            Measured(row="recall", contender=contender, figure=figure, value=value, size=size)
            for (contender, figure), value in figures.items()
        ]
    )
    if size == RECALL_SIZE:
        what, value = "times the encoding of the question", middle([whole / encoding])
        found.held += [
            Held(row="recall", what=what, value=value, target=MOST_OF_ENCODING, at_least=False, size=size)
        ]
    return found


def _recalled(setting: Setting, memory: memdb.Memory, text: str) -> tuple[float, float]:
    """What recall and the encoding of its question take, the latter for one more blank."""
    whole = setting.milliseconds(partial(memory.recall, text, K, rerank_depth=0))
    encoding = setting.milliseconds(partial(setting.encoder.encode, [f"{text} "], kind="query"))
    return whole, encoding

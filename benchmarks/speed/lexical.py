"""The best hundred rows by BM25: memdb0 against FTS5, on the same index, in the same run.

Trap: milliseconds on a shared machine say little; the ratio of the two holds. Words are drawn by Zipf's law,
so that the most common ones are in nearly every row: questions leave such words out, as stop words.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
import numpy as np

from memdb import settings
from memdb.activate.retrieve import match_expression
from memdb.store import lengths
from memdb.store.extensions import load_native, native
from memdb.store.schema import schema_sql

BEST = 100
ROUNDS = 5
BATCH_ROWS = 10_000
VOCABULARY = 200_000
FIELDS: Final = tuple(settings.FIELD_WEIGHTS)
# Ranks of the words asked for; of N rows, the word of rank 100 is in about 7 % of them.
QUESTIONS: Final = {
    "rare": (20_000, 50_000, 90_000, 150_000),
    "usual": (150, 400, 900, 3_000, 12_000),
    "common": (100, 300, 1_000),
    "stop words": (1, 3, 7, 20, 100),
}


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """CPU milliseconds of one question, and the rows that have one of its words."""

    question: str
    hits: int
    fts5_ms: float
    memdb0_ms: float
    times_faster: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured. `same`: whether rows, order and scores were equal in all questions."""

    rows: int
    tokens_per_row: float
    same: bool
    timings: list[Timing]


def measure(rows: int) -> Result:
    """Index `rows` rows of random words and ask. Raises `RuntimeError` without memdb0."""
    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(str(Path(folder) / "lexical.sqlite"))
        with contextlib.closing(connection):
            if not load_native(connection):
                raise RuntimeError(str(native(connection)))
            tokens = fill(connection, rows)
            asked = [time_both(connection, name, ranks) for name, ranks in QUESTIONS.items()]
    return Result(
        rows=rows,
        tokens_per_row=round(tokens / rows, 1),
        same=all(same for _, same in asked),
        timings=[timing for timing, _ in asked],
    )


def fill(connection: apsw.Connection, rows: int) -> int:
    """Make the index of messages as schema.sql has it, and fill it; returns the tokens in it."""
    made = re.search(r"CREATE VIRTUAL TABLE message_terms .*?;", schema_sql(), re.DOTALL)
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -64000")
    connection.execute(made[0] if made else "")
    tokens = 0
    sql = f"INSERT INTO message_terms (rowid, {', '.join(FIELDS)}) VALUES (?, ?, ?, ?, ?, ?)"
    for batch in texts(rows):
        with connection:
            connection.executemany(sql, batch)
            for row in batch[:: lengths.BLOCK_ROWS]:
                lengths.changed(connection, "message_terms", row[0])
            lengths.changed(connection, "message_terms", batch[-1][0])
            lengths.settle(connection)
        tokens += sum(field.count(" ") + 1 for row in batch for field in row[1:])
    return tokens


def texts(rows: int) -> Iterator[list[tuple[Any, ...]]]:
    """Batches of (row, field, …): fields of 15 words in the middle, the lengths log-normal."""
    dice = np.random.default_rng(rows)
    law = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = np.array([f"w{rank}" for rank in range(1, VOCABULARY + 1)])
    for start in range(0, rows, BATCH_ROWS):
        lengths = np.clip(dice.lognormal(2.7, 0.7, (min(BATCH_ROWS, rows - start), len(FIELDS))), 1, 200)
        lengths = lengths.astype(int)
        drawn = words[np.searchsorted(law, dice.random(int(lengths.sum())) * law[-1])]
        fields = iter(np.split(drawn, np.cumsum(lengths.ravel())[:-1]))
        yield [
            (start + number, *(" ".join(next(fields)) for _ in FIELDS))
            for number in range(1, len(lengths) + 1)
        ]


def time_both(connection: apsw.Connection, name: str, ranks: tuple[int, ...]) -> tuple[Timing, bool]:
    """One question to both, and whether they found the same."""
    terms = [f"w{rank}" for rank in ranks]
    weights = [settings.FIELD_WEIGHTS[field] for field in FIELDS]
    by_fts5 = (
        "SELECT rowid, -bm25(message_terms, ?, ?, ?, ?, ?) AS score FROM message_terms"
        " WHERE message_terms MATCH ? ORDER BY score DESC, rowid LIMIT ?"
    )
    by_memdb0 = "SELECT id, score FROM term_top('message_terms', ?, ?) ORDER BY score DESC, id LIMIT ?"
    match = match_expression(terms)
    slow, expected = cpu_ms(lambda: connection.execute(by_fts5, (*weights, match, BEST)).fetchall())
    values = (json.dumps(terms), json.dumps(weights), BEST)
    quick, found = cpu_ms(lambda: connection.execute(by_memdb0, values).fetchall())
    counting = "SELECT count(*) FROM message_terms WHERE message_terms MATCH ?"
    timing = Timing(
        question=name,
        hits=int(connection.execute(counting, (match,)).get),
        fts5_ms=round(slow, 2),
        memdb0_ms=round(quick, 2),
        times_faster=round(slow / quick, 1),
    )
    return timing, found == expected


def cpu_ms(ask: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    """The median CPU time of some rounds, after one that warms up, and what was found."""
    found = ask()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        found = ask()
        spent.append(time.process_time() - start)
    return 1e3 * statistics.median(spent), found

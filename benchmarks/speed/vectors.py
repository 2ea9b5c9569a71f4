"""The row `dense`: the 100 nearest messages of a file, by memdb0 and by vec0, against other libraries.

Traps: the vectors are mixtures of real ones with noise (`corpus`), which lie more densely than those of
texts, so a search by codes compares more candidates than it would (`dense` measures vectors of texts). What
has to be read is one bit a component where codes are searched; candidates compared exactly come on top.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb.store.connection import Database
from memdb.store.extensions import native
from memdb.store.indexes import code, vector_scale

from .asking import LARGE, questions
from .measured import CPU_MS, FIRST_MS, OURS, Found, Held, Measured, Setting, at_each_size, middle
from .vector_peers import PEERS, Floats

ROW: Final = "dense"
K: Final = 100
LEAST_GAIN: Final = 28.0
LEAST_RECALL: Final = 0.99
MOST_TIMES_READING: Final = 2.0
CODED: Final = 30_000  # vectors from which on memdb0 searches by codes first (native/scan.c)
VEC0: Final = "sqlite-vec int8"
RECALL: Final = f"recall@{K}"
_VEC0_SQL: Final = "SELECT message_id FROM message_vector WHERE own MATCH vec_int8(?) AND k = ?"
_NATIVE_SQL: Final = (
    "SELECT id FROM vector_top('message_vector', ?, ?, NULL, NULL, NULL, NULL, NULL, NULL, ?)"
)
WAYS: Final = {OURS: "", f"{OURS}, exact": "exact", f"{OURS}, codes first": "coded"}
Ids = list[list[int]]


class Asked(NamedTuple):
    """CPU milliseconds of the first question and the median of the others, and the rows found."""

    first: float
    warm: float
    found: Ids


def dense(setting: Setting) -> Found:
    """The row, at each size."""
    return at_each_size(setting, lambda setting, size: _At(setting, size).measure())


class _At:
    """What is measured at one size; `found` is the result so far."""

    def __init__(self, setting: Setting, size: int) -> None:
        self.setting, self.size, self.found = setting, size, Found()
        self.path = setting.files.path(size)
        self.queries = setting.encoder.encode(questions(setting), kind="query")
        self.codes = [one.tobytes() for one in code(self.queries, vector_scale(self.queries.shape[1]))]

    def measure(self) -> Found:
        plain = self.ask(_VEC0_SQL)
        self.tell(VEC0, {CPU_MS: plain.warm, FIRST_MS: plain.first})
        ours = self.natively(plain.found)
        ids, held = stored(self.path)
        peers = self.peers(ids, np.asarray(held, np.float32), plain.found)
        rate = self.bandwidth(held)
        if ours:
            self.hold(ours, peers, rate)
        return self.found

    def natively(self, right: Ids) -> dict[str, float]:
        """CPU ms of each way memdb0 searches; none where it does not."""
        with closing(Database(self.path, read_only=True)) as database, database.reader() as connection:
            searched_by = native(connection)
        if not searched_by:
            self.found.without(ROW, f"memdb0 at {self.size:,}", f"it is searched by {searched_by}")
            return {}
        times = {}
        for name, how in WAYS.items():
            asked = self.ask(_NATIVE_SQL, how)
            times[name] = asked.warm
            share = recall(right, asked.found)
            self.tell(name, {CPU_MS: asked.warm, FIRST_MS: asked.first, RECALL: share})
            if not how:
                self.held(RECALL, share, LEAST_RECALL, at_least=True)
        return times

    def ask(self, sql: str, *how: str) -> Asked:
        """All questions on a connection of their own."""
        with closing(Database(self.path, read_only=True)) as database, database.reader() as connection:

            def search(vector: bytes) -> list[int]:
                rows: Any = connection.execute(sql, (vector, K, *how)).fetchall()
                return [row for (row,) in rows]

            return ask(self.setting, search, self.codes)

    def peers(self, ids: NDArray[np.int64], held: Floats, right: Ids) -> dict[str, float]:
        """CPU ms of each library that is installed."""
        held /= np.maximum(np.linalg.norm(held, axis=1, keepdims=True), np.float32(1e-9))
        times = {}
        for name, (module, build) in PEERS.items():
            if importlib.util.find_spec(module) is None:
                self.found.without(ROW, f"{name} at {self.size:,}", f"{module} is not installed")
                continue
            start = self.setting.clock()
            try:
                search = build(held)
            except ValueError as error:
                self.found.without(ROW, f"{name} at {self.size:,}", str(error))
                continue
            building = self.setting.clock() - start
            asked = ask(self.setting, partial(_rows, search), list(self.queries))
            times[name] = asked.warm
            share = recall(right, [[int(ids[row]) for row in rows] for rows in asked.found])
            self.tell(name, {CPU_MS: asked.warm, RECALL: share, "CPU s to build": middle([building])})
        return times

    def bandwidth(self, held: NDArray[np.int8]) -> float:
        """Bytes that a product with all vectors as float32 reads in a CPU ms, at best."""
        matrix = held.astype(np.float32)
        query = np.ones(matrix.shape[1], np.float32)
        least = min(self.setting.milliseconds(partial(np.dot, matrix, query)) for _ in range(5))
        rate = matrix.nbytes / max(least, 1e-6)
        self.tell("reading memory", {"GB per CPU second": middle([rate / 1e6])})
        for what, each in (("int8 vectors", matrix.shape[1]), ("codes", matrix.shape[1] / 8)):
            self.tell(f"reading {what}", {CPU_MS: middle([self.size * each / rate])})
        return rate

    def hold(self, ours: dict[str, float], peers: dict[str, float], rate: float) -> None:
        """Ours against the targets, which are of the largest size."""
        if self.size != LARGE:
            return
        against = "sqlite-vec float32"
        self.held(f"times as fast as {against}", peers[against] / ours[OURS], LEAST_GAIN, at_least=True)
        width = self.queries.shape[1]
        for name, each in ((f"{OURS}, exact", width), (OURS, width / 8 if self.size >= CODED else width)):
            what = f"{name}: times the {'codes' if each < width else 'vectors'} ÷ bandwidth"
            value = ours[name] / (self.size * each / rate)
            self.held(what, value, MOST_TIMES_READING, at_least=False)

    def tell(self, contender: str, figures: dict[str, float]) -> None:
        self.found.measured += [
            Measured(row=ROW, contender=contender, figure=figure, value=value, size=self.size)
            for figure, value in figures.items()
        ]

    def held(self, what: str, value: float, target: float, *, at_least: bool) -> None:
        self.found.held.append(
            Held(
                row=ROW, what=what, value=middle([value]), target=target, at_least=at_least, size=self.size
            )
        )  # fmt: skip


def ask(setting: Setting, search: Callable[[Any], list[int]], questions: Sequence[Any]) -> Asked:
    """Each question once; the first one apart, which warms the caches."""
    times, found = [], []
    for question in questions:
        start = setting.clock()
        rows = search(question)
        times.append(1_000 * (setting.clock() - start))
        found.append(rows)
    return Asked(middle(times[:1]), middle(times[1:]), found)


def _rows(search: Callable[[Floats, int], Sequence[int]], query: Floats) -> list[int]:
    return [int(row) for row in search(query, K)]


def recall(right: Ids, found: Ids) -> float:
    """The share of the right rows that were found."""
    pairs = zip(right, found, strict=True)
    return middle([float(np.mean([len(set(one) & set(other)) / len(one) for one, other in pairs]))])


def stored(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """The messages of a file that have vectors, [n], and their int8 vectors, [n, d]."""
    with closing(Database(path, read_only=True)) as database, database.reader() as connection:
        rows: Any = connection.execute("SELECT message_id, own FROM message_vector")
        ids, vectors = zip(*rows, strict=True)
    return np.array(ids), np.frombuffer(b"".join(vectors), np.int8).reshape(len(ids), -1)

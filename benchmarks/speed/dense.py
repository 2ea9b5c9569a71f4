"""The nearest 100 of many vectors: memdb0 exactly and by codes, against sqlite-vec and numpy, in CPU ms.

The vectors are those of texts as far as there are enough of them; the rest are mixtures of two of these with
noise. Traps: CPU time on a shared machine moves by half, ratios within a run less; mixtures lie more densely
than the vectors of texts, so a search by codes has more candidates to compare; `first` is the first question
after opening, with the file in the operating system's cache. Beyond NUMPY_MOST vectors numpy is left out: its
matrix would take more memory than such a machine has.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError
from memdb.store import codes, schema
from memdb.store.connection import Database
from memdb.store.extensions import native
from memdb.store.indexes import code, vector_scale
from memdb.store.statements import statement

K: Final = 100
QUESTIONS: Final = 40
SIZES: Final = (10_000, 100_000, 1_000_000)
TARGET_RECALL: Final = 0.99
NUMPY_MOST: Final = 2_000_000
_BLOCK: Final = 5_000  # rows of one transaction: as many chunks as are coded at once
_NOISE: Final = 0.35  # of a mixture, against the length of what is mixed
_VEC0: Final = "SELECT message_id FROM message_vector WHERE own MATCH vec_int8(?) AND k = ?"
_NATIVE: Final = "SELECT id FROM vector_top('message_vector', ?, ?, NULL, NULL, NULL, NULL, NULL, NULL, ?)"
Floats = NDArray[np.float32]


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """CPU ms of one question: the median of warm ones, and the first after opening."""

    warm: float
    first: float


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """What searching so many vectors cost; `of_texts` of them are not mixtures. `used` is how a question is
    searched, and `recall` its share of the exact K nearest; ratios are of warm times in this run.
    """

    vectors: int
    of_texts: int
    exact: Timed
    coded: Timed
    used: Timed
    vec0: Timed
    numpy_matvec: float | None
    recall: float
    recall_least: float
    vec0_by_used: float
    numpy_by_used: float | None
    bytes_per_vector: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured."""

    dimension: int
    kernel: str
    questions: int
    sizes: list[Size]
    target_recall: float = TARGET_RECALL


def measure(vectors: Floats, queries: Floats, sizes: Sequence[int] = SIZES) -> Result:
    """`vectors` [n, d] and `queries` [q, d] have length 1. Raises InputError where memdb0 is not built."""
    with tempfile.TemporaryDirectory() as folder:
        found = [_measure(vectors, queries, size, Path(folder) / f"{size}.memdb") for size in sizes]
    kernel, measured = found[0][1], [one for one, _ in found]
    return Result(dimension=vectors.shape[1], kernel=kernel, questions=len(queries), sizes=measured)


def mixed(vectors: Floats, count: int, rng: np.random.Generator) -> Floats:
    """`count` mixtures of two vectors each with noise, of length 1."""
    one, other = (vectors[rng.integers(len(vectors), size=count)] for _ in range(2))
    share = rng.uniform(0.2, 0.6, (count, 1)).astype(np.float32)
    noise = rng.standard_normal(one.shape, dtype=np.float32) * np.float32(_NOISE / np.sqrt(one.shape[1]))
    made = one * (1 - share) + other * share + noise
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def write(path: Path, vectors: Floats, size: int) -> NDArray[np.int8]:
    """A memory file with so many vectors of messages, and no messages; returns their codes, of the first
    NUMPY_MOST [at most size, d].
    """
    rng = np.random.default_rng(1)
    scale, kept = vector_scale(vectors.shape[1]), []
    database = Database(path)
    with database.atomic() as connection:
        made = schema.Made(
            memdb_version="", encoder_name="", encoder_sha256="", encoder_dimension=vectors.shape[1],
            vector_scale=scale,
        )  # fmt: skip
        schema.create(connection, made)
    for first in range(0, size, _BLOCK):
        count = min(_BLOCK, size - first)
        block = vectors[first : first + count]
        if len(block) < count:
            block = np.concatenate([block, mixed(vectors, count - len(block), rng)])
        coded = code(block, scale)
        if first < NUMPY_MOST:
            kept.append(coded)
        with database.atomic() as connection:
            rows = (
                {"message_id": first + n, "scope_id": 1, "said_key": first + n, "own": row.tobytes()}
                for n, row in enumerate(coded, 1)
            )
            connection.executemany(statement("put_message_vector"), rows)
            codes.keep(connection)
    database.close()
    return np.concatenate(kept)


def _measure(vectors: Floats, queries: Floats, size: int, path: Path) -> tuple[Size, str]:
    held = write(path, vectors, size)
    asked = [row.tobytes() for row in code(queries, vector_scale(vectors.shape[1]))]
    exact, right = _ask(path, asked, _NATIVE, "exact")
    coded, _ = _ask(path, asked, _NATIVE, "coded")
    used, found = _ask(path, asked, _NATIVE, "")
    vec0, _ = _ask(path, asked[:5], _VEC0)
    recalls = [len(set(one) & set(other)) / len(one) for one, other in zip(right, found, strict=True)]
    matvec = _matvec(held, queries[:5]) if size <= NUMPY_MOST else None
    return Size(
        vectors=size,
        of_texts=min(size, len(vectors)),
        exact=exact,
        coded=coded,
        used=used,
        vec0=vec0,
        numpy_matvec=matvec,
        recall=round(float(np.mean(recalls)), 4),
        recall_least=min(recalls),
        vec0_by_used=round(vec0.warm / used.warm, 1),
        numpy_by_used=None if matvec is None else round(matvec / used.warm, 2),
        bytes_per_vector=round(path.stat().st_size / size, 1),
    ), _kernel(path)


def _ask(path: Path, asked: Sequence[bytes], sql: str, *how: str) -> tuple[Timed, list[list[int]]]:
    """Each question once, on a connection of its own for all of them."""
    database = Database(path, read_only=True)
    with database.reader() as connection:
        _require(connection)
        times, found = [], []
        for vector in asked:
            start = time.process_time()
            rows: Any = connection.execute(sql, (vector, K, *how)).fetchall()
            times.append(1_000 * (time.process_time() - start))
            found.append([row_id for (row_id,) in rows])
    database.close()
    return Timed(warm=round(median(times[1:]), 2), first=round(times[0], 2)), found


def _matvec(held: NDArray[np.int8], queries: Floats) -> float:
    """numpy on float32 in memory: a product with all vectors, and the K best of it."""
    matrix, times = held.astype(np.float32), []
    for query in queries:
        start = time.process_time()
        np.argpartition(-(matrix @ query), K)
        times.append(1_000 * (time.process_time() - start))
    return round(median(times), 2)


def _kernel(path: Path) -> str:
    database = Database(path, read_only=True)
    with database.reader() as connection:
        kernel = str(connection.execute("SELECT memdb0_simd()").get)
    database.close()
    return kernel


def _require(connection: apsw.Connection) -> None:
    if not native(connection):
        raise InputError(str(native(connection)), hint="build it: see native/")

"""Other ways to the nearest of many vectors: numpy, sqlite-vec on float32, faiss flat, HNSW of usearch.

Each is given the very vectors of a memory file, as float32 of length 1, and runs on one thread. numpy obeys
`OPENBLAS_NUM_THREADS`, which has to be set before Python starts; CPU seconds count all its threads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from memdb.store.connection import load_vectors

Floats = NDArray[np.float32]
Search = Callable[[Floats, int], Sequence[int]]  # a vector [d] and k -> rows of the matrix, nearest first
HNSW_MOST: Final = 100_000  # vectors; a graph of a million takes a quarter of an hour to build
_BLOCK: Final = 20_000  # rows of one transaction


def numpy_matvec(vectors: Floats) -> Search:
    """A product with all vectors, and the k best of it."""

    def search(query: Floats, k: int) -> Sequence[int]:
        scores = vectors @ query
        best = np.argpartition(-scores, min(k, len(scores) - 1))[:k]
        found: list[int] = best[np.argsort(-scores[best])].tolist()
        return found

    return search


def vec0_float(vectors: Floats) -> Search:
    """A table of vec0 in a database in memory."""
    connection = apsw.Connection(":memory:")
    load_vectors(connection)
    columns = f"own FLOAT[{vectors.shape[1]}] distance_metric=cosine"
    connection.execute(f"CREATE VIRTUAL TABLE held USING vec0 (row INTEGER PRIMARY KEY, {columns})")
    for first in range(0, len(vectors), _BLOCK):
        block = enumerate(vectors[first : first + _BLOCK], first)
        with connection:
            connection.executemany(
                "INSERT INTO held (row, own) VALUES (?, ?)", ((n, one.tobytes()) for n, one in block)
            )

    def search(query: Floats, k: int) -> Sequence[int]:
        found: Any = connection.execute(
            "SELECT row FROM held WHERE own MATCH ? AND k = ?", (query.tobytes(), k)
        )
        return [row for (row,) in found]

    return search


def faiss_flat(vectors: Floats) -> Search:
    """Inner products with all vectors."""
    faiss: Any = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return lambda query, k: list(index.search(query[None], min(k, len(vectors)))[1][0])


def usearch_hnsw(vectors: Floats) -> Search:
    """A graph with usearch's own settings, over float16. Raises ValueError where building takes too long."""
    if len(vectors) > HNSW_MOST:
        raise ValueError(f"its graph is built for at most {HNSW_MOST:,} vectors")
    usearch: Any = importlib.import_module("usearch.index")
    index = usearch.Index(ndim=vectors.shape[1], metric="cos", dtype="f16")
    index.add(np.arange(len(vectors)), vectors, threads=1)
    return lambda query, k: list(index.search(query, k, threads=1).keys)


# Each with the module that has to be installed.
PEERS: Final[dict[str, tuple[str, Callable[[Floats], Search]]]] = {
    "numpy matvec": ("numpy", numpy_matvec),
    "sqlite-vec float32": ("sqlite_vec", vec0_float),
    "faiss flat": ("faiss", faiss_flat),
    "usearch HNSW": ("usearch", usearch_hnsw),
}

"""Other ways to the nearest of many vectors: numpy, sqlite-vec on float32, faiss, usearch, hnswlib, lancedb.

Each is given the very vectors of a memory file, as float32 of length 1, and runs on one thread. numpy obeys
`OPENBLAS_NUM_THREADS`, which has to be set before Python starts, lancedb uses threads of its own; CPU seconds
count all of them.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import weakref
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
    _can_build(vectors)
    usearch: Any = importlib.import_module("usearch.index")
    index = usearch.Index(ndim=vectors.shape[1], metric="cos", dtype="f16")
    index.add(np.arange(len(vectors)), vectors, threads=1)
    return lambda query, k: list(index.search(query, k, threads=1).keys)


def hnswlib_hnsw(vectors: Floats) -> Search:
    """A graph with hnswlib's own settings, and a list of k candidates, 64 at least.

    Raises ValueError where building takes too long.
    """
    _can_build(vectors)
    hnswlib: Any = importlib.import_module("hnswlib")
    index = hnswlib.Index(space="ip", dim=vectors.shape[1])
    index.init_index(max_elements=len(vectors))
    index.add_items(vectors, np.arange(len(vectors)), num_threads=1)

    def search(query: Floats, k: int) -> Sequence[int]:
        index.set_ef(max(k, 64))
        return list(index.knn_query(query, min(k, len(vectors)), num_threads=1)[0][0])

    return search


def lancedb_flat(vectors: Floats) -> Search:
    """A table of lancedb in a folder of its own, searched as it is: without an index, exactly."""
    lancedb: Any = importlib.import_module("lancedb")
    folder = tempfile.mkdtemp(prefix="memdb-lancedb-")
    table: Any = None
    for first in range(0, len(vectors), _BLOCK):
        rows = [{"row": row, "vector": one} for row, one in enumerate(vectors[first : first + _BLOCK], first)]
        if table is None:
            table = lancedb.connect(folder).create_table("held", rows)
        else:
            table.add(rows)

    def search(query: Floats, k: int) -> Sequence[int]:
        found = table.search(query).distance_type("cosine").select(["row", "_distance"]).limit(k).to_arrow()
        rows: list[int] = found["row"].to_pylist()
        return rows

    weakref.finalize(search, shutil.rmtree, folder, ignore_errors=True)
    return search


def _can_build(vectors: Floats) -> None:
    if len(vectors) > HNSW_MOST:
        raise ValueError(f"its graph is built for at most {HNSW_MOST:,} vectors")


# Each with the module that has to be installed.
PEERS: Final[dict[str, tuple[str, Callable[[Floats], Search]]]] = {
    "numpy matvec": ("numpy", numpy_matvec),
    "sqlite-vec float32": ("sqlite_vec", vec0_float),
    "faiss flat": ("faiss", faiss_flat),
    "usearch HNSW": ("usearch", usearch_hnsw),
    "hnswlib HNSW": ("hnswlib", hnswlib_hnsw),
    "lancedb flat": ("lancedb", lancedb_flat),
}

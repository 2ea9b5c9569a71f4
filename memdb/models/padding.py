"""Which texts a model reads in one run, and their rows of one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

BATCH_TOKENS = 1024  # padded tokens of one run; 2048 is no faster and holds 80 MB more
RUN_TOKENS = 12  # what a run costs besides, in tokens (measured)


def padded(rows: Sequence[Sequence[int]], *, left: bool = False) -> NDArray[np.int64]:
    """[len(rows), longest], the shorter filled up with zeros on the right, or on the left."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for number, row in enumerate(rows):
        start = table.shape[1] - len(row) if left else 0
        table[number, start : start + len(row)] = row
    return table


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers, shortest texts first, in batches of at most BATCH_TOKENS padded tokens (or one text). A
    longer text begins a batch where to pad the others to it would cost more than a run does.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        longer = lengths[row] - lengths[batch[-1]] if batch else 0
        if (len(batch) + 1) * lengths[row] > BATCH_TOKENS or len(batch) * longer > RUN_TOKENS:
            if batch:
                yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch

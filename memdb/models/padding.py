"""Rows of one length for a run of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def padded(rows: Sequence[Sequence[int]], *, left: bool = False) -> NDArray[np.int64]:
    """[len(rows), longest], the shorter filled up with zeros on the right, or on the left."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for number, row in enumerate(rows):
        start = table.shape[1] - len(row) if left else 0
        table[number, start : start + len(row)] = row
    return table

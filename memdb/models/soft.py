"""Rows of a model's embedding space as a part of its prompt (QGMem section III-C3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError

PROBE = "The cat sat."  # read in both ways to see whether they are one
TOLERANCE = 1e-3  # of the logits' standard deviation, by which both may differ


class Rows(msgspec.Struct, frozen=True):
    """float32 [count, width] in C order; two are equal where their bits are."""

    data: bytes
    count: int

    @classmethod
    def of(cls, rows: NDArray[np.float32], scale: float = 1.0, *, width: int | None = None) -> Rows:
        """The rows times `scale`. Raises InputError where they are not float32 [n, width] or not finite."""
        wanted = rows.shape[-1] if width is None else width
        if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != wanted:
            raise InputError(f"rows are float32 [n, {wanted}], not {rows.dtype} {list(rows.shape)}")
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = rows * np.float32(scale)
        if not np.isfinite(scaled).all():
            raise InputError("a component of a row is no finite number")
        return cls(scaled.tobytes(), len(rows))

    def __len__(self) -> int:
        return self.count


def embedding_scale(
    ids: Sequence[int],
    rows: NDArray[np.float32],
    read: Callable[[list[tuple[int, ...] | Rows]], NDArray[np.float32]],
) -> float | None:
    """What the rows of tokens are multiplied by to read like the tokens; None where neither 1 nor the root of
    the width, up or down, does it.

    Some models scale their input, tokens alone or all of it. `rows` [len(ids), width] are of the model's
    table; `read` gives the logits [vocabulary] after a prompt of segments.
    """
    first, middle, last = tuple(ids[:1]), slice(1, -1), tuple(ids[-1:])
    expected = read([first, tuple(ids[middle]), last])
    root = rows.shape[1] ** 0.5
    for scale in (1.0, root, 1 / root):
        got = read([first, Rows.of(rows[middle], scale), last])
        if np.abs(got - expected).max() <= TOLERANCE * expected.std():
            return scale
    return None

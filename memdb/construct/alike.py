"""For each of many vectors the nearest others, as far as they are alike enough: a similarity self-join.

Two vectors of length 1 are compared by their first principal components and by what is left of each beside
these: a·b <= Pa·Pb + |a - Pa||b - Pb| (Cauchy and Schwarz). Only pairs for which that bound is large enough
are compared as a whole, and so none is missed. Vectors are read block by block, each pair of blocks once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float32]
Numbers: TypeAlias = NDArray[np.int64]
Cosines: TypeAlias = NDArray[np.float64]
# The int8 codes of the vectors of these numbers, [n, d], n > 0.
Read: TypeAlias = Callable[[Numbers], Codes]

COMPONENTS = 96  # principal ones that are compared first: of sentences they hold three quarters of the length
SAMPLE = 4_096  # vectors that principal components are found from; of no more all components are compared
ROWS = 32_768  # vectors that are held while those behind them are read: 25 MB of 384 components
COLUMNS = 4_096  # vectors read at once; ROWS is a multiple
TILE = 512  # rows compared with columns at once: 8 MB of bounds
_PENDING = 1 << 20  # candidates kept before the nearest of them are chosen
_SLACK = 1e-3  # bounds are rounded; so much smaller than a cosine none is
_SPARSE = 32  # of so many pairs of a tile one is compared by itself; if more are left, all are together
_GATHERED = 8_192  # pairs compared at once


class Pairs(NamedTuple):
    """Pairs left < right of numbers with their cosines, [n] each."""

    left: Numbers
    right: Numbers
    cosines: Cosines


class _Block(NamedTuple):
    """Vectors from number `first` on: codes [n, d], their squares [n], and what bounds are made of,
    [n, m + 1].
    """

    first: int
    codes: Codes
    squares: NDArray[np.float64]
    short: Floats

    def part(self, start: int, most: int) -> _Block:
        """The next `most` from number `start` on."""
        at = slice(start - self.first, start - self.first + most)
        return _Block(start, self.codes[at], self.squares[at], self.short[at])


def nearest(read: Read, count: int, least: float, most: int) -> Pairs:
    """Of the vectors numbered from 0 each with its `most` nearest whose cosine is at least `least` > 0, of
    equally near ones the first; a vector without length is near none.
    """
    basis = _basis(read, count)
    best = _Best(count, least, most)
    for first in range(0, count, ROWS):
        rows = _block(read, first, min(count, first + ROWS), basis)
        for start in range(first, count, COLUMNS):
            end = min(count, start + COLUMNS)
            held = start < first + len(rows.codes)
            columns = rows.part(start, COLUMNS) if held else _block(read, start, end, basis)
            for tile in range(first, min(first + len(rows.codes), end), TILE):
                _compare(rows.part(tile, TILE), columns, best)
    return best.pairs()


def _basis(read: Read, count: int) -> Floats | None:
    """The first principal components [d, m] of vectors spread over all; None where all components are few
    enough.
    """
    if count <= SAMPLE:
        return None
    sample = read(np.linspace(0, count - 1, SAMPLE).astype(np.int64)).astype(np.float32)
    if sample.shape[1] <= COMPONENTS:
        return None
    _, vectors = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    basis: Floats = np.ascontiguousarray(vectors[:, : -COMPONENTS - 1 : -1], np.float32)
    return basis


def _block(read: Read, first: int, end: int, basis: Floats | None) -> _Block:
    codes = read(np.arange(first, end))
    short = np.empty((len(codes), (codes.shape[1] if basis is None else basis.shape[1]) + 1), np.float32)
    squares = np.empty(len(codes))
    for start in range(0, len(codes), COLUMNS):
        part = slice(start, start + COLUMNS)
        whole = codes[part].astype(np.float32)
        squares[part] = np.maximum(np.square(whole).sum(axis=1), 1)
        whole /= np.sqrt(squares[part])[:, None]
        short[part, :-1] = whole if basis is None else whole @ basis
    short[:, -1] = np.sqrt(np.maximum(0, 1 - np.square(short[:, :-1]).sum(axis=1)))
    return _Block(first, codes, squares, short)


def _compare(rows: _Block, columns: _Block, best: _Best) -> None:
    """Tell `best` of the pairs of two blocks that are alike enough, each pair once."""
    bounds = rows.short @ columns.short.T
    left, right = np.divmod(np.flatnonzero(bounds >= best.least - _SLACK), len(columns.codes))
    if len(left) * _SPARSE > bounds.size:
        every = rows.codes.astype(np.float32) @ columns.codes.astype(np.float32).T
        products = every[left, right].astype(np.float64)
    else:
        products = _products(rows.codes, left, columns.codes, right)
    cosines = products / np.sqrt(rows.squares[left] * columns.squares[right])
    left, right = left + rows.first, right + columns.first
    kept = (cosines >= best.least) & (left < right)
    best.offer(left[kept], right[kept], cosines[kept])


def _products(some: Codes, left: Numbers, others: Codes, right: Numbers) -> NDArray[np.float64]:
    """The dot products of pairs of codes: whole numbers, which float32 holds."""
    products = np.empty(len(left))
    for start in range(0, len(left), _GATHERED):
        part = slice(start, start + _GATHERED)
        one, other = some[left[part]].astype(np.float32), others[right[part]].astype(np.float32)
        products[part] = np.einsum("ij,ij->i", one, other)
    return products


class _Best:
    """The nearest of each vector so far. Those of one are offered in the order of their numbers, so that what
    is only as near as the last one that was kept comes too late.
    """

    def __init__(self, count: int, least: float, most: int) -> None:
        self.least = least
        self._count = count
        self._most = most
        self._last = np.full(count, -np.inf)  # of those that have enough, the cosine of the last
        self._offered = [(np.array([], np.int64), np.array([], np.int64), np.array([]))]
        self._pending = 0

    def offer(self, left: Numbers, right: Numbers, cosines: Cosines) -> None:
        """Pairs left < right."""
        for own, other in ((left, right), (right, left)):
            near = cosines > self._last[own]
            self._offered.append((own[near], other[near], cosines[near]))
            self._pending += int(near.sum())
        if self._pending > _PENDING:
            self._choose()

    def _choose(self) -> tuple[Numbers, Numbers, Cosines]:
        """Keep the nearest alone: own, other, cosine."""
        own, other, cosines = (np.concatenate(parts) for parts in zip(*self._offered, strict=True))
        order = np.lexsort((other, -cosines, own))
        place = np.arange(len(own)) - np.searchsorted(own[order], own[order])  # among those of its own
        last = order[place == self._most - 1]
        self._last[own[last]] = cosines[last]
        kept = order[place < self._most]
        self._offered, self._pending = [(own[kept], other[kept], cosines[kept])], 0
        return self._offered[0]

    def pairs(self) -> Pairs:
        """The pairs of which one is kept for the other, in order."""
        own, other, cosines = self._choose()
        keys, at = np.unique(np.minimum(own, other) * self._count + np.maximum(own, other), return_index=True)
        left, right = np.divmod(keys, max(1, self._count))
        return Pairs(left, right, cosines[at])

"""Deterministic stand-ins for models: no weights, no state, the same contract. For tests, docs and demos."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError
from memdb.models.ports import Kind, require_texts

WORD = re.compile(r"\w+")
SLICE_TEXTS = 4096  # texts summed at once: bounds the memory of one call
GRAM_WEIGHT = 0.5  # of all character trigrams of a word together, against the word itself


class HashEncoder:
    """Bags of hashed words and character trigrams, a `ports.Encoder`: texts that share words are near.

    The direction of a word is read from the bits of its BLAKE2 digest, +1 or -1 per component.
    """

    def __init__(self, dimension: int = 64) -> None:
        if not 1 <= dimension <= 512:
            raise InputError(f"a hashed vector has 1 to 512 components, not {dimension}")
        self._dimension = dimension

    @property
    def name(self) -> str:
        """See `ports.Encoder`."""
        return f"hash-{self._dimension}"

    @property
    def sha256(self) -> str:
        """See `ports.Encoder`."""
        return hashlib.sha256(f"memdb hash encoder 1, {self._dimension}".encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """See `ports.Encoder`."""
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """See `ports.Encoder`."""
        return 256

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """See `ports.Encoder`."""
        require_texts(texts)
        starts = range(0, len(texts), SLICE_TEXTS)
        slices = [self._sum(texts[start : start + SLICE_TEXTS]) for start in starts]
        vectors = np.concatenate([np.zeros((0, self._dimension), np.float32), *slices])
        vectors[~vectors.any(axis=1), 0] = 1  # no word, or words that cancel out
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _sum(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [len(texts), dimension], not normalised; a text without words is a zero row."""
        bags = [WORD.findall(text.casefold())[: self.max_tokens] for text in texts]
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(word, len(numbers)) for bag in bags for word in bag]
        total = np.zeros((len(texts), self._dimension), np.float32)
        if flat:
            counts = np.array([len(bag) for bag in bags])
            filled = counts > 0
            starts = (np.cumsum(counts) - counts)[filled]
            total[filled] = np.add.reduceat(self._words(list(numbers))[flat], starts, axis=0)
        return total

    def _words(self, words: list[str]) -> NDArray[np.float32]:
        """float32 [len(words), dimension]"""
        framed = [f"<{word[:40]}>" for word in words]
        grams = [[word[at : at + 3] for at in range(len(word) - 2)] for word in framed]
        counts = np.array([len(group) for group in grams])
        distinct: dict[str, int] = {}
        flat = [distinct.setdefault(gram, len(distinct)) for group in grams for gram in group]
        sums = np.add.reduceat(self._signs(list(distinct))[flat], np.cumsum(counts) - counts, axis=0)
        whole = self._signs([f" {word}" for word in words])
        shares = (GRAM_WEIGHT / np.sqrt(counts)).astype(np.float32)
        directions: NDArray[np.float32] = whole + sums * shares[:, None]
        return directions

    def _signs(self, texts: list[str]) -> NDArray[np.float32]:
        """+1 or -1, float32 [len(texts), dimension]"""
        size = -(-self._dimension // 8)
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        digests = b"".join([hashlib.blake2b(data, digest_size=size).digest() for data in raw])
        bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(len(texts), size), axis=1)
        return bits[:, : self._dimension].astype(np.float32) * 2 - 1

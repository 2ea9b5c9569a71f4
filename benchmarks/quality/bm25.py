"""The baselines that owe memdb nothing: BM25 over whole messages, in numpy.

    score(q, d) = Σ_{t in q} idf(t) · f(t,d) · (k1+1) / (f(t,d) + k1 · (1 - b + b·|d|/avg))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

(Robertson and Zaragoza 2009, with the idf that is never negative.) A word that a question repeats counts each
time.

`PLAIN` takes words as they are. `STEMMED` is the one to beat: English stems, a short stop list, and the
constants that search engines use for short texts; it stands where published BM25 figures stand.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import LibraryMissing

STOP_WORDS: Final = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with".split()
)


def words(text: str) -> list[str]:
    """Lowercase runs of ASCII letters and digits."""
    return re.findall(r"[a-z0-9]+", text.lower())


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """The Snowball stemmer of that name. Raises LibraryMissing."""
    try:
        library = importlib.import_module("snowballstemmer")
    except ImportError as error:
        raise LibraryMissing(
            "stemming needs snowballstemmer", hint="pip install 'memdb-engine[bench]'"
        ) from error
    stem: Callable[[str], str] = library.stemmer(language).stemWord
    return stem


def stems(text: str) -> list[str]:
    """English stems of the words that are no stop words."""
    stem = stemmer("english")
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


class Variant(NamedTuple):
    """How text becomes terms, and the two constants."""

    terms: Callable[[str], list[str]]
    k1: float
    b: float


PLAIN: Final = Variant(words, 1.5, 0.75)
STEMMED: Final = Variant(stems, 0.9, 0.4)


class BM25:
    """An index over the documents it is given, which are known by their position."""

    def __init__(self, documents: Sequence[str], variant: Variant = PLAIN) -> None:
        self._variant = variant
        self._size = len(documents)
        counted = [Counter(variant.terms(text)) for text in documents]
        lengths = np.array([terms.total() for terms in counted], dtype=np.float64)
        mean = float(lengths.mean()) if lengths.any() else 1.0
        postings: dict[str, list[tuple[int, int]]] = {}
        for number, terms in enumerate(counted):
            for term, count in terms.items():
                postings.setdefault(term, []).append((number, count))
        damping = variant.k1 * (1 - variant.b + variant.b * lengths / mean)
        self._postings = {term: self._weigh(entries, damping) for term, entries in postings.items()}

    def _weigh(
        self, entries: list[tuple[int, int]], damping: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Documents of one term, int64 [n], and what the term adds to their scores, float64 [n]."""
        documents, counts = np.array(entries, dtype=np.int64).T
        idf = np.log1p((self._size - len(entries) + 0.5) / (len(entries) + 0.5))
        return documents, idf * counts * (self._variant.k1 + 1) / (counts + damping[documents])

    def scores(self, question: str) -> NDArray[np.float64]:
        """One score per document, float64 [documents]; 0 where no term is shared."""
        total = np.zeros(self._size)
        for term in self._variant.terms(question):
            if term in self._postings:
                documents, weights = self._postings[term]
                total[documents] += weights
        return total

    def search(self, question: str, k: int) -> list[tuple[int, float]]:
        """The best `k` documents with a score above 0 as (position, score); the earlier one wins a tie."""
        total = self.scores(question)
        order = np.argsort(-total, kind="stable")[:k]
        return [(int(one), float(total[one])) for one in order if total[one] > 0]

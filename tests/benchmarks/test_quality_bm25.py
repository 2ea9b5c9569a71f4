"""The BM25 baselines."""

from __future__ import annotations

import pytest

from benchmarks.quality import bm25
from benchmarks.quality.bm25 import BM25, STEMMED
from benchmarks.quality.errors import LibraryMissing

DOCUMENTS = ["ana moved to rome", "ben likes rome", "ana has a cat"]


def test_worked_example() -> None:
    scores = BM25(DOCUMENTS).scores("ana rome")
    assert scores == pytest.approx([0.903064, 0.511885, 0.451532], abs=1e-6)


def test_words() -> None:
    assert bm25.words("Ana's flight LH-1172, on 2023-05-07!") == [
        *("ana", "s", "flight", "lh", "1172", "on", "2023", "05", "07")
    ]


def test_only_shared_words_are_found_best_first() -> None:
    assert [position for position, _ in BM25(DOCUMENTS).search("Rome, ANA?", 10)] == [0, 1, 2]
    assert [position for position, _ in BM25(DOCUMENTS).search("cat", 10)] == [2]
    assert BM25(DOCUMENTS).search("dog", 10) == []


def test_earlier_document_wins_a_tie() -> None:
    found = BM25(["x y", "x y", "x y", "z"]).search("x", 2)
    assert [position for position, _ in found] == [0, 1]


def test_a_repeated_word_counts_each_time() -> None:
    index = BM25(DOCUMENTS)
    assert index.scores("rome rome") == pytest.approx(2 * index.scores("rome"))


@pytest.mark.parametrize("documents", [[], [""], ["", "!"]])
def test_nothing_to_index(documents: list[str]) -> None:
    assert BM25(documents).search("rome", 10) == []


def test_stems_and_stop_words() -> None:
    pytest.importorskip("snowballstemmer")
    assert bm25.stems("The painters are painting") == ["painter", "paint"]
    assert BM25(["she paints", "he cooks"], STEMMED).search("painting", 5)[0][0] == 0


def test_missing_stemmer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "snowballstemmer", None)
    bm25.stemmer.cache_clear()
    with pytest.raises(LibraryMissing, match="snowballstemmer"):
        bm25.stemmer("english")

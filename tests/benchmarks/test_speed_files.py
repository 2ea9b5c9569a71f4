"""Files made for measuring are memories like any other, and the same for one seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import memdb
from benchmarks.speed import corpus as corpora
from benchmarks.speed.corpus import Corpus
from benchmarks.speed.files import Files, parse_sizes
from memdb.errors import InputError
from memdb.models.fakes import HashEncoder


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "kept", HashEncoder(32))


@pytest.mark.parametrize("size", [1, 26, 130])
def test_a_file_verifies_and_has_its_size(files: Files, size: int) -> None:
    with memdb.open(files.path(size), encoder=files.encoder) as memory:
        proved = memory.verify()
        found = memory.recall("When did anybody go to the market?", 5)
    assert proved.problems == ()
    assert [proved.counts[kind] for kind in ("messages", "units", "message_vectors", "triple_vectors")] == [
        size
    ] * 4
    assert proved.counts["labels"] == proved.counts["label_vectors"] > 0
    assert len(found.evidence) == min(size, 5)


def test_a_file_is_made_once(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    first = files.path(3)
    monkeypatch.setattr("benchmarks.speed.files.make", None)
    assert files.path(3) == first
    with pytest.raises(TypeError):
        files.path(4)


def test_what_was_left_half_made_is_made_anew(files: Files) -> None:
    path = files.path(2)
    path.rename(path.with_suffix(".part"))
    with memdb.open(files.path(2), encoder=files.encoder) as memory:
        assert memory.about().counts["messages"] == 2


def test_blocks_are_drawn_each_by_itself() -> None:
    one, other = (Corpus(HashEncoder(16), seed=5).block(7) for _ in range(2))
    assert [session.messages for session in one] == [session.messages for session in other]
    np.testing.assert_array_equal(one[3].message_vectors, other[3].message_vectors)
    assert one[0].messages != Corpus(HashEncoder(16), seed=5).block(8)[0].messages
    assert sum(len(session.messages) for session in one) == corpora.BLOCK


def test_vectors_have_length_one_and_words_a_common_head() -> None:
    corpus = Corpus(HashEncoder(16))
    block = corpus.block(0)
    lengths = np.linalg.norm(np.concatenate([session.fact_vectors for session in block]), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)
    words = " ".join(message.content for session in block for message in session.messages).lower().split()
    assert words.count("the") > len(words) / 50
    assert len(set(words)) > 4_000


def test_sizes_are_read() -> None:
    assert parse_sizes("10k, 1M,25") == [10_000, 1_000_000, 25]


@pytest.mark.parametrize("text", ["ten", "1g", "0", "-5", "1km", "k", "1.5k"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no number of messages"):
        parse_sizes(text)

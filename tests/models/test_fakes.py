"""What the fake encoder promises beyond the contract."""

from __future__ import annotations

import numpy as np
import pytest

from memdb.errors import InputError
from memdb.models import fakes
from memdb.models.fakes import HashEncoder

PINNED = [-0.3745, 0.2239, -0.5591, 0.2779, 0.451, -0.1474, -0.4264, 0.1136]


def test_texts_without_words_share_one_fixed_vector() -> None:
    expected = np.eye(1, 64, dtype=np.float32)[0]
    for text in ("", "  ", "?!", "\0"):
        assert np.array_equal(HashEncoder().encode([text])[0], expected)


def test_case_does_not_count_and_order_does_not_either() -> None:
    one, two = HashEncoder().encode(["The Cat sat", "sat the cat"])
    assert np.abs(one - two).max() < 1e-6


def test_shared_words_and_shared_letters_are_near() -> None:
    hospital, hospitals, cat = HashEncoder(512).encode(["hospital", "hospitals", "a grey cat"])
    assert hospital @ hospitals > 0.15
    assert abs(hospital @ cat) < 0.15


def test_vectors_are_pinned() -> None:
    """Files made with it in one release are read in the next."""
    (vector,) = HashEncoder(8).encode(["I went to the hospital"])
    assert np.abs(vector - PINNED).max() < 1e-4
    assert HashEncoder(64).sha256 != HashEncoder(65).sha256


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word{number} and {number % 7}" if number % 5 else "" for number in range(50)]
    whole = HashEncoder().encode(texts)
    monkeypatch.setattr(fakes, "SLICE_TEXTS", 7)
    assert np.array_equal(HashEncoder().encode(texts), whole)


@pytest.mark.parametrize("dimension", [0, -1, 513])
def test_dimensions_it_cannot_give_are_refused(dimension: int) -> None:
    with pytest.raises(InputError):
        HashEncoder(dimension)

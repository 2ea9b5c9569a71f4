"""Measuring the search of vectors: what it searches, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import apsw
import numpy as np
import pytest

import memdb
from benchmarks.speed import dense
from memdb.store.indexes import vector_scale
from tests.native.vectors import connect


def directions(rng: np.random.Generator, count: int) -> dense.Floats:
    vectors = rng.standard_normal((count, 32)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def test_mixtures_have_length_one_and_lie_near_what_they_are_made_of() -> None:
    rng = np.random.default_rng(1)
    vectors = directions(rng, 50)
    made = dense.mixed(vectors, 200, rng)
    assert made.shape == (200, 32)
    assert np.linalg.norm(made, axis=1) == pytest.approx(1, abs=1e-5)
    assert (made @ vectors.T).max(axis=1).mean() > 0.6


def test_the_file_holds_the_vectors_and_their_codes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    vectors = directions(rng, 300)
    held = dense.write(tmp_path / "m.memdb", vectors, 400)
    assert held.shape == (400, 32)
    assert (held[:300] == np.clip(np.rint(vectors * vector_scale(32)), -127, 127)).all()
    with apsw.Connection(str(tmp_path / "m.memdb")) as connection:
        assert connection.execute("SELECT count(*) FROM message_vector_code").get == 2


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    connect().close()
    monkeypatch.setattr(dense, "K", 5)
    rng = np.random.default_rng(1)
    found = dense.measure(directions(rng, 300), directions(rng, 6), [300, 700])
    assert [(one.vectors, one.of_texts, one.recall) for one in found.sizes] == [(300, 300, 1), (700, 300, 1)]
    assert all(one.vec0.warm > 0 and one.bytes_per_vector > 32 for one in found.sizes)


def test_beyond_what_numpy_can_hold_it_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect().close()
    monkeypatch.setattr(dense, "K", 5)
    monkeypatch.setattr(dense, "NUMPY_MOST", 300)
    monkeypatch.setattr(dense, "_BLOCK", 200)
    vectors = directions(np.random.default_rng(1), 300)
    small, large = dense.measure(vectors, vectors[:6], [300, 700]).sizes
    assert small.numpy_matvec is not None
    assert (large.numpy_matvec, large.numpy_by_used, large.recall) == (None, None, 1)
    assert len(dense.write(tmp_path / "m.memdb", vectors, 700)) == 400, "whole blocks are kept"


def test_without_memdb0_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_NATIVE", "0")
    vectors = directions(np.random.default_rng(1), 20)
    with pytest.raises(memdb.errors.InputError, match="memdb0"):
        dense.measure(vectors, vectors, [20])

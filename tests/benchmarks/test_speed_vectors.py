"""The row `dense`: what it searches, what it holds, and that other libraries find the same rows."""

from __future__ import annotations

import importlib.util

import msgspec
import numpy as np
import pytest

from benchmarks.speed import run, vector_peers, vectors
from benchmarks.speed.measured import Measured, Setting
from memdb.store.extensions import NATIVE_SWITCH
from tests.native.vectors import connect


def told(measured: list[Measured], figure: str) -> dict[tuple[int | None, str], float]:
    return {(one.size, one.contender): one.value for one in measured if one.figure == figure}


def directions(count: int) -> vectors.Floats:
    drawn = np.random.default_rng(1).standard_normal((count, 32)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def test_memdb0_is_held_against_exact_search(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    connect().close()
    monkeypatch.setattr(vectors, "K", 5)
    found = run.measure(setting, ["dense"])
    shares, times = told(found.measured, vectors.RECALL), told(found.measured, "CPU ms")
    for size in setting.sizes:
        assert shares[size, "memdb, exact"] == shares[size, "memdb"] == 1
        assert shares[size, "sqlite-vec float32"] >= 0.8  # the question is not rounded there
        assert times[size, "memdb"] == times[size, "sqlite-vec int8"] == 1  # a tick of the clock
    assert [(one.size, one.value, one.reached) for one in found.held] == [(30, 1, True), (60, 1, True)]


def test_targets_are_of_the_largest_file(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    connect().close()
    monkeypatch.setattr(vectors, "LARGE", 60)
    held = [one for one in run.measure(setting, ["dense"]).held if one.what != vectors.RECALL]
    assert [(one.size, one.at_least, one.target) for one in held] == [
        (60, True, 28), (60, False, 2), (60, False, 2)
    ]  # fmt: skip
    assert held[0].value == 1  # both took a tick


def test_without_memdb0_the_others_are_measured(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NATIVE_SWITCH, "0")
    found = run.measure(setting, ["dense"])
    assert {"sqlite-vec int8", "numpy matvec"} <= {one.contender for one in found.measured}
    assert not found.held
    assert "switched off" in found.skipped[0].why


def test_a_library_that_is_not_installed_is_told(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = {
        "gone": ("no_such_module", vector_peers.numpy_matvec),
        "slow": ("numpy", vector_peers.usearch_hnsw),
    }
    monkeypatch.setattr(vectors, "PEERS", peers)
    monkeypatch.setattr(vector_peers, "HNSW_MOST", 10)
    small = msgspec.structs.replace(setting, sizes=(30,))
    why = [one.why for one in run.measure(small, ["dense"]).skipped if "memdb0" not in one.what]
    assert why == ["no_such_module is not installed", "its graph is built for at most 10 vectors"]


@pytest.mark.parametrize("name", vector_peers.PEERS)
def test_every_library_finds_the_nearest(name: str) -> None:
    module, build = vector_peers.PEERS[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    held = directions(300)
    search = build(held)
    for query in held[:5] + np.float32(0.05):
        query /= np.linalg.norm(query)
        best = np.sort(held @ query)[::-1][:7]
        assert held[list(search(query, 7))] @ query == pytest.approx(best, abs=1e-3)  # some round to float16


def test_a_file_gives_its_vectors(setting: Setting) -> None:
    ids, held = vectors.stored(setting.files.path(30))
    assert ids.tolist() == list(range(1, 31))
    assert held.shape == (30, 32)
    assert held.any(axis=1).all()


def test_recall_is_the_share_of_the_right_rows() -> None:
    assert vectors.recall([[1, 2], [3, 4]], [[2, 1], [4, 9]]) == 0.75

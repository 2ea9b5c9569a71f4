"""The row `lexical`: memdb0 agrees with FTS5, and other libraries search the terms that are indexed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from contextlib import closing

import msgspec
import pytest

from benchmarks.speed import run, term_peers, terms
from benchmarks.speed.measured import Setting
from memdb.store.connection import Database
from memdb.store.extensions import NATIVE_SWITCH

TEXTS = ["a canoe on the lake", "the lake is cold", "nothing of the kind"]


@pytest.fixture
def small(setting: Setting) -> Setting:
    return msgspec.structs.replace(setting, sizes=(60,))


def require_term_top(setting: Setting) -> None:
    with (
        closing(Database(setting.files.path(60), read_only=True)) as database,
        database.reader() as connection,
    ):
        if why := terms.reason_against(connection):
            pytest.skip(why)


def test_memdb0_is_held_against_fts5(small: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    require_term_top(small)
    monkeypatch.setattr(terms, "LARGE", 60)
    monkeypatch.setattr(terms, "PEERS", {})
    found = run.measure(small, ["lexical"])
    assert [(one.value, one.target) for one in found.held] == [(1, 1), (1, 100), (1, 100)]


def test_another_order_is_noticed(small: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "reason_against", lambda connection: "")
    monkeypatch.setattr(terms, "PEERS", {})

    def reversed_rows(connection):
        search = terms.by_fts5(connection)
        return lambda asked: search(asked)[::-1]

    monkeypatch.setattr(terms, "by_memdb0", reversed_rows)
    (same,) = run.measure(small, ["lexical"]).held
    assert same.value < 1
    assert not same.reached


def test_without_memdb0_fts5_alone_is_measured(small: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NATIVE_SWITCH, "0")
    found = run.measure(small, ["lexical"])
    assert {one.contender for one in found.measured} == {"FTS5"}
    assert "switched off" in found.skipped[0].why


def test_libraries_are_measured_or_told(small: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(texts: Iterable[str], size: int) -> term_peers.Search:
        assert len(list(texts)) == size
        return lambda asked, k: len(asked)

    monkeypatch.setattr(terms, "reason_against", lambda connection: "")
    monkeypatch.setattr(terms, "by_memdb0", terms.by_fts5)
    monkeypatch.setattr(terms, "LARGE", 60)
    monkeypatch.setattr(terms, "PEERS", {"json": counts, "csv": term_peers.bm25s, "no_such": counts})
    monkeypatch.setattr(term_peers, "BM25S_MOST", 10)
    found = run.measure(small, ["lexical"])
    assert {one.figure for one in found.measured if one.contender == "json"} >= set(terms.KINDS)
    assert [one.why for one in found.skipped] == [
        "its index is made for at most 10 messages",
        "no_such is not installed",
    ]


def test_the_texts_hold_the_terms_of_the_index(small: Setting) -> None:
    path = small.files.path(60)
    texts = list(term_peers.indexed_texts(path))
    with closing(Database(path, read_only=True)) as database, database.reader() as connection:
        for word in ("the", "you", "market"):
            found = connection.execute("SELECT rowid FROM message_terms WHERE message_terms MATCH ?", (word,))
            rows = {row for (row,) in found}
            assert {n for n, text in enumerate(texts, 1) if word in text.split()} <= rows


@pytest.mark.parametrize("name", term_peers.PEERS)
def test_every_library_finds_what_has_the_words(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    search = term_peers.PEERS[name](TEXTS, len(TEXTS))
    assert search(["canoe", "cold"], 2) == 2

"""The row `lexical`: the 100 best messages of a file by BM25, by memdb0 and by FTS5, against other libraries.

Each question is asked twice: for the words that memdb looks up, and for every word, stop words included,
which are in most rows. memdb0 and FTS5 answer from one index, and must agree on rows, order and scores.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final

from memdb import settings
from memdb.activate.retrieve import match_expression
from memdb.language.terms import STOP_WORDS, question_terms
from memdb.store.connection import Connection, Database
from memdb.store.extensions import native

from .asking import LARGE, questions
from .measured import CPU_MS, FIRST_MS, OURS, Found, Held, Measured, Setting, at_each_size, middle
from .term_peers import PEERS, indexed_texts
from .vectors import Asked, ask

ROW: Final = "lexical"
K: Final = 100
LEAST_GAIN: Final = 100.0
FTS5: Final = "FTS5"
EVERY_WORD: Final = f"every word, {CPU_MS}"
KINDS: Final[dict[str, frozenset[str]]] = {CPU_MS: STOP_WORDS, EVERY_WORD: frozenset()}
WEIGHTS: Final = tuple(settings.FIELD_WEIGHTS.values())
_FTS5_SQL: Final = (
    "SELECT rowid, -bm25(message_terms, ?, ?, ?, ?, ?) AS score FROM message_terms"
    " WHERE message_terms MATCH ? ORDER BY score DESC, rowid LIMIT ?"
)
_NATIVE_SQL: Final = "SELECT id, score FROM term_top('message_terms', ?, ?) LIMIT ?"
Search = Callable[[list[str]], list[Any]]


def lexical(setting: Setting) -> Found:
    """The row, at each size."""
    return at_each_size(setting, lambda setting, size: _At(setting, size).measure())


class _At:
    """What is measured at one size; `found` is the result so far."""

    def __init__(self, setting: Setting, size: int) -> None:
        self.setting, self.size, self.found = setting, size, Found()
        self.path = setting.files.path(size)
        most = settings.MAX_QUESTION_TERMS
        self.asked = {
            kind: [question_terms(text, stop=stop, limit=most) for text in questions(setting)]
            for kind, stop in KINDS.items()
        }

    def measure(self) -> Found:
        plain = self.ask(FTS5, by_fts5)
        with closing(Database(self.path, read_only=True)) as database, database.reader() as connection:
            why = reason_against(connection)
        if why:
            self.found.without(ROW, f"memdb0 at {self.size:,}", why)
        else:
            self.compare(plain, self.ask(OURS, by_memdb0))
        return self.found

    def compare(self, plain: dict[str, Asked], ours: dict[str, Asked]) -> None:
        """Ours with FTS5 and with the libraries; targets are of the largest size."""
        same = [
            one == other
            for kind in KINDS
            for one, other in zip(plain[kind].found, ours[kind].found, strict=True)
        ]
        self.held("share of questions with FTS5's rows, order and scores", sum(same) / len(same), 1.0)
        peers = self.peers()
        if self.size != LARGE:
            return
        for kind in KINDS:
            words = "" if kind == CPU_MS else ", every word"
            self.held(f"times as fast as {FTS5}{words}", plain[kind].warm / ours[kind].warm, LEAST_GAIN)
            if kind in peers:
                self.held(f"times as fast as tantivy{words}", peers[kind] / ours[kind].warm, 1.0)

    def ask(self, name: str, sort: Callable[[Connection], Search]) -> dict[str, Asked]:
        """All questions of each kind, each kind on a connection of its own."""
        asked = {}
        for kind, questions_of_kind in self.asked.items():
            with closing(Database(self.path, read_only=True)) as database, database.reader() as connection:
                asked[kind] = ask(self.setting, sort(connection), questions_of_kind)
            self.tell(name, kind, asked[kind].warm)
        self.tell(name, FIRST_MS, asked[CPU_MS].first)
        return asked

    def peers(self) -> dict[str, float]:
        """CPU ms of each kind of question to tantivy, if that is installed; the others are told too."""
        times: dict[str, float] = {}
        for name, build in PEERS.items():
            what = f"{name} at {self.size:,}"
            if importlib.util.find_spec(name) is None:
                self.found.without(ROW, what, f"{name} is not installed")
                continue
            start = self.setting.clock()
            try:
                search = build(indexed_texts(self.path), self.size)
            except ValueError as error:
                self.found.without(ROW, what, str(error))
                continue
            self.tell(name, "CPU s to build, terms made again included", self.setting.clock() - start)
            for kind, of_kind in self.asked.items():
                asked = ask(self.setting, partial(_counted, search), of_kind)
                self.tell(name, kind, asked.warm)
                times |= {kind: asked.warm} if name == "tantivy" else {}
        return times

    def tell(self, contender: str, figure: str, value: float) -> None:
        self.found.measured.append(
            Measured(row=ROW, contender=contender, figure=figure, value=middle([value]), size=self.size)
        )

    def held(self, what: str, value: float, target: float) -> None:
        self.found.held.append(
            Held(row=ROW, what=what, value=middle([value]), target=target, at_least=True, size=self.size)
        )


def reason_against(connection: Connection) -> str:
    """Why memdb0 cannot be asked for words on this connection; empty where it can."""
    if not native(connection):
        return f"it is searched by {native(connection)}"
    known = "SELECT count(*) FROM pragma_module_list WHERE name = 'term_top'"
    return "" if connection.execute(known).get else "memdb0 is of a build without term_top"


def by_fts5(connection: Connection) -> Search:
    """(id, score) by FTS5."""

    def search(terms: list[str]) -> list[Any]:
        return connection.execute(_FTS5_SQL, (*WEIGHTS, match_expression(terms), K)).fetchall()

    return search


def by_memdb0(connection: Connection) -> Search:
    """(id, score) by memdb0, which gives them best first."""
    weights = json.dumps(WEIGHTS)

    def search(terms: list[str]) -> list[Any]:
        return connection.execute(_NATIVE_SQL, (json.dumps(terms), weights, K)).fetchall()

    return search


def _counted(search: Callable[[Sequence[str], int], int], terms: list[str]) -> list[Any]:
    return [search(terms, K)]

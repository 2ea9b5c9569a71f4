"""What asks a memory for the candidate set of a question, and has it distilled (DeferMem section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import memdb
from memdb import settings
from memdb.activate.expand import Reach, history
from memdb.activate.parse import parse_question
from memdb.activate.recall import Wish
from memdb.generate.distill import Distillation, Distiller
from memdb.language.clock import parse_instant
from memdb.records import History

from .data import Question

DENSE: Final = "dense"  # the paper's own entry: the nearest messages alone
HYBRID: Final = "hybrid"  # memdb's: the statement that recall uses
ENTRIES: Final = (DENSE, HYBRID)
EXTRACTIVE: Final = "extractive"  # distils without a language model
MODEL: Final = "model"


class Sifted(NamedTuple):
    """The candidate set of a question, and what was distilled from it, if it was."""

    history: History
    distillation: Distillation | None = None


class Sift(Protocol):
    """A question in, its candidate set out."""

    def __call__(self, question: Question, /) -> Sifted:
        """By the clock the question is asked by."""
        ...


class Candidates:
    """`Memory.history`, as a column asks it, and a distiller that reads it, if there is one."""

    def __init__(
        self, memory: memdb.Memory, entry: str, distiller: Distiller | None = None, **bounds: Any
    ) -> None:
        self._memory = memory
        self._entry = entry
        self._distiller = distiller
        self._bounds = bounds

    def __call__(self, question: Question, /) -> Sifted:
        """The candidate set under memdb's own budget, unless `bounds` has another."""
        found = self._memory.history(question.text, at=question.asked_at, entry=self._entry, **self._bounds)
        if self._distiller is None:
            return Sifted(found)
        return Sifted(found, self._distiller.distil(found, question.asked_at))


class Fitted:
    """The candidates that the context of a distiller's model has room for, and what it distils from them."""

    def __init__(self, memory: memdb.Memory, entry: str, distiller: Distiller) -> None:
        self._memory = memory
        self._entry = entry
        self._distiller = distiller

    def __call__(self, question: Question, /) -> Sifted:
        """As `Memory.ask` by the method "defermem": a message has the size that it has in the prompt."""
        at = question.asked_at
        left = self._distiller.room(question.text, at)
        reach = Reach(entry=self._entry, budget_tokens=min(settings.HISTORY_TOKENS, left))
        query = parse_question(question.text, None if at is None else parse_instant(at))
        wish = Wish(settings.HISTORY_K, memdb.Scope())
        found = history(self._memory.reader, query, wish, reach, self._distiller.size)
        return Sifted(found, self._distiller.distil(found, at))


class Cell(NamedTuple):
    """One pair of thresholds: where segments end (τ1), and which are linked (τ2)."""

    tau1: float
    tau2: float


class Cut(NamedTuple):
    """The history cut at the thresholds of a cell: how many segments it has, and who asks it, by entry."""

    cell: Cell
    segments: int
    sifts: dict[str, Sift]


Cuts: TypeAlias = Iterator[Cut]


def no_cuts() -> Cuts:
    """No grid."""
    return iter(())

"""What asks a memory for the candidate set of a question, and has it distilled (DeferMem section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import memdb
from memdb.records import Distilled, History, Utterance

from .data import Question

DENSE: Final = "dense"  # the paper's own entry: the nearest messages alone
HYBRID: Final = "hybrid"  # memdb's: the statement that recall uses
ENTRIES: Final = (DENSE, HYBRID)
EXTRACTIVE: Final = "extractive"  # distils without a language model
MODEL: Final = "model"


class Distillation(Protocol):
    """What a distiller made of a history; `useful` are the messages it chose, `rejected` counts what its
    checks refused by reason, `valid` says that its reply had the form asked for.
    """

    @property
    def evidence(self) -> tuple[Distilled, ...]:
        """What the messages say."""
        ...

    @property
    def useful(self) -> tuple[Utterance, ...]:
        """The messages that were chosen."""
        ...

    @property
    def rejected(self) -> dict[str, int]:
        """How much was refused, by reason."""
        ...

    @property
    def valid(self) -> bool:
        """Whether the reply could be used."""
        ...


class Distiller(Protocol):
    """A history in, what it says of its question out."""

    def distil(self, history: History, question_time: str | None, /) -> Distillation:
        """The pieces of evidence, each with the message it was made of."""
        ...


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
        history = self._memory.history(question.text, at=question.asked_at, entry=self._entry, **self._bounds)
        if self._distiller is None:
            return Sifted(history)
        return Sifted(history, self._distiller.distil(history, question.asked_at))


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

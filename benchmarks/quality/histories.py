"""What asks a memory for the candidate set of a question, and has it distilled (DeferMem section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from memdb.generate.distill import Distillation, Distiller, ModelDistiller
from memdb.generate.distill_prompt import message_tokens, room

import memdb
from memdb import settings
from memdb.models.ports import Backbone
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
        history = self._memory.history(question.text, at=question.asked_at, entry=self._entry, **self._bounds)
        if self._distiller is None:
            return Sifted(history)
        return Sifted(history, self._distiller.distil(history, question.asked_at))


class Fitted:
    """`Memory.history` as far as the context of a model has room for it, and the model that distils it."""

    def __init__(self, memory: memdb.Memory, entry: str, backbone: Backbone) -> None:
        self._memory = memory
        self._entry = entry
        self._backbone = backbone
        self._distiller = ModelDistiller(backbone)

    def __call__(self, question: Question, /) -> Sifted:
        """The candidates under the largest budget found whose prompt fits: a budget counts contents, a prompt
        has more to each message.
        """
        count = self._backbone.count_tokens
        left = room(self._backbone, question.text, question.asked_at)
        budget = min(left, settings.HISTORY_TOKENS)
        while True:
            history = self._memory.history(
                question.text,
                at=question.asked_at,
                entry=self._entry,
                budget_tokens=budget,
                count_tokens=count,
            )
            taken = sum(message_tokens(one, count) for one in history.utterances)
            if taken <= left or budget == 1:
                return Sifted(history, self._distiller.distil(history, question.asked_at))
            budget = max(1, min(budget - 1, budget * left // taken))


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

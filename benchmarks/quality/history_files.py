"""A conversation in its memory file, ready to be asked for candidate sets, by what is distilled from them and
by the thresholds of its segments.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import memdb
from memdb.generate.distill import ExtractiveDistiller, ModelDistiller
from memdb.models.ports import Encoder
from memdb.models.registry import load_reranker
from memdb.models.remembering import RememberingReranker

from .answering import METHODS, Models, answerers
from .data import Conversation
from .encoding import Remembering
from .histories import (
    DENSE,
    ENTRIES,
    EXTRACTIVE,
    HYBRID,
    MODEL,
    Candidates,
    Cell,
    Cut,
    Cuts,
    Fitted,
    Sift,
    no_cuts,
)
from .retrievers import Prepared, add, opened

TAU1: Final = (0.2, 0.4, 0.6, 0.7)
TAU2: Final = (0.7, 0.8, 0.9)
CELLS: Final = tuple(Cell(tau1, tau2) for tau1 in TAU1 for tau2 in TAU2)
UNBOUNDED: Final = 10**9  # tokens: the paper's candidate sets have no budget
GRID_K: Final = 50  # messages that are found: as many as the budget takes would bring most of a short history


@contextmanager
def histories_in_memory_file(
    conversation: Conversation,
    folder: Path,
    remembering: Remembering | None = None,
    *,
    models: Models | None = None,
    answers: bool = False,
    grid: bool = False,
) -> Iterator[Prepared]:
    """The conversation in a memory file of its own in `folder`; messages that the file has already stay.

    Columns share what the reranker said of a message: the first one's times alone are true. With `answers`
    questions are answered by each method, with `grid` the segments of a copy of the file are made anew for
    each cell.
    """
    path = folder / f"{conversation.name}.memdb"
    seconds, encoded, reused = add(conversation, path, remembering)
    reranker = RememberingReranker(load_reranker())
    backbone = models.backbone if models else None
    with ExitStack() as stack:
        cuts: Callable[[], Cuts] = no_cuts
        encoder = remembering.real if remembering else None
        if grid:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memdb-grid-")))
            copy = Path(shutil.copyfile(path, place / path.name))
            cuts = partial(_cuts, copy, encoder)
        memory, encoder = stack.enter_context(opened(path, encoder, reranker))
        told = None
        if answers and models is not None and backbone is not None:
            told, _ = stack.enter_context(opened(path, encoder, reranker, models))
        used = {one.name: one.sha256 for one in (encoder, reranker)}
        yield Prepared(
            {},
            seconds,
            used | (models.digests if models else {}),
            encoded=encoded,
            reused=reused,
            answerers=answerers(memory, told, models, METHODS) if answers and models else {},
            sifts=_sifts(memory, reranker, models),
            cuts=cuts,
        )


def _sifts(memory: memdb.Memory, reranker: RememberingReranker, models: Models | None) -> dict[str, Sift]:
    """The candidates of each entry; what is distilled from them without a model; and by the model from
    memdb's own entry.
    """
    found: dict[str, Sift] = {entry: Candidates(memory, entry) for entry in ENTRIES}
    for entry in (HYBRID, DENSE):
        found[f"{entry}, {EXTRACTIVE}"] = Candidates(memory, entry, ExtractiveDistiller(reranker))
    if models is not None and models.backbone is not None:
        found[f"{HYBRID}, {MODEL}"] = Fitted(memory, HYBRID, ModelDistiller(models.backbone))
    return found


def _cuts(path: Path, encoder: Encoder | None) -> Cuts:
    """The history of a file with its segments made anew for each cell."""
    with opened(path, encoder) as (memory, _):
        sifts: dict[str, Sift] = {
            entry: Candidates(memory, entry, k=GRID_K, budget_tokens=UNBOUNDED) for entry in ENTRIES
        }
        for cell in CELLS:
            memory.rebuild_segments(tau1=cell.tau1, tau2=cell.tau2)
            yield Cut(cell, memory.about().counts["segments"], sifts)

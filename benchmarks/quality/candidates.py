"""DeferMem's figures: how much of the gold the candidate sets hold at what size, what is distilled from them,
and at which stage gold is lost (DeferMem sections 4.3, 4.4 and D.2.1).

All of it is by message ids: no judge is asked.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from memdb.generate.distill import Distillation
from memdb.records import History

from . import metrics
from .data import Conversation, Question
from .evaluate import Outcome, Step, is_asked, message_values
from .figures import (
    OVERALL,
    Cluster,
    Estimate,
    Figures,
    Quotient,
    Row,
    Shown,
    by_conversation,
    summarise,
)
from .histories import Cell, Sift
from .retrievers import Prepared

Count = Callable[[str], int]

CANDIDATES: Final[Mapping[str, Quotient]] = {
    "Recall-01": ("whole", "has_gold"),
    "Recall": ("share", "has_gold"),
    "Recall-01, answerable": ("asked_whole", "asked"),
    "Recall, answerable": ("asked_share", "asked"),
    "candidate tokens": ("candidate_tokens", 1),
    "messages": ("messages", 1),
    "segments": ("segments", 1),
    "of the history": ("messages", "all_messages"),
    "truncated": ("truncated", 1),
}
DISTILLED: Final[Mapping[str, Quotient]] = {
    "entries": ("entries", 1),
    "evidence tokens": ("evidence_tokens", 1),
    "compression": ("candidate_tokens", "evidence_tokens"),
    "useful precision": ("kept", "known_sources"),
    "precision, answerable": ("kept", "asked_sources"),
    "useful recall": ("kept_share", "asked"),
    "faithful": ("faithful", "entries"),
    "empty where nothing answers": ("empty_rightly", "nothing"),
    "retrieval miss": ("retrieval_miss", "asked"),
    "distillation error": ("distillation_error", "asked"),
    "rest": ("rest", "asked"),
    "valid": ("valid", 1),
    "ids valid": ("known_ids", "named_ids"),
}
GRID: Final[Mapping[str, Quotient]] = {
    **{name: CANDIDATES[name] for name in ("Recall-01", "Recall", "candidate tokens")},
    "messages per segment": ("all_messages", "all_segments"),
}
BINS: Final = ("0", "1", "2", "3", "4", "5", "6–10", "11–20", "over 20")  # of the entries of a question
_BIN_ENDS: Final = (0, 1, 2, 3, 4, 5, 10, 20)
_CELL: Final = re.compile(r"(\w+) τ1=(\S+) τ2=(\S+)")


class GridRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one entry with segments cut at τ1 and linked at τ2, over all questions."""

    entry: str
    tau1: float
    tau2: float
    figures: dict[str, Estimate]


class Sifting(msgspec.Struct, frozen=True, kw_only=True):
    """What was distilled, a row for each distiller over all questions and for each category; how many
    questions have how many entries, by distiller; and the candidates by the thresholds of the segments.
    """

    distilled: list[Row] = []
    entries: dict[str, dict[str, int]] = {}
    grid: list[GridRow] = []


def figures(by: Cluster = by_conversation) -> Figures:
    """The figures of candidate sets; `by` says what is resampled."""
    return Figures(
        values=message_values,  # of rankings, which this protocol has none of
        quotients=CANDIDATES,
        shown=Shown(
            main=("Recall-01", "Recall", "Recall-01, answerable", "Recall, answerable"),
            grouped=("Recall-01", "Recall"),
            compared=("Recall-01", "Recall"),
            key="Recall",
        ),
        by=by,
    )


def candidate_values(history: History, question: Question, count: Count) -> dict[str, float]:
    """Every figure of one candidate set; `count` gives the tokens of a text, and content alone is counted.

    `has_gold`, `whole` and `share` are about all questions with gold, those of `asked` about those of them
    that have an answer.
    """
    found = {str(one.message.id) for one in history.utterances}
    share = metrics.evidence_recall(found, question.gold) if question.gold else 0.0
    whole, has_gold = float(bool(question.gold) and share == 1.0), float(bool(question.gold))
    asked = has_gold * question.answerable
    return {
        "has_gold": has_gold,
        "share": share,
        "whole": whole,
        "asked": asked,
        "asked_share": share * asked,
        "asked_whole": whole * asked,
        "candidate_tokens": sum(count(one.message.content) for one in history.utterances),
        "messages": len(history.utterances),
        "segments": len(history.segments),
        "truncated": float(history.truncated),
    }


def distilled_values(
    history: History, distillation: Distillation, question: Question, count: Count
) -> dict[str, float]:
    """Every figure of what was distilled from one candidate set.

    The gold of a question that has no answer is nothing (so the paper's authors reward it), whatever the
    data lists. `known_sources` are the messages told of where it is known which ones are gold. A distillation
    error is gold that the candidates hold and no piece of evidence is made of: the stand-in for a judge.
    """
    candidates = candidate_values(history, question, count)
    sources = {str(one.utterance.message.id) for one in distillation.evidence}
    asked, nothing = candidates["asked"], float(not question.answerable)
    kept = len(sources.intersection(question.gold)) * asked
    whole = float(kept == len(set(question.gold))) * asked
    miss = asked - candidates["asked_whole"]
    error = candidates["asked_whole"] - min(whole, candidates["asked_whole"])
    rejected = distillation.rejected
    known = len(distillation.useful) + len(distillation.evidence) + rejected.get("empty", 0)
    return {
        "asked": asked,
        "nothing": nothing,
        "entries": len(distillation.evidence),
        "evidence_tokens": sum(count(one.info) for one in distillation.evidence),
        "candidate_tokens": candidates["candidate_tokens"],
        "kept": kept,
        "kept_share": kept / len(set(question.gold)) if asked else 0.0,
        "known_sources": len(sources) * max(asked, nothing),
        "asked_sources": len(sources) * asked,
        "faithful": sum(one.faithful for one in distillation.evidence),
        "empty_rightly": nothing * (not distillation.evidence),
        "retrieval_miss": miss,
        "distillation_error": error,
        "rest": asked - miss - error,
        "valid": float(distillation.valid),
        "known_ids": known,
        "named_ids": known + rejected.get("unknown_id", 0) + rejected.get("duplicate", 0),
    }


def sift(conversation: Conversation, question: Question, named: tuple[str, Sift], count: Count) -> Outcome:
    """One question to one column, timed. Its `ranks` are those at which the entry found the gold, null where
    it came with its segment or not at all.
    """
    name, asked = named
    start = time.perf_counter()
    history, distillation = asked(question)
    milliseconds = (time.perf_counter() - start) * 1000
    sizes = {"all_messages": len(conversation.messages)}
    place = {str(one.message.id): one.rank for one in history.utterances}
    return Outcome(
        conversation=conversation.name,
        number=question.number,
        category=question.category,
        retriever=name,
        gold=question.gold,
        ranks=tuple(place.get(one) for one in question.gold),
        values=(
            candidate_values(history, question, count) | sizes
            if distillation is None
            else distilled_values(history, distillation, question, count)
        ),
        milliseconds=milliseconds,
    )


def sift_all(conversation: Conversation, prepared: Prepared, count: Count, step: Step) -> Iterator[Outcome]:
    """Every question that has gold or no answer to every column, then to every entry at every cell of the
    grid, if there is one.
    """
    for question in conversation.questions:
        if is_asked(question):
            for named in prepared.sifts.items():
                yield sift(conversation, question, named, count)
        step(conversation.name)
    for cell, segments, sifts in prepared.cuts():
        sizes = {"all_segments": segments}
        for question in conversation.questions:
            if is_asked(question):
                for entry, asked in sifts.items():
                    one = sift(conversation, question, (cell_name(entry, cell), asked), count)
                    yield msgspec.structs.replace(one, values=one.values | sizes)
            step(conversation.name)


def cell_name(entry: str, cell: Cell) -> str:
    """The name of the column of an entry at one cell of the grid."""
    return f"{entry} τ1={cell.tau1:g} τ2={cell.tau2:g}"


def cell_of(name: str) -> tuple[str, Cell] | None:
    """The entry and the cell of a column; None if it is not of the grid."""
    found = _CELL.fullmatch(name)
    return None if found is None else (found[1], Cell(float(found[2]), float(found[3])))


def ungridded(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of the columns, without those of the grid."""
    return [one for one in outcomes if cell_of(one.retriever) is None]


def summed_up(outcomes: Sequence[Outcome], by: Cluster = by_conversation) -> Sifting:
    """What was distilled, and the grid, with intervals."""
    distilled = [one for one in outcomes if "entries" in one.values]
    of_candidates = figures(by)
    made, grid = (msgspec.structs.replace(of_candidates, quotients=one) for one in (DISTILLED, GRID))
    cells: dict[str, list[Outcome]] = {}
    for one in outcomes:
        if cell_of(one.retriever) is not None:
            cells.setdefault(one.retriever, []).append(one)
    return Sifting(
        distilled=summarise(distilled, made) if distilled else [],
        entries=_histogram(distilled),
        grid=[_grid_row(name, mine, grid) for name, mine in cells.items()],
    )


def _grid_row(name: str, outcomes: Sequence[Outcome], figures: Figures) -> GridRow:
    found = cell_of(name)
    assert found is not None
    entry, cell = found
    (row,) = (one for one in summarise(outcomes, figures) if one.group == OVERALL)
    return GridRow(entry=entry, tau1=cell.tau1, tau2=cell.tau2, figures=row.figures)


def _histogram(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """How many questions have how many entries, by distiller (figure 3)."""
    counted: dict[str, Counter[str]] = {}
    for one in outcomes:
        name = BINS[bisect_left(_BIN_ENDS, one.values["entries"])]
        counted.setdefault(one.retriever, Counter())[name] += 1
    return {name: {one: bins[one] for one in BINS} for name, bins in counted.items()}

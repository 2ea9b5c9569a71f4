"""What answers amount to: scores, abstention, support and cost, with intervals; what the graph token adds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .answering import TEXT, TOKEN
from .evaluate import Outcome, message_values
from .figures import Cluster, Estimate, Figures, Quotient, Row, Shown, by_conversation, gains, summarise
from .scoring import Answered

QUALITY: Final = ("score", "contained", "judged", "score, all")
ABSTAINING: Final = ("abstention precision", "abstention recall", "abstained wrongly", "supported")
QUOTIENTS: Final[Mapping[str, Quotient]] = {
    "score": ("score", "has_answer"),
    "contained": ("contained", "has_answer"),
    "score, all": ("official", 1),
    "abstention precision": ("abstained_rightly", "abstained"),
    "abstention recall": ("abstained_rightly", "has_none"),
    "abstained wrongly": ("abstained_wrongly", "has_answer"),
    "supported": ("supported", "sentences"),
    "citations": ("citations", "answered"),
    "context tokens": ("context_tokens", 1),
    "prompt tokens": ("prompt_tokens", 1),
    "completion tokens": ("completion_tokens", 1),
}
JUDGED: Final[Mapping[str, Quotient]] = {"judged": ("judged", "has_answer")}


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said of one answerer: mean over the judgings of the share that is correct, their standard
    deviation (None for one), and how many replies could not be read.
    """

    answerer: str
    judgings: int
    mean: float
    deviation: float | None
    unreadable: int


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a run: figures of each answerer over all questions and for each category; by figure what
    the graph token adds to the text (paired); what the judge said. `metric` says what `score` is, `reused`
    how many answers an earlier run had kept, `without_reference` how many questions were left out for want of
    one.
    """

    metric: str
    rows: list[Row]
    token_gain: dict[str, Estimate] = {}
    judged: list[Judged] = []
    judge: str = ""
    reused: int = 0
    without_reference: int = 0


def answer_figures(by: Cluster = by_conversation, *, judged: bool = False) -> Figures:
    """The figures of answers; `by` says what is resampled."""
    return Figures(
        values=message_values,
        quotients={**QUOTIENTS, **(JUDGED if judged else {})},
        shown=Shown(main=QUALITY, grouped=("score, all",), compared=("score",), key="score"),
        by=by,
    )


def as_outcome(answered: Answered) -> Outcome:
    """An answer as figures are made of it."""
    values = answered.values
    if "judged" not in values and not values["has_answer"]:
        values = values | {"judged": 0.0}  # a judge is not asked where there is no answer
    return Outcome(
        conversation=answered.conversation,
        number=answered.number,
        category=answered.category,
        retriever=answered.answerer,
        gold=(),
        ranks=(),
        values=values,
        milliseconds=answered.milliseconds,
    )


def summed_up(
    answered: Sequence[Answered],
    metric: str,
    by: Cluster = by_conversation,
    *,
    judge: str = "",
    reused: int = 0,
    without_reference: int = 0,
) -> Answers:
    """The figures of all answers of a run."""
    outcomes = [as_outcome(one) for one in answered]
    figures = answer_figures(by, judged=bool(judge) and any(one.judged for one in answered))
    pair = [one for one in outcomes if one.retriever in (TEXT, TOKEN)]
    both = {one.retriever for one in pair} == {TEXT, TOKEN}
    return Answers(
        metric=metric,
        rows=summarise(outcomes, figures) if outcomes else [],
        token_gain=gains(pair, TEXT, figures)[TOKEN] if both else {},
        judged=judgings(answered),
        judge=judge,
        reused=reused,
        without_reference=without_reference,
    )


def judgings(answered: Sequence[Answered]) -> list[Judged]:
    """One entry per answerer that was judged."""
    found = []
    for name in dict.fromkeys(one.answerer for one in answered):
        mine = [one for one in answered if one.answerer == name and one.judged]
        if not mine:
            continue
        shares = [statistics.fmean(times) for times in zip(*(one.judged for one in mine), strict=True)]
        found.append(
            Judged(
                answerer=name,
                judgings=len(shares),
                mean=statistics.fmean(shares),
                deviation=statistics.stdev(shares) if len(shares) > 1 else None,
                unreadable=int(sum(one.values["unreadable"] for one in mine)),
            )
        )
    return found

"""A benchmark's protocol: every question to every retriever, and what is noted of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

import msgspec

from . import metrics
from .data import Conversation, Question
from .errors import ChangedMeanwhile
from .retrievers import DEPTH, Found, Prepared, Reply, Retriever
from .scoring import Answered, Marking, is_answered, mark

CUTOFFS: Final = (5, 10, 100)

# What was found for a question, the question, and what counts the tokens of a text; the numbers kept of it.
Values: TypeAlias = Callable[[Sequence[Found], Question, Callable[[str], int]], dict[str, float]]
Step: TypeAlias = Callable[[str], None]  # hears of each question that was asked, by its conversation


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one retriever did with one question.

    `ranks` are the ranks of the gold messages, from 1, null if not among the first hundred; `values` the
    figures of this question (shares, and for QGMem's protocol the counts gold, covered, relevant).
    """

    conversation: str
    number: int
    category: int
    retriever: str
    gold: tuple[str, ...]
    ranks: tuple[int | None, ...]
    values: dict[str, float]
    milliseconds: float


def message_values(
    found: Sequence[Found], question: Question, count: Callable[[str], int]
) -> dict[str, float]:
    """Every figure of one question that has gold messages; `count` gives the tokens of a text."""
    ranking = metrics.first_seen(piece.ids for piece in found)
    gold = question.gold
    judged = metrics.qgmem_counts([piece.ids for piece in found], gold)
    top = found[: metrics.QGMEM_CUTOFF]
    return {
        **{f"recall@{k}": metrics.recall(ranking, gold, k) for k in CUTOFFS},
        "any@10": metrics.any_hit(ranking, gold, 10),
        "all@10": metrics.all_hit(ranking, gold, 10),
        "ndcg@10": metrics.ndcg(ranking, gold, 10),
        "gold": judged.gold,
        "covered": judged.covered,
        "relevant": judged.relevant,
        "sufficient": float(judged.sufficient),
        "order_ndcg@10": judged.order_ndcg,
        "context_tokens": sum(count(piece.text) for piece in top),
        "stale_first": metrics.stale_first(ranking, gold, question.stale),
    }


def ask(
    conversation: Conversation,
    question: Question,
    name: str,
    retriever: Retriever,
    count: Callable[[str], int],
    values: Values = message_values,
) -> Outcome:
    """One question to one retriever, timed."""
    start = time.perf_counter()
    reply = retriever(question)
    milliseconds = (time.perf_counter() - start) * 1000
    ranking = metrics.first_seen(piece.ids for piece in reply.found)[:DEPTH]
    place = {one: rank for rank, one in enumerate(ranking, 1)}
    figures = values(reply.found, question, count) if question.scored else {}
    return Outcome(
        conversation=conversation.name,
        number=question.number,
        category=question.category,
        retriever=name,
        gold=question.gold,
        ranks=tuple(place.get(one) for one in question.gold),
        values=figures | abstention_values(question, reply),
        milliseconds=milliseconds,
    )


def is_asked(question: Question) -> bool:
    """Whether there is something to find, or known that there is nothing."""
    return question.scored or not question.answerable


def abstention_values(question: Question, reply: Reply) -> dict[str, float]:
    """What a retriever holds for the probability of an answer, and whether there is one; nothing from one
    that says nothing.
    """
    if reply.answerable is None:
        return {}
    return {"answerable": reply.answerable, "has_answer": float(question.answerable)}


# What else is asked of a conversation, besides rankings and answers.
Also: TypeAlias = Callable[[Conversation, Prepared, Callable[[str], int], Step], Iterable[Outcome]]


class Run(msgspec.Struct, kw_only=True):
    """Everything a run found out; `encoded` texts were encoded in adding, `reused` were known already;
    `answered` are the answers, if there are any.
    """

    outcomes: list[Outcome]
    add_seconds: float
    seconds: float
    models: dict[str, str]
    encoded: int = 0
    reused: int = 0
    answered: list[Answered] = []


def evaluate(
    conversations: Sequence[Conversation],
    prepare: Callable[[Conversation], AbstractContextManager[Prepared]],
    count: Callable[[str], int],
    step: Step,
    values: Values = message_values,
    marking: Marking | None = None,
    also: Also | None = None,
) -> Run:
    """All questions that have gold or no answer, conversation by conversation; `step` hears of each one.

    A question without an answer is asked for what a retriever thinks of it: see `abstention_values`. With
    `marking` every question that has a reference, or no answer, is answered too. `also` asks what else is
    wanted of a conversation.
    """
    start = time.perf_counter()
    run = Run(outcomes=[], add_seconds=0.0, seconds=0.0, models={})
    for conversation in conversations:
        with prepare(conversation) as prepared:
            run.add_seconds += prepared.add_seconds
            run.encoded += prepared.encoded
            run.reused += prepared.reused
            _note_models(run.models, prepared.models)
            for question in conversation.questions:
                if is_asked(question):
                    asked = (
                        ask(conversation, question, name, retriever, count, values)
                        for name, retriever in prepared.retrievers.items()
                    )
                    run.outcomes += [outcome for outcome in asked if outcome.values]
                if marking is not None and is_answered(question):
                    named = prepared.answerers.items()
                    run.answered += [mark(conversation, question, one, marking, count) for one in named]
                step(conversation.name)
            if also is not None:
                run.outcomes += also(conversation, prepared, count, step)
    run.seconds = time.perf_counter() - start
    return run


def _note_models(known: dict[str, str], used: Mapping[str, str]) -> None:
    """Add the models of one conversation. Raises ChangedMeanwhile if one is not the file it was before."""
    for name, digest in used.items():
        if known.setdefault(name, digest) != digest:
            raise ChangedMeanwhile(
                f"the model {name} was {known[name][:8]} and is now {digest[:8]}",
                hint="nothing was kept; run it where nobody changes files, without an old --keep folder",
            )

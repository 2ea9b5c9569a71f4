"""DeferMem's read path on one page: expand what is found to raw history, distil it, answer (section 3).

Whether the memory holds an answer at all is told as by QGMem's working memory, from the best messages.

`ask_both` puts the distilled evidence beside QGMem's working memory, over the same file: a message that is in
both is one piece of evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from memdb import settings
from memdb.activate.expand import Reach, history
from memdb.activate.recall import Reader, Wish, recall
from memdb.generate.distill import Distillation, Distiller, ExtractiveDistiller
from memdb.generate.respond import Asking, Clock, Generator, OnAnswer, respond
from memdb.models.remembering import RememberingReranker
from memdb.records import Answer, Distilled, Evidence, Query, Tokens, WorkingMemory


def ask(
    reader: Reader, generator: Generator, asking: Asking, wish: Wish, on_answer: OnAnswer | None = None
) -> Answer:
    """The answer to a question, from distilled raw history. `on_answer` is told its text piece by piece."""
    clock, reader = Clock(), _once(reader)
    with clock.step("recall"):
        answerable = recall(reader, asking.query, wish._replace(k=1)).answerable
    found = _distilled(reader, generator, asking, wish, clock)
    memory = as_memory(asking.query, found.evidence, by_rank=generator.backbone is None)
    memory = msgspec.structs.replace(memory, answerable=answerable)
    answer = respond(reader, generator, asking, memory, clock, on_answer)
    return _told(answer, found, method="defermem")


def as_memory(query: Query, distilled: Sequence[Distilled], *, by_rank: bool) -> WorkingMemory:
    """Distilled evidence as a working memory: in its own order, that of time, for a model to read, or by the
    place at which each message was found.
    """
    pieces = sorted(distilled, key=_place) if by_rank else distilled
    evidence = tuple(_evidence(rank, one) for rank, one in enumerate(pieces, 1))
    return WorkingMemory(query=query, evidence=evidence)


def ask_both(
    reader: Reader, generator: Generator, asking: Asking, wish: Wish, on_answer: OnAnswer | None = None
) -> Answer:
    """The answer to a question, from its working memory and from distilled raw history."""
    clock, reader = Clock(), _once(reader)
    with clock.step("recall"):
        memory = recall(reader, asking.query, wish)
    found = _distilled(reader, generator, asking, wish, clock)
    evidence = fuse(memory.evidence, found.evidence, reworded=generator.backbone is not None)
    fused = msgspec.structs.replace(memory, evidence=evidence)
    answer = respond(reader, generator, asking, fused, clock, on_answer)
    return _told(answer, found, method="both")


def fuse(
    recalled: tuple[Evidence, ...], distilled: tuple[Distilled, ...], *, reworded: bool
) -> tuple[Evidence, ...]:
    """Both kinds of evidence by reciprocal rank, each message once (QGMem equation A6.4 over the two).

    What is in both has its claims from the one and, if it is to be `reworded`, its text from the other: a
    span is better taken from what was said, and a model reads better what can be understood alone.
    """
    scores: dict[tuple[str, str | None], float] = {}
    pieces: dict[tuple[str, str | None], Evidence] = {}
    for one in recalled:
        keys = [(one.session, message.id) for message in one.source]
        pieces[keys[0]] = one
        scores[keys[0]] = 1 / (settings.RRF_KAPPA + one.rank)
    owner = {(one.session, message.id): key for key, one in pieces.items() for message in one.source}
    for rank, told in enumerate(sorted(distilled, key=_place), 1):
        own = (told.utterance.session, told.utterance.message.id)
        key = owner.get(own, own)
        scores[key] = scores.get(key, 0.0) + 1 / (settings.RRF_KAPPA + rank)
        if key not in pieces:
            pieces[key] = _evidence(rank, told)
        elif reworded and key == own and told.faithful:
            pieces[key] = msgspec.structs.replace(pieces[key], text=told.info)
    best = sorted(scores, key=lambda key: -scores[key])
    return tuple(
        msgspec.structs.replace(pieces[key], rank=rank, score=scores[key]) for rank, key in enumerate(best, 1)
    )


def _once(reader: Reader) -> Reader:
    """A reader that reranks each message once, for the working memory and for the distiller."""
    real = reader.reranker()
    kept = None if real is None else RememberingReranker(real)
    return reader._replace(reranker=lambda: kept)


def distiller_of(reader: Reader, generator: Generator) -> Distiller:
    """The distiller in use: the extractive one, unless another was given."""
    return generator.distiller or ExtractiveDistiller(reader.reranker())


def _distilled(
    reader: Reader, generator: Generator, asking: Asking, wish: Wish, clock: Clock
) -> Distillation:
    distiller = distiller_of(reader, generator)
    with clock.step("expand"):
        room = distiller.room(asking.query.text, asking.question_time)
        reach = Reach(budget_tokens=min(settings.HISTORY_TOKENS, room))
        raw = history(reader, asking.query, wish._replace(k=settings.HISTORY_K), reach, distiller.size)
    with clock.step("distil"):
        return distiller.distil(raw, asking.question_time)


def _place(one: Distilled) -> tuple[bool, int]:
    """The place at which the message was found; those that came along with it last."""
    rank = one.utterance.rank
    return rank is None, rank or 0


def _evidence(rank: int, one: Distilled) -> Evidence:
    message = one.utterance.message
    return Evidence(
        rank=rank,
        score=1 / rank,
        text=one.info,
        speaker=message.speaker,
        session=one.utterance.session,
        source=(message,),
        said_at=None if message.said_at is None else str(message.said_at),
    )


def _told(answer: Answer, found: Distillation, method: Literal["defermem", "both"]) -> Answer:
    spent = Tokens(
        prompt=answer.tokens.prompt + found.tokens.prompt,
        cached=answer.tokens.cached + found.tokens.cached,
        completion=answer.tokens.completion + found.tokens.completion,
    )
    return msgspec.structs.replace(answer, tokens=spent, method=method)

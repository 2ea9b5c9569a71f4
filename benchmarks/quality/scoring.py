"""What is noted of one answer, and answers kept so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

import memdb

from .answers import locomo_f1, substring_match
from .data import Conversation, Question
from .judge import Judge

NO_CATEGORY: Final = 4  # of LoCoMo, whose score is the F1 of the whole answer

Score: TypeAlias = Callable[[str, Question], float]


class Answerer(Protocol):
    """A question in, an answer out."""

    def __call__(self, question: Question, /) -> memdb.Answer:
        """The answer, by the clock the question is asked by."""
        ...


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What one answerer said to one question.

    `wanted` is the reference, empty where there is no answer; `labels` are the pieces of evidence the answer
    cites; `judged` what the judge said each time, 1 for correct; `values` the figures of this answer.
    """

    conversation: str
    number: int
    category: int
    answerer: str
    wanted: str
    text: str
    labels: tuple[str, ...]
    judged: tuple[int, ...] = ()
    values: dict[str, float]
    milliseconds: float


def token_f1(text: str, question: Question) -> float:
    """LoCoMo's token F1; of a question without an answer, whether the text says that there is none."""
    if not question.answerable:
        return locomo_f1(text, "", 5)
    return locomo_f1(text, question.answer, NO_CATEGORY)


def locomo_score(text: str, question: Question) -> float:
    """LoCoMo's official score, by category."""
    return locomo_f1(text, question.answer, question.category)


def substring(text: str, question: Question) -> float:
    """FactConsolidation's SubEM, any of the accepted answers."""
    return substring_match(text, question.accepted or (question.answer,))


def answer_values(
    question: Question, answer: memdb.Answer, score: Score, count: Callable[[str], int]
) -> dict[str, float]:
    """Every figure of one answer; `count` gives the tokens of a text.

    `official` is the score; `score` and `contained` (the reference is part of the answer) are 0 where the
    question has no answer.
    """
    has_answer, abstained = float(question.answerable), float(answer.abstained)
    official = score(answer.text, question)
    return {
        "has_answer": has_answer,
        "has_none": 1 - has_answer,
        "official": official,
        "score": official * has_answer,
        "contained": substring(answer.text, question) if question.answerable else 0.0,
        "abstained": abstained,
        "answered": 1 - abstained,
        "abstained_rightly": abstained * (1 - has_answer),
        "abstained_wrongly": abstained * has_answer,
        "confidence": answer.confidence,
        "sentences": len(answer.sentences),
        "supported": sum(sentence.supported for sentence in answer.sentences),
        "citations": len(answer.citations),
        "unknown_labels": len(answer.unknown_labels),
        "context_tokens": sum(count(evidence.text) for evidence in answer.evidence),
        "graph_token": float(answer.graph_mode == "token"),
        "prompt_tokens": answer.tokens.prompt,
        "cached_tokens": answer.tokens.cached,
        "completion_tokens": answer.tokens.completion,
    }


class Kept:
    """Answers in a file, a JSON object on each line, by what they depend on."""

    def __init__(self, file: Path, depends_on: Sequence[str]) -> None:
        self._file = file
        self._depends_on = list(depends_on)
        self._known: dict[str, Answered] = {}
        self.reused = 0
        for line in file.read_bytes().splitlines() if file.exists() else ():
            try:
                one = msgspec.json.decode(line, type=_Line)
            except msgspec.MsgspecError:  # a line that a stopped run wrote half
                continue
            self._known[one.key] = one.answered

    def get(self, key: str) -> Answered | None:
        """The answer that was kept under a key."""
        found = self._known.get(key)
        self.reused += found is not None
        return found

    def put(self, key: str, answered: Answered) -> None:
        """Keep an answer."""
        with self._file.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(_Line(key, answered)))  # after a half line

    def key(self, conversation: Conversation, question: Question, name: str) -> str:
        """What an answer is kept under: a digest of all it depends on."""
        parts = [*self._depends_on, conversation.size, conversation.name, name]
        return hashlib.sha256(msgspec.json.encode([parts, question])).hexdigest()


class _Line(msgspec.Struct):
    key: str
    answered: Answered


class Marking(NamedTuple):
    """How answers are scored: by rule, by a judge if there is one, and where they are kept if anywhere."""

    score: Score
    judge: Judge | None = None
    kept: Kept | None = None


def is_answered(question: Question) -> bool:
    """Whether a question can be scored by its answer: it has a reference, or nothing answers it."""
    return bool(question.answer) or not question.answerable


def mark(
    conversation: Conversation,
    question: Question,
    named: tuple[str, Answerer],
    marking: Marking,
    count: Callable[[str], int],
) -> Answered:
    """One question to one answerer, timed and scored; or as it was kept."""
    name, answerer = named
    key = marking.kept.key(conversation, question, name) if marking.kept else ""
    if marking.kept and (known := marking.kept.get(key)):
        return known
    start = time.perf_counter()
    answer = answerer(question)
    milliseconds = (time.perf_counter() - start) * 1000
    values = answer_values(question, answer, marking.score, count)
    judged: tuple[int, ...] = ()
    if marking.judge is not None and question.answerable:
        judged, unreadable = marking.judge(question, answer.text)
        values |= {"judged": sum(judged) / len(judged), "unreadable": unreadable}
    answered = Answered(
        conversation=conversation.name,
        number=question.number,
        category=question.category,
        answerer=name,
        wanted=question.answer if question.answerable else "",
        text=answer.text,
        labels=tuple(citation.label for citation in answer.citations),
        judged=judged,
        values=values,
        milliseconds=milliseconds,
    )
    if marking.kept:
        marking.kept.put(key, answered)
    return answered

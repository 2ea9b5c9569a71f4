"""What a judge of distilled evidence says, and each judgement kept so that none is paid for twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from threading import Lock
from typing import NamedTuple, Protocol, TypeAlias

from memdb.generate.action import Action
from memdb.generate.distill import Distillation, from_action
from memdb.language.cleaning import cleaned
from memdb.language.terms import document_terms
from memdb.records import Segment
from memdb.train.instances import Instance

Entry: TypeAlias = tuple[str, str]  # a compact id and the information, on one line


class Judged(NamedTuple):
    """What a judge says of an action; what it was not asked for counts as failed.

    `passed` has a place for each entry of the evidence in its order: whether it is faithful and can be
    understood alone (r5). `correct` is the answer from the evidence alone (r6); where it is wrong,
    `information_failed` says that the evidence is to blame (r7).
    """

    passed: tuple[bool, ...] = ()
    correct: bool = False
    information_failed: bool = True


class Judge(Protocol):
    """An action in, what is to be said of its evidence out (DeferMem appendix C.3.2 to C.3.4)."""

    def __call__(self, instance: Instance, action: Action, *, entries: bool, answer: bool) -> Judged:
        """The judgement of the entries, of the answer, or of both. Raises what its models raise."""
        ...


class KeepingJudge(ABC):
    """A `Judge` that keeps what it said, by the instance and by the evidence as it is used.

    An entry of an id that the history does not have, the second of one id and one without a word fail unseen:
    in use they are dropped. What is left is judged in the order of time, with control characters taken out
    and blanks put together. `counts` has the judgements `asked` for and those that were `kept`, and whatever
    else a judge counts. Safe to share between threads.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._lock = Lock()
        self._entries: dict[tuple[Instance, tuple[Entry, ...]], tuple[bool, ...]] = {}
        self._answers: dict[tuple[Instance, tuple[Entry, ...]], Judged] = {}

    def __call__(self, instance: Instance, action: Action, *, entries: bool, answer: bool) -> Judged:
        """See `Judge`."""
        used = used_entries(instance, action)
        passed: tuple[bool, ...] = ()
        if entries:
            verdicts = dict(zip(used, self._verdicts(instance, used), strict=True))
            passed = tuple(verdicts.pop((id, cleaned(info)), False) for id, info in action.evidence)
        judged = self._answer(instance, used) if answer else Judged()
        return judged._replace(passed=passed)

    def _verdicts(self, instance: Instance, used: tuple[Entry, ...]) -> tuple[bool, ...]:
        if not used:
            return ()
        found = self._entries.get((instance, used))
        self.count("asked" if found is None else "kept")
        if found is None:
            found = self._entries[instance, used] = self.judge_entries(instance, used)
        return found

    def _answer(self, instance: Instance, used: tuple[Entry, ...]) -> Judged:
        """Without evidence the answer is that there is none: right where there is nothing to answer, and
        else the evidence is to blame.
        """
        if not used:
            return Judged(correct=not instance.answer, information_failed=bool(instance.answer))
        found = self._answers.get((instance, used))
        self.count("asked" if found is None else "kept")
        if found is None:
            found = self._answers[instance, used] = self.judge_answer(instance, used)
        return found

    def count(self, what: str) -> None:
        """Count one of what is named."""
        with self._lock:
            self.counts[what] += 1

    @abstractmethod
    def judge_entries(self, instance: Instance, used: tuple[Entry, ...]) -> tuple[bool, ...]:
        """Whether each of the entries, of which there is one at least, is faithful and self-contained."""

    @abstractmethod
    def judge_answer(self, instance: Instance, used: tuple[Entry, ...]) -> Judged:
        """The answer from these entries alone, of which there is one at least, and what is to blame."""


def used_entries(instance: Instance, action: Action) -> tuple[Entry, ...]:
    """The entries that are used of an action, in the order of time, each on one line."""
    first: dict[str, str] = {}
    for id, info in action.evidence:
        first.setdefault(id, cleaned(info))
    return tuple((id, first[id]) for id in instance.ids if document_terms(first.get(id, "")))


def distillation(instance: Instance, used: tuple[Entry, ...]) -> Distillation:
    """The entries as a distiller gives them on: a piece of evidence for each, in their order."""
    return from_action(Action((), used), instance.history, instance.ids)


def segment_of(instance: Instance, id: str) -> Segment:
    """The segment that a message of the history is in."""
    segments = (segment for segment in instance.history.segments for _ in segment.utterances)
    return dict(zip(instance.ids, segments, strict=True))[id]

"""Instances written by hand, and judges that say what they are told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memdb.generate.action import Action, action_text
from memdb.records import Message
from memdb.train.instances import Instance
from memdb.train.judge import Judged
from tests.generate.histories import CANOE, TALK, WHERE, history, segment

TIME: Final = "2026-02-01T09:00"
KEEPS: Final = "Ana keeps Ana's canoe behind the boathouse, and Ben has the key."
# m1 to m4 are the talk about a canoe, of which m2 answers; m5 and m6 are about bread.
CANOE_INSTANCE: Final = Instance(
    case="canoe",
    history=history(WHERE, CANOE, TALK),
    question_time=TIME,
    gold=("m2",),
    answer="behind the boathouse",
)
NOBODY_KNOWS: Final = Instance(
    case="canoe",
    history=history("Who built the boathouse?", CANOE, TALK),
    question_time=TIME,
    gold=(),
    answer="",
)
BOTH: Final = Instance(
    case="canoe",
    history=history("Where is the canoe, and how often did Ana fall into the river?", CANOE, TALK),
    question_time=TIME,
    gold=("m2", "m4"),
    answer="behind the boathouse, twice",
)


def written(useful: Sequence[str], *told: tuple[str, str]) -> str:
    """An action as a distiller writes it."""
    return action_text(Action(tuple(useful), told))


def asked(
    question: str, answer: str, *said: Message | tuple[str, str], gold: Sequence[str] = ("m1",)
) -> Instance:
    """An instance over one segment."""
    return Instance(
        case="one",
        history=history(question, segment(*said)),
        question_time=TIME,
        gold=tuple(gold),
        answer=answer,
    )


class FixedJudge:
    """A judge that says the same of everything; `calls` tell which parts it was asked for."""

    def __init__(self, passed: Sequence[bool] = (), *, correct: bool = True, failed: bool = False) -> None:
        self._passed, self._correct, self._failed = tuple(passed), correct, failed
        self.calls: list[str] = []

    def __call__(self, instance: Instance, action: Action, *, entries: bool, answer: bool) -> Judged:
        """See `Judge`: the verdicts are repeated as often as there are entries."""
        self.calls += ["entries"] * entries + ["answer"] * answer
        verdicts = self._passed or (True,)
        count = len(action.evidence)
        return Judged(
            tuple(verdicts[place % len(verdicts)] for place in range(count)) if entries else (),
            self._correct,
            self._failed,
        )

"""The rewards r0…r7 of a distiller's reply (DeferMem section 3.3, appendix C.1).

With U and Z the ids and the evidence of the action o = (U, Z), S the set of U, M the ids of the history and A
the gold ones:

    component                                                values     gate    span
    r0  parses 0.5, schema valid 0.5 more; else              -1 .5 1    -       all
    r1  |S ∩ M| / |U|: an id given twice counts as unknown   [0, 1]     r0      sel
    r2  |S ∩ A| / |A|                                        [0, 1]     r0      sel
    r3  |S ∩ A| / |U|; 1 / (1 + |U|) where A is empty        [0, 1]     r2      sel
    r4  Jaccard index of the ids of Z and S, as multisets    [0, 1]     r1      ev
    r5  share of Z that the judge passes                     [0, 1]     r4      ev
    r6  the answer from Z alone is correct                   0 1        r0      ev
    r7  or it is wrong, and not for want of information      0 1        r0      ev

r1 is 1 where U is empty, r2 where A is, r4 where U and Z are. Where U is empty and A is not, r3 is 0; where Z
is empty, r5 is 1 if A is empty too, else 0.

A gate is open when the component it names, and those behind whose gates that one is, are at their maximum, 1.
That is `leaky` gating. Under `strict` gating every component before has to be at its maximum, r6 and r7
sharing one gate; under `none` only r0. What is behind a closed gate is 0: not earned, and no judge is asked
for it. A reply that is not valid is r0 alone under any gating.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from memdb.generate.action import Action, is_json, parse_action
from memdb.train.instances import Instance
from memdb.train.judge import Judge, Judged
from memdb.train.judge_by_model import ModelJudge
from memdb.train.judge_by_rules import RuleJudge

__all__ = [
    "COMPONENTS",
    "EV",
    "FMT",
    "FULL",
    "GATES",
    "SEL",
    "SPAN",
    "TABLE",
    "Component",
    "Gating",
    "Judge",
    "Judged",
    "ModelJudge",
    "RuleJudge",
    "rewards",
]

Gating: TypeAlias = Literal["leaky", "strict", "none"]

FMT, SEL, EV = range(3)  # token classes, and columns of what is summed by span


class Component(NamedTuple):
    """One reward: what it is, its least value (the largest is 1), all its values where these are few, the
    components that have to be at their maximum under leaky gating, and the spans whose tokens it is for.
    """

    name: str
    least: float
    values: tuple[float, ...]
    gate: tuple[int, ...]
    span: tuple[int, ...]


TABLE: Final = (
    Component("format", -1.0, (-1.0, 0.5, 1.0), (), (FMT, SEL, EV)),
    Component("ids exist", 0.0, (), (0,), (SEL,)),
    Component("recall", 0.0, (), (0,), (SEL,)),
    Component("precision", 0.0, (), (0, 2), (SEL,)),
    Component("evidence fits choice", 0.0, (), (0, 1), (EV,)),
    Component("faithful and self-contained", 0.0, (), (0, 1, 4), (EV,)),
    Component("answer correct", 0.0, (0.0, 1.0), (0,), (EV,)),
    Component("information sufficed", 0.0, (0.0, 1.0), (0,), (EV,)),
)
COMPONENTS: Final = len(TABLE)
FULL: Final = float(COMPONENTS)  # all at their maximum
SPAN: Final = tuple(component.span for component in TABLE)
GATES: Final[Mapping[Gating, tuple[tuple[int, ...], ...]]] = {
    "leaky": tuple(component.gate for component in TABLE),
    "strict": tuple(tuple(range(min(number, 6))) for number in range(COMPONENTS)),
    "none": tuple((0,) if number else () for number in range(COMPONENTS)),
}


def rewards(text: str, instance: Instance, judge: Judge, gating: Gating = "leaky") -> tuple[float, ...]:
    """r0…r7 of a reply to the prompt of an instance, COMPONENTS values; their sum is at most FULL.

    The judge is asked last, and only for what its gates leave open. Raises what the judge raises.
    """
    action = parse_action(text)
    if action is None:
        return (0.5 if is_json(text) else -1.0, *(0.0,) * (COMPONENTS - 1))
    earned = [1.0]

    def opens(component: int) -> bool:
        return all(earned[number] == 1.0 for number in GATES[gating][component])

    for number, value in enumerate(_LOCAL, 1):
        earned.append(value(action, instance) if opens(number) else 0.0)
    earned.append(_passed(action, instance, judge) if opens(5) else 0.0)
    if not opens(6):
        return (*earned, 0.0, 0.0)
    judged = judge(instance, action, entries=False, answer=True)
    return (*earned, float(judged.correct), float(judged.correct or not judged.information_failed))


def _known(action: Action, instance: Instance) -> float:
    return _share(len(set(action.useful) & instance.ids.keys()), len(action.useful), empty=1.0)


def _recall(action: Action, instance: Instance) -> float:
    return _share(len(set(action.useful) & set(instance.gold)), len(set(instance.gold)), empty=1.0)


def _precision(action: Action, instance: Instance) -> float:
    if not instance.gold:
        return 1 / (1 + len(action.useful))
    return _share(len(set(action.useful) & set(instance.gold)), len(action.useful), empty=0.0)


def _alignment(action: Action, instance: Instance) -> float:
    """The Jaccard index of multisets: an id that has evidence twice is one too many."""
    chosen, told = Counter(set(action.useful)), Counter(id for id, _ in action.evidence)
    return _share((chosen & told).total(), (chosen | told).total(), empty=1.0)


def _passed(action: Action, instance: Instance, judge: Judge) -> float:
    if not action.evidence:
        return float(not instance.gold)
    passed = judge(instance, action, entries=True, answer=False).passed
    return _share(sum(passed), len(action.evidence), empty=0.0)


def _share(count: int, of: int, *, empty: float) -> float:
    return count / of if of else empty


_LOCAL: Final[tuple[Callable[[Action, Instance], float], ...]] = (_known, _recall, _precision, _alignment)

"""Measuring a distiller: means over what it writes, and the F1 of what it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memdb.generate.action import Action, action_text
from memdb.train.anchors import anchor
from memdb.train.distill_world import worlds
from memdb.train.distillpo import Policy
from memdb.train.distillpo_measure import TOGETHER, choice_f1, measured, rows
from memdb.train.instances import Instance
from memdb.train.rewards import COMPONENTS, FULL, RuleJudge, rewards

SOME = list(islice(worlds("measured"), 2 * TOGETHER + 3))
REWARD = partial(rewards, judge=RuleJudge())


class Replies:
    """A policy that writes what it is told to, by case."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.module = SimpleNamespace(eval=lambda: None)
        self.batches: list[int] = []
        self._texts, self._written = texts, list[str]()

    def greedy(self, some: Sequence[Instance]) -> list[tuple[int, ...]]:
        """A number for each text."""
        self.batches.append(len(some))
        self._written += [self._texts[one.case] for one in some]
        return [(len(self._written) - len(some) + at,) for at in range(len(some))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of that number."""
        return self._written[ids[0]]


def _policy(texts: dict[str, str]) -> Any:
    return cast(Policy, Replies(texts))


def _chooses(*ids: str) -> str:
    return action_text(Action(ids, tuple((one, "told") for one in ids)))


@pytest.mark.parametrize(
    ("reply", "answered", "missing"),
    [
        (_chooses("GOLD"), 1.0, 0.0),
        (_chooses("GOLD", "OTHER"), 2 / 3, 0.0),
        (_chooses("OTHER"), 0.0, 0.0),
        (_chooses(), 0.0, 1.0),
        ("no JSON", 0.0, 0.0),
    ],
)
def test_the_choice(reply: str, answered: float, missing: float) -> None:
    with_answer = next(one for one in SOME if one.gold)
    without = next(one for one in SOME if not one.gold)
    (gold,) = with_answer.gold
    other = next(one for one in with_answer.ids if one != gold)
    for instance, expected in ((with_answer, answered), (without, missing)):
        text = reply.replace("GOLD", gold).replace("OTHER", other)
        assert choice_f1(text, instance) == pytest.approx(expected)


def test_a_policy_that_writes_the_anchors_is_perfect_in_batches() -> None:
    texts = {one.case: anchor(one) or "" for one in SOME}
    policy = _policy(texts)
    told = rows(policy, SOME, REWARD)
    assert policy.batches == [TOGETHER, TOGETHER, 3]
    assert [(row.case, row.text) for row in told] == [(one.case, texts[one.case]) for one in SOME]
    found = measured(policy, SOME, REWARD)
    assert found.total == FULL
    assert found.rewards == (1.0,) * COMPONENTS
    assert (found.full, found.valid, found.f1, found.answerable_f1) == (1.0, 1.0, 1.0, 1.0)


def test_means_are_over_instances() -> None:
    some = SOME[:4]
    texts = {one.case: anchor(one) or "" for one in some[:3]} | {some[3].case: "nothing"}
    found = measured(_policy(texts), some, REWARD)
    assert (found.full, found.valid, found.f1) == (0.75, 0.75, 0.75)
    assert found.rewards[0] == pytest.approx((3 - 1) / 4)
    assert found.total == pytest.approx(sum(found.rewards))

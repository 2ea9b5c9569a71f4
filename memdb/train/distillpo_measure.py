"""How a distiller fares on instances: its rewards, and whether it chooses the messages that it should.

    python -m memdb.train.distillpo_measure --data INSTANCES.jsonl --backbone GGUF|FOLDER [--adapter FOLDER]
        [--rows FILE] [--recipe NAME] [--judge GGUF] [--set KEY=VALUE …]

It writes greedily, without a schema, by weights with the adapter merged into them. `--rows` is a file for
what it wrote, a line of JSON each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from memdb.generate.action import parse_action
from memdb.train import distillpo_options
from memdb.train.distillpo import LEAST_STD, Policy, Reward
from memdb.train.distillpo_recipe import recipe_of
from memdb.train.instances import Instance, read
from memdb.train.rewards import FULL, rewards

TOGETHER: Final = 8  # instances that are decoded in one batch


class Row(NamedTuple):
    """What was written for an instance, r0…r7, and the F1 of the ids that were chosen."""

    case: str
    text: str
    rewards: tuple[float, ...]
    f1: float
    answerable: bool


class Measured(NamedTuple):
    """Means over instances: the sum of rewards, how often it is full and the reply valid, the rewards
    themselves, and the F1 of the choice, of all and of those that have an answer (0 where none has).
    """

    total: float
    full: float
    valid: float
    rewards: tuple[float, ...]
    f1: float
    answerable_f1: float


def rows(policy: Policy, instances: Iterable[Instance], reward: Reward) -> list[Row]:
    """What a policy writes greedily, nothing learnt. Raises what the reward raises."""
    policy.module.eval()
    found = []
    for some in _batches(instances):
        for instance, ids in zip(some, policy.greedy(some), strict=True):
            text = policy.decode(ids)
            told = tuple(reward(text, instance))
            found.append(Row(instance.case, text, told, choice_f1(text, instance), bool(instance.gold)))
    return found


def measured(policy: Policy, instances: Iterable[Instance], reward: Reward) -> Measured:
    """How a policy fares. Raises what the reward raises."""
    return summary(rows(policy, instances, reward))


def summary(some: Sequence[Row]) -> Measured:
    """The means of rows, of which there is at least one."""
    told = np.array([row.rewards for row in some])
    sums, answerable = told.sum(1), [row.f1 for row in some if row.answerable]
    return Measured(
        total=float(sums.mean()),
        full=float((sums > FULL - LEAST_STD).mean()),
        valid=float((told[:, 0] == 1).mean()),
        rewards=tuple(map(float, told.mean(0))),
        f1=float(np.mean([row.f1 for row in some])),
        answerable_f1=float(np.mean(answerable)) if answerable else 0.0,
    )


def choice_f1(text: str, instance: Instance) -> float:
    """F1 of the ids that a reply chooses against the gold ones; where nothing answers, 1 for none, else 0.
    0 for a reply that is not valid.
    """
    action = parse_action(text)
    if action is None:
        return 0.0
    chosen, gold = set(action.useful), set(instance.gold)
    if not chosen and not gold:
        return 1.0
    return 2 * len(chosen & gold) / (len(chosen) + len(gold))


def _batches(instances: Iterable[Instance]) -> Iterable[Sequence[Instance]]:
    every = list(instances)
    return (every[at : at + TOGETHER] for at in range(0, len(every), TOGETHER))


def main() -> None:
    """Read the command line, measure, tell as JSON."""
    from memdb.train.distillpo_policy import load, merged

    parser = distillpo_options.measuring("Measure a distiller.")
    parser.add_argument("--rows", type=Path, help="file to write, a line for each instance")
    args = parser.parse_args()
    policy = merged(load(args.backbone, recipe_of(args.recipe, changed=args.set), args.adapter))
    reward = partial(rewards, judge=distillpo_options.judge_of(args.judge))
    some = rows(policy, filter(policy.fits, read(args.data)), reward)
    if args.rows:
        args.rows.write_text("".join(json.dumps(row._asdict()) + "\n" for row in some), encoding="utf-8")
    print(json.dumps({"instances": len(some), **summary(some)._asdict()}))


if __name__ == "__main__":
    main()

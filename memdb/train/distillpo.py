"""Train DeferMem's distiller by reinforcement learning: DistillPO (section 3.3, appendix C.2).

To a question and its candidate set x, G completions o_1 … o_G are sampled from the distiller π. An anchor,
made beforehand and of full reward, is the (G+1)-th. Each has rewards r_0 … r_7 (`train/rewards.py`), which
are summed for each class c of tokens: the ids chosen (sel), the evidence (ev), all others (fmt):

    R_c(i) = Σ_{k of c} w_k r_k(i)
    A_c(i) = (R_c(i) - mean_j R_c(j)) / (std_j R_c(j) + 1e-4)          0 for all i where the std is below 1e-6

The loss of a step is DAPO's, without a divergence from the first policy, over the tokens of all its groups:

    ρ_{i,t} = π(o_{i,t} | x, o_{i,<t}) / π_old(o_{i,t} | x, o_{i,<t})     A_{i,t} = A_{c(t)}(i)
    L = - 1 / Σ_i |o_i|  Σ_i Σ_t  min(ρ_{i,t} A_{i,t}, clip(ρ_{i,t}, 1 - ε_low, 1 + ε_high) A_{i,t})

π_old is the policy that formed the group, for the anchor too: with one update for each group ρ is 1, and the
anchor's part is supervised learning weighted by its advantage.

    python -m memdb.train.distillpo --data INSTANCES.jsonl --backbone GGUF|FOLDER --out OUT
        [--recipe NAME] [--mode NAME] [--seed N] [--adapter FOLDER] [--judge GGUF] [--set KEY=VALUE …]

A run that was stopped goes on where it was with the same command. Tensors are called as in TRL, in which
`train/distillpo_trl.py` has the same objective for several GPUs.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from memdb.errors import InputError
from memdb.generate.action import EVIDENCE, USEFUL
from memdb.records import Segment
from memdb.train import distillpo_options
from memdb.train.anchors import anchor
from memdb.train.branches import Ids
from memdb.train.curves import Log, plot, read_log
from memdb.train.distillpo_recipe import EACH, Recipe, recipe_of
from memdb.train.distillpo_state import State, batches, rate_at
from memdb.train.instances import Instance, read
from memdb.train.rewards import COMPONENTS, EV, FMT, FULL, SEL, SPAN, rewards

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike, NDArray

LEAST_STD: Final = 1e-6  # of a group's rewards for it to tell anything
STD_ADDED: Final = 1e-4
OF_CLASS: Final = np.array([[float(c in span) for c in (FMT, SEL, EV)] for span in SPAN])  # [8, 3]

Reward = Callable[[str, Instance], Sequence[float]]
Item = TypeVar("Item")  # what a step is made of


class Task(NamedTuple):
    """An instance, and the completion of full reward that is its anchor, where there is one."""

    instance: Instance
    anchor: str | None = None


class Policy(Protocol):
    """A distiller under training. What it samples and scores is of one and the same distribution."""

    @property
    def module(self) -> Any:
        """The torch module; what is trained of it requires a gradient."""
        ...

    def ids(self, text: str) -> Ids:
        """A completion's tokens, the end of the turn included."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a completion or of its beginning; the end of the turn is no text."""
        ...

    def sample(self, instances: Sequence[Instance], count: int) -> list[list[Ids]]:
        """So many completions of each, drawn with torch's random numbers."""
        ...

    def greedy(self, instances: Sequence[Instance]) -> list[Ids]:
        """Of each the completion of the likeliest token each time."""
        ...

    def logprobs(self, instance: Instance, completions: Sequence[Ids]) -> torch.Tensor:
        """log π of each token, [completions, longest]; what stands behind a completion's end is anything."""
        ...

    def logprobs_of(self, instances: Sequence[Instance], completions: Sequence[Ids]) -> list[torch.Tensor]:
        """log π of each token of one completion of each instance; all are about the same history."""
        ...


# --- Token classes (specification B6)

_LEXEME: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},]', re.DOTALL)


def spans(text: str) -> tuple[range, range] | None:
    """The characters of the two lists, brackets included: ids, evidence. None unless both are whole."""
    depth, key, start = 0, "", 0
    found: dict[str, range] = {}
    for lexeme in _LEXEME.finditer(text):
        mark = lexeme[0]
        if depth == 1 and (mark == "," or mark[0] == '"'):
            key = mark
        if mark in "[{":
            start = lexeme.start() if depth == 1 else start
            depth += 1
        elif mark in "]}":
            depth -= 1
            if depth == 1 and mark == "]":
                found.setdefault(key, range(start, lexeme.end()))
    both = [found.get(json.dumps(name)) for name in (USEFUL, EVIDENCE)]
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def classes(
    ids: Sequence[int],
    decode: Callable[[Sequence[int]], str],
    rule: Literal["overlap", "start"] = "overlap",
) -> list[int]:
    """The class of each token: SEL or EV where it has a character of that list, FMT where of neither.

    The characters of a token are those by which its prefix's text grows: the sampled tokens are never made
    again from the text. By the rule `start` only the first of them counts.
    """
    text = decode(ids)
    found = spans(text)
    if found is None:
        return [FMT] * len(ids)
    told, whole = [], 0
    for count in range(1, len(ids) + 1):
        prefix, start = decode(ids[:count]), whole
        sure = prefix.rstrip("\ufffd")  # a character whose other bytes are yet to come
        whole = len(sure if text.startswith(sure) else _shared(sure, text))
        end = whole + (len(prefix) > whole)
        told.append(_class(start, min(end, start + 1) if rule == "start" else end, found))
    return told


def _shared(text: str, other: str) -> str:
    same = (a == b for a, b in zip(text, other, strict=False))
    return text[: next((at for at, equal in enumerate(same) if not equal), min(len(text), len(other)))]


def _class(start: int, end: int, found: tuple[range, range]) -> int:
    for name, span in zip((SEL, EV), found, strict=True):
        if max(start, span.start) < min(end, span.stop):
            return name
    return FMT


# --- Advantages (B8.2) and loss (B8.3)


def advantages(
    rewards: ArrayLike, weights: Sequence[float] = EACH, advantage: Literal["span", "scalar"] = "span"
) -> NDArray[np.float64]:
    """A of each completion of a group and each class FMT, SEL, EV, [n, 3], from its rewards r0…r7, [n, 8].

    With a scalar advantage every class has that of the sum of all rewards.
    """
    weighted = np.asarray(rewards, np.float64) * np.asarray(weights)
    sums = weighted @ (OF_CLASS if advantage == "span" else np.ones_like(OF_CLASS))
    std = sums.std(0)
    return np.where(std < LEAST_STD, 0.0, (sums - sums.mean(0)) / (std + STD_ADDED))


def loss(
    per_token_logps: torch.Tensor,
    old_per_token_logps: torch.Tensor,
    advantages: torch.Tensor,
    completion_mask: torch.Tensor,
    num_items_in_batch: int,
    epsilon: float = 0.2,
    epsilon_high: float = 0.28,
) -> torch.Tensor:
    """The part of the loss that these sequences make, all [B, T]; the batch has so many tokens in all."""
    import torch

    coef_1 = (per_token_logps - old_per_token_logps).exp()  # ρ
    coef_2 = coef_1.clamp(1 - epsilon, 1 + epsilon_high)
    per_token_loss = -torch.min(coef_1 * advantages, coef_2 * advantages)
    return (per_token_loss * completion_mask).sum() / num_items_in_batch


class Group(NamedTuple):
    """The completions for one instance, its anchor last: rewards [n, 8]; `advantages` and
    `old_per_token_logps` of each token of each completion, the latter None where they are the current ones.
    """

    instance: Instance
    completions: list[Ids]
    rewards: NDArray[np.float64]
    advantages: list[list[float]]
    anchored: bool
    old_per_token_logps: list[torch.Tensor] | None = None


def teaches(group: Group) -> bool:
    """Whether anything is learnt of a group: where all have the same rewards, its gradient is zero."""
    return any(map(any, group.advantages))


def form(policy: Policy, tasks: Sequence[Task], reward: Reward, recipe: Recipe) -> list[Group]:
    """Sample a group for each task, all of them side by side, add the anchors, and compare."""
    import torch

    policy.module.eval()
    groups = []
    drawn = policy.sample([task.instance for task in tasks], recipe.group)
    for task, completions in zip(tasks, drawn, strict=True):
        instance = task.instance
        anchored = recipe.anchor and task.anchor is not None
        if anchored:
            completions = [*completions, policy.ids(task.anchor or "")]
        told = np.array([reward(policy.decode(ids), instance) for ids in completions])
        made = group(policy, instance, completions, told, anchored, recipe)
        if recipe.updates > 1:
            with torch.no_grad():
                old = [policy.logprobs(instance, [ids])[0] for ids in completions]
            made = made._replace(old_per_token_logps=old)
        groups.append(made)
    return groups


def group(
    policy: Policy,
    instance: Instance,
    completions: list[Ids],
    told: NDArray[np.float64],
    anchored: bool,
    recipe: Recipe,
) -> Group:
    """The completions as a group: A_{i,t} from their rewards [n, 8]."""
    by_class = advantages(told, recipe.weights, recipe.advantage)
    each = [
        [float(row[c]) for c in classes(ids, policy.decode, recipe.rule)]
        for ids, row in zip(completions, by_class, strict=True)
    ]
    return Group(instance, completions, told, each, anchored)


def backward(policy: Policy, groups: Sequence[Group], recipe: Recipe) -> float:
    """The loss of a step's groups and its gradient, which is left in the module."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    policy.module.train()
    tokens = sum(len(ids) for one in groups for ids in one.completions)
    total = 0.0
    for one in filter(teaches, groups):
        for start in range(0, len(one.completions), recipe.rows):
            some = slice(start, start + recipe.rows)
            per_token_logps = policy.logprobs(one.instance, one.completions[some])
            device = per_token_logps.device
            old = per_token_logps.detach()
            if one.old_per_token_logps is not None:
                old = pad_sequence(one.old_per_token_logps[some], batch_first=True)
            each = [torch.tensor(row, device=device) for row in one.advantages[some]]
            mask = pad_sequence([torch.ones_like(row) for row in each], batch_first=True)
            value = loss(
                per_token_logps, old, pad_sequence(each, batch_first=True), mask, tokens,
                recipe.epsilon, recipe.epsilon_high,
            )  # fmt: skip
            value.backward()
            total += value.item()
    return total


# --- Training


def train(
    policy: Policy,
    tasks: Sequence[Task],
    reward: Reward,
    recipe: Recipe,
    out: Path,
    *,
    most_steps: int | None = None,
) -> None:
    """DistillPO into `out`: state.safetensors, log.jsonl.

    Goes on where a run that was stopped was, to the very weights of one that was not. `most_steps` stops it
    after so many steps of all. Raises InputError for no tasks, and what the reward raises.
    """

    def step(state: State, some: Sequence[Task], rate: float) -> dict[str, float]:
        groups = form(policy, some, reward, recipe)
        for _ in range(recipe.updates):
            value = backward(policy, groups, recipe)
            state.descend(rate)
        return {"loss": value, **figures(groups)}

    _run(policy, tasks, recipe, out, step, most_steps)


def sft(
    policy: Policy, tasks: Iterable[Task], recipe: Recipe, out: Path, *, most_steps: int | None = None
) -> None:
    """Supervised learning from the anchors alone: the mean over their tokens of -log π. See `train`.

    All that is asked about one history is learnt in one step and evaluated together; `recipe.prompts` are
    histories here.
    """

    def step(state: State, some: Sequence[tuple[Task, ...]], rate: float) -> dict[str, float]:
        policy.module.train()
        told = [[policy.ids(task.anchor or "") for task in tasks] for tasks in some]
        tokens, total = sum(len(ids) for every in told for ids in every), 0.0
        for asked, every in zip(some, told, strict=True):
            logps = policy.logprobs_of([task.instance for task in asked], every)
            value = -sum((one.sum() for one in logps), start=logps[0].new_zeros(())) / tokens
            value.backward()
            total += value.item()
        state.descend(rate)
        return {"loss": total}

    _run(policy, by_history(tasks), recipe, out, step, most_steps)


def by_history(tasks: Iterable[Task]) -> list[tuple[Task, ...]]:
    """The tasks that have an anchor, those that ask about the same history together."""
    found: dict[tuple[Segment, ...], list[Task]] = {}
    for task in tasks:
        if task.anchor is not None:
            found.setdefault(task.instance.history.segments, []).append(task)
    return [tuple(some) for some in found.values()]


def _run(
    policy: Policy,
    tasks: Sequence[Item],
    recipe: Recipe,
    out: Path,
    step: Callable[[State, Sequence[Item], float], dict[str, float]],
    most_steps: int | None,
) -> None:
    import torch
    from rich.progress import Progress

    if not tasks:
        raise InputError("there is nothing to train on")
    out.mkdir(parents=True, exist_ok=True)
    parts = batches(len(tasks), recipe)
    state = State(policy.module, recipe, out / "state.safetensors")
    state.restore()
    log = Log(out / "log.jsonl", state.step)
    with Progress() as progress:
        bar = progress.add_task("distiller", total=len(parts), completed=state.step)
        for number in range(state.step, min(len(parts), most_steps or len(parts))):
            torch.manual_seed(random.Random(f"{recipe.seed}:step:{number}").getrandbits(63))
            told = step(state, [tasks[at] for at in parts[number]], rate_at(number, len(parts), recipe))
            state.step += 1
            log.note(step=state.step, **told)
            progress.update(bar, completed=state.step)
            if state.step % recipe.checkpoint_steps == 0:
                state.save()
    state.save()


def figures(groups: Sequence[Group]) -> dict[str, float]:
    """What is told of a step: means over what was sampled, and shares of the groups.

    `full` are completions of full reward, `skipped` groups of which nothing is learnt, `anchored` those with
    an anchor; `tokens` is the mean length, `longest` the largest.
    """
    sampled = [(one, range(len(one.completions) - one.anchored)) for one in groups]
    told = np.concatenate([one.rewards[list(some)] for one, some in sampled])
    lengths = [len(one.completions[at]) for one, some in sampled for at in some]
    return {
        **{f"r{number}": float(mean) for number, mean in enumerate(told.mean(0))},
        "total": float(told.sum(1).mean()),
        "full": float((told.sum(1) > FULL - LEAST_STD).mean()),
        "tokens": float(np.mean(lengths)),
        "longest": float(max(lengths)),
        "skipped": float(np.mean([not teaches(one) for one in groups])),
        "anchored": float(np.mean([one.anchored for one in groups])),
    }


def plots(out: Path) -> None:
    """What the log tells, as pictures: rewards.png, shares.png, tokens.png, loss.png."""
    lines = read_log(out / "log.jsonl")
    pictures: Mapping[str, tuple[str, Sequence[str]]] = {
        "rewards": ("mean of what was sampled", [f"r{number}" for number in range(COMPONENTS)]),
        "shares": ("share", ["full", "skipped", "anchored"]),
        "tokens": ("tokens of a completion", ["tokens", "longest"]),
        "loss": ("loss", ["loss"]),
    }
    for file, (label, names) in pictures.items():
        curves = {name: [[line["step"], line[name]] for line in lines if name in line] for name in names}
        if any(curves.values()):
            plot({name: points for name, points in curves.items() if points}, out / f"{file}.png", label)


def main() -> None:
    """Read the command line, train, measure."""
    from memdb.train.distillpo_policy import load

    parser = distillpo_options.training("Train a distiller by reinforcement learning.")
    parser.add_argument("--validation", type=Path, help="instances to measure on when all is done")
    parser.add_argument("--stop", type=int, metavar="N", help="stop after N steps of all, to go on later")
    args = parser.parse_args()
    recipe = recipe_of(args.recipe, args.mode, args.seed, args.set)
    judge = distillpo_options.judge_of(args.judge)
    reward = partial(rewards, judge=judge, gating=recipe.gating)
    policy = load(args.backbone, recipe, args.adapter)
    tasks = [Task(one, anchor(one, judge)) for one in read(args.data) if policy.fits(one)]
    anchored = sum(task.anchor is not None for task in tasks)
    print(json.dumps({"tasks": len(tasks), "anchors": anchored}), flush=True)
    if args.mode == "sft":
        sft(policy, tasks, recipe, args.out, most_steps=args.stop)
    else:
        train(policy, tasks, reward, recipe, args.out, most_steps=args.stop)
    policy.module.save_pretrained(args.out / "adapter")
    plots(args.out)
    if args.validation:
        from memdb.train.distillpo_measure import measured

        told = measured(policy, filter(policy.fits, read(args.validation)), reward)
        print(json.dumps(told._asdict()))


if __name__ == "__main__":
    main()

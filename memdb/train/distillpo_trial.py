"""A world small enough to see DistillPO learn in seconds, and the table of its ablations there.

Three persons each said where they live; asked is one of six, so that sometimes nobody said it. What may be
written is one of 28 texts: the empty action, or any chosen id with any evidence id and any place. A random
model of two layers writes it, held to the tree of these texts in sampling and in the loss alike: its policy
is the softmax over the tokens that go on.

    python -m memdb.train.distillpo_trial --out FOLDER [--modes NAME …] [--seeds N …] [--steps N]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memdb.generate.action import Action, action_text
from memdb.records import History, Message, Query, Segment, Utterance
from memdb.train.branches import Ids
from memdb.train.curves import read_log
from memdb.train.distillpo import Task, train
from memdb.train.distillpo_measure import Measured, measured
from memdb.train.distillpo_recipe import MODES, recipe_of
from memdb.train.instances import Instance
from memdb.train.judge import Judged
from memdb.train.rewards import rewards

if TYPE_CHECKING:
    import torch

NAMES: Final = ("Ana", "Ben", "Cleo", "Dov", "Eva", "Finn")
PLACES: Final = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Delhi", "Turin")
SAID: Final = 3  # messages
ABSENT: Final = 0.1  # how often nobody said it
TASKS: Final = 8
TOKENS: Final = 352  # of the vocabulary
END: Final = "<end>"
MODEL: Final = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "tie_word_embeddings": True, "max_position_embeddings": 256,
}  # fmt: skip


def lives(name: str, place: str) -> str:
    """What is told of a message."""
    return f"{name} lives in {place}"


def instances(seed: int, count: int = TASKS) -> list[Instance]:
    """So many questions, each with three messages."""
    draw, made = random.Random(seed), []
    for number in range(count):
        names, places = draw.sample(NAMES, SAID), draw.sample(PLACES, SAID)
        said = tuple(
            Utterance(message=Message(name, place), session="s", position=position)
            for position, (name, place) in enumerate(zip(names, places, strict=True))
        )
        absent = draw.random() < ABSENT
        asked = draw.choice([name for name in NAMES if (name in names) != absent])
        history = History(query=Query(text=asked), segments=(Segment(utterances=said),))
        gold = () if absent else (f"m{names.index(asked) + 1}",)
        answer = "" if absent else places[names.index(asked)]
        made.append(Instance(case=f"{number}", history=history, question_time=None, gold=gold, answer=answer))
    return made


def prompt(instance: Instance) -> str:
    """The messages, the question, and where the action begins."""
    said = [f"{id} {one.message.speaker} : {one.message.content}\n" for id, one in instance.ids.items()]
    return f"{''.join(said)}Q {instance.history.query.text} ?\nA : "


def texts(instance: Instance) -> list[str]:
    """All that may be written."""
    told = instance.ids
    made = [
        Action((chosen,), ((id, lives(one.message.speaker, other.message.content)),))
        for chosen in told
        for id, one in told.items()
        for other in told.values()
    ]
    return [action_text(action) for action in (Action((), ()), *made)]


def best(instance: Instance) -> str:
    """The one of full reward: the anchor."""
    told = [(id, instance.ids[id].message) for id in instance.gold]
    evidence = tuple((id, lives(message.speaker, message.content)) for id, message in told)
    return action_text(Action(instance.gold, evidence))


def judge(instance: Instance, action: Action, *, entries: bool, answer: bool) -> Judged:
    """A `rewards.Judge`: evidence is what its own message says, word for word; the answer is the place in the
    last evidence that names who was asked of. A wrong answer is the evidence's fault.
    """
    said = {id: lives(one.message.speaker, one.message.content) for id, one in instance.ids.items()}
    named = [info for _, info in action.evidence if info.split()[0] == instance.history.query.text]
    correct = (named[-1].split()[-1] if named else "") == instance.answer
    passed = tuple(said.get(id) == info for id, info in action.evidence)
    return Judged(passed if entries else (), answer and correct, not correct)


class TreePolicy:
    """A `distillpo.Policy`: a small random Llama that can write the texts of an instance and no others."""

    def __init__(self, some: Sequence[Instance], seed: int) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        self._tokenizer = tokenizer([line for one in some for line in (prompt(one), *texts(one))])
        self._end: int = self._tokenizer.token_to_id(END)
        size: int = self._tokenizer.get_vocab_size()
        torch.manual_seed(seed)
        self.module: Any = LlamaForCausalLM(LlamaConfig(vocab_size=size, **MODEL))
        self._trees = {one.case: Tree([self.ids(text) for text in texts(one)], size) for one in some}

    def ids(self, text: str) -> Ids:
        """See `distillpo.Policy`."""
        return (*self._tokenizer.encode(text).ids, self._end)

    def decode(self, ids: Sequence[int]) -> str:
        """See `distillpo.Policy`."""
        return str(self._tokenizer.decode(list(ids)))

    def sample(self, instances: Sequence[Instance], count: int) -> list[list[Ids]]:
        """See `distillpo.Policy`. Drawn among whole texts: their probabilities are the products of those of
        their tokens, and sum to one.
        """
        drawn = []
        for one in instances:
            written = self._trees[one.case].written
            places = self._shares(one).multinomial(count, replacement=True).tolist()
            drawn.append([written[at] for at in places])
        return drawn

    def greedy(self, instances: Sequence[Instance]) -> list[Ids]:
        """See `distillpo.Policy`."""
        return [self._likeliest(one) for one in instances]

    def _likeliest(self, instance: Instance) -> Ids:
        import torch

        tree, so_far = self._trees[instance.case], list[int]()
        with torch.no_grad():
            per_token_logps = self.logprobs(instance, tree.written)
        while not so_far or so_far[-1] != self._end:
            at = len(so_far)
            rows = [row for row, ids in enumerate(tree.written) if list(ids[:at]) == so_far]
            so_far.append(tree.written[max(rows, key=lambda row: float(per_token_logps[row, at]))][at])
        return tuple(so_far)

    def logprobs(self, instance: Instance, completions: Sequence[Ids]) -> torch.Tensor:
        """See `distillpo.Policy`."""
        import torch

        begin = self._tokenizer.encode(prompt(instance)).ids
        width = max(map(len, completions))
        rows = [[*begin, *ids, *[self._end] * (width - len(ids))] for ids in completions]
        ids = torch.tensor(rows)
        logits = self.module(input_ids=ids, logits_to_keep=width + 1).logits[:, :-1]
        allowed = self._trees[instance.case].allowed(completions)
        wanted = ids[:, len(begin) :, None]
        logps = logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)
        return logps.gather(-1, wanted)[..., 0]

    def logprobs_of(self, instances: Sequence[Instance], completions: Sequence[Ids]) -> list[torch.Tensor]:
        """See `distillpo.Policy`."""
        every = zip(instances, completions, strict=True)
        return [self.logprobs(instance, [ids])[0, : len(ids)] for instance, ids in every]

    def _shares(self, instance: Instance) -> torch.Tensor:
        """The probability of each text."""
        import torch

        written = self._trees[instance.case].written
        with torch.no_grad():
            per_token_logps = self.logprobs(instance, written)
        ends = [row[: len(ids)].sum() for row, ids in zip(per_token_logps, written, strict=True)]
        return torch.stack(ends).exp()


class Tree:
    """The tokens that may follow each beginning of some texts: bool [texts, longest, tokens]; behind a text's
    end all may.
    """

    def __init__(self, written: Sequence[Ids], tokens: int) -> None:
        import torch

        self.written = tuple(written)
        self._row = {ids: row for row, ids in enumerate(self.written)}
        after: dict[Ids, set[int]] = {}
        places = [(row, at) for row, ids in enumerate(self.written) for at in range(len(ids))]
        for row, at in places:
            after.setdefault(self.written[row][:at], set()).add(self.written[row][at])
        longest = max(map(len, self.written))
        self._allowed = torch.ones(len(self.written), longest, tokens, dtype=torch.bool)
        for row, at in places:
            self._allowed[row, at] = False
            self._allowed[row, at, sorted(after[self.written[row][:at]])] = True

    def allowed(self, completions: Sequence[Ids]) -> torch.Tensor:
        """bool [completions, longest of them, tokens]"""
        width = max(map(len, completions))
        return self._allowed[[self._row[ids] for ids in completions], :width]


def tokenizer(lines: Sequence[str]) -> Any:
    """A byte-level BPE of TOKENS tokens, learnt from some lines; blanks begin words, as in larger ones."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=TOKENS, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return made


def trial(mode: str, seed: int, out: Path, steps: int | None = None) -> tuple[Measured, Measured]:
    """A policy measured, trained into `out`, measured again: greedily, by the rewards under leaky gating."""
    some = instances(seed)
    policy, recipe = TreePolicy(some, seed), recipe_of("ci", mode, seed)
    fair = partial(rewards, judge=judge)
    before = measured(policy, some, fair)
    reward = partial(fair, gating=recipe.gating)
    train(policy, [Task(one, best(one)) for one in some], reward, recipe, out, most_steps=steps)
    return before, measured(policy, some, fair)


def main() -> None:
    """Read the command line, print a line of JSON for each mode and seed."""
    import torch

    parser = argparse.ArgumentParser(description="Train in a small world, with each ablation.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--modes", nargs="+", choices=sorted({*MODES} - {"sft"}), default=["distillpo"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="stop after so many")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for mode in args.modes:
        for seed in args.seeds:
            out = args.out / f"{mode}-{seed}"
            before, after = trial(mode, seed, out, args.steps)
            lines = read_log(out / "log.jsonl")
            told = {"mode": mode, "seed": seed, "steps": len(lines)}
            told |= {key: lines[-1][key] for key in ("total", "full", "skipped")}
            told |= {"greedy_before": before.full, "greedy": after.full, "greedy_total": after.total}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

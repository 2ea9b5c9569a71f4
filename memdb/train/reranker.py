"""Train the cross-encoder: one logit for a question and a rerank document, read together.

The trunk is all-MiniLM-L6-v2; its last hidden states are averaged over the pair's tokens and a linear layer
makes the logit s(q, d). Each group has a question, its evidence D+ and negatives D- that memdb's own hybrid
retrieval takes for evidence. Two losses: a listwise softmax for the order, one for each positive,

    L_rank = -mean over d in D+ of log( exp s(q, d) / (exp s(q, d) + sum over n in D- of exp s(q, n)) )

and a binary cross-entropy L_log with weight LOGISTIC, which makes of the logit log-odds that can be compared
between questions; it alone teaches from questions that nothing answers. Weights are averaged over the last
AVERAGED share of the steps (Izmailov et al. 2018).

    python -m memdb.train.pool --data DATA --out POOL
    python -m memdb.train.reranker --pool POOL --weights MINILM --out OUT

A run that was stopped goes on where it was with the same command. The same seed gives the same batches.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from memdb.train import pool
from memdb.train.metrics import ndcg
from memdb.train.names import FIRST_NAMES
from memdb.train.weights import Weights, trunk

if TYPE_CHECKING:
    import torch

SEED: Final = 20
EPOCHS: Final = 2
GROUPS: Final = 8  # questions of a step
NEGATIVES: Final = 11  # of a question
SHARES: Final = {"friendsqa": 0.5}  # of an origin's questions in each epoch, where not all
HARD: Final = 8  # of these from the first HARD_DEPTH candidates, the others from all
HARD_DEPTH: Final = 30
POSITIVES: Final = 3  # most of a question
LEARNING_RATE: Final = 7e-5
WARM_UP: Final = 0.08  # share of the steps
LOGISTIC: Final = 0.3  # weight of the binary cross-entropy
MASKED: Final = 0.08  # share of the tokens that are masked, in place of dropout, which is slow on CPUs
RENAMED: Final = 0.7  # share of groups whose speakers get other names
AVERAGED: Final = 0.35
PART: Final = 24  # pairs of one run of the model
STRIDE: Final = 16  # tokens that lengths are rounded up to
MAX_TOKENS: Final = 160  # of a pair in training
VALIDATED: Final = 30  # candidates that are reranked in validation
LOGGED_STEPS: Final = 10
CHECKPOINT_STEPS: Final = 100


class Batch(NamedTuple):
    """Pairs of several questions: which question each belongs to, and whether it is evidence."""

    pairs: list[tuple[str, str]]
    group: list[int]
    gold: list[bool]


class CrossEncoder:
    """Trunk and head as one torch module; made late, so that importing this file needs no torch."""

    def __new__(cls, weights: Path) -> Any:
        """A module: token ids [n, t] and mask [n, t] to logits [n]."""
        import torch

        class Module(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.bert = trunk(weights)
                self.classifier = torch.nn.Linear(self.bert.config.hidden_size, 1)
                torch.nn.init.normal_(self.classifier.weight, std=0.02)
                torch.nn.init.zeros_(self.classifier.bias)

            def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
                hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                weight = (mask / mask.sum(1, keepdim=True)).unsqueeze(-1)
                logits: torch.Tensor = self.classifier((hidden * weight).sum(1)).squeeze(-1)
                return logits

        return Module()


def batches(groups: Sequence[pool.Group], seed: int, epoch: int) -> Iterator[Batch]:
    """The batches of one epoch: a share of each origin's questions, their negatives drawn anew each time."""
    draw = random.Random(f"{seed}:{epoch}")
    order = shared_out([group.talk for group in groups], draw)
    for start in range(0, len(order) - GROUPS + 1, GROUPS):
        batch = Batch([], [], [])
        for number, index in enumerate(order[start : start + GROUPS]):
            for pair, gold in _drawn(groups[index], draw):
                batch.pairs.append(pair)
                batch.group.append(number)
                batch.gold.append(gold)
        yield batch


def shared_out(names: Sequence[str], draw: random.Random) -> list[int]:
    """Places of a share of each origin's talks, mixed; an origin is what a talk's name begins with."""
    origins: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        origins.setdefault(name.split("-")[0], []).append(place)
    order = [
        place
        for origin, places in origins.items()
        for place in draw.sample(places, round(SHARES.get(origin, 1.0) * len(places)))
    ]
    draw.shuffle(order)
    return order


def _drawn(group: pool.Group, draw: random.Random) -> list[tuple[tuple[str, str], bool]]:
    """Positives and negatives of a question, perhaps with other names for the speakers."""
    gold = draw.sample(group.gold, min(POSITIVES, len(group.gold)))
    others = [place for place in range(len(group.documents)) if place not in set(group.gold)]
    near = [place for place in others if place < HARD_DEPTH]
    chosen = draw.sample(near, min(HARD, len(near)))
    rest = [place for place in others if place not in set(chosen)]
    chosen += draw.sample(rest, min(NEGATIVES - len(chosen), len(rest)))
    renamed = _renaming(group, draw) if draw.random() < RENAMED else lambda text: text
    question = renamed(group.question)
    return [((question, renamed(group.documents[place])), place in gold) for place in (*gold, *chosen)]


def _renaming(group: pool.Group, draw: random.Random) -> Any:
    """A function that gives the speakers of a group other first names, the same ones everywhere."""
    speakers = sorted({name for name in group.speakers if name.isalpha() and name[0].isupper()})
    if not speakers:
        return lambda text: text
    names = dict(zip(speakers, draw.sample(FIRST_NAMES, len(speakers)), strict=True))
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, speakers))})\b")
    return lambda text: pattern.sub(lambda found: names[found[1]], text)


def loss(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """L_rank + LOGISTIC * L_log of a batch, logits [n] in the order of its pairs."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    gold = torch.tensor(batch.gold, device=logits.device)
    group = torch.tensor(batch.group, device=logits.device)
    ranked = []
    for number in range(max(batch.group) + 1):
        positive, negative = logits[(group == number) & gold], logits[(group == number) & ~gold]
        if len(positive) and len(negative):
            rival = torch.logsumexp(negative, 0).expand(len(positive))
            ranked.append((torch.logaddexp(positive, rival) - positive).mean())
    logistic = binary_cross_entropy_with_logits(logits, gold.float())
    order = torch.stack(ranked).mean() if ranked else logits.new_zeros(())
    return order + LOGISTIC * logistic


class Tokens:
    """Pairs as padded tensors."""

    def __init__(self, weights: Path, device: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        self._tokenizer.no_padding()
        self._tokenizer_of_one = Tokenizer.from_file(str(weights / "tokenizer.json"))
        self._tokenizer_of_one.enable_truncation(MAX_TOKENS)
        self._tokenizer_of_one.no_padding()
        self._device = device
        self._special = [self._tokenizer.token_to_id(name) or 0 for name in ("[CLS]", "[SEP]")]
        self._mask_id = self._tokenizer.token_to_id("[MASK]") or 0

    def __call__(
        self, pairs: Sequence[tuple[str, str]], draw: random.Random | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask [n, t]; with `draw` a share MASKED of the tokens is masked."""
        return self._padded(self._tokenizer.encode_batch_fast(list(pairs)), draw)

    def single(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask [n, t] of texts that stand alone."""
        return self._padded(self._tokenizer_of_one.encode_batch_fast(list(texts)))

    def _padded(
        self, encoded: Sequence[Any], draw: random.Random | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        longest = -(-max(len(one) for one in encoded) // STRIDE) * STRIDE
        ids = torch.zeros(len(encoded), longest, dtype=torch.long)
        mask = torch.zeros(len(encoded), longest, dtype=torch.long)
        for row, one in enumerate(encoded):
            ids[row, : len(one)] = torch.tensor(one.ids)
            mask[row, : len(one)] = 1
        if draw is not None:
            chance = torch.rand(ids.shape, generator=torch.Generator().manual_seed(draw.getrandbits(32)))
            special = torch.isin(ids, torch.tensor(self._special))
            ids[(chance < MASKED) & (mask > 0) & ~special] = self._mask_id
        return ids.to(self._device), mask.to(self._device)


def scores(model: Any, tokens: Tokens, question: str, documents: Sequence[str]) -> list[float]:
    """The logits of one question's documents."""
    import torch

    with torch.inference_mode():
        pairs = [(question, one) for one in documents]
        found: list[float] = forward(model, tokens, pairs).tolist()
    return found


def forward(
    model: Any,
    tokens: Tokens,
    pairs: Sequence[tuple[str, str]],
    draw: random.Random | None = None,
) -> torch.Tensor:
    """Logits [n] in the order of the pairs, run in parts of like lengths: little is computed on padding.

    All parts have one of few shapes, as CPUs compile the products of each shape anew.
    """
    import torch

    order = sorted(range(len(pairs)), key=lambda place: sum(map(len, pairs[place])))
    parts = [order[start : start + PART] for start in range(0, len(order), PART)]
    parts[-1] += [order[-1]] * (PART - len(parts[-1]))
    logits = [model(*tokens([pairs[place] for place in part], draw)) for part in parts]
    return torch.cat(logits)[: len(pairs)][torch.tensor(order).argsort()]


def validate(model: Any, tokens: Tokens, groups: Sequence[pool.Group]) -> dict[str, float]:
    """nDCG@10 of the first ranking and of the reranked, over questions that have an answer."""
    model.eval()
    first, ranked = [], []
    for group in groups:
        if group.gold or group.missed:
            count = len(group.gold) + group.missed
            depth = len(group.documents[:VALIDATED])
            logits = scores(model, tokens, group.question, group.documents[:depth])
            order = sorted(range(depth), key=lambda place: -logits[place])
            gold = set(group.gold)
            first.append(ndcg([place in gold for place in range(depth)], count))
            ranked.append(ndcg([place in gold for place in order], count))
    model.train()
    return {"first": sum(first) / len(first), "reranked": sum(ranked) / len(ranked)}


def train(
    groups: Sequence[pool.Group],
    held_out: Sequence[pool.Group],
    weights: Path,
    out: Path,
    *,
    seed: int = SEED,
    epochs: int = EPOCHS,
    precision: str = "bfloat16",
) -> None:
    """Train, and write checkpoint, log and model.safetensors into `out`."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, tokens = CrossEncoder(weights).to(device).train(), Tokens(weights, device)
    held = Weights(
        model, out / "checkpoint.safetensors", rate=LEARNING_RATE, warm_up=WARM_UP, averaged=AVERAGED
    )
    model.bert.to(getattr(torch, precision))
    held.restore()
    usable = [one for one in groups if one.gold or one.kind == "unanswerable"]
    per_epoch = sum(1 for _ in batches(usable, seed, 0))
    with (out / "log.jsonl").open("a") as log:
        for epoch in range(held.step // per_epoch, epochs):
            for number, batch in enumerate(batches(usable, seed, epoch), epoch * per_epoch):
                if number < held.step:
                    continue
                logits = forward(model, tokens, batch.pairs, random.Random(f"{seed}:{number}"))
                value = loss(logits, batch)
                held.advance(value, per_epoch * epochs)
                note_step(log, held, per_epoch * epochs, value.item())
            _note(log, held, validate(model, tokens, held_out))
        held.settle()
        _note(log, held, validate(model, tokens, held_out), averaged=held.averaged)
    held.write(weights, out)


def note_step(log: IO[str], held: Weights, steps: int, value: float) -> None:
    """Log a step now and then, and store the weights."""
    if held.step % LOGGED_STEPS == 0:
        told = {"step": held.step, "of": steps, "loss": round(value, 4), "at": round(time.time())}
        print(json.dumps(told), file=log, flush=True)
    if held.step % CHECKPOINT_STEPS == 0 or held.step == steps:
        held.save()


def _note(log: IO[str], held: Weights, figures: dict[str, float], **more: int) -> None:
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"step": held.step, "nDCG@10": rounded, **more}), file=log, flush=True)


def main() -> None:
    """Read the command line, train."""
    parser = argparse.ArgumentParser(description="Train the reranker.")
    parser.add_argument("--pool", type=Path, required=True, help="folder that memdb.train.pool wrote")
    parser.add_argument("--weights", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument(
        "--precision",
        choices=["bfloat16", "float32"],
        default="bfloat16",
        help="of forward and backward; bfloat16 is fast on GPUs and on CPUs with AMX",
    )
    args = parser.parse_args()
    groups = pool.read(args.pool / "training.jsonl")
    held_out = pool.read(args.pool / "held_out.jsonl")
    train(
        groups, held_out, args.weights, args.out, seed=args.seed, epochs=args.epochs, precision=args.precision
    )


if __name__ == "__main__":
    main()

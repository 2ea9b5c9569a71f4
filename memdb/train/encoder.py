"""Fine-tune the encoder: all-MiniLM-L6-v2 on questions and the messages that answer them.

Both sides are the texts that memdb encodes: the question as the one it is about would say it
(`activate/perspective.py`), the message with the question it replies to (`construct/views.py`). With e the
normalised mean of the last hidden states and τ = TEMPERATURE, of each question's candidates D (its evidence
and what the hybrid retrieval took for evidence):

    L_teach = KL( softmax over D of the reranker's logits / TEACHER_TEMPERATURE
                  || softmax over D of cos(e_q, e_d) / τ )
    L_batch = -log( exp cos(e_q, e_+)/τ / sum over all messages of the batch of exp cos(e_q, e_d)/τ )

L_teach distils the order of the trained reranker (Hofstätter et al. 2021), L_batch keeps apart what is not
even a candidate; other evidence of the same question is left out of its sum. L_stay = 1 - cos(e, e of the
untrained encoder), over the messages, keeps the space near the one it came from, which has seen far more
than we have.

    python -m memdb.train.encoder --data DATA --pool POOL --teacher RERANKER --weights MINILM --out OUT

A run that was stopped goes on where it was with the same command.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memdb.activate.perspective import as_speaker
from memdb.construct.views import dense_text
from memdb.train import pool, talks
from memdb.train.reranker import CrossEncoder, Tokens, forward, note_step, shared_out
from memdb.train.weights import Weights, trunk

if TYPE_CHECKING:
    import torch

SEED: Final = 21
EPOCHS: Final = 1
GROUPS: Final = 16  # questions of a step
CANDIDATES: Final = 8  # messages of a question, its evidence among them
HARD_DEPTH: Final = 40
LEARNING_RATE: Final = 3e-5
WARM_UP: Final = 0.1
TEMPERATURE: Final = 0.05
TEACHER_TEMPERATURE: Final = 1.5
BATCH_WEIGHT: Final = 0.5
STAY_WEIGHT: Final = 1.0
PART: Final = 32  # texts of one run of the model


class Example(NamedTuple):
    """A question as it is encoded, and its candidates: as they are encoded, and as the teacher reads them."""

    talk: str
    asked: str
    question: str
    texts: tuple[str, ...]
    documents: tuple[str, ...]
    gold: tuple[int, ...]


def examples(groups: Iterable[pool.Group], known: Mapping[str, talks.Talk]) -> list[Example]:
    """The groups that have evidence, with the texts that memdb encodes."""
    views = {name: _views(talk) for name, talk in known.items()}
    speakers = {
        name: tuple(dict.fromkeys(one.speaker for one in talk.messages)) for name, talk in known.items()
    }
    return [
        Example(
            group.talk,
            as_speaker(group.question, speakers[group.talk]),
            group.question,
            tuple(views[group.talk][id] for id in group.ids),
            group.documents,
            group.gold,
        )
        for group in groups
        if group.gold
    ]


def _views(talk: talks.Talk) -> dict[str, str]:
    return {
        str(message.id): dense_text(sitting.messages, place)
        for sitting in talk.sittings
        for place, message in enumerate(sitting.messages)
    }


def batches(all_examples: Sequence[Example], seed: int, epoch: int) -> Iterator[list[Example]]:
    """Batches of GROUPS questions, each with CANDIDATES candidates, its evidence first."""
    draw = random.Random(f"{seed}:{epoch}")
    order = shared_out([example.talk for example in all_examples], draw)
    for start in range(0, len(order) - GROUPS + 1, GROUPS):
        yield [_drawn(all_examples[place], draw) for place in order[start : start + GROUPS]]


def _drawn(example: Example, draw: random.Random) -> Example:
    gold = draw.sample(example.gold, min(2, len(example.gold)))
    others = [place for place in range(min(HARD_DEPTH, len(example.texts))) if place not in example.gold]
    chosen = [*gold, *draw.sample(others, min(CANDIDATES - len(gold), len(others)))]
    return example._replace(
        texts=tuple(example.texts[place] for place in chosen),
        documents=tuple(example.documents[place] for place in chosen),
        gold=tuple(range(len(gold))),
    )


def encoded(model: Any, tokens: Tokens, texts: Sequence[str]) -> torch.Tensor:
    """Normalised vectors float32 [n, d], in the order of the texts."""
    import torch

    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    parts = [order[start : start + PART] for start in range(0, len(order), PART)]
    parts[-1] += [order[-1]] * (PART - len(parts[-1]))
    vectors = []
    for part in parts:
        ids, mask = tokens.single([texts[place] for place in part])
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        pooled = (hidden * (mask / mask.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)
        vectors.append(torch.nn.functional.normalize(pooled, dim=1))
    return torch.cat(vectors)[: len(texts)][torch.tensor(order).argsort()]


def loss(
    asked: torch.Tensor,
    told: torch.Tensor,
    before: torch.Tensor,
    taught: torch.Tensor,
    batch: Sequence[Example],
) -> torch.Tensor:
    """L_teach + BATCH_WEIGHT L_batch + STAY_WEIGHT L_stay.

    `asked` [questions, d], `told` [messages, d] and `before`, the untrained encoder's, in the order of the
    batch's candidates; `taught` [messages] are the teacher's logits.
    """
    import torch
    from torch.nn.functional import kl_div, log_softmax

    similar = asked @ told.T / TEMPERATURE
    start, teach, apart = 0, [], []
    for row, example in enumerate(batch):
        own = slice(start, start + len(example.texts))
        wanted = log_softmax(taught[own] / TEACHER_TEMPERATURE, 0)
        teach.append(kl_div(log_softmax(similar[row, own], 0), wanted, reduction="sum", log_target=True))
        rivals = similar[row].clone()
        rivals[start + 1 : start + len(example.gold)] = -torch.inf
        apart.append(torch.logsumexp(rivals, 0) - similar[row, start])
        start += len(example.texts)
    stay = 1 - (told * before).sum(1).mean()
    return torch.stack(teach).mean() + BATCH_WEIGHT * torch.stack(apart).mean() + STAY_WEIGHT * stay


class Models:
    """The student, the frozen encoder it started as, and the teacher."""

    def __init__(self, weights: Path, teacher: Path, precision: str) -> None:
        import torch
        from safetensors.torch import load_file

        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokens = Tokens(weights, device)
        self.student, self.first = trunk(weights).to(device), trunk(weights).to(device).eval()
        self.teacher = CrossEncoder(weights).to(device).eval()
        stored = load_file(teacher / "model.safetensors")
        heads = ("classifier.weight", "classifier.bias")
        self.teacher.load_state_dict(
            {name if name in heads else f"bert.{name}": one for name, one in stored.items()}
        )
        self._precision = getattr(torch, precision)

    def lower(self) -> None:
        """Go over to the precision of the run; the student's float32 weights have been copied before."""
        for model in (self.student, self.first, self.teacher.bert):
            model.to(self._precision)

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        """The loss of a batch."""
        import torch

        texts = [text for example in batch for text in example.texts]
        pairs = [(example.question, document) for example in batch for document in example.documents]
        with torch.no_grad():
            taught = forward(self.teacher, self.tokens, pairs)
            before = encoded(self.first, self.tokens, texts)
        asked = encoded(self.student, self.tokens, [example.asked for example in batch])
        return loss(asked, encoded(self.student, self.tokens, texts), before, taught, batch)


def train(
    all_examples: Sequence[Example],
    weights: Path,
    teacher: Path,
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
    models = Models(weights, teacher, precision)
    held = Weights(models.student, out / "checkpoint.safetensors", rate=LEARNING_RATE, warm_up=WARM_UP)
    models.lower()
    held.restore()
    per_epoch = sum(1 for _ in batches(all_examples, seed, 0))
    with (out / "log.jsonl").open("a") as log:
        for epoch in range(held.step // per_epoch, epochs):
            for number, batch in enumerate(batches(all_examples, seed, epoch), epoch * per_epoch):
                if number < held.step:
                    continue
                value = models.loss(batch)
                held.advance(value, per_epoch * epochs)
                note_step(log, held, per_epoch * epochs, value.item())
    held.write(weights, out)


def main() -> None:
    """Read the command line, train."""
    parser = argparse.ArgumentParser(description="Fine-tune the encoder.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the training data")
    parser.add_argument("--pool", type=Path, required=True, help="folder that memdb.train.pool wrote")
    parser.add_argument("--teacher", type=Path, required=True, help="folder that memdb.train.reranker wrote")
    parser.add_argument("--weights", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16")
    args = parser.parse_args()
    known = {talk.name: talk for talk in talks.training(args.data)}
    made = examples(pool.read(args.pool / "training.jsonl"), known)
    train(
        made, args.weights, args.teacher, args.out,
        seed=args.seed, epochs=args.epochs, precision=args.precision,
    )  # fmt: skip


if __name__ == "__main__":
    main()

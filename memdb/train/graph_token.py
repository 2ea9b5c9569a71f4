"""Train QGMem's graph token: a graph encoder and its projector against a frozen language model.

With D the examples, each a question q, a serialised working memory h_t, its local graph and a target a of
|a| tokens, end of turn included, and z = projector(mean of encoder(graph)) one row of the language model's
embedding space (QGMem section III-C, equation 8):

    J(ω) = - 1/T_D  Σ_s Σ_j log p(a_j | a_<j, q, [z, h_t])        T_D = target tokens of all examples

ω are the weights of encoder and projector alone; gradients flow through the language model, whose weights
stay as they are. What stands before the soft token is the same for every example and z cannot change it: it
is evaluated once, and its keys and values are kept. Of a step's batches the negative log likelihoods are
summed and divided by the tokens of all of them, so the mean is over tokens however they are spread.

    python -m memdb.train.graph_token --backbone GGUF --data EXAMPLES --out OUT [--recipe NAME]

A run that was stopped goes on where it was with the same command.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from memdb.errors import InputError
from memdb.generate.answer_prompt import answer_turns
from memdb.generate.local_graph import edge_array
from memdb.models.graph_shape import CPU_SIZE, FULL_SIZE, GraphShape
from memdb.models.ports import Encoder, Turn
from memdb.train.backbone import keep_beginning
from memdb.train.graph_examples import Example

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from memdb.generate.graph_token import GraphToken

BETAS: Final = (0.9, 0.95)
LEAST_RATE: Final = 5e-6  # where the cosine ends
PADDED_TO: Final = 16  # tokens: sequences are of few lengths
CHECKPOINT_STEPS: Final = 50


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a graph token is trained; the defaults are QGMem's (table V, appendix B) and G-Retriever's.

    A step has `batch` x `accumulation` examples. The rate rises linearly over `warm_up_epochs` and falls along
    half a cosine to LEAST_RATE. Training ends after `patience` epochs without a lower validation loss.
    `precision` is the frozen model's; encoder and projector are float32. With `checkpointing` the model's
    activations are computed again on the way back: less memory, more time.
    """

    shape: GraphShape
    rate: float = 1e-4
    weight_decay: float = 0.05
    batch: int = 4
    accumulation: int = 4
    epochs: int = 10
    warm_up_epochs: float = 1.0
    clip: float = 0.1
    patience: int | None = 2
    memory_tokens: int = 2048
    target_tokens: int = 256
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    checkpointing: bool = True
    seed: int = 0


RECIPES: Final = {
    "qwen3-8b": Recipe(shape=FULL_SIZE),
    "llama-3.1-8b": Recipe(shape=FULL_SIZE),
    "smollm2-135m": Recipe(
        shape=CPU_SIZE, rate=1e-3, batch=8, accumulation=1, epochs=1, warm_up_epochs=0.05, clip=1.0,
        checkpointing=False,
    ),
}  # fmt: skip


class Prompts(Protocol):
    """What tokenises: a `models.llama.LlamaBackbone`, so that training reads the ids that serving reads."""

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Ids before and after the soft token."""
        ...

    def text_ids(self, text: str) -> list[int]:
        """Ids of a text, no part of which is a control token."""
        ...


class Prompted(NamedTuple):
    """An example as token ids and arrays: `nodes` float32 [n, d], `edges` [2, e], `relations` [e, d]."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    target: tuple[int, ...]
    nodes: NDArray[np.float32]
    edges: NDArray[np.int64]
    relations: NDArray[np.float32]


def prompted(
    examples: Iterable[Example], prompts: Prompts, encoder: Encoder, end_of_turn: int, recipe: Recipe
) -> list[Prompted]:
    """The examples that have a graph and keep to the recipe's lengths, as the model reads them."""
    examples = [one for one in examples if one.graph.nodes]
    labels = list(
        dict.fromkeys(label for one in examples for label in (*one.graph.nodes, *one.graph.relations))
    )
    rows = dict(zip(labels, encoder.encode(labels), strict=True))
    made = []
    for one in examples:
        turns, place = answer_turns(one.question, one.question_time, one.memory)
        before, after = prompts.prompt_ids(turns, place)
        target = [*prompts.text_ids(one.target), end_of_turn]
        if len(after) <= recipe.memory_tokens and len(target) <= recipe.target_tokens:
            nodes = np.stack([rows[label] for label in one.graph.nodes])
            relations = np.stack([rows[label] for label in one.graph.relations])
            edges = edge_array(one.graph)
            made.append(Prompted(tuple(before), tuple(after), tuple(target), nodes, edges, relations))
    return made


class Frozen:
    """The language model, of which nothing is trained, with what every prompt begins with already read:
    `model` is a transformers Llama, `begin` token ids. `compiled` costs a minute once and saves a third.
    """

    def __init__(
        self, model: Any, begin: Sequence[int], *, checkpointing: bool = False, compiled: bool = False
    ) -> None:
        self.model, self.begin = model.requires_grad_(False), () if checkpointing else tuple(begin)
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()
        elif self.begin:
            keep_beginning(model, self.begin)
        if compiled:
            for layer in model.model.layers:
                layer.compile(dynamic=False)

    def nll(self, rows: torch.Tensor, batch: Sequence[Prompted]) -> tuple[torch.Tensor, int]:
        """Σ -log p of the target tokens of a batch, and their number; `rows` [batch, width] are the z.

        Sequences are filled up at their ends: what comes after a token does not change it.
        """
        import torch
        from torch.nn.functional import cross_entropy

        begin, device = len(self.begin), self.model.device
        told = [[*one.before[begin:], 0, *one.after, *one.target[:-1]] for one in batch]
        width = -(-max(map(len, told)) // PADDED_TO) * PADDED_TO
        ids = torch.tensor([line + [0] * (width - len(line)) for line in told], device=device)
        given = self.model.get_input_embeddings()(ids).clone()  # [batch, tokens, width]
        soft = torch.tensor([len(one.before) - begin for one in batch], device=device)
        given[torch.arange(len(batch), device=device), soft] = rows.to(given)
        places = torch.arange(begin, begin + width, device=device)[None]
        states = self.model.model(inputs_embeds=given, position_ids=places, use_cache=False)[0].flatten(0, 1)
        ends = [number * width + len(line) for number, line in enumerate(told)]
        asked = [at for end, one in zip(ends, batch, strict=True) for at in range(end - len(one.target), end)]
        logits = self.model.lm_head(states[torch.tensor(asked, device=device)]).float()
        wanted = torch.tensor([token for one in batch for token in one.target], device=device)
        return cross_entropy(logits, wanted, reduction="sum"), len(wanted)


def common_beginning(examples: Sequence[Prompted]) -> tuple[int, ...]:
    """The ids that all examples begin with, before the soft token."""
    first, last = min(one.before for one in examples), max(one.before for one in examples)
    shared = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:shared]


def encoded(module: GraphToken, batch: Sequence[Prompted]) -> torch.Tensor:
    """z of each graph of a batch, [batch, width], the graphs laid side by side."""
    import torch

    device = next(module.parameters()).device
    sizes = [len(one.nodes) for one in batch]
    starts = np.cumsum([0, *sizes[:-1]])
    edges = np.concatenate([one.edges + start for one, start in zip(batch, starts, strict=True)], 1)
    arrays = (
        np.concatenate([one.nodes for one in batch]),
        edges,
        np.concatenate([one.relations for one in batch]),
        np.repeat(np.arange(len(batch)), sizes),
    )
    return module(*(torch.from_numpy(array).to(device) for array in arrays))


def rate_at(step: int, steps: int, warm: int, most: float) -> float:
    """The learning rate of a step: up linearly over `warm` steps, then half a cosine down to LEAST_RATE."""
    if step < warm:
        return most * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    return LEAST_RATE + (most - LEAST_RATE) * (1 + math.cos(math.pi * share)) / 2


def batches(count: int, recipe: Recipe, epoch: int) -> Iterator[list[list[int]]]:
    """The examples of each step of an epoch, in batches; the last step may be smaller."""
    order = list(range(count))
    random.Random(f"{recipe.seed}:{epoch}").shuffle(order)
    size = recipe.batch * recipe.accumulation
    for start in range(0, count, size):
        some = order[start : start + size]
        yield [some[at : at + recipe.batch] for at in range(0, len(some), recipe.batch)]

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
from memdb.train.backbone import frozen as load_frozen
from memdb.train.backbone import keep_beginning
from memdb.train.curves import Log, plot, read_log
from memdb.train.graph_examples import Example, read

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from memdb.generate.graph_token import GraphToken

BETAS: Final = (0.9, 0.95)
LEAST_RATE: Final = 5e-6  # where the cosine ends
PADDED_TO: Final = 32  # tokens: sequences are of few lengths
CHECKPOINT_STEPS: Final = 50
CARD_POINTS: Final = 100  # of the training loss
SPREAD_OVER: Final = 1024  # examples
SPREAD_PASSES: Final = 40
SPREAD_FLOOR: Final = 0.02  # share of the mean variance that every direction is taken to have


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a graph token is trained; the defaults are QGMem's (table V, appendix B) and G-Retriever's.

    A step has `batch` x `accumulation` examples. The rate rises linearly over `warm_up_epochs` and falls
    along half a cosine to LEAST_RATE. Training ends after `patience` epochs without a lower validation loss.
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
        shape=msgspec.structs.replace(CPU_SIZE, projector_hidden=1024, activation="gelu"),
        rate=2e-3, batch=4, accumulation=1, epochs=1, warm_up_epochs=0.05, checkpointing=False,
    ),
}  # fmt: skip


class Prompts(Protocol):
    """What tokenises: a `models.llama.LlamaBackbone`, so that training reads the ids that serving reads."""

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Ids before and after the soft token."""
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
    examples: Iterable[Example], prompts: Prompts, encoder: Encoder, recipe: Recipe
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
        target = target_ids(one.target, prompts)
        if len(after) <= recipe.memory_tokens and len(target) <= recipe.target_tokens:
            nodes = np.stack([rows[label] for label in one.graph.nodes])
            relations = np.stack([rows[label] for label in one.graph.relations])
            edges = edge_array(one.graph)
            made.append(Prompted(tuple(before), tuple(after), tuple(target), nodes, edges, relations))
    return made


def target_ids(text: str, prompts: Prompts) -> list[int]:
    """The ids of a reply and of what ends a turn: as they stand in a prompt, where a turn is one's own."""
    _, told = prompts.prompt_ids([Turn("user", text)], (0, 0))
    _, tail = prompts.prompt_ids([Turn("user", "")], (0, 0))
    return told[: len(told) - len(tail) + 1]


class Frozen:
    """The language model, of which nothing is trained, with what every prompt begins with already read:
    `model` is a transformers Llama, `begin` token ids. `compiled` costs a minute once and saves a third.
    """

    def __init__(
        self, model: Any, begin: Sequence[int], *, checkpointing: bool = False, compiled: bool = False
    ) -> None:
        self.model, self.begin = model.requires_grad_(False), () if checkpointing else tuple(begin)
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
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


class State:
    """The weights under training, what the optimizer holds, and how far training is: a file of tensors."""

    def __init__(self, module: GraphToken, recipe: Recipe, file: Path) -> None:
        import torch

        self.module, self.step, self.epoch = module, 0, 0  # epochs that are done and validated
        self.best, self.since_best = math.inf, 0
        self._file, self._recipe = file, recipe
        self._own = dict(module.named_parameters())
        self._optimizer = torch.optim.AdamW(
            self._own.values(), lr=0.0, betas=BETAS, weight_decay=recipe.weight_decay
        )

    def descend(self, rate: float) -> None:
        """One step down the gradients that the weights hold, which are then let go."""
        import torch

        for settings in self._optimizer.param_groups:
            settings["lr"] = rate
        torch.nn.utils.clip_grad_norm_(list(self._own.values()), self._recipe.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def save(self) -> None:
        """Write the file beside the old one, then in its place."""
        from safetensors.torch import save_file

        tensors = {f"model.{name}": one.contiguous() for name, one in self.module.state_dict().items()}
        for name, one in self._own.items():
            held = self._optimizer.state[one]
            tensors |= {f"step.{name}": held["step"], f"first.{name}": held["exp_avg"]}
            tensors |= {f"second.{name}": held["exp_avg_sq"]}
        about = {"step": self.step, "epoch": self.epoch, "best": self.best, "since_best": self.since_best}
        beside = self._file.with_suffix(".new")
        save_file(tensors, beside, {name: repr(value) for name, value in about.items()})
        beside.replace(self._file)

    def restore(self) -> bool:
        """Go on from the file; whether there is one."""
        from safetensors import safe_open

        if not self._file.is_file():
            return False
        with safe_open(self._file, "pt") as stored:
            about = stored.metadata()
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        self.step, self.epoch, self.since_best = (int(about[key]) for key in ("step", "epoch", "since_best"))
        self.best = float(about["best"])
        self.module.load_state_dict(
            {name.removeprefix("model."): one for name, one in tensors.items() if name.startswith("model.")}
        )
        for name, one in self._own.items():
            self._optimizer.state[one] = {
                "step": tensors[f"step.{name}"],
                "exp_avg": tensors[f"first.{name}"].to(one.device),
                "exp_avg_sq": tensors[f"second.{name}"].to(one.device),
            }
        return True


def train(
    module: GraphToken,
    frozen: Frozen,
    training: Sequence[Prompted],
    validation: Sequence[Prompted],
    recipe: Recipe,
    out: Path,
    *,
    most_steps: int | None = None,
) -> None:
    """Train into `out`: state.safetensors, best.safetensors by validation loss, log.jsonl.

    Goes on where a run that was stopped was, to the very weights of one that was not. `most_steps` stops it
    after so many steps of all. Raises InputError for no examples.
    """
    from rich.progress import Progress

    if not training or not validation:
        raise InputError("there is nothing to train or to validate with")
    out.mkdir(parents=True, exist_ok=True)
    per_epoch = -(-len(training) // (recipe.batch * recipe.accumulation))
    steps, warm = recipe.epochs * per_epoch, max(1, round(recipe.warm_up_epochs * per_epoch))
    state = State(module, recipe, out / "state.safetensors")
    if not state.restore():
        spread(module, training)
    log = Log(out / "log.jsonl", state.step)
    with Progress() as progress:
        bar = progress.add_task("graph token", total=steps, completed=state.step)
        for epoch in range(state.epoch, recipe.epochs):
            if recipe.patience is not None and state.since_best >= recipe.patience:
                break
            for number, parts in enumerate(batches(len(training), recipe, epoch), epoch * per_epoch):
                if number < state.step:
                    continue
                if state.step == most_steps:
                    return state.save()
                value = backward(module, frozen, [[training[at] for at in part] for part in parts])
                state.descend(rate_at(number, steps, warm, recipe.rate))
                log.note(step=state.step, epoch=epoch, loss=value)
                progress.update(bar, completed=state.step, description=f"loss {value:.3f}")
                if state.step % CHECKPOINT_STEPS == 0:
                    state.save()
            validate(state, frozen, validation, recipe, log, out)
    return None


def backward(module: GraphToken, frozen: Frozen, parts: Sequence[Sequence[Prompted]]) -> float:
    """Equation 8 of a step's batches and its gradient, left in the module: Σ NLL / Σ tokens."""
    module.train()
    tokens = sum(len(one.target) for part in parts for one in part)
    total = 0.0
    for part in parts:
        value, _ = frozen.nll(encoded(module, part), part)
        (value / tokens).backward()
        total += value.item()
    return total / tokens


def token_loss(module: GraphToken, frozen: Frozen, examples: Sequence[Prompted], batch: int) -> float:
    """Equation 8 of examples, nothing learnt of them."""
    import torch

    module.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(examples), batch):
            some = examples[start : start + batch]
            value, count = frozen.nll(encoded(module, some), some)
            total, tokens = total + value.item(), tokens + count
    return total / tokens


def validate(
    state: State, frozen: Frozen, validation: Sequence[Prompted], recipe: Recipe, log: Log, out: Path
) -> None:
    """Close an epoch: its validation loss, the best weights so far, the state."""
    from safetensors.torch import save_file

    value = token_loss(state.module, frozen, validation, recipe.batch)
    state.epoch += 1
    state.since_best += 1
    if value < state.best:
        state.best, state.since_best = value, 0
        save_file(
            {name: one.contiguous() for name, one in state.module.state_dict().items()},
            out / "best.safetensors",
        )
    log.note(step=state.step, epoch=state.epoch, validation=value)
    state.save()


def spread(module: GraphToken, examples: Sequence[Prompted]) -> None:
    """Start the projector where graphs differ.

    The means of two graphs' nodes are nearly the same vector at the start, so that z says the same of every
    graph, and what distinguishes a word from another is little of what distinguishes two means. With Σ the
    covariance of the means over the examples, W_1 becomes a random matrix times (Σ + ε)^-1/2.
    """
    import torch

    some, first = examples[:SPREAD_OVER], module.projector[0]
    taken = list[torch.Tensor]()
    hook = first.register_forward_pre_hook(lambda _, given: taken.append(given[0]))
    with torch.no_grad():
        module.train()
        for _ in range(SPREAD_PASSES):  # so that BatchNorm knows what it will divide by
            encoded(module, some)
        module.eval()
        encoded(module, some)
        mean = taken[-1].mean(0)
        values, vectors = torch.linalg.eigh((taken[-1] - mean).T @ (taken[-1] - mean) / len(some))
        scale = (values + SPREAD_FLOOR * values.mean()).rsqrt()
        drawn = torch.randn_like(first.weight) / math.sqrt(first.in_features)
        first.weight.copy_(drawn @ (vectors * scale) @ vectors.T)
        first.bias.copy_(-(first.weight @ mean))
    hook.remove()


def finish(
    out: Path, recipe: Recipe, *, name: str, encoder: Encoder, backbone: str, backbone_sha256: str, data: str
) -> None:
    """The best weights as the folder that `models.export_graph` takes, and the curves as a plot."""
    from safetensors.torch import load_file

    from memdb.generate.graph_token import GraphToken, save_graph_token

    module = GraphToken(recipe.shape)
    module.load_state_dict(load_file(out / "best.safetensors"))
    lines = read_log(out / "log.jsonl")
    curves = {
        "loss": [[line["step"], line["loss"]] for line in lines if "loss" in line],
        "validation": [[line["step"], line["validation"]] for line in lines if "validation" in line],
    }
    plot(curves, out / "curves.png")
    every = max(1, len(curves["loss"]) // CARD_POINTS)
    made = {
        "by": "python -m memdb.train.graph_token",
        "seed": recipe.seed,
        "data": data,
        "recipe": msgspec.to_builtins(recipe),
        "curves": {**curves, "loss": curves["loss"][::every]},
    }
    save_graph_token(
        module, out / "weights", name=name, encoder=encoder.name, encoder_sha256=encoder.sha256,
        backbone=backbone, backbone_sha256=backbone_sha256, made=made, licence="Apache-2.0",
    )  # fmt: skip


def main() -> None:
    """Read the command line, train."""
    import torch

    from memdb.generate.graph_token import GraphToken
    from memdb.models.llama import LlamaBackbone
    from memdb.models.registry import load_encoder

    parser = argparse.ArgumentParser(description="Train a graph token against a frozen language model.")
    parser.add_argument("--backbone", type=Path, required=True, help="GGUF file")
    parser.add_argument("--training", type=Path, required=True, help="JSONL of graph_world or graph_examples")
    parser.add_argument("--validation", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="smollm2-135m")
    parser.add_argument("--name", default="graph-token")
    parser.add_argument("--compiled", action="store_true", help="faster after a minute")
    args = parser.parse_args()
    recipe, encoder = RECIPES[args.recipe], load_encoder()
    prompts = LlamaBackbone(args.backbone, context_tokens=recipe.memory_tokens + 1024)
    training, validation = (
        prompted(read(file), prompts, encoder, recipe) for file in (args.training, args.validation)
    )
    digest = prompts.sha256
    prompts.close()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_frozen(args.backbone, precision=recipe.precision).to(device)
    frozen = Frozen(
        model, common_beginning([*training, *validation]),
        checkpointing=recipe.checkpointing, compiled=args.compiled,
    )  # fmt: skip
    torch.manual_seed(recipe.seed)
    module = GraphToken(recipe.shape).to(device)
    train(module, frozen, training, validation, recipe, args.out)
    finish(
        args.out, recipe, name=args.name, encoder=encoder, backbone=args.backbone.stem,
        backbone_sha256=digest, data=f"{len(training)} examples of {args.training.name}",
    )  # fmt: skip


if __name__ == "__main__":
    main()

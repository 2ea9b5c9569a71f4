"""The graph token's training, against a random language model of two layers: needs torch and transformers."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.models.fakes import HashEncoder
from memdb.models.graph_shape import GraphShape
from memdb.models.ports import Turn
from memdb.train import graph_token, graph_world
from memdb.train.graph_token import Frozen, Prompted, Recipe

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("torch_geometric", reason="the graph extra is not installed")
transformers = pytest.importorskip("transformers", reason="the train extra is not installed")

from memdb.generate.graph_token import GraphToken  # noqa: E402 - it loads torch

WORDS, END = 800, 1
SHAPE = GraphShape(dimension=32, layers=2, heads=2, projector_hidden=64, width=64, row_rms=0.2)
RECIPE = Recipe(
    shape=SHAPE, rate=5e-3, batch=4, accumulation=2, epochs=3, warm_up_epochs=0.2, clip=1.0,
    precision="float32", checkpointing=False, patience=None,
)  # fmt: skip


class WordIds:
    """A `graph_token.Prompts` of which a word or a mark is a token."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def _text(self, text: str) -> list[int]:
        return [self.known.setdefault(word, 4 + len(self.known)) for word in re.findall(r"\w+|[^\w\s]", text)]

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        halves: tuple[list[int], list[int]] = ([], [])
        half = 0
        for number, turn in enumerate(turns):
            halves[half].append(2)
            at = soft_at[1] if soft_at is not None and soft_at[0] == number else None
            if at is not None:
                halves[half].extend(self._text(turn.text[:at]))
                half = 1
            halves[half].extend(self._text(turn.text[at or 0 :]))
            halves[half].append(END)
        halves[half].append(3)
        return halves


@pytest.fixture(scope="module")
def llama() -> Any:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=128, tie_word_embeddings=True,
        initializer_range=0.2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def toys() -> list[Prompted]:
    """64 worlds whose answers are two relations away, and stand in the graph alone."""
    far = (world.example for world in graph_world.worlds("toys", held_out=False) if world.hops == 2)
    return graph_token.prompted(islice(far, 64), WordIds(), HashEncoder(32), RECIPE)


def _module(seed: int = 0) -> GraphToken:
    torch.manual_seed(seed)
    return GraphToken(SHAPE)


def _frozen(llama: Any, toys: Sequence[Prompted]) -> Frozen:
    return Frozen(copy.deepcopy(llama), graph_token.common_beginning(toys))


def _by_hand(llama: Any, row: Any, one: Prompted) -> float:
    """-log p of an example's target, token by token, from one plain run of the model."""
    ids = torch.tensor([[*one.before, 0, *one.after, *one.target]])
    rows = llama.get_input_embeddings()(ids).detach().clone()
    rows[0, len(one.before)] = row.detach()
    with torch.no_grad():
        shares = llama(inputs_embeds=rows).logits[0].log_softmax(-1)
    start = ids.shape[1] - len(one.target)
    return -sum(float(shares[start + n - 1, token]) for n, token in enumerate(one.target))


def test_the_loss_is_that_of_a_plain_run(llama: Any, toys: list[Prompted]) -> None:
    """With what comes before read once, and sequences filled up to one length."""
    batch = toys[:3]
    rows = torch.randn(3, 64)
    value, count = _frozen(llama, toys).nll(rows, batch)
    expected = sum(_by_hand(llama, row, one) for row, one in zip(rows, batch, strict=True))
    assert count == sum(len(one.target) for one in batch)
    assert value.item() == pytest.approx(expected, rel=1e-4)


def test_a_soft_token_of_a_tokens_own_row_is_that_token(llama: Any, toys: list[Prompted]) -> None:
    one = toys[0]
    row = llama.get_input_embeddings().weight[17:18].detach()
    told = one._replace(before=one.before, after=(17, *one.after))
    ids = torch.tensor([[*told.before, *told.after, *told.target]])
    labels = ids.clone()
    labels[:, : -len(told.target)] = -100
    expected = llama(input_ids=ids, labels=labels).loss.item()
    value, count = _frozen(llama, toys).nll(row, [one])
    assert value.item() / count == pytest.approx(expected, rel=1e-4)


def test_checkpointing_changes_neither_loss_nor_gradient(llama: Any, toys: list[Prompted]) -> None:
    found = []
    for frozen in (_frozen(llama, toys), Frozen(copy.deepcopy(llama), (1, 2), checkpointing=True)):
        rows = torch.full((2, 64), 0.1, requires_grad=True)
        value, _ = frozen.nll(rows, toys[:2])
        value.backward()
        found.append((value.item(), rows.grad))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-4)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-3, atol=1e-4)


def test_what_is_asked_for_is_the_reply_and_the_end_of_its_turn(toys: list[Prompted]) -> None:
    prompts = WordIds()
    ids = graph_token.target_ids("Oslo it is", prompts)
    assert ids == [*(prompts.known[word] for word in ("Oslo", "it", "is")), END]
    assert all(one.target[-1] == END for one in toys)


def test_the_token_stands_directly_before_the_memory() -> None:
    prompts = WordIds()
    world = next(graph_world.worlds("place", held_out=False))
    (one,) = graph_token.prompted([world.example], prompts, HashEncoder(32), RECIPE)
    words = {number: word for word, number in prompts.known.items()}
    assert [words[number] for number in one.after[:3]] == ["What", "follows", "is"]
    assert one.before == graph_token.common_beginning([one])
    assert len(one.nodes) == len(world.example.graph.nodes)
    assert one.edges.shape[1] == len(one.relations) == len(world.example.graph.relations)


def test_examples_that_are_too_long_or_have_no_graph_are_left_out() -> None:
    world = next(graph_world.worlds("place", held_out=False)).example
    empty = msgspec.structs.replace(world, graph=type(world.graph)())
    short = msgspec.structs.replace(RECIPE, memory_tokens=20)
    assert graph_token.prompted([empty], WordIds(), HashEncoder(32), RECIPE) == []
    assert graph_token.prompted([world], WordIds(), HashEncoder(32), short) == []


def test_the_mean_is_over_tokens_however_they_are_spread(llama: Any, toys: list[Prompted]) -> None:
    """Equation 8: two batches of one step weigh as their tokens do, not as batches."""
    long, short = toys[0], toys[1]._replace(target=toys[1].target[-2:])
    frozen, module = _frozen(llama, toys), _module()
    module.eval()  # BatchNorm would take its statistics from each batch
    losses = []
    module.train = lambda mode=True: module  # type: ignore[method-assign]
    for parts in ([[long, short]], [[long], [short]]):
        module.zero_grad()
        value = graph_token.backward(module, frozen, parts)
        losses.append((value, [one.grad.clone() for one in module.parameters()]))
    z = graph_token.encoded(module, [long, short])
    expected = (_by_hand(llama, z[0], long) + _by_hand(llama, z[1], short)) / (len(long.target) + 2)
    assert losses[0][0] == pytest.approx(expected, rel=1e-4)
    assert losses[1][0] == pytest.approx(expected, rel=1e-4)
    for together, apart in zip(losses[0][1], losses[1][1], strict=True):
        torch.testing.assert_close(together, apart, rtol=1e-3, atol=1e-6)


def test_training_lowers_the_loss_and_leaves_the_model_as_it_was(
    llama: Any, toys: list[Prompted], tmp_path: Path
) -> None:
    """Also: z takes a gradient, and it is not that of the frozen model's weights."""
    toys = [  # so short that z is near what it is to change
        one._replace(before=one.before[-4:], after=one.after[-6:], target=one.target[-4:]) for one in toys
    ]
    frozen, module = _frozen(llama, toys), _module()
    z = graph_token.encoded(module, toys[:4])
    z.retain_grad()
    frozen.nll(z, toys[:4])[0].backward()
    assert z.grad.abs().max() > 0
    assert all(one.grad is None for one in frozen.model.parameters())
    recipe = msgspec.structs.replace(RECIPE, rate=1e-2, batch=16, accumulation=1, epochs=7)
    graph_token.train(module, frozen, toys, toys[:8], recipe, tmp_path)  # 28 steps
    losses = [line["loss"] for line in graph_token.read_log(tmp_path / "log.jsonl") if "loss" in line]
    assert len(losses) == 28
    assert np.mean(losses[-4:]) < 0.8 * losses[0]
    for name, before in llama.state_dict().items():
        after = frozen.model.state_dict()[name]
        assert before.numpy().tobytes() == after.numpy().tobytes(), name


def test_a_run_that_was_stopped_ends_with_the_same_weights(
    llama: Any, toys: list[Prompted], tmp_path: Path
) -> None:
    recipe = msgspec.structs.replace(RECIPE, epochs=2)
    frozen, whole = _frozen(llama, toys), _module()
    graph_token.train(whole, frozen, toys[:24], toys[:8], recipe, tmp_path / "whole")
    for seed, most in enumerate((2, 4, None)):  # its own weights count at the first start alone
        broken = _module(seed)
        graph_token.train(broken, frozen, toys[:24], toys[:8], recipe, tmp_path / "broken", most_steps=most)
    for name, one in whole.state_dict().items():
        assert torch.equal(one, broken.state_dict()[name]), name
    logs = [graph_token.read_log(tmp_path / run / "log.jsonl") for run in ("whole", "broken")]
    assert logs[0] == logs[1]


def test_training_ends_when_validation_does_not_get_better(
    llama: Any, toys: list[Prompted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(graph_token, "token_loss", lambda *_: next(values))
    recipe = msgspec.structs.replace(RECIPE, epochs=5, patience=2)
    graph_token.train(_module(), _frozen(llama, toys), toys[:8], toys[:8], recipe, tmp_path)
    told = [
        line["validation"] for line in graph_token.read_log(tmp_path / "log.jsonl") if "validation" in line
    ]
    assert told == [3.0, 2.0, 2.5, 2.0]


def test_what_training_leaves_is_what_export_takes(llama: Any, toys: list[Prompted], tmp_path: Path) -> None:
    from memdb.generate.graph_token import load_graph_token

    recipe = msgspec.structs.replace(RECIPE, epochs=1)
    graph_token.train(_module(), _frozen(llama, toys), toys[:16], toys[:8], recipe, tmp_path)
    encoder = HashEncoder(32)
    graph_token.finish(
        tmp_path, recipe, name="toy", encoder=encoder, backbone="tiny", backbone_sha256="ab" * 32, data="toys"
    )
    module, card = load_graph_token(tmp_path / "weights")
    assert (card.encoder_sha256, card.backbone_sha256) == (encoder.sha256, "ab" * 32)
    assert card.made["seed"] == recipe.seed
    assert [step for step, _ in card.made["curves"]["loss"]] == [1, 2]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    best = float(json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["validation"])
    again = graph_token.token_loss(module, _frozen(llama, toys), toys[:8], 8)
    assert again == pytest.approx(best, rel=1e-4)


def test_there_has_to_be_something_to_train_and_to_validate_with(
    llama: Any, toys: list[Prompted], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="nothing to train"):
        graph_token.train(_module(), _frozen(llama, toys), [], toys, RECIPE, tmp_path)


def test_spreading_makes_graphs_differ_from_the_start(toys: list[Prompted]) -> None:
    def apart(module: GraphToken) -> float:
        module.eval()
        with torch.no_grad():
            rows = graph_token.encoded(module, toys)
        return float((rows - rows.mean(0)).norm(dim=1).mean() / rows.mean(0).norm())

    plain, spread = _module(), _module()
    graph_token.spread(spread, toys)
    assert apart(spread) > 2 * apart(plain)


def test_the_rate_by_hand() -> None:
    """Of 10 steps 2 warm up to 1e-4; the other 8 fall along half a cosine to 5e-6."""
    rates = [graph_token.rate_at(step, 10, 2, 1e-4) for step in range(10)]
    assert rates[:3] == pytest.approx([5e-5, 1e-4, 1e-4])
    assert rates[6] == pytest.approx((1e-4 + 5e-6) / 2)
    assert graph_token.rate_at(10, 10, 2, 1e-4) == pytest.approx(5e-6)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))
def test_an_epoch_has_every_example_once(count: int, batch: int, accumulation: int, epoch: int) -> None:
    recipe = msgspec.structs.replace(RECIPE, batch=batch, accumulation=accumulation)
    steps = list(graph_token.batches(count, recipe, epoch))
    assert sorted(at for step in steps for part in step for at in part) == list(range(count))
    assert len(steps) == math.ceil(count / (batch * accumulation))
    assert all(len(part) == batch for step in steps[:-1] for part in step)
    assert steps == list(graph_token.batches(count, recipe, epoch))


def test_the_papers_sizes() -> None:
    """Table V and appendix B: 16 examples a step, 10 epochs, the first of them to warm up."""
    for name in ("qwen3-8b", "llama-3.1-8b"):
        recipe = graph_token.RECIPES[name]
        assert (recipe.batch, recipe.accumulation, recipe.epochs, recipe.warm_up_epochs) == (4, 4, 10, 1)
        assert (recipe.rate, recipe.weight_decay, recipe.clip, recipe.patience) == (1e-4, 0.05, 0.1, 2)
        assert sum(one.numel() for one in GraphToken(recipe.shape).parameters()) == 21_780_992

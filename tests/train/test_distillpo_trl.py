"""DistillPO in TRL: the same loss and gradient as the plain loop's, on a random Llama of two layers."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from memdb.errors import ModelError
from memdb.models.ports import Turn
from memdb.records import Query
from memdb.train import distillpo, distillpo_policy, distillpo_trial
from memdb.train.distillpo import Task
from memdb.train.distillpo_recipe import Recipe
from memdb.train.instances import Instance
from memdb.train.rewards import FULL, rewards

torch = pytest.importorskip("torch", reason="the train extra is not installed")
transformers = pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("peft", reason="the train extra is not installed")
pytest.importorskip("trl", reason="the train extra is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, at load and in training

RECIPE = Recipe(
    group=2, prompts=2, steps=2, rate=1e-2, warm_up=0.0, rows=6, completion_tokens=12, lora_dropout=0.0,
    precision="float32", checkpointing=False, checkpoint_steps=100,
)  # fmt: skip
CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
ROLES = ["<user>", "<assistant>", "<system>"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """Two questions with anchors, one without."""
    some = distillpo_trial.instances(0, 3)
    return [Task(some[0], distillpo_trial.best(some[0])), Task(some[1], None)]


@pytest.fixture(scope="module")
def tokenizer(tasks: Sequence[Task]) -> Any:
    lines = [line for task in tasks for line in distillpo_trial.texts(task.instance)]
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=distillpo_trial.tokenizer(lines), eos_token="<end>", pad_token="<end>"
    )
    made.add_special_tokens({"additional_special_tokens": ROLES})
    made.chat_template = CHAT
    return made


def _turns(instance: Instance) -> list[Turn]:
    return [Turn("user", distillpo_trial.prompt(instance))]


def _policy(tokenizer: Any, recipe: Recipe = RECIPE) -> distillpo_policy.ModelPolicy:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, initializer_range=0.2, **distillpo_trial.MODEL,
    )  # fmt: skip
    module = distillpo_policy.with_lora(transformers.LlamaForCausalLM(config), recipe)
    with torch.no_grad():
        for name, one in module.named_parameters():
            if "lora_B" in name:  # which begin as nothing: a gradient would stop at them
                one.normal_(std=0.1)
    return distillpo_policy.ModelPolicy(
        module, distillpo_policy.FolderTokens(tokenizer), recipe, turns=_turns
    )


def _reward(text: str, instance: Instance) -> tuple[float, ...]:
    """The rewards, of which a random model's are all alike: how long the text is tells them apart."""
    told = rewards(text, instance, distillpo_trial.judge)
    return told if told[0] > 0 else (-1.0, len(text) / 100, *(len(text) % 3 / 4,) * 6)


# --- The policy


def test_what_somebody_said_is_no_control_token(tokenizer: Any) -> None:
    policy = _policy(tokenizer)
    ids, _ = policy.tokens.prompt_ids([Turn("user", "so <end><assistant> he said")])
    control = [tokenizer.convert_tokens_to_ids(name) for name in ("<user>", "<end>", "<assistant>")]
    assert [token for token in ids if token in control] == control
    assert (ids[0], ids[-2:]) == (control[0], control[1:])
    assert policy.decode(ids) == "so <end><assistant> he said"


def test_a_place_in_a_turn_cuts_the_prompt_in_two(tokenizer: Any) -> None:
    tokens = distillpo_policy.FolderTokens(tokenizer)
    turns = [Turn("system", "ab"), Turn("user", "cd")]
    before, after = tokens.prompt_ids(turns, (1, 1))
    assert tokens.decode(before) == "abc"
    assert tokens.decode(after) == "d"
    assert tokens.prompt_ids(turns)[1] == []


def test_a_completion_ends_its_turn(tokenizer: Any, tasks: list[Task]) -> None:
    policy = _policy(tokenizer)
    ids = policy.ids(tasks[0].anchor or "")
    assert ids[-1] == tokenizer.eos_token_id
    assert set(ids[:-1]).isdisjoint(policy.tokens.ends)
    assert policy.decode(ids) == tasks[0].anchor
    assert policy.tokens.ends == {tokenizer.eos_token_id}


def test_only_lora_weights_are_trained(tokenizer: Any) -> None:
    module = _policy(tokenizer).module
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    assert all("lora_" in name for name in trained)
    linear = 7 * distillpo_trial.MODEL["num_hidden_layers"]
    assert len(trained) == 2 * linear
    assert {min(one.shape) for one in trained.values()} == {16}


def test_log_probabilities_are_those_of_a_plain_run(tokenizer: Any, tasks: list[Task]) -> None:
    policy, instance = _policy(tokenizer), tasks[0].instance
    long, short = policy.ids(tasks[0].anchor or ""), (5, 6, 7)
    prompt = policy.prompt(instance)
    with torch.no_grad():
        found = policy.logprobs(instance, [long, short])
        for row, ids in zip(found, (long, short), strict=True):
            logits = policy.module(input_ids=torch.tensor([[*prompt, *ids]])).logits[0].log_softmax(-1)
            expected = [float(logits[len(prompt) - 1 + at, token]) for at, token in enumerate(ids)]
            assert row[: len(ids)].tolist() == pytest.approx(expected, abs=1e-4)


def test_questions_about_one_history_together_are_those_one_by_one(tokenizer: Any, tasks: list[Task]) -> None:
    policy = _policy(tokenizer)
    said = tasks[0].instance.history
    asked = [
        msgspec.structs.replace(
            tasks[0].instance, case=name, history=msgspec.structs.replace(said, query=Query(text=name))
        )
        for name in distillpo_trial.NAMES[: len(tasks)]
    ]
    told = [policy.ids(task.anchor or "") for task in tasks[: len(asked)]]
    with torch.no_grad():
        together = policy.logprobs_of(asked, told)
        alone = [policy.logprobs(one, [ids])[0] for one, ids in zip(asked, told, strict=True)]
    assert len({len(ids) for ids in told}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.tolist() == pytest.approx(other.tolist(), abs=1e-4)


def test_samples_are_drawn_as_they_are_scored(tokenizer: Any, tasks: list[Task]) -> None:
    """First tokens of many samples against the probabilities of the same tokens."""
    recipe = msgspec.structs.replace(RECIPE, completion_tokens=1, temperature=0.7)
    policy, instance = _policy(tokenizer, recipe), tasks[0].instance
    policy.module.eval()
    torch.manual_seed(0)
    drawn = [ids[0] for ids in policy.sample([instance], 3000)[0]]
    [[best]] = policy.greedy([instance])
    with torch.no_grad():
        shares = policy.logprobs(instance, [(token,) for token in range(len(tokenizer))])[:, 0].exp()
    assert shares.sum().item() == pytest.approx(1, abs=1e-4)
    assert best == shares.argmax().item()
    for token in shares.topk(5).indices.tolist():
        share = float(shares[token])
        error = 4 * (share * (1 - share) / 3000) ** 0.5
        assert drawn.count(token) / 3000 == pytest.approx(share, abs=error)


def test_a_sample_stops_with_its_turn(tokenizer: Any, tasks: list[Task]) -> None:
    policy = _policy(tokenizer)
    torch.manual_seed(0)
    [drawn] = policy.sample([tasks[0].instance], 200)
    assert max(map(len, drawn)) == RECIPE.completion_tokens
    ended = [ids for ids in drawn if tokenizer.eos_token_id in ids]
    assert ended
    assert all(ids.index(tokenizer.eos_token_id) == len(ids) - 1 for ids in ended)
    assert all(len(ids) == RECIPE.completion_tokens for ids in drawn if ids not in ended)


def test_lora_weights_go_on_from_a_folder(tokenizer: Any, tasks: list[Task], tmp_path: Path) -> None:
    policy = _policy(tokenizer)
    policy.module.save_pretrained(tmp_path)
    plain = copy.deepcopy(policy.module.base_model.model)
    policy.module.save_pretrained(tmp_path)
    for name, one in list(plain.named_modules()):
        if name.endswith("_proj"):
            parent, _, own = name.rpartition(".")
            setattr(plain.get_submodule(parent), own, one.base_layer)
    again = distillpo_policy.with_lora(plain, RECIPE, tmp_path)
    before, after = (
        {name: one for name, one in module.named_parameters() if one.requires_grad}
        for module in (policy.module, again)
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(one, after[name]) for name, one in before.items())


# --- TRL


@pytest.fixture
def trainer_of(tokenizer: Any, tasks: list[Task], tmp_path: Path) -> Any:
    from memdb.train import distillpo_trl

    def made(recipe: Recipe = RECIPE, **more: Any) -> Any:
        args = distillpo_trl.config(
            recipe, tmp_path, len(tasks), use_cpu=True, logging_steps=1, disable_tqdm=True, **more
        )
        return distillpo_trl.DistillPOTrainer(_policy(tokenizer, recipe), args, tasks, _reward, recipe)

    return made


def test_trl_has_the_same_loss_and_gradient(trainer_of: Any, tokenizer: Any, tasks: list[Task]) -> None:
    trainer, plain = trainer_of(), _policy(tokenizer)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    rows = [{"prompt": "", "task": at} for at in (0, 0, 0, 1, 1, 1)]
    made = trainer._generate_and_score_completions(rows)
    width = made["completion_ids"].shape[1]
    assert made["advantages"].shape == (6, width)
    assert made["advantages"].unique().numel() > 3
    value = trainer.compute_loss(trainer.model, made)
    value.backward()

    groups = []
    for start, task in ((0, tasks[0]), (3, tasks[1])):
        masks = made["completion_mask"][start : start + 3].bool()
        rows_of = made["completion_ids"][start : start + 3]
        ids = [tuple(row[mask].tolist()) for row, mask in zip(rows_of, masks, strict=True)]
        told = np.array([_reward(plain.decode(one), task.instance) for one in ids])
        groups.append(distillpo.group(plain, task.instance, ids, told, start == 0, RECIPE))
    assert plain.decode(groups[0].completions[2]) == tasks[0].anchor
    assert groups[0].rewards[2].sum() == FULL
    assert len(groups[1].completions[2]) <= RECIPE.completion_tokens  # no anchor: a sample
    expected = distillpo.backward(plain, groups, RECIPE)
    assert value.item() == pytest.approx(expected, abs=1e-6)
    theirs = dict(trainer.model.named_parameters())
    compared = 0
    for name, one in plain.module.named_parameters():
        if one.requires_grad:
            apart = (theirs[name].grad - one.grad).norm() / one.grad.norm()
            assert apart < 1e-4, name
            compared += int(one.grad.abs().max() > 0)
    assert compared > 20


def test_trl_trains(trainer_of: Any) -> None:
    trainer = trainer_of()
    before = {
        name: one.detach().clone() for name, one in trainer.model.named_parameters() if one.requires_grad
    }
    trainer.train()
    moved = [
        name
        for name, one in trainer.model.named_parameters()
        if name in before and not torch.equal(one, before[name])
    ]
    assert trainer.state.global_step == 2
    assert len(moved) > 20
    assert all(torch.isfinite(one).all() for one in trainer.model.parameters())
    logged = [line for line in trainer.state.log_history if "reward" in line]
    assert len(logged) == 2
    assert all(np.isfinite(line["loss"]) and line["grad_norm"] > 0 for line in logged)


def test_without_the_anchor_all_rows_are_samples(trainer_of: Any, tasks: list[Task]) -> None:
    recipe = msgspec.structs.replace(RECIPE, anchor=False, rows=4)
    trainer = trainer_of(recipe)
    trainer.model.train()
    made = trainer._generate_and_score_completions([{"prompt": "", "task": 0}] * 2)
    assert made["completion_ids"].shape[0] == 2
    assert made["completion_ids"].shape[1] <= RECIPE.completion_tokens


def test_another_release_of_trl_is_refused(trainer_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from memdb.train import distillpo_trl

    monkeypatch.setattr(distillpo_trl, "RELEASE", "0.0.0")
    with pytest.raises(ModelError, match=r"0\.0\.0"):
        trainer_of()


def test_the_recipe_in_trl(tmp_path: Path) -> None:
    from memdb.train import distillpo_trl
    from memdb.train.distillpo_recipe import RECIPES

    recipe = msgspec.structs.replace(RECIPES["llama-3.1-8b"], precision="float32")
    told = distillpo_trl.config(recipe, tmp_path, 329, 4, use_cpu=True)
    assert told.num_generations == 9
    assert told.gradient_accumulation_steps * told.per_device_train_batch_size * 4 == 4 * 9
    assert told.steps_per_generation == told.gradient_accumulation_steps
    assert (told.epsilon, told.epsilon_high, told.beta, told.loss_type) == (0.2, 0.28, 0.0, "dapo")
    assert told.max_steps == 249
    assert json.loads(told.to_json_string())["max_completion_length"] == 1024

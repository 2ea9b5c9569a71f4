"""DistillPO: token classes, advantages, loss; training in a small world needs torch and transformers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memdb.errors import InputError
from memdb.generate.action import EVIDENCE, USEFUL
from memdb.train import distillpo
from memdb.train.curves import read_log
from memdb.train.distillpo import Task, advantages, classes, spans
from memdb.train.distillpo_recipe import ANSWER_ONLY, EACH, MODES, RECIPES, SUPERVISED, Recipe, recipe_of
from memdb.train.distillpo_state import batches, rate_at
from memdb.train.rewards import COMPONENTS, EV, FMT, FULL, SEL, rewards

SMALL = Recipe(group=3, prompts=2, steps=4, rate=3e-3, warm_up=0.25, rows=2, checkpoint_steps=1)
NAME = {FMT: "fmt", SEL: "sel", EV: "ev"}


def _decode(pieces: Sequence[bytes]) -> Any:
    """What decodes tokens that are places in `pieces`."""
    return lambda ids: b"".join(pieces[token] for token in ids).decode("utf-8", "replace")


def _classes(pieces: Sequence[bytes], **how: Any) -> list[int]:
    return classes(range(len(pieces)), _decode(pieces), **how)


# --- Token classes (B6)

ONE = '{"useful_msg": [{"msg_id": "m1"}], "distilled_info": [{"msg_id": "m1", "info": "a"}]}'
GLUED = ['{"useful', '_msg":', ' [{"', 'msg_id": "m1', '"}', "],", ' "dist', 'illed_info":', ' [{"msg']
REST = ['_id": "m1", "info": "a"', "}]", "}", ""]


def test_the_lists_are_found_with_their_brackets() -> None:
    assert spans(ONE) == (range(15, 33), range(53, 85 - 1))
    assert ONE[15:33] == '[{"msg_id": "m1"}]'
    assert ONE[53:84] == '[{"msg_id": "m1", "info": "a"}]'


def test_a_token_is_of_the_span_that_it_overlaps() -> None:
    """The worked example: byte-level tokenizers glue brackets to what is before them and behind."""
    pieces = [piece.encode() for piece in [*GLUED, *REST]]
    assert b"".join(pieces).decode() == ONE
    expected = [FMT, FMT, SEL, SEL, SEL, SEL, FMT, FMT, EV, EV, EV, FMT, FMT]
    assert _classes(pieces) == expected


def test_by_the_start_rule_the_token_that_opens_a_list_is_format() -> None:
    """Which is why that rule is not used: ` [{` decides whether the list is empty."""
    pieces = [piece.encode() for piece in [*GLUED, *REST]]
    expected = [FMT, FMT, FMT, SEL, SEL, SEL, FMT, FMT, FMT, EV, EV, FMT, FMT]
    assert _classes(pieces, rule="start") == expected


def test_a_token_over_both_lists_is_of_the_first() -> None:
    text = '{"useful_msg":[],"distilled_info":[]}'
    assert _classes([text.encode()]) == [SEL]
    assert _classes([text[:16].encode(), text[16:35].encode(), text[35:].encode()]) == [SEL, EV, EV]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        '{"useful_msg": []}',
        '{"useful_msg": [], "distilled_info": [{"msg_id": "m1", "info": "a',
        '{"useful_msg": [], "distilled_info": "[]"}',
        '[{"useful_msg": [], "distilled_info": []}]',
        '{"x": {"useful_msg": [], "distilled_info": []}}',
        '{"useful_msg": {"a": []}, "distilled_info": []}',
        '{"x": "useful_msg", [], "distilled_info": []}',
    ],
)
def test_without_both_lists_all_is_format(text: str) -> None:
    pieces = [bytes([byte]) for byte in text.encode()]
    assert _classes(pieces) == [FMT] * len(pieces)


def test_brackets_and_quotes_in_strings_are_no_structure() -> None:
    info = r'] } \" "distilled_info": [ \\'
    told = f'[{{"msg_id": "]", "info": "{info}"}}]'
    text = f'{{"distilled_info": {told}, "useful_msg": ["}}"]}}'
    chosen, evidence = spans(text) or (range(0), range(0))
    assert text[chosen.start : chosen.stop] == '["}"]'
    assert text[evidence.start : evidence.stop] == told


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def _tokenised(draw: st.DrawFn) -> tuple[list[bytes], tuple[range, range]]:
    """A random action as JSON, cut into tokens anywhere, even within characters; the bytes of its lists."""
    ids = draw(st.lists(STRINGS, max_size=3))
    told = draw(st.lists(st.tuples(STRINGS, STRINGS), max_size=3))
    lists = {USEFUL: [{"msg_id": id} for id in ids], EVIDENCE: [{"msg_id": a, "info": b} for a, b in told]}
    how: dict[str, Any] = {
        "ensure_ascii": draw(st.booleans()),
        "indent": draw(st.sampled_from([None, 0, 2])),
        "separators": draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])),
    }
    order = draw(st.permutations([USEFUL, EVIDENCE]))
    written, places = b"{", {}
    for number, key in enumerate(order):
        comma, colon = (part.encode() for part in how["separators"])
        written += (comma if number else b"") + json.dumps(key).encode() + colon
        value = json.dumps(lists[key], **how).encode()
        places[key] = range(len(written), len(written) + len(value))
        written += value
    written += b"}"
    cuts = draw(st.sets(st.integers(1, len(written) - 1), max_size=40))
    edges = [0, *sorted(cuts), len(written), len(written)]  # the last token has no text: the end of the turn
    pieces = [written[a:b] for a, b in pairwise(edges)]
    return pieces, (places[USEFUL], places[EVIDENCE])


@settings(deadline=None)
@given(_tokenised())
def test_classes_are_those_of_the_bytes(drawn: tuple[list[bytes], tuple[range, range]]) -> None:
    """However a text is cut into tokens: the lists begin and end with ASCII, so bytes decide it as well."""
    pieces, places = drawn
    expected, at = [], 0
    for piece in pieces:
        over = [max(at, span.start) < min(at + len(piece), span.stop) for span in places]
        expected.append(SEL if over[0] else EV if over[1] else FMT)
        at += len(piece)
    assert _classes(pieces) == expected


def test_the_character_that_stands_for_bytes_that_are_none_may_be_said() -> None:
    """A prefix that ends within a character shows U+FFFD, as one does that ends with it."""
    before, told = '{"useful_msg":', '[{"msg_id":"\ufffd\ufffd"}]'
    whole = f'{before}{told},"distilled_info":[]}}'.encode()
    chosen = len(told.encode())
    expected = [FMT] * len(before) + [SEL] * chosen + [FMT] * 18 + [EV] * 2 + [FMT]
    assert _classes([bytes([byte]) for byte in whole]) == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=5), max_size=12))
def test_every_token_has_one_class_whatever_was_written(pieces: list[bytes]) -> None:
    found = _classes(pieces)
    assert len(found) == len(pieces)
    assert set(found) <= {FMT, SEL, EV}


@settings(deadline=None)
@given(_tokenised())
def test_by_characters_the_classes_cover_the_lists(drawn: tuple[list[bytes], tuple[range, range]]) -> None:
    """With a token for each character, those of a class put together are the list, and all the text."""
    text = b"".join(drawn[0]).decode()
    pieces = [character.encode() for character in text]
    found = _classes(pieces)
    chosen, evidence = spans(text) or (range(0), range(0))
    for name, span in ((SEL, chosen), (EV, evidence)):
        told = "".join(text[at] for at, one in enumerate(found) if one == name)
        assert told == text[span.start : span.stop]
        json.loads(told)


# --- Advantages (B8.2)

EXAMPLE = [
    [1, 1, 0, 0, 1, 1, 0, 0],
    [1, 1, 1, 0.5, 1, 1, 1, 1],
    [-1, 0, 0, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 1, 1, 1, 1],
]


def test_the_worked_example() -> None:
    found = advantages(EXAMPLE)
    assert found[:, FMT] == pytest.approx([0.5773, 0.5773, -1.7319, 0.5773], abs=5e-5)
    assert found[:, SEL] == pytest.approx([-0.0641, 0.7056, -1.6037, 0.9622], abs=5e-5)
    assert found[:, EV] == pytest.approx([0, 0.8165, -1.6329, 0.8165], abs=5e-5)


def test_one_scalar_for_all_spans() -> None:
    found = advantages(EXAMPLE, advantage="scalar")
    for c in (FMT, SEL, EV):
        assert found[:, c] == pytest.approx([-0.1739, 0.7998, -1.5648, 0.9389], abs=5e-5)


def test_weights_count_a_reward_so_often() -> None:
    assert advantages(EXAMPLE, ANSWER_ONLY, "scalar")[:, FMT] == pytest.approx([-1, 1, -1, 1], abs=1e-3)
    none = advantages(EXAMPLE, (0.0,) * COMPONENTS)
    assert not none.any()
    twice = [[value * 2 for value in row] for row in EXAMPLE]
    assert advantages(EXAMPLE, (2.0,) * COMPONENTS) == pytest.approx(advantages(twice))


REWARDS = arrays(
    np.float64, st.tuples(st.integers(2, 9), st.just(COMPONENTS)), elements=st.sampled_from([-1, 0, 0.5, 1])
)


@settings(deadline=None)
@given(REWARDS, st.randoms(use_true_random=False))
def test_advantages_are_relative_to_the_group(told: Any, draw: Any) -> None:
    """Their mean over the group is 0, the anchor being in it; they move with the completions, and do not
    change with the unit of the rewards.
    """
    found = advantages(told)
    assert found.mean(0) == pytest.approx(np.zeros(3), abs=1e-9)
    order = list(range(len(told)))
    draw.shuffle(order)
    assert advantages(told[order]) == pytest.approx(found[order], abs=1e-9)
    assert advantages(told * 3) == pytest.approx(found, abs=5e-3)
    assert advantages(told + 5) == pytest.approx(found, abs=1e-9)
    assert found.std(0).max() < 1


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.1, 1 / 3, 1.0]), min_size=COMPONENTS, max_size=COMPONENTS))
def test_a_group_that_agrees_tells_nothing(row: list[float]) -> None:
    assert not advantages([row] * 5).any()


def test_the_anchor_makes_a_group_that_agrees_tell_something() -> None:
    failed = [1, 1, 0, 0, 1, 1, 0, 0]
    found = advantages([failed, failed, EXAMPLE[3]])
    assert (found[2] > 1).tolist() == [False, True, True]
    assert (found[:2, 1:] < 0).all()


# --- Recipes


def test_full_size_numbers() -> None:
    recipe = RECIPES["llama-3.1-8b"]
    assert (recipe.group, recipe.prompts, recipe.rate, recipe.epochs) == (8, 4, 1e-5, 3)
    assert (recipe.lora_rank, recipe.lora_alpha, recipe.lora_dropout) == (16, 32, 0.05)
    assert (recipe.epsilon, recipe.epsilon_high, recipe.clip) == (0.2, 0.28, 1.0)
    assert (recipe.prompt_tokens, recipe.completion_tokens) == (24_000, 1_024)
    assert len(batches(329, recipe)) == 249  # 83 steps of four an epoch, the last of one


def test_modes_change_what_they_are_called_after() -> None:
    assert recipe_of("ci") == RECIPES["ci"]
    assert not recipe_of("ci", "no-anchor").anchor
    assert recipe_of("ci", "scalar", 3) == msgspec.structs.replace(RECIPES["ci"], advantage="scalar", seed=3)
    vanilla = recipe_of("ci", "vanilla")
    assert (vanilla.anchor, vanilla.advantage, vanilla.weights) == (False, "scalar", EACH)
    assert recipe_of("ci", "answer-only").weights == (0, 0, 0, 0, 0, 0, 1, 0)
    assert [recipe_of("ci", mode).gating for mode in ("distillpo", "strict", "ungated")] == [
        "leaky",
        "strict",
        "none",
    ]
    assert recipe_of("smollm2-135m", "sft").rate == 2e-4
    assert len(batches(48, recipe_of("smollm2-135m", "sft"))) == 36
    assert SUPERVISED.keys() == RECIPES.keys()
    assert all(recipe_of(name, mode) for name in RECIPES for mode in MODES)


def test_a_recipe_is_changed_by_name() -> None:
    told = recipe_of("smollm2-135m", "scalar", 2, ["rate=1e-4", "steps=80", "anchor=false"])
    assert (told.rate, told.steps, told.anchor, told.seed) == (1e-4, 80, False, 2)
    assert told.advantage == "scalar"
    for wrong in ("speed=1", "rate=fast", "rate"):
        with pytest.raises(InputError):
            recipe_of("ci", changed=[wrong])


def test_the_rate_warms_up_and_falls() -> None:
    recipe = Recipe(rate=2.0, warm_up=0.1, least=0.0)
    rates = [rate_at(step, 100, recipe) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * step for step in range(1, 11)])
    assert rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0)
    assert rates[99] == pytest.approx(2 * (1 + math.cos(math.pi * 89 / 90)) / 2)
    assert rate_at(7, 40, RECIPES["ci"]) == 3e-3


def test_an_epoch_has_every_task_once() -> None:
    recipe = Recipe(prompts=3, epochs=2)
    steps = batches(8, recipe)
    assert [len(some) for some in steps] == [3, 3, 2, 3, 3, 2]
    first, second = ([at for some in part for at in some] for part in (steps[:3], steps[3:]))
    assert sorted(first) == sorted(second) == list(range(8))
    assert first != second
    assert batches(8, msgspec.structs.replace(recipe, steps=2)) == steps[:2]
    assert batches(8, msgspec.structs.replace(recipe, seed=1)) != steps


# --- With torch

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("peft", reason="the train extra is not installed")

from memdb.train import distillpo_trial  # noqa: E402


def _tensor(rows: list[list[float]]) -> Any:
    return torch.tensor(rows, dtype=torch.float64)


def test_the_loss_by_hand() -> None:
    """Ratios 1, 2, ½, 2, ½, 1.1 under gains and losses: a gain stops at 1.28, a loss at .8, neither side is
    clipped where that would make the step smaller than it is.
    """
    ratios, gains = [1.0, 2.0, 0.5, 2.0, 0.5, 1.1], [1.0, 1.0, 1.0, -1.0, -1.0, 3.0]
    now = _tensor([[math.log(ratio) for ratio in ratios], [-7.0] * 6]).requires_grad_()
    old, mask = _tensor([[0.0] * 6, [-9.0] * 6]), _tensor([[1.0] * 6, [0.0] * 6])
    value = distillpo.loss(now, old, _tensor([gains, [5.0] * 6]), mask, 10)
    # 1·1 + 1.28·1 + .5·1 - 2 - .8 + 1.1·3
    assert value.item() == pytest.approx(-(1 + 1.28 + 0.5 - 2 - 0.8 + 3.3) / 10)
    value.backward()
    # dρ/dlog π = ρ where nothing is clipped, and nothing where it is or behind the end
    assert now.grad[0].tolist() == pytest.approx([-0.1, 0, -0.05, 0.2, 0, -0.33])
    assert not now.grad[1].any()


def test_a_ratio_of_one_gives_the_policy_gradient() -> None:
    now = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    gains, mask = torch.randn(3, 5, dtype=torch.float64), torch.ones(3, 5)
    distillpo.loss(now, now.detach(), gains, mask, 15).backward()
    torch.testing.assert_close(now.grad, -gains / 15)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [Task(one, distillpo_trial.best(one)) for one in distillpo_trial.instances(0)]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _policy(tasks: Sequence[Task], seed: int = 0) -> distillpo_trial.TreePolicy:
    return distillpo_trial.TreePolicy([task.instance for task in tasks], seed)


REWARD = partial(rewards, judge=distillpo_trial.judge)


def test_the_world_has_one_right_text_for_each_question(tasks: list[Task]) -> None:
    for task in tasks:
        told = [sum(REWARD(text, task.instance)) for text in distillpo_trial.texts(task.instance)]
        assert len(told) == 28
        assert [value for value in told if value == FULL] == [FULL]
        assert sum(REWARD(task.anchor or "", task.instance)) == FULL
    absent = [one for one in distillpo_trial.instances(5, 200) if not one.gold]
    assert 8 <= len(absent) <= 32
    assert all(one.answer == "" for one in absent)


def test_the_tree_policy_is_a_distribution_over_its_texts(tasks: list[Task]) -> None:
    policy, instance = _policy(tasks), tasks[0].instance
    ids = [policy.ids(text) for text in distillpo_trial.texts(instance)]
    assert [policy.decode(one) for one in ids] == distillpo_trial.texts(instance)
    with torch.no_grad():
        per_token_logps = policy.logprobs(instance, ids)
        shares = [row[: len(one)].sum().exp() for row, one in zip(per_token_logps, ids, strict=True)]
    assert sum(map(float, shares)) == pytest.approx(1, abs=1e-5)
    assert (per_token_logps == 0).float().mean() > 0.5  # where only one token goes on
    torch.manual_seed(0)
    [drawn] = policy.sample([instance], 4000)
    for one, share in zip(ids, shares, strict=True):
        error = 4 * math.sqrt(float(share) * (1 - float(share)) / 4000)
        assert drawn.count(one) / 4000 == pytest.approx(float(share), abs=error)


def test_a_group_has_its_anchor_last(tasks: list[Task]) -> None:
    policy = _policy(tasks)
    [made] = distillpo.form(policy, [tasks[0]], REWARD, SMALL)
    assert len(made.completions) == SMALL.group + 1
    assert policy.decode(made.completions[-1]) == tasks[0].anchor
    assert made.rewards.shape == (4, COMPONENTS)
    assert made.rewards[-1].sum() == FULL
    for ids, row, by_class in zip(made.completions, made.advantages, advantages(made.rewards), strict=True):
        assert row == [by_class[c] for c in classes(ids, policy.decode)]
    [alone] = distillpo.form(policy, [tasks[0]._replace(anchor=None)], REWARD, SMALL)
    assert (len(alone.completions), alone.anchored) == (SMALL.group, False)
    [switched] = distillpo.form(policy, [tasks[0]], REWARD, msgspec.structs.replace(SMALL, anchor=False))
    assert len(switched.completions) == SMALL.group


def _gradient(policy: Any, groups: Sequence[distillpo.Group], recipe: Recipe) -> tuple[float, Any]:
    policy.module.zero_grad()
    value = distillpo.backward(policy, groups, recipe)
    return value, torch.cat([one.grad.flatten() for one in policy.module.parameters()])


def test_the_mean_is_over_the_tokens_of_the_step_however_they_are_spread(tasks: list[Task]) -> None:
    """Also: with ratios of one the loss is minus the mean of the advantages of all tokens."""
    policy = _policy(tasks)
    torch.manual_seed(1)
    groups = distillpo.form(policy, tasks[:2], REWARD, SMALL)
    gains = [value for one in groups for row in one.advantages for value in row]
    found = [_gradient(policy, groups, msgspec.structs.replace(SMALL, rows=rows)) for rows in (1, 4)]
    for value, gradient in found:
        assert value == pytest.approx(-sum(gains) / len(gains), abs=1e-5)
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-3, atol=1e-6)


def test_the_anchor_gets_likelier_and_what_lacks_reward_less(tasks: list[Task]) -> None:
    policy, instance = _policy(tasks), tasks[0].instance
    torch.manual_seed(1)
    [made] = distillpo.form(policy, [tasks[0]], REWARD, SMALL)

    def likelihoods() -> Any:
        with torch.no_grad():
            rows = policy.logprobs(instance, made.completions)
        return torch.stack([row[: len(ids)].sum() for row, ids in zip(rows, made.completions, strict=True)])

    before = likelihoods()
    distillpo.backward(policy, [made], SMALL)
    with torch.no_grad():
        for one in policy.module.parameters():
            one -= 0.05 * one.grad
    after = likelihoods()
    assert after[-1] > before[-1]
    worst = int(made.rewards.sum(1).argmin())
    assert after[worst] < before[worst]


def test_further_updates_of_a_group_are_clipped_against_the_policy_that_formed_it(tasks: list[Task]) -> None:
    policy, recipe = _policy(tasks), msgspec.structs.replace(SMALL, updates=2)
    [made] = distillpo.form(policy, [tasks[0]], REWARD, recipe)
    old = made.old_per_token_logps or []
    assert [len(row) for row in old] == [len(ids) for ids in made.completions]
    first, _ = _gradient(policy, [made], recipe)
    assert first == pytest.approx(_gradient(policy, [made._replace(old_per_token_logps=None)], recipe)[0])
    far = made._replace(old_per_token_logps=[row - 1 for row in old])  # ρ = e everywhere
    value, gradient = _gradient(policy, [far], recipe)
    gains = np.concatenate(made.advantages)
    expected = np.where(gains > 0, 1.28 * gains, math.e * gains)
    assert value == pytest.approx(-expected.mean(), rel=1e-4)
    assert gradient.abs().max() > 0


def test_training_that_was_stopped_goes_on_to_the_same_weights(tasks: list[Task], tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(SMALL, updates=2)
    found = []
    for name, stops in (("unbroken", [None]), ("broken", [1, 3, None])):
        for stop in stops:
            policy = _policy(tasks, seed=0)
            torch.manual_seed(99 if stop else 98)
            distillpo.train(policy, tasks[:3], REWARD, recipe, tmp_path / name, most_steps=stop)
        found.append((policy.module.state_dict(), read_log(tmp_path / name / "log.jsonl")))
    assert [line["step"] for line in found[0][1]] == [1, 2, 3, 4]
    assert found[0][1] == found[1][1]
    for name, one in found[0][0].items():
        assert torch.equal(one, found[1][0][name]), name
    fresh = _policy(tasks).module.state_dict()
    assert any(not torch.equal(one, fresh[name]) for name, one in found[0][0].items())
    with pytest.raises(InputError, match="another recipe"):
        distillpo.train(_policy(tasks), tasks[:3], REWARD, SMALL, tmp_path / "broken")


def test_nothing_to_train_on_is_an_error(tasks: list[Task], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        distillpo.train(_policy(tasks), [], REWARD, SMALL, tmp_path)
    with pytest.raises(InputError):
        distillpo.sft(_policy(tasks), [tasks[0]._replace(anchor=None)], SMALL, tmp_path)


def test_supervised_learning_takes_the_mean_over_the_anchors_tokens(
    tasks: list[Task], tmp_path: Path
) -> None:
    policy, recipe = _policy(tasks), recipe_of("ci", "sft")
    told = [(task.instance, policy.ids(task.anchor or "")) for task in tasks]
    with torch.no_grad():
        total = sum(float(policy.logprobs(instance, [ids]).sum()) for instance, ids in told)
    distillpo.sft(policy, tasks, recipe, tmp_path, most_steps=20)
    losses = [line["loss"] for line in read_log(tmp_path / "log.jsonl")]
    assert losses[0] == pytest.approx(-total / sum(len(ids) for _, ids in told), abs=1e-4)
    assert losses[-1] < 0.5 * losses[0]


def test_what_is_asked_about_one_history_is_learnt_in_one_step(tasks: list[Task], tmp_path: Path) -> None:
    other = msgspec.structs.replace(tasks[0].instance, answer="")
    some = [*tasks, Task(other, tasks[0].anchor), Task(other, None)]
    groups = distillpo.by_history(some)
    assert [len(one) for one in groups] == [2] + [1] * (len(tasks) - 1)
    assert groups[0] == (tasks[0], some[len(tasks)])
    recipe = msgspec.structs.replace(recipe_of("ci", "sft"), prompts=1, epochs=1, steps=None)
    distillpo.sft(_policy(tasks), some, recipe, tmp_path)
    assert len(read_log(tmp_path / "log.jsonl")) == len(tasks)


def test_the_small_world_is_learnt(tasks: list[Task], tmp_path: Path) -> None:
    """The profile of 40 steps: not that it beats a scalar advantage, which is enough here."""
    pytest.importorskip("matplotlib", reason="the train extra is not installed")
    before, after = distillpo_trial.trial("distillpo", 0, tmp_path)
    assert before.total <= 4
    lines = read_log(tmp_path / "log.jsonl")
    assert len(lines) == 40
    assert lines[0]["total"] <= 4.5
    assert np.mean([line["total"] for line in lines[-3:]]) >= 6.5
    assert after.full >= 0.75
    assert after.total >= 6.5
    assert after.valid == 1
    assert lines[-1]["anchored"] == 1
    assert sum(after.rewards) == pytest.approx(after.total)
    distillpo.plots(tmp_path)
    names = {"rewards.png", "shares.png", "tokens.png", "loss.png"}
    assert names <= {file.name for file in tmp_path.iterdir()}


def test_the_log_tells_each_reward(tasks: list[Task]) -> None:
    policy = _policy(tasks)
    groups = distillpo.form(policy, tasks[:2], REWARD, SMALL)
    told = distillpo.figures(groups)
    sampled = np.concatenate([one.rewards[:-1] for one in groups])
    assert [told[f"r{number}"] for number in range(COMPONENTS)] == pytest.approx(sampled.mean(0).tolist())
    assert told["total"] == pytest.approx(sampled.sum(1).mean())
    lengths = [len(ids) for one in groups for ids in one.completions[:-1]]
    assert (told["tokens"], told["longest"]) == (pytest.approx(np.mean(lengths)), max(lengths))
    same = groups[0]._replace(advantages=[[0.0, 0.0]] * 4, anchored=False)
    told = distillpo.figures([same, groups[1]])
    assert (told["skipped"], told["anchored"]) == (0.5, 0.5)

"""Sequences with a common beginning: together they are what each is alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.train import backbone
from memdb.train.branches import Branch, branches_of, decoded, logprobs
from tests.models import tiny_llama

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("gguf", reason="the train extra is not installed")

TOKENS = st.integers(0, 258)
END = 10


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return backbone.frozen(tiny_llama.write(tmp_path_factory.mktemp("model") / "tiny.gguf"))


def alone(model: Any, prompt: list[int], completion: list[int], temperature: float = 1.0) -> Any:
    logits = model(torch.tensor([[*prompt, *completion]])).logits[0] / temperature
    told = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    return told.gather(1, torch.tensor(completion)[:, None])[:, 0]


branches = st.lists(
    st.builds(Branch, st.lists(TOKENS, max_size=6), st.lists(TOKENS, min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(TOKENS, min_size=1, max_size=12), branches, st.sampled_from([1.0, 0.7]))
def test_log_probabilities_are_those_of_each_alone(
    model: Any, beginning: list[int], some: list[Branch], temperature: float
) -> None:
    found = logprobs(model, beginning, some, temperature)
    assert [len(one) for one in found] == [len(one.completion) for one in some]
    for one, branch in zip(found, some, strict=True):
        wanted = alone(model, [*beginning, *branch.rest], [*branch.completion], temperature)
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_each_alone(tmp_path: Path) -> None:
    file = tiny_llama.write(tmp_path / "tiny.gguf")
    beginning, some = [1, 2, 3], [Branch([4], [5, 6]), Branch([], [7]), Branch([8, 9], [10, 11, 12])]
    found = []
    for together in (True, False):
        model = backbone.frozen(file).requires_grad_(True)
        told = (
            logprobs(model, beginning, some)
            if together
            else [alone(model, [*beginning, *one.rest], [*one.completion]) for one in some]
        )
        sum(one.sum() * (number + 1) for number, one in enumerate(told)).backward()
        found.append({name: one.grad.clone() for name, one in model.named_parameters()})
    for name, wanted in found[1].items():
        torch.testing.assert_close(found[0][name], wanted, rtol=1e-3, atol=1e-4, msg=name)


def test_what_has_nothing_before_it_is_refused(model: Any) -> None:
    for beginning, branch in (([], Branch([], [1])), ([1], Branch([2], []))):
        with pytest.raises(InputError, match="a completion has a token, and a token before it"):
            logprobs(model, beginning, [branch])


@pytest.mark.parametrize(
    ("prompts", "common"),
    [
        ([[1, 2, 3], [1, 2, 4]], (1, 2)),
        ([[1, 2], [1, 2]], (1,)),
        ([[1, 2, 3], [1, 2]], (1,)),
        ([[1], [2]], ()),
        ([[5, 6, 7]], (5, 6)),
    ],
)
def test_the_common_beginning_leaves_each_prompt_a_token(
    prompts: list[list[int]], common: tuple[int, ...]
) -> None:
    beginning, made = branches_of(prompts, [[0]] * len(prompts))
    assert beginning == common
    assert [[*beginning, *one.rest] for one in made] == prompts
    assert all(one.rest for one in made)


def greedy(model: Any, prompt: list[int], most: int) -> tuple[int, ...]:
    told = list(prompt)
    with torch.no_grad():
        while len(told) < len(prompt) + most and told[-1:] != [END]:
            told.append(int(model(torch.tensor([told])).logits[0, -1].argmax()))
            if told[-1] == END:
                break
    return tuple(told[len(prompt) :])


def test_completions_side_by_side_are_those_of_each_alone(model: Any) -> None:
    prompts = [[5, 6, 7, 8, 9], [40, 41], [100, 3, 77, 2, 250, 251, 252]]
    wanted = [greedy(model, one, 12) for one in prompts]
    assert decoded(model, prompts, ends={END}, most=12) == wanted
    assert decoded(model, prompts[:1], ends={END}, most=12, count=2) == [wanted[0]] * 2
    end = wanted[0][3]
    cut = [one[: one.index(end) + 1] if end in one else one for one in wanted]
    assert decoded(model, prompts, ends={end}, most=12) == cut
    assert len(cut[0]) <= 4 < max(map(len, cut)), "one ends before the others"


def test_tokens_are_drawn_as_often_as_they_are_likely(model: Any) -> None:
    prompt, temperature, count = [5, 6, 7], 0.8, 4000
    torch.manual_seed(5)
    drawn = decoded(model, [prompt], ends={END}, most=1, count=count, temperature=temperature)
    with torch.no_grad():
        wanted = (model(torch.tensor([prompt])).logits[0, -1] / temperature).softmax(-1)
    counts = torch.bincount(torch.tensor([one[0] for one in drawn]), minlength=len(wanted)) / count
    for token in wanted.topk(5).indices.tolist():
        spread = float((wanted[token] * (1 - wanted[token]) / count) ** 0.5)
        assert abs(float(counts[token] - wanted[token])) < 5 * spread
    torch.manual_seed(5)
    assert decoded(model, [prompt], ends={END}, most=1, count=count, temperature=temperature) == drawn

"""Sequences with a common beginning, evaluated at once: the completions of one prompt, or the questions about
one history.

The beginning is evaluated once, the branches stand behind it in one row, and a token sees the beginning, its
own branch up to itself, and no other branch. Positions are those that a branch alone would have. So log
probabilities and gradients are the same as of each sequence by itself, at a fraction of the cost: with a
prompt of 320 tokens, five completions of 50 cost 570 tokens and not 1,850.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memdb.errors import InputError

if TYPE_CHECKING:
    import torch

Ids = tuple[int, ...]


class Branch(NamedTuple):
    """What comes after the common beginning: the rest of a prompt, perhaps nothing, and its completion."""

    rest: Sequence[int]
    completion: Sequence[int]


def branches_of(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]
) -> tuple[Ids, list[Branch]]:
    """What the prompts have in common at their beginning, at most all but one token, and the branches."""
    shortest = min(map(len, prompts))
    common = next((n for n in range(shortest - 1) if len({one[n] for one in prompts}) > 1), shortest - 1)
    made = [Branch(one[common:], told) for one, told in zip(prompts, completions, strict=True)]
    return tuple(prompts[0][:common]), made


def logprobs(
    model: Any, beginning: Sequence[int], branches: Sequence[Branch], temperature: float = 1.0
) -> list[torch.Tensor]:
    """log p of each token of each completion, float32 [its length], by a causal model of transformers.

    Raises InputError for a completion without a token, and one that has no token before it.
    """
    import torch
    from torch.nn.functional import cross_entropy

    if not all(len(one.completion) and len(beginning) + len(one.rest) for one in branches):
        raise InputError("a completion has a token, and a token before it")
    row, owner, places, asked = list(beginning), [-1] * len(beginning), [*range(len(beginning))], list[int]()
    for number, one in enumerate(branches):
        told = [*one.rest, *one.completion[:-1]]
        first = len(row) + len(one.rest) - 1  # the token before the completion
        asked += [first if one.rest else len(beginning) - 1, *range(first + 1, first + len(one.completion))]
        row += told
        owner += [number] * len(told)
        places += range(len(beginning), len(beginning) + len(told))
    body, device = model.get_decoder(), model.device
    states = body(
        input_ids=torch.tensor([row], device=device),
        attention_mask=_mask(torch.tensor(owner, device=device), model.dtype),
        position_ids=torch.tensor([places], device=device),
        use_cache=False,
    )[0][0]
    logits = model.get_output_embeddings()(states[torch.tensor(asked, device=device)]).float() / temperature
    wanted = torch.tensor([token for one in branches for token in one.completion], device=device)
    found = -cross_entropy(logits, wanted, reduction="none")
    return list(found.split([len(one.completion) for one in branches]))


def _mask(owner: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """What is added to attention, [1, 1, t, t]; `owner` [t] is each token's branch, -1 for the beginning."""
    import torch

    at = torch.arange(len(owner), device=owner.device)
    sees = (at[None] <= at[:, None]) & ((owner[None] == -1) | (owner[None] == owner[:, None]))
    hidden = torch.zeros(sees.shape, dtype=kind, device=owner.device)
    return hidden.masked_fill(~sees, torch.finfo(kind).min)[None, None]


def decoded(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    ends: Collection[int],
    most: int,
    count: int = 1,
    temperature: float | None = None,
) -> list[Ids]:
    """`count` completions of each prompt, side by side, of at most `most` tokens, the end included.

    Each prompt is evaluated once. Without a temperature the likeliest token is taken; with one, tokens are
    drawn by torch's random numbers. Shorter prompts are filled up at their beginning and it is not seen.
    """
    import torch

    width, device = max(map(len, prompts)), model.device
    ids = torch.tensor([[0] * (width - len(one)) + [*one] for one in prompts], device=device)
    seen = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=device)
    with torch.no_grad():
        places = (seen.cumsum(1) - 1).clamp(min=0)
        told = model(ids, attention_mask=seen, position_ids=places, use_cache=True, logits_to_keep=1)
        cache, logits = told.past_key_values, told.logits[:, -1].repeat_interleave(count, 0)
        cache.batch_repeat_interleave(count)
        seen, at = (one.repeat_interleave(count, 0) for one in (seen, places[:, -1:]))
        rows = [list[int]() for _ in range(len(seen))]
        while True:
            token = _chosen(logits.float(), temperature)
            for row, one in zip(rows, token.tolist(), strict=True):
                if not row or row[-1] not in ends:
                    row.append(one)
            if all(row[-1] in ends or len(row) >= most for row in rows):
                return [tuple(row) for row in rows]
            seen, at = torch.cat([seen, torch.ones_like(seen[:, :1])], 1), at + 1
            told = model(token[:, None], attention_mask=seen, position_ids=at, cache=cache, use_cache=True)
            logits = told.logits[:, -1]


def _chosen(logits: torch.Tensor, temperature: float | None) -> torch.Tensor:
    """A token for each row."""
    import torch

    if temperature is None:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]

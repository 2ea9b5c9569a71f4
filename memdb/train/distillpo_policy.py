"""The distiller that DistillPO trains: a causal language model of transformers with LoRA weights.

The prompt is the one that is used later. The turns' texts are tokenised apart from the chat template, so that
nothing that somebody said is ever read as a control token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memdb.errors import ModelNotFound
from memdb.generate.distill_prompt import distill_turns
from memdb.models.chat_template import ChatTemplate
from memdb.models.llama import LlamaBackbone
from memdb.models.ports import Turn
from memdb.train.backbone import frozen
from memdb.train.branches import Branch, Ids, branches_of, decoded, logprobs
from memdb.train.distillpo_recipe import Recipe
from memdb.train.graph_token import target_ids
from memdb.train.instances import Instance

if TYPE_CHECKING:
    import torch


class Tokens(Protocol):
    """A chat model's tokens."""

    @property
    def ends(self) -> frozenset[int]:
        """Those that end a turn."""
        ...

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Ids of a prompt before and after a place in it; without one all are before."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens left out."""
        ...


class GgufTokens(LlamaBackbone):
    """`Tokens` of a GGUF file: those that llama.cpp reads and writes."""

    @cached_property
    def ends(self) -> frozenset[int]:
        """See `Tokens`."""
        return frozenset(self._vocabulary.ends)

    def decode(self, ids: Sequence[int]) -> str:
        """See `Tokens`."""
        return b"".join(map(self._vocabulary.piece, ids)).decode("utf-8", "replace")


class FolderTokens:
    """`Tokens` of a folder of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        names = {key: getattr(tokenizer, key) or "" for key in ("bos_token", "eos_token")}
        self._template = ChatTemplate(tokenizer.chat_template, bos=names["bos_token"], eos=names["eos_token"])

    @cached_property
    def ends(self) -> frozenset[int]:
        """See `Tokens`: the tokenizer's own, and what the template puts behind a reply."""
        parts = self._template.parts(["user", "assistant", "user"])
        behind = self._control(parts[2])[:1]
        return frozenset({self.tokenizer.eos_token_id, *behind})

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        """See `Tokens`."""
        *heads, tail = self._template.parts([turn.role for turn in turns])
        halves: tuple[list[int], list[int]] = ([], [])
        half = 0
        for number, (head, turn) in enumerate(zip(heads, turns, strict=True)):
            halves[half].extend(self._control(head))
            text = turn.text
            if soft_at is not None and soft_at[0] == number:
                halves[0].extend(self._text(text[: soft_at[1]]))
                half, text = 1, text[soft_at[1] :]
            halves[half].extend(self._text(text))
        halves[half].extend(self._control(tail))
        return halves

    def decode(self, ids: Sequence[int]) -> str:
        """See `Tokens`."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _control(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _text(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))


class ModelPolicy:
    """A `distillpo.Policy` of a causal language model; `turns` are what it is asked for an instance."""

    def __init__(
        self, module: Any, tokens: Tokens, recipe: Recipe, turns: Callable[[Instance], Sequence[Turn]]
    ) -> None:
        self.module, self.tokens = module, tokens
        self._recipe, self._turns = recipe, turns
        self._prompts: dict[Instance, list[int]] = {}

    def prompt(self, instance: Instance) -> list[int]:
        """The tokens that are read."""
        if instance not in self._prompts:
            self._prompts[instance] = self.tokens.prompt_ids(self._turns(instance))[0]
        return self._prompts[instance]

    def fits(self, instance: Instance) -> bool:
        """Whether the prompt keeps to the recipe's length."""
        return len(self.prompt(instance)) <= self._recipe.prompt_tokens

    def ids(self, text: str) -> Ids:
        """See `distillpo.Policy`."""
        return tuple(target_ids(text, self.tokens))

    def decode(self, ids: Sequence[int]) -> str:
        """See `distillpo.Policy`."""
        return self.tokens.decode(ids)

    def sample(self, instances: Sequence[Instance], count: int) -> list[list[Ids]]:
        """See `distillpo.Policy`. All are decoded in one batch."""
        drawn = self._decoded(instances, count=count, temperature=self._recipe.temperature)
        return [drawn[at : at + count] for at in range(0, len(drawn), count)]

    def greedy(self, instances: Sequence[Instance]) -> list[Ids]:
        """See `distillpo.Policy`. All are decoded in one batch."""
        return self._decoded(instances)

    def _decoded(self, instances: Sequence[Instance], **how: Any) -> list[Ids]:
        most, ends = self._recipe.completion_tokens, self.tokens.ends
        return decoded(self.module, [self.prompt(one) for one in instances], ends=ends, most=most, **how)

    def logprobs(self, instance: Instance, completions: Sequence[Ids]) -> torch.Tensor:
        """See `distillpo.Policy`. The prompt is evaluated once for all of them."""
        from torch.nn.utils.rnn import pad_sequence

        *beginning, last = self.prompt(instance)
        some = [Branch([last], ids) for ids in completions]
        rows = logprobs(self.module, beginning, some, self._recipe.temperature)
        return pad_sequence(rows, batch_first=True)

    def logprobs_of(self, instances: Sequence[Instance], completions: Sequence[Ids]) -> list[torch.Tensor]:
        """See `distillpo.Policy`. What their prompts have in common at their beginning is evaluated once."""
        beginning, some = branches_of([self.prompt(one) for one in instances], completions)
        return logprobs(self.module, beginning, some, self._recipe.temperature)


def load(
    backbone: Path, recipe: Recipe, adapter: Path | None = None, device: str | None = None
) -> ModelPolicy:
    """The policy of a GGUF file or a folder of transformers, with new LoRA weights or those of `adapter`; on
    a GPU where there is one, if no other device is named.

    Raises ModelNotFound where there is no such file or folder, and what reading a GGUF file raises.
    """
    import torch

    if backbone.is_file():
        room = recipe.prompt_tokens + recipe.completion_tokens
        tokens: Tokens = GgufTokens(backbone, context_tokens=room)
        model = frozen(backbone, precision=recipe.precision)
    elif backbone.is_dir():
        model, tokens = _of_folder(backbone, recipe)
    else:
        raise ModelNotFound(f"there is no model {backbone}", hint="give a GGUF file, or a folder")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(recipe.seed)
    module = with_lora(model.to(device), recipe, adapter)

    def turns(instance: Instance) -> Sequence[Turn]:
        return distill_turns(instance.history, instance.question_time, recipe.style).turns

    return ModelPolicy(module, tokens, recipe, turns)


def merged(policy: ModelPolicy) -> ModelPolicy:
    """The same policy, its LoRA weights added to those of the model: it writes in half the time."""
    policy.module = policy.module.merge_and_unload()
    return policy


def with_lora(model: Any, recipe: Recipe, adapter: Path | None = None) -> Any:
    """The model with LoRA weights beside every linear layer but the last, which alone are trained."""
    from peft import LoraConfig, PeftModel, get_peft_model

    if recipe.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    if adapter is not None:
        return PeftModel.from_pretrained(model, adapter, is_trainable=True)
    config = LoraConfig(
        r=recipe.lora_rank, lora_alpha=recipe.lora_alpha, lora_dropout=recipe.lora_dropout,
        target_modules="all-linear", bias="none", task_type="CAUSAL_LM",
    )  # fmt: skip
    return get_peft_model(model, config)


def _of_folder(folder: Path, recipe: Recipe) -> tuple[Any, FolderTokens]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, recipe.precision), local_files_only=True
    )
    return model, FolderTokens(tokenizer)

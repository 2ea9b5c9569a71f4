"""A distiller's weights under training, and the order of it: what makes a run resumable to the last bit."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from memdb.errors import InputError
from memdb.train.distillpo_recipe import Recipe


class State:
    """The weights under training, what the optimizer holds, and how far training is: a file of tensors."""

    def __init__(self, module: Any, recipe: Recipe, file: Path) -> None:
        import torch

        self.step = 0
        self._file, self._recipe = file, recipe
        self._own = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self._optimizer = torch.optim.AdamW(
            self._own.values(), lr=0.0, betas=recipe.betas, weight_decay=recipe.weight_decay
        )

    def descend(self, rate: float) -> None:
        """One step down the gradients that the weights hold, which are then let go; none counts as zero."""
        import torch

        for one in self._own.values():
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        for settings in self._optimizer.param_groups:
            settings["lr"] = rate
        torch.nn.utils.clip_grad_norm_(list(self._own.values()), self._recipe.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def save(self) -> None:
        """Write the file beside the old one, then in its place."""
        from safetensors.torch import save_file

        tensors = {}
        for name, one in self._own.items():
            tensors[f"model.{name}"] = one.detach().contiguous()
            for key, value in self._optimizer.state[one].items():
                tensors[f"{key}.{name}"] = value.contiguous()
        about = {"step": str(self.step), "recipe": msgspec.json.encode(self._recipe).decode()}
        beside = self._file.with_suffix(".new")
        save_file(tensors, beside, about)
        beside.replace(self._file)

    def restore(self) -> None:
        """Go on from the file, if there is one. Raises InputError for one of another recipe."""
        import torch
        from safetensors import safe_open

        if not self._file.is_file():
            return
        with safe_open(self._file, "pt") as stored, torch.no_grad():
            about = stored.metadata()
            if msgspec.json.decode(about["recipe"], type=Recipe) != self._recipe:
                hint = "give the command that it was begun with, or another folder"
                raise InputError(f"{self._file} was made by another recipe", hint=hint)
            self.step = int(about["step"])
            for name, one in self._own.items():
                one.copy_(stored.get_tensor(f"model.{name}"))
                self._optimizer.state[one] = {
                    "step": stored.get_tensor(f"step.{name}"),
                    "exp_avg": stored.get_tensor(f"exp_avg.{name}").to(one.device),
                    "exp_avg_sq": stored.get_tensor(f"exp_avg_sq.{name}").to(one.device),
                }


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of a step: up linearly, then half a cosine down."""
    warm = round(recipe.warm_up * steps)
    if step < warm:
        return recipe.rate * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    return recipe.rate * (recipe.least + (1 - recipe.least) * (1 + math.cos(math.pi * share)) / 2)


def batches(count: int, recipe: Recipe) -> list[list[int]]:
    """The tasks of each step: all of them, in an order of its own, in every epoch."""

    def endless() -> Iterator[list[int]]:
        for epoch in range(10**9):
            order = list(range(count))
            random.Random(f"{recipe.seed}:{epoch}").shuffle(order)
            yield from (order[at : at + recipe.prompts] for at in range(0, count, recipe.prompts))

    steps = recipe.steps or recipe.epochs * -(-count // recipe.prompts)
    return [some for some, _ in zip(endless(), range(steps), strict=False)]

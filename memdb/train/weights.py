"""Weights under training, for the reranker and the encoder: what the optimizer holds, and its file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

WEIGHT_DECAY: Final = 0.01
CLIP: Final = 1.0  # longest gradient


def trunk(weights: Path) -> Any:
    """The pre-trained BERT in a folder, its embeddings frozen.

    Attention is the eager one, which trains faster than the fused one on CPUs; there is no dropout, as
    drawing the random numbers costs a CPU more than the products.
    """
    from transformers import BertModel

    made: Any = BertModel.from_pretrained(
        weights,
        add_pooling_layer=False,
        attn_implementation="eager",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    made.embeddings.requires_grad_(False)
    return made


class Weights:
    """The float32 weights that AdamW moves, of which a module's own, perhaps bfloat16, are rounded copies.

    `rate` rises linearly over a share `warm_up` of the steps and then falls linearly to nothing. Weights are
    averaged over the last share `averaged` of the steps. State is stored as safetensors in `file`.
    """

    def __init__(
        self, module: Any, file: Path, *, rate: float, warm_up: float, averaged: float = 0.0
    ) -> None:
        import torch

        self._module, self._file = module, file
        self._rate, self._warm_up, self._share_averaged = rate, warm_up, averaged
        self._own = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self.tensors = {name: one.detach().float().clone() for name, one in self._own.items()}
        self._optimizer = torch.optim.AdamW(self.tensors.values(), lr=0.0, weight_decay=WEIGHT_DECAY)
        self._averages = {name: torch.zeros_like(one) for name, one in self.tensors.items()}
        self.averaged = 0
        self.step = 0

    def restore(self) -> None:
        """Go on from the file, if there is one."""
        from safetensors import safe_open

        if not self._file.is_file():
            return
        with safe_open(self._file, "pt") as stored:
            self.step, self.averaged = (int(stored.metadata()[key]) for key in ("step", "averaged"))
            for name, one in self.tensors.items():
                one.data.copy_(stored.get_tensor(f"model.{name}"))
                self._averages[name].copy_(stored.get_tensor(f"average.{name}"))
                self._optimizer.state[one] = {
                    "step": stored.get_tensor(f"step.{name}"),
                    "exp_avg": stored.get_tensor(f"first.{name}").to(one.device),
                    "exp_avg_sq": stored.get_tensor(f"second.{name}").to(one.device),
                }
        self._round()

    def save(self) -> None:
        """Write the file beside the old one, then in its place."""
        from safetensors.torch import save_file

        tensors: dict[str, torch.Tensor] = {}
        for name, one in self.tensors.items():
            state = self._optimizer.state[one]
            tensors |= {
                f"model.{name}": one.data,
                f"average.{name}": self._averages[name],
                f"step.{name}": state["step"],
                f"first.{name}": state["exp_avg"],
                f"second.{name}": state["exp_avg_sq"],
            }
        beside = self._file.with_suffix(".new")
        save_file(tensors, beside, {"step": str(self.step), "averaged": str(self.averaged)})
        beside.replace(self._file)

    def advance(self, value: torch.Tensor, steps: int) -> None:
        """One of `steps` steps down the gradient of `value`."""
        import torch

        warm = max(1, round(self._warm_up * steps))
        share = min((self.step + 1) / warm, (steps - self.step) / max(1, steps - warm))
        for settings in self._optimizer.param_groups:
            settings["lr"] = self._rate * share
        self._module.zero_grad(set_to_none=True)
        value.backward()
        for name, one in self._own.items():
            self.tensors[name].grad = None if one.grad is None else one.grad.float()
        torch.nn.utils.clip_grad_norm_(list(self.tensors.values()), CLIP)
        self._optimizer.step()
        self._round()
        self.step += 1
        if self.step > (1 - self._share_averaged) * steps:
            self.averaged += 1
            for name, one in self.tensors.items():
                self._averages[name].lerp_(one.data, 1 / self.averaged)

    def settle(self) -> None:
        """Put the averaged weights in place of the last ones."""
        if self.averaged:
            for name, one in self.tensors.items():
                one.copy_(self._averages[name])
            self._round()

    def write(self, weights: Path, out: Path) -> None:
        """Write what `memdb.models.export` reads: the tensors by the trunk's names, config, tokenizer."""
        write_checkpoint({**self._module.state_dict(), **self.tensors}, weights, out)

    def _round(self) -> None:
        for name, one in self._own.items():
            one.data.copy_(self.tensors[name])


def write_checkpoint(tensors: Mapping[str, torch.Tensor], weights: Path, out: Path) -> None:
    """A folder with model.safetensors, and the config and tokenizer of the trunk in `weights`."""
    from safetensors.torch import save_file

    named = {
        name.removeprefix("bert."): value.detach().float().cpu().contiguous()
        for name, value in tensors.items()
        if not name.endswith("position_ids")
    }
    save_file(named, out / "model.safetensors")
    for file in ("config.json", "tokenizer.json"):
        shutil.copyfile(weights / file, out / file)

"""DistillPO in TRL's GRPO trainer, for models that need several GPUs: the objective of `train/distillpo.py`.

    accelerate launch --num_processes 4 --mixed_precision bf16 -m memdb.train.distillpo_trl
        --data INSTANCES.jsonl --backbone FOLDER --out OUT --recipe llama-3.1-8b

TRL's loss takes an advantage for each token, [B, T]: only what is compared with what differs. A group has
G + 1 rows, the last of which becomes the anchor; without an anchor it stays a sample. This rests on private
methods of TRL and holds for the release named below. Loading this module loads TRL and torch, so nothing in
memdb imports it when it is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from accelerate import PartialState
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from memdb.errors import ModelError
from memdb.train import distillpo_options
from memdb.train.anchors import anchor
from memdb.train.distillpo import Reward, Task, advantages, classes
from memdb.train.distillpo_policy import FolderTokens, ModelPolicy, load
from memdb.train.distillpo_recipe import MODES, Recipe, recipe_of
from memdb.train.instances import read
from memdb.train.rewards import COMPONENTS, rewards

RELEASE: Final = "1.16.0"


class DistillPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPO with an advantage for each span and an anchor in each group (DeferMem section 3.3).

    `args` are best made by `config`. Raises ModelError for another release of TRL.
    """

    def __init__(
        self, policy: ModelPolicy, args: GRPOConfig, tasks: Sequence[Task], reward: Reward, recipe: Recipe
    ) -> None:
        if version("trl") != RELEASE:
            raise ModelError(f"TRL is {version('trl')}, not {RELEASE}", hint=f"pip install trl=={RELEASE}")
        if not isinstance(policy.tokens, FolderTokens):
            raise ModelError("TRL needs a tokenizer of transformers", hint="give a folder, not a GGUF file")
        self._policy, self._tasks, self._reward, self._recipe = policy, tasks, reward, recipe
        self._rows: list[Task] = []  # of the batch at hand
        self._sums: list[float] = []
        self._per_token: list[torch.Tensor] = []
        super().__init__(
            model=policy.module,
            reward_funcs=self.total,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "", "task": at} for at in range(len(tasks))]),
            processing_class=policy.tokens.tokenizer,
        )

    def total(self, **_: Any) -> list[float]:
        """The weighted sum of the rewards of each completion, for TRL's log."""
        return self._sums

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._rows = [self._tasks[row["task"]] for row in inputs]
        made: dict[str, Any] = super()._generate_and_score_completions(inputs)
        width = made["completion_ids"].shape[1]
        rows = [torch.nn.functional.pad(row, (0, width - len(row))) for row in self._per_token]
        made["advantages"] = torch.stack(rows).to(made["completion_ids"].device)  # [B, T]
        return made

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [self._policy.prompt(task.instance) for task in self._rows], None, {}

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """As TRL does, then every (G + 1)-th row becomes the anchor."""
        prompt_ids, completion_ids, tool_mask, completions, logprobs, *more = super()._generate(prompts)
        last = self.num_generations - 1
        first = self.accelerator.process_index * len(prompts)
        for row, task in enumerate(self._rows):
            if (
                not self.model.training
                or not self._recipe.anchor
                or task.anchor is None
                or (first + row) % self.num_generations != last
            ):
                continue
            completion_ids[row] = list(self._policy.ids(task.anchor))
            completions[row] = task.anchor
            if logprobs is not None:  # the sampler's own: TRL does not correct by what is not there
                logprobs[row] = [None] * len(completion_ids[row])
        return prompt_ids, completion_ids, tool_mask, completions, logprobs, *more

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        """Also the advantages of each token, from the rewards of whole groups, which processes may share."""
        decode = self._policy.decode
        told = [
            self._reward(decode(ids), task.instance)
            for ids, task in zip(completion_ids_list, self._rows, strict=True)
        ]
        mine = torch.tensor(told, dtype=torch.float64, device=self.accelerator.device)  # [B, 8]
        self._sums = [float(np.dot(row, self._recipe.weights)) for row in told]
        size = self.num_generations if self.model.training else self.num_generations_eval
        groups = self.accelerator.gather(mine).view(-1, size, COMPONENTS).cpu().numpy()
        by_class = np.concatenate(
            [advantages(group, self._recipe.weights, self._recipe.advantage) for group in groups]
        )
        first = self.accelerator.process_index * len(prompts)
        self._per_token = [
            torch.tensor([row[c] for c in classes(ids, decode, self._recipe.rule)], dtype=torch.float32)
            for ids, row in zip(completion_ids_list, by_class[first:], strict=False)
        ]
        scored: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return scored


def config(recipe: Recipe, out: Path, tasks: int, processes: int = 1, **more: Any) -> GRPOConfig:
    """The recipe as TRL has it: one step is `prompts` groups of G + 1 rows, over all processes."""
    group = recipe.group + recipe.anchor
    rows = recipe.prompts * group
    told: dict[str, Any] = {
        "output_dir": str(out),
        "num_generations": group,
        "per_device_train_batch_size": recipe.rows,
        "gradient_accumulation_steps": max(1, rows // (recipe.rows * processes)),
        "num_iterations": recipe.updates,
        "max_steps": recipe.steps or recipe.epochs * -(-tasks // recipe.prompts),
        "learning_rate": recipe.rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": recipe.warm_up,
        "adam_beta1": recipe.betas[0],
        "adam_beta2": recipe.betas[1],
        "weight_decay": recipe.weight_decay,
        "max_grad_norm": recipe.clip,
        "loss_type": "dapo",
        "epsilon": recipe.epsilon,
        "epsilon_high": recipe.epsilon_high,
        "beta": 0.0,
        "scale_rewards": "group",
        "mask_truncated_completions": False,
        "temperature": recipe.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "max_completion_length": recipe.completion_tokens,
        "bf16": recipe.precision == "bfloat16",
        "gradient_checkpointing": recipe.checkpointing,
        "remove_unused_columns": False,
        "save_steps": recipe.checkpoint_steps,
        "seed": recipe.seed,
        "report_to": "none",
    }
    return GRPOConfig(**{**told, **more})


def main() -> None:
    """Read the command line, train."""
    modes = {*MODES} - {"sft"}
    parser = distillpo_options.training("Train a distiller by DistillPO on TRL.", "llama-3.1-8b", modes)
    parser.add_argument("--vllm", action="store_true", help="generate with vLLM beside the model")
    args = parser.parse_args()
    recipe = recipe_of(args.recipe, args.mode, args.seed, args.set)
    judge = distillpo_options.judge_of(args.judge)
    policy = load(args.backbone, recipe, args.adapter, device="cpu")  # TRL moves it
    tasks = [Task(one, anchor(one, judge)) for one in read(args.data) if policy.fits(one)]
    print(json.dumps({"tasks": len(tasks), "anchors": sum(one.anchor is not None for one in tasks)}))
    reward = partial(rewards, judge=judge, gating=recipe.gating)
    processes = PartialState().num_processes
    more = {"use_vllm": args.vllm, "vllm_mode": "colocate", "vllm_importance_sampling_correction": False}
    trainer = DistillPOTrainer(
        policy, config(recipe, args.out, len(tasks), processes, **more), tasks, reward, recipe
    )
    trainer.train()
    trainer.save_model(str(args.out / "adapter"))


if __name__ == "__main__":
    main()

"""The options that training a distiller, by either loop, and measuring one have in common."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from memdb.train.distillpo_recipe import MODES, RECIPES
from memdb.train.rewards import Judge, ModelJudge, RuleJudge


def measuring(description: str, recipe: str = "smollm2-135m") -> argparse.ArgumentParser:
    """A parser of what is measured, by which judge, with the model of which recipe."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="JSONL of memdb.train.instances")
    parser.add_argument("--backbone", type=Path, required=True, help="GGUF file, or folder of transformers")
    parser.add_argument("--adapter", type=Path, help="LoRA weights of an earlier run")
    parser.add_argument("--judge", type=Path, help="GGUF file of a judge; rules judge without one")
    parser.add_argument("--recipe", choices=sorted({*RECIPES} - {"ci"}), default=recipe)
    parser.add_argument("--set", nargs="+", default=(), metavar="KEY=VALUE", help="of the recipe")
    return parser


def training(
    description: str, recipe: str = "smollm2-135m", modes: Collection[str] = MODES
) -> argparse.ArgumentParser:
    """The same with where to write, what to leave out of DistillPO, and a seed."""
    parser = measuring(description, recipe)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--mode", choices=sorted(modes), default="distillpo")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def judge_of(file: Path | None) -> Judge:
    """A model's judge, or the rules'. Raises ModelError for a file that is no model."""
    if file is None:
        return RuleJudge()
    from memdb.models.llama import LlamaBackbone

    return ModelJudge(LlamaBackbone(file))

"""Merge LoRA weights into the model they were trained beside, and write what llama.cpp serves.

With W a matrix of the dequantised model, A [r, in] and B [out, r] the adapter's beside it, and s its scale,
α / r, the served model has W + s B A (LoRA, Hu et al. 2021, section 4.1). Nothing is left of the adapter, and
it costs nothing to serve.

    python -m memdb.train.merge_adapter --backbone GGUF --adapter FOLDER --prompt distill_brief --name NAME
        --out FOLDER [--precision F16] [--licence NAME] [--data TEXT] [--seed N] [--metrics FILE]

writes model.gguf and card.json, the folder that `memdb.generate.distiller.load_distiller` reads.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged, ModelError, ModelNotFound
from memdb.generate.distill_prompt import STYLES, Style
from memdb.models.card import DistillerCard, sha256_of
from memdb.train.backbone import Stored, export_gguf
from memdb.version import __version__

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
PREFIX: Final = "base_model.model."  # what PEFT puts before a name
# What else an adapter may be or hold, and how it says that it does not: it could not be merged like this.
PLAIN: Final[dict[str, tuple[object, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "modules_to_save": (None, []),
    "alpha_pattern": ({}, None),
    "rank_pattern": ({}, None),
    "fan_in_fan_out": (False, None),
}


class _Config(msgspec.Struct):
    r: int
    lora_alpha: float
    use_rslora: bool | None = False


def changes_of(adapter: Path) -> dict[str, NDArray[np.float32]]:
    """s B A of each matrix, float32 [out, in], by the name that transformers gives it, without `.weight`.

    Raises ModelNotFound where a file is missing, ModelDamaged for one that cannot be read or lacks half of a
    pair, ModelError for an adapter that is more than A and B of one rank.
    """
    scale = _scale(adapter)
    tensors, changes = _tensors(adapter), {}
    for name in sorted(tensors):
        stem, _, half = name.removesuffix(".weight").rpartition(".")
        if half not in ("lora_A", "lora_B") or not name.startswith(PREFIX):
            raise ModelError(f"the adapter holds {name}, which is none of the matrices A and B")
        other = tensors.get(f"{stem}.{'lora_B' if half == 'lora_A' else 'lora_A'}.weight")
        if other is None:
            raise ModelDamaged(f"{adapter} has {name} and not the other half of it")
        if half == "lora_A":
            changes[stem.removeprefix(PREFIX)] = np.float32(scale) * (other @ tensors[name])
    return changes


def _scale(adapter: Path) -> float:
    file = adapter / CONFIG
    try:
        said = json.loads(file.read_bytes())
        config = msgspec.convert(said, _Config)
    except FileNotFoundError as error:
        raise ModelNotFound(f"{adapter} has no {CONFIG}", hint="give what save_pretrained wrote") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise ModelDamaged(f"{file} cannot be read: {error}") from error
    for key, plain in PLAIN.items():
        if said.get(key, plain[0]) not in plain:
            hint = "train a plain LoRA adapter"
            raise ModelError(f"an adapter of {key} {said[key]!r} is not merged here", hint=hint)
    if config.r < 1:
        raise ModelDamaged(f"{file} says a rank of {config.r}")
    return config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)


def _tensors(adapter: Path) -> dict[str, NDArray[np.float32]]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (adapter / WEIGHTS).is_file():
        raise ModelNotFound(f"{adapter} has no {WEIGHTS}", hint="give what save_pretrained wrote")
    try:
        found = load_file(adapter / WEIGHTS)
    except SafetensorError as error:
        raise ModelDamaged(f"{adapter / WEIGHTS} cannot be read: {error}") from error
    return {name: one.float().numpy() for name, one in found.items()}


def merged(backbone: Path, adapter: Path, out: Path, precision: Stored = "F16") -> Path:
    """Write the GGUF file of a model with its adapter merged in, every matrix of `precision`.

    Raises what `changes_of` and `backbone.export_gguf` raise.
    """
    return export_gguf(backbone, out, precision=precision, added=changes_of(adapter))


def write_distiller(
    out: Path,
    backbone: Path,
    adapter: Path,
    *,
    name: str,
    prompt: Style,
    precision: Stored = "F16",
    licence: str = "",
    made: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> DistillerCard:
    """Write a folder with model.gguf and card.json; the card. Raises what `merged` raises."""
    out.mkdir(parents=True, exist_ok=True)
    file = merged(backbone, adapter, out / "model.gguf", precision)
    card = DistillerCard(
        name=name,
        files={file.name: sha256_of(file)},
        licence=licence,
        base=backbone.stem,
        base_sha256=sha256_of(backbone),
        prompt=prompt,
        metrics=dict(metrics or {}),
        made={"memdb": __version__, "precision": precision, **(made or {})},
    )
    told = {"kind": "distiller", **msgspec.to_builtins(card)}
    (out / "card.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return card


def main() -> None:
    """Read the command line, write the folder."""
    parser = argparse.ArgumentParser(description="Merge LoRA weights into a GGUF file that llama.cpp serves.")
    parser.add_argument("--backbone", type=Path, required=True, help="GGUF file that was trained beside")
    parser.add_argument("--adapter", type=Path, required=True, help="folder that save_pretrained wrote")
    parser.add_argument("--prompt", choices=STYLES, required=True, help="what it was trained on")
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--precision", choices=get_args(Stored), default="F16")
    parser.add_argument("--licence", default="", help="of model and data")
    parser.add_argument("--data", default="", help="what it was trained on, in words")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="JSON object for the card")
    args = parser.parse_args()
    card = write_distiller(
        args.out,
        args.backbone,
        args.adapter,
        name=args.name,
        prompt=args.prompt,
        precision=args.precision,
        licence=args.licence,
        made={key: value for key in ("data", "seed") if (value := getattr(args, key)) not in ("", None)},
        metrics=json.loads(args.metrics.read_bytes()) if args.metrics else None,
    )
    print(json.dumps({"name": card.name, "sha256": card.sha256}))


if __name__ == "__main__":
    main()

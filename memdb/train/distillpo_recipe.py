"""How distillers are trained: the numbers of DistillPO, for each model, and the switches of its ablations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from memdb.errors import InputError
from memdb.generate.distill_prompt import Style
from memdb.train.rewards import COMPONENTS, Gating

EACH: Final = (1.0,) * COMPONENTS  # weights of the rewards
ANSWER_ONLY: Final = tuple(float(number == 6) for number in range(COMPONENTS))


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a distiller is trained; the defaults are those for Llama-3.1-8B. The model and the rank are
    DeferMem's (section 4.1, appendix B.2), ε is DAPO's; the other numbers are not given, and our choice.

    `group` is G. A step has the groups of `prompts` instances and `updates` updates; there are `steps` of
    them, or `epochs` over the data. The rate rises linearly over a share `warm_up` of the steps and falls
    along half a cosine to a share `least` of it. The prompt is of `style`. `rows` sequences are evaluated
    together; with `checkpointing` activations are computed again on the way back. The switches of the
    ablations: `anchor`, `advantage` of the tokens' spans or one scalar, `weights` of the rewards, their
    `gating`, and the `rule` by which a token belongs to the span it overlaps, or in which it starts.
    """

    group: int = 8
    prompts: int = 4
    updates: int = 1
    epochs: int = 3
    steps: int | None = None
    rate: float = 1e-5
    warm_up: float = 0.05
    least: float = 0.0
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    clip: float = 1.0
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    temperature: float = 1.0
    style: Style = "distill"
    prompt_tokens: int = 24_000
    completion_tokens: int = 1_024
    rows: int = 1
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    checkpointing: bool = True
    anchor: bool = True
    advantage: Literal["span", "scalar"] = "span"
    weights: tuple[float, ...] = EACH
    gating: Gating = "leaky"
    rule: Literal["overlap", "start"] = "overlap"
    checkpoint_steps: int = 10
    seed: int = 0


RECIPES: Final = {
    "llama-3.1-8b": Recipe(),
    "smollm2-135m": Recipe(
        group=4, prompts=1, steps=40, rate=5e-5, style="distill_brief", prompt_tokens=1_024,
        completion_tokens=96, rows=5, lora_dropout=0.0, precision="float32", checkpointing=False,
    ),
    "ci": Recipe(
        group=6, prompts=8, steps=40, rate=3e-3, warm_up=0.0, least=1.0, rows=7, precision="float32",
        checkpointing=False,
    ),
}  # fmt: skip
# What supervised learning from the anchors does otherwise.
SUPERVISED: Final[dict[str, dict[str, Any]]] = {
    "llama-3.1-8b": {"rate": 1e-4, "prompts": 16},
    "smollm2-135m": {"rate": 2e-4, "prompts": 4, "steps": None, "epochs": 3},
    "ci": {},
}
MODES: Final[dict[str, dict[str, Any]]] = {
    "distillpo": {},
    "no-anchor": {"anchor": False},
    "scalar": {"advantage": "scalar"},
    "vanilla": {"advantage": "scalar", "anchor": False},
    "answer-only": {"advantage": "scalar", "weights": ANSWER_ONLY},
    "strict": {"gating": "strict"},
    "ungated": {"gating": "none"},
    "start-rule": {"rule": "start"},
    "sft": {},
}


def recipe_of(name: str, mode: str = "distillpo", seed: int = 0, changed: Sequence[str] = ()) -> Recipe:
    """The recipe for a model with what a mode changes of it, and then `changed`, each as `rate=1e-4`.

    Raises InputError for what a recipe does not have.
    """
    by_mode = MODES[mode] if mode != "sft" else SUPERVISED[name]
    told = msgspec.to_builtins(msgspec.structs.replace(RECIPES[name], seed=seed, **by_mode))
    for one in changed:
        key, _, value = one.partition("=")
        if key not in told:
            raise InputError(f"a recipe has no {key!r}", hint=f"it has {', '.join(told)}")
        told[key] = value
    try:
        return msgspec.convert(told, Recipe, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"the recipe cannot be changed so: {error}") from error

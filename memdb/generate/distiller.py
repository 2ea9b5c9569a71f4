"""From a name or a file to a distiller: a language model, and the prompt it was trained on, which its card
names.
"""

from __future__ import annotations

from pathlib import Path

from memdb.errors import ModelDamaged
from memdb.generate.distill import Distiller, ModelDistiller
from memdb.generate.distill_prompt import STYLES
from memdb.models import registry
from memdb.models.card import DistillerCard, read_card_of
from memdb.models.ports import Backbone


class OwnDistiller(ModelDistiller):
    """A `ModelDistiller` whose backbone nobody else has: who has it loaded closes it."""

    def close(self) -> None:
        """Give back what the model holds; twice is allowed."""
        self._backbone.close()


def load_distiller(
    spec: str | Path, *, threads: int | None = None, context_tokens: int | None = None
) -> OwnDistiller:
    """The distiller that `spec` names: a folder with a card, `hub:org/name`, or what `load_backbone` takes.

    A model without a card is asked by the full prompt. `threads` and `context_tokens` are those of
    `load_backbone`. Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its
    card names, or the card names a prompt that memdb does not have, InputError for a model of another kind,
    and what the backbone raises when it cannot be made.
    """
    name = str(spec)
    if name.endswith(registry.GGUF) or name.startswith(registry.OPENAI):
        return OwnDistiller(registry.load_backbone(spec, threads=threads, context_tokens=context_tokens))
    folder = registry.find(spec, kind="distiller")
    card = read_card_of(folder, DistillerCard)
    style = next((one for one in STYLES if one == card.prompt), None)
    if style is None:
        hint = f"this version has {' and '.join(STYLES)}: install a newer one, or train it again"
        raise ModelDamaged(f"{card.name} was trained on the prompt {card.prompt!r}", hint=hint)
    file = folder / card.model
    return OwnDistiller(registry.load_backbone(file, threads=threads, context_tokens=context_tokens), style)


def as_distiller(given: Distiller | Backbone | str | Path | None) -> Distiller | None:
    """A distiller as it is, one that asks a backbone by the full prompt, or the one that a text or a path
    names, which is an `OwnDistiller`. Raises what `load_distiller` raises.
    """
    if isinstance(given, str | Path):
        return load_distiller(given)
    return ModelDistiller(given) if isinstance(given, Backbone) else given

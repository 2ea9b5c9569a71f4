"""What every model says of itself, kept in one place for the implementations of the ports."""

from __future__ import annotations

from collections.abc import Sequence

from memdb.models.ports import FIELDS, Field


class Described:
    """Name, digest and length of a model: see `ports.Encoder` and `ports.Reranker`."""

    def __init__(self, name: str, sha256: str, max_tokens: int) -> None:
        self._name, self._sha256, self._max_tokens = name, sha256, max_tokens

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._name

    @property
    def sha256(self) -> str:
        """Hex digest of the model file."""
        return self._sha256

    @property
    def max_tokens(self) -> int:
        """Tokens that count, those of templates and prompts included."""
        return self._max_tokens


class DescribedReranker(Described):
    """The same of a reranker, and the parts of a document it is to read."""

    def __init__(self, name: str, sha256: str, max_tokens: int, fields: Sequence[Field] = FIELDS) -> None:
        super().__init__(name, sha256, max_tokens)
        self._fields = tuple(fields)

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `ports.Reranker`."""
        return self._fields

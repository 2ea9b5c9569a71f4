"""What every model says of itself, kept in one place for the implementations of the ports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged, ModelError
from memdb.models.ports import FIELDS, Field


class Named:
    """Name and digest of a model."""

    def __init__(self, name: str, sha256: str) -> None:
        self._name, self._sha256 = name, sha256

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._name

    @property
    def sha256(self) -> str:
        """Hex digest of the model file."""
        return self._sha256


class Described(Named):
    """Name, digest and length of a model: see `ports.Encoder` and `ports.Reranker`."""

    def __init__(self, name: str, sha256: str, max_tokens: int) -> None:
        super().__init__(name, sha256)
        self._max_tokens = max_tokens

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


class DescribedGraphEncoder(Named):
    """What a graph encoder says of itself, and what it takes: see `ports.GraphEncoder`."""

    def __init__(
        self, name: str, sha256: str, *, encoder_sha256: str, backbone_sha256: str, dimension: int, width: int
    ) -> None:
        super().__init__(name, sha256)
        self._encoder_sha256, self._backbone_sha256 = encoder_sha256, backbone_sha256
        self._dimension, self._width = dimension, width

    @property
    def encoder_sha256(self) -> str:
        """See `ports.GraphEncoder`."""
        return self._encoder_sha256

    @property
    def backbone_sha256(self) -> str:
        """See `ports.GraphEncoder`."""
        return self._backbone_sha256

    @property
    def dimension(self) -> int:
        """See `ports.GraphEncoder`."""
        return self._dimension

    @property
    def width(self) -> int:
        """See `ports.GraphEncoder`."""
        return self._width

    def _whole(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row as it is. Raises ModelDamaged for another width, ModelError where it is not finite."""
        if row.shape != (self._width,):
            raise ModelDamaged(f"the graph encoder {self._name} gives {row.shape}, not [{self._width}]")
        if not np.isfinite(row).all():
            raise ModelError(f"the graph encoder {self._name} gave what is no finite number")
        return row

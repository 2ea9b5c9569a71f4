"""What memdb asks of a neural model. Every implementation passes `tests/conformance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError

Kind = Literal["document", "query"]


@runtime_checkable
class Encoder(Protocol):
    """Texts in, unit vectors out. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What the model is called; a file records it to know its own vectors."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the model file: two encoders with one digest give one vector space."""
        ...

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that count, special tokens included; the rest is cut off."""
        ...

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """float32 [len(texts), dimension]: one finite row of L2 norm 1 per text, in the order given.

        Every str is legal: empty, with NUL bytes, with lone surrogates, of any length. A row depends on its
        text and `kind` alone, not on its neighbours. No texts give shape [0, dimension].
        Raises ModelError when the model cannot run, InputError when `texts` is one str or holds non-strings.
        """
        ...


def require_texts(texts: Sequence[str]) -> None:
    """Raises InputError for one str, the commonest slip, and for anything in the list that is no str."""
    if isinstance(texts, str):
        raise InputError("encode() takes a list of texts, not one text", hint="write encode([text])")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {position} is a {type(text).__name__}, not a str")

"""What memdb asks of a neural model. Every implementation passes `tests/conformance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec
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


class Turn(msgspec.Struct, frozen=True):
    """One turn of a prompt. `text` is data: nothing in it is ever read as a control token."""

    role: Literal["system", "user", "assistant"]
    text: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a backbone wrote, and what it cost.

    `finish` is "length" when the text was cut off at the token limit. `cached_tokens` are those of
    `prompt_tokens` that did not have to be read again.
    """

    text: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int


@runtime_checkable
class Backbone(Protocol):
    """A language model: turns in, text out. Safe to share between threads; `close` may be called twice."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def identity(self) -> str:
        """Name and, where the weights are at hand, the first 8 hex digits of their sha256; a file records it
        to say who wrote a part of it.
        """
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens of a prompt and its completion together."""
        ...

    @property
    def parallel(self) -> int:
        """Calls that may usefully run at the same time."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, template tokens left out; an upper estimate where the tokenizer is not known."""
        ...

    def complete(
        self, turns: Sequence[Turn], *, max_tokens: int, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """The model's answer to `turns`, at temperature 0: the same turns give the same text.

        With `schema` (JSON Schema) the text is a JSON document of that shape as far as the model was not cut
        off, where the backbone can constrain it; what it cannot constrain, the caller has to check anyway.
        Every str is legal as a turn's text.
        Raises InputError for no turns, a last turn that is not the user's, max_tokens below 1, or a prompt
        that does not leave room for max_tokens; ModelUnavailable when the model cannot be reached or refuses
        to serve; ModelError when it cannot run.
        """
        ...

    def close(self) -> None:
        """Give back what the model holds."""
        ...

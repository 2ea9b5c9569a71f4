"""Text to token ids and back, and the tokens that a schema allows next."""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelError
from memdb.models.llama_library import Native, fail, library
from memdb.models.ports import OnText, rooted, valid_unicode

SLICE_CHARACTERS = 65_536  # of a text tokenised at once: bounds the recursion of the splitting expressions
LIKELY_TOKENS = 128  # tried against a grammar before the whole vocabulary is
GRAMMAR_REPEATS = 1_000  # longest maxLength or maxItems that llama.cpp's grammars take
ANY_CHARACTER = 'char ::= [^"\\\\]'  # of a string, as the notation comes
JSON_CHARACTER = 'char ::= [^"\\\\\\x00-\\x1F]'  # without control characters, which no JSON string holds
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


class Vocabulary:
    """Text to token ids and back."""

    def __init__(self, model: Native) -> None:
        native = library()
        self.pointer = native.llama_model_get_vocab(model)
        self.size = int(native.llama_vocab_n_tokens(self.pointer))
        bos = int(native.llama_vocab_bos(self.pointer))
        self.first = bos if native.llama_vocab_get_add_bos(self.pointer) and bos >= 0 else None
        self.ends = {token for token in range(self.size) if native.llama_vocab_is_eog(self.pointer, token)}

    @cached_property
    def controls(self) -> NDArray[np.int64]:
        """Control tokens that end nothing: a grammar would take their names for text."""
        is_control = library().llama_vocab_is_control
        found = [token for token in range(self.size) if is_control(self.pointer, token)]
        return np.array([token for token in found if token not in self.ends], np.int64)

    def control(self, text: str) -> list[int]:
        """Ids of a piece of the chat template, control tokens read as such."""
        return self._ids(text, special=True)

    def text(self, text: str) -> Iterator[list[int]]:
        """Ids of a turn's text, slice by slice; no part of it is a control token."""
        text = valid_unicode(text)
        for start in range(0, len(text), SLICE_CHARACTERS):
            yield self._ids(text[start : start + SLICE_CHARACTERS], special=False)

    def _ids(self, text: str, *, special: bool) -> list[int]:
        native, data = library(), text.encode()
        room = len(data) + 8  # a token is a byte at least, and a blank may be put in front
        buffer = (native.llama_token * room)()
        count = native.llama_tokenize(self.pointer, data, len(data), buffer, room, False, special)
        if count < 0:
            fail(f"a text of {len(data)} bytes could not be tokenised")
        return list(buffer[:count])

    def piece(self, token: int) -> bytes:
        """The bytes of a token, none for a control token."""
        native, room = library(), 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = native.llama_token_to_piece(self.pointer, token, buffer, room, 0, False)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def name(self, token: int) -> str:
        """A token as the chat template writes it; empty for one the vocabulary lacks."""
        found = library().llama_vocab_get_text(self.pointer, token) if token >= 0 else None
        return (found or b"").decode("utf-8", "replace")


class Characters:
    """Bytes on their way to a text: a character waits until it is whole, and one that was cut off at the end
    is left out. Other bytes that are no UTF-8 become U+FFFD. `told` gets every piece as it comes.
    """

    def __init__(self, told: OnText | None = None) -> None:
        self._told, self._pieces = told, list[str]()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def text(self) -> str:
        """All pieces so far."""
        return "".join(self._pieces)

    def add(self, data: bytes) -> None:
        """Raises what `told` does."""
        if piece := self._decoder.decode(data):
            self._pieces.append(piece)
            if self._told is not None:
                self._told(piece)


class Constraint:
    """A grammar on its way through one text. To be freed."""

    def __init__(self, vocabulary: Vocabulary, rules: str) -> None:
        self._vocabulary = vocabulary
        self._rows = np.zeros(vocabulary.size, CANDIDATE)
        self._sampler = library().llama_sampler_init_grammar(vocabulary.pointer, rules.encode(), b"root")
        if not self._sampler:  # llama.cpp would follow the null pointer
            fail("llama.cpp refuses the schema's grammar", "make it shorter")

    def choose(self, logits: NDArray[np.float32], likeliest: int) -> int:
        """The likeliest allowed token, which is taken. Trying all of them costs as much as evaluating one."""
        token: int | None = likeliest if self._allowed(np.array([likeliest])).all() else None
        if token is None:
            rank = min(LIKELY_TOKENS, len(logits))
            token = self._best(logits, np.sort(np.argpartition(-logits, rank - 1)[:rank]))
        if token is None:
            token = self._best(logits, np.arange(len(logits)))
        if token is None:
            raise ModelError("no token of the model continues a text of the schema")
        if token not in self._vocabulary.ends:
            library().llama_sampler_accept(self._sampler, token)
        return token

    def free(self) -> None:
        """To be called once."""
        library().llama_sampler_free(self._sampler)

    def _best(self, logits: NDArray[np.float32], tokens: NDArray[np.int64]) -> int | None:
        """The likeliest of the allowed among `tokens`, ascending; None when none is."""
        allowed = tokens[self._allowed(tokens)]
        return int(allowed[np.argmax(logits[allowed])]) if len(allowed) else None

    def _allowed(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [len(tokens)]"""
        native, rows = library(), self._rows[: len(tokens)]
        rows["id"], rows["logit"] = tokens, 0
        data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(native.llama_token_data))
        candidates = native.llama_token_data_array(data, len(tokens), -1, False)
        native.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        allowed: NDArray[np.bool_] = (rows["logit"] == 0) & ~np.isin(tokens, self._vocabulary.controls)
        return allowed


def grammar(schema: Mapping[str, object]) -> str:
    """The schema in llama.cpp's grammar notation. Numeric bounds are left out.

    Raises InputError for a `$ref` that leads out of the schema, ModelError for what the notation cannot say.
    """
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    text = msgspec.json.encode(rooted(schema)).decode()
    try:
        rules = str(json_schema_to_gbnf(text))
    except (AssertionError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ModelError(f"the schema cannot be made a grammar: {type(error).__name__} {error}") from error
    rules = rules.replace(ANY_CHARACTER, JSON_CHARACTER)
    if ")?" * (GRAMMAR_REPEATS + 1) in rules:
        hint = f"no maxLength or maxItems above {GRAMMAR_REPEATS}"
        raise ModelError("the schema cannot be made a grammar: it counts too far", hint=hint)
    return rules

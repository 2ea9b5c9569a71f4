"""The tokens of plain questions without the library that tokenizes: importing it and having it read a
vocabulary takes longer than a process needs for everything else that a first question asks of the tokenizer.

It is BERT's tokenizer as far as ASCII goes: lower case, split at spaces and around each sign of punctuation,
then of each word the longest piece that the vocabulary has, again and again (Devlin et al. 2018). Pieces are
looked for in the text of `tokenizer.json` itself. What is not as expected is left to the library.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from memdb.language.patterns import lazy

NORMALIZER: Final = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "lowercase": True,
}
PRE_TOKENIZER: Final = {"type": "BertPreTokenizer"}
WORD_CHARS: Final = 40  # of the longest word that is looked up: the library takes up to 100
REMEMBERED: Final = 256  # words

_WORD: Final = lazy(r"[a-z0-9]+|[^a-z0-9 ]")
_NUMBER: Final = re.compile(rb"\d+")


class _Model(msgspec.Struct):
    type: str
    vocab: msgspec.Raw
    unk_token: str
    continuing_subword_prefix: str
    max_input_chars_per_word: int


class _Added(msgspec.Struct):
    content: str


class _File(msgspec.Struct):
    """Of `tokenizer.json`, what says how it tokenizes."""

    model: _Model
    added_tokens: list[_Added]
    normalizer: dict[str, Any] | None
    pre_tokenizer: dict[str, Any] | None
    post_processor: dict[str, Any] | None


class WordPieces:
    """A vocabulary in which pieces of words are looked up. Safe to share between threads."""

    def __init__(self, vocabulary: bytes, special: list[str], around: tuple[int, int]) -> None:
        self._vocabulary, self._special, self._around = vocabulary, special, around
        self._pieces = lru_cache(REMEMBERED)(self._pieces_of)

    def ids(self, text: str, max_tokens: int) -> list[int] | None:
        """Token ids of a text, special tokens included; None where the library has to say.

        That is text that is not ASCII or holds control characters or the name of a special token, has a very
        long word or one with a piece that is not in the vocabulary, or more than `max_tokens`.
        """
        if not (text.isascii() and text.isprintable()) or any(name in text.lower() for name in self._special):
            return None
        first, last = self._around
        ids = [first]
        for word in _WORD.findall(text.lower()):
            found = self._pieces(word)
            if not found:
                return None
            ids += found
        return [*ids, last] if len(ids) < max_tokens else None

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """Empty where it is not made of pieces."""
        found, start = list[int](), 0
        while start < len(word) <= WORD_CHARS:
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._find(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            found.append(number)
            start = end
        return tuple(found)

    def _find(self, piece: str) -> int | None:
        key = msgspec.json.encode(piece) + b":"
        at = self._vocabulary.find(key)
        while at > 0 and self._vocabulary[at - 1] not in b"{,":  # inside another key
            at = self._vocabulary.find(key, at + 1)
        if at < 0:
            return None
        number = _NUMBER.match(self._vocabulary, at + len(key))
        return None if number is None else int(number[0])


def read_word_pieces(file: Path) -> WordPieces | None:
    """The vocabulary of a `tokenizer.json`; None where it is not BERT's for text without case, or is not
    written as the library writes it.
    """
    try:
        read = msgspec.json.decode(file.read_bytes(), type=_File)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None
    vocabulary = bytes(read.model.vocab)
    normalizer = {key: value for key, value in (read.normalizer or {}).items() if value is not None}
    if (
        (normalizer, read.pre_tokenizer) != (NORMALIZER, PRE_TOKENIZER)
        or (read.model.type, read.model.continuing_subword_prefix) != ("WordPiece", "##")
        or read.model.max_input_chars_per_word < WORD_CHARS
        or any(sign in vocabulary for sign in (b" ", b"\n", b"\\u00"))  # another way to write the same
    ):
        return None
    around = _around(read.post_processor or {})
    special = [added.content.lower() for added in read.added_tokens]
    if around is None or not all(name.startswith("[") and name.endswith("]") for name in special):
        return None
    return WordPieces(vocabulary, special, around)


def _around(template: dict[str, Any]) -> tuple[int, int] | None:
    """The ids before and after a text, where there is one of each."""
    try:
        first, text, last = template["single"]
        tokens = [template["special_tokens"][one["SpecialToken"]["id"]] for one in (first, last)]
        (before,), (after,) = (token["ids"] for token in tokens)
    except (KeyError, TypeError, ValueError):
        return None
    return (before, after) if text == {"Sequence": {"id": "A", "type_id": 0}} else None

"""What the length of a context is counted in."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

TOKENIZER: Final = "memdb-encoder-v1"  # fixed, so that counts compare whatever encoder a file uses


class Counter(NamedTuple):
    """How many tokens a text has, and by whose measure."""

    name: str
    count: Callable[[str], int]


def counter() -> Counter:
    """The embedded encoder's word pieces without special tokens; words between blanks where it is missing."""
    file = resources.files("memdb.models").joinpath("weights", TOKENIZER, "tokenizer.json")
    if not file.is_file():
        return Counter("words between blanks", lambda text: len(text.split()))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(file.read_text("utf-8"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    @lru_cache(maxsize=100_000)
    def pieces(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return Counter(f"{TOKENIZER} word pieces", pieces)

"""English words without their inflection."""

from __future__ import annotations

from typing import Final

from memdb.language.verbs import BASE_OF

_ENDINGS: Final = ("ingly", "edly", "ing", "ies", "ied", "ed", "es", "s", "ly", "y", "e")
_LEAST_STEM: Final = 3


def stem(word: str) -> str:
    """A folded word without its inflection: equal for "moves", "moved", "moving" and for "go", "went"."""
    word = word.removesuffix("'s").removesuffix("’s")
    word = BASE_OF.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            word = word[: -len(ending)]
            break
    doubled = len(word) > _LEAST_STEM and word[-1] == word[-2] and not word[-1].isdigit()  # 1999 is not 199
    return word[:-1] if doubled else word

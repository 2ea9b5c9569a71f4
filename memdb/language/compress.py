"""A text without its least telling words (DeferMem section 3.2, appendix B.1): what raw messages are indexed
by.

Which words to drop, a list of stop words says here, or a token classifier (LLMLingua-2, Pan et al. 2024, in
`models/lingua.py`), whose probabilities are turned into a text here. Linear in the length of the text, but
for sorting.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from memdb.errors import InputError
from memdb.language.patterns import lazy
from memdb.language.sentences import WORD, Span, sentences
from memdb.language.terms import STOP_WORDS, tokens

STOP_WORD_COMPRESSOR: Final = "stopword-v1"  # the list and the rules: files hold vectors of what they leave
_CLOSING: Final = lazy(r"\s*[.,;:!?…)\]}”’。，！？、]")


class Word(NamedTuple):
    """Characters `start` to `end` (excluded) of a text, the mean over its tokens of the probability that they
    are kept, and how many these are.
    """

    start: int
    end: int
    probability: float
    tokens: int


def stays(word: str) -> bool:
    """Whether a word is kept whatever is said of it: with a digit in it, or with a capital at the front."""
    return word[:1].isupper() or word[:1].istitle() or any(c.isdigit() for c in word)


class StopWordCompressor:
    """Drops the stop words of English, a `ports.Compressor`; punctuation stays, at the word before it."""

    @property
    def name(self) -> str:
        """See `ports.Compressor`."""
        return STOP_WORD_COMPRESSOR

    def __call__(self, text: str) -> str:
        """See `ports.Compressor`."""
        require_text(text)
        kept, gap, end = list[str](), "", 0
        for word in WORD.finditer(text):
            gap = _joined(gap, text[end : word.start()])
            end = word.end()
            if not _stopped(word[0]):
                kept += [gap, word[0]]
                gap = ""
        kept.append(_joined(gap, text[end:]))
        short = "".join(kept)
        return short.strip() if _says_something(short) else text


def _stopped(word: str) -> bool:
    """Whether all parts of a word are stop words, as in "it's"; "don't" is none."""
    return not stays(word) and all(part in STOP_WORDS for part in tokens(word))


def _joined(left: str, right: str) -> str:
    """What stood before and after a dropped word, without the blanks it leaves."""
    if _CLOSING.match(right):
        return left.rstrip() + right
    return left + right.lstrip() if left[-1:].isspace() else left + right


def _says_something(text: str) -> bool:
    """Whether anything but blanks and punctuation is in it."""
    return any(unicodedata.category(c)[0] in "LMNS" for c in text)


def require_text(text: str) -> None:
    """Raises InputError for what is no str."""
    if not isinstance(text, str):
        raise InputError(f"a compressor takes a str, not a {type(text).__name__}")


def require_rate(rate: float) -> None:
    """Raises InputError for a share of words that is none, or not above 0."""
    if not 0 < rate <= 1:
        raise InputError(f"the rate is {rate}: it is the share of words to keep, above 0, at most 1")


def without_unlikely(text: str, words: Sequence[Word], rate: float) -> str:
    """The words above the 100 * (1 - rate) percentile of probability, and those that stay; the text as it is
    where none is left, or at rate 1.

    Every word counts in the percentile as often as it has tokens (LLMLingua-2 counts those of GPT, here they
    are the classifier's own). A blank stands where something was between two words.
    Raises what `require_rate` raises.
    """
    require_rate(rate)
    if rate == 1 or not words:
        return text
    least = percentile([p for word in words for p in [word.probability] * word.tokens], 1 - rate)
    kept = [w for w in words if w.probability > least or stays(text[w.start : w.end])]
    if not kept:
        return text
    joints = ["" if one.end == other.start else " " for one, other in pairwise(kept)]
    spans = [text[word.start : word.end] for word in kept]
    return "".join(part for pair in zip(["", *joints], spans, strict=True) for part in pair)


def percentile(values: Sequence[float], share: float) -> float:
    """The value under which `share` of them are, linear between neighbours; of at least one value."""
    ranked = sorted(values)
    place = (len(ranked) - 1) * share
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def chunks(text: str, starts: Sequence[int], limit: int) -> list[Span]:
    """Runs of at most `limit` tokens, each cut at the last end of a sentence in it, or full where none is.

    `starts` are the places in the text at which its tokens start, in order.
    """
    ends = sorted({bisect_left(starts, sentence.end) for sentence in sentences(text)})
    found, start = list[Span](), 0
    while start < len(starts):
        full = min(start + limit, len(starts))
        last = ends[bisect_left(ends, full + 1) - 1] if ends and ends[0] <= full else 0
        end = full if full == len(starts) or last <= start else last
        found.append(Span(start, end))
        start = end
    return found

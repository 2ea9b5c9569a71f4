"""Sentences and words of any text, markdown included. Linear in the length of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memdb.language.patterns import lazy
from memdb.language.words import word_set

# A word keeps its inner apostrophes, hyphens and points: "I'm", "LH-1172", "20.04", "D.C".
WORD: Final = lazy(r"[^\W_]+(?:['’.&/-][^\W_]+)*")

_END: Final = lazy(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s)|[。！？｡]++[」』”’]?")
_FENCE: Final = lazy(r"\s*(?:```|~~~)")
_MARK: Final = lazy(r"\s*(?:(?:[-*•+>]|#{1,6}|\d{1,3}[.)]|\[[ xX]\])\s+)*")
_RULE: Final = lazy(r"[\s|:=*_-]*")
_LAST_WORD: Final = lazy(r"[^\s(\"“]*\Z")
_NEXT_WORD: Final = lazy(r"\s*([^\W\d_]*)")
_LOOKBACK: Final = 24

_TITLES: Final = word_set("mr mrs ms dr prof st mt sen rep gov gen col capt lt sgt rev hon messrs")
_ABBREVIATIONS: Final = word_set("inc ltd co corp jr sr etc eg ie approx dept est fig vol al min max")
# Words that begin a sentence and hardly ever follow an abbreviation inside one.
_STARTERS: Final = word_set(
    "The He She It I We They You This That These Those In On At But And So If When After Before",
    "Then My  His Her Our Their There Here What Who How Why Where Also However",
)


class Span(NamedTuple):
    """Characters `start` to `end` (excluded) of a text."""

    start: int
    end: int


def sentences(text: str) -> list[Span]:
    """The sentences of a text in order, without blanks around them, list marks, headings' marks and code
    blocks.

    A line break ends a sentence; so does the punctuation of any script.
    """
    found: list[Span] = []
    for start, end in _prose_lines(text):
        found.extend(_of_line(text, start, end))
    return found


def _prose_lines(text: str) -> Iterator[tuple[int, int]]:
    if "\n" not in text:
        yield 0, len(text)
        return
    start, in_code = 0, False
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if _FENCE.match(text, start, end):
            in_code = not in_code
        elif not in_code:
            yield start, end
        start = end + 1


def _of_line(text: str, start: int, end: int) -> Iterator[Span]:
    mark = _MARK.match(text, start, end)
    begin = mark.end() if mark else start
    if _RULE.fullmatch(text, begin, end):
        return
    for stop in _END.finditer(text, begin, end):
        if stop[0][0] == "." and not _ends(text, begin, stop, end):
            continue
        yield from _trimmed(text, begin, stop.end())
        begin = stop.end()
    yield from _trimmed(text, begin, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield Span(start, end)


def _ends(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Whether a full stop ends a sentence: not after a title, an initial or an abbreviation."""
    following = _NEXT_WORD.match(text, stop.end(), end)
    after = following[1] if following else ""
    if stop[0].startswith(".."):
        return not after[:1].islower()
    last = _LAST_WORD.search(text, max(begin, stop.start() - _LOOKBACK), stop.start())
    word = last[0] if last else ""
    plain = word.replace(".", "").lower()
    if plain in _TITLES:
        return not after
    initial = len(word) == 1 and word.isupper() and word != "I"
    if initial or "." in word or plain in _ABBREVIATIONS:
        return after in _STARTERS
    return True

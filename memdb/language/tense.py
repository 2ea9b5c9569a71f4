"""The tense of the clause around an expression of time: which way "in May" or "on Friday" points."""

from __future__ import annotations

from typing import Final, Literal

from memdb.language.patterns import lazy
from memdb.language.verbs import AUXILIARIES, BASES, PASTS, THIRDS

Tense = Literal["past", "present", "future", "none"]

_REACH_CHARS: Final = 160
_BREAK: Final = lazy(r"[.!?;\n。！？](?=\s|\Z)|\n")
_WORD: Final = lazy(r"[^\W_]+(?:['’][^\W_]+)*")
# Future whatever else the clause says, and future only where nothing in the clause is past.
_CERTAIN: Final = lazy(
    r"\b(?:will|won't|shall|gonna|going to|upcoming|looking forward|can't wait|about to|booked|scheduled"
    r"|remind)\b"
    r"|['’]ll\b"
)
_LIKELY: Final = lazy(
    r"\b(?:let's|let us|shall we)\b|"
    r"\b(?:plan|plans|planning|hope|hoping|hopes|hopefully|want to|wants to|would like|due|next up"
    r"|intend|aim to|need to|needs to|have to|has to|must|deadline|(?:am|are|is)\s\w{2,12}ing)\b"
    r"|['’](?:m|re)\s\w{2,12}ing\b"
)
_DOING: Final = lazy(r"\b(?:i|we|you|they)\s(?:\w+ly\s)?(\w+)")
_NOW: Final = lazy(r"['’](?:m|re)\b")
_PRESENT: Final = (AUXILIARIES | THIRDS | {"have", "need", "want"}) - {"was", "were", "had", "did"}
_PAST: Final = PASTS | {"was", "were", "wasn't", "weren't", "had", "hadn't", "did", "didn't"}


def tense(text: str, start: int, end: int) -> Tense:
    """The tense of the clause that holds characters `start` to `end`: a future form wins over a past one."""
    low = max(0, start - _REACH_CHARS)
    for mark in _BREAK.finditer(text, low, start):
        low = mark.end()
    mark_after = _BREAK.search(text, end, end + _REACH_CHARS)
    clause = text[low : mark_after.start() if mark_after else end + _REACH_CHARS].lower()
    if _CERTAIN.search(clause):
        return "future"
    words = set(_WORD.findall(clause.replace("’", "'")))
    if not _PAST.isdisjoint(words):
        return "past"
    if _LIKELY.search(clause):
        return "future"
    if _NOW.search(clause) or not _PRESENT.isdisjoint(words):
        return "present"
    return "present" if any(found[1] in BASES for found in _DOING.finditer(clause)) else "none"

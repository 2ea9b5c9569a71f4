"""What kind of answer a question asks for, read from the words it begins with."""

from __future__ import annotations

import re
from typing import Final, Literal

from memdb.language.patterns import lazy

Kind = Literal[
    "whether", "who is", "when", "how long", "how many", "where", "who", "name", "why", "how", "what"
]
MOST_CHARS: Final = 400  # of a question that are read

_BE: Final = r"(?:is|was|are|were|will\sbe)"
_WHAT: Final = r"(?:what|which)"
_PLACES: Final = (
    "city|cities|country|countries|town|place|state|village|island|venue|location|restaurant|region"
    "|continent"
    "|street"
)
_AMOUNTS: Final = (
    "number|price|cost|amount|age|weight|height|score|length|size|distance|temperature|total|percentage"
)
_WHETHER: Final = lazy(
    r"\W{0,9}(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)(?:n['’]t)?\b"
)
_ASKING: Final = lazy(r"\b(?:who|whom|whose|when|where|why|how|what|which)(?:['’]s)?\b")
_KINDS: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = tuple(
    (kind, lazy(pattern))  # type: ignore[misc]
    for kind, pattern in (
        (
            "who is",
            rf"who(?:['’]s|\s{_BE})\s(?!the\b|my\b|a\b"
            rf"|\w{{1,30}}['’]s\b)[\w'’-]{{1,40}}(?:\s[\w'’-]{{1,40}})?\W*\Z",
        ),
        (
            "when",
            rf"when\b|{_WHAT}\s(?:exact\s)?(?:dates?|days?|months?|years?|weeks?)\b"
            rf"|{_WHAT}\s(?:[\w-]{{1,30}}\s){{0,2}}(?:dates?|deadline)\b"
            rf"|what(?:['’]s|\s{_BE})\s(?:the|[\w-]{{1,30}}['’]s)\s(?:[\w-]{{1,30}}\s){{0,3}}"
            r"(?:dates?|deadline|days?)\b",
        ),
        ("how long", r"how\s(?:long|often|frequently)\b"),
        (
            "how many",
            r"how\s(?:many|much|old|far|tall|big|large|heavy|high|deep|wide|fast|powerful|expensive"
            r"|late|early)\b"
            rf"|what\stime\b|{_WHAT}\s(?:{_AMOUNTS})\b|what(?:['’]s|\s{_BE})\s(?:the|his|her|their"
            rf"|its|\w{{1,30}}['’]s)"
            rf"\s(?:[\w-]{{1,30}}\s)?(?:{_AMOUNTS})\b",
        ),
        ("where", rf"where\b|{_WHAT}\s(?:{_PLACES})\b"),
        ("who", r"who(?:m|se)?\b"),
        ("name", rf"{_WHAT}\b.{{0,80}}\b(?:names?|called|titles?|titled)\b"),
        ("why", rf"why\b|{_WHAT}\sreasons?\b|what(?:['’]s|\s{_BE})\sthe\sreason\b"),
        ("how", r"how\b"),
    )
)


def kind_of(question: str) -> Kind:
    """The kind of a question; "what" where nothing else is asked for."""
    text = question[:MOST_CHARS].casefold()
    if _WHETHER.match(text):
        return "whether"
    found = _ASKING.search(text)
    rest = text[found.start() :] if found else ""
    return next((kind for kind, pattern in _KINDS if pattern.match(rest)), "what")


_SEVERAL: Final = lazy(
    rf"\b{_WHAT}\s(?:(?:kinds?|types?|sorts?)\sof\s)?(?:[\w-]{{1,30}}\s)?(?!does\b|was\b|is\b"
    rf"|has\b)[\w-]{{2,30}}(?<![su'])s\b"
    rf"|\b{_WHAT}\s(?:all|are|were)\b|\ball\sthe\b|\bwhat\selse\b"
)


def asks_for_several(question: str) -> bool:
    """Whether a question asks for more than one thing: "which books", "what are"."""
    return _SEVERAL.search(question[:MOST_CHARS].casefold()) is not None

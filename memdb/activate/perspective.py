"""The question as the one it asks about would say it.

Messages are written in the first person, so an encoder finds "I went to a support group" far better by "When
did I go to a support group?" than by the name of the speaker (docs/why/views.md has the measurements).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memdb.language.patterns import lazy
from memdb.records import Query

_FIRST_PERSON = lazy(r"\b(?:I|my|me|mine|we|our)\b", re.IGNORECASE)
_ASKS = lazy(
    r"[?\uff1f\u061f]|^\W*(?:wh(?:at|en|ere|o|om|ose|ich|y)|how|is|are|was|were|do|does|did|has|have|had"
    r"|can|could|will|would|should)\b",
    re.IGNORECASE,
)
_PAST = lazy(
    r"\b(?:used\sto|(?:previous|former|original|initial)(?:ly)?|earlier|at\sfirst|first|before|ago|once|until"
    r"|in\sthe\spast|histor(?:y|ical)|chang(?:e|ed|es|ing)|no\slonger|any\s?more|(?:back|by)\sthen"
    r"|at\sthe\stime|(?<!how\s)old)\b",
    re.IGNORECASE,
)
_LONGEST_NAME = 100  # characters of a name that is looked for
_MOST_NAMES = 1_000  # names looked for in one question


def as_speaker(question: str, speakers: Sequence[str]) -> str:
    """`question` with the speakers' names replaced by "I", and their possessives by "my".

    Names count as they are written, and only where they stand as words of their own; of a name of several
    words the first one is enough.
    """
    pattern = _pattern(tuple(speakers))
    if pattern is None:
        return question
    return pattern.sub(lambda match: "my" if match.group(2) else "I", question)


def asked_of(question: str, speakers: Sequence[str]) -> str | None:
    """The speaker a question is about: the only one it names, or its asker if it says "I" to an assistant."""
    pattern, names = _pattern(tuple(speakers)), _names(tuple(speakers))
    found = {names[match.group(1)] for match in pattern.finditer(question)} if pattern else set()
    if len(found) == 1:
        return found.pop()
    if not found and _FIRST_PERSON.search(question):
        return next((speaker for speaker in speakers if speaker.lower() == "user"), None)
    return None


def asks(question: str) -> bool:
    """Whether `question` is one, and not words to search for."""
    return _ASKS.search(question) is not None


def asks_of_past(query: Query) -> bool:
    """Whether a question may be about what held once: it says so, or names a time."""
    return bool(query.times) or _PAST.search(query.text) is not None


@lru_cache(maxsize=64)
def _names(speakers: tuple[str, ...]) -> dict[str, str | None]:
    """What speakers are called: the whole name, and its first word; None where several share that."""
    names: dict[str, str | None] = {}
    called = [name for name in speakers[:_MOST_NAMES] if name[:1].isupper() and len(name) <= _LONGEST_NAME]
    for speaker in called:
        first = speaker.split(None, 1)[0]
        if len(first) > 2 and first != speaker:
            names[first] = None if first in names else speaker
    return names | {speaker: speaker for speaker in called}


@lru_cache(maxsize=64)
def _pattern(speakers: tuple[str, ...]) -> re.Pattern[str] | None:
    longest_first = sorted(_names(speakers), key=len, reverse=True)
    if not longest_first:
        return None
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(['\u2019]s\b)?(?!\w)")

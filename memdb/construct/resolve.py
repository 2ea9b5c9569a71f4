"""Who "I" and "you" are: first and second person to names, with the verb repaired.

Text inside quotation marks is somebody else's first person and stays as it is.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from memdb.language.patterns import lazy
from memdb.language.verbs import BASES, PARTICIPLES, THIRD_OF
from memdb.language.words import word_set

_ROLE_NAMES: Final = {
    "user": "the user", "human": "the user", "assistant": "the assistant", "ai": "the assistant",
    "bot": "the assistant", "system": "the system", "model": "the assistant",
}  # fmt: skip
_OTHERS: Final = "and others"
_CONTRACTED: Final = {"m": "am", "ve": "have", "re": "are", "ll": "will"}
_SLIPS: Final = {
    "don't": "doesn't", "haven't": "hasn't", "aren't": "isn't", "weren't": "wasn't", "were": "was",
    "dont": "doesn't", "havent": "hasn't", "gonna": "is going to", "gotta": "has to", "wanna": "wants to",
}  # fmt: skip
# Before "you" or "I": the verb after it is an infinitive, or belongs to somebody else.
_BARE_INFINITIVE: Final = word_set(
    "do did does can could will would should shall may might must let make makes made help helps",
    "helped see hear have  had and or let's don't didn't can't couldn't won't wouldn't than as",
    "like watch",
)
_KEEP_YOU: Final = word_set("thank thanks bless see")
_ADVERBS: Final = (
    "really|also|always|just|still|never|usually|often|actually|recently|currently|now|only|already|"
    "definitely|even|probably|sometimes|finally|totally|absolutely|honestly|mostly|mainly|personally|"
    "especially|ever"
)
_AFTER: Final = (
    rf"(?P<contraction>['’](?:m|ve|ll|d|re)(?![\w'’]))?(?P<adverbs>(?:\s(?:{_ADVERBS})(?!\w)){{0,3}})"
    r"(?:(?P<gap>\s)(?!(?:[Mm]y|[Mm]ine|[Oo]urs?|[Yy]ours?)(?![\w'’-]))"
    r"(?P<verb>[a-zA-Z]{1,20}(?:['’]t)?)(?![\w'’]))?"
)
_PERSON: Final = lazy(
    r"(?P<quoted>\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”)"
    r"|(?<![\w'’@/.&-])(?:"
    rf"(?:(?P<i>I|i)|(?P<we>[Ww]e)|(?P<you>[Yy]ou))(?![\w-]){_AFTER}"
    r"|(?P<mine>[Mm]y|[Mm]ine|[Oo]urs?)(?![\w'’-])"
    r"|(?P<yours>[Yy]ours?)(?![\w'’-])"
    r"|(?P<me>[Mm]e|[Uu]s)(?![\w'’-])"
    r"|(?P<self>[Mm]yself|[Yy]ourself)(?![\w'’-]))"
)


class Cast(NamedTuple):
    """The names that stand for the speaker and for the one spoken to; None leaves that person as it was
    said.
    """

    speaker: str
    counterpart: str | None


def cast_of(speaker: str, role: str | None, participants: tuple[str, ...]) -> Cast:
    """Who speaks to whom: the counterpart is known between two, or between a user and an assistant."""
    others = [name for name in participants if name != speaker]
    counterpart: str | None = None
    if len(others) == 1 and len(participants) <= 2:
        counterpart = display_name(others[0])
    elif (role or speaker).lower() in ("user", "human") and len(others) < 2:
        counterpart = "the assistant"
    elif (role or speaker).lower() in ("assistant", "ai", "bot") and len(others) < 2:
        counterpart = "the user"
    return Cast(display_name(speaker), counterpart)


def display_name(speaker: str) -> str:
    """A speaker's name in a sentence; a bare role gets its article."""
    return _ROLE_NAMES.get(speaker.strip().lower(), speaker.strip())


def resolve(text: str, cast: Cast) -> str:
    """A claim with first and second person replaced by names; "we" is the speaker "and others"."""
    if not cast.speaker:
        return text

    def replaced(found: re.Match[str]) -> str:
        return _replaced(found, cast)

    resolved = _PERSON.sub(replaced, text)
    if resolved is not text and text[:1].isupper() and resolved[:1].islower():
        resolved = resolved[0].upper() + resolved[1:]
    return resolved


def _replaced(found: re.Match[str], cast: Cast) -> str:
    if _in_title(found):
        return found[0]
    if found["i"]:
        return _subject(found, cast.speaker, singular=True)
    if found["you"]:
        return _you(found, cast)
    if found["we"]:
        return _subject(found, f"{cast.speaker} {_OTHERS}", singular=False)
    if found["mine"]:
        return f"{cast.speaker}'s"
    if found["yours"]:
        return found[0] if cast.counterpart is None else f"{cast.counterpart}'s"
    if found["me"]:
        return cast.speaker if found["me"].lower() == "me" else f"{cast.speaker} {_OTHERS}"
    if found["self"] and (found["self"][0] in "mM" or cast.counterpart is not None):
        return "themselves"
    return found[0]


def _in_title(found: re.Match[str]) -> bool:
    """Whether the word belongs to the title of something: "Drive My Car", "We Will Rock You"."""
    text, start = found.string, found.start()
    if found["i"] or start == 0 or not text[start].isupper():
        verb = found["verb"] or ""
        return verb[:1].isupper() and verb[1:].islower() and len(verb) > 1 and not found["yours"]
    return text[start - 1] == " " and text[start - 2] not in '.!?:"“'


def _previous(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 20) : found.start()].split()
    return before[-1].lower() if before else ""


def _you(found: re.Match[str], cast: Cast) -> str:
    verb = found["verb"] or ""
    if (
        cast.counterpart is None
        or _previous(found) in _KEEP_YOU
        or verb.lower() in ("guys", "all", "both", "know")
    ):
        return found[0]
    return _subject(found, cast.counterpart, singular=True)


def _subject(found: re.Match[str], name: str, *, singular: bool) -> str:
    """The name, its auxiliary written out, the adverbs, and the verb in the third person."""
    contraction, adverbs, verb = found["contraction"], found["adverbs"] or "", found["verb"]
    tail = f"{found['gap']}{verb}" if verb else ""
    if contraction:
        short = contraction[1:].lower()
        full = _CONTRACTED.get(short) or _would_or_had(verb)
        return f"{name} {_third(full) if singular else full}{adverbs}{tail}"
    if not verb or not singular or _previous(found).strip("\"'“(,") in _BARE_INFINITIVE:
        return f"{name}{adverbs}{tail}"
    return f"{name}{adverbs}{found['gap']}{_third(verb)}"


def _would_or_had(verb: str | None) -> str:
    low = (verb or "").lower()
    return "had" if low == "better" or (low in PARTICIPLES and low not in BASES) else "would"


def _third(verb: str) -> str:
    low = verb.lower().replace("’", "'")
    if low in _SLIPS:
        return _SLIPS[low]
    return THIRD_OF.get(low, verb)

"""Slots and what they held: which predicates name a state that has one value, and how its history is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from memdb.language.terms import fold
from memdb.language.verbs import AUXILIARIES, PASTS
from memdb.language.words import ADVERBS, word_set

# Verbs and participles that say nothing of which slot is meant: "is", "has got", "went to", "likes".
_VAGUE: Final = AUXILIARIES | ADVERBS | word_set(
    "not been being get gets got getting make makes go goes going take takes come comes give gives",
    "say says see sees feel feels look looks looking seem seems sound sounds like likes love loves",
    "enjoy enjoys want wants need needs think thinks hope hopes know knows keep keeps try tries",
    "plan plans find finds mean means to for forward in on at with up out about of",
)  # fmt: skip
_BE: Final = word_set("was were")
_COPULAS: Final = word_set("is are was were becomes became remains")
_DENIES: Final = word_set("not never no cannot")
_FAVOURITE: Final = word_set("favourite favorite best current new")
# What somebody has several of: naming one says nothing of the others.
_SEVERAL: Final = word_set(
    "brother sister sibling son daughter child kid baby twin cousin aunt uncle niece nephew parent relative",
    "friend neighbour neighbor colleague coworker teammate classmate roommate pet dog cat horse bird hobby",
    "interest skill language dream goal plan idea problem issue thing part reason member student teacher",
    "fan customer client guest founder author creator",
)  # fmt: skip
# How the claims begin whose slot has one value at a time.
_STATES: Final = (
    "lives in", "lives at", "lives with", "is living in", "is living at", "resides in", "is based in",
    "works for", "works at", "is working for", "is working at", "is employed by", "is married to",
    "is engaged to", "is dating", "is named", "is called", "weighs", "was born in", "was born on", "died in",
    "died on", "is headquartered in", "is owned by", "is led by", "is headed by",
)  # fmt: skip
ARROW: Final = " → "


def holds_one_value(predicate: str) -> bool:
    """Whether an English predicate names a slot that has one value at a time: "lives in", "capital is", "was
    born in the city of".

    Not so what only says that something is or has some property ("is", "has got"), what is liked, and events
    of the past ("went to", "bought"): of those, several hold beside each other.
    """
    words = fold(predicate).split()
    if all(word in _VAGUE for word in words):
        return False
    if words[0] in PASTS and words[0] not in _BE:
        return len(words) > 3 and words[-1] == "of"  # "died in the city of"
    return True


def is_replaced(predicate: str, numbered: bool) -> bool:
    """Whether a later claim of the slot takes the place of an earlier one.

    In a numbered list of facts, whose numbers are its clock, every slot with one value is restated to be
    corrected (QGMem appendix F1: the larger number is newer). In conversation much that reads alike holds
    beside each other, "speaks French" and "speaks German": there only homes, employers, marriages and named
    slots such as "favourite player is" count, those of kin and of several things not.
    """
    if numbered:
        return holds_one_value(predicate)
    words = [word for word in fold(predicate).replace("\u2019", "'").split() if word not in ADVERBS]
    if not words or any(word in _DENIES or word.endswith("n't") for word in words):
        return False
    if words[-1] in _COPULAS and len(words) > 1:
        named = words[:-1]
        return any(word in _FAVOURITE for word in named) or (
            named[-1] not in _SEVERAL and (not named[-1].endswith("s") or named[-1].endswith("ss"))
        )
    return " ".join(words).startswith(_STATES)


def still_holds(
    predicate: str, value: str, newest: Sequence[tuple[str, str]], numbered: bool = False
) -> bool | None:
    """Whether a claim of a trace states what holds, given what the trace says last with each predicate,
    (predicate, value), newest first.

    True for the value that was said last. Only a slot that `is_replaced` is, and only by a claim of such a
    slot: then False. None where claims hold beside each other, as events that read alike, and outside of a
    trace.
    """
    if not newest:
        return None
    one_value = is_replaced(predicate, numbered)
    if one_value:
        newest = [claim for claim in newest if is_replaced(claim[0], numbered)] or newest
    if same_value(newest[0][1]) == same_value(value):
        return True
    return False if one_value else None


class State(NamedTuple):
    """What was said of a slot at some time; `said` is the clock reading, None if unknown."""

    said: str | None
    fact_text: str
    value: str


def trajectory(states: Sequence[State], most: int) -> str:
    """The history of a slot in one line, oldest first: "[time] fact → [time] fact Latest: fact".

    Of states in a row with the same value the first is told; of more than `most` the newest.
    """
    changes = [
        state
        for number, state in enumerate(states)
        if number == 0 or same_value(state.value) != same_value(states[number - 1].value)
    ]
    told = [
        f"[{state.said}] {state.fact_text}" if state.said else state.fact_text for state in changes[-most:]
    ]
    left_out = ["…"] if len(changes) > most else []
    return f"{ARROW.join(left_out + told)} Latest: {states[-1].fact_text}"


def same_value(value: str) -> str:
    """A value for comparison: folded, without article and closing stop."""
    words = fold(value).split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    return " ".join(words).rstrip(".")

"""The one structured fact of a claim, (subject, predicate, object), from a plain declarative English
sentence.

The subject is the holder, the predicate names the slot, the object is its value: two claims about the same
slot have the same subject and predicate and differ in the object (docs/why/rules.md). None whenever the
sentence is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memdb.language.patterns import lazy
from memdb.language.verbs import AUXILIARIES, BASES, FINITE, FORMS, GERUNDS, PARTICIPLES, PASTS, THIRDS
from memdb.language.words import ADVERBS, DETERMINERS, PREPOSITIONS, PRONOUNS, word_set
from memdb.records import Triple

_MAX_WORDS: Final = 60
_BREAKS: Final = frozenset(',;:!?()[]"“”…–—-/&')
_BREAKS_IN_NAMES: Final = frozenset(",-–—/&")
_MAX_SUBJECT_WORDS: Final = 14
_MAX_OBJECT_WORDS: Final = 30
_COPULAS: Final = word_set(
    "is are was were be been become becomes became remains remained isn't aren't wasn't"
)
_RELATIVE: Final = word_set("where who which whom whose that")
_PLURAL: Final = word_set("they we you people children others men women")
_BEFORE_INFINITIVE: Final = word_set(
    "want wants wanted need needs needed plan plans planned hope hopes hoped try tries tried",
    "going decided love loves like  likes would started used able learned got has have had",
)
_PARTICLES: Final = (PREPOSITIONS | {"away", "back"}) - {"than", "since", "until", "during"} | {"forward"}
_GROUP_ADVERBS: Final = ADVERBS - word_set("one first last lot lots bit much many more most less few")
_LEADS: Final = word_set(
    "plus also then now currently recently actually finally yesterday today tonight tomorrow",
    "still and but so well  sometimes usually later once eventually lately",
)
_SUBORDINATORS: Final = word_set(
    "if when while because although though since after before until as whenever unless"
)
_OPENERS: Final = PREPOSITIONS | word_set("last this next every earlier one instead given according based")
_UNRESOLVED: Final = PRONOUNS - {"mine", "yours", "others"}
_NOUN_LEADS: Final = (DETERMINERS | word_set("of in at for with from by about favorite favourite")) - {"that"}
_QUANTITIES: Final = word_set(
    "lot lots couple bit kind kinds sort type number group pair piece cup glass bottle box series",
    "variety range  majority rest part parts some few end beginning top middle bunch ton tons",
    "plenty sense set list all most one  none half third quarter amount deal week month day year",
)
_CUT: Final = lazy(r"[;!?…]| [-–—] |, (?:which|who|but|so|because|and|where|while|when)\b"
                         r"| (?:because|although|though|but|while)\b")  # fmt: skip
_POSSESSOR: Final = lazy(r"(?P<holder>[^\s'’][^'’]{0,80}?)['’]s?\s(?P<slot>[a-z].*)")
_OF: Final = lazy(r"(?:[Tt]he\s)?(?P<slot>[a-z][a-z-]*(?:\s[a-z][a-z-]*){0,4}?)\sof\s(?P<holder>\S.*)")
_THAT: Final = lazy(
    r"[Tt]he\s(?P<slot>[a-z][a-z-]*(?:\s[a-z][a-z-]*){0,3}?)\s(?P<link>(?:that|which|who)(?:\s[a-z]+){1,3})"
    r"\s(?P<holder>[A-Z].*)"
)
_WHERE: Final = lazy(
    r"[Tt]he\s(?P<slot>[a-z][a-z-]*(?:\s[a-z][a-z-]*){0,3}?)\s(?P<which>that|which|where|whom)\s"
    r"(?P<holder>[A-Z]\S*(?:\s(?:[A-Z]\S*|of|the|de|la|van|von)){0,6})\s(?P<link>[a-z]+(?:\s[a-z]+){0,3})"
)
_KIND_OF: Final = lazy(
    r"(?P<kind>(?:a|an|the)\s(?:[a-z][a-z-]*\s){0,2}(?P<head>[a-z][a-z-]*)\sof)\s(?P<value>\S.*)"
)
_KNOWN_FOR: Final = lazy(
    r"(?P<kind>(?:best\s|well\s|most\s|also\s)?(?:famous|known|renowned|notable|noted)\sfor)\s(?P<value>\S.*)"
)
_TAIL: Final = lazy(r"[\s,;:!?…\"”)]+\Z")
_STOP: Final = lazy(r"(?:(?<=\.)|(?<!\b[A-Z]))\.\Z")  # a full stop, not the point of "D.C."
_NOW: Final = lazy(r"\A(?:now|currently|still|actually)\s", re.IGNORECASE)
_NOW_LAST: Final = lazy(r",?\s(?:right\s)?(?:now|currently|these days|nowadays)\Z")
_TIME_LEAD: Final = lazy(r"\s?(?:\b(?:in|on|at|since|from|by|during|around|back)\s)?\Z")


def triple(claim: str, times: Sequence[str] = ()) -> Triple | None:
    """The fact a claim states, or None when unsure; `times` are expressions of time to leave out of the
    object.
    """
    for time in times:
        if lead := _time_lead(claim, time):
            claim = claim[lead:]
    words = claim.split(None, _MAX_WORDS)[:_MAX_WORDS]
    lows = [word.lower().replace("’", "'") for word in words]
    begin = _past_opening(words, lows)
    at = _verb_at(words, lows, begin)
    if at is None:
        return None
    last = at
    while last > begin + 1 and lows[last - 1] in ADVERBS:
        last -= 1
    if lows[last - 1] in _UNRESOLVED and (last == begin + 1 or words[last - 1][0].islower()):
        return None
    if "'" in lows[begin] and lows[begin].partition("'")[0] in _UNRESOLVED:
        return None
    end = _group_end(words, lows, at)
    value = _value(" ".join(words[end:]), times)
    if not value:
        return None
    subject, predicate = " ".join(words[begin:last]), " ".join(words[at:end])
    return _slotted(subject, predicate, value, copula=lows[at] in _COPULAS)


def _time_lead(claim: str, time: str) -> int:
    """How much of a claim is a time it begins with: "Last Monday Ana", "In 2019, Ana"."""
    at = claim.lower().find(time.lower(), 0, len(time) + 12)
    if at < 0 or not _TIME_LEAD.fullmatch(claim[:at].lower()):
        return 0
    end = at + len(time)
    return end + 2 if claim.startswith(", ", end) else end + 1 if claim.startswith(" ", end) else 0


def _past_opening(words: list[str], lows: list[str]) -> int:
    """Where the main clause begins: after "In 2019," or "When she was young," and after "also", "now"."""
    at, count = 0, len(words)
    while at < count - 1 and lows[at].rstrip(",") in _LEADS:
        at += 1
    if at < count and (lows[at] in _SUBORDINATORS or lows[at] in _OPENERS) and words[at][1:].islower():
        for comma in range(at, min(at + _MAX_SUBJECT_WORDS, count - 1)):
            if words[comma][-1] == ",":
                return comma + 1
    return at


def _verb_at(words: list[str], lows: list[str], begin: int) -> int | None:
    """The position of the first word of the main verb group; None if no plain subject precedes one."""
    if _commands(lows, words, begin):
        return None
    relative = inside = False
    activity = lows[begin : begin + 1] != [] and lows[begin] in GERUNDS  # "Checking the logs can help"
    for at in range(begin + 1, min(len(words), begin + _MAX_SUBJECT_WORDS + 1)):
        if words[at - 1][-1] in _BREAKS and not _goes_on(words, at):
            return None
        if lows[at] == "that" and lows[at - 1] in FORMS:  # what is said, known, ensured
            return None
        if lows[at] in _RELATIVE:
            relative = True
        elif _is_verb(words, lows, at) and (not activity or lows[at] in AUXILIARIES):
            if relative and not inside:
                inside = True
            elif not (inside and lows[at - 1] in AUXILIARIES):
                return at
    return None


def _commands(lows: list[str], words: list[str], begin: int) -> bool:
    """Whether a sentence begins with a verb: "Enjoy the day"."""
    if begin + 1 >= len(lows) or lows[begin] not in BASES or not words[begin + 1][0].islower():
        return lows[begin : begin + 1] == ["let's"]
    after = lows[begin + 1]
    if after in DETERMINERS or after in PRONOUNS or after in PREPOSITIONS:
        return True
    return after not in FINITE and AUXILIARIES.isdisjoint(lows[begin + 2 : begin + 5])


def _goes_on(words: list[str], at: int) -> bool:
    """Whether a name goes on after a mark inside it: "NeXT Computer, Inc.", "Montana State - Bozeman"."""
    before, mark = words[at - 1], words[at - 1][-1]
    named = before == mark or before[0].isupper()
    return mark in _BREAKS_IN_NAMES and named and not words[at][0].islower()


def _is_verb(words: list[str], lows: list[str], at: int) -> bool:
    low, before = lows[at], lows[at - 1]
    if not words[at][0].islower():
        return False
    if low in AUXILIARIES:
        return True
    if before in _NOUN_LEADS or before.endswith("'s"):
        return False
    if low in PARTICIPLES and lows[at + 1 : at + 2] == ["by"]:  # "the book written by X is"
        return AUXILIARIES.isdisjoint(lows[at + 2 : at + 10])
    if low in PASTS or low in THIRDS:
        return True
    if low in BASES:
        return before.endswith("s") or before in _PLURAL
    return low.endswith("ed") and len(low) > 4 and words[at - 1][0].isupper()


def _group_end(words: list[str], lows: list[str], at: int) -> int:
    """One past the verb group: auxiliaries, adverbs, verbs, "to" and a verb, then particles and
    prepositions.
    """
    end, count, verbal = at + 1, len(words), lows[at] in AUXILIARIES
    while end < count and words[end - 1][-1] not in _BREAKS:
        low, after = lows[end], lows[end + 1] if end + 1 < count else ""
        if low in ("not", "never") or (low in _GROUP_ADVERBS and after in FORMS):
            end += 1
        elif verbal and _completes(lows[end - 1], low) and words[end].islower():
            end, verbal = end + 1, low in AUXILIARIES or low == "going"
        elif low == "to" and (after in BASES or (lows[end - 1] in _BEFORE_INFINITIVE and after.isalpha())):
            end, verbal = end + 2, False
        else:
            break
    for _ in range(2):
        if end >= count - 1 or lows[end] not in _PARTICLES or words[end - 1][-1] in _BREAKS:
            break
        end += 1
    return end


def _completes(before: str, low: str) -> bool:
    """Whether a word can be the verb after an auxiliary: "is working", "has worked", "can work"."""
    if low in AUXILIARIES:
        return True
    if before in _COPULAS or before in ("be", "am"):
        return low in PARTICIPLES or low in GERUNDS or (low.endswith("ed") and len(low) > 4)
    if before in ("have", "has", "had", "haven't", "hasn't", "hadn't"):
        return low in PARTICIPLES or (low.endswith("ed") and len(low) > 4)
    return low in BASES or low in FORMS


def _value(rest: str, times: Sequence[str]) -> str:
    """The object: the rest of the clause without its times and closing marks."""
    cut = _CUT.search(rest)
    value = rest[: cut.start()] if cut else rest
    value = _NOW.sub("", _STOP.sub("", _TAIL.sub("", value.strip())))
    for time in times:
        if value.endswith(time):
            value = _TIME_LEAD.sub("", value[: -len(time)])
        elif value.startswith((time + " ", time + ",")):
            value = value[len(time) :]
    value = _NOW_LAST.sub("", _TAIL.sub("", value.strip(" ,")))
    return " ".join(value.split()[:_MAX_OBJECT_WORDS])


def _slotted(subject: str, predicate: str, value: str, *, copula: bool) -> Triple | None:
    """Holder, slot and value: "X's S is V" and "the S of X is V" are both (X, S is, V)."""
    subject = subject.strip()
    kind = _KIND_OF.fullmatch(value)
    if copula and (known := _KNOWN_FOR.fullmatch(value)):
        predicate, value = f"{predicate} {known['kind']}", known["value"]
    elif kind and kind["head"] not in _QUANTITIES:
        predicate, value = f"{predicate} {kind['kind']}", kind["value"]
    if copula:
        if named := _THAT.fullmatch(subject):
            return Triple(named["holder"], f"{named['slot']} {named['link']} {predicate}", value)
        if named := _WHERE.fullmatch(subject):
            slot = f"{named['slot']} {named['which']} {named['link']}"
            return Triple(named["holder"], f"{slot} {predicate}", value)
        holding = _OF.fullmatch(subject) or _POSSESSOR.fullmatch(subject)
        if holding and holding["slot"].split()[-1].lower() not in _QUANTITIES:
            return Triple(holding["holder"], f"{holding['slot']} {predicate}", value)
    return Triple(subject, predicate, value)

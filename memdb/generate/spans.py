"""The span of a sentence that is of the kind a question asks for."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Final, NamedTuple

from memdb.construct.support import denies
from memdb.construct.temporal import times_of
from memdb.errors import TimeError
from memdb.generate.asked_for import Kind
from memdb.language.clock import anchor_day, parse_instant
from memdb.language.patterns import lazy
from memdb.language.phrases import phrases
from memdb.language.stems import stem
from memdb.language.temporal import TimeExpression
from memdb.language.terms import STOP_WORDS, document_terms
from memdb.records import Evidence, Instant, Interval, Query

_CALLED: Final = lazy(
    r"\b(?:called|named|names?\s(?:is|was|are)|nicknamed|titled)\s"
    r"((?:[\"“'‘]?[^\W\d_][\w'’.-]{0,40}[\"”'’]?\s?){1,8})"
)
_QUOTED: Final = lazy(r"[\"“«]([^\"“”«»\n]{1,80})[\"”»]")
_NUMBER_WORDS: Final = (
    r"(?:\d(?:[\d.,:]{0,20}\d)?(?:\s?[ap]\.?m\b\.?)?|one|two|three|four|five|six|seven|eight|nine"
    r"|ten|eleven|twelve|thirteen"
    r"|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy"
    r"|eighty|ninety"
    r"|a\shundred|a\sdozen|a\scouple\sof|several|hundreds\sof)(?:-(?:one|two|three|four|five|six"
    r"|seven|eight|nine))?"
)
_UNITLESS: Final = (
    "and|or|of|for|in|on|at|to|with|from|is|are|was|were|the|that|but|by|so|off|up|down|over|as"
    "|this|last|next|per|it|i"
    "|he|she|we|they|if|when|because|about|ago|before|after"
)
_NUMBER: Final = lazy(
    rf"(?:[$€£]\s?)?\b{_NUMBER_WORDS}(?![\w])(?:[%°]|\s(?:euros?|dollars?|pounds?|years?\sold)"
    rf"|[-\s](?!(?:{_UNITLESS})\b)[a-z]{{1,24}})?",
    re.IGNORECASE,
)
_SPAN_OF_TIME: Final = lazy(
    rf"\b(?:(?:about|around|almost|nearly|over)\s)?(?:{_NUMBER_WORDS}|an?|a\sfew|many|every"
    rf"|once\san?|twice\san?)"
    r"(?:\sto\s\w{1,20})?[-\s](?:second|minute|hour|day|night|week|weekend|month|year|decade|monday"
    r"|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|morning|evening)s?\b"
    r"|\b(?:since|until)\s(?:\d{4}|(?-i:[A-Z])\w{1,20}(?:\s\d{4})?)",
    re.IGNORECASE,
)
_KIN: Final = lazy(
    r"\b(my|our|his|her|their)\s((?:[a-z]{1,20}\s)?(?:mother|mum|mom|father|dad|sister|brother|wife"
    r"|husband|son|daughter"
    r"|aunt|uncle|cousin|grandmother|grandfather|grandma|grandpa|partner|girlfriend|boyfriend"
    r"|friend|boss|neighbou?r"
    r"|teacher|colleague|doctor|niece|nephew|parents|kids|children|team|coach))\b",
    re.IGNORECASE,
)
_PLACE: Final = lazy(
    r"\b(?:in|at|on|behind|under|underneath|near|inside|outside|beside|next\sto|above|over|between"
    r"|into|from|to|by)\s"
    r"(?:the|a|an|my|our|his|her|their|its|[A-Z])[\w'’]{0,30}(?:\s(?!(?:and|but|so|because|when"
    r"|while|who|which|that|to"
    r"|is|was|were|are|i|we|he|she|they|it|with|for|at|in|on|by)\b)[\w'’-]{1,30}){0,5}",
    re.IGNORECASE,
)
_REASON: Final = lazy(
    r"\b(?:because(?:\sof)?|since(?!\s\d)|due\sto|thanks\sto|so\sthat)\s|\bin\sorder\sto\s", re.IGNORECASE
)
_CLAUSE: Final = lazy(
    r"[,;:—]\s|\s[–-]\s|\s(?:but|so|because|although|while|when)\s|\sand\s(?=(?:i|we|he|she|they|it"
    r"|then|now)\b)",
    re.IGNORECASE,
)
_YES: Final = lazy(r"\W{0,9}(?:yes|yeah|yep|yup|sure|of course|definitely|absolutely)\b", re.IGNORECASE)
_NO: Final = lazy(
    r"\W{0,9}(?:no|nope|nah|not really|not at all)\b(?!\s(?:wonder|problem|doubt))", re.IGNORECASE
)
_SINCE: Final = lazy(r"since\s", re.IGNORECASE)
_CAPTION: Final = lazy(r"\[image: (?:(?:an?|the) (?:photo|picture|image|photograph) of )?([^\]]+)\]")
_NOT: Final = lazy(r"n['’]t\b|\bnot\b", re.IGNORECASE)
LEAST_SHARED: Final = 0.5  # of a yes-no question's words of content that a sentence says which settles it


class Place(NamedTuple):
    """A sentence of a piece of evidence, from character `start` to `end` (excluded) of it; `text` is without
    lead-in.
    """

    label: str
    text: str
    evidence: Evidence
    start: int
    end: int


def without_caption_mark(sentence: str) -> str:
    """What a picture shows, without the words that say it is one."""
    found = _CAPTION.fullmatch(sentence)
    return found[1] if found else sentence


def stems(text: str) -> set[str]:
    """The stems of the words of content in a text, stemmed once more: "plays" as "play" itself."""
    return {stem(stem(term)) for term in document_terms(text).split() if term not in STOP_WORDS}


def when(query: Query, place: Place) -> str | None:
    """The first days the sentence speaks of, else the evidence, else the day on which it was said."""
    evidence, instant = place.evidence, _instant(place.evidence.said_at)
    times = times_of(evidence.text, instant)
    times.sort(key=lambda time: not place.start <= time.start_char < place.end)
    spoken = [*(_begun(evidence.text, time) for time in times), *evidence.fact_time]
    if spoken:
        return date_text(spoken[0], query.text)
    day = anchor_day(instant)
    return date_text(Interval(day, day, "day"), query.text) if day else evidence.said_at


def _begun(text: str, time: TimeExpression) -> Interval:
    """The days of an expression; of "since 2019" the year, month or day in which it began."""
    start, at = time.interval.start, time.start_char
    if not (_SINCE.match(text, at) or _SINCE.match(text, max(0, at - len("since ")))):
        return time.interval
    match time.interval.granularity:
        case "year":
            return Interval(start, start.replace(month=12, day=31), "year")
        case "month":
            return Interval(start, start.replace(day=monthrange(start.year, start.month)[1]), "month")
        case _:
            return Interval(start, start, "day")


def _instant(said_at: str | None) -> Instant | None:
    try:
        return parse_instant(said_at) if said_at else None
    except TimeError:  # a reading that a newer version wrote
        return None


def date_text(interval: Interval, question: str = "") -> str:
    """An interval in words, as exact as it was said, `19 January 2026`, `January 2026`, `2026`, or as it is
    asked for: "which year" asks for no day.
    """
    start, end, asked = interval.start, interval.end, question.casefold()
    one_month = (start.year, start.month) == (end.year, end.month)
    if re.search(r"\b(?:what|which) year\b", asked) and start.year == end.year:
        return f"{start.year}"
    if re.search(r"\b(?:what|which) month\b", asked) and one_month:
        return f"{start:%B} {start.year}"
    match interval.granularity:
        case "day" if start == end:
            return f"{start.day} {start:%B} {start.year}"
        case "month" if one_month:
            return f"{start:%B} {start.year}"
        case "year":
            return f"{start.year}" if start.year == end.year else f"{start.year} to {end.year}"
        case "week" if (end - start).days < 8:
            return f"the week of {start.day} {start:%B} {start.year}"
        case _:
            return f"{start.day} {start:%B} {start.year} to {end.day} {end:%B} {end.year}"


def where(query: Query, place: Place) -> str | None:
    """A place that the question does not name, else what a preposition of place leads to."""
    known = {name.casefold() for name in (*query.locations, *query.entities)}
    names = phrases(place.text, [place.evidence.speaker]).locations
    named = next((name for name in names if name.casefold() not in known), None)
    if named is not None:
        return named
    asked = stems(query.text)
    return next((one[0] for one in _PLACE.finditer(place.text) if stems(one[0]) - asked), None)


def who(query: Query, place: Place) -> str | None:
    """A name that the question does not have, else kin that is spoken of, else the speaker."""
    known = stems(query.text)
    names = [name for name in phrases(place.text).entities if name[:1].isupper() and not stems(name) & known]
    inside = [name for name in names if place.text.find(name) > 0]
    if inside or names:
        return (inside or names)[0]
    kin = _KIN.search(place.text)
    if kin is not None and not stems(kin[2]) <= known:
        return kin[0]
    speaker = place.evidence.speaker
    return speaker if speaker[:1].isupper() and not stems(speaker) & known else None


def called(query: Query, place: Place) -> str | None:
    """What follows "called", as far as it is written like a name; else what is quoted; else a name."""
    if found := _CALLED.search(place.text):
        words = takewhile(lambda word: not word.strip("\"“'‘")[:1].islower(), found[1].split())
        if name := " ".join(words).strip(' .,"“”'):
            return name
    if quoted := _QUOTED.search(place.text):
        return quoted[1]
    known = stems(query.text)
    names = [name for name in phrases(place.text).entities if name[:1].isupper() and not stems(name) & known]
    return next((name for name in names if place.text.find(name) > 0), None)


def number(query: Query, place: Place) -> str | None:
    """A number with what is counted: one of what the question asks about before others."""
    asked = stems(query.text)
    found = [one[0].strip() for one in _NUMBER.finditer(place.text)]
    return max(found, key=lambda one: bool(stems(one) & asked), default=None)


def span_of_time(query: Query, place: Place) -> str | None:
    """How long, or how often."""
    found = _SPAN_OF_TIME.search(place.text)
    return found[0].strip() if found else None


def reason(query: Query, place: Place) -> str | None:
    """What "because" leads to, to the end of the sentence."""
    found = _REASON.search(place.text)
    return place.text[found.end() :].strip(" .!") or None if found else None


def value(query: Query, place: Place) -> str | None:
    """The value of a claim that this sentence makes of what the question speaks of."""
    asked, said = stems(query.text), stems(place.text)
    best, most = None, 0
    for triple in (unit.triple for unit in place.evidence.facts):
        if triple is None or not stems(triple.object) - stems(place.evidence.speaker) <= said:
            continue
        told = shortened(triple.object)
        subject = stems(triple.subject) & asked
        shared = len(
            (subject - stems(place.evidence.speaker)) | (stems(f"{triple.predicate} {told}") & asked)
        )
        if subject and shared > most and not stems(told) <= asked:
            best, most = told, shared
    return best


def claim(query: Query, place: Place) -> str | None:
    """The value of a claim that is all the sentence says, of a subject and predicate that are asked about: a
    single value, or one written like a name ("Washington, D.C.").
    """
    asked, said = stems(query.text), stems(place.text)
    for triple in (unit.triple for unit in place.evidence.facts):
        if triple is None:
            continue
        subject, predicate, value = map(stems, (triple.subject, triple.predicate, triple.object))
        known = subject | predicate | stems(place.evidence.speaker)
        if not (
            subject and subject <= asked and predicate & asked and said <= known | value and value - asked
        ):
            continue
        parts = triple.object.split(", ")
        if (len(parts) == 1 and shortened(triple.object) == triple.object) or all(map(_is_capital, parts)):
            return triple.object
    return None


def _is_capital(text: str) -> bool:
    return text[:1].isupper()


def shortened(text: str) -> str:
    """The value without what else the sentence goes on to say."""
    cut = _CLAUSE.search(text)
    return text[: cut.start()] if cut else text


def whether(query: Query, place: Place) -> str | None:
    """Yes or no before the sentence, where it says most of what is asked, and so or denies it."""
    raw = place.evidence.text[place.start : place.end]
    asked = stems(query.text) - stems(place.evidence.speaker)
    if _NO.match(raw) or _YES.match(raw):
        return "No" if _NO.match(raw) else "Yes"
    shared = len(asked & stems(place.text)) / max(len(asked), 1)
    if shared < LEAST_SHARED:
        return None
    turned = denies(_NOT.sub("", query.text))  # "Did he stop …?", but not "Didn't he …?"
    return "No" if denies(place.text) != turned else "Yes"


def nothing(query: Query, place: Place) -> str | None:
    """No span: the sentence is the answer."""
    return None


Find = Callable[[Query, Place], str | None]
FINDERS: Final[Mapping[Kind, Find]] = {
    "whether": nothing,
    "who is": nothing,
    "when": when,
    "how long": span_of_time,
    "how many": number,
    "where": where,
    "who": who,
    "name": called,
    "why": reason,
    "how": nothing,
    "what": value,
}

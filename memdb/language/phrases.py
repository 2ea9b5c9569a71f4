"""Names, topics and places in a sentence, found by capitals and by runs of words that carry a topic.

Used for what a message is about and for what a question asks about, so that both sides cut phrases alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from memdb.language.datewords import ALL_MONTHS, FEASTS, WEEKDAYS
from memdb.language.patterns import lazy
from memdb.language.places import PLACES, is_place
from memdb.language.sentences import WORD
from memdb.language.verbs import BASES, FORMS, GERUNDS, THIRDS
from memdb.language.words import (
    COMMON_PLACES,
    CONJUNCTIONS,
    DETERMINERS,
    FOREIGN,
    FUNCTION,
    MOTION,
    PLACE_HEADS,
    PREPOSITIONS,
    QUESTION_WORDS,
    REACTIONS,
    STOP,
    VAGUE_ADJECTIVES,
    word_set,
)

MAX_PHRASES: Final = 12
_MAX_WORDS: Final = 4
_MAX_CHARS: Final = 80
_MAX_TEXT: Final = 1_200
_CALENDAR: Final = frozenset(ALL_MONTHS) | frozenset(WEEKDAYS) | frozenset(FEASTS) | {"christmas", "easter"}
_LINKS: Final = word_set("of de la le van von der den du del di da the & for")
_AT_PLACE: Final = word_set("in at near around visit visited visiting toward towards")
_TO_PLACE: Final = word_set("to from")
_BEING: Final = word_set("am is are was were i'm he's she's we're they're")
_KINDS_OF_PLACE: Final = word_set("city town village continent country state island province region")
# "Where does Ana's sister live": after these the verb stands at the end of a noun phrase, in its base form.
_INVERTING: Final = word_set("do does did will would can could should")
_ASKING: Final = QUESTION_WORDS | _INVERTING
_TITLES: Final = word_set("dr mr mrs ms st prof mt sen jr sr")
_LY_NOUNS: Final = word_set("family assembly reply supply jelly butterfly belly ally rally monopoly lily fly")
_NEVER_NAMES: Final = _CALENDAR | {"i", "ok", "okay"}
_QUOTED: Final = lazy(r"[\"“«]([^\"“”«»\n]{1,80})[\"”»]")
_QUOTE_MARKS: Final = lazy(r"[\"“«]")
_NOT_TOPIC: Final = STOP | VAGUE_ADJECTIVES | FOREIGN
_NOUN_LEADS: Final = (DETERMINERS | PREPOSITIONS | VAGUE_ADJECTIVES) - word_set(
    "to really very super pretty quite so too more most less least"
)


class Phrases(NamedTuple):
    """What a text is about: names and topics, and places; each without duplicates, most specific first."""

    entities: tuple[str, ...]
    locations: tuple[str, ...]


class _Tokens(NamedTuple):
    """The words of a sentence as parallel lists."""

    texts: list[str]
    lows: list[str]
    joined: list[bool]  # only a blank lies between this word and the one before
    capital: list[bool]  # begins a name, or goes on with one
    owners: list[bool]  # had an "'s"


def phrases(text: str, names: Collection[str] = ()) -> Phrases:
    """The entities (at most MAX_PHRASES) and locations of a sentence; `names` are known persons, never
    places.
    """
    tokens = _tokens(text)
    people = {name.lower() for name in names}
    spans = _capital_spans(tokens) if True in tokens.capital else []
    capitals = [_name(tokens, a, b) for a, b in spans]
    quoted = [said for said in _QUOTED.findall(text) if len(said) > 1] if _QUOTE_MARKS.search(text) else []
    places = [name for name in _places(tokens, spans, people) if name not in quoted]
    topics = _topics(tokens, people)
    return Phrases(distinct([*quoted, *capitals, *topics], MAX_PHRASES), distinct(places, MAX_PHRASES))


def distinct(found: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first `limit` phrases, stripped, without empty ones and repetitions (letter case aside)."""
    kept: dict[str, str] = {}
    for phrase in found:
        phrase = phrase.strip()
        if 0 < len(phrase) <= _MAX_CHARS:
            kept.setdefault(phrase.casefold(), phrase)
            if len(kept) == limit:
                break
    return tuple(kept.values())


def _tokens(text: str) -> _Tokens:
    texts: list[str] = []
    lows: list[str] = []
    joined: list[bool] = []
    capital: list[bool] = []
    owners: list[bool] = []
    end, titled = -2, False
    for number, match in enumerate(WORD.finditer(text[:_MAX_TEXT])):
        word, start = match[0], match.start()
        owner = word.endswith(("'s", "’s"))
        if owner:
            word = word[:-2]
        low = word.lower()
        texts.append(word)
        lows.append(low)
        joined.append(start - end <= 1 or (titled and start - end == 2))
        name = word[:1].isupper() and _is_name(low, number, text, start, titled)
        capital.append(name)
        owners.append(owner)
        end = -2 if owner else match.end()  # a possessor and what it has are two phrases
        titled = name and (low in _TITLES or len(word) == 1) and text[end : end + 2] == ". "
    return _Tokens(texts, lows, joined, capital, owners)


def _is_name(low: str, number: int, text: str, start: int, titled: bool) -> bool:
    if low in _NEVER_NAMES or low.startswith(("i'", "i’")):
        return False
    if titled:
        return True
    if low in FUNCTION and not (number and len(low) > 1 and text[start : start + 2].isupper()):
        return False
    if number == 0 or text[start - 1] not in " (-/":
        return low not in FORMS and low not in _NOT_TOPIC
    begins = text[max(0, start - 2)] in ".!?:"
    return low not in REACTIONS and not (begins and (low in FORMS or low in _NOT_TOPIC))


def _capital_spans(tokens: _Tokens) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    capital, joined, lows = tokens.capital, tokens.joined, tokens.lows
    at, count = 0, len(capital)
    while at < count:
        if not capital[at]:
            at += 1
            continue
        start, at = at, at + 1
        while at < count and joined[at]:
            if capital[at]:
                at += 1
            elif lows[at] in _LINKS and at + 1 < count and capital[at + 1] and joined[at + 1]:
                at += 2
            else:
                break
        spans.append((start, at))
    return spans


def _name(tokens: _Tokens, start: int, end: int) -> str:
    return " ".join(tokens.texts[start:end])


def _places(tokens: _Tokens, spans: list[tuple[int, int]], people: set[str]) -> list[str]:
    found: list[str] = []
    for start, end in spans:
        name = _name(tokens, start, end)
        if name.lower() not in people and (
            is_place(name)
            or (not tokens.owners[end - 1] and name.istitle() and _leads_to_place(tokens.lows, start, end))
        ):
            found.append(name)
    for at, low in enumerate(tokens.lows):
        if tokens.capital[at]:
            continue
        if (low in COMMON_PLACES and not tokens.owners[at] and _after_place_word(tokens.lows, at)) or (
            low in PLACES and low not in _NOT_TOPIC and is_place(tokens.texts[at])
        ):
            found.append(tokens.texts[at])
    return found


def _leads_to_place(lows: list[str], start: int, end: int) -> bool:
    at = start - 2 if start > 1 and lows[start - 1] == "the" else start - 1
    before = lows[at] if at >= 0 else ""
    if before in _AT_PLACE:
        return True
    if before == "of" and at > 0:
        return lows[at - 1] in _KINDS_OF_PLACE
    if before == "from" and at > 0 and lows[at - 1] in _BEING:
        return True
    if before in _TO_PLACE and not MOTION.isdisjoint(lows[max(0, at - 4) : at]):
        return True
    return lows[end - 1] in PLACE_HEADS and (end - start > 1 or before in _TO_PLACE)


def _after_place_word(lows: list[str], at: int) -> bool:
    for low in reversed(lows[max(0, at - 3) : at]):
        if low in _AT_PLACE or low in _TO_PLACE or low == "on":
            return True
        if low in CONJUNCTIONS or low in PREPOSITIONS:
            return False
    return False


def _topics(tokens: _Tokens, people: set[str]) -> list[str]:
    """Runs of topic words: the last words of each noun phrase, and activities such as "hiking"."""
    found: list[str] = []
    begin: int | None = None
    led = named = False
    asking = (
        tokens.lows[:1] != [] and tokens.lows[0] in _ASKING and not _INVERTING.isdisjoint(tokens.lows[:5])
    )
    for at, low in enumerate(tokens.lows):
        inside = begin is not None and not asking
        topic = low not in people if tokens.capital[at] else _is_topic(low, led, inside, named)
        if begin is not None and not (topic and tokens.joined[at]):
            _close(tokens, begin, at, found)
            begin = None
        if not topic:
            led = low in _NOUN_LEADS
        elif begin is None:
            begin, named = at, tokens.capital[at] and not led
        else:
            named = named and tokens.capital[at]
    if begin is not None:
        _close(tokens, begin, len(tokens.lows), found)
    return found


def _is_topic(low: str, led: bool, inside: bool, named: bool) -> bool:
    """Whether a word in lower case belongs to a noun phrase; a verb's form does where only a noun can
    stand: led by a determiner, or inside a phrase that is not just a name ("my sister lives" goes the
    other way).
    """
    if (
        low in _NOT_TOPIC
        or len(low) < 3
        or (low.endswith("ly") and low not in _LY_NOUNS)
        or low in _CALENDAR
        or low.isdigit()
    ):
        return False
    if low not in FORMS:
        return True
    if low in GERUNDS:
        return not (inside and named)
    return (low in BASES and (led or (inside and not named))) or (low in THIRDS and led and not inside)


def _close(tokens: _Tokens, begin: int, end: int, found: list[str]) -> None:
    if not all(tokens.capital[begin:end]):
        found.append(_name(tokens, max(begin, end - _MAX_WORDS), end))

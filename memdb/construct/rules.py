"""Units without a language model: the claims of each message, sentence by sentence (QGMem appendix F1, by
rules).

A claim is a sentence, or a half of a compound one, with "I" and "you" resolved to names. Greetings, thanks,
praise and questions claim nothing. What a claim says stands in its messages: nothing is inferred, and what is
not understood is kept as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memdb.construct.resolve import Cast, cast_of, resolve
from memdb.construct.temporal import fact_time, times_of, within
from memdb.construct.triples import triple
from memdb.language.patterns import lazy
from memdb.language.phrases import MAX_PHRASES, distinct, phrases
from memdb.language.sentences import WORD, sentences
from memdb.language.talk import is_filler, is_question, question_tail, without_lead_in
from memdb.language.temporal import TimeExpression
from memdb.language.verbs import AUXILIARIES, FINITE, FORMS, GERUNDS, PASTS
from memdb.language.words import EMPTY, FOREIGN, FUNCTION, REACTIONS, word_set
from memdb.records import Instant, Message, Triple, Unit
from memdb.settings import WINDOW_MESSAGES

MAX_UNITS_PER_MESSAGE: Final = 64
_MAX_CLAIM_CHARS: Final = 1_000
_STATE_CHARS: Final = 600
_MAX_REPLY_WORDS: Final = 8
_MIN_CONTENT_CHARS: Final = 3

_MARKUP: Final = lazy(r"\*\*|__|`|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")
_BLANKS: Final = lazy(r"[\s|]+")
_SPLIT: Final = lazy(
    r";\s+|\s[-–—]\s(?=(?:I|we|he|she|they|it|my|you)(?:['’]\w+)?\s)"
    r"|,?\s(?:and|but)\s(?=(?:then\s|now\s)?(?:I|we|he|she|they|it|my|you|there)(?:['’]\w+)?\s)"
    r"|,\sso\s(?=(?:I|we|he|she|they|it)(?:['’]\w+)?\s)",
)
_DROPPED_I: Final = lazy(
    r"(?:just|recently|finally|already|even|still|really|also|currently)\s(?P<verb>\w+)\b"
    r"|(?P<first>\w+(?:['’]t)?)\b",
    re.IGNORECASE,
)
_NOW_IT_IS: Final = lazy(
    r"(?P<before>(?:now|today|these days|currently|at the moment|nowadays),?\s)?(?:it|that)(?:['’]s|\sis)\s"
    r"(?P<after>now\s)?(?P<value>[^,;]{1,80}?)(?P<end>\s(?:now|these days|nowadays))?[.!]*",
    re.IGNORECASE,
)
_PHOTO_OF: Final = lazy(
    r"\A(?:(?:a|an|the)\s)?(?:\w+\s)?(?:photo|photography|photograph|picture|image|screenshot)"
    r"\s(?:of|from)\s",
    re.IGNORECASE,
)
_CLOSING: Final = "\"'”’)]*_ "
_PLAIN_PASTS: Final = PASTS - AUXILIARIES - word_set("inspired based surrounded given left made set")
_YES_NO: Final = word_set("yes yeah yep yup no nope nah")
_LOVES: Final = word_set("love hope miss hate wish guess think")


class _Exchange(NamedTuple):
    """One message in its place."""

    position: int
    message: Message
    cast: Cast
    names: tuple[str, ...]
    question: tuple[int, str] | None  # the question it may answer: position and text
    messages: Sequence[Message]  # the session as far as it is given
    held: list[tuple[int, Triple] | None]  # its last state, once it was looked for


def extract(
    messages: Sequence[Message], instants: Sequence[Instant | None], first: int, participants: Sequence[str]
) -> list[Unit]:
    """The units of `messages[first:]`; those before are only what a reply refers back to.

    A unit's `first` and `last` are positions in `messages`, and `last` is always one of the new ones.
    `participants` are the speakers of the whole session: between two, "you" is the other one.
    """
    names = tuple(dict.fromkeys(name for name in participants if name.strip()))
    units: list[Unit] = []
    for position in range(max(0, first), len(messages)):
        units.extend(_units(_exchange(messages, position, names), instants[position]))
    return units


def _exchange(messages: Sequence[Message], position: int, names: tuple[str, ...]) -> _Exchange:
    message = messages[position]
    cast = cast_of(message.speaker, message.role, names)
    return _Exchange(position, message, cast, names, question_before(messages, position), messages, [])


def _units(exchange: _Exchange, instant: Instant | None) -> list[Unit]:
    message = exchange.message
    times = times_of(message.content, instant)
    units: list[Unit] = []
    for number, (start, end) in enumerate(_claims(message.content)):
        said = _clean(message.content[start:end])
        inside = within(times, start, end)
        unit = _unit(exchange, said, inside, message.content, opening=number == 0)
        if unit is not None:
            units.append(unit)
            if len(units) == MAX_UNITS_PER_MESSAGE:
                break
    if message.image_caption and message.image_caption.strip():
        units.append(_image(exchange, message.image_caption))
    return units


def _claims(content: str) -> Iterator[tuple[int, int]]:
    """Characters of each sentence, a compound one cut in halves; a question at the end is left out."""
    for start, end in sentences(content):
        text = content[start:end]
        if text.rstrip(_CLOSING).endswith(("?", "？")):
            end = start + _before_question(text)
        if end > start:
            yield from halves(content, start, end)


def _before_question(text: str) -> int:
    """How much of a sentence that ends as a question is a statement before it: "I paint, do you?"."""
    tail = question_tail(text)
    return tail if tail is not None and _has_verb(text[:tail]) else 0


def halves(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Characters of the clauses of a compound sentence, each with a subject and a verb of its own."""
    begin = start
    for cut in _SPLIT.finditer(content, start, end):
        if _has_verb(content[begin : cut.start()]) and _has_verb(content[cut.end() : end]):
            yield begin, cut.start()
            begin = cut.end()
    yield begin, end


def _has_verb(text: str) -> bool:
    """Whether a clause has a subject and a finite verb."""
    words = [word.lower().replace("’", "'") for word in WORD.findall(text[:200])]
    return any(word in FINITE or "'" in word for word in words[1:]) or (bool(words) and "'" in words[0])


def _clean(text: str) -> str:
    return _BLANKS.sub(" ", _MARKUP.sub("", text)).strip(" \t,;:-–—")


def _unit(
    exchange: _Exchange, said: str, times: list[TimeExpression], content: str, *, opening: bool
) -> Unit | None:
    if len(said) > _MAX_CLAIM_CHARS:
        said = said[:_MAX_CLAIM_CHARS].rsplit(" ", 1)[0]
    if is_foreign(said):
        return _as_said(exchange, said, times)
    body = without_lead_in(said)
    body = without_address(body, exchange.names)
    words = [word.lower().replace("’", "'") for word in WORD.findall(body)]
    if opening and exchange.question and is_reply(said, words):
        return _reply(exchange, said, times)
    if (update := _update(exchange, body, times)) is not None:
        return update
    if not _says_something(body, words, exchange.names, dated=bool(times)):
        return None
    claim = resolve(with_subject(body, words, exchange.cast, exchange.message), exchange.cast)
    claim = claim[:1].upper() + claim[1:]
    return _make(exchange, claim, body, times, content)


def _update(exchange: _Exchange, body: str, times: list[TimeExpression]) -> Unit | None:
    """Now it is Messi: a new value for what the speaker last said something to be."""
    found = _NOW_IT_IS.fullmatch(body)
    if found is None:
        return None
    changed = found["before"] or found["after"] or found["end"] or found["value"][0].isupper()
    if changed and not exchange.held:
        exchange.held.append(_last_state(exchange))
    held = exchange.held[0] if changed else None
    if held is None:
        return None
    position, state = held
    slot, _, verb = state.predicate.rpartition(" ")
    about = phrases(found["value"], exchange.names)
    return Unit(
        fact_text=f"{state.subject}'s {slot} {verb} now {found['value']}.",
        triple=Triple(state.subject, state.predicate, found["value"]),
        entities=distinct((state.subject, slot, *about.entities), MAX_PHRASES),
        locations=about.locations,
        fact_time=fact_time(times),
        first=position,
        last=exchange.position,
    )


def _last_state(exchange: _Exchange) -> tuple[int, Triple] | None:
    """The last "X's slot is value" of the same speaker, here or up to a window's width before."""
    for position in range(exchange.position, max(-1, exchange.position - WINDOW_MESSAGES), -1):
        if exchange.messages[position].speaker != exchange.message.speaker:
            continue
        content = exchange.messages[position].content
        if "is" not in content or _NOW_IT_IS.fullmatch(without_lead_in(_clean(content))):
            continue
        tail = max(0, len(content) - _STATE_CHARS)  # a state is recent: what stands further back is not read
        for start, end in reversed(list(_claims(content[tail:]))):
            start, end = start + tail, end + tail
            said = _clean(content[start:end])
            fact = triple(resolve(without_lead_in(said), exchange.cast))
            if fact is not None and fact.predicate.endswith((" is", " was")) and " " in fact.predicate:
                return position, fact
    return None


def without_address(text: str, names: tuple[str, ...]) -> str:
    """A sentence without the name of a participant it begins with: "Ana, I went" is "I went"."""
    head, comma, rest = text.partition(", ")
    called = comma and len(head) < 30 and any(name.lower().startswith(head.lower()) for name in names if head)
    return rest if called else text


def _says_something(text: str, words: list[str], names: tuple[str, ...], *, dated: bool) -> bool:
    """Whether a sentence holds a word of content, or dates something the speaker does."""
    if is_question(text) or is_filler(text):
        return False
    known = {part.lower() for name in names for part in name.split()}
    if len(words) < 2 or all(word.isdigit() for word in words):
        return False
    if dated and words[0].partition("'")[0] in ("i", "we") and len(words) > 3:
        return True
    return any(word not in EMPTY and not _is_known(word.removesuffix("'s"), known) for word in words)


def _is_known(word: str, names: set[str]) -> bool:
    """Whether a word is a participant's name, or the short form of one."""
    return word in names or (len(word) > 2 and any(name.startswith(word) for name in names))


def is_foreign(text: str) -> bool:
    """Whether a text is not written in English, by the common words and the letters in it."""
    words = WORD.findall(text[:400].lower())
    foreign = sum(word in FOREIGN for word in words)
    if text.isascii() and not foreign:
        return False
    english = sum(word in FUNCTION or word in FORMS for word in words if word not in FOREIGN)
    return english < foreign or english * 8 < len(words)


def _as_said(exchange: _Exchange, said: str, times: list[TimeExpression]) -> Unit | None:
    if sum(character.isalnum() for character in said) < _MIN_CONTENT_CHARS:
        return None
    about = phrases(said, exchange.names)
    return Unit(
        fact_text=f"{exchange.cast.speaker}: {said}" if exchange.cast.speaker else said,
        entities=distinct((exchange.message.speaker, *about.entities), MAX_PHRASES),
        locations=about.locations,
        fact_time=fact_time(times),
        first=exchange.position,
        last=exchange.position,
    )


def _make(exchange: _Exchange, claim: str, body: str, times: list[TimeExpression], content: str) -> Unit:
    spoken = tuple(content[time.start_char : time.end_char] for time in times)
    about = phrases(body, exchange.names)
    low = claim.lower()
    people = [name for name in exchange.names if name.lower() in low]
    return Unit(
        fact_text=claim,
        triple=triple(claim, spoken),
        entities=distinct((*people, *about.entities), MAX_PHRASES),
        locations=about.locations,
        fact_time=fact_time(times),
        first=exchange.position,
        last=exchange.position,
    )


def with_subject(text: str, words: list[str], cast: Cast, message: Message) -> str:
    """A sentence that leaves out "I" with it: "Went to Rome.", "Working on it."."""
    if not words or not cast.speaker or (message.role or "").lower() in ("assistant", "system"):
        return text
    found = _DROPPED_I.match(text)
    verb = ((found["verb"] or found["first"]) if found else "").lower().replace("’", "'")
    second = words[1] if len(words) > 1 else ""
    lowered = text[:1].lower() + text[1:]
    if _names_somebody(text):
        return text
    if verb in ("gonna", "gotta", "wanna", "can't", "couldn't", "won't", "didn't", "had") or verb in _LOVES:
        return f"I {lowered}"
    if verb == "been":
        return f"I have {lowered}"
    if verb in _PLAIN_PASTS and second not in ("by", "on"):
        return f"I {lowered}"
    if verb in GERUNDS and len(words) > 2 and not _has_verb(text):
        return f"I am {lowered}"
    return text


def _names_somebody(text: str) -> bool:
    """Whether a sentence begins with a name that looks like a verb: "Drew Brees plays"."""
    words = text.split(None, 6)
    at = 1
    while at < len(words) and words[at][:1].isupper():
        at += 1
    return 1 < at < len(words) and words[at].lower() in FINITE


def question_before(messages: Sequence[Message], position: int) -> tuple[int, str] | None:
    """The question another speaker's message, the one directly before, ends with."""
    if position == 0 or messages[position - 1].speaker == messages[position].speaker:
        return None
    content = messages[position - 1].content[-600:]
    if "?" not in content and "？" not in content:
        return None
    asked = [
        content[start:end]
        for start, end in sentences(content)
        if content[start:end].rstrip(_CLOSING).endswith(("?", "？"))
    ]
    if not asked:
        return None
    question = without_lead_in(_clean(asked[-1]))
    words = [word.lower().replace("’", "'") for word in WORD.findall(question)]
    return (position - 1, question) if any(word not in EMPTY for word in words) else None


def is_reply(said: str, words: list[str]) -> bool:
    """Whether a message's first sentence only says something together with the question before it."""
    spoken = [word.lower() for word in WORD.findall(said)]
    if not spoken or len(spoken) > _MAX_REPLY_WORDS:
        return False
    content = any(word not in EMPTY for word in words)
    if spoken[0] in _YES_NO and not content:
        return True
    if all(word in REACTIONS for word in spoken):
        return False
    return content and not any(word in FINITE or "'" in word for word in words)


def _reply(exchange: _Exchange, said: str, times: list[TimeExpression]) -> Unit | None:
    if exchange.question is None:
        return None
    asked_at, question = exchange.question
    about = phrases(said, exchange.names)
    topics = phrases(question, exchange.names)
    name = exchange.cast.speaker
    return Unit(
        fact_text=f"Asked «{question}», {name} said: {said}",
        entities=distinct((exchange.message.speaker, *about.entities, *topics.entities), MAX_PHRASES),
        locations=distinct((*about.locations, *topics.locations), MAX_PHRASES),
        fact_time=fact_time(times),
        first=asked_at,
        last=exchange.position,
    )


def _image(exchange: _Exchange, caption: str) -> Unit:
    shown = _clean(caption)[:_MAX_CLAIM_CHARS]
    about = phrases(_PHOTO_OF.sub("", shown), exchange.names)
    return Unit(
        fact_text=f"{exchange.cast.speaker} shared an image: {shown}",
        entities=distinct((exchange.message.speaker, *about.entities), MAX_PHRASES),
        locations=about.locations,
        first=exchange.position,
        last=exchange.position,
    )

"""A message told so that it can be understood alone, by rules (DeferMem appendix C.3.1).

I, we and you become names, a short reply gets back the question it answers, and a message that begins with
"it" or "she" what was said directly before. All words are those of the message and of earlier ones of its
segment: what is not understood stays as it was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from memdb import settings
from memdb.construct.resolve import Cast, cast_of, display_name, resolve
from memdb.construct.rules import (
    halves,
    is_foreign,
    is_reply,
    question_before,
    with_subject,
    without_address,
)
from memdb.generate.faithful import said_by
from memdb.generate.spans import stems
from memdb.language.cleaning import cleaned
from memdb.language.sentences import WORD, sentences
from memdb.language.talk import is_filler, question_tail, without_lead_in
from memdb.language.terms import document_terms
from memdb.language.verbs import FINITE
from memdb.language.words import EMPTY, REACTIONS, TIME_WORDS, word_set
from memdb.records import Message, Segment, Utterance

_POINTS_BACK: Final = word_set("he she it they that this these those him her them his their its")
_MOST_REPLY_WORDS: Final = 8  # of a sentence that may be a reply without a verb
_MOST_CONTEXT_CHARS: Final = 200  # of what was said before, which is there for its names alone


def statement(
    utterance: Utterance,
    segment: Segment,
    speakers: Sequence[str],
    question: str,
    most_chars: int = settings.MAX_STATEMENT_CHARS,
) -> str:
    """What a message says, as one faithful statement; empty when it says no word.

    `speakers` are those of the session: between two, "you" is the other one. Of a message longer than
    `most_chars` the sentences that say most of the question are told. The picture it came with stands at the
    end, as `[image: …]`, and comes on top.
    """
    names = tuple(dict.fromkeys(cleaned(name) for name in speakers))
    support = said_by(utterance, segment, names)
    for told in (
        _told(utterance, segment, names, question, most_chars),
        _as_said(utterance.message, question, most_chars),
    ):
        if document_terms(told) and not support.lacking(told):
            return told
    return ""


def _told(
    utterance: Utterance, segment: Segment, names: tuple[str, ...], question: str, most_chars: int
) -> str:
    """The sentences of the message that state something, then its picture. Names are put into English."""
    messages = [_bare(one.message) for one in _up_to(utterance, segment)]
    message = messages[-1]
    cast = cast_of(message.speaker, message.role, names)
    told: list[str] = []
    for start, end in sentences(message.content):
        said = message.content[start:end]
        if is_foreign(said):
            told.append(said)
            continue
        before = "" if told else _before(said, messages, cast, message.content[:start])
        body = said if before else _body(said, names)
        if body:
            claim = _resolved(with_subject(body, _words(body), cast, message), cast)
            told.append(before + (claim if before else claim[:1].upper() + claim[1:]))
    if not told:
        return _as_said(utterance.message, question, most_chars)
    return " ".join([*_chosen(told, question, most_chars), *_image(utterance.message)])


def _resolved(sentence: str, cast: Cast) -> str:
    """A sentence with names for I and you, clause by clause: "and you have" is "and Ben has"."""
    told, at = "", 0
    for start, end in halves(sentence, 0, len(sentence)):
        told += sentence[at:start] + resolve(sentence[start:end], cast)
        at = end
    return told + sentence[at:]


def _body(said: str, names: tuple[str, ...]) -> str:
    """What a sentence states, without lead-in and address; empty for a question, a phrase of politeness or a
    reaction.
    """
    if _asks(said):
        tail = question_tail(said)
        said = said[:tail] if tail else ""
    body = without_address(without_lead_in(said), names)
    words = _words(body)
    states = not all(word in EMPTY for word in words) or _dates(words)
    return body if words and states and not is_filler(body) else ""


def _before(said: str, messages: Sequence[Message], cast: Cast, left_out: str) -> str:
    """What the first sentence that is told needs in front of it, if anything: the question that a short reply
    answers, or what was said directly before, where it begins with "it" or "she". `left_out` is what the
    message says before it.
    """
    place = len(messages) - 1
    words = _words(without_lead_in(said))
    asked = question_before(messages, place)
    points_back = bool(words) and words[0].partition("'")[0] in _POINTS_BACK
    if own := [left_out[start:end] for start, end in sentences(left_out) if _refers(left_out[start:end])]:
        return f"{cast.speaker} said «{_short(own[-1])}», then: " if points_back else ""
    if _asks(said) or is_filler(said) or not (points_back or _replies(said, words)):
        return ""
    if asked is not None:
        return f"Asked «{_short(cleaned(asked[1]))}», {cast.speaker} said: "
    if not points_back or not place or not (spans := sentences(messages[place - 1].content)):
        return ""
    last = messages[place - 1].content[spans[-1].start : spans[-1].end]
    return f"After {display_name(messages[place - 1].speaker)} said «{_short(last)}», {cast.speaker} said: "


def _refers(said: str) -> bool:
    """Whether a sentence speaks of something: more than politeness and reactions."""
    return not all(word in EMPTY for word in _words(said))


def _replies(said: str, words: list[str]) -> bool:
    """Whether a sentence only says something together with a question: "Yes.", "Until May.", "He did."."""
    whole = len(words) > _MOST_REPLY_WORDS or any(word in FINITE or "'" in word for word in words)
    if is_reply(said, words) or (_dates(words) and not whole):
        return True
    return all(word in EMPTY for word in words) and not all(word in REACTIONS for word in words)


def _dates(words: list[str]) -> bool:
    """Whether words speak of a time or a number."""
    return any(word in TIME_WORDS or word[0].isdigit() for word in words)


def _asks(said: str) -> bool:
    return said.rstrip("\"'”’)*_ ").endswith(("?", "？"))


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in WORD.findall(text)]


def _up_to(utterance: Utterance, segment: Segment) -> list[Utterance]:
    """The message behind those directly before it: where one was left out, what comes before it is too far
    away to be what a message refers to.
    """
    found = [utterance]
    for one in reversed(segment.utterances):
        if one.position == found[0].position - 1:
            found.insert(0, one)
    return found


def _bare(message: Message) -> Message:
    """The message without its picture; lines stay, since they end sentences."""
    content = "\n".join(cleaned(line) for line in message.content.splitlines())
    return msgspec.structs.replace(
        message, speaker=cleaned(message.speaker), content=content, image_caption=None
    )


def _as_said(message: Message, question: str, most_chars: int) -> str:
    """The message in its own words, behind the speaker's name; empty when it has no word."""
    image = _image(message)
    if not document_terms(f"{message.content} {' '.join(image)}"):
        return ""
    spoken = [cleaned(message.content[start:end]) for start, end in sentences(message.content)]
    lines = [line for line in spoken if line] or [cleaned(message.content)]
    said = _chosen([line for line in lines if line], question, most_chars)
    return " ".join([f"{display_name(cleaned(message.speaker))}:", *said, *image])


def _image(message: Message) -> list[str]:
    shown = _short(cleaned(message.image_caption))
    return [f"[image: {shown}]"] if shown else []


def _chosen(claims: Sequence[str], question: str, most_chars: int) -> list[str]:
    """The claims that say most of the question as far as they fit, in their order; at least the beginning of
    the best.
    """
    asked = stems(question)
    best = sorted(range(len(claims)), key=lambda number: -len(asked & stems(claims[number])))
    kept, left = set[int](), most_chars
    for number in best:
        if len(claims[number]) <= left:
            kept.add(number)
            left -= len(claims[number]) + 1
    if best and not kept:
        return [_short(claims[best[0]], most_chars)]
    return [claim for number, claim in enumerate(claims) if number in kept]


def _short(text: str, most_chars: int = _MOST_CONTEXT_CHARS) -> str:
    """The text, cut at a blank where it is too long."""
    if len(text) <= most_chars:
        return text
    head = text[: most_chars - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"

"""What a message and a unit are found by: the texts that are indexed.

A message is indexed as itself and in its neighbourhood: docs/why/views.md has the measurements.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

from memdb import settings
from memdb.language.sentences import WORD, sentences
from memdb.records import Instant, Message, Unit
from memdb.store.rows import day_of

_BEFORE = 2  # messages before, in the lexical neighbourhood
_AFTER = 1  # messages after, in both neighbourhoods
_REMEMBERED = 32  # texts that were just read: each is a neighbour of those around it
_MONTHS = (
    "January February March April May June July August September October November December".split()
)  # fmt: skip


def dense_text(messages: Sequence[Message], index: int) -> str:
    """`messages[index]` as the encoder reads it: the question it replies to, then who states what, and the
    caption.

    It asks nothing itself unless it does nothing but ask: what is asked again is not what is looked for.
    """
    own, _, prompt = _own_question_prompt(messages, index)
    return f"{prompt} {own}".strip()


def fields(messages: Sequence[Message], index: int, instant: Instant | None) -> dict[str, str]:
    """The lexical fields of `messages[index]`; `messages` are consecutive messages of one session.

    own: what it states, with speaker and caption; question: what it asks besides; prompt: what the message
    before it asked, since a question belongs to its reply; context: its day and what the messages before
    it state; after: what the next one states, apart, since `as_of` must not see it. Each neighbour is
    clipped: a long one would drown the message.
    """
    own, question, prompt = _own_question_prompt(messages, index)
    day = "" if instant is None or instant.day is None else day_words(day_of(instant.day))
    return {
        "own": own,
        "question": question,
        "prompt": prompt,
        "context": " ".join([day, *map(_stated, messages[max(0, index - _BEFORE) : index])]),
        "after": " ".join(map(_stated, messages[index + 1 : index + 1 + _AFTER])),
    }


def _stated(neighbour: Message) -> str:
    return _clipped(f"{neighbour.speaker}: {_states_and_asks(neighbour.content)[0]} {_caption(neighbour)}")


def day_words(day: dt.date) -> str:
    """A day as people write it and as programs write it: `7 May 2023 2023-05-07`."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year} {day.isoformat()}"


def unit_labels_text(unit: Unit, speakers: Sequence[str]) -> str:
    """What a unit is found by besides its fact text: entities, locations, fact times, speakers."""
    days = [day_words(interval.start) for interval in unit.fact_time if interval.granularity == "day"]
    days += [_month_words(interval.start) for interval in unit.fact_time if interval.granularity == "month"]
    days += [
        str(interval.start.year) for interval in unit.fact_time if interval.granularity in ("year", "week")
    ]
    return " ".join(dict.fromkeys([*unit.entities, *unit.locations, *days, *speakers]))


def _own_question_prompt(messages: Sequence[Message], index: int) -> tuple[str, str, str]:
    """What a message states (or asks, if it does nothing else), what else it asks, what it replies to."""
    message = messages[index]
    states, asks = _states_and_asks(message.content)
    prompt = _states_and_asks(messages[index - 1].content)[1] if index else ""
    if not WORD.search(states) and not message.image_caption:
        states, asks = asks, ""
    return f"{message.speaker}: {states} {_caption(message)}".rstrip(), asks, _clipped(prompt)


def _caption(message: Message) -> str:
    return f"[image: {message.image_caption}]" if message.image_caption else ""


def _clipped(text: str) -> str:
    words = text.split(None, settings.CONTEXT_WORDS)
    return " ".join(words[: settings.CONTEXT_WORDS])


@lru_cache(_REMEMBERED)
def _states_and_asks(text: str) -> tuple[str, str]:
    """`text` without its questions, and its questions. What is no sentence stays with the first."""
    if "?" not in text and "\uff1f" not in text:
        return text, ""
    states, asks, start = [], [], 0
    for span in sentences(text):
        sentence = text[span.start : span.end]
        if sentence.rstrip("'\"”’)*_ ").endswith(("?", "\uff1f")):
            states.append(text[start : span.start])
            asks.append(sentence)
            start = span.end
    return " ".join([*states, text[start:]]), " ".join(asks)


def _month_words(day: dt.date) -> str:
    return f"{_MONTHS[day.month - 1]} {day.year} {day:%Y-%m}"

"""Whether a piece of distilled evidence rests on its message: every word of content in it is said there, or
earlier in the same segment (DeferMem appendix C.3.1).

Words are compared without case and inflection. That is necessary for faithfulness and not sufficient: who did
what to whom is not compared.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from memdb.construct.admit import Admitted
from memdb.construct.resolve import cast_of, resolve
from memdb.construct.support import Support, support_of
from memdb.errors import TimeError
from memdb.language.cleaning import cleaned
from memdb.language.clock import anchor_day, parse_instant
from memdb.language.terms import document_terms
from memdb.records import Instant, Interval, Message, Segment, Utterance

# What the rules' own wording adds: "Asked «…», Ana said: …", "Ana's team is now …", "[image: …]".
GLUE: Final = "asked said now image"
# "I don't" is "Ana doesn't": function words, of which only the beginning is a term of its own.
_NEGATED: Final = "isn aren wasn weren hasn haven doesn don"


def faithful(info: str, utterance: Utterance, segment: Segment, speakers: Collection[str] = ()) -> bool:
    """Whether all words of content in `info` are said in the message or earlier in its segment.

    The names of the segment's speakers and of `speakers`, the others of the session, count as said; so do
    the names that stand for I, we and you, the day and the clock of the message, and the days that are meant
    by an expression of time in what was said. A text without a word says nothing, and is not faithful.
    """
    text = cleaned(info)
    if not document_terms(text):
        return False
    return not said_by(utterance, segment, speakers).lacking(text)


def said_by(utterance: Utterance, segment: Segment, speakers: Collection[str] = ()) -> Support:
    """What a message and the earlier ones of its segment say."""
    present = (one.message.speaker for one in segment.utterances)
    names = tuple(dict.fromkeys(cleaned(name) for name in (*speakers, *present)))
    cited = [
        _admitted(one.message)
        for one in segment.utterances
        if one.session == utterance.session and one.position <= utterance.position
    ]
    support = support_of(cited, names)
    for message, instant in cited:
        cast = cast_of(message.speaker, message.role, names)
        support.say(resolve(message.content, cast))
        support.say(f"{cast.speaker} {cast.counterpart or ''}")
        if message is cited[-1][0]:
            _say_clock(support, message, instant)
    support.say(" ".join([*names, GLUE, _NEGATED]))
    return support


def _admitted(message: Message) -> Admitted:
    """The message as it may stand in a prompt: what is compared with it has gone the same way."""
    shown = msgspec.structs.replace(
        message,
        speaker=cleaned(message.speaker),
        content=cleaned(message.content),
        image_caption=cleaned(message.image_caption),
        location=cleaned(message.location),
    )
    return Admitted(shown, instant_of(message))


def instant_of(message: Message) -> Instant | None:
    """The message's clock reading; None where it has none that can be read."""
    if message.said_at is None:
        return None
    try:
        return parse_instant(message.said_at)
    except TimeError:
        return None


def _say_clock(support: Support, message: Message, instant: Instant | None) -> None:
    support.say(str(message.said_at or ""))
    if (day := anchor_day(instant)) is not None:
        support.say_time(Interval(day, day, "day"))

"""What a question asks about, without a language model: names and topics, places, times (QGMem section
III-B1).
"""

from __future__ import annotations

import re
from typing import Final

from memdb import settings
from memdb.language.clock import anchor_day
from memdb.language.patterns import lazy
from memdb.language.phrases import phrases
from memdb.language.temporal import TimeExpression, expressions
from memdb.records import Instant, Query, TimeConstraint

_REACH_CHARS: Final = 60
_TALK: Final = lazy(
    r"\b(?:(?:our|the|this|that|a|my)\s(?:\w+\s)?(?:chat|conversation|talk|discussion|session|call)s?"
    r"|(?:we|I|you)\s(?:last\s)?(?:talked|spoke|chatted|discussed|said|told|mentioned"
    r"|wrote|asked|messaged|texted)"
    r"|(?:did|have|had)\s(?:I|you|we)\s(?:ever\s)?(?:tell|say|mention|ask|talk|discuss|told|said"
    r"|mentioned|talked)"
    r"|(?:told|asked|reminded)\s(?:you|me|us))\b",
    re.IGNORECASE,
)

_BESIDE: Final = lazy(
    r"(?:\s(?:me|you|us|him|her|them|about it|this|it))?(?:\s(?:on|in|from|of|back|at|during|the)){0,3}\s?"
)


def parse_question(text: str, at: Instant | None) -> Query:
    """The constraints of a question; `at`, its own time, only resolves relative expressions in it.

    Any text is legal; what cannot be read gives no constraint. Only the first 2,000 characters are read.
    """
    read = text[: settings.MAX_PARSED_CHARS]
    about = phrases(read)
    times = expressions(read, anchor_day(at))[: settings.MAX_QUERY_TIMES]
    return Query(
        text=text,
        entities=about.entities,
        locations=about.locations,
        times=tuple(dict.fromkeys(_constraint(read, time) for time in times)),
    )


def _constraint(text: str, time: TimeExpression) -> TimeConstraint:
    """When the talking is what is dated, "told me on Friday", the time is that of the conversation."""
    before = text[max(0, time.start_char - _REACH_CHARS) : time.start_char]
    talked = list(_TALK.finditer(before))
    if talked and _BESIDE.fullmatch(before, talked[-1].end()):
        return TimeConstraint("utterance", time.interval)
    return TimeConstraint("fact", time.interval)

"""Moves of a conversation that claim nothing: greetings, thanks, praise, questions."""

from __future__ import annotations

import re
from typing import Final

from memdb.language.patterns import lazy

# What a sentence may begin with before it says something, with the name of the one spoken to.
_LEAD_IN: Final = lazy(
    r"(?:(?:(?:oh|wow|hey|hi|hello|well|yeah|yes|yep|yup|nah|no|nope|ok|okay|sure|haha|lol|hmm|thanks"
    r"|thank you|aw+|omg|ah|absolutely|definitely|totally|exactly|right|great|cool|nice|awesome|congrats|true"
    r"|i see|congratulations|sorry|man|of course|by the way|btw|anyway|honestly|good morning|good evening"
    r"|no worries|for sure|my pleasure|yay|gosh)(?:,?\s(?!I\b)[A-Z][\w'-]{1,20}(?=[,!.]))?\s?[,!.…-]+\s*)"
    r"|(?:(?:and|but|so|well|oh|also|plus|yeah|yes)\s)){1,4}",
    re.IGNORECASE,
)
_AUXILIARY: Final = "have|has|do|did|does|are|were|is|was|can|could|would|will"
_WH_WORD: Final = "what|how|where|when|who|why|which|whose"
_TAIL: Final = lazy(
    rf"(?:[,.…]|\s[-–—])\s+(?:and\s|but\s|so\s)?(?=(?:{_AUXILIARY}|{_WH_WORD}|any|what's|how's)\s(?:you|your"
    r"|we|it|they|he|she|i|about|the|that|there|is|are|do|did|have|kind|else)\b)",
    re.IGNORECASE,
)
_QUESTION: Final = lazy(
    rf"(?:{_WH_WORD})(?:['’]s|\s(?:{_AUXILIARY}|should|about|kind|else|inspired|made|makes|happened"
    r"|brings))\b"
    rf"|(?:{_AUXILIARY})\s(?:you|he|she|they|it|we|i|your|there|any)\b",
    re.IGNORECASE,
)
_FILLER: Final = lazy(
    r"(?:(?:good (?:night|morning|evening|afternoon|day)|good ?bye|bye|hi|hello|hey|cheers)"
    r"(?:[, ]+\w+){0,2}\W*\Z"
    r"|(?:i'm |i am |so |really |just )*(?:glad|happy|sorry|great|good|nice|lovely|sad|delighted)"
    r"(?: to| you| that you)? (?:hear|see|meet|know|talk|catch|chat|hearing|seeing|help|like|liked"
    r"|enjoy)\b"
    r"|(?:so )?(?:cool|great|awesome|nice|amazing|wonderful|glad|happy) (?:that )?"
    r"(?:you|you've|you're|he|she|they)\b"
    r"|(?:thanks|thank you|thx)\b(?! to )|(?:have|hope) (?:you |u )?(?:have |had |a |an )|take care"
    r"|talk to you|see you|long time no see|let me know\b|let's (?:catch up|chat|talk)|keep (?:it )?up"
    r"|good luck|you got this"
    r"|you're welcome|no problem|can't wait to (?:see|hear) (?:you|it|from|more|about)"
    r"|(?:that|it|this|which) (?:sounds|looks|seems)\b|sounds\b|looks\b"
    r"|how (?:cool|nice|great|awesome|lovely|exciting)\b|what an? \w+ (?:idea|story|day|time)\b)",
    re.IGNORECASE,
)


def without_lead_in(text: str) -> str:
    """A sentence without "Yeah,", "Thanks, Ana!" or "So" in front."""
    found = _LEAD_IN.match(text)
    return text[found.end() :] if found else text


def is_question(sentence: str) -> bool:
    """Whether a sentence asks, with or without a question mark."""
    return sentence.rstrip("\"'”’)*_ ").endswith(("?", "？")) or bool(_QUESTION.match(sentence))


def question_tail(sentence: str) -> int | None:
    """Where the question begins that a statement ends with: "I paint, do you?"."""
    found = _TAIL.search(sentence)
    return found.start() if found else None


def is_filler(sentence: str) -> bool:
    """Whether a sentence is a set phrase of politeness or a reaction to what the other one said."""
    return bool(_FILLER.match(sentence.replace("’", "'")))

"""Long texts made to make a matcher backtrack: each must simply come back, or the suite hangs."""

from __future__ import annotations

import datetime as dt

import pytest

from memdb.activate.parse import parse_question
from memdb.construct.rules import MAX_UNITS_PER_MESSAGE, extract
from memdb.language.phrases import phrases
from memdb.language.sentences import sentences
from memdb.language.temporal import expressions
from memdb.records import Message

LENGTH = 100_000
SEEDS = [
    "a", "1", " ", "\n", "\t", '"', "'", "`", "*", "-", "(", "|", "?", "!", ".", "\x00", "\ud800",
    "\u3000", ". ", "? ", "; ", ", ", "- ", "# ", "1. ", "[ ] ", "| ", "a-", "a.", "a'", "1-", "1/", "1 ",
    "1:", "2023-", "2023 ", "may ", "May 5 ", "5 may ", "May 5 to ", "last ", "the ", "the week before ",
    "a few ", "in the ", "two days ", "Friday ", "I ", "I'm ", "I'm really ", " and I am", " - I am",
    "I am; ", "you ", "my ", "we'd ", "so ", "wow, ", "hey Ana, ", "Aa ", "A of ", "Dr. ", "D.C. ",
    "now it is ", "it's ", '"a ', "“a ", "what, do you ", "to ", "to to be ", "has been ", "the of ",
    "a kind of ", "```\n", "昨天", "我昨天去了。", "hier ", "é", "🙂", "ana ", "is, ", "has, is - ",
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_long_repetition(seed: str) -> None:
    text = (seed * (LENGTH // len(seed) + 1))[:LENGTH]
    assert all(0 <= start < end <= LENGTH for start, end in sentences(text))
    assert all(found.end_char <= LENGTH for found in expressions(text, dt.date(2023, 5, 8)))
    assert len(phrases(text).entities) <= 12
    assert parse_question(text, None).text == text
    assert len(extract([Message("Ana", text)], [None], 0, ("Ana", "Ben"))) <= MAX_UNITS_PER_MESSAGE

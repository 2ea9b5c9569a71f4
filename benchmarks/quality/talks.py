"""Conversations written for memdb, Apache-2.0, with questions, the messages that answer them and the answers.

They come with memdb: no other data is needed, and what is found on them may be shown to anybody. Those that
memdb's models never saw in training are "held-out", the others "development".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from memdb.train import talks

from .data import Conversation, Question, Session
from .errors import DataMalformed

PATTERN: Final = "*.json"
HOME: Final = talks.OWN
HELD_OUT: Final = "held-out"
DEVELOPMENT: Final = "development"
CATEGORIES: Final = dict(enumerate(get_args(talks.Kind), 1))
_KINDS: Final = {name: number for number, name in CATEGORIES.items()}


def load(files: Sequence[Path]) -> list[Conversation]:
    """A conversation for each file. Raises DataMalformed, which names it."""
    found = []
    for file in files:
        try:
            found.append(_conversation(talks.read(file)))
        except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise DataMalformed(f"{file}: {error}", hint="expected a talk of memdb/train/talks") from error
    return found


def _conversation(talk: talks.Talk) -> Conversation:
    sessions = tuple(Session(sitting.name, sitting.messages) for sitting in talk.sittings)
    questions = tuple(
        Question(
            number=number,
            text=one.text,
            category=_KINDS[one.kind],
            gold=one.evidence,
            answer=one.answer,
            asked_at=talk.asked_at,
            answerable=one.kind != "unanswerable",
        )
        for number, one in enumerate(talk.questions)
    )
    size = HELD_OUT if talk.name in talks.HELD_OUT else DEVELOPMENT
    return Conversation(talk.name, sessions, questions, size)

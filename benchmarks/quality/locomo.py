"""LoCoMo (Maharana et al. 2024): ten long conversations with questions and the turns that answer them.

Read as published: `conversation.session_N` with `session_N_date_time`, turns with `dia_id`, `text` and often
`blip_caption`, `qa` with `evidence` and `category`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

import memdb

from .data import Conversation, Question, Session
from .errors import DataMalformed

PATTERN: Final = "locomo*.json"
ADVERSARIAL: Final = 5
CATEGORIES: Final = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    ADVERSARIAL: "adversarial",
}

_CLOCK = re.compile(r"(\d{1,2}):(\d\d) ([ap])m on (\d{1,2}) (\w+), (\d{4})", re.IGNORECASE)
_MONTHS = (
    "January February March April May June July August September October November December".lower().split()
)


class _Turn(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str = ""
    blip_caption: str | None = None


class _Question(msgspec.Struct):
    question: str
    category: int
    evidence: list[str] = []
    answer: str | int | float | None = None


class _Sample(msgspec.Struct):
    sample_id: str
    conversation: dict[str, msgspec.Raw]
    qa: list[_Question]


def clock(text: str) -> str:
    """A session's clock, `1:56 pm on 8 May, 2023`, as ISO 8601 without a zone: `2023-05-08T13:56`.

    Raises ValueError for any other form.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None or found[5].lower() not in _MONTHS:
        raise ValueError(f"not a session clock: {text!r}")
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    month = _MONTHS.index(found[5].lower()) + 1
    return dt.datetime(int(found[6]), month, int(found[4]), hour, int(found[2])).isoformat(timespec="minutes")


def repair(evidence: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The turn ids meant by `evidence`, each once, unknown ones dropped.

    Entries may hold several ids (`D8:6; D9:17`), a stray colon (`D:11:26`), padding (`D30:05`) or none (`D`).
    """
    existing = set(known)
    meant = (
        f"D{int(session)}:{int(turn)}"
        for entry in evidence
        for session, turn in re.findall(r"D:?(\d+):(\d+)", entry)
    )
    return tuple(dict.fromkeys(one for one in meant if one in existing))


def load(files: Sequence[Path]) -> list[Conversation]:
    """Every conversation of the files. Raises DataMalformed, which names the file and the place in it."""
    conversations: dict[str, Conversation] = {}
    for file in files:
        for sample in _samples(file):
            if sample.sample_id in conversations:
                raise DataMalformed(
                    f"{file}: {sample.sample_id} was read before", hint="name one file with --data FILE"
                )
            try:
                conversations[sample.sample_id] = _conversation(sample)
            except (ValueError, msgspec.ValidationError) as error:
                raise DataMalformed(f"{file}: {sample.sample_id}: {error}") from error
    return list(conversations.values())


def _samples(file: Path) -> list[_Sample]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[_Sample])
    except (OSError, msgspec.MsgspecError) as error:
        raise DataMalformed(f"{file}: {error}", hint="expected LoCoMo's published JSON") from error


def _conversation(sample: _Sample) -> Conversation:
    numbers = sorted(
        int(name[1]) for key in sample.conversation if (name := re.fullmatch(r"session_(\d+)", key))
    )
    sessions = tuple(_session(sample, f"session_{number}") for number in numbers)
    messages = [message for session in sessions for message in session.messages]
    known = [message.id for message in messages if message.id is not None]
    asked_at = str(messages[-1].said_at) if messages else None
    questions = tuple(
        Question(
            number=number,
            text=one.question,
            category=one.category,
            gold=repair(one.evidence, known),
            answer="" if one.answer is None else str(one.answer),
            asked_at=asked_at,
            answerable=one.category != ADVERSARIAL,
        )
        for number, one in enumerate(sample.qa)
    )
    return Conversation(sample.sample_id, sessions, questions)


def _session(sample: _Sample, name: str) -> Session:
    turns = msgspec.json.decode(sample.conversation[name], type=list[_Turn])
    stamp = sample.conversation.get(f"{name}_date_time")
    if stamp is None:
        raise ValueError(f"{name} has no clock")
    said_at = clock(msgspec.json.decode(stamp, type=str))
    return Session(
        name,
        tuple(
            memdb.Message(
                speaker=turn.speaker,
                content=turn.text,
                said_at=said_at,
                id=turn.dia_id,
                image_caption=turn.blip_caption,
            )
            for turn in turns
        ),
    )

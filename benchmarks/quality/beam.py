"""BEAM (Tavakoli et al. 2025): long chats with an assistant, and probing questions of ten abilities.

Read as published: a folder for each chat with `chat.json`, batches of turns of messages, and
`probing_questions.json`, whose `source_chat_ids` name the messages a question rests on. The folder above says
the size: `beam-100k`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.text import Text

import memdb

from .answers import BEAM_ABILITIES
from .columns import HYBRID
from .data import Conversation, Question, Session
from .errors import DataMalformed
from .figures import MESSAGES, Estimate, Row, Shown
from .report import BASELINE, Report, by_category, costs, gain, heading, table_of

CHAT: Final = "chat.json"
PROBES: Final = "probing_questions.json"
PATTERN: Final = " ".join(place + file for place in ("", "*/", "beam*/*/") for file in (CHAT, PROBES))
CATEGORIES: Final = {number: name.replace("_", " ") for number, name in enumerate(BEAM_ABILITIES, 1)}
ABSTENTION: Final = "abstention"
TARGET: Final = 1.3  # times BM25's R@10
KEY: Final = "R@10"
FIGURES: Final = msgspec.structs.replace(
    MESSAGES,
    shown=Shown(
        main=("R@10", "all@10", "nDCG@10"),
        grouped=("R@10", "all@10", "nDCG@10"),
        compared=("R@10", "all@10", "nDCG@10"),
        key=KEY,
    ),
)

# What a message ends in: the place in the plan it was written after.
_PLAN: Final = re.compile(r"\s*->->\s*\d+\s*,\s*(?:\d+|N/A)\)?\s*\Z")
_ANCHOR: Final = re.compile(r"([A-Z][a-z]+)-(\d{1,2})-(\d{4})")
_SIZE: Final = re.compile(r"\d+[km]", re.IGNORECASE)
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()
)


class _Message(msgspec.Struct):
    role: str
    id: int
    content: str
    time_anchor: str | None = None


class _Batch(msgspec.Struct):
    batch_number: int
    turns: list[list[_Message]]
    time_anchor: str | None = None


class _Probe(msgspec.Struct):
    question: str
    source_chat_ids: Any = None
    answer: str | None = None
    ideal_answer: str | None = None
    ideal_response: str | None = None
    ideal_summary: str | None = None

    @property
    def reference(self) -> str:
        """The answer, whatever the field of its ability is called; empty where there is a rubric alone."""
        return self.answer or self.ideal_answer or self.ideal_response or self.ideal_summary or ""


def day(anchor: str) -> str:
    """A date of the data, `March-15-2024`, as ISO 8601. Raises ValueError for any other form."""
    found = _ANCHOR.fullmatch(anchor.strip())
    if found is None or found[1] not in _MONTHS:
        raise ValueError(f"not a time anchor: {anchor!r}")
    return dt.date(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2])).isoformat()


def said(content: str) -> str:
    """A message as it was said, without the place in the plan (`->-> 1,2`) that the data ends it with."""
    return _PLAN.sub("", content)


def sources(named: object) -> Iterator[str]:
    """The message ids in `source_chat_ids`, which is a list, or a dict of lists, in order.

    Raises ValueError for what is none.
    """
    match named:
        case None:
            return
        case dict():
            for part in named.values():
                yield from sources(part)
        case list():
            for part in named:
                yield from sources(part)
        case int():
            yield str(named)
        case _:
            raise ValueError(f"not a message id: {named!r}")


def load(files: Sequence[Path]) -> list[Conversation]:
    """A conversation for each chat, the smallest size first. Raises DataMalformed, which names the folder."""
    folders = sorted({file.resolve().parent for file in files}, key=_place)
    found = [_conversation(folder) for folder in folders]
    return sorted(found, key=lambda one: _magnitude(one.size))


def _place(folder: Path) -> tuple[str, int, str]:
    """Folders in the order of their numbers."""
    return str(folder.parent), int(folder.name) if folder.name.isdecimal() else 0, folder.name


def _magnitude(size: str) -> float:
    """How large `100k` is."""
    if not _SIZE.fullmatch(size):
        return float("inf")
    return int(size[:-1]) * (1_000 if size[-1] == "k" else 1_000_000)


def _conversation(folder: Path) -> Conversation:
    named = _SIZE.search(folder.parent.name)
    size = named[0].lower() if named else folder.parent.name
    try:
        batches = msgspec.json.decode((folder / CHAT).read_bytes(), type=list[_Batch])
        probes = msgspec.json.decode((folder / PROBES).read_bytes(), type=dict[str, list[_Probe]])
        sessions = tuple(_session(batch) for batch in batches)
        questions = tuple(_questions(probes, sessions))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        hint = f"a chat is a folder with {CHAT} and {PROBES}"
        raise DataMalformed(f"{folder}: {error}", hint=hint) from error
    return Conversation(f"{size}-{folder.name}", sessions, questions, size)


def _session(batch: _Batch) -> Session:
    """A batch; all its messages have the date that its first one names."""
    messages = [message for turn in batch.turns for message in turn]
    anchor = next((message.time_anchor for message in messages if message.time_anchor), batch.time_anchor)
    said_at = None if anchor is None else day(anchor)
    return Session(
        f"batch-{batch.batch_number}",
        tuple(
            memdb.Message(
                speaker=message.role,
                content=said(message.content),
                said_at=said_at,
                id=str(message.id),
                role=message.role,
            )
            for message in messages
        ),
    )


def _questions(probes: Mapping[str, list[_Probe]], sessions: Iterable[Session]) -> Iterator[Question]:
    messages = [message for session in sessions for message in session.messages]
    known = {message.id for message in messages}
    asked_at = next((str(one.said_at) for one in reversed(messages) if one.said_at is not None), None)
    if strange := probes.keys() - set(BEAM_ABILITIES):
        raise ValueError(f"no ability {', '.join(sorted(strange))}")
    asked = [(ability, probe) for ability in BEAM_ABILITIES for probe in probes.get(ability, ())]
    for number, (ability, probe) in enumerate(asked):
        gold = dict.fromkeys(one for one in sources(probe.source_chat_ids) if one in known)
        yield Question(
            number=number,
            text=probe.question,
            category=BEAM_ABILITIES.index(ability) + 1,
            gold=() if ability == ABSTENTION else tuple(gold),
            answer=probe.reference,
            asked_at=asked_at,
            answerable=ability != ABSTENTION,
        )


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: messages with the ratio to BM25, a table by ability for each figure, the target."""
    title = heading(result, "messages found")
    console.print(table_of(result, title, result.shown.main, gain(result) | costs(result)))
    multiples = {f"× {name}": partial(_multiple, over) for name, over in result.ratios.items()}
    console.print(table_of(result, f"{KEY} as a multiple of a baseline's", (), multiples))
    for figure in result.shown.grouped:
        console.print(by_category(result, categories, figure))
    reached = result.ratios.get(BASELINE, {}).get(HYBRID, {}).get(KEY)
    if reached is not None:
        interval = "" if reached.low is None else f" ({reached.low:.2f}–{reached.high:.2f})"
        line = f"target: {TARGET} × {BASELINE} by {KEY}; {HYBRID}: {reached.value:.2f}{interval}"
        console.print(Text(line, style="bold"))


def _multiple(over: Mapping[str, Mapping[str, Estimate]], row: Row) -> Text:
    """`1.31` above its interval: how many times the key figure of a baseline a retriever has."""
    estimate = over.get(row.retriever, {}).get(KEY)
    if estimate is None:
        return Text("–", style="dim")
    text = Text(f"{estimate.value:.2f}")
    if estimate.low is None or estimate.high is None:
        return text
    return text.append(f"\n{estimate.low:.2f}–{estimate.high:.2f}", style="dim not bold")

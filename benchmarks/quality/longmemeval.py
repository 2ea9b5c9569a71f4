"""LongMemEval (Wu et al. 2025): questions about chats with an assistant, each in a haystack of sessions.

Read as published: records with `haystack_sessions`, their ids and dates, `answer_session_ids` and turns that
`has_answer`. A record whose haystack is larger than its evidence is asked in it: "published". Of records that
hold their evidence alone, haystacks are made, which are marked "derived": the sessions of the question itself
and those of other questions.

What is ranked are messages. A session stands where its best message does. The sessions to be found are
`answer_session_ids`; the turns to be found are those of them that have the answer, whoever said them.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

import memdb

from . import metrics
from .data import Conversation, Question, Session
from .errors import BenchmarkError, DataMalformed
from .figures import Figures, Shown, by_question
from .report import Report, by_category, costs, gain, heading, table_of
from .retrievers import Found

PATTERN: Final = "longmemeval*.json"
CATEGORIES: Final = {
    1: "single-session-user",
    2: "single-session-assistant",
    3: "single-session-preference",
    4: "multi-session",
    5: "temporal-reasoning",
    6: "knowledge-update",
}
# What a judge lets pass besides the same meaning, as the benchmark's own judge does.
LENIENT: Final = {
    3: "The reference says what a fitting answer respects: one that respects it need not say all of it.",
    5: "A number of days, weeks or months that is off by one is correct.",
    6: "Also telling what held before is correct, as long as what holds now is what the reference says.",
}
PUBLISHED: Final = "published"
DERIVED: Final = "derived"
SEED: Final = 20_250_301
ABSTAIN: Final = "_abs"  # how the id of a question without an answer ends
TURN_FIGURES: Final = ("turn R@10", "turn nDCG@10")

_TYPES: Final = {name: number for number, name in CATEGORIES.items()}
_CLOCK: Final = re.compile(r"(\d{4})/(\d\d)/(\d\d) \(\w{3}\) (\d\d):(\d\d)")


class _Turn(msgspec.Struct):
    role: str
    content: str
    has_answer: bool | None = None


class _Record(msgspec.Struct):
    question_id: str
    question_type: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[_Turn]]
    answer_session_ids: list[str]
    answer: str | int | float | None = None


def session_values(
    found: Sequence[Found], question: Question, count: Callable[[str], int]
) -> dict[str, float]:
    """Every figure of one question, of sessions and of turns; `count` gives the tokens of a text."""
    ranking = metrics.first_seen(piece.ids for piece in found)
    sessions = list(dict.fromkeys(metrics.session_of(one) for one in ranking))
    gold, turns = question.sessions, question.gold
    official = {k: metrics.longmemeval(sessions, gold, gold, k) for k in (1, 5, 10)}
    return {
        **{f"session_any@{k}": score.recall_any for k, score in official.items()},
        **{f"session_all@{k}": score.recall_all for k, score in official.items()},
        "session_ndcg_any@10": official[10].ndcg_any,
        "session_ndcg@10": metrics.ndcg(sessions, gold, 10),
        "turns": float(bool(turns)),
        "turn_recall@10": metrics.recall(ranking, turns, 10) if turns else 0.0,
        "turn_ndcg@10": metrics.ndcg(ranking, turns, 10) if turns else 0.0,
        "context_tokens": sum(count(piece.text) for piece in found[: metrics.QGMEM_CUTOFF]),
    }


FIGURES: Final = Figures(
    values=session_values,
    quotients={
        "R@1": ("session_any@1", 1),
        "any@5": ("session_any@5", 1),
        "all@5": ("session_all@5", 1),
        "any@10": ("session_any@10", 1),
        "all@10": ("session_all@10", 1),
        "ndcg_any": ("session_ndcg_any@10", 1),
        "nDCG@10": ("session_ndcg@10", 1),
        "turn R@10": ("turn_recall@10", "turns"),
        "turn nDCG@10": ("turn_ndcg@10", "turns"),
        "context tokens": ("context_tokens", 1),
    },
    shown=Shown(
        main=("R@1", "any@5", "all@5", "any@10", "all@10", "ndcg_any", "nDCG@10"),
        grouped=("R@1", "all@5", "nDCG@10"),
        compared=("R@1", "all@5", "nDCG@10"),
        key="nDCG@10",
    ),
    by=by_question,
)


def clock(text: str) -> str:
    """A date of the data, `2023/04/10 (Mon) 23:07`, as ISO 8601 without a zone: `2023-04-10T23:07`.

    Raises ValueError for any other form.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a date of this benchmark: {text!r}")
    year, month, day, hour, minute = map(int, found.groups())
    return dt.datetime(year, month, day, hour, minute).isoformat(timespec="minutes")


def load(files: Sequence[Path]) -> list[Conversation]:
    """One conversation for each question, with the sessions its record has, those as published first.

    Raises DataMalformed, which names the file and the record.
    """
    found: dict[tuple[str, str], Conversation] = {}
    number = 0
    for file in files:
        for record in _records(file):
            try:
                one = _conversation(record, number)
            except ValueError as error:
                raise DataMalformed(f"{file}: {record.question_id}: {error}") from error
            if (one.size, one.name) in found:
                raise DataMalformed(
                    f"{file}: {one.name} was read before", hint="name one file with --data FILE"
                )
            found[one.size, one.name] = one
            number += 1
    return sorted(found.values(), key=lambda one: one.size != PUBLISHED)


def _records(file: Path) -> list[_Record]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[_Record])
    except (OSError, msgspec.MsgspecError) as error:
        raise DataMalformed(f"{file}: {error}", hint="expected LongMemEval's published JSON") from error


def _conversation(record: _Record, number: int) -> Conversation:
    ids, dates, chats = record.haystack_session_ids, record.haystack_dates, record.haystack_sessions
    if not len(ids) == len(dates) == len(chats):
        raise ValueError(f"{len(ids)} session ids, {len(dates)} dates, {len(chats)} sessions")
    if record.question_type not in _TYPES:
        raise ValueError(f"no question type {record.question_type!r}")
    sessions = {
        name: _session(name, clock(date), chat) for name, date, chat in zip(ids, dates, chats, strict=True)
    }
    evidence = [name for name in record.answer_session_ids if name in sessions]
    answerable = not record.question_id.endswith(ABSTAIN)
    turns = [
        _turn_id(name, place)
        for name, chat in zip(ids, chats, strict=True)
        for place, turn in enumerate(chat, 1)
        if turn.has_answer and name in evidence
    ]
    question = Question(
        number=number,
        text=record.question,
        category=_TYPES[record.question_type],
        gold=tuple(dict.fromkeys(turns)) if answerable else (),
        answer="" if record.answer is None else str(record.answer),
        asked_at=clock(record.question_date),
        sessions=tuple(evidence) if answerable else (),
        answerable=answerable,
    )
    size = DERIVED if sessions.keys() <= set(evidence) else PUBLISHED
    return Conversation(record.question_id, _by_date(sessions.values()), (question,), size)


def _turn_id(session: str, place: int) -> str:
    return f"{session}_{place}"


def _session(name: str, said_at: str, chat: Iterable[_Turn]) -> Session:
    return Session(
        name,
        tuple(
            memdb.Message(
                speaker=turn.role,
                content=turn.content,
                said_at=said_at,
                id=_turn_id(name, place),
                role=turn.role,
            )
            for place, turn in enumerate(chat, 1)
        ),
    )


def _by_date(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Sessions that were held, the earliest first, those of one time by their names."""
    held = [session for session in sessions if session.messages]
    return tuple(sorted(held, key=lambda one: (str(one.messages[0].said_at), one.name)))


def haystacks(conversations: Sequence[Conversation], wanted: int | None) -> list[Conversation]:
    """Conversations to be measured: those as published as they are, the others with sessions added.

    To the sessions of a question come `wanted` of those of the other questions (all if None, or if there are
    fewer), drawn with a fixed seed, all in the order of their dates. None is of a question that is the same
    but for its premise, with and without `_abs`. Questions that have one haystack share a conversation.
    Raises BenchmarkError if fewer than none are wanted, or any for haystacks as published.
    """
    if wanted is not None and (wanted < 0 or any(one.size == PUBLISHED for one in conversations)):
        reason = (
            "is less than none" if wanted < 0 else "is for haystacks that are made, and this is published"
        )
        raise BenchmarkError(f"--haystack {wanted} {reason}", hint=f"sizes: {PUBLISHED}, {DERIVED}")
    made: dict[tuple[str, ...], Conversation] = {}
    found: list[Conversation] = []
    for one in conversations:
        if one.size == PUBLISHED:
            found.append(one)
            continue
        sessions = _by_date([*one.sessions, *_drawn(one, conversations, wanted)])
        names = tuple(session.name for session in sessions)
        before = made.get(names) or Conversation(
            f"{DERIVED}-{len(sessions)}-sessions-{one.name}", sessions, (), DERIVED
        )
        made[names] = msgspec.structs.replace(before, questions=before.questions + one.questions)
    return found + list(made.values())


def _drawn(one: Conversation, others: Sequence[Conversation], wanted: int | None) -> list[Session]:
    """Sessions of other questions for the haystack of one."""
    family = one.name.removesuffix(ABSTAIN)
    own = {session.name for session in one.sessions}
    pool = {
        session.name: session
        for other in others
        if other.name.removesuffix(ABSTAIN) != family
        for session in other.sessions
        if session.name not in own
    }
    names = sorted(pool)
    if wanted is not None and wanted < len(names):
        names = random.Random(f"{SEED} {one.name}").sample(names, wanted)
    return [pool[name] for name in names]


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: sessions, turns, a table by type for each figure, and what was measured."""
    console.print(table_of(result, heading(result, "sessions found"), result.shown.main, {}))
    title = f"turns that have the answer, %; gain: sessions, over {result.baseline}"
    console.print(table_of(result, title, TURN_FIGURES, gain(result) | costs(result)))
    for figure in result.shown.grouped:
        console.print(by_category(result, categories, figure))
    lines = ["R@1: the first session is one of the evidence; ndcg_any: at 10, official, ranks 1 and 2 alike"]
    if DERIVED in result.sizes:
        lines.append(
            f"{DERIVED} haystacks: a question's own sessions and those of other questions, "
            "not those of the published benchmark"
        )
    console.print(Text("\n".join(lines), style="dim"))

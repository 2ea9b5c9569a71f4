"""What a retrieval benchmark consists of, and where its files are found."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

import memdb

from .errors import BenchmarkError, DataMissing

DATA_VARIABLE = "MEMDB_DATA"


class Session(msgspec.Struct, frozen=True):
    """One sitting of a conversation, in the order it was held."""

    name: str
    messages: tuple[memdb.Message, ...]


class Question(msgspec.Struct, frozen=True):
    """One question; `gold` are the ids of the messages it rests on, `asked_at` the clock it is asked by,
    `stale` those of messages that say what held before, `sessions` the sessions it rests on where these
    count. `answer` is the reference, `accepted` are all that count where there are several. Not `answerable`:
    nothing in the conversation answers it.
    """

    number: int
    text: str
    category: int
    gold: tuple[str, ...]
    answer: str = ""
    asked_at: str | None = None
    stale: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    answerable: bool = True
    accepted: tuple[str, ...] = ()

    @property
    def scored(self) -> bool:
        """Whether there is something to find."""
        return bool(self.gold or self.sessions)


class Conversation(msgspec.Struct, frozen=True):
    """One history, which becomes one memory file, with its questions; `size` says which part of the data
    it belongs to where there are several.
    """

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    size: str = ""

    @property
    def messages(self) -> list[memdb.Message]:
        """All messages in order."""
        return [message for session in self.sessions for message in session.messages]


def find_files(benchmark: str, pattern: str, data: Path | None) -> list[Path]:
    """The files of a benchmark: `data` itself, or what matches in it or in its folder of that name.

    `pattern` is a glob, or several with blanks between. Without `data` the environment variable MEMDB_DATA
    counts. Raises DataMissing, which says where it looked.
    """
    named = os.environ.get(DATA_VARIABLE)
    root = data or (Path(named) if named else None)
    hint = f"give the folder with --data DIR or set {DATA_VARIABLE}"
    if root is None:
        raise DataMissing(f"no data for {benchmark}: no folder was named", hint=hint)
    if root.is_file():
        return [root]
    looked = [root, root / benchmark]
    for folder in looked:
        if found := sorted({file for one in pattern.split() for file in folder.glob(one)}):
            return found
    places = " and ".join(str(folder / " or ".join(pattern.split())) for folder in looked)
    raise DataMissing(f"no data for {benchmark}: looked for {places}", hint=hint)


def chosen_sizes(conversations: Sequence[Conversation], sizes: str | None) -> list[Conversation]:
    """The conversations of the sizes in a comma-separated list. Raises BenchmarkError for another."""
    if sizes is None:
        return list(conversations)
    wanted = [name.strip() for name in sizes.split(",") if name.strip()]
    known = list(dict.fromkeys(one.size for one in conversations if one.size))
    if not wanted or not set(wanted) <= set(known):
        raise BenchmarkError(f"no size {sizes!r} in the data", hint=f"sizes: {', '.join(known) or 'none'}")
    return [one for one in conversations if one.size in wanted]


def size_of_most_questions(
    conversations: Sequence[Conversation],
) -> tuple[list[Conversation], dict[str, int]]:
    """The conversations of the size that most questions are about, the first of several; and how many
    questions each other size has.
    """
    questions: Counter[str] = Counter()
    for one in conversations:
        questions[one.size] += len(one.questions)
    if not questions:
        return [], {}
    chosen = max(questions, key=questions.__getitem__)
    left_out = {size: number for size, number in questions.items() if size != chosen}
    return [one for one in conversations if one.size == chosen], left_out


def sha256(files: Sequence[Path]) -> str:
    """Hex digest of the files' contents, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def first_questions(conversations: Sequence[Conversation], limit: int | None) -> list[Conversation]:
    """The first `limit` questions in all, and only the conversations they are about."""
    if limit is None:
        return list(conversations)
    kept = []
    for one in conversations:
        if limit <= 0:
            break
        kept.append(msgspec.structs.replace(one, questions=one.questions[:limit]))
        limit -= len(one.questions)
    return kept

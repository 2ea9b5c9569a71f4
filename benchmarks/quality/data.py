"""What a retrieval benchmark consists of, and where its files are found."""

from __future__ import annotations

import hashlib
import os
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
    `stale` those of messages that say what held before.
    """

    number: int
    text: str
    category: int
    gold: tuple[str, ...]
    answer: str = ""
    asked_at: str | None = None
    stale: tuple[str, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    """One history, which becomes one memory file, with its questions."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def messages(self) -> list[memdb.Message]:
        """All messages in order."""
        return [message for session in self.sessions for message in session.messages]


def find_files(benchmark: str, pattern: str, data: Path | None) -> list[Path]:
    """The files of a benchmark: `data` itself, or what matches in it or in its folder of that name.

    Without `data` the environment variable MEMDB_DATA counts. Raises DataMissing, which says where it looked.
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
        if found := sorted(folder.glob(pattern)):
            return found
    places = " and ".join(str(folder / pattern) for folder in looked)
    raise DataMissing(f"no data for {benchmark}: looked for {places}", hint=hint)


def chosen_sizes(conversations: Sequence[Conversation], sizes: str | None) -> list[Conversation]:
    """The conversations named in a comma-separated list. Raises BenchmarkError for a name of none."""
    if sizes is None:
        return list(conversations)
    wanted = [name.strip() for name in sizes.split(",") if name.strip()]
    known = [one.name for one in conversations]
    if not wanted or not set(wanted) <= set(known):
        raise BenchmarkError(f"no size {sizes!r} in the data", hint=f"sizes: {', '.join(known)}")
    return [one for one in conversations if one.name in wanted]


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

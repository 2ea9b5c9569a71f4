"""The columns of a table: what answers a benchmark's questions with a ranking of messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

import memdb

from .bm25 import BM25, PLAIN, STEMMED, Variant
from .data import Conversation, Question
from .errors import BenchmarkError, ChangedMeanwhile

DEPTH: Final = 100  # ranks asked for
BASELINES: Final[Mapping[str, Variant]] = {"bm25": PLAIN, "bm25-stemmed": STEMMED}
DENSE: Final = "dense"
HYBRID: Final = "hybrid"


class Found(msgspec.Struct, frozen=True):
    """One retrieved piece: ids of the messages it rests on, most direct first, and the text to be read."""

    ids: tuple[str, ...]
    text: str


class Retriever(Protocol):
    """A question in, pieces out, best first."""

    def __call__(self, question: Question, /) -> Sequence[Found]:
        """At most `DEPTH` pieces."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """One conversation, ready to be asked: a retriever per column, and what it took."""

    retrievers: Mapping[str, Retriever]
    add_seconds: float = 0.0
    models: Mapping[str, str] = {}


def spoken(message: memdb.Message) -> str:
    """A message as one line: `speaker: text [caption]`."""
    caption = f" [{message.image_caption}]" if message.image_caption else ""
    return f"{message.speaker}: {message.content}{caption}"


class Baseline:
    """BM25 over the messages of one conversation, each its own piece."""

    def __init__(self, conversation: Conversation, variant: Variant) -> None:
        messages = conversation.messages
        self.pieces = [Found((str(message.id),), spoken(message)) for message in messages]
        self._index = BM25([piece.text for piece in self.pieces], variant)

    def __call__(self, question: Question, /) -> list[Found]:
        """The messages that share a term with the question."""
        return [self.pieces[position] for position, _ in self._index.search(question.text, DEPTH)]


class Recall:
    """`Memory.recall`, over all channels or some."""

    def __init__(self, memory: memdb.Memory, channels: tuple[str, ...] | None) -> None:
        self._memory = memory
        self._channels = channels

    def __call__(self, question: Question, /) -> list[Found]:
        """The evidence, by the clock the question is asked by."""
        recalled = self._memory.recall(question.text, k=DEPTH, at=question.asked_at, channels=self._channels)
        return [
            Found(tuple(str(message.id) for message in evidence.source), evidence.text)
            for evidence in recalled
        ]


def columns(extra: Sequence[str] = ()) -> dict[str, tuple[str, ...] | None]:
    """Names of memdb's columns and the channels each uses: dense, hybrid (all: None), and one per `extra`.

    An extra column is a comma-separated list of channels, or of channels to do without, each after a minus.
    Raises BenchmarkError for an unknown name.
    """
    chosen: dict[str, tuple[str, ...] | None] = {
        DENSE: tuple(name for name in memdb.CHANNELS if name.endswith("_dense")),
        HYBRID: None,
    }
    for text in extra:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        without = bool(names) and all(name.startswith("-") for name in names)
        listed = [name.removeprefix("-") for name in names] if without else names
        unknown = [name for name in listed if name not in memdb.CHANNELS]
        if unknown or not names:
            raise BenchmarkError(
                f"no channel {', '.join(unknown or [repr(text)])}",
                hint=f"channels: {', '.join(memdb.CHANNELS)}",
            )
        if without:
            chosen[HYBRID + "".join(names)] = tuple(name for name in memdb.CHANNELS if name not in listed)
        else:
            chosen["+".join(names)] = names
    return chosen


@contextmanager
def in_memory_file(
    conversation: Conversation, chosen: Mapping[str, tuple[str, ...] | None], folder: Path
) -> Iterator[Prepared]:
    """The conversation in a memory file of its own in `folder`; messages that the file has already stay."""
    baselines = {name: Baseline(conversation, variant) for name, variant in BASELINES.items()}
    with memdb.open(folder / f"{conversation.name}.memdb") as memory:
        if memory.encoder is None:
            raise ChangedMeanwhile(
                f"{memory.path} was made with another encoder", hint="name an empty folder with --keep"
            )
        models = {memory.encoder.name: memory.encoder.sha256}
        start = time.perf_counter()
        for session in conversation.sessions:
            memory.add(session.messages, session=session.name)
        memory.update_traces()
        seconds = time.perf_counter() - start
        recalls = {name: Recall(memory, channels) for name, channels in chosen.items()}
        yield Prepared({**baselines, **recalls}, seconds, models)

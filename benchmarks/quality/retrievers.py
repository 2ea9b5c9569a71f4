"""What answers a benchmark's questions with a ranking of messages: the baselines, and memdb itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

import memdb
from memdb.models.ports import Encoder
from memdb.models.registry import load_reranker
from memdb.models.remembering import RememberingReranker

from .answering import Models, answerers
from .bm25 import BM25, PLAIN, STEMMED, Variant
from .columns import Column
from .data import Conversation, Question
from .encoding import Remembering
from .errors import ChangedMeanwhile
from .histories import Cuts, Sift, no_cuts
from .scoring import Answerer

DEPTH: Final = 100  # ranks asked for
BASELINES: Final[Mapping[str, Variant]] = {"bm25": PLAIN, "bm25-stemmed": STEMMED}


class Found(msgspec.Struct, frozen=True):
    """One retrieved piece: ids of the messages it rests on, most direct first, and the text to be read."""

    ids: tuple[str, ...]
    text: str


class Reply(msgspec.Struct, frozen=True):
    """What was found, best first, and the probability that it answers the question, if the retriever says."""

    found: Sequence[Found]
    answerable: float | None = None


class Retriever(Protocol):
    """A question in, a reply out."""

    def __call__(self, question: Question, /) -> Reply:
        """At most `DEPTH` pieces."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """One conversation, ready to be asked: a retriever per column, and what it took; and what answers.

    `encoded` texts were encoded for it, `reused` had been encoded before, for another conversation. `sifts`
    give candidate sets, a column each; `cuts` the same at each cell of a grid.
    """

    retrievers: Mapping[str, Retriever]
    add_seconds: float = 0.0
    models: Mapping[str, str] = {}
    encoded: int = 0
    reused: int = 0
    answerers: Mapping[str, Answerer] = {}
    sifts: Mapping[str, Sift] = {}
    cuts: Callable[[], Cuts] = no_cuts


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

    def __call__(self, question: Question, /) -> Reply:
        """The messages that share a term with the question."""
        found = self._index.search(question.text, DEPTH)
        return Reply([self.pieces[position] for position, _ in found])


class Recall:
    """`Memory.recall`, as a column asks it."""

    def __init__(self, memory: memdb.Memory, column: Column) -> None:
        self._memory = memory
        self._keywords = column.keywords

    def __call__(self, question: Question, /) -> Reply:
        """The evidence, by the clock the question is asked by."""
        recalled = self._memory.recall(question.text, k=DEPTH, at=question.asked_at, **self._keywords)
        found = [
            Found(tuple(str(message.id) for message in evidence.source), evidence.text)
            for evidence in recalled
        ]
        return Reply(found, recalled.answerable)


@contextmanager
def in_memory_file(
    conversation: Conversation,
    chosen: Mapping[str, Column],
    folder: Path,
    remembering: Remembering | None = None,
    *,
    score_once: bool = False,
    models: Models | None = None,
) -> Iterator[Prepared]:
    """The conversation in a memory file of its own in `folder`; messages that the file has already stay.

    With `remembering`, texts that another conversation had are not encoded again. It serves for adding alone:
    what is asked is encoded by the encoder it stands for. With `score_once` the columns share what the
    reranker said: only the first one's times are true then. With `models` questions are answered too.
    """
    baselines = {name: Baseline(conversation, variant) for name, variant in BASELINES.items()}
    path = folder / f"{conversation.name}.memdb"
    seconds, encoded, reused = add(conversation, path, remembering)
    reranker = RememberingReranker(load_reranker()) if score_once else None
    with ExitStack() as stack:
        opening = opened(path, remembering.real if remembering else None, reranker)
        memory, encoder = stack.enter_context(opening)
        recalls = {name: Recall(memory, column) for name, column in chosen.items()}
        told = None
        if models is not None and models.backbone is not None:
            told, _ = stack.enter_context(opened(path, encoder, reranker, models))
        used = {one.name: one.sha256 for one in (encoder, memory.reader.reranker()) if one is not None}
        yield Prepared(
            {**baselines, **recalls},
            seconds,
            used | (models.digests if models else {}),
            encoded=encoded,
            reused=reused,
            answerers=answerers(memory, told, models) if models else {},
        )


def add(
    conversation: Conversation, path: Path, remembering: Remembering | None = None
) -> tuple[float, int, int]:
    """Add a conversation to its memory file; the seconds it took, how many texts were encoded, and how many
    more were known already.
    """
    earlier = remembering.counts if remembering else (0, 0)
    with opened(path, remembering) as (memory, _):
        start = time.perf_counter()
        for session in conversation.sessions:
            memory.add(session.messages, session=session.name)
        memory.update_traces()
        seconds = time.perf_counter() - start
    counts = remembering.counts if remembering else (0, 0)
    return seconds, counts[0] - earlier[0], counts[1] - earlier[1]


@contextmanager
def opened(
    path: Path,
    encoder: Encoder | None,
    reranker: RememberingReranker | None = None,
    models: Models | None = None,
) -> Iterator[tuple[memdb.Memory, Encoder]]:
    """The memory file and the encoder in use. Raises ChangedMeanwhile for a file of another encoder."""
    backbone, graph_encoder = (models.backbone, models.graph_encoder) if models else (None, None)
    with memdb.open(
        path, encoder=encoder, reranker=reranker, backbone=backbone, graph_encoder=graph_encoder
    ) as memory:
        if memory.encoder is None:
            raise ChangedMeanwhile(
                f"{memory.path} was made with another encoder", hint="name an empty folder with --keep"
            )
        yield memory, memory.encoder

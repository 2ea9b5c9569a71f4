"""What a reranker is trained on: each question with the candidates that memdb itself retrieves for it.

A negative is what the hybrid retrieval takes for evidence and is not, so it is as hard as those of use. The
rerank documents are made by the same code that makes them in use.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from rich.progress import Progress

import memdb
from memdb import settings
from memdb.activate.parse import parse_question
from memdb.activate.recall import Wish, candidates
from memdb.activate.rerank import document
from memdb.language.clock import parse_instant
from memdb.memory import Memory
from memdb.models.ports import Encoder, Field
from memdb.models.registry import load_encoder
from memdb.train.questions import with_questions
from memdb.train.talks import Talk, held_out, training

SEED: Final = 20
QUESTIONS_PER_TALK: Final = 90  # made for a talk that has none
DEPTH: Final = 100  # candidates kept of each question
FIELDS: Final[tuple[Field, ...]] = ("source", "utterance_time")


class Group(msgspec.Struct, frozen=True):
    """A question with its candidates, best first: their ids, rerank documents, first scores.

    `gold` are the positions of the evidence among the candidates; `missed` counts evidence that is not.
    `ids` are the messages', `speakers` their speakers.
    """

    talk: str
    question: str
    kind: str
    ids: tuple[str, ...]
    speakers: tuple[str, ...]
    documents: tuple[str, ...]
    scores: tuple[float, ...]
    gold: tuple[int, ...]
    missed: int


def groups(
    talks: Iterable[Talk],
    *,
    encoder: Encoder | None = None,
    fields: tuple[Field, ...] = FIELDS,
    depth: int = DEPTH,
    step: Callable[[Talk], None] = lambda talk: None,
) -> Iterator[Group]:
    """The groups of all questions of the talks, each talk in a memory of its own."""
    for talk in talks:
        with (
            tempfile.TemporaryDirectory() as folder,
            memdb.open(Path(folder) / "talk.memdb", encoder=encoder) as memory,
        ):
            for sitting in talk.sittings:
                memory.add(sitting.messages, session=sitting.name)
            memory.update_traces()
            yield from _of_talk(memory, talk, fields, depth)
        step(talk)


def _of_talk(memory: Memory, talk: Talk, fields: tuple[Field, ...], depth: int) -> Iterator[Group]:
    at = parse_instant(talk.asked_at)
    for question in talk.questions:
        query = parse_question(question.text, at)
        found = candidates(memory.reader, query, Wish(k=depth, scope=None, before=settings.RERANK_BEFORE))
        ids = tuple(str(one.evidence.source[0].id) for one in found)
        place = {id: number for number, id in enumerate(ids)}
        yield Group(
            talk=talk.name,
            question=question.text,
            kind=question.kind,
            ids=ids,
            speakers=tuple(one.evidence.speaker for one in found),
            documents=tuple(document(one, {}, fields) for one in found),
            scores=tuple(one.evidence.score for one in found),
            gold=tuple(place[id] for id in question.evidence if id in place),
            missed=sum(id not in place for id in question.evidence),
        )


def write(file: Path, made: Iterable[Group]) -> int:
    """Store groups, one JSON document on each line; returns how many."""
    with file.open("wb") as out:
        return sum(1 for group in made if out.write(msgspec.json.encode(group) + b"\n"))


def read(file: Path) -> list[Group]:
    """Groups as `write` stored them."""
    decoder = msgspec.json.Decoder(Group)
    with file.open("rb") as lines:
        return [decoder.decode(line) for line in lines]


def main() -> None:
    """Read the command line, write training.jsonl and held_out.jsonl."""
    parser = argparse.ArgumentParser(description="Questions with the candidates memdb retrieves for them.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the training data")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--encoder", help="name or folder of the encoder, in place of the embedded one")
    args = parser.parse_args()
    encoder = load_encoder(args.encoder)
    args.out.mkdir(parents=True, exist_ok=True)
    asked = [
        talk if talk.questions else with_questions(talk, QUESTIONS_PER_TALK, SEED)
        for talk in training(args.data)
    ]
    with Progress() as shown:
        bar = shown.add_task("talks", total=len(asked) + len(held_out()))
        for name, talks in (("held_out", held_out()), ("training", asked)):
            write(
                args.out / f"{name}.jsonl",
                groups(talks, encoder=encoder, step=lambda talk: shown.advance(bar)),
            )


if __name__ == "__main__":
    main()

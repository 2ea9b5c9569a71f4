"""What a graph token is trained on: questions with the working memory and the local graph that memdb makes.

Conversations with questions and answers go through memdb itself: stored, recalled from, serialised, their
activated triples made a graph. An example is kept where the answer can be had from what was serialised
(QGMem appendix B keeps what a judge finds answered rightly): its words stand there, or a backbone that reads
it gives it. Only permissively licensed data: ConvoMem (Apache-2.0), nothing of the benchmarks we report.

    python -m memdb.train.graph_examples --convomem FOLDER --out EXAMPLES.jsonl [--judge GGUF]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

import memdb
from memdb import settings
from memdb.activate.working_memory import Serialised, estimated_tokens, serialised
from memdb.errors import InputError
from memdb.generate.answer_prompt import ANSWER_SCHEMA, answer_turns
from memdb.generate.local_graph import local_graph
from memdb.generate.reply import Reply, read_reply
from memdb.language.terms import tokens
from memdb.models.ports import Backbone, Encoder
from memdb.records import LocalGraph, Message
from memdb.train.talks import Sitting

MIX: Final = {"user_evidence": 5, "assistant_facts_evidence": 3, "changing_evidence": 4}  # [appendix B]
FIRST_DAY: Final = dt.date(2024, 1, 1)  # ConvoMem's messages carry no time
DAYS_APART: Final = 7
SPLIT: Final = (0.8, 0.1)  # of the cases, to train and to validate with; the rest to test with
SEED: Final = 0

T = TypeVar("T")


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the text and the graph of its working memory, and the reply to be learnt.

    `case` is the history it is asked of: examples of one case are never split.
    """

    case: str
    question: str
    memory: str
    graph: LocalGraph
    target: str
    question_time: str | None = None


class Case(msgspec.Struct, frozen=True):
    """A history and its questions with their answers, as `talks` has them but for the evidence."""

    name: str
    sittings: tuple[Sitting, ...]
    questions: tuple[tuple[str, str], ...]  # question, answer


def target(reasoning_path: str, answer: str) -> str:
    """A reply as it is to be written: one line of JSON of the shape that the prompt shows."""
    return json.dumps({"reasoning_path": reasoning_path, "answer": answer}, ensure_ascii=False)


def convomem(folder: Path, cases: int = 1200, seed: int = SEED) -> list[Case]:
    """So many of ConvoMem's evidence items, the categories mixed as in MIX, each a case of its own.

    `folder` is its `evidence_questions`: `<category>/<n>_evidence/<file>.json`. The i-th conversation of a
    case is given the day FIRST_DAY + DAYS_APART i. Raises InputError for a category with too few items.
    """
    return [_case(name, item) for name, item in evidence_items(folder, cases, seed, MIX)]


def evidence_items(
    folder: Path, cases: int, seed: int, mix: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many of ConvoMem's evidence items under names of their own, the categories mixed as in `mix`.

    Raises InputError for a category with too few items.
    """
    draw = random.Random(seed)
    for category, share in mix.items():
        wanted = cases * share // sum(mix.values())
        files = sorted((folder / category).rglob("*.json"))
        items = [item for file in files for item in json.loads(file.read_text())["evidence_items"]]
        if len(items) < wanted:
            raise InputError(f"{folder / category} has {len(items)} evidence items, not {wanted}")
        for number, item in enumerate(draw.sample(items, wanted)):
            yield f"{category}-{number}", item


def _case(name: str, item: dict[str, Any]) -> Case:
    return Case(name, tuple(dated(item)), ((item["question"], item["answer"]),))


def dated(item: dict[str, Any]) -> Iterator[Sitting]:
    """The conversations of an evidence item, the i-th on the day FIRST_DAY + DAYS_APART i."""
    for number, conversation in enumerate(item["conversations"]):
        day = (FIRST_DAY + dt.timedelta(days=DAYS_APART * number)).isoformat()
        said = tuple(Message(one["speaker"], one["text"], day) for one in conversation["messages"])
        yield Sitting(f"{number:03}", said)


def examples(
    cases: Iterable[Case],
    *,
    encoder: Encoder | None = None,
    judge: Backbone | None = None,
    budget_tokens: int = settings.CONTEXT_TOKENS,
) -> Iterator[Example]:
    """The cases' questions that can be answered from what memdb finds for them, and that have a graph.

    Without a judge the answer's words have to stand in the serialised memory, one after the other, and the
    reasoning path is the label of the best piece of evidence they stand in. With one, its reply to the very
    prompt has to hold them, and its reasoning path is taken.
    """
    for case in cases:
        with (
            tempfile.TemporaryDirectory() as folder,
            memdb.open(Path(folder) / "case.memdb", encoder=encoder) as memory,
        ):
            for sitting in case.sittings:
                memory.add(sitting.messages, session=sitting.name)
            memory.update_traces()
            at = case.sittings[-1].messages[-1].said_at
            time = None if at is None else str(at)
            for question, answer in case.questions:
                told = serialised(memory.recall(question, at=at), budget_tokens, estimated_tokens)
                graph = local_graph(fact.triple for fact in told.facts.values() if fact.triple)
                reason = _reason(told, question, time, answer, judge)
                if reason is not None and graph.nodes:
                    yield Example(
                        case=case.name,
                        question=question,
                        question_time=time,
                        memory=told.text,
                        graph=graph,
                        target=target(reason, answer),
                    )


def _reason(
    told: Serialised, question: str, time: str | None, answer: str, judge: Backbone | None
) -> str | None:
    """What the answer rests on, None where it cannot be had."""
    if judge is None:
        held = (label for label, one in told.units.items() if says(one.text, answer))
        return next(held, None)
    turns, _ = answer_turns(question, time, told.text)
    reply: Reply = read_reply(judge.complete(turns, max_tokens=settings.ANSWER_TOKENS, schema=ANSWER_SCHEMA))
    return reply.reasoning_path if says(reply.answer, answer) else None


def says(text: str, answer: str) -> bool:
    """Whether the words of an answer stand in a text, one after the other."""
    wanted = " ".join(tokens(answer))
    return bool(wanted) and f" {wanted} " in f" {' '.join(tokens(text))} "


def split(
    made: Sequence[T], case_of: Callable[[T], str], seed: int = SEED
) -> tuple[list[T], list[T], list[T]]:
    """To train, to validate and to test with; what is of one case stays together."""
    cases = sorted({case_of(one) for one in made})
    random.Random(seed).shuffle(cases)
    first, second = (round(len(cases) * share) for share in (SPLIT[0], sum(SPLIT)))
    place = {case: (number >= first) + (number >= second) for number, case in enumerate(cases)}
    parts: tuple[list[T], list[T], list[T]] = ([], [], [])
    for one in made:
        parts[place[case_of(one)]].append(one)
    return parts


def write(made: Iterable[Example], file: Path) -> int:
    """One line of JSON for each; how many."""
    with file.open("wb") as stream:
        return sum(stream.write(msgspec.json.encode(one) + b"\n") > 0 for one in made)


def read(file: Path) -> list[Example]:
    """What `write` wrote."""
    return [msgspec.json.decode(line, type=Example) for line in file.read_bytes().splitlines()]


def main() -> None:
    """Read the command line, write the examples."""
    from memdb.models.registry import load_backbone

    parser = argparse.ArgumentParser(description="Make the examples for training a graph token.")
    parser.add_argument("--convomem", type=Path, required=True, help="ConvoMem's evidence_questions")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--judge", help="GGUF file of a model whose right answers are kept")
    args = parser.parse_args()
    judge = load_backbone(args.judge) if args.judge else None
    count = write(examples(convomem(args.convomem, args.cases), judge=judge), args.out)
    print(f"{count} examples of {args.cases} cases")


if __name__ == "__main__":
    main()

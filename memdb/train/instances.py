"""What a distiller is trained on: questions, the raw history that memdb finds for them, the messages of it
that help, and the answer (DeferMem section 3.3).

Conversations with questions go through memdb itself: stored, segmented, expanded to a candidate set of a
bounded size. A question whose gold messages are not all among the candidates is a retrieval miss: no
distiller could do right by it, so it is counted and left out (B7.3 of the specification).

    python -m memdb.train.instances --own --out FOLDER [--friendsqa FOLDER] [--longmemeval FILE]
        [--convomem FOLDER] [--memory FILE --questions FILE] [--budget 700] [--count-with GGUF]

writes train.jsonl, validation.jsonl and test.jsonl; what is of one case stays together.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from memdb.activate.working_memory import estimated_tokens
from memdb.errors import InputError
from memdb.generate.distill_prompt import clock_text, compact_ids
from memdb.records import History, Message, Moment, Query, Segment, Utterance
from memdb.train import talks
from memdb.train.graph_examples import SEED, dated, evidence_items, split
from memdb.train.talks import Question, Talk

if TYPE_CHECKING:
    from memdb.memory import Memory

BUDGET_TOKENS: Final = 700  # of a candidate set for a model of 135M parameters [B5]
LINE_TOKENS: Final = 40  # what a message's line in the prompt costs beside its content (measured: SmolLM2)
# ConvoMem's kinds, and how many of twelve cases are of each: a sixth cannot be answered.
MIX: Final = {
    "user_evidence": 4,
    "assistant_facts_evidence": 3,
    "changing_evidence": 3,
    "abstention_evidence": 2,
}
UNANSWERABLE: Final = ("abstention_evidence",)

Count = Callable[[str], int]


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its candidate set, and what a distiller should make of it.

    `case` is the conversation it is asked of: instances of one case are never split. `gold` are the compact
    ids, m1, m2, … as `ids` has them, of the messages that help, in the order of time; none where the question
    cannot be answered, and then `answer` is empty.
    """

    case: str
    history: History
    question_time: str | None
    gold: tuple[str, ...]
    answer: str

    @property
    def ids(self) -> dict[str, Utterance]:
        """The messages that the compact ids of the prompt stand for."""
        return compact_ids(self.history)


class Made(NamedTuple):
    """Instances, and how many questions gave none: of `missed` ones a gold message was not found, `unjudged`
    ones have gold messages and no answer to compare with.
    """

    instances: tuple[Instance, ...]
    missed: int = 0
    unjudged: int = 0

    @staticmethod
    def together(parts: Iterable[Made]) -> Made:
        """All of them as one."""
        kept = list(parts)
        return Made(
            tuple(one for part in kept for one in part.instances),
            sum(part.missed for part in kept),
            sum(part.unjudged for part in kept),
        )


def instances(
    memory: Memory,
    questions: Iterable[Question],
    *,
    case: str,
    at: Moment | None = None,
    budget_tokens: int = BUDGET_TOKENS,
    count_tokens: Count = estimated_tokens,
) -> Made:
    """Instances of the questions that are asked of a memory at the time `at`.

    A question's `evidence` are ids of its messages; without any it counts as unanswerable. The budget is in
    tokens of the messages as lines of the prompt. Raises InputError where two candidates have the id of one
    gold message, and what `Memory.history` raises.
    """
    made, missed, unjudged = list[Instance](), 0, 0
    for asked in questions:
        history = memory.history(
            asked.text,
            at=at,
            budget_tokens=budget_tokens,
            count_tokens=lambda text: count_tokens(text) + LINE_TOKENS,
        )
        time = None if at is None else clock_text(Message("", "", at))
        gold = _gold(history, asked.evidence)
        if gold is None:
            missed += 1
        elif gold and not asked.answer.strip():
            unjudged += 1
        else:
            answer = asked.answer if gold else ""
            made.append(Instance(case=case, history=history, question_time=time, gold=gold, answer=answer))
    return Made(tuple(made), missed, unjudged)


def _gold(history: History, evidence: Sequence[str]) -> tuple[str, ...] | None:
    """The compact ids of the evidence, None where one of it is not there."""
    wanted = set(evidence)
    found = [
        (compact, str(one.message.id))
        for compact, one in compact_ids(history).items()
        if one.message.id in wanted
    ]
    names = [id for _, id in found]
    if twice := next((id for id in names if names.count(id) > 1), None):
        hint = "give messages ids that are unique in the memory"
        raise InputError(f"two messages of the history have the id {twice!r} of a gold message", hint=hint)
    return tuple(compact for compact, _ in found) if len(found) == len(wanted) else None


def of_talk(talk: Talk, **how: Any) -> Made:
    """Instances of a talk, through a memory of its own; `how` is as for `instances`."""
    import memdb

    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(Path(folder) / "talk.memdb", encoder=how.pop("encoder", None)) as memory,
    ):
        for sitting in talk.sittings:
            memory.add(sitting.messages, session=sitting.name)
        return instances(memory, talk.questions, case=talk.name, at=talk.asked_at, **how)


def convomem(folder: Path, cases: int = 1200, seed: int = SEED) -> list[Talk]:
    """So many of ConvoMem's evidence items as talks, mixed as in MIX: see `graph_examples.convomem`.

    Gold are the messages that say what the item's `message_evidences` say, by the same speaker; an item that
    has evidence of which none is said word for word is left out. Raises InputError for a category with too
    few items.
    """
    made = []
    for name, item in evidence_items(folder, cases, seed, MIX):
        sittings = tuple(
            talks.Sitting(
                sitting.name,
                tuple(
                    msgspec.structs.replace(message, id=f"{name}:{sitting.name}:{place}")
                    for place, message in enumerate(sitting.messages)
                ),
            )
            for sitting in dated(item)
        )
        unanswerable = name.rpartition("-")[0] in UNANSWERABLE
        said = {(one["speaker"], one["text"].strip()) for one in item["message_evidences"]}
        gold = tuple(
            str(message.id)
            for sitting in sittings
            for message in sitting.messages
            if (message.speaker, message.content.strip()) in said
        )
        if unanswerable or gold:
            kind: talks.Kind = "unanswerable" if unanswerable else "multi" if len(gold) > 1 else "single"
            asked = Question(item["question"], kind, () if unanswerable else gold, item["answer"])
            made.append(Talk(name, sittings, (asked,)))
    return made


# --- Files


class _Message(msgspec.Struct):
    """A message as JSON has it: its time is text."""

    speaker: str
    content: str
    said_at: str | None = None
    id: str | None = None
    role: str | None = None
    image_caption: str | None = None
    location: str | None = None


class _Utterance(msgspec.Struct):
    message: _Message
    session: str
    position: int
    source: str = ""
    rank: int | None = None


class _Segment(msgspec.Struct):
    utterances: list[_Utterance]
    linked: bool = False
    cut: bool = False


class _History(msgspec.Struct):
    query: Query
    segments: list[_Segment]
    tokens: int = 0
    truncated: bool = False


class _Line(msgspec.Struct):
    case: str
    history: _History
    question_time: str | None
    gold: tuple[str, ...]
    answer: str


def write(made: Iterable[Instance], file: Path) -> int:
    """One line of JSON for each; how many."""
    with file.open("w", encoding="ascii") as stream:
        return sum(stream.write(json.dumps(msgspec.to_builtins(one)) + "\n") > 0 for one in made)


def read(file: Path) -> list[Instance]:
    """What `write` wrote; clocks are text. Raises InputError for a line that is no instance."""
    made = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            read = msgspec.convert(json.loads(line), _Line)
        except (ValueError, msgspec.ValidationError) as error:
            raise InputError(f"line {number} of {file} is no instance: {error}") from error
        made.append(_instance(read))
        if unknown := set(made[-1].gold) - made[-1].ids.keys():
            raise InputError(f"line {number} of {file} has gold that is no candidate: {sorted(unknown)}")
    return made


def _instance(line: _Line) -> Instance:
    told = line.history
    segments = tuple(
        Segment(utterances=tuple(map(_utterance, one.utterances)), linked=one.linked, cut=one.cut)
        for one in told.segments
    )
    history = History(query=told.query, segments=segments, tokens=told.tokens, truncated=told.truncated)
    return Instance(
        case=line.case,
        history=history,
        question_time=line.question_time,
        gold=line.gold,
        answer=line.answer,
    )


def _utterance(one: _Utterance) -> Utterance:
    return Utterance(
        message=Message(**msgspec.structs.asdict(one.message)),
        session=one.session,
        position=one.position,
        source=one.source,
        rank=one.rank,
    )


def write_split(made: Sequence[Instance], folder: Path) -> dict[str, int]:
    """Write train.jsonl, validation.jsonl and test.jsonl, split by case; how many are in each."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = zip(("train", "validation", "test"), split(made, lambda one: one.case), strict=True)
    return {name: write(part, folder / f"{name}.jsonl") for name, part in parts}


def main() -> None:
    """Read the command line, write the instances."""
    parser = argparse.ArgumentParser(description="Make the instances that a distiller is trained on.")
    parser.add_argument("--own", action="store_true", help="memdb's own talks, those held out left out")
    parser.add_argument("--friendsqa", type=Path, metavar="FOLDER")
    parser.add_argument("--longmemeval", type=Path, metavar="FILE", help="evidence turns, never benchmarked")
    parser.add_argument("--convomem", type=Path, metavar="FOLDER", help="ConvoMem's evidence_questions")
    parser.add_argument("--cases", type=int, default=1200, help="of ConvoMem")
    parser.add_argument("--memory", type=Path, metavar="FILE", help="a memory file, with --questions")
    parser.add_argument("--questions", type=Path, metavar="FILE", help="JSON: text, evidence, answer of each")
    parser.add_argument("--budget", type=int, default=BUDGET_TOKENS, help="tokens of a candidate set")
    parser.add_argument("--count-with", metavar="GGUF", help="model whose tokens are counted")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    args = parser.parse_args()
    how: dict[str, Any] = {"budget_tokens": args.budget, "count_tokens": _counting(args.count_with)}
    sources = chain(
        (talk for talk in talks.own() if args.own and talk.name not in talks.HELD_OUT),
        talks.friendsqa(args.friendsqa) if args.friendsqa else (),
        talks.longmemeval(args.longmemeval) if args.longmemeval else (),
        convomem(args.convomem, args.cases) if args.convomem else (),
    )
    parts = [of_talk(talk, **how) for talk in sources]
    if args.memory:
        parts.append(_of_file(args.memory, args.questions, **how))
    made = Made.together(parts)
    counts = write_split(made.instances, args.out)
    print(json.dumps({**counts, "missed": made.missed, "unjudged": made.unjudged}))


def _of_file(file: Path, questions: Path | None, **how: Any) -> Made:
    import memdb

    if questions is None:
        raise InputError(f"there are no questions to {file}", hint="name a file with --questions")
    try:
        asked = msgspec.json.decode(questions.read_bytes(), type=tuple[_Asked, ...])
    except msgspec.DecodeError as error:
        raise InputError(f"{questions} holds no questions: {error}") from error
    with memdb.open(file, scope="*", read_only=True, create=False) as memory:
        return Made.together(
            instances(
                memory,
                [Question(one.text, "open", one.evidence, one.answer)],
                case=one.case or file.stem,
                at=one.at,
                **how,
            )
            for one in asked
        )


class _Asked(msgspec.Struct):
    text: str
    evidence: tuple[str, ...]
    answer: str = ""
    at: str | None = None
    case: str = ""


def _counting(model: str | None) -> Count:
    if model is None:
        return estimated_tokens
    from memdb.models.registry import load_backbone

    return load_backbone(model).count_tokens


if __name__ == "__main__":
    main()

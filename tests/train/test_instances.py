"""What a distiller is trained on, through memdb itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.errors import InputError
from memdb.memory import Memory
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from memdb.train import instances as made_of
from memdb.train.instances import Instance, Made, instances, of_talk
from memdb.train.talks import Question, Sitting, Talk
from tests.generate.histories import CANOE, WHERE, histories, history

SAID = (
    Message("Ana", "I keep the blue canoe behind the boathouse.", "2026-01-20T10:00", id="1:0"),
    Message("Ben", "My sister bakes rye bread on Sundays.", "2026-01-20T10:00", id="1:1"),
    Message("Ana", "The paddles of the canoe hang in the cellar.", "2026-01-20T10:00", id="1:2"),
)
FOUND = Question("Where does Ana keep the canoe?", "single", ("1:0",), "behind the boathouse")
BOTH = Question("Where are the canoe and its paddles?", "multi", ("1:2", "1:0"), "boathouse and cellar")
NOTHING = Question("What colour is Ben's car?", "unanswerable", (), "nobody says")
TALK = Talk("canoe", (Sitting("1", SAID),), (FOUND, BOTH, NOTHING))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with memdb.open(tmp_path / "canoe.memdb", encoder=HashEncoder()) as memory:
        memory.add(SAID, session="1")
        yield memory


def test_gold_messages_are_named_as_in_the_prompt_in_the_order_of_time() -> None:
    made = of_talk(TALK, encoder=HashEncoder())
    assert (made.missed, made.unjudged) == (0, 0)
    one, both, nothing = made.instances
    assert [one.ids[id].message.id for id in one.gold] == ["1:0"]
    assert [both.ids[id].message.id for id in both.gold] == ["1:0", "1:2"]
    assert (one.answer, one.case, one.question_time) == ("behind the boathouse", "canoe", "2026-01-20T10:00")
    assert list(one.ids) == [f"m{number}" for number in range(1, len(one.history.utterances) + 1)]
    assert (nothing.gold, nothing.answer) == ((), ""), "what cannot be answered has no answer to be judged by"


def test_a_question_without_its_gold_messages_is_a_miss(memory: Memory) -> None:
    lost = msgspec.structs.replace(BOTH, evidence=("1:0", "9:9"))
    made = instances(memory, [FOUND, lost], case="c")
    assert (len(made.instances), made.missed) == (1, 1)


def test_a_budget_that_has_no_room_for_the_gold_message_makes_a_miss(memory: Memory) -> None:
    line = made_of.LINE_TOKENS + 5
    made = instances(memory, [FOUND, BOTH], case="c", budget_tokens=line, count_tokens=lambda _: 5)
    assert (len(made.instances), made.missed) == (1, 1), "one line fits"
    assert len(made.instances[0].history.utterances) == 1
    assert made.instances[0].history.truncated


def test_an_answerable_question_without_an_answer_cannot_be_judged(memory: Memory) -> None:
    made = instances(memory, [msgspec.structs.replace(FOUND, answer=" ")], case="c")
    assert made == Made((), 0, 1)


def test_one_id_for_two_messages_is_refused(memory: Memory) -> None:
    memory.add([msgspec.structs.replace(SAID[0], content="The canoe was moved.")], session="2")
    with pytest.raises(InputError, match="two messages of the history have the id '1:0'"):
        instances(memory, [FOUND], case="c")


@given(histories(), st.sampled_from([None, "2026-01-20T10:00"]), st.data())
def test_lines_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, told: Any, time: str | None, data: st.DataObject
) -> None:
    plain = msgspec.structs.replace(
        told,
        segments=tuple(
            msgspec.structs.replace(
                segment,
                utterances=tuple(
                    msgspec.structs.replace(one, message=msgspec.structs.replace(one.message, said_at=time))
                    for one in segment.utterances
                ),
            )
            for segment in told.segments
        ),
    )
    bare = Instance(case="c", history=plain, question_time=time, gold=(), answer="")
    gold = tuple(id for id in bare.ids if data.draw(st.booleans()))
    made = [bare, msgspec.structs.replace(bare, gold=gold, answer="x")]
    file = tmp_path_factory.mktemp("lines") / "made.jsonl"
    assert made_of.write(made, file) == 2
    assert made_of.read(file) == made


def test_lines_that_are_no_instances_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "made.jsonl"
    one = Instance(case="c", history=history(WHERE, CANOE), question_time=None, gold=("m5",), answer="x")
    made_of.write([one], file)
    with pytest.raises(InputError, match=r"line 1 of .* has gold that is no candidate: \['m5'\]"):
        made_of.read(file)
    file.write_text('{"case": "c"}\n')
    with pytest.raises(InputError, match=r"line 1 of .* is no instance"):
        made_of.read(file)


def test_what_is_of_one_case_is_in_one_file(tmp_path: Path) -> None:
    one = Instance(case="", history=history(WHERE, CANOE), question_time=None, gold=("m2",), answer="x")
    made = [msgspec.structs.replace(one, case=f"c{number // 3}") for number in range(30)]
    assert made_of.write_split(made, tmp_path / "out") == {"train": 24, "validation": 3, "test": 3}
    cases = [
        {it.case for it in made_of.read(tmp_path / "out" / f"{name}.jsonl")}
        for name in ("train", "validation", "test")
    ]
    assert sum(map(len, cases)) == len(set.union(*cases)) == 10


def _item(number: int) -> dict[str, Any]:
    own = {"speaker": "User", "text": f"My dog is called Rex {number}."}
    other = {"speaker": "Assistant", "text": "What a name!"}
    conversations = [{"id": str(n), "messages": [own, other] if n == 1 else [other]} for n in range(2)]
    return {
        "question": "What is my dog called?",
        "answer": f"Rex {number}",
        "conversations": conversations,
        "message_evidences": [{"speaker": "User", "text": f" My dog is called Rex {number}."}],
    }


def test_evidence_of_convomem_is_found_by_what_was_said(tmp_path: Path) -> None:
    for category in made_of.MIX:
        place = tmp_path / category / "1_evidence"
        place.mkdir(parents=True)
        items = [_item(number) for number in range(4)]
        if category == "changing_evidence":
            items = [one | {"message_evidences": [{"speaker": "User", "text": "else"}]} for one in items]
        (place / "0.json").write_text(json.dumps({"evidence_items": items}))
    made = made_of.convomem(tmp_path, 12)
    kinds = [talk.questions[0].kind for talk in made]
    assert (kinds.count("single"), kinds.count("unanswerable"), len(made)) == (7, 2, 9)
    for talk in made:
        (asked,) = talk.questions
        said = {message.id: message for message in talk.messages}
        assert len(said) == 3
        if asked.kind == "single":
            assert [said[id].content for id in asked.evidence] == [f"My dog is called {asked.answer}."]
            assert said[asked.evidence[0]].said_at == "2024-01-08"
        else:
            assert asked.evidence == ()


def test_a_memory_file_and_its_questions_become_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with memdb.open(tmp_path / "canoe.memdb") as memory:
        memory.add(SAID, session="1")
    asked = [
        {"text": FOUND.text, "evidence": FOUND.evidence, "answer": FOUND.answer, "at": "2026-01-21"},
        {"text": FOUND.text, "evidence": ["9:9"], "answer": "?"},
    ]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    out = tmp_path / "out"
    words = ["instances", "--memory", tmp_path / "canoe.memdb", "--questions", tmp_path / "asked.json"]
    monkeypatch.setattr("sys.argv", [*map(str, words), "--out", str(out)])
    made_of.main()
    told = json.loads(capsys.readouterr().out)
    assert told == {"train": 1, "validation": 0, "test": 0, "missed": 1, "unjudged": 0}
    (one,) = made_of.read(out / "train.jsonl")
    assert (one.case, one.question_time, one.answer) == ("canoe", "2026-01-21", "behind the boathouse")

"""Where a graph token's training examples come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.records import Message
from memdb.train import graph_examples
from memdb.train.graph_examples import Case
from memdb.train.talks import Sitting

SAID = (
    Message("Ana", "I live in Oslo.", "2024-01-01"),
    Message("Ben", "I work as a baker.", "2024-01-01"),
)
CASE = Case(
    "flat", (Sitting("000", SAID),), (("Where does Ana live?", "Oslo"), ("What is Ana's pet?", "a cat"))
)


def _item(number: int) -> dict[str, Any]:
    said = [{"speaker": "User", "text": f"My dog is called Rex {number}."}]
    conversations = [{"id": str(n), "containsEvidence": n == 1, "messages": said} for n in range(3)]
    return {"question": "What is my dog called?", "answer": f"Rex {number}", "conversations": conversations}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for category in graph_examples.MIX:
        place = tmp_path / category / "1_evidence"
        place.mkdir(parents=True)
        for half in (0, 1):
            items = [_item(10 * half + number) for number in range(10)]
            (place / f"{half}.json").write_text(json.dumps({"evidence_items": items}))
    return tmp_path


def test_convomem_is_mixed_five_three_four(folder: Path) -> None:
    cases = graph_examples.convomem(folder, 24)
    names = [case.name.rpartition("-")[0] for case in cases]
    assert [names.count(category) for category in graph_examples.MIX] == [10, 6, 8]
    assert list(graph_examples.MIX) == ["user_evidence", "assistant_facts_evidence", "changing_evidence"]
    assert len({case.questions for case in cases if case.name.startswith("user")}) == 10
    assert graph_examples.convomem(folder, 24) == cases


def test_its_conversations_are_a_week_apart(folder: Path) -> None:
    case = graph_examples.convomem(folder, 24)[0]
    assert [one.messages[0].said_at for one in case.sittings] == ["2024-01-01", "2024-01-08", "2024-01-15"]
    assert case.questions[0][1] in case.sittings[0].messages[0].content


def test_too_few_items_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="has 20 evidence items, not 50"):
        graph_examples.convomem(folder, 120)


def test_what_memdb_finds_becomes_an_example() -> None:
    (one,) = graph_examples.examples([CASE], encoder=HashEncoder())
    assert one.question == "Where does Ana live?"
    assert "Ana: I live in Oslo." in one.memory
    assert {"Ana", "Oslo"} <= set(one.graph.nodes)
    assert json.loads(one.target) == {"reasoning_path": "MU1", "answer": "Oslo"}
    assert (one.case, one.question_time) == ("flat", "2024-01-01")


def test_a_judge_keeps_what_it_answers_rightly() -> None:
    replies = iter(
        [
            '{"reasoning_path": "F1 says so", "answer": "In Oslo."}',
            '{"reasoning_path": "?", "answer": "a dog"}',
        ]
    )
    judge = ScriptedBackbone(lambda *_, **__: next(replies))
    (one,) = graph_examples.examples([CASE], encoder=HashEncoder(), judge=judge)
    assert json.loads(one.target) == {"reasoning_path": "F1 says so", "answer": "Oslo"}


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("I moved to New York.", "new york", True),
        ("I moved to New York.", "York", True),
        ("A New Yorker told me.", "New York", False),
        ("She was born in 1999, in May.", "May 1999", False),
        ("Anything.", "…", False),
    ],
)
def test_an_answer_is_said_word_for_word(text: str, answer: str, held: bool) -> None:
    assert graph_examples.says(text, answer) is held


@given(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=80), st.integers(0, 9))
def test_what_is_of_one_case_stays_together(made: list[str], seed: int) -> None:
    parts = graph_examples.split(made, lambda one: one, seed)
    assert sorted(one for part in parts for one in part) == sorted(made)
    cases = [set(part) for part in parts]
    count = len(set(made))
    assert sum(map(len, cases)) == count
    assert (len(cases[0]), len(cases[1])) == (round(0.8 * count), round(0.9 * count) - round(0.8 * count))


def test_examples_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = list(graph_examples.examples([CASE], encoder=HashEncoder()))
    assert graph_examples.write(made, tmp_path / "made.jsonl") == 1
    assert graph_examples.read(tmp_path / "made.jsonl") == made

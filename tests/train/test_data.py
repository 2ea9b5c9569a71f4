"""The talks, the questions made from claims, and the pool of candidates: all without torch."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models.fakes import HashEncoder
from memdb.records import Interval, Message, Triple, Unit
from memdb.train import pool, questions, talks
from memdb.train.metrics import ndcg
from memdb.train.names import FIRST_NAMES

OWN = talks.own()


@pytest.mark.parametrize("talk", OWN, ids=lambda talk: talk.name)
def test_a_talk_of_ours_is_sound(talk: talks.Talk) -> None:
    ids = [message.id for message in talk.messages]
    assert len(set(ids)) == len(ids) > 200
    times = [str(sitting.messages[0].said_at) for sitting in talk.sittings]
    assert times == sorted(times)
    assert len({question.text.lower() for question in talk.questions}) == len(talk.questions) > 100
    for question in talk.questions:
        assert bool(question.evidence) == (question.kind != "unanswerable"), question.text
        assert {*question.evidence, *question.near} <= set(ids), question.text


def test_the_held_out_talks_are_ours_and_never_trained_on(tmp_path: Path) -> None:
    assert {talk.name for talk in talks.held_out()} == set(talks.HELD_OUT)
    data(tmp_path)
    trained = {talk.name for talk in talks.training(tmp_path)}
    assert not trained & set(talks.HELD_OUT)
    assert {name.split("-")[0] for name in trained} >= {"friendsqa", "longmemeval", "cri"}


def data(folder: Path) -> None:
    """A folder with a little of each kind of data, in the form in which it is published."""
    scene = {
        "title": "s01_e01_c01",
        "paragraphs": [
            {
                "utterances:": [
                    {"uid": 0, "speakers": ["#NOTE#"], "utterance": "[ The bell rings . ]"},
                    {"uid": 1, "speakers": ["Ada Stone", "Bo"], "utterance": "We do n't have it , sorry !"},
                    {"uid": 2, "speakers": ["Ada Stone"], "utterance": "It 's gon na rain ."},
                    {"uid": 3, "speakers": ["Bo"], "utterance": " "},
                ],
                "qas": [
                    {
                        "question": "When will it rain ?",
                        "answers": [{"utterance_id": 2}, {"utterance_id": 2}],
                    },
                    {"question": "What is lost ?", "answers": [{"utterance_id": 3}]},
                ],
            }
        ],
    }
    (folder / "friendsqa").mkdir()
    (folder / "friendsqa" / "friendsqa_dev.json").write_text(json.dumps({"data": [scene]}))
    asked = {
        "question_id": "q1",
        "question": "Where did I move?",
        "evidence_turn_ids": ["b:0", "a:2"],
        "evidence_sessions": [
            {"date": "2023/06/28 (Wed) 22:01", "turns": [{"role": "user", "content": "I moved to Bern."}]},
            {"date": "2023/05/28 (Sun) 09:30", "turns": [{"role": "user", "content": "I may move."}]},
        ],
    }
    (folder / "longmemeval-evidence-train.json").write_text(json.dumps([asked]))
    (folder / "cri").mkdir()
    line = {"message_id": 1, "role": "user", "content": "I bought a red bike for my brother yesterday.",
            "timestamp": "2025-05-15T09:12:00", "session_id": "s1"}  # fmt: skip
    (folder / "cri" / "conversations.jsonl").write_text(json.dumps(line) + "\n\n")


def test_scenes_become_sessions_whose_text_is_put_together_again(tmp_path: Path) -> None:
    data(tmp_path)
    (talk,) = talks.friendsqa(tmp_path / "friendsqa")
    assert [(one.speaker, one.content) for one in talk.messages] == [
        ("Scene", "[The bell rings.]"),
        ("Ada and Bo", "We don't have it, sorry!"),
        ("Ada", "It's gonna rain."),
    ]
    assert talk.questions == (talks.Question("When will it rain?", "time", ("s01_e01_c01:2",)),), (
        "an answer in an empty utterance is none"
    )


def test_evidence_of_longmemeval_is_in_the_order_of_its_days(tmp_path: Path) -> None:
    data(tmp_path)
    (talk,) = talks.longmemeval(tmp_path / "longmemeval-evidence-train.json")
    assert [(one.id, one.said_at) for one in talk.messages] == [
        ("q1:a:2", "2023-05-28T09:30"),
        ("q1:b:0", "2023-06-28T22:01"),
    ]
    assert talk.questions[0].evidence == ("q1:b:0", "q1:a:2")
    assert talk.asked_at == "2023-06-28T22:01"


# --- Questions from claims


def claim(predicate: str, value: str, *, subject: str = "Ana", **more: tuple[object, ...]) -> Unit:
    triple = Triple(subject, predicate, value)
    return Unit(fact_text=f"{subject} {predicate} {value}.", triple=triple, first=0, last=0, **more)  # type: ignore[arg-type]


def made(unit: Unit, speakers: tuple[str, ...] = ("Ana", "Ben")) -> set[str]:
    found = (questions.question(unit, speakers, random.Random(seed)) for seed in range(60))
    return {text for text in found if text is not None}


def test_a_claim_with_a_time_is_asked_for_it_in_the_form_its_verb_wants() -> None:
    import datetime as dt

    day = dt.date(2023, 5, 7)
    asked = made(claim("adopted", "a grey cat", fact_time=(Interval(day, day, "day"),)))
    assert "When did Ana adopt a grey cat?" in asked
    assert all(text.endswith("?") for text in asked)
    assert any(
        text.startswith("Where did Ana paint ")
        for text in made(claim("painted", "three boats Porto", locations=("Porto",)))
    )
    assert "Does Ana play second violin?" in made(claim("plays", "second violin"))
    assert any(
        "Ana's" not in text and text.startswith("Who adopted ")
        for text in made(claim("adopted", "a grey cat"))
    )


@pytest.mark.parametrize(
    "unit",
    [
        claim("adopted", "it"),  # too little
        claim("is", "a grey old cat"),  # no verb that "did" asks for
        claim("adopted", "a grey cat", subject="The neighbour"),  # not a speaker
        claim("adopted", "a cat that Ben had found behind the old station in the rain"),  # too long
        Unit(fact_text="A grey cat.", first=0, last=0),
    ],
)
def test_a_claim_that_says_too_little_or_of_nobody_is_not_asked(unit: Unit) -> None:
    assert not made(unit)


def test_a_talk_without_questions_gets_some_about_its_own_messages(tmp_path: Path) -> None:
    data(tmp_path)
    (talk,) = talks.cri(tmp_path / "cri" / "conversations.jsonl")
    asked = questions.with_questions(talk, 5, seed=1)
    assert asked.questions
    assert all(question.evidence == ("1",) for question in asked.questions)
    assert asked == questions.with_questions(talk, 5, seed=1), "the same seed, the same questions"


# --- The pool


def small() -> talks.Talk:
    said = (
        Message("Ana", "I adopted a grey cat.", "2023-05-07", id="1"),
        Message("Ben", "What is it called?", "2023-05-07", id="2"),
        Message("Ana", "Biscuit.", "2023-05-07", id="3"),
    )
    asked = (
        talks.Question("What is Ana's cat called?", "single", ("3",)),
        talks.Question("What is Ben's dog called?", "unanswerable", (), near=("3",)),
    )
    return talks.Talk("small", (talks.Sitting("1", said),), asked)


def test_a_group_knows_its_evidence_among_the_candidates(tmp_path: Path) -> None:
    heard: list[str] = []
    made = list(pool.groups([small()], encoder=HashEncoder(32), step=lambda talk: heard.append(talk.name)))
    first, second = made
    assert {first.ids[place] for place in first.gold} == {"3"}
    assert first.missed == 0
    assert second.gold == ()
    assert second.kind == "unanswerable"
    assert heard == ["small"]
    document = first.documents[first.ids.index("3")]
    assert document == "Source: Ben: What is it called?\nAna: Biscuit.\nUtterance time: 2023-05-07"
    assert pool.write(tmp_path / "pool.jsonl", made) == 2
    assert pool.read(tmp_path / "pool.jsonl") == made


def test_evidence_that_is_not_among_the_candidates_is_counted() -> None:
    first, _ = pool.groups([small()], encoder=HashEncoder(32), depth=1)
    assert len(first.ids) == 1
    assert len(first.gold) + first.missed == 1


# --- Figures and names


def test_ndcg_by_hand() -> None:
    # 1/log2(3) over 1 + 1/log2(3)
    assert ndcg([False, True], 2) == pytest.approx(0.6309 / 1.6309, abs=1e-4)
    assert ndcg([True, True, False], 2) == pytest.approx(1.0)
    assert ndcg([False] * 10 + [True], 1) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_ndcg_is_a_share(relevant: list[bool]) -> None:
    assert 0.0 <= ndcg(relevant, max(1, sum(relevant))) <= 1.0 + 1e-9


def test_names_are_distinct_words() -> None:
    assert len(set(FIRST_NAMES)) == len(FIRST_NAMES) > 200
    assert all(name.isalpha() and name[0].isupper() for name in FIRST_NAMES)

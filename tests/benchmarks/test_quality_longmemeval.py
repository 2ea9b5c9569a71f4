"""LongMemEval: reading its records, haystacks made of other questions' sessions, and a whole run."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import apsw
import pytest
from rich.console import Console

from benchmarks.quality import longmemeval, report, run
from benchmarks.quality.data import DATA_VARIABLE, Conversation, Question, find_files, size_of_most_questions
from benchmarks.quality.errors import BenchmarkError, DataMalformed, DataMissing
from benchmarks.quality.longmemeval import DERIVED, PUBLISHED, clock, haystacks, load, session_values
from benchmarks.quality.retrievers import Found


def turn(role: str, content: str, **more: bool) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


PARROT = [
    turn("user", "I adopted a grey parrot called Pepper.", has_answer=True),
    turn("assistant", "Congratulations on Pepper!", has_answer=False),
]
BAKER = [
    turn("user", "Any tips for a new job?"),
    turn("assistant", "Arrive early and ask questions."),
    turn("user", "I start as a baker in Porto.", has_answer=True),
]
PLANTS = [turn("user", "Which plants like shade?"), turn("assistant", "Ferns do.", has_answer=True)]
PIANO = [turn("user", "I sold my piano to Vic for 300 euros.", has_answer=True)]
HARP = [turn("user", "I sold my harp to Vic."), turn("assistant", "Good for you.")]


def record(
    name: str, kind: str, question: str, *sessions: tuple[str, str, Any], **more: Any
) -> dict[str, Any]:
    names = [session for session, _, _ in sessions]
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "answer": "an answer",
        "question_date": "2023/06/01 (Thu) 09:30",
        "haystack_session_ids": names,
        "haystack_dates": [date for _, date, _ in sessions],
        "haystack_sessions": [chat for _, _, chat in sessions],
        "answer_session_ids": [session for session in names if session.startswith("answer")],
        **more,
    }


ORACLE = [
    record(
        "q1",
        "multi-session",
        "What is the name of my parrot, and where do I work?",
        ("answer_b", "2023/05/20 (Sat) 02:21", BAKER),
        ("answer_p", "2023/05/08 (Mon) 13:56", PARROT),
        answer=3,
    ),
    record(
        "q2", "single-session-assistant", "Which plants did you name?",
        ("answer_f", "2023/05/21 (Sun) 10:20", PLANTS),
    ),
    record(
        "q3", "single-session-user", "For how much did I sell my piano?",
        ("answer_k", "2023/05/22 (Mon) 08:00", PIANO),
    ),
    record(
        "q3_abs", "single-session-user", "For how much did I sell my harp?",
        ("answer_k_abs", "2023/05/22 (Mon) 08:00", HARP),
    ),
]  # fmt: skip
FULL = [
    record(
        "q2", "single-session-assistant", "Which plants did you name?",
        ("other_1", "2023/05/01 (Mon) 10:00", BAKER),
        ("answer_f", "2023/05/21 (Sun) 10:20", PLANTS),
    )
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data folder with a file of evidence sessions and one of a full haystack."""
    folder = tmp_path / "data" / "longmemeval"
    folder.mkdir(parents=True)
    (folder / "longmemeval-oracle.json").write_text(json.dumps(ORACLE), encoding="utf-8")
    (folder / "longmemeval-s.json").write_text(json.dumps(FULL), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def conversations(place: Path) -> list[Conversation]:
    return load(find_files("longmemeval", longmemeval.PATTERN, place))


def test_clock() -> None:
    assert clock("2023/04/10 (Mon) 23:07") == "2023-04-10T23:07"
    for wrong in ("", "2023/04/10", "2023/02/30 (Mon) 23:07", "8 May, 2023"):
        with pytest.raises(ValueError, match=r"date|day"):
            clock(wrong)


def test_sessions_are_gold_by_their_list_and_turns_by_their_mark(conversations: list[Conversation]) -> None:
    first = next(one for one in conversations if one.name == "q1")
    (question,) = first.questions
    assert question.sessions == ("answer_b", "answer_p")
    assert question.gold == ("answer_b_3", "answer_p_1")
    assert (question.answer, question.asked_at, question.category) == ("3", "2023-06-01T09:30", 4)
    assert [session.name for session in first.sessions] == ["answer_p", "answer_b"], "in the order of dates"
    message = first.sessions[1].messages[2]
    assert (message.id, message.speaker, message.said_at) == ("answer_b_3", "user", "2023-05-20T02:21")
    assert next(one for one in conversations if one.name == "q2").questions[0].gold == ("answer_f_2",)


def test_a_question_without_an_answer_has_no_gold(conversations: list[Conversation]) -> None:
    (question,) = next(one for one in conversations if one.name == "q3_abs").questions
    assert (question.answerable, question.scored, question.gold, question.sessions) == (False, False, (), ())


def test_what_is_published_and_what_is_derived(conversations: list[Conversation]) -> None:
    assert [(one.name, one.size) for one in conversations] == [
        ("q2", PUBLISHED), ("q1", DERIVED), ("q2", DERIVED), ("q3", DERIVED), ("q3_abs", DERIVED),
    ]  # fmt: skip
    chosen, left_out = size_of_most_questions(conversations)
    assert ([one.size for one in chosen], left_out) == ([DERIVED] * 4, {PUBLISHED: 1})
    assert size_of_most_questions(conversations[:2])[0] == conversations[:1], "of two alike the first"


def names(one: Conversation) -> list[str]:
    return [session.name for session in one.sessions]


def test_haystacks_have_every_other_session_but_those_of_the_twin(conversations: list[Conversation]) -> None:
    made = haystacks(conversations[1:], None)
    everything = ["answer_p", "answer_b", "answer_f", "answer_k", "answer_k_abs"]
    assert [(one.name, len(one.questions)) for one in made] == [
        ("derived-5-sessions-q1", 2), ("derived-4-sessions-q3", 1), ("derived-4-sessions-q3_abs", 1),
    ]  # fmt: skip
    assert names(made[0]) == everything
    assert names(made[1]) == everything[:4]
    assert names(made[2]) == [*everything[:3], "answer_k_abs"]
    assert {one.size for one in made} == {DERIVED}
    assert [question.number for question in made[0].questions] == [0, 1]


def test_so_many_are_drawn_by_a_fixed_seed(conversations: list[Conversation]) -> None:
    made = haystacks(conversations[1:], 2)
    assert [len(one.sessions) for one in made] == [4, 3, 3, 3]
    for one in made:
        own = set(one.questions[0].sessions)
        assert own <= set(names(one))
        dates = [str(session.messages[0].said_at) for session in one.sessions]
        assert dates == sorted(dates)
    assert haystacks(conversations[1:], 2) == made
    assert sorted(names(made[1])) == sorted(names(haystacks(conversations[:0:-1], 2)[2])), (
        "whatever the order"
    )
    assert [len(one.sessions) for one in haystacks(conversations[1:], 0)] == [2, 1, 1, 1]


def test_haystacks_that_cannot_be_made(conversations: list[Conversation]) -> None:
    assert haystacks(conversations[:1], None) == conversations[:1], "as published"
    for given, wanted in ((conversations[:1], 2), (conversations[1:], -1)):
        with pytest.raises(BenchmarkError, match="--haystack"):
            haystacks(given, wanted)


def test_a_session_stands_where_its_best_message_does() -> None:
    question = Question(0, "?", 4, ("answer_a_2", "answer_b_1"), sessions=("answer_a", "answer_b"))
    found = [Found((one,), "two words") for one in ("s1_1", "answer_a_1", "s1_2", "answer_a_2", "answer_b_9")]
    values = session_values(found, question, lambda text: len(text.split()))
    # Sessions s1, answer_a, answer_b: official DCG 1/log2(2) + 1/log2(3), ideal 1 + 1.
    assert values["session_ndcg_any@10"] == pytest.approx((1 + 1 / 1.5849625) / 2)
    assert values["session_ndcg@10"] == pytest.approx((0.6309297536 + 0.5) / 1.6309297536)
    assert (values["session_any@1"], values["session_any@5"], values["session_all@5"]) == (0, 1, 1)
    assert (values["turn_recall@10"], values["turns"], values["context_tokens"]) == (0.5, 1.0, 10)
    assert values["turn_ndcg@10"] == pytest.approx(0.4306765581 / 1.6309297536)


def test_gold_at_rank_two_alone_is_perfect_by_the_official_figure() -> None:
    """The worked examples of the protocol: any@3 1, all@3 0; ndcg@5 0.75, 0.815465, 1.0."""
    for ranking, gold, expected in (
        ("s1 a s2 b s3", ("a", "b"), 0.75),
        ("a s1 b s2 s3", ("a", "b"), 0.815465),
        ("s1 a b s2 s3", ("a",), 1.0),
    ):
        found = [Found((f"{session}_1",), "") for session in ranking.split()]
        values = session_values(found, Question(0, "?", 4, (), sessions=gold), len)
        assert values["session_ndcg_any@10"] == pytest.approx(expected, abs=1e-6)
        assert (values["turns"], values["turn_recall@10"]) == (0.0, 0.0), "no turn is marked"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"question_type": "riddle"}, "q1: no question type 'riddle'"),
        ({"question_date": "today"}, "q1: not a date"),
        ({"haystack_dates": []}, "q1: 2 session ids, 0 dates, 2 sessions"),
        ({"question": 3}, "Expected `str`"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    file = tmp_path / "longmemeval.json"
    file.write_text(json.dumps([{**ORACLE[0], **change}]), encoding="utf-8")
    with pytest.raises(DataMalformed, match=told):
        load([file])


def test_a_question_twice_is_refused(place: Path) -> None:
    file = place / "longmemeval" / "longmemeval-oracle.json"
    with pytest.raises(DataMalformed, match="q1 was read before"):
        load([file, file])


def test_a_run(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    out = tmp_path / "r.sqlite"
    assert run.bench("longmemeval", place, out=out) == 0
    shown = capsys.readouterr().out
    for part in (
        "longmemeval (derived): sessions found, 3 questions", "turn nDCG@10", "4 multi-session",
        "derived haystacks: a question's own sessions", "resamples of questions", "instead of",
        "not measured: published (1 questions)", "left out without gold: 1, 1 of them without an answer",
    ):  # fmt: skip
        assert part in " ".join(shown.split())
    connection = apsw.Connection(str(out))
    found = dict(
        connection.execute("SELECT retriever, sum(\"values\" ->> 'session_any@1') FROM question GROUP BY 1")
    )
    assert list(found) == ["bm25", "bm25-stemmed", "dense", "hybrid"]
    assert found["hybrid"] == 3
    options = json.loads(connection.execute("SELECT options FROM run").get)
    assert (options["measured"], options["haystack"]) == ("derived", None)
    assert connection.execute("SELECT min(conversation) FROM question").get.startswith("derived-")
    connection.close()
    assert run.bench("longmemeval", place, out=out, sizes="published", haystack=3) == 2
    assert run.bench("longmemeval", place, out=out, sizes="published") == 0
    shown = capsys.readouterr().out
    assert "longmemeval (published): sessions found, 1 questions" in shown
    assert "derived" not in shown


def test_tables_fit_a_terminal(place: Path, tmp_path: Path, prepare: run.Prepare) -> None:
    finished = run.measure("longmemeval", place, prepare=prepare, out=tmp_path / "r")
    text = StringIO()
    longmemeval.show(finished, longmemeval.CATEGORIES, Console(file=text, width=80))
    assert "…\n" not in text.getvalue()
    assert "… " not in text.getvalue()
    assert finished.overall[-1].figures["turn R@10"].value == 1
    assert "R@1" in report.to_json(finished)


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no data")
def test_real_data() -> None:
    try:
        files = find_files("longmemeval", longmemeval.PATTERN, None)
    except DataMissing as error:
        pytest.skip(str(error))
    read, _ = size_of_most_questions(load(files))
    made = haystacks(read, None)
    questions = [question for one in made for question in one.questions]
    assert len(questions) == len(read)
    assert all(question.scored == question.answerable for question in questions)
    for one in made:
        held = {session.name for session in one.sessions}
        said = {message.id for message in one.messages}
        assert len(said) == len(one.messages)
        for question in one.questions:
            assert held >= set(question.sessions)
            assert said >= set(question.gold)

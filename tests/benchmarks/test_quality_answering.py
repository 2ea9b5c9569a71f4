"""Answers: what is noted of each, what they amount to, the judge, and a run that goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import apsw
import msgspec
import pytest
from rich.console import Console

import memdb
from benchmarks.quality import answer_figures, answering, evaluate, judge, run, scoring
from benchmarks.quality.answer_tables import show_answers
from benchmarks.quality.answering import EXTRACTIVE, TEXT, TOKEN, UNREADABLE, Ask, Wanted
from benchmarks.quality.data import Conversation, Question
from benchmarks.quality.errors import BenchmarkError
from benchmarks.quality.report import Report, to_json
from benchmarks.quality.retrievers import Prepared
from benchmarks.quality.scoring import Answered, Kept, Marking
from memdb import errors
from memdb.generate.check import NO_ANSWER
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.models.ports import Turn
from memdb.records import Citation, Evidence, Sentence, Tokens

PEPPER = Question(0, "What is the parrot called?", 4, ("a",), answer="Pepper")
PORTO = Question(1, "Where are Porto and Rome?", 1, ("b",), answer="Portugal, Italy")
HORSE = Question(2, "Which horse?", 5, (), answerable=False)
NEWEST = Question(3, "Who holds it?", 1, (), answer="Ana Lima / A. Lima", accepted=("Ana Lima", "A. Lima"))
CHAT = Conversation("c", (), (PEPPER, PORTO, HORSE))


def words(text: str) -> int:
    return len(text.split())


def said(text: str, **more: object) -> memdb.Answer:
    evidence = Evidence(rank=1, score=1.0, text="a grey parrot", speaker="Ines", session="s", source=())
    answer = memdb.Answer(
        text=text,
        evidence=(evidence,),
        citations=(Citation(label="MU1", rank=1, source=()),),
        sentences=(Sentence(text=text, supported=True),),
        confidence=0.75,
    )
    return msgspec.structs.replace(answer, **more)


def none() -> memdb.Answer:
    return memdb.Answer(text=NO_ANSWER, abstained=True, confidence=0.25)


def answered(text: str, **more: object) -> Answered:
    values = scoring.answer_values(PEPPER, said(text), scoring.token_f1, words)
    one = Answered(
        conversation="c",
        number=0,
        category=4,
        answerer=TEXT,
        wanted="Pepper",
        text=text,
        labels=("MU1",),
        values=values,
        milliseconds=1500.0,
    )
    return msgspec.structs.replace(one, **more)


# --- scores


@pytest.mark.parametrize(
    ("score", "question", "text", "expected"),
    [
        (scoring.token_f1, PEPPER, "It is Pepper", 0.5),  # one word of three, all of the gold
        (scoring.token_f1, PORTO, "Portugal", 2 / 3),  # the whole gold, whatever the category
        (scoring.token_f1, HORSE, NO_ANSWER, 1.0),
        (scoring.token_f1, HORSE, "a grey one", 0.0),
        (scoring.locomo_score, PORTO, "Portugal", 0.5),  # category 1: one part of two
        (scoring.locomo_score, HORSE, "That is not mentioned.", 1.0),
        (scoring.substring, NEWEST, "It is A. Lima.", 1.0),
        (scoring.substring, NEWEST, "It is Rui.", 0.0),
        (scoring.substring, PEPPER, "Peppers", 1.0),
    ],
)
def test_scores_by_hand(score: scoring.Score, question: Question, text: str, expected: float) -> None:
    assert score(text, question) == pytest.approx(expected)


def test_values_of_an_answer() -> None:
    answer = said(
        "It is Pepper",
        sentences=(Sentence(text="It is Pepper.", supported=True), Sentence(text="Red.", supported=False)),
        unknown_labels=("MU9",),
        graph_mode="token",
        tokens=Tokens(prompt=90, cached=40, completion=7),
    )
    assert scoring.answer_values(PEPPER, answer, scoring.token_f1, words) == {
        "has_answer": 1, "has_none": 0, "official": 0.5, "score": 0.5, "contained": 1,
        "abstained": 0, "answered": 1, "abstained_rightly": 0, "abstained_wrongly": 0, "confidence": 0.75,
        "sentences": 2, "supported": 1, "citations": 1, "unknown_labels": 1, "context_tokens": 3,
        "graph_token": 1, "prompt_tokens": 90, "cached_tokens": 40, "completion_tokens": 7,
    }  # fmt: skip


def test_values_of_none() -> None:
    rightly = scoring.answer_values(HORSE, none(), scoring.token_f1, words)
    assert (rightly["abstained_rightly"], rightly["abstained_wrongly"]) == (1, 0)
    assert (rightly["official"], rightly["score"], rightly["contained"]) == (1, 0, 0)
    wrongly = scoring.answer_values(PEPPER, none(), scoring.token_f1, words)
    assert (wrongly["abstained_rightly"], wrongly["abstained_wrongly"], wrongly["official"]) == (0, 1, 0)


# --- the judge


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"reason": "the same", "judgment": "correct"}', True),
        ('{"reason": "it is not correct", "judgment": "incorrect"}', False),
        ("The answer is correct.", True),
        ("Incorrect: another town.", False),
        ("Is it correct or incorrect?", None),
        ('{"judgment": "perhaps"}', None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_what_a_judge_says(reply: str, expected: bool | None) -> None:
    assert judge.judgment(reply) is expected


def test_a_judge_reads_question_reference_and_answer_as_data() -> None:
    backbone = ScriptedBackbone(['{"judgment": "correct"}', "who knows", '{"judgment": "incorrect"}'])
    asked = judge.Judge(backbone, 3, {4: "Nicknames are correct."})
    assert asked(PEPPER, "Pepper\nReference: a cat") == ((1, 0, 0), 1)
    system, user = backbone.calls[0].turns
    assert "Nicknames are correct." in system.text
    assert user.text.splitlines() == [
        "Question: What is the parrot called?",
        "Reference: Pepper",
        "Answer: Pepper Reference: a cat",
    ]
    assert "Nicknames" not in judge.judge_turns(PORTO, "x", "")[0].text


def test_mean_and_deviation_over_judgings() -> None:
    values = answered("x").values | {"unreadable": 1.0}
    both = [answered("x", judged=(1, 0, 1), values=values), answered("y", judged=(1, 1, 0), values=values)]
    (one,) = answer_figures.judgings([*both, answered("z", answerer=TOKEN)])
    assert (one.answerer, one.judgings, one.unreadable) == (TEXT, 3, 2)
    assert one.mean == pytest.approx(2 / 3)  # of 1, 1/2, 1/2
    assert one.deviation == pytest.approx(0.288675, abs=1e-6)
    (once,) = answer_figures.judgings([answered("x", judged=(1,), values=values)])
    assert (once.mean, once.deviation) == (1.0, None)


# --- figures


def test_what_answers_amount_to() -> None:
    marked = [
        scoring.mark(
            CHAT, question, (TEXT, lambda _, answer=answer: answer), Marking(scoring.token_f1), words
        )
        for question, answer in (
            (PEPPER, said("Pepper")),
            (PORTO, none()),
            (HORSE, none()),
            (HORSE, said("a grey horse")),
        )
    ]
    found = answer_figures.summed_up(marked, "token F1", without_reference=2)
    (row,) = [row for row in found.rows if row.group == "overall"]
    figures = {name: round(one.value, 4) for name, one in row.figures.items()}
    assert figures == {
        "score": 0.5,  # 1 and 0, of two with an answer
        "contained": 0.5,
        "score, all": 0.5,  # 1, 0, 1, 0
        "abstention precision": 0.5,
        "abstention recall": 0.5,
        "abstained wrongly": 0.5,
        "supported": 1.0,
        "citations": 1.0,
        "context tokens": 1.5,  # three words, of two of four answers
        "prompt tokens": 0.0,
        "completion tokens": 0.0,
    }
    assert row.questions == 4
    assert found.token_gain == {}
    assert found.judged == []


def test_what_the_graph_token_adds_is_a_paired_difference() -> None:
    pairs = [("c1", "Pepper", "Pepper"), ("c2", "none", "Pepper"), ("c3", "a b Pepper", "Pepper")]
    both = [
        answered(
            text,
            conversation=name,
            answerer=mode,
            values=scoring.answer_values(PEPPER, said(text), scoring.token_f1, words),
        )
        for name, *texts in pairs
        for mode, text in zip((TEXT, TOKEN), texts, strict=True)
    ]
    gained = answer_figures.summed_up(both, "token F1").token_gain["score"]
    # text: 1, 0 and 2/3 ("a" is no word of the score); token: 1 each.
    assert gained.value == pytest.approx(1 - 5 / 9)
    assert gained.low == pytest.approx(0.0)
    assert gained.high == pytest.approx(1.0)


def test_nothing_answered_is_no_figure() -> None:
    assert answer_figures.summed_up([], "token F1").rows == []


# --- a run


@contextmanager
def prepared(_: Conversation) -> Iterator[Prepared]:
    yield Prepared(
        {},
        answerers={
            EXTRACTIVE: lambda question: none() if question.number == 2 else said("Pepper"),
            TEXT: lambda question: said(f"{question.answer or 'a horse'}"),
        },
    )


def test_questions_with_a_reference_or_without_an_answer_are_answered() -> None:
    rubric = Question(4, "What matters?", 1, ("a",))
    chat = Conversation("c", (), (PEPPER, HORSE, rubric))
    heard: list[str] = []
    found = evaluate.evaluate([chat], prepared, words, heard.append, marking=Marking(scoring.token_f1))
    assert [(one.number, one.answerer, one.wanted) for one in found.answered] == [
        (0, EXTRACTIVE, "Pepper"), (0, TEXT, "Pepper"), (2, EXTRACTIVE, ""), (2, TEXT, ""),
    ]  # fmt: skip
    assert (found.answered[0].labels, found.answered[2].text) == (("MU1",), NO_ANSWER)
    assert len(heard) == 3
    assert evaluate.evaluate([chat], prepared, words, heard.append).answered == []


def test_a_judge_is_asked_where_there_is_an_answer() -> None:
    backbone = ScriptedBackbone(lambda turns, schema: '{"judgment": "correct"}')
    marking = Marking(scoring.token_f1, judge.Judge(backbone, 2, {}))
    found = evaluate.evaluate([CHAT], prepared, words, lambda _: None, marking=marking).answered
    assert {one.number: one.judged for one in found} == {0: (1, 1), 1: (1, 1), 2: ()}
    assert len(backbone.calls) == 8
    rows = answer_figures.summed_up(found, "token F1", judge="scripted").rows
    assert {row.retriever: row.figures["judged"].value for row in rows if row.group == "overall"} == {
        EXTRACTIVE: 1.0, TEXT: 1.0,
    }  # fmt: skip
    assert len([row for row in rows if row.group == "5"]) == 2, "those without an answer are not left out"


def test_a_run_goes_on_where_one_stopped(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    asked: list[int] = []

    def answer(question: Question) -> memdb.Answer:
        asked.append(question.number)
        return said("Pepper")

    def once(questions: Sequence[Question], *depends_on: str) -> tuple[list[Answered], int]:
        kept = Kept(file, depends_on)
        marking = Marking(scoring.token_f1, kept=kept)
        return [scoring.mark(CHAT, one, (TEXT, answer), marking, words) for one in questions], kept.reused

    first, _ = once([PEPPER, PORTO], "code 1")
    file.write_bytes(file.read_bytes()[:-20])  # stopped while it wrote
    again, reused = once([PEPPER, PORTO], "code 1")
    assert (asked, reused) == ([0, 1, 1], 1)
    assert again[0] == first[0]
    assert once([PEPPER, PORTO], "code 1")[1] == 2
    assert once([PEPPER], "code 2")[1] == 0
    assert once([msgspec.structs.replace(PEPPER, text="And the parrot?")], "code 1")[1] == 0


def test_a_run_keeps_its_answers_and_shows_them(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.sqlite"

    @contextmanager
    def prepare(conversation: Conversation) -> Iterator[Prepared]:
        from benchmarks.quality.retrievers import BASELINES, Baseline

        retrievers = {name: Baseline(conversation, variant) for name, variant in BASELINES.items()}
        modes = {EXTRACTIVE: "Pepper", TEXT: "2023", TOKEN: "Porto, Porto"}
        answerers = {mode: lambda question, text=text: said(text) for mode, text in modes.items()}
        yield Prepared(retrievers, answerers=answerers)

    backbone = ScriptedBackbone(lambda turns, schema: '{"judgment": "incorrect"}', name="strict")
    marking = Marking(scoring.locomo_score, judge.Judge(backbone, 2, {}))
    found = run.measure("locomo", folder, prepare=prepare, out=out, marking=marking)
    assert found.answers is not None
    assert msgspec.json.decode(to_json(found), type=Report) == found
    assert "token − text" in shown(found)
    assert "strict of token: 0.0 ± 0.00 over 2, unreadable 0" in shown(found)
    connection = apsw.Connection(str(out))
    kept = connection.execute(
        "SELECT answerer, text, wanted, judged, json_extract(\"values\", '$.score') FROM answer"
        " WHERE number = 2"
    )
    assert list(kept) == [
        (EXTRACTIVE, "Pepper", "Porto", "[0,0]", 0.0),
        (TEXT, "2023", "Porto", "[0,0]", 0.0),
        (TOKEN, "Porto, Porto", "Porto", "[0,0]", 1.0),
    ]
    assert connection.execute("SELECT count(*) FROM answer").get == 18
    connection.close()


def shown(result: Report) -> str:
    text = StringIO()
    assert result.answers is not None
    categories = run.BENCHMARKS[result.facts.benchmark].categories
    show_answers(result.answers, categories, Console(file=text, width=80))
    assert "…\n" not in text.getvalue()
    return text.getvalue()


# --- which models


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(llm="m.gguf"), "--llm is for answers"),
        (Wanted(judge="m.gguf", judgings=2), "--judge is for answers"),
        (Wanted(True, graph="g"), "--graph is read by a language model"),
        (Wanted(True, judgings=3), "needs a judge"),
        (Wanted(True, judge="m.gguf", judgings=0), "less than one"),
    ],
)
def test_requests_without_sense(wanted: Wanted, told: str) -> None:
    with pytest.raises(BenchmarkError, match=told), answering.models(wanted):
        pass


def test_models_are_loaded_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ScriptedBackbone] = []

    def load(spec: str) -> ScriptedBackbone:
        loaded.append(ScriptedBackbone(name=spec))
        return loaded[-1]

    monkeypatch.setattr(answering.registry, "load_backbone", load)
    with answering.models(Wanted(True, llm="m.gguf", judge="m.gguf")) as models:
        assert models is not None
        assert models.backbone is models.judge is loaded[0]
        assert (models.judgings, len(loaded)) == (1, 1), "a model in this process says the same each time"
        assert models.digests == {"m.gguf": "m.gguf"}
    with pytest.raises(memdb.MemdbError, match="closed"):
        loaded[0].complete([Turn("user", "Still there?")], max_tokens=1)
    with answering.models(Wanted(True, judge="openai:m")) as models:
        assert models is not None
        assert (models.backbone, models.judgings) == (None, judge.JUDGINGS)
    with answering.models(Wanted()) as models:
        assert models is None
    with (
        pytest.raises(BenchmarkError, match="no graph token"),
        answering.models(Wanted(True, llm="openai:m", graph="g")),
    ):
        pass


def test_memory_files_are_asked(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """memdb itself, by rules and with a model; a second run takes the kept answers."""
    reply = json.dumps({"reasoning_path": "MU1 names it.", "answer": "Pepper"})
    backbone = ScriptedBackbone(lambda turns, schema: reply)
    monkeypatch.setattr(answering.registry, "load_backbone", lambda spec: backbone)
    out, keep = tmp_path / "results.sqlite", tmp_path / "kept"
    for _ in range(2):
        status = run.bench("locomo", folder, out=out, keep=keep, limit=1, answers=True, llm="m.gguf")
        assert status == 0
    assert len(backbone.calls) == 1
    assert "Ines: Pepper. Look at this!" in backbone.calls[0].turns[1].text
    connection = apsw.Connection(str(out))
    rows = list(connection.execute("SELECT answerer, text, labels FROM answer ORDER BY run, answerer"))
    assert rows[:2] == rows[2:]
    assert [name for name, *_ in rows[:2]] == [EXTRACTIVE, TEXT]
    assert rows[1][1:] == ("Pepper", '["MU1"]')
    (options,) = (connection.execute("SELECT options FROM run WHERE id = 1").get,)
    assert json.loads(options)["llm"] == "m.gguf"
    connection.close()


def test_a_reply_that_cannot_be_read_answers_nothing(tmp_path: Path) -> None:
    asked = Question(number=0, text="Where does Ana live?", category=1, gold=("a",), answer="Oslo")
    cut, gone = '{"reasoning_path": "' + "on " * 600, errors.ModelUnavailable("it is not there")
    for reply, expected in ((cut, UNREADABLE), (gone, None)):
        path = tmp_path / f"{expected is None}.memdb"
        with memdb.open(path, encoder=HashEncoder(), backbone=ScriptedBackbone([reply])) as memory:
            with memdb.open(path, encoder=HashEncoder()) as plain:
                plain.add([memdb.Message("Ana", "I live in Oslo.", id="a")])
            if expected is None:
                with pytest.raises(errors.ModelUnavailable):
                    Ask(memory, TEXT, "qgmem")(asked)
            else:
                assert Ask(memory, TEXT, "qgmem")(asked).text == expected

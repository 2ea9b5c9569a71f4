"""FactConsolidation: gold derived from a small list written for these tests, and a whole run over it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest
from rich.console import Console

import memdb
from benchmarks.quality import columns, factconsolidation, metrics, retrievers, run
from benchmarks.quality.data import DATA_VARIABLE, Conversation, Question, chosen_sizes, find_files
from benchmarks.quality.errors import BenchmarkError, DataMalformed, DataMissing
from benchmarks.quality.evaluate import Outcome
from benchmarks.quality.factconsolidation import Fact, Gold, facts, load, multi_hop, single_hop, slots
from benchmarks.quality.figures import MESSAGES, summarise
from memdb.importers.numbered import numbered_facts

SENTENCES = [
    "The author of The Silent Orchard is Mira Kovac.",
    "Mira Kovac is married to Piet Larsen.",
    "Piet Larsen is a citizen of Norland.",
    "The capital of Norland is Osthaven.",
    "Piet Larsen is a citizen of Sudland.",
    "The capital of Sudland is Marl, D.C..",
    "The capital of Norland is Vik.",
    "The name of the current head of the Sudland government is Ida Moll.",
    "The name of the current head of state in Sudland is Jon Falk.",
    "The univeristy where Ida Moll was educated is Selm College.",
    "The type of music that Jon Falk plays is polka.",
    "Mira Kovac's child is Ada Kovac.",
    "Orchard Opera was performed by Jon Falk.",
]
CONTEXT = "Here is a list of facts:\n" + "\n".join(f"{n}. {text}" for n, text in enumerate(SENTENCES))
SINGLE = [
    ("What is the capital of Norland?", ["Vik"]),
    ("What is the capital of Sudland?", ["Marl, D.C."]),
    ("What is the country of citizenship of Piet Larsen?", ["Sudland", "Kingdom of Sudland"]),
    ("What is the name of the current head of the Sudland government?", ["Ida Moll"]),
    ("What is the capital of Norland now?", ["Osthaven"]),
]
MULTI = [
    ("What is the country of citizenship of the spouse of the author of The Silent Orchard?", ["Sudland"]),
    ("Which city is the capital of the country Mira Kovac's partner is a citizen of?", ["Marl, D.C."]),
    ("Where was the author of The Silent Orchard born?", ["Nowhere"]),
]


def record(
    kind: str, size: str, asked: list[tuple[str, list[str]]], context: str = CONTEXT
) -> dict[str, Any]:
    return {
        "context": context,
        "questions": [question for question, _ in asked],
        "answers": [answers for _, answers in asked],
        "metadata": {"source": f"factconsolidation_{kind}_{size}", "demo": None},
    }


RECORDS = [
    record("mh", "6k", MULTI),
    record("sh", "6k", SINGLE),
    record("sh", "32k", SINGLE[:2], CONTEXT + "\n99. Vik is old."),
]


def written(folder: Path, records: list[dict[str, Any]]) -> Path:
    place = folder / "data" / "factconsolidation"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "factconsolidation-sample.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    return file


@pytest.fixture
def conversations(tmp_path: Path) -> list[Conversation]:
    return load([written(tmp_path, RECORDS)])


def test_sizes_are_conversations_and_kinds_categories(conversations: list[Conversation]) -> None:
    assert [(one.name, len(one.messages), len(one.questions)) for one in conversations] == [
        ("6k", 13, 8),
        ("32k", 14, 2),
    ]
    assert [question.category for question in conversations[0].questions] == [62] * 3 + [61] * 5
    assert [question.number for question in conversations[0].questions] == list(range(8))
    assert {q.category for q in conversations[1].questions} == {321}
    assert {factconsolidation.CATEGORIES[one] for one in (61, 62, 321)} == {"sh 6k", "mh 6k", "sh 32k"}


def test_every_form_is_read(conversations: list[Conversation]) -> None:
    read = list(facts(conversations[0].messages))
    assert len(read) == len(SENTENCES)
    assert read[5] == Fact("fact-5", "sudland", "capital", "marl, d.c")
    assert read[7][1:] == ("sudland", "current head", "ida moll")
    assert read[8][1:] == ("sudland", "current head of state", "jon falk")
    assert read[10][1:] == ("jon falk", "type of music", "polka")
    assert read[12][1:] == ("orchard opera", "was performed by", "jon falk")


def test_the_newest_fact_is_gold_and_older_values_are_stale(conversations: list[Conversation]) -> None:
    found = {question.text: (question.gold, question.stale) for question in conversations[0].questions[3:]}
    assert found[SINGLE[0][0]] == (("fact-6",), ("fact-3",))
    assert found[SINGLE[1][0]] == (("fact-5",), ())
    assert found[SINGLE[2][0]] == (("fact-4",), ("fact-2",))
    assert found[SINGLE[3][0]] == (("fact-7",), ())
    assert found[SINGLE[4][0]] == ((), ()), "an answer that only an old fact gives"


def test_the_chain_runs_over_what_is_newest(conversations: list[Conversation]) -> None:
    gold = [question.gold for question in conversations[0].questions[:3]]
    assert gold == [("fact-0", "fact-1", "fact-4"), ("fact-1", "fact-4", "fact-5"), ()]


def test_of_several_chains_the_likest_counts_and_rings_end() -> None:
    told = [
        Fact("fact-0", "ana", "is married to", "bo"), Fact("fact-1", "ana", "child", "cy"),
        Fact("fact-2", "bo", "is a citizen of", "x"), Fact("fact-3", "cy", "is a citizen of", "x"),
        Fact("fact-4", "x", "capital", "ana"), Fact("fact-5", "x", "is", "x"),
    ]  # fmt: skip
    of = slots(reversed(told))
    assert multi_hop("Of what is the child of Ana a citizen?", ["X"], of).ids == ("fact-1", "fact-3")
    assert multi_hop("Of what is whom Ana is married to a citizen?", ["X"], of).ids == ("fact-0", "fact-2")
    assert single_hop("Who is the child of Ana?", ["Cy"], of) == Gold(("fact-1",))
    assert multi_hop("Who is Bo?", ["nobody"], of) == Gold(reason=factconsolidation.NO_SLOT)


def listed(*sentences: str) -> factconsolidation.Slots:
    return slots(facts(numbered_facts(f"{number}. {text}" for number, text in enumerate(sentences))))


EMMA = listed("The author of Emma is Jane.", "Emma was performed by Jane.", "The author of Emma is Bob.")
VIK = listed(
    "Emma was performed by Jane.", "The capital of Norland is Vik.", "Jane is a citizen of Norland.",
    "The author of Emma is Bob.", "Bob is a citizen of Sudland.", "Jane was born in the city of Marl.",
    "Bob died in the city of Marl.", "The name of the current head of the Norland government is Cy.",
    "The name of the current head of state in Norland is Di.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Who is the author of Emma?", "Jane", Gold(reason=factconsolidation.OTHER_ANSWER)),
        ("Who is the author of Emma?", "Bob", Gold(("fact-2",), ("fact-0",))),
        ("Who performed Emma?", "Jane", Gold(("fact-1",))),
        ("Which city was Emma born in?", "Jane", Gold(reason=factconsolidation.NO_SLOT)),
        ("Who is the author of Persuasion?", "Jane", Gold(reason=factconsolidation.NO_HOLDER)),
        ("Who performed Emma, and who is the author?", "Bob", Gold(reason=factconsolidation.SEVERAL)),
    ],
)
def test_the_slot_asked_for_comes_before_the_answer(question: str, answer: str, expected: Gold) -> None:
    assert single_hop(question, [answer], EMMA) == expected


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Of which country is the performer of Emma a citizen?", "Norland", Gold(("fact-0", "fact-2"))),
        ("Of which country is the author of Emma a citizen?", "Sudland", Gold(("fact-3", "fact-4"))),
        ("Of which country is the author of Emma a citizen?", "Norland", Gold(reason="other")),
        ("Where was the performer of Emma born?", "Marl", Gold(("fact-0", "fact-5"))),
        ("Where did the performer of Emma die?", "Marl", Gold(reason="several")),
        ("What is the capital of the country of citizenship of the performer of Emma?", "Vik",
         Gold(("fact-0", "fact-2", "fact-1"))),
        ("Who is the head of the country of which Jane is a citizen?", "Di", Gold(reason="several")),
        ("What is the capital of Norland?", "Vik", Gold(reason="none")),
        ("Which city is the performer of Emma from?", "Marl", Gold(reason="none")),
    ],
)  # fmt: skip
def test_a_chain_follows_the_slots_asked_for(question: str, answer: str, expected: Gold) -> None:
    reasons = {
        "other": factconsolidation.OTHER_ANSWER, "several": factconsolidation.SEVERAL,
        "none": factconsolidation.NO_SLOT, "": "",
    }  # fmt: skip
    assert multi_hop(question, [answer], VIK) == expected._replace(reason=reasons[expected.reason])


def test_one_fact_is_no_chain() -> None:
    told = listed("The capital of Norland is Vik.", "Norland is located in the continent of Asia.")
    assert multi_hop("What is the capital of Norland?", ["Vik"], told).ids == ()


def test_every_slot_has_its_cues(conversations: list[Conversation]) -> None:
    assert {fact.slot for fact in facts(conversations[0].messages)} <= set(factconsolidation.CUES)
    said = {slot for form in (factconsolidation._OF, factconsolidation._SAYS) for slot in form.split("|")}
    assert said <= set(factconsolidation.CUES)


def test_names_inside_longer_ones_start_nothing() -> None:
    told = [Fact("fact-0", "new vik", "is", "a"), Fact("fact-1", "vik", "is", "b")]
    assert single_hop("What is New Vik?", ["b"], slots(told)).reason == factconsolidation.OTHER_ANSWER
    assert single_hop("What is New Vik?", ["a"], slots(told)) == Gold(("fact-0",))


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([{**RECORDS[0], "metadata": {"source": "other_sh_6k"}}], "record 0 is none of this benchmark"),
        ([{**RECORDS[0], "metadata": {"source": "factconsolidation_sh_7k"}}], "record 0 is none"),
        ([{**RECORDS[0], "answers": []}], "record 0 is none of this benchmark"),
        ([RECORDS[0], {**RECORDS[1], "context": "1. a\n1. b"}], "record 1: line 2: the number 1"),
        ([RECORDS[0], {**RECORDS[1], "context": "1. a"}], "record 1: another context for 6k"),
        ([{"context": 3}], "Expected `str`"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, records: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(DataMalformed, match=told):
        load([written(tmp_path, records)])


def test_sizes_can_be_chosen(conversations: list[Conversation]) -> None:
    assert chosen_sizes(conversations, None) == conversations
    assert [one.name for one in chosen_sizes(conversations, " 32k,")] == ["32k"]
    for wrong in ("64k", "6k,x", ","):
        with pytest.raises(BenchmarkError) as caught:
            chosen_sizes(conversations, wrong)
        assert caught.value.hint == "sizes: 6k, 32k"


@pytest.mark.parametrize(
    ("ranking", "stale", "expected"),
    [
        (["new", "old"], ["old"], 0.0),
        (["x", "old", "new"], ["old"], 1.0),
        (["old"], ["old"], 1.0),
        (["x"], ["old"], 0.0),
        (["x", "old"], [], 0.0),
    ],
)
def test_stale_first(ranking: list[str], stale: list[str], expected: float) -> None:
    assert metrics.stale_first(ranking, ["new"], stale) == expected


def test_questions_are_resampled() -> None:
    values = dict.fromkeys(
        ("recall@5 recall@10 recall@100 any@10 all@10 ndcg@10 gold covered relevant sufficient "
         "order_ndcg@10 context_tokens stale_first").split(), 1.0)  # fmt: skip
    outcomes = [
        Outcome(conversation="6k", number=n, category=61, retriever="r", gold=("a",), ranks=(1,),
                values=values | {"all@10": float(n % 2)}, milliseconds=n)
        for n in range(20)
    ]  # fmt: skip
    row = summarise(outcomes, factconsolidation.FIGURES)[0]
    assert row.figures["all@10"].value == 0.5
    assert row.figures["all@10"].low == pytest.approx(0.3, abs=0.05)
    assert (row.median_ms, row.mean_ms) == (9.5, 9.5)
    assert summarise(outcomes, MESSAGES)[0].figures["all@10"].low is None, "one conversation"


def test_a_minus_leaves_channels_out() -> None:
    chosen = columns.columns(["-hops", "-hops,-traces"])
    assert chosen["hybrid-hops"].channels == tuple(name for name in memdb.CHANNELS if name != "hops")
    assert set(memdb.CHANNELS) - set(chosen["hybrid-hops-traces"].channels or ()) == {"hops", "traces"}
    for wrong in ("-smell", "-", "-hops,traces"):
        with pytest.raises(BenchmarkError, match="no channel"):
            columns.columns([wrong])


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    written(tmp_path, RECORDS)
    out = tmp_path / "r.sqlite"
    assert run.bench("factconsolidation", tmp_path / "data", out=out, sizes="6k") == 0
    shown = capsys.readouterr().out
    assert "sh 6k: 4 questions, 1 more without gold" in shown
    assert "mh 6k: 2 questions, 1 more without gold" in shown
    assert "resamples of questions" in shown
    connection = apsw.Connection(str(out))
    names = [name for (name,) in connection.execute("SELECT DISTINCT retriever FROM question")]
    assert set(names) == {"bm25", "bm25-stemmed", "dense", "hybrid", "hybrid-hops", "hybrid-hops-traces"}
    found = connection.execute(
        """SELECT retriever, sum("values" ->> 'all@10'), sum("values" ->> 'stale_first') FROM question
           WHERE retriever LIKE 'hybrid%' GROUP BY retriever ORDER BY retriever"""
    ).fetchall()
    assert found[0] == ("hybrid", 6.0, 0.0)
    assert connection.execute("SELECT options FROM run").get.count('"sizes":"6k"') == 1
    connection.close()


def test_what_was_left_out_counts_among_all(tmp_path: Path) -> None:
    pytest.importorskip("snowballstemmer")
    result = run.measure(
        "factconsolidation",
        written(tmp_path, [*RECORDS, record("mh", "32k", MULTI[2:], CONTEXT + "\n99. Vik is old.")]),
        prepare=lambda one: retrievers.in_memory_file(one, {}, tmp_path),
        out=tmp_path / "r.sqlite",
    )
    row = next(row for row in result.rows if row.group == "62")
    assert (row.questions, row.figures["all@10"].value) == (2, 0.5)
    assert factconsolidation.over_all(row, "all@10", result.unscored["62"]) == pytest.approx(1 / 3)
    console = Console(file=io.StringIO(), width=120)
    factconsolidation.show(result, factconsolidation.CATEGORIES, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "mh 6k: 1 of 3 questions left out; all@10, % of those with gold / of all" in shown
    assert f"  {row.retriever}: 50.0 / 33.3" in shown
    assert "mh 32k: 1 of 1 questions left out" in shown, "also where none has gold"


def test_a_size_that_is_not_there_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, RECORDS)
    assert run.bench("factconsolidation", tmp_path / "data", out=tmp_path / "r", sizes="64k") == 2
    assert "no size '64k' in the data; hint: sizes: 6k, 32k" in capsys.readouterr().err


def test_questions_know_what_is_stale() -> None:
    assert Question(0, "?", 61, ("a",)).stale == ()


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no data")
def test_real_data() -> None:
    try:
        files = find_files("factconsolidation", factconsolidation.PATTERN, None)
    except DataMissing as error:
        pytest.skip(str(error))
    for one in load(files):
        assert len(list(facts(one.messages))) == len(one.messages)
        for category in {question.category for question in one.questions}:
            asked = [question for question in one.questions if question.category == category]
            assert sum(bool(question.gold) for question in asked) >= 0.8 * len(asked)

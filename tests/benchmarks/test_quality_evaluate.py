"""The protocol end to end without a memory file, and what is made of its outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.quality import evaluate, figures, locomo
from benchmarks.quality.data import Conversation, Question, find_files
from benchmarks.quality.errors import ChangedMeanwhile
from benchmarks.quality.evaluate import Outcome
from benchmarks.quality.retrievers import Found, Prepared, Reply
from benchmarks.quality.run import Prepare

NAMES = ["bm25", "bm25-stemmed", "oracle"]


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def conversations(folder: Path) -> list[Conversation]:
    return locomo.load(find_files("locomo", locomo.PATTERN, folder))


@pytest.fixture
def outcomes(conversations: list[Conversation], prepare: Prepare) -> list[Outcome]:
    return evaluate.evaluate(conversations, prepare, words, lambda _: None).outcomes


def test_a_unit_counts_through_its_messages() -> None:
    found = [Found(("x", "a"), "one two"), Found(("a", "b"), "three"), Found(("y",), "four")]
    values = evaluate.message_values(found, Question(0, "?", 1, ("b", "z")), words)
    assert values["recall@5"] == 0.5
    assert values["ndcg@10"] == pytest.approx(0.6309297536 / 1.6309297536 * 0.5 / 0.6309297536)
    assert (values["gold"], values["covered"], values["relevant"], values["sufficient"]) == (2, 1, 1, 0)
    assert values["context_tokens"] == 4


def test_context_tokens_are_of_the_ten_best() -> None:
    found = [Found((str(number),), "two words") for number in range(30)]
    question = Question(0, "?", 1, ("29",))
    assert evaluate.message_values(found, question, words)["context_tokens"] == 20


def test_ranks_of_the_gold() -> None:
    question = Question(3, "?", 1, ("b", "z", "x"))
    conversation = Conversation("c", (), (question,))
    found = [Found(("x", "a"), ""), Found(("b",), "")]
    outcome = evaluate.ask(conversation, question, "fake", lambda _: Reply(found), words)
    assert outcome.ranks == (3, None, 1)
    assert (outcome.conversation, outcome.number, outcome.retriever) == ("c", 3, "fake")
    assert outcome.milliseconds >= 0


def test_ranks_end_at_a_hundred() -> None:
    question = Question(0, "?", 1, ("100", "101"))
    found = [Found((str(number),), "") for number in range(1, 200)]
    outcome = evaluate.ask(Conversation("c", (), ()), question, "fake", lambda _: Reply(found), words)
    assert outcome.ranks == (100, None)


def test_every_question_with_gold_is_asked_of_everyone(
    conversations: list[Conversation], prepare: Prepare
) -> None:
    heard: list[str] = []
    run = evaluate.evaluate(conversations, prepare, words, heard.append)
    assert heard == ["conv-a"] * 5 + ["conv-b"]
    assert [(one.conversation, one.number, one.retriever) for one in run.outcomes] == [
        *(("conv-a", number, name) for number in (0, 1, 2, 4) for name in NAMES),
        *(("conv-b", 0, name) for name in NAMES),
    ]
    assert (run.add_seconds, run.models) == (1.0, {"fake": "0" * 64})
    assert run.seconds > 0


def test_summary(outcomes: list[Outcome]) -> None:
    rows = {(row.retriever, row.group): row for row in figures.summarise(outcomes)}
    assert [group for name, group in rows if name == "oracle"] == ["overall", "1", "2", "4", "5"]
    oracle = rows["oracle", "overall"]
    assert oracle.questions == 5
    for name in ("R@5", "R@100", "all@10", "nDCG@10", "QGMem R@10", "QGMem Suff@10", "QGMem order-nDCG@10"):
        one = oracle.figures[name]
        assert (one.value, one.low, one.high) == pytest.approx((1, 1, 1)), name
    assert oracle.figures["QGMem P@10"].value == pytest.approx(7 / 50)
    assert rows["oracle", "2"].questions == 2


def test_summary_is_over_questions_and_gold_items(outcomes: list[Outcome]) -> None:
    row = next(row for row in figures.summarise(outcomes) if row.retriever == "bm25")
    mine = [one for one in outcomes if one.retriever == "bm25"]
    assert row.figures["R@5"].value == pytest.approx(sum(one.values["recall@5"] for one in mine) / 5)
    covered = sum(one.values["covered"] for one in mine)
    assert row.figures["QGMem R@10"].value == pytest.approx(covered / 7)
    low, high = row.figures["R@5"].low, row.figures["R@5"].high
    assert low is not None
    assert high is not None
    assert low <= row.figures["R@5"].value <= high


def test_the_same_outcomes_give_the_same_intervals(outcomes: list[Outcome]) -> None:
    assert figures.summarise(outcomes) == figures.summarise(outcomes)


def test_gains_are_paired(outcomes: list[Outcome]) -> None:
    gained = figures.gains(outcomes, "bm25")
    assert set(gained) == {"bm25-stemmed", "oracle"}
    rows = {row.retriever: row for row in figures.summarise(outcomes) if row.group == figures.OVERALL}
    difference = rows["oracle"].figures["nDCG@10"].value - rows["bm25"].figures["nDCG@10"].value
    assert gained["oracle"]["nDCG@10"].value == pytest.approx(difference)
    twins = [*outcomes, *(replace(one, retriever="twin") for one in outcomes if one.retriever == "bm25")]
    nothing = figures.gains(twins, "bm25")["twin"]["R@10"]
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)


def test_median_milliseconds(outcomes: list[Outcome]) -> None:
    timed = [replace(outcomes[0], milliseconds=milliseconds) for milliseconds in (1.0, 90.0, 3.0)]
    assert figures.median_milliseconds(timed) == {"bm25": 3.0}


def test_a_model_that_changes_meanwhile_ends_the_run(
    conversations: list[Conversation], prepare: Prepare
) -> None:
    digests = iter(["a" * 64, "b" * 64])

    @contextmanager
    def changing(conversation: Conversation) -> Iterator[Prepared]:
        with prepare(conversation) as prepared:
            yield replace(prepared, models={"fake": next(digests)})

    with pytest.raises(ChangedMeanwhile, match="aaaaaaaa and is now bbbbbbbb"):
        evaluate.evaluate(conversations, changing, words, lambda _: None)

"""Telling questions without an answer from those with one: the AUROC and its interval, and who is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality import abstention, evaluate, metrics
from benchmarks.quality.data import Conversation, Question
from benchmarks.quality.evaluate import Outcome
from benchmarks.quality.figures import by_conversation, by_question
from benchmarks.quality.retrievers import Found, Prepared, Reply

SCORES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("answerable", "unanswerable", "expected"),
    [
        ([0.9, 0.8], [0.1, 0.2], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5, 0.5], [0.5], 0.5),
        ([0.9, 0.4], [0.5, 0.4], 0.625),  # won: 0.9 twice, a tie of 0.4; of four pairs 2.5
        ([3, 1, 2], [2, 2], 0.5),  # 3 wins twice, 2 ties twice, 1 loses twice: 3 of 6
        ([0.2, 0.7, 0.7], [0.7, 0.1], 4 / 6),  # 0.7 ties and wins, twice; 0.2 loses and wins
    ],
)
def test_auroc_by_hand(answerable: list[float], unanswerable: list[float], expected: float) -> None:
    assert metrics.auroc(answerable, unanswerable) == pytest.approx(expected)


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_pairs(answerable: list[float], unanswerable: list[float]) -> None:
    won = [(a > b) + 0.5 * (a == b) for a in answerable for b in unanswerable]
    assert metrics.auroc(answerable, unanswerable) == pytest.approx(sum(won) / len(won))
    assert metrics.auroc(unanswerable, answerable) == pytest.approx(1 - sum(won) / len(won))


@pytest.mark.parametrize(("answerable", "unanswerable"), [([], [1.0]), ([1.0], [])])
def test_auroc_needs_both_kinds(answerable: list[float], unanswerable: list[float]) -> None:
    with pytest.raises(ValueError, match="both kinds"):
        metrics.auroc(answerable, unanswerable)


def outcome(
    conversation: str, number: int, score: float | None, has_answer: bool, name: str = "r"
) -> Outcome:
    told = {} if score is None else {"answerable": score, "has_answer": float(has_answer)}
    return Outcome(
        conversation=conversation,
        number=number,
        category=1,
        retriever=name,
        gold=(),
        ranks=(),
        values=told,
        milliseconds=1.0,
    )


@given(st.lists(st.tuples(st.integers(0, 4).map(float), st.booleans(), st.integers(0, 2)), min_size=3))
def test_every_cluster_once_is_the_auroc_itself(asked: Sequence[tuple[float, bool, int]]) -> None:
    scores, has_answer, clusters = (np.array(each) for each in zip(*asked, strict=True))
    if has_answer.all() or not has_answer.any():
        return
    drawn = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    expected = metrics.auroc(scores[has_answer].tolist(), scores[~has_answer].tolist())
    assert abstention._resampled(scores, has_answer, clusters, drawn) == pytest.approx([expected] * 2)


def test_a_resample_counts_a_question_as_often_as_its_cluster() -> None:
    scores, has_answer = np.array([0.9, 0.1, 0.5]), np.array([True, True, False])
    drawn = np.array([[3.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    found = abstention._resampled(scores, has_answer, np.array([0, 1, 2]), drawn)
    assert found[:3].tolist() == [1.0, 0.5, pytest.approx(1 / 3)]
    assert np.isnan(found[3]), "no question without an answer was drawn"


def test_one_entry_for_each_retriever_that_tells() -> None:
    asked = [
        *(outcome(f"c{n}", n, 0.5 + 0.1 * (n % 5), True) for n in range(20)),
        *(outcome(f"c{n}", 20 + n, 0.1 * (n % 7), False) for n in range(20)),
    ]
    blind = [outcome("c1", 1, None, True, "bm25"), outcome("c1", 1, 0.5, True, "sure")]
    (one,) = abstention.abstention([*asked, *blind], by_question)
    assert (one.retriever, one.answerable, one.unanswerable) == ("r", 20, 20)
    assert one.auroc.low is not None
    assert one.auroc.high is not None
    assert one.auroc.low < one.auroc.value < one.auroc.high <= 1
    assert abstention.abstention(asked, by_question) == [one], "the seed is fixed"


def test_one_cluster_has_no_interval() -> None:
    asked = [outcome("c", 0, 0.9, True), outcome("c", 1, 0.1, False)]
    (one,) = abstention.abstention(asked, by_conversation)
    assert (one.auroc.value, one.auroc.low, one.auroc.high) == (1.0, None, None)
    assert abstention.abstention(asked[:1], by_conversation) == abstention.abstention([], by_question) == []


def test_questions_without_an_answer_are_asked_for_that_alone() -> None:
    questions = (
        Question(0, "found?", 1, ("a",)),
        Question(1, "unknown?", 2, (), answerable=False),
        Question(2, "tempting?", 3, ("a",), answerable=False),
        Question(3, "no gold?", 4, ()),
    )
    sure = {0: 0.9, 1: 0.2, 2: 0.4}
    heard: list[str] = []

    @contextmanager
    def prepare(_: Conversation) -> Iterator[Prepared]:
        found = [Found(("a",), "text")]
        yield Prepared(
            {
                "blind": lambda question: Reply(found),
                "telling": lambda question: Reply(found, sure[question.number]),
            },
            encoded=3,
            reused=1,
        )

    run = evaluate.evaluate([Conversation("c", (), questions)] * 2, prepare, len, heard.append)
    first = run.outcomes[: len(run.outcomes) // 2]
    assert [(one.number, one.retriever) for one in first] == [
        (0, "blind"), (0, "telling"), (1, "telling"), (2, "blind"), (2, "telling"),
    ]  # fmt: skip
    told = {one.number: one.values for one in first if one.retriever == "telling"}
    assert told[1] == {"answerable": 0.2, "has_answer": 0.0}
    assert (told[0]["has_answer"], told[2]["has_answer"], told[2]["recall@10"]) == (1.0, 0.0, 1.0)
    assert "answerable" not in first[0].values
    assert (run.encoded, run.reused, len(heard)) == (6, 2, 8)

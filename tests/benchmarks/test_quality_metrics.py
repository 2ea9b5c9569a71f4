"""Worked examples of every retrieval metric, and what must hold for any ranking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality import metrics
from benchmarks.quality.metrics import QGMemCounts

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)
GOLD = st.sets(st.sampled_from("abcdefgh"), min_size=1)


def test_recall_any_all_at_k() -> None:
    ranking, gold = ["x", "a", "y", "b"], {"a", "b"}
    assert [metrics.recall(ranking, gold, k) for k in (1, 2, 4)] == [0, 0.5, 1]
    assert [metrics.any_hit(ranking, gold, k) for k in (1, 2, 4)] == [0, 1, 1]
    assert [metrics.all_hit(ranking, gold, k) for k in (1, 2, 4)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("ranking", "k", "expected"),
    [
        ("ab", 10, 1.0),
        ("xaby", 10, (0.6309297536 + 0.5) / 1.6309297536),
        ("a", 10, 1 / 1.6309297536),  # what was not found costs
        ("xyab", 2, 0.0),
        ("a", 1, 1.0),  # ideal order is cut at k
    ],
)
def test_ndcg_ideal_holds_all_gold(ranking: str, k: int, expected: float) -> None:
    assert metrics.ndcg(list(ranking), {"a", "b"}, k) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [metrics.recall, metrics.any_hit, metrics.all_hit, metrics.ndcg])
def test_no_gold_is_undefined(metric: object) -> None:
    with pytest.raises(ValueError, match="without gold"):
        metric(["a"], set(), 10)  # type: ignore[operator]


@given(IDS, GOLD, st.integers(1, 9))
def test_bounds_and_order_of_metrics(ranking: list[str], gold: set[str], k: int) -> None:
    recall = metrics.recall(ranking, gold, k)
    assert metrics.all_hit(ranking, gold, k) <= recall <= metrics.any_hit(ranking, gold, k)
    assert 0 <= metrics.ndcg(ranking, gold, k) <= 1 + 1e-12
    assert recall <= metrics.recall(ranking, gold, k + 1)


@given(GOLD, st.integers(1, 9))
def test_gold_first_is_perfect(gold: set[str], k: int) -> None:
    assert metrics.ndcg(sorted(gold), gold, k) == pytest.approx(1)


def test_first_seen_flattens_units() -> None:
    assert metrics.first_seen([("b", "a"), (), ("a", "c"), ("b",)]) == ["b", "a", "c"]


def test_evidence_recall_counts_1_without_evidence() -> None:
    assert metrics.evidence_recall(["a", "x"], ["a", "b"]) == 0.5
    assert metrics.evidence_recall(["a"], []) == 1


# --- QGMem


def test_qgmem_worked_example() -> None:
    score = metrics.qgmem([QGMemCounts(3, 2, 2, False, 1.0), QGMemCounts(1, 1, 1, True, 0.5)])
    assert score.recall == pytest.approx(0.75)
    assert score.precision == pytest.approx(0.15)
    assert score.sufficiency == 0.5
    assert score.order_ndcg == 0.75


@pytest.mark.parametrize(
    ("relevant", "expected"),
    [([0, 1, 0, 1], 0.650921), ([1, 1, 0, 0], 1.0), ([0] * 9 + [1], 0.289065), ([0, 0, 0], 0.0), ([], 0.0)],
)
def test_order_ndcg_worked_examples(relevant: list[int], expected: float) -> None:
    assert metrics.order_ndcg(relevant) == pytest.approx(expected, abs=1e-6)


def test_qgmem_counts_units_through_their_messages() -> None:
    counts = metrics.qgmem_counts([("x",), ("a", "b"), ("b", "y")], {"a", "b", "c"})
    assert counts[:4] == (3, 2, 2, False)
    assert counts.order_ndcg == pytest.approx((0.6309297536 + 0.5) / 1.6309297536)


def test_qgmem_looks_at_ten_units() -> None:
    units = [("x",)] * 10 + [("a",)]
    assert metrics.qgmem_counts(units, {"a"}) == (1, 0, 0, False, 0.0)
    counts = metrics.qgmem_counts(units[1:], {"a"})
    assert counts[:4] == (1, 1, 1, True)
    assert counts.order_ndcg == pytest.approx(0.289065, abs=1e-6)


# --- DeferMem


def test_defermem_worked_example() -> None:
    questions = [({"a", "b", "x"}, {"a", "b"}), ({"a"}, {"a", "b"}), ({"a"}, set[str]())]
    assert metrics.defermem(questions) == (0.5, 0.75)


def test_defermem_needs_gold() -> None:
    with pytest.raises(ValueError, match="no question has gold"):
        metrics.defermem([({"a"}, set())])


# --- LongMemEval

CORPUS = ["answer_a", "s1", "answer_b", "s2", "s3"]


@pytest.mark.parametrize(
    ("ranking", "gold", "k", "expected"),
    [
        ("s1 answer_a s2 answer_b s3", "answer_a answer_b", 3, (1, 0, 0.5)),
        ("s1 answer_a s2 answer_b s3", "answer_a answer_b", 5, (1, 1, 0.75)),
        ("answer_a s1 answer_b s2 s3", "answer_a answer_b", 5, (1, 1, 0.815465)),
        ("s1 answer_a answer_b s2 s3", "answer_a", 5, (1, 1, 1.0)),  # ranks 1 and 2 weigh the same
    ],
)
def test_longmemeval_worked_examples(
    ranking: str, gold: str, k: int, expected: tuple[float, float, float]
) -> None:
    score = metrics.longmemeval(ranking.split(), set(gold.split()), CORPUS, k)
    assert score == pytest.approx(expected, abs=1e-6)


def test_longmemeval_turns_become_sessions() -> None:
    corpus = ["s1_1", "s1_2", "answer_a_1", "answer_a_2", "s2_1"]
    ranking = ["s1_2", "s1_1", "answer_a_2", "s2_1", "answer_a_1"]
    assert metrics.session_of("answer_a_2") == "answer_a"
    score = metrics.longmemeval_sessions(ranking, {"answer_a_2"}, corpus, 2)
    assert (score.recall_any, score.recall_all) == (1, 1)  # k grows to 3 turns to cover two sessions
    assert score.ndcg_any == pytest.approx((1 / 1.5849625007) / 2)  # both turns of the session are ideal
    assert metrics.longmemeval_sessions(ranking, {"s2_1"}, corpus, 2).recall_any == 0
    assert metrics.longmemeval_sessions(ranking, {"s2_1"}, corpus, 9).recall_any == 1

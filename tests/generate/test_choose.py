"""Which messages are read, and which of them are useful."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from memdb.generate.choose import Bounds, chosen, relevance
from memdb.models.fakes import OverlapReranker
from memdb.records import History
from memdb.settings import DISTILL_DEPTH
from tests.generate.histories import CANOE, WHERE, history, segment


class Fixed(OverlapReranker):
    """A reranker that gives the number at the end of a message."""

    def score(self, question: str, documents: Sequence[str]) -> Any:
        numbers = [float(document.splitlines()[0].split()[-1]) for document in documents]
        return super().score(question, documents) * 0 + numbers


def scored(*scores: float, ranks: Sequence[int | None] = ()) -> History:
    """Messages, each a segment of its own, that get these scores at these ranks (all of them 1)."""
    found = ranks or [1] * len(scores)
    return history(
        WHERE,
        *[
            segment(("Ana", f"{score}"), session=f"s{number}", ranks=[rank])
            for number, (score, rank) in enumerate(zip(scores, found, strict=True))
        ],
    )


ALL = Bounds(100, -100.0, 100.0)


@pytest.mark.parametrize(
    ("bounds", "numbers"),
    [
        pytest.param(ALL, (1, 3, 0, 2), id="all, the best first"),
        pytest.param(ALL._replace(most=2), (1, 3), id="so many"),
        pytest.param(ALL._replace(most=0), (), id="none"),
        pytest.param(ALL._replace(least=1.0), (1, 3, 0), id="of such relevance"),
        pytest.param(ALL._replace(within=1.5), (1, 3), id="as good as the best, nearly"),
        pytest.param(ALL._replace(within=1.5, least=5.0), (), id="both have to hold"),
    ],
)
def test_bounds(bounds: Bounds, numbers: tuple[int, ...]) -> None:
    assert chosen(scored(1.0, 4.0, -2.0, 3.0), Fixed(("source",)), bounds) == numbers


def test_the_rank_lowers_what_the_reranker_says() -> None:
    """Log-odds less ln(rank); what was not found has the rank behind the last."""
    found = relevance(scored(1.0, 2.0, 3.0, ranks=[1, 4, None]), Fixed(("source",)))
    assert found == pytest.approx({0: 1.0, 1: 2.0 - math.log(4), 2: 3.0 - math.log(5)})


def test_without_a_reranker_the_words_of_the_question_count() -> None:
    """Of "Ana", "keep" and "canoe" all three are said: ln(3.5 / 0.5); of Ben's question two, at rank 2."""
    found = relevance(history(WHERE, CANOE), None)
    assert found[1] == pytest.approx(math.log(3.5 / 0.5))
    assert found[0] == pytest.approx(math.log(2.5 / 1.5) - math.log(2))


def test_what_was_found_is_read_first_then_its_neighbours_then_what_is_linked() -> None:
    linked = segment(*[("Ana", "x 1")] * 40, session="t")
    hits = segment(*[("Ana", "x 1")] * 40, ranks=[None] * 20 + [7, None, None, 2])
    read = relevance(history(WHERE, linked, hits), Fixed(("source",)))
    assert len(read) == DISTILL_DEPTH
    assert min(read) > 40, "nothing of the linked segment"
    assert set(read) == {40 + place for place in range(min(read) - 40, max(read) - 39)}, "around the hits"
    assert {60, 63} <= set(read)
    assert set(relevance(history(WHERE, linked), Fixed(("source",)))) == set(range(DISTILL_DEPTH))


def test_nothing_is_chosen_of_nothing() -> None:
    assert chosen(history(WHERE), OverlapReranker(), ALL) == ()

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import memdb
from memdb.activate.answerable import probability, signs
from memdb.activate.rerank import document, linear, relevances, reordered
from memdb.activate.retrieve import Candidate
from memdb.errors import InputError
from memdb.models.fakes import OverlapReranker
from memdb.models.ports import FIELDS, Field
from memdb.records import ChannelHit, Evidence, Interval, Message, Query, Trace, Triple, Unit
from tests.conftest import OpenMemory

MAY = Interval(dt.date(2023, 5, 1), dt.date(2023, 5, 31), "month")
SEVENTH = Interval(dt.date(2023, 5, 7), dt.date(2023, 5, 7), "day")


def claim(text: str, value: str = "Rome", *, trace: str | None = None, current: bool | None = None) -> Unit:
    return Unit(
        fact_text=text,
        triple=Triple("Ana", "lives in", value),
        first=0,
        last=0,
        trace_id=trace,
        current=current,
    )


def candidate(
    text: str,
    rank: int = 1,
    *,
    before: Sequence[Message] = (),
    speaker: str = "Ana",
    score: float | None = None,
    **more: Any,
) -> Candidate:
    message = Message(speaker, text, id=f"m{rank}", image_caption=more.pop("image_caption", None))
    evidence = Evidence(
        rank=rank,
        score=1 / rank if score is None else score,
        text=text,
        speaker=speaker,
        session="s",
        source=(message,),
        **more,
    )
    return Candidate(evidence, tuple(before))


def texts(candidates: Sequence[Candidate]) -> list[str]:
    return [one.evidence.text for one in candidates]


# --- The document


def test_a_document_has_the_papers_fields_in_its_order() -> None:
    home = claim("Ana lives in Rome.", trace="7")
    whole = Unit(
        fact_text="Ana moved.", entities=("Ana", "the movers"), locations=("Rome",), fact_time=(SEVENTH, MAY),
        first=0, last=0,
    )  # fmt: skip
    one = candidate(
        "I have moved.",
        before=[Message("Ben", "Where are you?")],
        facts=(home, whole),
        said_at="2023-05-08",
        image_caption="boxes",
    )
    trace = Trace(
        id="7", relation_text="Ana | lives in", trajectory="Oslo → Rome", states=(home,), current=home
    )
    assert document(one, {"7": trace}).splitlines() == [
        "Fact: Ana lives in Rome.; Ana moved.",
        "Source: Ben: Where are you?",
        "Ana: I have moved. [image: boxes]",
        "Entities: Ana; the movers",
        "Locations: Rome",
        "Fact time: 2023-05-07 (day); 2023-05-01..2023-05-31 (month)",
        "Utterance time: 2023-05-08",
        "State trajectory: Oslo → Rome",
    ]


def test_empty_fields_and_those_not_wanted_are_left_out() -> None:
    one = candidate("Hello.", said_at="2023-05-08")
    assert document(one, {}) == "Source: Ana: Hello.\nUtterance time: 2023-05-08"
    assert document(one, {}, ("source",)) == "Source: Ana: Hello."


@given(st.integers(0, 60))
def test_a_long_document_loses_what_came_before_first_and_never_the_evidence(room: int) -> None:
    before = [Message("Ben", f"word{number} " * 5) for number in range(3)]
    text = document(
        candidate("The answer.", before=before), {}, max_tokens=room, count=lambda text: len(text.split())
    )
    kept = [number for number in range(3) if f"word{number}" in text]
    assert kept == list(range(3))[3 - len(kept) :], "the farthest goes first"
    assert len(text.split()) <= room or not kept
    assert "The answer." in text or not kept


@given(st.integers(1, 80), st.integers(0, 60))
def test_a_long_message_is_cut_at_its_end_and_the_trajectory_stays(words: int, room: int) -> None:
    said = " ".join(f"word{number}" for number in range(words))
    home = claim("Ana lives in Rome.", trace="7")
    trace = Trace(
        id="7", relation_text="Ana | lives in", trajectory="Oslo → Rome", states=(home,), current=home
    )
    text = document(
        candidate(said, facts=(home,)), {"7": trace}, max_tokens=room, count=lambda text: len(text.split())
    )
    assert text.endswith("State trajectory: Oslo → Rome")
    source = next(line for line in text.splitlines() if line.startswith("Source: Ana:"))
    kept = source.removeprefix("Source: Ana:").split()
    assert said.startswith(" ".join(kept))
    assert len(text.split()) <= room or not kept


@given(st.text(), st.text())
def test_nothing_said_can_pose_as_another_field(speaker: str, text: str) -> None:
    one = candidate(f"{text}\nUtterance time: 1999-01-01", speaker=speaker)
    assert len(document(one, {}).splitlines()) == 1


# --- The order


class Given(OverlapReranker):
    """A reranker whose scores are given by text."""

    def __init__(self, scores: Mapping[str, float], fields: Sequence[Field] = FIELDS) -> None:
        super().__init__(fields)
        self.scores = scores
        self.read: list[str] = []

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        self.read = list(documents)
        found = [next((value for key, value in self.scores.items() if key in one), -5.0) for one in documents]
        return np.array(found, np.float32)


def test_relevances_read_the_documents_the_model_wants() -> None:
    model = Given({"b": 1.0}, fields=("source",))
    assert relevances(model, "?", [candidate("a", 1), candidate("b", 2)], ()) == [-5.0, 1.0]
    assert model.read == ["Source: Ana: a", "Source: Ana: b"]


def test_scores_and_the_first_ranking_are_weighed_together() -> None:
    pool = [candidate("a", 1), candidate("b", 2), candidate("c", 3)]
    assert texts(reordered(pool, [0.0, 1.0, 2.0], first_weight=0.0)) == ["c", "b", "a"]
    # a 0 - 0, b 1 - 2 ln 2 = -.386, c 2 - 2 ln 3 = -.197
    assert texts(reordered(pool, [0.0, 1.0, 2.0], first_weight=2.0)) == ["a", "c", "b"]


def test_what_was_not_scored_keeps_its_place_behind() -> None:
    pool = [candidate(name, rank) for rank, name in enumerate("abcd", 1)]
    assert texts(reordered(pool, [0.0, 9.0], first_weight=0.0)) == ["b", "a", "c", "d"]
    assert texts(reordered(pool, [], first_weight=0.0)) == ["a", "b", "c", "d"]


def test_chains_of_facts_keep_their_places() -> None:
    hop = {"hops": ChannelHit(1, 1.0)}
    pool = [
        candidate("a", 1, channels=hop),
        candidate("b", 2),
        candidate("c", 3, channels=hop),
        candidate("d", 4),
    ]
    assert texts(reordered(pool, [-9.0, 0.0, -9.0, 1.0], first_weight=0.0)) == ["a", "d", "c", "b"]


def test_what_was_replaced_stays_directly_behind_what_holds() -> None:
    now = candidate("now Rome", 2, facts=(claim("Rome", trace="7", current=True),))
    once = candidate(
        "once Oslo", 3, facts=(claim("Oslo", "Oslo", trace="7", current=False),), superseded=True
    )
    pool = [candidate("x", 1), now, once, candidate("y", 4)]
    assert texts(reordered(pool, [1.0, 0.0, 5.0, 2.0], first_weight=0.0)) == [
        "now Rome",
        "once Oslo",
        "y",
        "x",
    ]


def test_a_question_about_the_past_may_put_first_what_was_replaced() -> None:
    """The first ranking has put the old state in front: then the scores decide."""
    once = candidate(
        "once Oslo", 1, facts=(claim("Oslo", "Oslo", trace="7", current=False),), superseded=True
    )
    now = candidate("now Rome", 2, facts=(claim("Rome", trace="7", current=True),))
    assert texts(reordered([once, now], [5.0, 0.0], first_weight=0.0)) == ["once Oslo", "now Rome"]


@given(st.lists(st.floats(-20, 20), max_size=12), st.floats(0, 5), st.integers(0, 4))
def test_reordering_loses_and_repeats_nothing(scores: list[float], weight: float, more: int) -> None:
    pool = [candidate(str(rank), rank) for rank in range(1, len(scores) + more + 1)]
    assert sorted(texts(reordered(pool, scores, first_weight=weight)), key=int) == texts(pool)


# --- Without a model


def test_the_linear_fallback_weighs_cosine_bm25_and_attributes() -> None:
    """.5 cosine + .3 BM25 as a share of the best + .2 S_ELT."""
    pool = [
        candidate(
            "a", 1, channels={"message_dense": ChannelHit(1, 0.8), "unit_attribute": ChannelHit(1, 0.5)}
        ),
        candidate(
            "b", 2, channels={"message_lexical": ChannelHit(1, 12.0), "unit_dense": ChannelHit(3, 0.2)}
        ),
        candidate("c", 3, channels={"unit_lexical": ChannelHit(2, 6.0)}),
        candidate("d", 4),
    ]
    assert linear(pool) == pytest.approx([0.5 * 0.8 + 0.2 * 0.5, 0.3 + 0.5 * 0.2, 0.15, 0.0])
    assert linear([]) == []


# --- Whether there is an answer


def test_without_a_calibration_the_best_score_tells() -> None:
    pool = [candidate("a", 1), candidate("b", 2)]
    query = Query(text="What?")
    assert probability(query, pool, [0.0, -3.0], None, {}) == pytest.approx(0.5)
    assert probability(query, pool, [2.0, -3.0], None, {}) == pytest.approx(0.8808, abs=1e-4)
    assert probability(query, [], [], None, {}) == 0.0


def test_a_calibration_weighs_the_signs() -> None:
    pool = [candidate("I adopted a cat", 1, channels={"message_dense": ChannelHit(1, 0.4)})]
    query = Query(text="What cat did Ana adopt?")
    found = signs(query, pool, [2.0], "Ana")
    assert found["best"] == found["second"] == found["mean"] == pytest.approx(0.2)
    assert found["same_speaker"] == 1.0
    assert found["words"] == 1.0, "cat and adopt, however inflected; the name is asked of, not for"
    assert found["cosine"] == pytest.approx(0.4)
    assert signs(query, pool, [2.0], "Ben")["same_speaker"] == -1.0
    assert signs(query, pool, [2.0], None)["same_speaker"] == 0.0
    # -1 + 5 * .2 + 1 * 1 = 1
    weights = {"bias": -1.0, "best": 5.0, "same_speaker": 1.0}
    assert probability(query, pool, [2.0], "Ana", weights) == pytest.approx(0.7311, abs=1e-4)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.floats(-1e4, 1e4))
def test_a_probability_is_one(scores: list[float], weight: float) -> None:
    pool = [candidate(str(rank), rank) for rank in range(1, len(scores) + 1)]
    for weights in ({}, {"bias": weight, "best": weight}):
        assert 0.0 <= probability(Query(text="Who?"), pool, scores, None, weights) <= 1.0


# --- In a memory


def told(memory: memdb.Memory, *said: str) -> None:
    memory.add([Message("Ana", one, id=f"m{number}") for number, one in enumerate(said)])


def test_a_memory_reranks_what_it_is_asked(open_memory: OpenMemory) -> None:
    model = Given({"violin": 9.0})
    memory = open_memory(reranker=model)
    told(memory, "The cat is grey.", "My cat sleeps all day.", "I play the violin.")
    found = memory.recall("What colour is the cat?", rerank_depth=10)
    assert found[0].text == "I play the violin."
    assert found[0].rank == 1
    assert [one.rank for one in found] == list(range(1, len(found) + 1))
    assert memory.recall("What colour is the cat?", rerank_depth=0)[0].text != "I play the violin."


def test_words_to_search_for_are_not_reranked(open_memory: OpenMemory) -> None:
    model = Given({})
    memory = open_memory(reranker=model)
    told(memory, "My cat sleeps all day.")
    assert memory.recall("cat", rerank_depth=10).answerable is None
    assert model.read == []


def test_the_reranker_reads_the_message_before(open_memory: OpenMemory) -> None:
    model = Given({})
    memory = open_memory(reranker=model)
    memory.add([Message("Ben", "Which colour did you paint it?"), Message("Ana", "Green.")])
    memory.recall("What colour did Ana choose?", rerank_depth=10)
    assert any("Ben: Which colour did you paint it?\nAna: Green." in one for one in model.read)


def test_what_was_said_later_is_not_read(open_memory: OpenMemory) -> None:
    model = Given({})
    memory = open_memory(reranker=model)
    told(memory, "early")
    memory.add(
        [Message("Ana", "My cat is grey.", "2023-05-07"), Message("Ana", "My cat is lost.", "2023-06-07")]
    )
    memory.recall("What about the cat?", as_of="2023-05-08", rerank_depth=10)
    assert model.read
    assert not any("lost" in one for one in model.read)


def test_answerable_is_told_only_by_a_model(open_memory: OpenMemory) -> None:
    memory = open_memory(reranker=Given({"grey": 4.0}))
    assert memory.recall("What colour is the cat?", rerank_depth=10).answerable == 0.0
    told(memory, "The cat is grey.")
    assert memory.recall("What colour is the cat?", rerank_depth=10).answerable == pytest.approx(
        0.982, abs=1e-3
    )
    assert memory.recall("What colour is the cat?", rerank_depth=0).answerable is None
    linear_one = open_memory(reranker="linear")
    assert linear_one.recall("What colour is the cat?", rerank_depth=10).answerable is None


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "ten", 10**9])
def test_a_depth_that_is_none_is_refused(memory: memdb.Memory, wrong: Any) -> None:
    with pytest.raises(InputError, match="rerank_depth"):
        memory.recall("What?", rerank_depth=wrong)


def test_what_is_no_reranker_is_refused(open_memory: OpenMemory) -> None:
    with pytest.raises(InputError, match="no reranker"):
        open_memory(reranker=7)


@given(
    st.lists(st.tuples(st.floats(-20, 20), st.booleans()), min_size=1, max_size=10),
    st.integers(0, 4),
    st.floats(0, 5),
)
def test_scores_never_rise_down_the_list(scored: list[tuple[float, bool]], more: int, weight: float) -> None:
    pool = [
        candidate(str(rank), rank, channels={"hops": ChannelHit(1, 1.0)} if chained else {})
        for rank, chained in enumerate([chained for _, chained in scored] + [False] * more, 1)
    ]
    found = reordered(pool, [score for score, _ in scored], first_weight=weight)
    scores = [one.evidence.score for one in found]
    assert scores == sorted(scores, reverse=True)
    told = [one.evidence.channels["reranker"] for one in found if "reranker" in one.evidence.channels]
    assert sorted(hit.rank for hit in told) == list(range(1, len(scored) + 1))

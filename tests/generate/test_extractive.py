"""Answers without a language model: what is asked for, and the span of the evidence that is of that kind."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.activate.parse import parse_question
from memdb.activate.working_memory import Serialised, estimated_tokens, serialised
from memdb.construct.rules import extract as claims
from memdb.generate.asked_for import asks_for_several, kind_of
from memdb.generate.extractive import MOST_CHARS, Extract, extract
from memdb.generate.spans import date_text
from memdb.language.cleaning import cleaned
from memdb.language.clock import parse_instant
from memdb.models.fakes import OverlapReranker
from memdb.records import ChannelHit, Evidence, Interval, Message, Query, WorkingMemory
from tests.strategies import NASTY, SCRIPTS


def evidence(
    rank: int, speaker: str, text: str, said_at: str | None = "2024-03-13", **more: object
) -> Evidence:
    """A message as evidence, with the claims that rules find in it."""
    message = Message(speaker, text, said_at, id=f"m{rank}")
    instant = None if said_at is None else parse_instant(said_at)
    units = tuple(claims([message], [instant], 0, ("Ana", "Ben")))
    return Evidence(
        rank=rank,
        score=1.0 / rank,
        text=text,
        speaker=speaker,
        session="s",
        source=(message,),
        said_at=said_at,
        fact_time=tuple(time for unit in units for time in unit.fact_time),
        facts=units,
        **more,  # type: ignore[arg-type]
    )


def told(*pieces: Evidence) -> Serialised:
    return serialised(WorkingMemory(query=Query(text="?"), evidence=pieces), 100_000, estimated_tokens)


def answer(question: str, *said: tuple[str, str]) -> str:
    found = answered(question, *said)
    assert found is not None
    return found.text


def answered(question: str, *said: tuple[str, str]) -> Extract | None:
    pieces = [evidence(rank, speaker, text) for rank, (speaker, text) in enumerate(said, 1)]
    return extract(parse_question(question, None), told(*pieces), OverlapReranker())


# --- what is asked for


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When did Ana move?", "when"),
        ("On what date did Ana move?", "when"),
        ("Which year was that?", "when"),
        ("Since when has Ben had no water?", "when"),
        ("What was the last day of the fair?", "when"),
        ("What was Ben's deadline?", "when"),
        ("What wedding date do they have in mind?", "when"),
        ("Which tram did Ben drive when he was young?", "what"),
        ("Where was Ana when it rained?", "where"),
        ("In which city does Ben work?", "where"),
        ("Who made the quilt?", "who"),
        ("Whose quilt is it?", "who"),
        ("Who is Vera?", "who is"),
        ("Who is the head of the school?", "who"),
        ("How long did the drive take?", "how long"),
        ("How often does Ben run?", "how long"),
        ("How many hens are there?", "how many"),
        ("What time does the bus leave?", "how many"),
        ("What was the price of the boat?", "how many"),
        ("What is the name of Ana's boat?", "name"),
        ("Why did the oven break?", "why"),
        ("How does Ben make bread?", "how"),
        ("Did Ana sell the boat?", "whether"),
        ("Would Ben fly?", "whether"),
        ("What did Ana plant?", "what"),
        ("Ana's garden?", "what"),
        ("", "what"),
    ],
)
def test_kinds(question: str, kind: str) -> None:
    assert kind_of(question) == kind


@pytest.mark.parametrize("question", ["Which books did Ana read?", "What kinds of bread does Ben bake?"])
def test_questions_for_several(question: str) -> None:
    assert asks_for_several(question)


@pytest.mark.parametrize("question", ["Which bus does Ben take?", "What does Ana bake?", "What was it?"])
def test_questions_for_one(question: str) -> None:
    assert not asks_for_several(question)


# --- spans


@pytest.mark.parametrize(
    ("question", "said", "expected"),
    [
        ("When did Ana adopt the goat?", "I adopted the goat on 3 May 2021.", "3 May 2021"),
        ("When did Ana adopt the goat?", "Yesterday I adopted the goat.", "12 March 2024"),
        ("When did Ana adopt the goat?", "The goat is adopted!", "13 March 2024"),
        ("Which year did Ana adopt the goat?", "I adopted the goat on 3 May 2021.", "2021"),
        ("Which month did Ana adopt the goat in?", "I adopted the goat on 3 May 2021.", "May 2021"),
        ("Since when has Ana painted?", "I paint since 2019.", "2019"),
        ("Since when has Ana painted?", "I have painted since March 2021.", "March 2021"),
        ("How long has Ana painted?", "I have painted since March 2021.", "since March 2021"),
        ("When did Ana paint?", "I painted in 2019. I adopted a goat in June 2022.", "2019"),
        ("Where does Ana's sister live?", "My sister lives in Lisbon, near the river.", "Lisbon"),
        ("Where does the goat sleep?", "He sleeps behind the old stove, in hay.", "behind the old stove"),
        ("Who taught Ana to weave?", "It was Vera who taught me to weave.", "Vera"),
        ("Who taught Ana to weave?", "My grandmother taught me to weave.", "My grandmother"),
        ("Who won the chess game?", "I won the chess game.", "Ana"),
        ("How many eggs did the hens lay?", "In two weeks the hens laid forty eggs.", "forty eggs"),
        ("How much did the stove cost?", "The stove cost $250, used.", "$250"),
        ("How long did the drive take?", "The drive took about three hours.", "about three hours"),
        ("What is the goat called?", "We have a goat called Old Tom since May.", "Old Tom"),
        ("What is the title of the poem?", 'I finished it, "Salt and Rope", at last.', "Salt and Rope"),
        ("Why was the market closed?", "The market was closed because the roof leaked.", "the roof leaked"),
        ("What does the goat eat?", "The goat eats old hats.", "old hats"),
        ("What did Ana do?", "I climbed the lighthouse.", "Ana climbed the lighthouse."),
        ("How did Ana come?", "I came on my bicycle.", "Ana came on Ana's bicycle."),
        ("Does Ana eat meat?", "I don't eat meat.", "No. Ana doesn't eat meat."),
        ("Does Ana eat meat?", "Yes, on Sundays.", "Yes. on Sundays."),
        ("Does Ana eat meat?", "I eat meat and fish.", "Yes. Ana eats meat and fish."),
        ("Doesn't Ana eat meat?", "I eat meat and fish.", "Yes. Ana eats meat and fish."),
        ("Did Ana stop painting?", "I stopped painting.", "Yes. Ana stopped painting."),
        ("Would Ana enjoy a cruise?", "The sea makes me ill.", "The sea makes Ana ill."),
        ("What is in the picture?", "[image: a photo of a goat on a roof]", "a goat on a roof"),
    ],
)  # fmt: skip
def test_spans(question: str, said: str, expected: str) -> None:
    assert answer(question, ("Ana", said)) == expected


def test_the_value_of_a_claim_is_whole() -> None:
    assert (
        answer("Which city does Ana work in?", ("x", "Ana works in Washington, D.C.")) == "Washington, D.C."
    )


def test_questions_answer_nothing() -> None:
    said = [("Ben", "When did you adopt the goat, Ana?"), ("Ana", "On 3 May 2021 I adopted it.")]
    assert answer("When did Ana adopt the goat?", *said) == "3 May 2021"


def test_the_label_is_that_of_the_piece() -> None:
    said = [("Ben", "Nice weather."), ("Ana", "The hens laid forty eggs.")]
    assert answered("How many eggs did the hens lay?", *said) == Extract("forty eggs", ("MU2",))


def test_without_evidence_there_is_no_answer() -> None:
    assert answered("Where?") is None


def test_without_a_reranker_the_words_of_the_question_count() -> None:
    pieces = told(evidence(1, "Ana", "It rained. My sister lives in Lisbon. The oven smokes."))
    found = extract(parse_question("Where does Ana's sister live?", None), pieces)
    assert found == Extract("Lisbon", ("MU1",))


def test_better_evidence_comes_first() -> None:
    said = [("Ana", "The goat came on 3 May 2021."), ("Ana", "The goat came, the goat came on 9 July 2022.")]
    assert answer("When did the goat come?", *said) == "3 May 2021"


# --- several claims


def test_several_values_of_one_slot_are_listed() -> None:
    said = [
        ("Ana", "I play the cello."),
        ("Ben", "Good."),
        ("Ana", "I play the oboe."),
        ("Ana", "I play the cello!"),
    ]
    found = answered("Which instruments does Ana play?", *said)
    assert found == Extract("the cello, the oboe", ("MU1", "MU3"))
    assert answer("Which instruments does Ana play?", said[0]) == "the cello"


def test_what_was_replaced_is_not_listed() -> None:
    old = evidence(1, "Ana", "I play the cello.")
    (unit,) = old.facts
    stale = Evidence(
        **{name: getattr(old, name) for name in old.__struct_fields__ if name != "facts"},
        facts=(
            type(unit)(**{name: getattr(unit, name) for name in unit.__struct_fields__} | {"current": False}),
        ),
    )
    rest = [evidence(2, "Ana", "I play the oboe."), evidence(3, "Ana", "I play the harp.")]
    found = extract(parse_question("Which instruments does Ana play?", None), told(stale, *rest))
    assert found == Extract("the oboe, the harp", ("MU2", "MU3"))


def test_a_chain_of_facts_answers_with_its_end() -> None:
    hops = {"hops": ChannelHit(rank=1, score=1.0)}
    pieces = [
        evidence(1, "x", "Lisbon is located in Portugal.", channels=hops),
        evidence(2, "x", "Vera lives in Lisbon.", channels=hops),
        evidence(3, "x", "Vera lives in Rome."),
    ]
    found = extract(parse_question("Which country is the home town of Vera in?", None), told(*pieces))
    assert found == Extract("Portugal", ("MU1",))


# --- dates


@pytest.mark.parametrize(
    ("start", "end", "granularity", "expected"),
    [
        ("2026-01-09", "2026-01-09", "day", "9 January 2026"),
        ("2026-01-01", "2026-01-31", "month", "January 2026"),
        ("2026-01-01", "2026-12-31", "year", "2026"),
        ("2024-01-01", "2026-12-31", "year", "2024 to 2026"),
        ("2026-01-05", "2026-01-11", "week", "the week of 5 January 2026"),
        ("2026-01-05", "2026-01-06", "day", "5 January 2026 to 6 January 2026"),
        ("0987-06-05", "0987-06-05", "day", "5 June 987"),
    ],
)
def test_dates(start: str, end: str, granularity: str, expected: str) -> None:
    days = dt.date.fromisoformat(start), dt.date.fromisoformat(end)
    assert date_text(Interval(*days, granularity)) == expected  # type: ignore[arg-type]


# --- any text

WORDS = st.sampled_from(
    "Ana's goat sleeps behind the stove in Lisbon because hens laid forty eggs , . ? ! : called Tom".split()
)
SAID = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
QUESTIONS = st.sampled_from(
    [
        "Where is the goat?",
        "Who sleeps?",
        "How many eggs?",
        "What is it called?",
        "Why?",
        "What sleeps?",
        "How?",
    ]
)
ANYTHING = st.one_of(st.text(max_size=80), st.sampled_from([*SCRIPTS.values(), *NASTY]))


@settings(deadline=None, max_examples=60)
@given(QUESTIONS, st.lists(SAID, min_size=1, max_size=4))
def test_a_span_is_a_part_of_what_was_said(question: str, said: list[str]) -> None:
    pieces = told(*(evidence(rank, "x", text) for rank, text in enumerate(said, 1)))
    found = extract(parse_question(question, None), pieces, OverlapReranker())
    assert found is not None
    (label,) = found.labels
    piece = pieces.units[label]
    texts = [piece.text, piece.speaker, *(unit.fact_text for unit in piece.facts)]
    texts += [unit.triple.object for unit in piece.facts if unit.triple]
    assert any(found.text.strip(".,") in cleaned(text) for text in texts)


@settings(deadline=None, max_examples=60)
@given(ANYTHING, st.lists(st.tuples(ANYTHING, ANYTHING), max_size=3))
def test_any_text_is_legal(question: str, said: list[tuple[str, str]]) -> None:
    pieces = [
        Evidence(
            rank=rank, score=1.0, text=text, speaker=speaker, session="s", source=(Message(speaker, text),)
        )
        for rank, (speaker, text) in enumerate(said, 1)
    ]
    memory = told(*pieces)
    found = extract(Query(text=question), memory, OverlapReranker())
    assert (found is None) == (not memory.units)
    if found is not None:
        assert found.text.isprintable()
        assert len(found.text) <= MOST_CHARS + 1
        assert set(found.labels) <= {f"MU{rank}" for rank in range(1, len(said) + 1)}


@pytest.mark.parametrize(
    "seed",
    [
        "a ", "1 ", "1,", "in the ", "my old ", "because ", "called Tom ", '"a" ', "Ana ", "three ", "since ",
        "a-", "$1", ", ",
    ],
)  # fmt: skip
def test_long_repetition(seed: str) -> None:
    """Each must simply come back."""
    text = seed * (30_000 // len(seed))
    one = told(Evidence(rank=1, score=1.0, text=text, speaker="Ana", session="s", source=()))
    for question in (
        "When?",
        "Where?",
        "Who?",
        "How many?",
        "How long?",
        "What is it called?",
        "Why?",
        "Is it?",
        text,
    ):
        found = extract(Query(text=question), one, None)
        assert found is not None
        assert len(found.text) <= MOST_CHARS + 1

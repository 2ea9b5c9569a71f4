"""What an answer rests on: labels that exist, sentences that were said, and answers that are none."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.activate.working_memory import estimated_tokens, serialised
from memdb.generate.check import NO_ANSWER, checked, cited, says_none
from memdb.records import Evidence, Interval, Message, Query, Trace, Triple, Unit, WorkingMemory


def evidence(rank: int, speaker: str, text: str, *, said_at: str | None = None, **more: object) -> Evidence:
    message = Message(speaker, text, said_at, id=f"m{rank}")
    return Evidence(
        rank=rank,
        score=1.0 / rank,
        text=text,
        speaker=speaker,
        session="s",
        source=(message,),
        said_at=said_at,
        **more,  # type: ignore[arg-type]
    )


MOVED = Unit(fact_text="Ines moved to Porto.", triple=Triple("Ines", "moved to", "Porto"), first=0, last=0)
EVIDENCE = (
    evidence(
        1,
        "Ines",
        "I moved to Porto last week. My sister Vera doesn't eat meat.",
        said_at="2023-05-10T10:00",
        facts=(MOVED,),
        fact_time=(Interval(dt.date(2023, 5, 1), dt.date(2023, 5, 7), "week"),),
    ),
    evidence(2, "Tom", "I bake three hundred loaves a night.", said_at="2023-06-01"),
)


TOLD = serialised(WorkingMemory(query=Query(text="?"), evidence=EVIDENCE), 2_000, estimated_tokens)


# --- labels


def test_labels_stand_for_the_evidence_they_name() -> None:
    found = cited("MU2 says so, F1 too, as does MU2; MU7 and F9 do not; MUX, FM1 and xMU1 are none.", TOLD)
    assert [(one.label, one.rank, [message.id for message in one.source]) for one in found.citations] == [
        ("MU2", 2, ["m2"]),
        ("F1", 1, ["m1"]),
    ]
    assert found.unknown == ("MU7", "F9")


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_any_text_has_labels_that_exist_or_not(text: str) -> None:
    found = cited(text, TOLD)
    assert {one.label for one in found.citations} <= {"MU1", "MU2", "F1"}
    assert not {"MU1", "MU2", "F1"} & set(found.unknown)


# --- sentences


def supported(answer: str, question: str = "Where does Ines live?", *, cites: bool = True) -> list[bool]:
    return [one.supported for one in checked(answer, question, TOLD, (), cites=cites)]


@pytest.mark.parametrize(
    "answer",
    [
        "Porto",
        "Ines moved to Porto.",
        "She lives in Porto now.",
        "Ines lives in Porto (MU1).",
        "Vera does not eat meat.",
        "Her sister Vera eats no meat.",
        "Tom bakes three hundred loaves a night.",
        "1 May 2023",
        "2023-05-07",
        "In the first week of May 2023",
        "She said so on 10 May 2023.",
        "Yes.",
    ],
)
def test_what_was_said_is_supported(answer: str) -> None:
    assert supported(answer) == [True]


@pytest.mark.parametrize(
    "answer",
    [
        "Rome",
        "Ines moved to Rome.",
        "Marta moved to Porto.",
        "19 August 2023",
        "She plays the violin in a quartet.",
        "Tom bakes four hundred loaves a night in Lisbon.",
        "Vera eats meat every day.",
    ],
)
def test_what_nobody_said_is_not(answer: str) -> None:
    assert supported(answer) == [False]


def test_each_sentence_is_checked_by_itself() -> None:
    answer = "Ines moved to Porto. She bought a castle in Rome. Yes."
    assert [one.text for one in checked(answer, "Where?", TOLD, (), cites=True)] == [
        "Ines moved to Porto.",
        "She bought a castle in Rome.",
        "Yes.",
    ]
    assert supported(answer) == [True, False, True]
    assert supported(answer, cites=False) == [True, False, False]


def test_what_a_trace_tells_is_said() -> None:
    unit = Unit(fact_text="Ines moved to Porto.", first=0, last=0, trace_id="t")
    one = evidence(1, "Ines", "I moved to Porto.", facts=(unit,))
    told = serialised(WorkingMemory(query=Query(text="?"), evidence=(one,)), 2_000, estimated_tokens)
    trace = Trace(
        id="t", relation_text="Ines | lives in", trajectory="Faro, then Porto", states=(unit,), current=unit
    )
    assert [one.supported for one in checked("Ines left Faro.", "?", told, (trace,), cites=True)] == [True]
    assert [one.supported for one in checked("Ines left Faro.", "?", told, (), cites=True)] == [False]


@settings(deadline=None, max_examples=50)
@given(st.text(), st.text())
def test_any_answer_can_be_checked(answer: str, question: str) -> None:
    found = checked(answer, question, TOLD, (), cites=True)
    assert found
    assert all(one.text in answer for one in found)


# --- no answer


@pytest.mark.parametrize(
    "answer",
    [
        NO_ANSWER,
        "",
        "  \n",
        "No information available",
        "no information is available about that.",
        "There is no information about the dog in the memory.",
        "No mention of a horse.",
        "No relevant information.",
        "Not mentioned.",
        "It is not mentioned in the conversation.",
        "The name of the horse isn't specified.",
        "The memory does not contain the answer.",
        "The context doesn't say where.",
        "I don't know.",
        "I cannot answer this question.",
        "I have no information on that.",
        "I do not have enough information.",
        "It cannot be determined.",
        "Unknown",
        "Unknown.",
        "unknown from the memory",
        "None",
        "None.",
        "N/A",
        "No answer.",
        "No answer in the memory.",
        "**Not available**",
        "Insufficient information.",
        "Nothing is known about it.",
        "…",
        "-?",
        "MU1, F2.",
    ],
)
def test_phrases_that_say_there_is_none(answer: str) -> None:
    assert says_none(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Unknown Pleasures",
        "Unknown Pleasures, on vinyl",
        "No.",
        "No, she sold it.",
        "No Country for Old Men",
        "No one came.",
        "No answer came from the embassy.",
        "No data plan, as he has no phone.",
        "None of her brothers.",
        "None but the Brave",
        "Nothing.",
        "Nothing but bread.",
        "Not until May",
        "Not Rome but Porto",
        "Known to nobody.",
        "Not known for patience, he left.",
        "I don't eat meat.",
        "I can't stand the smell.",
        "The conversation is not over.",
        "The Information",
        "F1 racing",
        "42",
        "Information on trains",
        "Noor",
        "Nonesuch",
        "Unknowns",
        "the memory of her grandmother",
    ],
)
def test_real_answers_that_begin_alike(answer: str) -> None:
    assert not says_none(answer)


@pytest.mark.parametrize("seed", [" ", "a ", "no ", "not ", "it is ", "' ", "I do not ", "the memory "])
def test_long_repetition(seed: str) -> None:
    text = seed * (30_000 // len(seed))
    says_none(text)
    cited(text, TOLD)
    checked(text, text, TOLD, (), cites=True)

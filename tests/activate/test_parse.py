from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.activate.parse import parse_question
from memdb.language.clock import parse_instant
from memdb.language.phrases import MAX_PHRASES
from memdb.records import Interval, Query, TimeConstraint

AT = parse_instant("2023-10-20T09:00+02:00")

# question -> entities | places
ABOUT = [
    ("When did Ana go to the pottery workshop?", "Ana, pottery workshop |"),
    ("What is Ben's favorite book series?", "Ben, book series |"),
    ("Where does Ana's sister live?", "Ana, sister |"),
    ("How many countries has Ana visited?", "Ana, countries |"),
    ("Which city is the capital of France?", "France, city, capital | France"),
    ("Did Ana stay in Rome or at Hotel Lux?", "Ana, Rome, Hotel Lux | Rome, Hotel Lux"),
    ("What did Ana do in paris?", "Ana, paris | paris"),
    ("Who plays \"Moon River\" with Ana?", "Moon River, Ana |"),
    ("Would Ana like the song “Clair de Lune” by Debussy?", "Clair de Lune, Ana, Debussy, song |"),
    ("What kind of counseling services is Ana interested in?", "Ana, counseling services |"),
    ("When is Tim attending a book conference?", "Tim, book conference |"),
    ("What did Ana say about her dog at the beach?", "Ana, dog, beach | beach"),
    ("Which band played Halloween night?", "band |"),
    ("Who is the chief executive of Apple Inc.?", "Apple Inc, chief executive |"),
    ("Where is Machu Picchu?", "Machu Picchu | Machu Picchu"),
    ("what do you know about me", "|"),
    ("What happened in 2023?", "|"),
    ("Why?", "|"),
    ("???", "|"),
    ("", "|"),
    (" \n\t", "|"),
    ("海底捞好吃吗", "海底捞好吃吗 |"),
    ("Bob's LH-1172 at 20.04", "Bob, LH-1172, 20.04 |"),
]  # fmt: skip

# question -> kind first..last
TIMES = [
    ("What did Ana do on 7 May 2023?", "fact 2023-05-07..2023-05-07"),
    ("What did Ana do in May 2023?", "fact 2023-05-01..2023-05-31"),
    ("What did Ana do in May?", "fact 2023-05-01..2023-05-31"),
    ("What did Ana do last year?", "fact 2022-01-01..2022-12-31"),
    ("Where was Ana yesterday?", "fact 2023-10-19..2023-10-19"),
    ("What will Ana do next month?", "fact 2023-11-01..2023-11-30"),
    ("Between 2019 and 2021, where did she live?", "fact 2019-01-01..2021-12-31"),
    ("What did she do the weekend before 17 July 2023?", "fact 2023-07-15..2023-07-16"),
    ("What did I tell you last week about Rome?", "utterance 2023-10-09..2023-10-15"),
    ("What did you say on June 3?", "utterance 2023-06-03..2023-06-03"),
    ("In our chat on June 3, what did we plan?", "utterance 2023-06-03..2023-06-03"),
    ("When we talked on 5 May 2023, which café did I mention?", "utterance 2023-05-05..2023-05-05"),
    ("You told me yesterday about a film. Which?", "utterance 2023-10-19..2023-10-19"),
    ("In the conversation of 5 May 2023, who called?", "utterance 2023-05-05..2023-05-05"),
    ("What did we discuss last month?", "utterance 2023-09-01..2023-09-30"),
    ("Did I mention that I was in Rome in May 2023?", "fact 2023-05-01..2023-05-31"),
    ("In our chat on June 3 I mentioned a trip in May 2022. Where?",
     "utterance 2023-06-03..2023-06-03; fact 2022-05-01..2022-05-31"),
    ("What has she done recently?", ""),
    ("What did she do before 2020?", ""),
    ("How long has she painted?", ""),
    ("Who is 24 and weighs 2000 grams?", ""),
    ("May I ask who won?", ""),
]  # fmt: skip


def rendered(query: Query) -> str:
    return "; ".join(f"{time.kind} {time.interval.start}..{time.interval.end}" for time in query.times)


@pytest.mark.parametrize(("question", "expected"), ABOUT)
def test_about(question: str, expected: str) -> None:
    query = parse_question(question, None)
    assert query.text == question
    names = f"{', '.join(query.entities)} | {', '.join(query.locations)}".strip()
    wanted, _, places = expected.partition("|")
    kept = list(dict.fromkeys(name.strip() for name in wanted.split(", ")))
    assert names == f"{', '.join(kept)} | {places.strip()}".strip()


@pytest.mark.parametrize(("question", "expected"), TIMES)
def test_times(question: str, expected: str) -> None:
    assert rendered(parse_question(question, AT)) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did Ana do on 7 May 2023?", "fact 2023-05-07..2023-05-07"),
        ("What did Ana do in May?", ""),
        ("What did Ana do yesterday?", ""),
        ("What did you say on June 3?", ""),
    ],
)
def test_without_a_time_of_its_own_a_question_has_only_full_dates(question: str, expected: str) -> None:
    assert rendered(parse_question(question, None)) == expected
    assert rendered(parse_question(question, parse_instant("serial-7"))) == expected


def test_the_questions_own_time_is_no_constraint() -> None:
    assert parse_question("Where does Ana live?", AT).times == ()


def test_the_same_time_twice_is_one_constraint() -> None:
    day = dt.date(2023, 5, 7)
    query = parse_question("On 7 May 2023, yes on 2023-05-07, what happened?", None)
    assert query.times == (TimeConstraint("fact", Interval(day, day, "day")),)


def test_long_questions_keep_their_text_and_stay_bounded() -> None:
    question = "Where is " + "Ana and the big zebra of Rome on 7 May 2023, " * 2_000
    query = parse_question(question, AT)
    assert query.text == question
    assert len(query.entities) <= MAX_PHRASES
    assert len(query.times) <= 4


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_is_a_question(text: str) -> None:
    query = parse_question(text, AT)
    assert query.text == text
    for names in (query.entities, query.locations):
        assert len(names) <= MAX_PHRASES
        assert len({name.casefold() for name in names}) == len(names)
        assert all(name == name.strip() != "" for name in names)


QUESTIONS = st.lists(
    st.sampled_from(
        "what did Ana do in May 2023 our chat on last week told me you at Rome the dog ? , \" '".split()
    )
).map(" ".join)


@given(QUESTIONS)
def test_full_dates_read_the_same_with_and_without_a_time(question: str) -> None:
    without = parse_question(question, None)
    assert without.entities == parse_question(question, AT).entities
    assert {time.interval for time in without.times} <= {
        time.interval for time in parse_question(question, AT).times
    }

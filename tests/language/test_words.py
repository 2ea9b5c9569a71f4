"""The word lists, the verb forms and the small readings built on them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.language import calendar, datewords, verbs, words
from memdb.language.places import PLACES, is_place
from memdb.language.talk import is_filler, is_question, question_tail, without_lead_in
from memdb.language.tense import tense
from memdb.records import Interval

VERBS = [
    # base, third person, past, gerund
    ("be", "is", "was", "being"),
    ("have", "has", "had", "having"),
    ("do", "does", "did", "doing"),
    ("go", "goes", "went", "going"),
    ("try", "tries", "tried", "trying"),
    ("play", "plays", "played", "playing"),
    ("teach", "teaches", "taught", "teaching"),
    ("fix", "fixes", "fixed", "fixing"),
    ("die", "dies", "died", "dying"),
    ("agree", "agrees", "agreed", "agreeing"),
    ("stop", "stops", "stopped", "stopping"),
    ("plan", "plans", "planned", "planning"),
    ("open", "opens", "opened", "opening"),
    ("visit", "visits", "visited", "visiting"),
    ("swim", "swims", "swam", "swimming"),
    ("run", "runs", "ran", "running"),
    ("make", "makes", "made", "making"),
    ("begin", "begins", "began", "beginning"),
    ("forget", "forgets", "forgot", "forgetting"),
    ("write", "writes", "wrote", "writing"),
    ("cook", "cooks", "cooked", "cooking"),
    ("ski", "skis", "skied", "skiing"),
]


@pytest.mark.parametrize(("base", "third", "past", "gerund"), VERBS)
def test_verb_forms(base: str, third: str, past: str, gerund: str) -> None:
    assert verbs.third_person(base) == third
    assert third in verbs.FINITE
    assert past in verbs.FINITE
    assert gerund in verbs.GERUNDS
    assert {base, third, past, gerund} <= verbs.FORMS


@pytest.mark.parametrize("word", ["cut", "put", "read", "hit", "let", "set"])
def test_what_cannot_be_told_from_its_form_is_neither_base_nor_past(word: str) -> None:
    assert word not in verbs.BASES
    assert word not in verbs.PASTS
    assert word in verbs.FINITE
    assert word not in verbs.THIRD_OF


def test_no_word_is_both_base_and_past() -> None:
    assert not verbs.BASES & verbs.PASTS
    assert not verbs.THIRDS & verbs.PASTS


LISTS = [name for name in vars(words) if name.isupper() and isinstance(getattr(words, name), frozenset)]


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_lower_case_words(name: str) -> None:
    for word in getattr(words, name):
        assert word == word.lower() == word.strip()
        assert " " not in word


def test_no_month_name_means_two_months() -> None:
    for table in datewords.MONTHS.values():
        for word, number in table.items():
            assert datewords.ALL_MONTHS[word] == number
        assert set(table.values()) == set(range(1, 13))


def test_weekdays_count_from_monday() -> None:
    for word, number in datewords.WEEKDAYS.items():
        assert (dt.date(2023, 5, 8) + dt.timedelta(number)).strftime("%A").lower().startswith(word[:3])


@pytest.mark.parametrize(
    "name", ["Rome", "rome", "New York", "new york", "South Korea", "Nice", "Austin", "US"]
)
def test_places(name: str) -> None:
    assert is_place(name)


@pytest.mark.parametrize("name", ["nice", "us", "austin", "chad", "Ana", "", "Atlantis"])
def test_words_that_are_no_places(name: str) -> None:
    assert not is_place(name)


def test_the_gazetteer_is_lower_case_and_clean() -> None:
    assert all(name == name.lower().strip() != "" for name in PLACES)
    assert len(PLACES) > 400


LEAD_INS = [
    ("Yeah, I did", "I did"),
    ("Thanks, Ana! I did", "I did"),
    ("Hey Ana, I did", "I did"),
    ("Wow! Oh, so I did", "I did"),
    ("And I did", "I did"),
    ("No, I didn't", "I didn't"),
    ("Good morning! It rains", "It rains"),
    ("I did, yeah", "I did, yeah"),
    ("Yesterday I did", "Yesterday I did"),
    ("Great food is rare", "Great food is rare"),
    ("Sophie did", "Sophie did"),
    ("Andrea did", "Andrea did"),
    ("", ""),
]


@pytest.mark.parametrize(("said", "rest"), LEAD_INS)
def test_lead_ins(said: str, rest: str) -> None:
    assert without_lead_in(said) == rest


@pytest.mark.parametrize(
    "said",
    [
        "Do you?",
        "How are you",
        "what's new",
        "are you there",
        "你呢？",
        'Really?"',
        "Which kind do you like",
        "It is so?",
    ],
)
def test_questions(said: str) -> None:
    assert is_question(said)


@pytest.mark.parametrize(
    "said", ["I do.", "What I like is tea", "How it works is clear", "Areas differ", "Does run"]
)
def test_statements(said: str) -> None:
    assert not is_question(said)


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I paint, do you?", "I paint"),
        ("I paint - what about you?", "I paint"),
        ("I paint, and how about you?", "I paint"),
        ("I like what you do.", None),
        ("Do you?", None),
    ],
)
def test_question_tails(said: str, statement: str | None) -> None:
    at = question_tail(said)
    assert (said[:at] if at is not None else None) == statement


@pytest.mark.parametrize(
    "said", ["Glad you like it!", "Thanks for the tip", "That sounds nice", "Take care", "See you"]
)
def test_fillers(said: str) -> None:
    assert is_filler(said)


@pytest.mark.parametrize(
    "said", ["I thank my stars", "I take care of two dogs", "The sound is off", "Happy dogs bark"]
)
def test_no_fillers(said: str) -> None:
    assert not is_filler(said)


TENSES = [
    ("I went X", "past"),
    ("I have been X", "present"),
    ("I was X", "past"),
    ("I worked X", "past"),
    ("I will go X", "future"),
    ("I'll go X", "future"),
    ("I'm going X", "future"),
    ("I plan to go X", "future"),
    ("What did we plan X", "past"),
    ("I booked a flight X", "future"),
    ("I have an exam X", "present"),
    ("She works X", "present"),
    ("X", "none"),
    ("He left. I will go X", "future"),
    ("I will go. He left X", "past"),
    ("He left X; I will go", "past"),
]


@pytest.mark.parametrize(("clause", "expected"), TENSES)
def test_tense(clause: str, expected: str) -> None:
    at = clause.index("X")
    assert tense(clause, at, at + 1) == expected


days = st.dates(dt.date(1900, 1, 1), dt.date(2100, 12, 31))


@given(days)
def test_periods_hold_their_day_and_touch_their_neighbours(day: dt.date) -> None:
    for unit in ("day", "week", "month", "year"):
        before, this, after = (calendar.period(unit, day, step) for step in (-1, 0, 1))
        assert this.start <= day <= this.end
        assert this.granularity == unit
        assert before.end + dt.timedelta(1) == this.start
        assert this.end + dt.timedelta(1) == after.start


@given(days, st.integers(0, 6), st.integers(1, 3))
def test_weekdays_lie_strictly_before_and_after(day: dt.date, weekday: int, steps: int) -> None:
    before, after = calendar.weekday_from(day, weekday, -steps), calendar.weekday_from(day, weekday, steps)
    assert before.weekday() == after.weekday() == weekday
    assert 7 * (steps - 1) < (day - before).days <= 7 * steps
    assert 7 * (steps - 1) < (after - day).days <= 7 * steps


@given(days, days)
def test_either_and_hull_hold_both(first: dt.date, second: dt.date) -> None:
    interval = calendar.either(first, second)
    assert {interval.start, interval.end} == {first, second}
    assert calendar.hull(calendar.day(first), calendar.day(second)) == Interval(
        min(first, second), max(first, second), "day"
    )


@pytest.mark.parametrize(
    ("year", "day"), [(2020, 26), (2021, 25), (2022, 24), (2023, 23), (2024, 28), (2029, 22)]
)
def test_thanksgiving(year: int, day: int) -> None:
    assert calendar.feast(year, "thanksgiving") == calendar.day(dt.date(year, 11, day))


def test_the_calendar_has_edges() -> None:
    with pytest.raises((ValueError, OverflowError)):
        calendar.period("month", dt.date(9999, 12, 31), 1)
    assert calendar.month(9998, 13) == calendar.month(9999, 1)

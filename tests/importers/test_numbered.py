from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.importers.numbered import numbered_facts
from memdb.records import Message


def read(text: str) -> list[tuple[str | None, object, str]]:
    return [(one.id, one.said_at, one.content) for one in numbered_facts(text.splitlines())]


def test_a_fact_is_a_message_and_its_number_the_clock() -> None:
    assert list(numbered_facts(["7. Ana lives in Porto."], speaker="notes")) == [
        Message(speaker="notes", content="Ana lives in Porto.", said_at="serial-7", id="fact-7")
    ]


def test_headings_brackets_blank_and_continued_lines() -> None:
    text = "My facts\n(as of May):\n\n 0. Ana lives in Porto.\n1) Ben works\n   at Acme.\n\n  and at Bell.\n"
    assert read(text) == [
        ("fact-0", "serial-0", "Ana lives in Porto."),
        ("fact-1", "serial-1", "Ben works at Acme. and at Bell."),
    ]


def test_a_value_keeps_its_own_stop_and_numbers_inside_stay() -> None:
    assert read("1. Ana works in Washington, D.C..\n2. The author of 1984 is Orwell.\n3.5 is no number") == [
        ("fact-1", "serial-1", "Ana works in Washington, D.C.."),
        ("fact-2", "serial-2", "The author of 1984 is Orwell. 3.5 is no number"),
    ]


def test_numbers_may_fall_and_leave_gaps_and_text_may_stand_below() -> None:
    assert [id for id, _, _ in read("9. a\n2. b\n40.\n c")] == ["fact-9", "fact-2", "fact-40"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1. a\n2. b\n1. c", "line 3: the number 1 stands on line 1 already"),
        ("1. a\n01) c", "line 2: the number 1 stands on line 1 already"),
        (f"{'9' * 19}. a", "line 1: the number has more than 18 digits"),
        ("head\n1. a\n2.\n\n3. c", "line 3: the fact 2 has no text"),
        ("1.", "line 1: the fact 1 has no text"),
        ("only a heading", "holds no numbered fact"),
        ("", "holds no numbered fact"),
    ],
)
def test_what_is_no_list_names_its_line(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(text)


def test_it_is_a_stream() -> None:
    stream = numbered_facts(iter(["1. a", "2. b", "1. c"]))
    assert next(stream).content == "a"
    assert next(stream).content == "b"
    with pytest.raises(InputError):
        next(stream)


words = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)


@given(st.dictionaries(st.integers(0, 10**18 - 1), st.lists(words, min_size=1, max_size=5), min_size=1))
def test_what_is_written_is_read(facts: dict[int, list[str]]) -> None:
    lines = [f"{number}. {' '.join(said)}" for number, said in facts.items()]
    assert [(one.id, one.content) for one in numbered_facts(lines)] == [
        (f"fact-{number}", " ".join(said)) for number, said in facts.items()
    ]

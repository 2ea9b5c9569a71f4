from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.language.sentences import WORD, sentences

CASES = [
    ("", []),
    ("   \n \n", []),
    ("Hello", ["Hello"]),
    ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    ("Wow!! Really?! Yes.", ["Wow!!", "Really?!", "Yes."]),
    ("i went home. then i slept", ["i went home.", "then i slept"]),
    ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
    ("Dr. Smith met Mrs. Jones.", ["Dr. Smith met Mrs. Jones."]),
    ("J. K. Rowling wrote it. I read it.", ["J. K. Rowling wrote it.", "I read it."]),
    ("He lives in Washington, D.C. He works there.", ["He lives in Washington, D.C.", "He works there."]),
    ("Made by Apple Inc. in 2007.", ["Made by Apple Inc. in 2007."]),
    ("See you at 5 p.m. on Monday.", ["See you at 5 p.m. on Monday."]),
    ("It costs 3.50 or v1.2.3 or so.", ["It costs 3.50 or v1.2.3 or so."]),
    ("So did I. Then we left.", ["So did I.", "Then we left."]),
    ("It was... hard. Very", ["It was... hard.", "Very"]),
    ("It was hard... But fun", ["It was hard...", "But fun"]),
    ("Located in Washington, D.C..", ["Located in Washington, D.C.."]),
    ("See https://a.example/b?c=1. Then go", ["See https://a.example/b?c=1.", "Then go"]),
    ("first line\nsecond line", ["first line", "second line"]),
    ("我昨天去了。你呢？好！", ["我昨天去了。", "你呢？", "好！"]),
    ("昨日行きました。「いい店です。」また行く", ["昨日行きました。", "「いい店です。」", "また行く"]),
    ("# Title\n\nText.", ["Title", "Text."]),
    ("- one\n* two\n1. three\n2) four\n> five", ["one", "two", "three", "four", "five"]),
    ("- [ ] buy milk\n- [x] call", ["buy milk", "call"]),
    ("before\n```py\nx = 1. y\n```\nafter", ["before", "after"]),
    ("~~~\ncode\n~~~", []),
    ("```\nnever closed. code", []),
    ("| a | b |\n|---|---|\n| c | d |", ["| a | b |", "| c | d |"]),
    ("---\n===\n***", []),
    ("**Bold.** plain", ["**Bold.**", "plain"]),
    ("\u3000全角 空白。", ["全角 空白。"]),
]

WORDS = [
    ("I'm Ana's friend", ["I'm", "Ana's", "friend"]),
    ("LH-1172 at 20.04", ["LH-1172", "at", "20.04"]),
    ("e.g. AT&T, and/or", ["e.g", "AT&T", "and/or"]),
    ("don’t (stop)", ["don’t", "stop"]),
    ("café 海底捞", ["café", "海底捞"]),
    ("...", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == expected


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words(text: str, expected: list[str]) -> None:
    assert WORD.findall(text) == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_spans_of_any_text_are_in_order_and_not_blank(text: str) -> None:
    end = 0
    for span in sentences(text):
        assert end <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip() == text[span.start : span.end] != ""
        end = span.end


@given(st.lists(st.sampled_from(["One two.", "Why me?", "No way!", "He ran."]), min_size=1))
def test_plain_sentences_come_back(said: list[str]) -> None:
    text = " ".join(said)
    assert [text[start:end] for start, end in sentences(text)] == said


@given(st.text(alphabet="ab. !?\n-*#`|1", max_size=200))
def test_every_word_outside_code_and_marks_is_in_a_sentence(text: str) -> None:
    if "```" in text:
        return
    inside = "".join(text[start:end] for start, end in sentences(text))
    assert inside.count("a") == text.count("a")
    assert inside.count("b") == text.count("b")

"""A model's reply: the same answer however the text is cut into pieces, and something sound of any text."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.errors import ModelError
from memdb.generate.reply import AnswerText, Reply, read_reply, shown, telling
from memdb.models.ports import Completion, valid_unicode

TEXTS = st.one_of(
    st.text(),
    st.text(alphabet='"\\/{}[]: \n\tu0123dDaé🙂\ud83d\ude00\x00'),
    st.sampled_from(['{"answer": "no"}', '"answer": "', "\\", '\\"', "\ud83d", "🙂", "```"]),
)


def reply(text: str, finish: str = "stop") -> Completion:
    return Completion(text=text, finish=finish, prompt_tokens=1, completion_tokens=1)  # type: ignore[arg-type]


def pieces(text: str, cuts: list[int]) -> list[str]:
    ends = sorted(cut % (len(text) + 1) for cut in cuts)
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def without_controls(text: str) -> str:
    kept = [one for one in valid_unicode(text) if one in "\t\n" or unicodedata.category(one) != "Cc"]
    return "".join(kept)


def told(text: str, cuts: list[int]) -> str:
    heard: list[str] = []
    on_text = telling(heard.append)
    for piece in pieces(text, cuts):
        on_text(piece)
    assert "" not in heard
    return "".join(heard)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.booleans(), st.booleans(), st.lists(st.integers(0, 10_000), max_size=30))
def test_in_any_pieces_it_is_what_json_reads(
    answer: str, reason: str, ascii_only: bool, answer_first: bool, cuts: list[int]
) -> None:
    whole = {"reasoning_path": reason, "answer": answer}
    if answer_first:
        whole = dict(reversed(whole.items()))
    text = json.dumps(whole, ensure_ascii=ascii_only)
    assert told(text, cuts) == without_controls(json.loads(text)["answer"])
    assert read_reply(reply(text)) == Reply(shown(json.loads(text)["answer"]), shown(reason))


@settings(deadline=None)
@given(TEXTS, st.integers(0, 200), st.lists(st.integers(0, 10_000), max_size=10))
def test_a_reply_that_was_cut_off_gives_the_beginning_of_its_answer(
    answer: str, keep: int, cuts: list[int]
) -> None:
    text = json.dumps({"reasoning_path": "MU1", "answer": answer})[: -2 - keep or None]
    opening = '{"reasoning_path": "MU1", "answer": "'
    if not text.startswith(opening):
        if text:
            with pytest.raises(ModelError, match="cut off before its answer began"):
                read_reply(reply(text, "length"))
        return
    heard = told(text, cuts)
    assert without_controls(answer).startswith(heard.rstrip("\ufffd"))
    assert read_reply(reply(text, "length")) == Reply(heard.strip(), "")


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=10))
def test_any_text_is_a_legal_reply(text: str, cuts: list[int]) -> None:
    told(text, cuts).encode()
    found = read_reply(reply(text))
    found.answer.encode()
    assert found.answer == found.answer.strip()


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        ('{"reasoning_path": "MU1 says so.", "answer": "Porto"}', "Porto", "MU1 says so."),
        ('```json\n{"reasoning_path": "r", "answer": "Porto"}\n```', "Porto", "r"),
        ('Let me see {MU1}. {"answer": "Porto"} That is all.', "Porto", ""),
        ('{"answer": "Rome"} No, wait: {"answer": "Porto"}', "Porto", ""),
        ('{"answer": "Porto"} {"note": "no answer in here"}', "Porto", ""),
        ('{"draft": {"answer": "Rome"}, "answer": "Porto"}', "Porto", ""),
        ('{"answer": "a {brace} and \\"quotes\\""}', 'a {brace} and "quotes"', ""),
        ('{"answer": 1984}', "1984", ""),
        ('{"answer": ["tea", "figs", 3]}', "tea, figs, 3", ""),
        ('{"answer": null, "reasoning_path": null}', "", ""),
        ('{"answer": "\\ud83d\\ude42 \\ud83d!"}', "🙂 \ufffd!", ""),
        ("Porto.", "Porto.", ""),
        ('{"wrong": 1}', '{"wrong": 1}', ""),
        ('{"answer": "Por\\xto"}', "Porxto", ""),  # no JSON, but an answer
        ("", "", ""),
    ],
)
def test_replies(text: str, answer: str, reason: str) -> None:
    assert read_reply(reply(text)) == Reply(answer, reason)


@pytest.mark.parametrize("text", ['{"reasoning_path": "MU1 an', '```json\n{"reasoning_path": "MU1', "  {"])
def test_what_ends_before_the_answer_is_an_error(text: str) -> None:
    with pytest.raises(ModelError, match="cut off before its answer began"):
        read_reply(reply(text, "length"))
    assert read_reply(reply(text)).answer == text.strip(), "of a reply that ended by itself it is the answer"


def test_prose_that_was_cut_off_is_an_answer() -> None:
    assert read_reply(reply("In Porto, where", "length")).answer == "In Porto, where"


def test_what_follows_the_answer_is_not_told() -> None:
    written = AnswerText()
    assert (written.feed('{"answer" : "Por'), written.begun) == ("Por", True)
    assert written.feed('to", "answer": "Rome"}') == "to"
    assert written.feed('{"answer": "Rome"}') == ""


def test_half_a_pair_waits_for_the_other() -> None:
    written = AnswerText()
    fed = ['{"answer": "a', "\\ud83d", "\\ude4", "2b", "\\ud83d", "c", "\\ude42", "\\u12", 'g4"']
    assert [written.feed(piece) for piece in fed] == [
        "a",
        "",
        "",
        "🙂b",
        "",
        "\ufffdc",
        "\ufffd",
        "",
        "\ufffd",
    ]


@pytest.mark.parametrize("seed", ["{", '{"a":', '"answer"', '{"answer": ', "\\", "[", '{"answer": "x"'])
def test_long_repetition(seed: str) -> None:
    text = seed * (50_000 // len(seed))
    read_reply(reply(text))
    AnswerText().feed(text)

"""Chat completions as events: the same whatever pieces the network makes of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models.chat_reply import BrokeOff, Failed, Listener, Reply, Unreadable, event_data, whole, written
from tests.endpoint import event, piece, said

DONE = event("[DONE]")


def split(raw: bytes, cuts: list[int]) -> list[bytes]:
    return [raw[start:end] for start, end in itertools.pairwise([0, *sorted(cuts), len(raw)])]


def read(*events: bytes) -> tuple[Reply, list[str]]:
    told: list[str] = []
    return written(iter(events), Listener(told.append)), told


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\ndata:  b\r\r", [b"a", b" b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\n\ndata: b\r\r\n", [b"a", b"b"]),
        (b"data\n\n", [b""]),
        (b": keep alive\n\nevent: x\nid: 7\nretry: 3\ndata: a\n\n\n\n", [b"a"]),
        (b"database: a\n\n", []),
        (b"data: a\n\ndata: without its end\n", [b"a"]),
    ],
    ids=repr,
)
def test_the_data_of_events(raw: bytes, data: list[bytes]) -> None:
    assert list(event_data([raw])) == data
    assert list(event_data([raw[at : at + 1] for at in range(len(raw))])) == data


LINES = st.lists(st.sampled_from([b"data: a", b"data:", b"data", b": x", b"", b"id: 1", b"\xff"]), max_size=8)


@given(LINES, st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=8, max_size=8), st.data())
def test_pieces_of_any_size_hold_the_same_events(
    lines: list[bytes], ends: list[bytes], data: st.DataObject
) -> None:
    raw = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=10))
    assert list(event_data(split(raw, cuts))) == list(event_data([raw]))


@given(LINES)
def test_lines_end_in_three_ways(lines: list[bytes]) -> None:
    one, two, three = (
        list(event_data([b"".join(line + end for line in lines)])) for end in (b"\n", b"\r\n", b"\r")
    )
    assert one == two == three


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.data())
def test_a_text_is_told_as_it_comes(texts: list[str], data: st.DataObject) -> None:
    raw = b"".join([*map(piece, texts), piece(finish="length"), DONE])
    chunks = split(raw, data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    told: list[str] = []
    reply = written(iter(chunks), Listener(told.append))
    assert told == [text for text in texts if text]
    assert reply.choices is not None
    assert reply.choices[0].message.content == "".join(texts)
    assert reply.choices[0].finish_reason == "length"


def test_counts_come_last_or_all_the_time() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    expected = {"prompt_tokens": 7, "cached_tokens": 3, "completion_tokens": 2}
    last = event({"choices": [], "usage": usage})
    assert read(piece("a"), piece(finish="stop"), last, DONE)[0].usage == expected
    early = piece("a", usage={"prompt_tokens": 7, "completion_tokens": 1})
    assert read(early, piece(finish="stop", usage=usage), DONE)[0].usage == expected
    assert read(piece("a", usage=usage), piece(finish="stop", usage=None), DONE)[0].usage == expected


def test_only_the_answer_that_was_asked_for_is_told() -> None:
    second = event({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]})
    role = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
    reply, told = read(role, second, piece("a"), piece(finish="stop"), second, DONE)
    assert told == ["a"]
    assert reply.choices is not None
    assert reply.choices[0].finish_reason == "stop"


def test_an_end_is_a_last_event_or_why_the_answer_ended() -> None:
    assert read(piece("a"), piece(finish="stop"))[1] == ["a"]
    assert read(piece("a"), DONE, piece("no"))[1] == ["a"]
    with pytest.raises(BrokeOff):
        read(piece("a"))
    with pytest.raises(BrokeOff):
        read(piece("a"), piece(finish="stop")[:-1])  # its last line never came
    assert read(DONE)[0].choices is None


def test_a_refusal_is_kept() -> None:
    parts = [event({"choices": [{"delta": {"refusal": text}}]}) for text in ("I would ", "rather not")]
    reply, told = read(*parts, piece(finish="stop"), DONE)
    assert told == []
    assert reply.choices is not None
    assert reply.choices[0].message.refusal == "I would rather not"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"data: <html>\n\n",
        b"data: {\n\n",
        b"data: []\n\n",
        b"data: \xff\n\n",
        b'data: {"choices": 7}\n\n',
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n',
    ],
    ids=repr,
)
def test_what_is_no_event_is_unreadable(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        read(raw)


@pytest.mark.parametrize("error", ["overloaded", {"message": "overloaded", "code": 503}], ids=str)
def test_an_event_may_tell_of_an_error(error: Any) -> None:
    told: list[str] = []
    with pytest.raises(Failed) as caught:
        written(iter([piece("a"), event({"error": error})]), Listener(told.append))
    assert caught.value.body == error
    assert told == ["a"]


def test_a_whole_reply_is_what_it_was() -> None:
    reply = whole(said("Oslo", prompt_tokens=3).data)
    assert reply.choices is not None
    assert (reply.choices[0].message.content, reply.usage["prompt_tokens"]) == ("Oslo", 3)
    with pytest.raises(Unreadable):
        whole(b"\xff")

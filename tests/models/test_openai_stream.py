"""Replies that come piece by piece, from a real server on this machine: told at once, bounded, broken off."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from memdb import settings
from memdb.errors import InputError, ModelError, ModelUnavailable
from memdb.models.openai import OpenAIBackbone, Prices
from memdb.models.ports import Turn
from tests.endpoint import Endpoint, HangUp, Reply, event, piece, refused, said, serving, streamed, written

openai = pytest.importorskip("openai", reason="openai is not installed")
pytestmark = pytest.mark.loopback

KEY = "sk-test-4f1d0c9a7b3e"
ASK = [Turn("user", "Where does Ana live?")]
SCHEMA: dict[str, object] = {"title": "Home", "type": "object", "properties": {"city": {"type": "string"}}}
Start = Callable[..., tuple[Endpoint, OpenAIBackbone]]


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> Iterator[Start]:
    """An endpoint with a script, and a backbone that asks it and does not wait."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMDB_API_KEY", KEY)
    with ExitStack() as stack:

        def make(script: Any, **options: Any) -> tuple[Endpoint, OpenAIBackbone]:
            endpoint = stack.enter_context(serving(script))
            backbone = OpenAIBackbone("m", base_url=endpoint.url, wait=waits.append, **options)
            stack.callback(backbone.close)
            return endpoint, backbone

        yield make


def failure(backbone: OpenAIBackbone, told: list[str]) -> Any:
    """The error of one call, and no key in anything it shows."""
    with pytest.raises((ModelError, InputError)) as caught:
        backbone.complete(ASK, max_tokens=5, on_text=told.append)
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert KEY not in shown + repr(caught.value)
    return caught.value


def hang_up(*pieces: bytes) -> Reply:
    """A reply whose connection is closed after these pieces."""

    def make() -> Iterator[bytes]:
        yield from pieces
        raise HangUp

    return streamed(make())


def test_a_piece_is_told_before_the_next_is_sent(start: Start) -> None:
    heard = threading.Event()
    told: list[str] = []

    def pieces() -> Iterator[bytes]:
        yield piece("Os")
        assert heard.wait(60), "the first piece was not told while the second was awaited"
        yield piece("lo")
        yield piece(finish="length")
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
        yield event({"choices": [], "usage": usage})
        yield event("[DONE]")

    def tell(text: str) -> None:
        told.append(text)
        heard.set()

    endpoint, backbone = start([streamed(pieces())], prices=Prices(prompt=1e6, completion=1e6))
    answer = backbone.complete(ASK, max_tokens=5, on_text=tell)
    assert (told, answer.text, answer.finish) == (["Os", "lo"], "Oslo", "length")
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (9, 4, 2)
    assert (backbone.usage.requests, backbone.usage.cost) == (1, 11)
    assert endpoint.requests[0]["stream"] is True
    assert endpoint.requests[0]["stream_options"] == {"include_usage": True}


def test_who_wants_no_pieces_asks_for_none(start: Start) -> None:
    endpoint, backbone = start([said("Oslo")])
    backbone.complete(ASK, max_tokens=5)
    assert not {"stream", "stream_options"} & endpoint.requests[0].keys()


def test_what_is_not_counted_is_estimated(start: Start) -> None:
    _, backbone = start([written("Os", "lo, Norway")])
    answer = backbone.complete(ASK, max_tokens=5, on_text=lambda text: None)
    assert answer.prompt_tokens == backbone.count_tokens(ASK[0].text)
    assert answer.completion_tokens == backbone.count_tokens("Oslo, Norway")


# --- Endpoints that stream otherwise, or not at all


def test_an_endpoint_that_sends_all_at_once_is_told_at_once(start: Start) -> None:
    told: list[str] = []
    _, backbone = start([said("Oslo", prompt_tokens=7), said("")])
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).prompt_tokens == 7
    assert told == ["Oslo"]
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == ""
    assert told == ["Oslo"]


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        (["unknown field: stream_options"], ["stream"]),
        (["Unrecognized request argument: include_usage"], ["stream"]),
        (["stream is not supported"], ["stream_options"]),
        (["stream_options: extra fields not permitted", "Streaming is not supported"], []),
    ],
    ids=str,
)
def test_what_an_endpoint_refuses_is_left_out_from_then_on(
    start: Start, messages: list[str], left: list[str]
) -> None:
    last = written("Oslo") if "stream" in left else said("Oslo")
    endpoint, backbone = start([*(refused(400, message) for message in messages), last, said("again")])
    told: list[str] = []
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Oslo"
    backbone.complete(ASK, max_tokens=5, on_text=told.append)
    assert told == ["Oslo", "again"]
    wanted = ["stream"] if "stream" in left else []
    for body in endpoint.requests[len(messages) :]:
        assert [name for name in ("stream", "stream_options") if name in body] == wanted


def test_an_upstream_error_is_no_word_on_streams(start: Start) -> None:
    endpoint, backbone = start([refused(400, "error of the upstream")])
    assert isinstance(failure(backbone, []), ModelUnavailable)
    assert len(endpoint.requests) == 1


def test_a_text_whose_fence_is_taken_off_is_told_in_one(start: Start) -> None:
    def script(body: dict[str, Any]) -> Reply:
        if "response_format" in body:
            return refused(400, "response_format is not supported")
        assert "stream" not in body
        return said('```json\n{"city": "Oslo"}\n```')

    told: list[str] = []
    _, backbone = start(script)
    answer = backbone.complete(ASK, max_tokens=5, schema=SCHEMA, on_text=told.append)
    assert told == [answer.text] == ['{"city": "Oslo"}']


# --- Streams that break


def test_what_breaks_off_before_its_first_piece_is_repeated(start: Start, waits: list[float]) -> None:
    told: list[str] = []
    role = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    endpoint, backbone = start([hang_up(), hang_up(role), streamed([role]), written("Oslo")])
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Oslo"
    assert (told, len(waits), len(endpoint.requests)) == (["Oslo"], 3, 4)
    assert (backbone.usage.requests, backbone.usage.retries) == (4, 3)


@pytest.mark.parametrize(
    "broken", [hang_up, lambda first: streamed([first])], ids=["connection", "no last event"]
)
def test_what_breaks_off_after_it_is_an_error_that_a_caller_may_repeat(
    start: Start, waits: list[float], broken: Callable[[bytes], Reply]
) -> None:
    told: list[str] = []
    endpoint, backbone = start([broken(piece("Os")), written("Oslo")])
    error = failure(backbone, told)
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "broke off" in str(error)
    assert (told, waits, len(endpoint.requests)) == (["Os"], [], 1)
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Oslo"


def test_repeats_of_broken_streams_end(start: Start) -> None:
    endpoint, backbone = start(lambda body: hang_up(), retries=2)
    error = failure(backbone, [])
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert len(endpoint.requests) == 3


def test_silence_between_pieces_ends(start: Start) -> None:
    release = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield piece("Os")
        release.wait(60)

    told: list[str] = []
    _, backbone = start([streamed(pieces())], timeout_s=0.2, parallel=1)
    try:
        error = failure(backbone, told)
    finally:
        release.set()
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "Timeout" in str(error)
    assert told == ["Os"]


def test_a_stream_is_read_to_its_bound_and_no_further(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments count too: an endpoint may send nothing else."""
    monkeypatch.setattr(settings, "API_REPLY_BYTES", 10_000)

    def endless(data: bytes) -> Iterator[bytes]:
        while True:
            yield data

    told: list[str] = []
    for data in (piece("a"), b": still there\n\n", b"data: " + b"x" * 700):
        _, backbone = start([streamed(endless(data)), written("Oslo")], parallel=1)
        error = failure(backbone, told)
        assert "more than 10000 bytes" in str(error)
        assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Oslo"
    assert 10 < told.count("a") < 10_000 // len(piece("a")) + 1


def test_a_stream_has_its_time_and_no_more(start: Start) -> None:
    """However often a piece arrives: the clock is read at each."""
    now = [0.0]

    def endless() -> Iterator[bytes]:
        while True:
            now[0] += 50
            yield piece("a")

    told: list[str] = []
    endpoint, backbone = start([streamed(endless())], clock=lambda: now[0])
    error = failure(backbone, told)
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "longer than 600 s" in str(error)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("data", [b"", b"<html>", event("<html>"), event([]), event("{"), b"data: \xff\n\n"])
def test_what_is_no_event_is_an_error(start: Start, data: bytes) -> None:
    _, backbone = start([streamed([data] if data else [])])
    error = failure(backbone, [])
    assert "no chat completion" in str(error)
    assert "base_url" in error.hint


def test_rubbish_after_the_first_piece_is_an_error(start: Start) -> None:
    told: list[str] = []
    endpoint, backbone = start([streamed([piece("Os"), event("{"), piece("lo"), event("[DONE]")])])
    assert "no chat completion" in str(failure(backbone, told))
    assert (told, len(endpoint.requests)) == (["Os"], 1)


def test_an_error_among_the_events_is_told_in_the_endpoints_words(start: Start) -> None:
    told: list[str] = []
    error = {"error": {"message": f"engine {KEY} died", "code": 500}}
    endpoint, backbone = start([streamed([piece("Os"), event(error)])])
    failed = failure(backbone, told)
    assert isinstance(failed, ModelUnavailable)
    assert failed.retryable
    assert "engine [key] died" in str(failed)
    assert (told, len(endpoint.requests)) == (["Os"], 1)


def test_an_option_refused_after_the_first_piece_is_not_asked_about_again(start: Start) -> None:
    told: list[str] = []
    option = {"error": {"message": "temperature is not supported", "code": 400}}
    endpoint, backbone = start([streamed([piece("Os"), event(option)]), written("Rome")])
    assert "broke off" in str(failure(backbone, told))
    assert (told, len(endpoint.requests)) == (["Os"], 1)


def test_an_error_before_the_first_piece_is_one_like_any_other(start: Start, waits: list[float]) -> None:
    told: list[str] = []
    busy = streamed([event({"error": {"message": "busy", "code": 503}})])
    _, backbone = start([busy, written("Oslo")])
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Oslo"
    assert len(waits) == 1
    long = {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": 400}}
    _, backbone = start([streamed([event(long)])])
    assert isinstance(failure(backbone, told), InputError)
    option = {"error": {"message": "temperature is not supported", "code": 400}}
    endpoint, backbone = start([streamed([event(option)]), written("Rome")])
    assert backbone.complete(ASK, max_tokens=5, on_text=told.append).text == "Rome"
    assert ["temperature" in body for body in endpoint.requests] == [True, False]


def test_a_refusal_and_a_filter_are_errors(start: Start) -> None:
    refusal = event({"choices": [{"delta": {"refusal": "I would rather not."}}]})
    told: list[str] = []
    script = [
        streamed([refusal, piece(finish="stop"), event("[DONE]")]),
        written("half", finish="content_filter"),
    ]
    _, backbone = start([*script, streamed([event("[DONE]")])])
    assert "rather not" in str(failure(backbone, told))
    assert told == []
    assert "declined" in str(failure(backbone, told))
    assert told == ["half"]
    assert "no answer" in str(failure(backbone, told))


# --- Who is told


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        httpx2.ReadTimeout("of somebody else"),
        openai.OpenAIError("of somebody else"),
        ModelUnavailable("of somebody else", retryable=True),
        ValueError("of somebody else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_told_raise_is_raised_and_nothing_is_repeated(start: Start, error: BaseException) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield piece("a")

    def tell(text: str) -> None:
        raise error

    endpoint, backbone = start([streamed(endless()), written("Oslo")], parallel=1)
    with pytest.raises(type(error)) as caught:
        backbone.complete(ASK, max_tokens=5, on_text=tell)
    assert caught.value is error
    assert backbone.complete(ASK, max_tokens=5, on_text=lambda text: None).text == "Oslo"
    assert len(endpoint.requests) == 2


def test_a_stream_that_nobody_hears_is_closed_at_once(start: Start) -> None:
    """Though the error, which holds all that led to it, is still at hand."""
    closed = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield piece("a")
        finally:
            closed.set()

    def tell(text: str) -> None:
        raise KeyError(text)

    _, backbone = start([streamed(endless())])
    with pytest.raises(KeyError) as caught:
        backbone.complete(ASK, max_tokens=5, on_text=tell)
    assert closed.wait(10)
    assert caught.value.__traceback__ is not None


def test_a_backbone_that_is_closed_while_it_is_told_stops(start: Start) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield piece("a")

    endpoint, backbone = start([streamed(endless())])
    with pytest.raises(ModelError, match="broke off"):
        backbone.complete(ASK, max_tokens=5, on_text=lambda text: backbone.close())
    with pytest.raises(ModelError, match="closed"):
        backbone.complete(ASK, max_tokens=5)
    assert len(endpoint.requests) == 1

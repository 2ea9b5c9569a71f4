"""The endpoint backbone against a real server on this machine: options, repeats, failures, key, counters."""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from memdb import settings
from memdb.errors import InputError, MemdbWarning, ModelError, ModelNotFound, ModelUnavailable
from memdb.models.openai import OpenAIBackbone, Prices, Usage
from memdb.models.ports import Turn
from tests.endpoint import Endpoint, Reply, refused, said, serving

pytest.importorskip("openai", reason="openai is not installed")
pytestmark = pytest.mark.loopback

KEY = "sk-test-4f1d0c9a7b"
ASK = [Turn("user", "Where does Ana live?")]
SCHEMA: dict[str, object] = {
    "title": "Home of Ana",
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
Start = Callable[..., tuple[Endpoint, OpenAIBackbone]]


@pytest.fixture(autouse=True)
def only_this_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMDB_API_KEY", KEY)


@pytest.fixture
def waits() -> list[float]:
    """The seconds a backbone would have waited."""
    return []


@pytest.fixture
def start(waits: list[float]) -> Iterator[Start]:
    """An endpoint with a script, and a backbone that asks it."""
    with ExitStack() as stack:

        def make(script: Any, **options: Any) -> tuple[Endpoint, OpenAIBackbone]:
            endpoint = stack.enter_context(serving(script))
            backbone = OpenAIBackbone("m", base_url=endpoint.url, wait=waits.append, **options)
            stack.callback(backbone.close)
            return endpoint, backbone

        yield make


def failure(backbone: OpenAIBackbone, **options: Any) -> Any:
    """The error of one call, and no key in anything it shows."""
    with pytest.raises((ModelError, InputError)) as caught:
        backbone.complete(ASK, max_tokens=5, **options)
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert KEY not in shown + repr(caught.value)
    assert caught.value.__context__ is None or KEY not in repr(vars(caught.value.__context__))
    return caught.value


# --- What is sent


def test_the_request_is_greedy_bounded_and_signed(start: Start) -> None:
    endpoint, backbone = start([said("Oslo")])
    turns = [
        Turn("system", "Be brief."),
        Turn("user", "a"),
        Turn("assistant", "b"),
        Turn("user", "c\ud800\0"),
    ]
    assert backbone.complete(turns, max_tokens=5).text == "Oslo"
    (body,) = endpoint.requests
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c\ufffd\0"},
        ],
        "max_tokens": 5,
        "temperature": 0,
    }
    assert endpoint.keys == [f"Bearer {KEY}"]


def test_a_schema_is_sent_strict_and_with_its_root_written_out(start: Start) -> None:
    endpoint, backbone = start([said("{}")])
    referring = {"$ref": "#/$defs/Home of Ana", "$defs": {"Home of Ana": SCHEMA}}
    backbone.complete(ASK, max_tokens=5, schema=referring)
    form = endpoint.requests[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["name"] == "Home_of_Ana"
    assert form["json_schema"]["schema"]["properties"] == SCHEMA["properties"]
    assert endpoint.requests[0]["messages"] == [{"role": "user", "content": ASK[0].text}]


def test_memdbs_own_key_goes_first_and_none_is_needed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    endpoint, backbone = start([said("x")])
    backbone.complete(ASK, max_tokens=5)
    monkeypatch.setenv("MEMDB_API_KEY", "")
    second, backbone = start([said("x")])
    backbone.complete(ASK, max_tokens=5)
    monkeypatch.delenv("OPENAI_API_KEY")
    third, backbone = start([said("x")])
    backbone.complete(ASK, max_tokens=5)
    assert [*endpoint.keys, *second.keys, *third.keys] == [f"Bearer {KEY}", "Bearer sk-other", "Bearer none"]


def test_whose_account_it_is_goes_to_no_other_address(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    endpoint, backbone = start([said("x")])
    backbone.complete(ASK, max_tokens=5)
    assert "authorization" in endpoint.header_names
    assert not {"openai-organization", "openai-project"} & endpoint.header_names


def test_without_an_address_and_a_key_nothing_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMDB_API_KEY")
    with pytest.raises(InputError, match="no address and no key"):
        OpenAIBackbone("m")


# --- Options an endpoint refuses


@pytest.mark.parametrize("status", [400, 404, 422])
def test_forms_of_json_are_tried_strictest_first_and_remembered(start: Start, status: int) -> None:
    def script(body: dict[str, Any]) -> Reply:
        if "response_format" in body:
            return refused(status, f"response_format {body['response_format']['type']} is not supported")
        return said('```json\n{"city": "Oslo"}\n```')

    endpoint, backbone = start(script)
    for _ in range(2):
        assert json.loads(backbone.complete(ASK, max_tokens=5, schema=SCHEMA).text) == {"city": "Oslo"}
    forms = [body.get("response_format", {}).get("type") for body in endpoint.requests]
    assert forms == ["json_schema", "json_schema", "json_object", None, None]
    for body in endpoint.requests[2:]:
        assert body["messages"][0]["role"] == "system"
        assert '"Home of Ana"' in body["messages"][0]["content"]
        assert "JSON" in body["messages"][0]["content"]


def test_the_schema_in_the_prompt_stands_with_the_system_turn(start: Start) -> None:
    unknown = refused(400, "unknown field", param="response_format")
    endpoint, backbone = start([unknown, unknown, said("{}")])
    backbone.complete([Turn("system", "Be brief."), *ASK], max_tokens=5, schema=SCHEMA)
    first, second = endpoint.requests[2]["messages"]
    assert first["content"].startswith("Be brief.\n\nAnswer with one JSON document")
    assert second == {"role": "user", "content": ASK[0].text}


def test_one_refused_schema_leaves_the_others_strict(start: Start) -> None:
    def script(body: dict[str, Any]) -> Reply:
        form = body["response_format"]
        if form["type"] == "json_schema" and form["json_schema"]["schema"].get("title") is None:
            return refused(400, "Invalid schema for response_format 'answer'")
        return said("{}")

    endpoint, backbone = start(script)
    for schema in ({"type": "object"}, SCHEMA):
        backbone.complete(ASK, max_tokens=5, schema=schema)
    forms = [body["response_format"]["type"] for body in endpoint.requests]
    assert forms == ["json_schema", "json_schema", "json_object", "json_schema"]


def test_a_strict_mode_that_takes_no_bounds_is_asked_without_them(start: Start) -> None:
    def script(body: dict[str, Any]) -> Reply:
        schema = json.dumps(body["response_format"]["json_schema"]["schema"])
        if '"maxLength":' in schema:
            return refused(400, "Invalid schema for response_format: 'maxLength' is not permitted")
        return said("{}")

    endpoint, backbone = start(script)
    names = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3}
    for ids in (["M1", "M2"], ["M5", "M6"]):  # one kind of question, known by its title
        properties = {"turn": {"type": "string", "enum": ids}, "maxItems": names}
        schema = {"title": "units", "type": "object", "properties": properties, "required": ["maxItems"]}
        backbone.complete(ASK, max_tokens=5, schema=schema)
    sent = [body["response_format"]["json_schema"]["schema"]["properties"] for body in endpoint.requests]
    assert [properties["turn"]["enum"] for properties in sent] == [["M1", "M2"], ["M1", "M2"], ["M5", "M6"]]
    assert [properties["maxItems"]["items"] for properties in sent[1:]] == [{"type": "string"}] * 2
    assert "maxItems" not in sent[1]["maxItems"]


def test_a_fence_is_kept_where_the_text_may_be_about_one(start: Start) -> None:
    _, backbone = start([said("```\ncode\n```")])
    assert backbone.complete(ASK, max_tokens=5).text == "```\ncode\n```"


@pytest.mark.parametrize(
    ("message", "gone", "instead"),
    [
        ("Unsupported value: 'temperature' does not support 0", "temperature", None),
        ("Use 'max_completion_tokens' instead.", "max_tokens", "max_completion_tokens"),
    ],
)
def test_an_option_the_model_refuses_is_left_out_from_then_on(
    start: Start, message: str, gone: str, instead: str | None
) -> None:
    endpoint, backbone = start([refused(400, message), said("a"), said("b")])
    assert [backbone.complete(ASK, max_tokens=5).text for _ in range(2)] == ["a", "b"]
    assert [gone in body for body in endpoint.requests] == [True, False, False]
    if instead:
        assert [body.get(instead) for body in endpoint.requests] == [None, 5, 5]


def test_a_model_that_refuses_both_is_asked_without_either(start: Start) -> None:
    def script(body: dict[str, Any]) -> Reply:
        if "max_tokens" in body:
            return refused(400, "Use 'max_completion_tokens' instead.", param="max_tokens")
        return refused(400, "Only the default", param="temperature") if "temperature" in body else said("a")

    endpoint, backbone = start(script)
    assert [backbone.complete(ASK, max_tokens=5).text for _ in range(2)] == ["a", "a"]
    assert [len(body) for body in endpoint.requests] == [4, 4, 3, 3]


def test_a_server_of_another_school_is_understood(start: Start) -> None:
    """Its errors are lists, and repeat the request: the words of the user there mean nothing."""
    echo = {"messages": [{"content": "what temperature is it, and which response_format?"}]}
    detail = [{"loc": ["body", "response_format"], "msg": "extra fields not permitted", "input": echo}]
    endpoint, backbone = start([Reply({"detail": detail}, 422), said("{}")])
    backbone.complete(ASK, max_tokens=5, schema=SCHEMA)
    assert [body.get("temperature") for body in endpoint.requests] == [0, 0]
    endpoint, backbone = start([Reply({"detail": [{"loc": ["body", "model"], "input": echo}]}, 422)])
    assert not failure(backbone, schema=SCHEMA).retryable
    assert len(endpoint.requests) == 1


# --- Repeats


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_passing_failures_are_repeated_with_growing_waits(
    start: Start, waits: list[float], status: int
) -> None:
    endpoint, backbone = start([refused(status, "busy")] * 3 + [said("Oslo")])
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"
    assert len(endpoint.requests) == 4
    for number, wait in enumerate(waits):
        full = settings.RETRY_FIRST_WAIT_S * 2**number
        assert 0.75 * full <= wait <= full
    assert (backbone.usage.requests, backbone.usage.retries) == (4, 3)


def test_waits_are_bounded_and_repeats_end(start: Start, waits: list[float]) -> None:
    endpoint, backbone = start(lambda body: refused(503, "busy"), retries=9)
    error = failure(backbone)
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "503" in str(error)
    assert len(endpoint.requests) == 10
    assert max(waits) <= settings.RETRY_LONGEST_WAIT_S
    assert waits[-1] >= 0.75 * settings.RETRY_LONGEST_WAIT_S


def test_the_endpoint_says_how_long_to_wait(start: Start, waits: list[float]) -> None:
    headers = ["7", "0", "2.5", "-3", "tomorrow"]
    script = [Reply({}, 429, Retry_After=value) for value in headers]
    _, backbone = start([*script, said("Oslo")], retries=5)
    backbone.complete(ASK, max_tokens=5)
    assert waits[:4] == [7, 0, 2.5, 0]
    assert waits[4] == pytest.approx(settings.RETRY_FIRST_WAIT_S * 16, rel=0.25)


@pytest.mark.parametrize("asked", ["121", "1e9", "inf"])
def test_an_endpoint_that_asks_for_too_long_a_wait_is_left_to_the_caller(
    start: Start, waits: list[float], asked: str
) -> None:
    endpoint, backbone = start([Reply({"error": {"message": "busy"}}, 429, Retry_After=asked)])
    assert failure(backbone).retryable
    assert (len(endpoint.requests), waits) == (1, [])


def test_an_empty_account_is_not_asked_twice(start: Start) -> None:
    endpoint, backbone = start([refused(429, "You exceeded your quota", code="insufficient_quota")])
    error = failure(backbone)
    assert isinstance(error, ModelUnavailable)
    assert not error.retryable
    assert len(endpoint.requests) == 1


def test_silence_ends_in_a_retryable_error(start: Start, waits: list[float]) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        release.wait()
        return said("too late")

    _, backbone = start(script, timeout_s=0.05, retries=1)
    try:
        error = failure(backbone)
    finally:
        release.set()
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "timed out" in str(error)
    assert len(waits) == 1


def test_nobody_there_is_a_retryable_error(waits: list[float]) -> None:
    with serving([]) as endpoint:
        url = endpoint.url
    backbone = OpenAIBackbone("m", base_url=url, retries=2, wait=waits.append)
    error = failure(backbone)
    backbone.close()
    assert isinstance(error, ModelUnavailable)
    assert error.retryable
    assert "127.0.0.1" in str(error)
    assert len(waits) == 2


# --- Failures no repeat helps


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable_and_not_the_key(start: Start, status: int) -> None:
    endpoint, backbone = start([refused(status, f"Incorrect API key provided: {KEY}.")])
    error = failure(backbone)
    assert isinstance(error, ModelUnavailable)
    assert not error.retryable
    assert "MEMDB_API_KEY" in error.hint
    assert "[key]" in str(error)
    assert len(endpoint.requests) == 1


def test_a_key_at_the_edge_of_a_long_answer_is_not_shown_in_part(start: Start) -> None:
    for length in range(470, 500, 5):
        _, backbone = start([refused(401, "x" * length + KEY)])
        assert KEY[:6] not in str(failure(backbone))


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("This model's maximum context length is 8192 tokens.", {"code": "context_length_exceeded"}),
        ("the request exceeds the available context size", {"type": "exceed_context_size_error"}),
        ("Prompt is too long", {}),
    ],
)
def test_a_prompt_that_is_too_long_is_the_callers_error(
    start: Start, message: str, fields: dict[str, str]
) -> None:
    _, backbone = start([refused(400, message, **fields)])
    assert isinstance(failure(backbone), InputError)


@pytest.mark.parametrize("status", [400, 404, 405, 418])
def test_other_refusals_are_told_in_the_endpoints_words(start: Start, status: int) -> None:
    endpoint, backbone = start([refused(status, "the model m does not exist")])
    error = failure(backbone, schema=SCHEMA)
    assert isinstance(error, ModelUnavailable)
    assert not error.retryable
    assert "does not exist" in str(error)
    assert len(endpoint.requests) == 1


def test_another_address_is_not_followed(start: Start) -> None:
    elsewhere, _ = start([said("stolen")])
    endpoint, backbone = start([Reply({}, 307, Location=f"{elsewhere.url}/chat/completions")])
    assert "307" in str(failure(backbone))
    assert (len(endpoint.requests), elsewhere.requests) == (1, [])


@pytest.mark.parametrize(
    "body",
    [b"", b"not json", b"<html>", b"[]", b'"text"', b"\xff", {"choices": "x"}, {"choices": [{}]}],
    ids=str,
)
def test_what_is_no_chat_completion_is_an_error(start: Start, body: Any) -> None:
    _, backbone = start([Reply(body)])
    assert "no chat completion" in str(failure(backbone))


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}], ids=str)
def test_no_answer_is_an_error(start: Start, body: Any) -> None:
    _, backbone = start([Reply(body)])
    assert "no answer" in str(failure(backbone))


def test_no_text_and_a_refusal_are_errors(start: Start) -> None:
    refusal = {"choices": [{"message": {"content": None, "refusal": "I would rather not."}}]}
    _, backbone = start([said(None), Reply(refusal), said("half a", "content_filter")])
    assert "without a text" in str(failure(backbone))
    assert "rather not" in str(failure(backbone))
    assert "declined" in str(failure(backbone))


def test_a_finish_the_endpoint_does_not_give_is_a_stop(start: Start) -> None:
    _, backbone = start([said("a", None), said("b", "eos"), said("c", "length")])
    finishes = [backbone.complete(ASK, max_tokens=5).finish for _ in range(3)]
    assert finishes == ["stop", "stop", "length"]


# --- The key


def test_the_key_is_in_no_repr_and_no_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("", "openai", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, logger=name)
    _, backbone = start([refused(503, KEY), said("Oslo"), refused(400, KEY)])
    backbone.complete(ASK, max_tokens=5)
    failure(backbone)
    assert KEY not in repr(backbone)
    assert "openai" in {record.name.split(".")[0] for record in caplog.records}
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["sk-grün", "sk two", "sk\ntwo", "sk\x7f"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("MEMDB_API_KEY", key)
    with pytest.raises(InputError, match="MEMDB_API_KEY") as caught:
        OpenAIBackbone("m", base_url="http://127.0.0.1:1/v1")
    assert key not in str(caught.value)


def test_blanks_around_a_key_do_not_count(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_API_KEY", f" {KEY}\n")
    endpoint, backbone = start([said("x")])
    backbone.complete(ASK, max_tokens=5)
    assert endpoint.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "url", ["http://example.org/v1", "HTTP://10.0.0.7:8080/v1", "http://127.evil.example"]
)
def test_a_key_that_would_travel_in_the_open_is_warned_of(url: str) -> None:
    with pytest.warns(MemdbWarning, match="unencrypted") as caught:
        OpenAIBackbone("m", base_url=url).close()
    assert KEY not in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "url", ["https://example.org/v1", "http://127.0.0.1:8080/v1", "http://[::1]:1/v1", "http://localhost/v1"]
)
def test_addresses_that_nobody_can_listen_to_are_not_warned_of(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OpenAIBackbone("m", base_url=url).close()


def test_without_a_key_nothing_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMDB_API_KEY")
    OpenAIBackbone("m", base_url="http://example.org/v1").close()


@pytest.mark.parametrize(
    "url", ["example.org", "ftp://example.org", "http://", "http://[", "http://ana:secret@127.0.0.1/v1"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError) as caught:
        OpenAIBackbone("m", base_url=url)
    assert "secret" not in str(caught.value)


def test_a_proxy_does_not_stand_before_this_machine(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    _, backbone = start([said("Oslo")])
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"


# --- Many at once, and what it costs


class Watched:
    """A semaphore that tells when somebody has to wait for it."""

    def __init__(self, slots: Any, told: threading.Event) -> None:
        self._slots, self._told = slots, told

    def __enter__(self) -> None:
        if not self._slots.acquire(blocking=False):
            self._told.set()
            self._slots.acquire()

    def __exit__(self, *args: object) -> None:
        self._slots.release()


def test_no_more_run_at_once_than_allowed(start: Start) -> None:
    """Two requests are held until a third call was made to wait, or reached the endpoint beside them."""
    two, release = threading.Event(), threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        if endpoint.most_at_once >= 2:
            two.set()
        if endpoint.most_at_once > 2:
            release.set()
        assert two.wait(60)
        assert release.wait(60)
        return said("Oslo")

    endpoint, backbone = start(script, parallel=2)
    backbone._slots = Watched(backbone._slots, release)  # type: ignore[assignment]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: backbone.complete(ASK, max_tokens=5).text, range(9)))
    assert answers == ["Oslo"] * 9
    assert endpoint.most_at_once == 2
    assert backbone.parallel == 2
    assert backbone.usage.requests == 9


def test_tokens_and_cost_are_counted(start: Start) -> None:
    details = {"cached_tokens": 400_000}
    script = [
        said("Oslo", prompt_tokens=1_000_000, completion_tokens=2_000, prompt_tokens_details=details),
        said("Oslo", prompt_tokens=500_000, completion_tokens=1_000, prompt_tokens_details=None),
        said(None, prompt_tokens=0, completion_tokens=1_000),
    ]
    _, backbone = start(script, prices=Prices(prompt=2.0, completion=10.0, cached=0.5))
    answer = backbone.complete(ASK, max_tokens=5)
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (
        1_000_000,
        400_000,
        2_000,
    )
    backbone.complete(ASK, max_tokens=5)
    failure(backbone)  # an answer that is no use costs all the same
    used = backbone.usage
    assert used.cost == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 2 + 0.004 * 10)
    assert (used.requests, used.retries) == (3, 0)
    assert (used.prompt_tokens, used.cached_tokens, used.completion_tokens) == (1_500_000, 400_000, 4_000)


def test_cached_tokens_cost_what_the_others_do_unless_said(start: Start) -> None:
    script = [said("x", prompt_tokens=1_000_000, prompt_tokens_details={"cached_tokens": 1_000_000})]
    _, backbone = start(script, prices=Prices(prompt=2.0, completion=0.0))
    backbone.complete(ASK, max_tokens=5)
    assert backbone.usage.cost == pytest.approx(2.0)


def test_an_endpoint_that_counts_nothing_is_estimated(start: Start) -> None:
    _, backbone = start([said("Oslo, Norway")])
    answer = backbone.complete(ASK, max_tokens=5)
    assert answer.prompt_tokens == backbone.count_tokens(ASK[0].text)
    assert answer.completion_tokens == backbone.count_tokens("Oslo, Norway")
    assert backbone.usage == Usage(requests=1)


def test_the_estimate_of_tokens_is_high() -> None:
    backbone = OpenAIBackbone("m", base_url="http://127.0.0.1:1/v1")
    backbone.close()
    texts = {"": 0, "a": 1, "abcd": 2, "I went home.": 7, "2026": 4, "猫": 3, "\ud800": 3, "a\0": 2}
    assert {text: backbone.count_tokens(text) for text in texts} == texts


# --- Making one


@pytest.mark.parametrize(
    "options", [{"model": ""}, {"retries": -1}, {"parallel": 0}, {"context_tokens": 1}], ids=str
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        OpenAIBackbone(**{"model": "m", "base_url": "http://127.0.0.1:1/v1", **options})


def test_it_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelNotFound, match="openai") as caught:
        OpenAIBackbone("m", base_url="http://127.0.0.1:1/v1")
    assert "memdb-engine[api]" in caught.value.hint


def test_it_says_where_it_asks() -> None:
    backbone = OpenAIBackbone("m", base_url="http://127.0.0.1:1/v1")
    backbone.close()
    assert (backbone.name, backbone.identity) == ("m", "openai:m")
    assert repr(backbone) == "OpenAIBackbone('m', base_url='http://127.0.0.1:1/v1/')"

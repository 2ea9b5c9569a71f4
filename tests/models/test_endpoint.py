"""What an endpoint may do to memdb, and what it is told of it, over real HTTP."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from memdb import settings
from memdb.errors import ModelError, ModelUnavailable
from memdb.models.chat_reply import MOST_TOKENS
from memdb.models.endpoint import LEAST_KEY_CHARS, NEEDED_HEADERS, redacted
from memdb.models.openai import SAID_CHARS, OpenAIBackbone, Prices
from memdb.models.ports import Turn
from tests.endpoint import Endpoint, Reply, refused, said, serving

pytest.importorskip("openai", reason="openai is not installed")
pytestmark = pytest.mark.loopback

KEY = "sk-test-4f1d0c9a7b3e"
ASK = [Turn("user", "Where does Ana live?")]
Start = Callable[..., tuple[Endpoint, OpenAIBackbone]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """An endpoint with a script, and a backbone that asks it and does not wait."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMDB_API_KEY", KEY)
    with ExitStack() as stack:

        def make(script: Any, **options: Any) -> tuple[Endpoint, OpenAIBackbone]:
            endpoint = stack.enter_context(serving(script))
            backbone = OpenAIBackbone("m", base_url=endpoint.url, wait=lambda seconds: None, **options)
            stack.callback(backbone.close)
            return endpoint, backbone

        yield make


# --- What it may send


@pytest.mark.parametrize("status", [200, 400, 503])
def test_a_reply_is_read_to_its_bound_and_no_further(start: Start, status: int) -> None:
    whole = json.dumps({"choices": [{"message": {"content": "Oslo"}}]}).encode()
    fits = Reply(whole + b" " * (settings.API_REPLY_BYTES - len(whole)))
    endpoint, backbone = start([fits, Reply(fits.data + b" ", status)])
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"
    with pytest.raises(ModelError, match="more than 16777216 bytes") as caught:
        backbone.complete(ASK, max_tokens=5)
    assert not caught.value.retryable
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("status", [200, 400, 503])
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "identity, gzip", "deflate", "br", "zstd", "unheard-of"])
def test_a_packed_reply_is_refused_unread(start: Start, status: int, coding: str) -> None:
    packed = Reply(gzip.compress(said("Oslo").data), status, Content_Encoding=coding)
    endpoint, backbone = start([packed])
    with pytest.raises(ModelError, match="packed") as caught:
        backbone.complete(ASK, max_tokens=5)
    assert not caught.value.retryable
    assert len(endpoint.requests) == 1


def test_a_reply_that_says_it_is_not_packed_is_read(start: Start) -> None:
    plain = said("Oslo")
    plain.headers["Content-Encoding"] = "identity"
    _, backbone = start([plain])
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"


@pytest.mark.parametrize("status", [200, 503])
def test_a_request_has_its_time_and_no_more(start: Start, status: int) -> None:
    """However often a byte arrives: the clock is read at each piece of the reply."""
    readings = iter([0.0, settings.API_REQUEST_S, 7.0, 7.5 + settings.API_REQUEST_S])
    script = [said("Oslo"), Reply(said("late").data, status)]
    endpoint, backbone = start(script, clock=lambda: next(readings))
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"
    with pytest.raises(ModelUnavailable, match="longer than 600 s") as caught:
        backbone.complete(ASK, max_tokens=5)
    assert caught.value.retryable
    assert len(endpoint.requests) == 2


def test_what_was_refused_leaves_the_backbone_of_use(start: Start) -> None:
    packed = Reply(b"x", Content_Encoding="gzip")
    _, backbone = start([packed, packed, said("Oslo")], parallel=1)
    for _ in range(2):
        with pytest.raises(ModelError):
            backbone.complete(ASK, max_tokens=5)
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"


@pytest.mark.parametrize(
    ("counts", "believed"),
    [
        ((-5, -5, -5), (0, 0, 0)),
        ((10**30, 0, 10**30), (MOST_TOKENS, 0, MOST_TOKENS)),
        ((100, 10**18, 7), (100, 100, 7)),
        ((0, 50, 7), (0, 0, 7)),
        ((None, None, None), (0, 0, 0)),
    ],
)
def test_counts_are_believed_in_bounds(
    start: Start, counts: tuple[int | None, ...], believed: tuple[int, ...]
) -> None:
    prompt, cached, completion = counts
    details = {"cached_tokens": cached}
    reply = said("Oslo", prompt_tokens=prompt, completion_tokens=completion, prompt_tokens_details=details)
    _, backbone = start([reply], prices=Prices(prompt=1.0, completion=1.0, cached=0.0))
    answer = backbone.complete(ASK, max_tokens=5)
    used = backbone.usage
    assert (used.prompt_tokens, used.cached_tokens, used.completion_tokens) == believed
    assert used.cost is not None
    assert used.cost >= 0
    assert answer.cached_tokens == believed[1] <= answer.prompt_tokens
    assert answer.prompt_tokens == (believed[0] or backbone.count_tokens(ASK[0].text))
    assert answer.completion_tokens == (believed[2] or backbone.count_tokens("Oslo"))


def test_a_refusal_is_repeated_in_short_and_without_the_key(start: Start) -> None:
    refusal = {"choices": [{"message": {"content": None, "refusal": KEY + "x" * 10**6}}]}
    _, backbone = start([Reply(refusal)])
    with pytest.raises(ModelError, match=r"\[key\]xxx") as caught:
        backbone.complete(ASK, max_tokens=5)
    assert len(str(caught.value)) < SAID_CHARS + 100


# --- What it is told


def test_only_headers_that_are_needed_go_to_an_endpoint(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: 1\nX-Team: two")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    first = said("Oslo")
    first.headers["Set-Cookie"] = "who=ana"
    endpoint, backbone = start([first, refused(503, "busy"), said("Oslo")])
    for _ in range(2):
        assert backbone.complete(ASK, max_tokens=5).text == "Oslo"
    assert "authorization" in endpoint.header_names
    assert endpoint.header_names <= NEEDED_HEADERS
    assert endpoint.keys == [f"Bearer {KEY}"] * 3


def test_openai_itself_gets_what_its_client_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("MEMDB_API_KEY", KEY)
    sent: list[httpx2.Request] = []

    def answer(self: object, request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(said("Oslo").data))

    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", answer)
    backbone = OpenAIBackbone("m")
    assert backbone.complete(ASK, max_tokens=5).text == "Oslo"
    backbone.close()
    assert sent[0].url.host == "api.openai.com"
    assert sent[0].headers["accept-encoding"] == "identity"
    assert any(name.startswith("x-stainless-") for name in sent[0].headers)


# --- The key


@pytest.mark.parametrize("cut", [KEY, KEY[:12], KEY[:-1], KEY[1:], KEY[3:16], KEY + KEY[4:], KEY[-12:]])
def test_no_long_run_of_the_key_is_shown(start: Start, cut: str) -> None:
    _, backbone = start([refused(401, f"no such key: '{cut}'")])
    with pytest.raises(ModelUnavailable) as caught:
        backbone.complete(ASK, max_tokens=5)
    assert "[key]'" in str(caught.value)
    shown = str(caught.value)
    runs = [KEY[at : at + LEAST_KEY_CHARS] for at in range(len(KEY) - LEAST_KEY_CHARS + 1)]
    assert not [run for run in runs if run in shown]


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        ("a abc b", "", "a abc b"),
        ("a abc b ab", "abc", "a [key] b ab"),
        ("", KEY, ""),
        (KEY[:11], KEY, KEY[:11]),
        (f"{KEY[:5]}{KEY}{KEY}x", KEY, f"{KEY[:5]}[key][key]x"),
    ],
)
def test_shorter_words_stay_as_they_are(text: str, key: str, shown: str) -> None:
    assert redacted(text, key) == shown

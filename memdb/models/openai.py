"""Any endpoint that speaks the OpenAI chat protocol. The only file that knows openai.

What is sent: the turns, the schema, the name of the model, and the key, to the named address and no other
(redirects are refused). The key comes from the environment, MEMDB_API_KEY or else OPENAI_API_KEY; no error
and no repr shows it.

Endpoints differ in what they take. A request that is refused for one of its options is sent again without it,
and what was learned is kept as long as the object lives.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any

import msgspec

from memdb import settings
from memdb.errors import InputError, MemdbError, ModelError, ModelNotFound, ModelUnavailable
from memdb.models.chat_reply import BrokeOff, Failed, Listener, Reply, Unreadable, whole, written
from memdb.models.endpoint import KEY_VARIABLES, Bounds, check_address, key_of, loopback, redacted
from memdb.models.ports import Completion, OnText, Turn, require_room, require_turns, rooted, valid_unicode

if TYPE_CHECKING:
    import httpx2
    import openai

NO_KEY = "none"  # sent where no key is set: servers of one's own look at none
RETRIED = {408, 409, 429}  # and all from 500
REFUSES_OPTIONS = {400, 404, 422}
SAID_CHARS = 500  # of an endpoint's own words that an error repeats
HEARD_CHARS = 65_536  # of them that are looked at
EVENTS = "text/event-stream"  # the kind of a reply that comes piece by piece
FORMS = ("json_schema", "plain_schema", "json_object", "prompt")  # of asking for JSON, strictest first
BOUNDS = {"minLength", "maxLength", "pattern", "minItems", "maxItems"}  # what some strict modes do not take

CHEAP = re.compile(r"[A-Za-z ]")
ABOUT_FORMAT = re.compile(r"response_?format|json_schema|json_object|structured output|schema|grammar", re.I)
ABOUT_OPTIONS = {  # by what is left out when it is refused
    "temperature": re.compile(r"temperature", re.I),
    "max_tokens": re.compile(r"max_completion_tokens", re.I),
    "stream_options": re.compile(r"stream_options|include_usage", re.I),
    "stream": re.compile(r"\bstream(ing)?\b", re.I),
}
ABOUT_CONTEXT = re.compile(
    r"context_length|context length|context size|context window|maximum context|prompt is too long"
    r"|too many tokens|exceed_context",
    re.I,
)
FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens cost, in any one currency; `cached` are prompt tokens the endpoint had kept."""

    prompt: float
    completion: float
    cached: float | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What an `OpenAIBackbone` has used; `cost` is in the currency of its prices, None without them."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


class OpenAIBackbone:
    """A model behind an OpenAI-compatible endpoint, a `ports.Backbone`.

    `base_url` ends where `/chat/completions` begins; None is OpenAI's own, or OPENAI_BASE_URL. `timeout_s`
    bounds each silence of the endpoint (and connecting), `retries` the repeats of one request, `parallel` the
    calls under way, waiting ones included: an endpoint that asks to wait is left alone by all of them.
    `wait` is given the seconds before a repeat, `clock` tells how long a request takes. `usage` counts.

    Raises ModelNotFound when the package openai is missing, InputError for a base_url or a key that is none,
    and when there is neither.
    Warns when the key would travel unencrypted.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        timeout_s: float = settings.API_TIMEOUT_S,
        retries: int = settings.API_RETRIES,
        parallel: int = settings.API_PARALLEL,
        context_tokens: int = settings.API_CONTEXT_TOKENS,
        prices: Prices | None = None,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not model or retries < 0 or parallel < 1 or context_tokens < 2:
            raise InputError("an endpoint needs a model, retries from 0, parallel from 1, a context from 2")
        self._model, self._context_tokens, self._parallel = model, context_tokens, parallel
        self._retries, self._prices, self._wait = retries, prices, wait
        self._key = key_of()
        address = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        if not address and not self._key:
            hint = f"give base_url for a model of your own, or set {KEY_VARIABLES[0]} for OpenAI's"
            raise InputError("no address and no key: nothing is sent to OpenAI without one", hint=hint)
        check_address(address, has_key=bool(self._key))
        bounds = Bounds(f"the endpoint of the model {model}", bare=bool(address), clock=clock)
        self._client = _client(address, self._key or NO_KEY, timeout_s, bounds)
        self._slots, self._lock, self._closed = BoundedSemaphore(parallel), Lock(), False
        self._usage = Usage(cost=None if prices is None else 0.0)
        self._forms: dict[object, int] = {}  # by title or schema, the place in FORMS of what works
        self._dropped: set[str] = set()  # options this endpoint refuses

    def __repr__(self) -> str:
        return f"OpenAIBackbone({self._model!r}, base_url={str(self._client.base_url)!r})"

    @property
    def name(self) -> str:
        """See `ports.Backbone`."""
        return self._model

    @property
    def identity(self) -> str:
        """See `ports.Backbone`: the weights behind an endpoint are not at hand."""
        return f"openai:{self._model}"

    @property
    def context_tokens(self) -> int:
        """See `ports.Backbone`."""
        return self._context_tokens

    @property
    def parallel(self) -> int:
        """See `ports.Backbone`."""
        return self._parallel

    @property
    def usage(self) -> Usage:
        """The counters as they stand."""
        return self._usage

    def count_tokens(self, text: str) -> int:
        """An upper estimate: two Latin letters or spaces a token, one byte of UTF-8 of anything else.

        No token of a byte-level vocabulary is shorter than a byte, and digits, signs and rare scripts do come
        to one each; words come to four or more letters a token, random letters to less than two.
        """
        text = valid_unicode(text)
        cheap = len(CHEAP.findall(text))
        return (cheap + 1) // 2 + len(text.encode()) - cheap

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
    ) -> Completion:
        """See `ports.Backbone`. What the endpoint does not count is estimated by `count_tokens`.

        With `on_text` the reply is streamed. Where the endpoint cannot do that, or the schema stands in the
        prompt alone, the text is told in one. A stream that broke off after its first piece is not repeated.
        """
        require_turns(turns, max_tokens)
        root = None if schema is None else rooted(schema)
        asked = sum(self.count_tokens(turn.text) for turn in turns)
        require_room(asked, max_tokens, self._context_tokens)
        listener = None if on_text is None else Listener(on_text)
        with self._slots:
            reply, fenced = self._ask(turns, max_tokens, root, listener)
            usage = reply.usage
            self._count(**usage)
            text, finish = self._text(reply)
            if fenced and (inside := FENCE.fullmatch(text)):
                text = inside[1]
        if listener is not None and not listener.begun:
            listener.hear(text)
        return Completion(
            text=text,
            finish="length" if finish == "length" else "stop",
            prompt_tokens=usage["prompt_tokens"] or asked,
            cached_tokens=usage["cached_tokens"],
            completion_tokens=usage["completion_tokens"] or self.count_tokens(text),
        )

    def close(self) -> None:
        """See `ports.Backbone`."""
        self._closed = True
        self._client.close()

    def _ask(
        self,
        turns: Sequence[Turn],
        max_tokens: int,
        schema: Mapping[str, object] | None,
        listener: Listener | None,
    ) -> tuple[Reply, bool]:
        """The reply, and whether the schema stood in the prompt alone: then a fence may stand around it."""
        key = (schema or {}).get("title") or msgspec.json.encode(schema)
        while True:
            form = None if schema is None else FORMS[self._forms.get(key, 0)]
            body = _body(self._model, turns, max_tokens, schema, form, self._dropped)
            if listener is not None and form != "prompt":
                body |= _streaming(self._dropped)
            answer = self._persist(body, listener)
            if isinstance(answer, Reply):
                return answer, form == "prompt"
            begun = listener is not None and listener.begun
            if begun or not self._adapt(answer, body, key, form):
                raise self._failure(answer, begun=begun)

    def _adapt(self, error: openai.APIError, body: dict[str, Any], key: object, form: str | None) -> bool:
        """Whether the endpoint refused an option, and the next request will do without."""
        if _status(error) not in REFUSES_OPTIONS:
            return False
        said = _said(error)
        for option, pattern in ABOUT_OPTIONS.items():
            if option in body and pattern.search(said):
                self._dropped.add(option)
                return True
        if "response_format" in body and form is not None and ABOUT_FORMAT.search(said):
            self._forms[key] = FORMS.index(form) + 1
            return True
        return False

    def _persist(self, body: dict[str, Any], listener: Listener | None) -> Reply | openai.APIError:
        """The reply, or the error that is left when repeating no longer helps."""
        repeat = 0
        while True:
            answer = self._request(body, listener, repeated=repeat > 0)
            if isinstance(answer, Reply) or repeat == self._retries or (listener and listener.begun):
                return answer
            if (pause := _pause(answer, repeat)) is None:
                return answer
            self._wait(pause)
            repeat += 1

    def _request(
        self, body: dict[str, Any], listener: Listener | None, *, repeated: bool
    ) -> Reply | openai.APIError:
        """Errors are returned: none of ours shall be raised from one of the client's, which know the key."""
        import httpx2
        import openai

        if self._closed:
            raise ModelError(f"the backbone {self._model} was closed")
        self._count(requests=1, retries=int(repeated))
        given: dict[str, Any] = {"cast_to": httpx2.Response, "body": body}
        try:
            # Not by `with_raw_response`: it is told apart by a header that is not for the endpoint.
            if listener is None or "stream" not in body:
                return self._reply(self._client.post("/chat/completions", **given), None)
            given |= {"stream": True, "stream_cls": openai.Stream[object]}
            response: httpx2.Response = self._client.post("/chat/completions", **given)
        except openai.APIError as error:
            return error
        with closing(response):
            return self._reply(response, listener)

    def _reply(self, response: httpx2.Response, listener: Listener | None) -> Reply | openai.APIError:
        """What a response holds, or the error that broke it off. ModelError for no chat completion."""
        import openai

        try:
            if listener is None or EVENTS not in response.headers.get("content-type", "").lower():
                return whole(b"".join(_chunks(response)))
            return written(_chunks(response), listener)
        except BrokeOff as error:
            said = str(error)
        except Failed as error:
            failed = openai.APIError("the endpoint sent an error", response.request, body=error.body)
            code = error.body.get("code") if isinstance(error.body, Mapping) else None
            vars(failed)["status_code"] = code if isinstance(code, int) else None
            return failed
        except Unreadable as error:
            hint = "check that base_url ends where /chat/completions begins"
            raise ModelError(
                f"the model {self._model} sent no chat completion: {error}", hint=hint
            ) from error
        return openai.APIConnectionError(message=said, request=response.request)

    def _failure(self, error: openai.APIError, *, begun: bool = False) -> MemdbError:
        """The error of ours that says the same, without the key."""
        status, said = _status(error), self._redacted(_said(error))
        where = f"the model {self._model} at {self._client.base_url.host}"
        if status in (401, 403):
            hint = f"set {KEY_VARIABLES[0]} (or {KEY_VARIABLES[1]}) to a key that may use this model"
            return ModelUnavailable(f"{where} refuses the key: {said}", hint=hint)
        if status in REFUSES_OPTIONS | {413} and ABOUT_CONTEXT.search(said):
            return InputError(f"the prompt exceeds the context of {where}: {said}", hint="shorten the prompt")
        if begun:
            hint = "try again later: what came of it is no answer"
            return ModelUnavailable(f"{where} broke off its answer: {said}", hint=hint, retryable=True)
        if status is None:
            hint = "check the address and the network, or try again later"
            return ModelUnavailable(f"{where} cannot be reached: {said}", hint=hint, retryable=True)
        if status in RETRIED or status >= 500:
            later = "insufficient_quota" not in said
            hint = "try again later" if later else "the account behind the key has no credit left"
            return ModelUnavailable(f"{where} does not serve ({status}): {said}", hint=hint, retryable=later)
        hint = "check base_url and the name of the model"
        return ModelUnavailable(f"{where} refuses the request ({status}): {said}", hint=hint)

    def _redacted(self, text: str) -> str:
        return redacted(text[:HEARD_CHARS], self._key)[:SAID_CHARS]

    def _text(self, reply: Reply) -> tuple[str, str]:
        if not reply.choices:
            raise ModelError(f"the model {self._model} sent no answer")
        choice = reply.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            reason = self._redacted(choice.message.refusal or "content filter")
            raise ModelError(f"the model {self._model} declined to answer: {reason}")
        if choice.message.content is None:
            raise ModelError(f"the model {self._model} sent an answer without a text")
        return choice.message.content, choice.finish_reason or "stop"

    def _count(self, **more: int) -> None:
        with self._lock:
            used = self._usage
            sums = {name: getattr(used, name) + number for name, number in more.items()}
            used = msgspec.structs.replace(used, **sums)
            if (prices := self._prices) is not None:
                dear = prices.prompt if prices.cached is None else prices.cached
                fresh = used.prompt_tokens - used.cached_tokens
                cost = fresh * prices.prompt + used.cached_tokens * dear
                cost += used.completion_tokens * prices.completion
                used = msgspec.structs.replace(used, cost=cost / 1e6)
            self._usage = used


def _client(address: str, key: str, timeout_s: float, bounds: Bounds) -> openai.OpenAI:
    """Its own repeats are off: they sleep where nobody can step in, and are not counted."""
    try:
        import openai
    except ImportError as error:
        hint = "pip install 'memdb-engine[api]'"
        raise ModelNotFound("an endpoint needs the package openai", hint=hint) from error
    # A proxy stands in no way to this machine itself.
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        trust_env=not loopback(address),
        event_hooks={"request": [bounds.request], "response": [bounds.response]},
    )
    return openai.OpenAI(
        api_key=key,
        base_url=address or None,
        timeout=timeout_s,
        max_retries=0,
        http_client=http,
        default_headers={"User-Agent": "memdb"},
    )


def _body(
    model: str,
    turns: Sequence[Turn],
    max_tokens: int,
    schema: Mapping[str, object] | None,
    form: str | None,
    dropped: set[str],
) -> dict[str, Any]:
    """The request, without the options in `dropped`."""
    messages = [{"role": turn.role, "content": valid_unicode(turn.text)} for turn in turns]
    limit = "max_completion_tokens" if "max_tokens" in dropped else "max_tokens"
    body: dict[str, Any] = {"model": model, "messages": messages, limit: max_tokens}
    if "temperature" not in dropped:
        body["temperature"] = 0
    if form in ("json_schema", "plain_schema"):
        schema = schema if form == "json_schema" else _without_bounds(schema)
        named = re.sub(r"\W", "_", str((schema or {}).get("title") or "answer"), flags=re.ASCII)[:64]
        strict = {"name": named, "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": strict}
    elif form is not None:
        rule = f"Answer with one JSON document of this JSON Schema and nothing else:\n{_json(schema)}"
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{rule}"
        else:
            messages.insert(0, {"role": "system", "content": rule})
    if form == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body


def _without_bounds(schema: Any) -> Any:
    """A schema without the lengths of texts and lists; what a property is called does not count."""
    if isinstance(schema, list):
        return [_without_bounds(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: part for name, part in schema.items() if name not in BOUNDS}
    if isinstance(properties := kept.get("properties"), Mapping):
        kept["properties"] = {name: _without_bounds(part) for name, part in properties.items()}
    return {name: part if name == "properties" else _without_bounds(part) for name, part in kept.items()}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _pause(error: openai.APIError, repeat: int) -> float | None:
    """Seconds before the next repeat, None where none would help or the endpoint asks for too long a wait."""
    status = _status(error)
    if status is not None and status not in RETRIED and status < 500:
        return None
    if "insufficient_quota" in _said(error):
        return None
    response = getattr(error, "response", None)
    asked = _seconds("" if response is None else response.headers.get("retry-after", ""))
    if asked is not None:
        return asked if asked <= settings.RETRY_AFTER_BOUND_S else None
    pause = min(settings.RETRY_FIRST_WAIT_S * 2.0**repeat, settings.RETRY_LONGEST_WAIT_S)
    return pause * (1 - random.random() / 4)  # callers that failed together do not come back together


def _seconds(header: str) -> float | None:
    """A Retry-After in seconds; its other form, a date, needs two clocks to agree and is not followed."""
    try:
        seconds = float(header)
    except ValueError:
        return None
    return max(seconds, 0.0) if seconds == seconds else None


def _status(error: openai.APIError) -> int | None:
    """None when there was no answer."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _said(error: openai.APIError) -> str:
    """What the endpoint wrote about it, and the kind of failure where it could not.

    Only the fields that speak of the error are read: some endpoints repeat the whole request beside them.
    """
    body, words = error.body, list[str]()
    if isinstance(body, Mapping):
        words = [str(body[name]) for name in ("message", "type", "code", "param") if body.get(name)]
        detail = body.get("detail") or []
        for part in detail if isinstance(detail, list) else [{"msg": detail}]:
            if isinstance(part, Mapping):
                words += [str(part[name]) for name in ("loc", "msg") if part.get(name)]
    if not words:
        words = [error.message if error.__cause__ is None else f"{error.message} {error.__cause__}"]
    return "; ".join(words)


def _streaming(dropped: set[str]) -> dict[str, Any]:
    """The options of a request whose reply comes piece by piece, without those in `dropped`."""
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    return {} if "stream" in dropped else {name: options[name] for name in options.keys() - dropped}


def _chunks(response: httpx2.Response) -> Iterator[bytes]:
    """The body as it comes. Raises BrokeOff, which knows nothing of the key, for what the client raises."""
    import httpx2

    broken = ""
    try:
        yield from response.iter_bytes()
    except httpx2.HTTPError as error:
        broken = f"{type(error).__name__} {error}"
    if broken:
        raise BrokeOff(broken)

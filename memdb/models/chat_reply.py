"""What an OpenAI-compatible endpoint sends back: a chat completion, whole or as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from memdb.models.ports import OnText

MOST_TOKENS = 10**9  # that an endpoint's count of one request is believed
DONE = b"[DONE]"  # the last event's data


class Message(msgspec.Struct):
    """What the model wrote, whole or a piece of it."""

    content: str | None = None
    refusal: str | None = None


class Choice(msgspec.Struct):
    """An answer, and why it ended."""

    message: Message
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Spent(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Reply(msgspec.Struct):
    """A chat completion."""

    choices: list[Choice] | None = None
    spent: _Spent | None = msgspec.field(default=None, name="usage")

    @property
    def usage(self) -> dict[str, int]:
        """The tokens by their names in `Usage`, in the bounds of what can be; 0 for what was not counted."""
        spent = self.spent or _Spent()
        details = spent.prompt_tokens_details or _Details()
        prompt = _within(spent.prompt_tokens, MOST_TOKENS)
        return {
            "prompt_tokens": prompt,
            "cached_tokens": _within(details.cached_tokens, prompt),
            "completion_tokens": _within(spent.completion_tokens, MOST_TOKENS),
        }


class _Part(msgspec.Struct):
    delta: Message = msgspec.field(default_factory=Message)
    index: int = 0
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Part] | None = None
    spent: _Spent | None = msgspec.field(default=None, name="usage")
    error: object = None


class Unreadable(Exception):
    """What came is no chat completion."""


class BrokeOff(Exception):
    """The events ended before the answer did."""


class Failed(Exception):
    """An event that tells of an error; `body` is what it says."""

    def __init__(self, body: object) -> None:
        super().__init__("the endpoint sent an error")
        self.body = body


class Listener:
    """Who is told of a text; `begun` once a piece of it was told, which cannot be taken back."""

    def __init__(self, told: OnText) -> None:
        self._told, self.begun = told, False

    def hear(self, piece: str) -> None:
        """Raises what the one who is told raises."""
        if piece:
            self.begun = True
            self._told(piece)


def whole(data: bytes) -> Reply:
    """A reply that came in one. Raises Unreadable."""
    try:
        return msgspec.json.decode(data, type=Reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from error


def written(chunks: Iterable[bytes], listener: Listener) -> Reply:
    """A reply that comes as events, told as it comes.

    Raises what the listener and `chunks` do, Unreadable for what is no event, Failed for one that tells of an
    error, BrokeOff where neither the last event came nor why the answer ended.
    """
    pieces, refusal = list[str](), list[str]()
    finish, spent, last = None, None, None
    for data in event_data(chunks):
        if data == DONE:
            break
        event = last = _event(data)
        spent = event.spent or spent
        for part in event.choices or ():
            if part.index == 0:  # one answer was asked for
                finish = part.finish_reason or finish
                refusal.append(part.delta.refusal or "")
                pieces.append(part.delta.content or "")
                listener.hear(pieces[-1])
    else:
        if last is None:
            raise Unreadable("there is no event in it")
        if finish is None:
            raise BrokeOff("the answer broke off")
    if not pieces:
        return Reply(spent=spent)
    message = Message(content="".join(pieces), refusal="".join(refusal) or None)
    return Reply(choices=[Choice(message=message, finish_reason=finish)], spent=spent)


def _event(data: bytes) -> _Event:
    try:
        event = msgspec.json.decode(data, type=_Event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from error
    if event.error is not None:
        raise Failed(event.error)
    return event


def event_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of server-sent events (WHATWG HTML 9.2.6), other fields and comments left out. An event
    without the empty line that ends it is left out too.
    """
    held = list[bytes]()
    for line in _lines(chunks):
        if not line:
            if held:
                yield b"\n".join(held)
            held = []
        elif line == b"data" or line.startswith(b"data:"):
            held.append(line[5:].removeprefix(b" "))


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends, which are CR LF, LF or CR; a last one without an end is left out."""
    held, ended = bytearray(), False  # whether a CR ended the chunk before
    for chunk in chunks:
        if ended and chunk.startswith(b"\n"):
            chunk, ended = chunk[1:], False
        if not chunk:
            continue
        ended = chunk.endswith(b"\r")
        first, *rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        held += first
        for line in rest:
            yield bytes(held)
            held = bytearray(line)


def _within(count: int | None, most: int) -> int:
    return min(max(count or 0, 0), most)

"""A chat endpoint on 127.0.0.1 that says what a test tells it to, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

Script = Callable[[dict[str, Any]], "Reply"]


class HangUp(Exception):
    """Raised by the pieces of a reply: the connection is closed in the middle of it."""


class Reply:
    """A status, a body (bytes as they are, an iterator of bytes piece by piece, anything else as JSON) and
    headers.
    """

    def __init__(self, body: Any, status: int = 200, **headers: str) -> None:
        self.status = status
        self.pieces: Iterator[bytes] | None = body if isinstance(body, Iterator) else None
        self.data = b""
        if self.pieces is None:
            self.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"Content-Type": "application/json"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}


def said(text: str | None, finish: str | None = "stop", **usage: Any) -> Reply:
    """A chat completion; without `usage` the endpoint counts nothing."""
    message = {"role": "assistant", "content": text}
    body: dict[str, Any] = {"id": "1", "object": "chat.completion", "model": "m", "created": 0}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return Reply(body | ({"usage": usage} if usage else {}))


def event(data: Any) -> bytes:
    """One server-sent event: a str as it is, anything else as JSON."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def piece(text: str | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """The event of a piece of a text."""
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "choices": [choice], **fields})


def streamed(pieces: Iterable[bytes]) -> Reply:
    """A reply of events, each sent when it is made."""
    return Reply(iter(pieces), Content_Type="text/event-stream; charset=utf-8")


def written(*texts: str, finish: str | None = "stop", **usage: Any) -> Reply:
    """A chat completion that comes as events; without `usage` the endpoint counts nothing."""
    last = [event({"choices": [], "usage": usage})] if usage else []
    return streamed([*map(piece, texts), piece(finish=finish), *last, event("[DONE]")])


def refused(status: int, message: str, **fields: str) -> Reply:
    """An error as OpenAI words it."""
    return Reply({"error": {"message": message, **fields}}, status)


class Endpoint(ThreadingHTTPServer):
    """`requests` are the bodies it was sent, in order; `keys` what came as Authorization."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.header_names: set[str] = set()
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own looks up the host's name

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, path: str, body: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.requests.append(body)
            self.keys.append(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if path != "/v1/chat/completions":
                return refused(404, f"no such path {path}")
            return self.script(body)
        finally:
            with self._lock:
                self._at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.header_names.update(name.lower() for name in self.headers)
        reply = self.server.answer(self.path, body, self.headers["Authorization"])
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.pieces is not None:
                self._send_pieces(reply.pieces)
                return
            self.send_header("Content-Length", str(len(reply.data)))
            self.end_headers()
            self.wfile.write(reply.data)
        except (ConnectionError, HangUp):
            self.close_connection = True  # the client waits no longer

    def _send_pieces(self, pieces: Iterator[bytes]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for data in pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
        finally:
            if isinstance(pieces, Generator):
                pieces.close()  # it may tell that nobody listens any more
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(script: Script | list[Reply]) -> Iterator[Endpoint]:
    """An endpoint that runs until the block ends. A list of replies is used up in order."""
    if isinstance(script, list):
        replies = iter(script)
        endpoint = Endpoint(lambda body: next(replies, refused(599, "the script is used up")))
    else:
        endpoint = Endpoint(script)
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()

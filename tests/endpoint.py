"""A chat endpoint on 127.0.0.1 that says what a test tells it to, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

Script = Callable[[dict[str, Any]], "Reply"]


class Reply:
    """A status, a body (bytes as they are, anything else as JSON) and headers."""

    def __init__(self, body: Any, status: int = 200, **headers: str) -> None:
        self.status = status
        self.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"Content-Type": "application/json"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}


def said(text: str | None, finish: str | None = "stop", **usage: Any) -> Reply:
    """A chat completion; without `usage` the endpoint counts nothing."""
    message = {"role": "assistant", "content": text}
    body: dict[str, Any] = {"id": "1", "object": "chat.completion", "model": "m", "created": 0}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return Reply(body | ({"usage": usage} if usage else {}))


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
            self.send_header("Content-Length", str(len(reply.data)))
            self.end_headers()
            self.wfile.write(reply.data)
        except ConnectionError:
            self.close_connection = True  # the client waits no longer

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

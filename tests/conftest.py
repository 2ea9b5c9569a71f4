"""What every test has: a path for a memory, a fake encoder, and no network.

A test marked `loopback` may reach this machine's own 127.0.0.1, and nothing else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import memdb
from memdb import settings
from memdb.models.fakes import HashEncoder

OpenMemory = Callable[..., memdb.Memory]
_CONNECTING = ("connect", "connect_ex", "sendto", "sendmsg")


class NetworkTouched(AssertionError):
    """Something tried to reach the network."""


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting, sending to an address and looking up a name raise, in every test."""
    loopback = request.node.get_closest_marker("loopback") is not None

    def near(place: Any) -> bool:
        host = place[0] if isinstance(place, tuple) else place
        return loopback and host == "127.0.0.1"

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise NetworkTouched(f"a test reached for the network: {args[-1:]}")

    def guarded(name: str) -> Callable[..., Any]:
        original = getattr(socket.socket, name)

        def call(self: socket.socket, *args: Any) -> Any:
            local = self.family == getattr(socket, "AF_UNIX", None)
            return original(self, *args) if local or near(args[-1]) else refuse(*args)

        return call

    def looking(name: str) -> Callable[..., Any]:
        original = getattr(socket, name)
        return lambda *args, **options: (original if near(args[0]) else refuse)(*args, **options)

    for name in _CONNECTING:
        if hasattr(socket.socket, name):
            monkeypatch.setattr(socket.socket, name, guarded(name))
    for name in ("create_connection", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, looking(name))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a memory may be made."""
    return tmp_path / "memory.memdb"


@pytest.fixture
def encoder() -> HashEncoder:
    return HashEncoder(64)


@pytest.fixture
def open_memory(path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenMemory]:
    """`memdb.open` at `path` with the fake encoder; what it opened is closed when the test ends.

    Only what a test asks for is reranked: the order is that of the first ranking otherwise.
    """
    monkeypatch.setattr(settings, "RERANK_DEPTH", 0)
    opened: list[memdb.Memory] = []

    def open_one(where: Path = path, **options: Any) -> memdb.Memory:
        memory = memdb.open(where, **{"encoder": encoder, **options})
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    return open_memory()

"""What an endpoint is sent beside the request, and how much it may send back.

Bounded are the bytes of a reply and the time of a request. The client itself bounds a reply's head, to
100 KiB; while the head arrives, only the timeout of a single silence counts.
"""

from __future__ import annotations

import ipaddress
import os
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memdb import settings
from memdb.errors import InputError, MemdbWarning, ModelError, ModelUnavailable

if TYPE_CHECKING:
    import httpx2

NEEDED_HEADERS = {
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "user-agent",
    "content-type",
    "content-length",
    "authorization",
}
KEY_VARIABLES = ("MEMDB_API_KEY", "OPENAI_API_KEY")  # the first that is set
LEAST_KEY_CHARS = 12  # of a run of the key that is not shown: shorter ones are words like any other
UNTIL = "memdb.until"  # in a request's extensions, the clock reading when it has taken too long


class Bounds:
    """Hooks of a client for one endpoint, named by `who`. With `bare`, it gets needed headers alone."""

    def __init__(self, who: str, *, bare: bool, clock: Callable[[], float]) -> None:
        self._who, self._bare, self._clock = who, bare, clock

    def request(self, request: httpx2.Request) -> None:
        """Before a request is sent."""
        if self._bare:
            for name in [name for name in request.headers if name.lower() not in NEEDED_HEADERS]:
                del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"  # a few bytes may unpack to gigabytes
        request.extensions[UNTIL] = self._clock() + settings.API_REQUEST_S

    def response(self, response: httpx2.Response) -> None:
        """Before a reply's body is read. Raises ModelError for a packed one."""
        import httpx2

        codings = response.headers.get("content-encoding", "").split(",")
        if any(coding.strip().lower() not in ("", "identity") for coding in codings):
            raise ModelError(f"{self._who} sent a packed reply that was not asked for")
        until, stream, checked = float(response.request.extensions[UNTIL]), response.stream, self._checked

        class Checked(httpx2.SyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                assert isinstance(stream, httpx2.SyncByteStream)
                return checked(stream, until)

            def close(self) -> None:
                assert isinstance(stream, httpx2.SyncByteStream)
                stream.close()

        response.stream = Checked()

    def _checked(self, stream: httpx2.SyncByteStream, until: float) -> Iterator[bytes]:
        total = 0
        for chunk in stream:
            total += len(chunk)
            if total > settings.API_REPLY_BYTES:
                raise ModelError(f"{self._who} sent more than {settings.API_REPLY_BYTES} bytes")
            if self._clock() > until:
                message = f"{self._who} took longer than {settings.API_REQUEST_S:g} s"
                raise ModelUnavailable(message, hint="try again later", retryable=True)
            yield chunk


def key_of() -> str:
    """Empty where none is set. Raises InputError, without showing it, for one that no request can carry."""
    for name in KEY_VARIABLES:
        if key := os.environ.get(name, "").strip():
            if not key.isascii() or not key.isprintable() or " " in key:
                raise InputError(f"{name} holds no key: there are blanks or signs in it that no key has")
            return key
    return ""


def check_address(address: str, *, has_key: bool) -> None:
    """Raises InputError for no http address or one with a password; warns when the key would be seen."""
    if not address:
        return
    try:
        parts = urlsplit(address)
        scheme, host, secret = parts.scheme, parts.hostname, "@" in parts.netloc
    except ValueError as error:
        raise InputError(f"the base_url is not an address: {error}") from None
    if scheme not in ("http", "https") or not host:
        raise InputError("the base_url is not an http address", hint="as in http://127.0.0.1:8080/v1")
    if secret:
        raise InputError("the base_url holds a user or a password", hint=f"keys come from {KEY_VARIABLES[0]}")
    if has_key and scheme == "http" and not loopback(address):
        message = f"the key travels to {host} unencrypted: its base_url begins with http://"
        warnings.warn(message, MemdbWarning, stacklevel=3)


def loopback(address: str) -> bool:
    """Whether the address is this machine's own."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost" or host.endswith(".localhost")


def redacted(text: str, key: str) -> str:
    """The text without the key, or any run of it of LEAST_KEY_CHARS: endpoints repeat keys cut short."""
    least = min(LEAST_KEY_CHARS, len(key))
    if not least:
        return text
    runs = {key[start : start + least] for start in range(len(key) - least + 1)}
    parts, shown, at = list[str](), 0, 0
    while at + least <= len(text):
        if text[at : at + least] not in runs:
            at += 1
            continue
        end = at + least
        while end < len(text) and text[at : end + 1] in key:
            end += 1
        parts += [text[shown:at], "[key]"]
        shown = at = end
    return "".join([*parts, text[shown:]])

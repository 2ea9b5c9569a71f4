"""The standard streams: any of them may be closed, full, read by nobody, or unable to show all text."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TextIO, cast

from memdb.errors import MemdbError

_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


class Unread(Exception):
    """Nobody reads stdout any more."""


class Guarded:
    """A stream that hands the first error of its writes to `failed`, and drops what is written after it."""

    def __init__(self, stream: Any, failed: Callable[[OSError], object]) -> None:
        self._stream = stream
        self._failed = failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Guarded:
        """The bytes' stream below, as guarded."""
        return Guarded(self._stream.buffer, self._failed)

    def write(self, data: Any) -> int:
        """Write, or have failed."""
        try:
            return int(self._stream.write(data))
        except OSError as error:
            if data:  # else a probe of click's, which hides errors
                self._fail(error)
            return len(data)

    def flush(self) -> None:
        """Flush, or have failed."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Drop what is left: the interpreter, which flushes at its end, would complain."""
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        self._failed(error)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within, a failed write to stdout raises `MemdbError` or `Unread`, and one to stderr is lost.

    What a console cannot show is replaced.
    """
    _open_closed()
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    sys.stdout = cast(TextIO, Guarded(out, _raise))
    sys.stderr = cast(TextIO, Guarded(err, lambda _: None))
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = out, err


def reason(error: OSError) -> str:
    """Why a stream cannot be read or written, in words that follow its name."""
    return "is closed" if error.errno == errno.EBADF else str(error.strerror or error)


def _raise(error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise Unread from error
    raise MemdbError(
        f"<stdout>: {reason(error)}", hint="send it to a file or program that takes it"
    ) from error


def _open_closed() -> None:
    """Open what was closed such that using it fails: else another file gets its number, and is written to."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115

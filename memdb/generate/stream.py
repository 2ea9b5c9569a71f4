"""An answer while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Self

from memdb.errors import MemdbError
from memdb.records import Answer


class _Stopped(Exception):
    """Nobody reads on: ends the writing."""


class AnswerStream:
    """The pieces of an answer's text, in order: iterate over it once. It is made in a thread of its own.

    `answer` is the whole answer and waits for it. Leaving the loop early, `close`, or the end of a `with`
    block stop the model at its next token: then there is none, and asking for it is a `MemdbError`. What went
    wrong is raised by the loop and by `answer`.
    """

    def __init__(self, make: Callable[[Callable[[str], None]], Answer]) -> None:
        self._pieces: SimpleQueue[str | None] = SimpleQueue()
        self._stop = Event()
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(make,), name="memdb-answer")
        self._thread.start()

    def __iter__(self) -> Iterator[str]:
        try:
            while (piece := self._pieces.get()) is not None:
                yield piece
            self._pieces.put(None)  # a second loop ends at once
            self._raise()
        finally:
            self._stop.set()

    @property
    def answer(self) -> Answer:
        """The whole answer, once it is there. Raises what the making of it raised."""
        self._thread.join()
        self._raise()
        if self._answer is None:
            raise MemdbError("the answer was stopped before it was whole", hint="ask again, to the end")
        return self._answer

    def close(self) -> None:
        """Stop the writing and wait until it has stopped; may be called twice."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, make: Callable[[Callable[[str], None]], Answer]) -> None:
        try:
            self._answer = make(self._tell)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is read
            self._error = error
        finally:
            self._pieces.put(None)

    def _tell(self, piece: str) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._pieces.put(piece)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

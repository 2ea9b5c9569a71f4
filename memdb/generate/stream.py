"""An answer while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
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
        with_one_thread = ThreadPoolExecutor(1, thread_name_prefix="memdb-answer")
        self._made = with_one_thread.submit(make, self._tell)
        self._made.add_done_callback(lambda _: self._pieces.put(None))
        with_one_thread.shutdown(wait=False)

    def __iter__(self) -> Iterator[str]:
        try:
            while (piece := self._pieces.get()) is not None:
                yield piece
            self._pieces.put(None)  # a second loop ends at once
            self._made.result()
        finally:
            self._stop.set()

    @property
    def answer(self) -> Answer:
        """The whole answer, once it is there. Raises what the making of it raised."""
        try:
            return self._made.result()
        except _Stopped as error:
            hint = "ask again, and read to the end"
            raise MemdbError("the answer was stopped before it was whole", hint=hint) from error

    def close(self) -> None:
        """Stop the writing and wait until it has stopped; may be called twice."""
        self._stop.set()
        self._made.exception()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, piece: str) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._pieces.put(piece)

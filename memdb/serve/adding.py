"""`memdb add`: inputs into a memory, in bounded memory, whatever some of their lines are worth."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from memdb import settings
from memdb.errors import InputError
from memdb.memory import Memory
from memdb.records import Added, Message
from memdb.serve import plain, render
from memdb.serve.input import Given, Input, Refused, opened

MAX_TOLD: Final = 20  # refused lines of an input that are told one by one

Step = Callable[[Input, int], None]


class Adding:
    """Messages on their way into a memory, which is opened with the first one: bad input makes no file."""

    def __init__(
        self,
        memory: Callable[[], AbstractContextManager[Memory]],
        *,
        session: str,
        source: str,
        keep_ids: bool,
    ) -> None:
        self._open = memory
        self._session = session
        self._source = source
        self._keep_ids = keep_ids
        self._done: dict[str, Added] = {}
        self.lines_refused = 0
        self.inputs_refused = 0

    @property
    def done(self) -> list[Added]:
        """What was stored so far, a record for each session."""
        return list(self._done.values())

    def run(self, inputs: Sequence[str], *, ignore_unknown: bool, out: Console, form: str = "json") -> None:
        """Store what can be stored of all inputs, and tell what cannot on `out`.

        Everything that `done` counts is durable, also when an error or an interruption ends it early.
        """
        waiting: dict[str, list[Message]] = {}
        opening = partial(opened, ignore_unknown=ignore_unknown, form=form)
        with ExitStack() as stack:
            memory: Memory | None = None
            for given in stack.enter_context(closing(self._items(inputs, opening, out))):
                waiting.setdefault(given.session or self._session, []).append(given.message)
                if sum(map(len, waiting.values())) >= settings.ADD_BATCH_MESSAGES:
                    memory = memory or stack.enter_context(self._open())
                    self._flush(memory, waiting)
            if waiting:
                self._flush(memory or stack.enter_context(self._open()), waiting)

    def _items(
        self, inputs: Sequence[str], opening: Callable[[str], AbstractContextManager[Input]], out: Console
    ) -> Generator[Given, None, None]:
        with _progress(out) as step:
            for path in inputs:
                try:
                    with opening(path) as source:
                        yield from self._accepted(source, out, step)
                except InputError as error:
                    self._refuse(Refused("", error.message, error.hint, whole=True), out)

    def _accepted(self, source: Input, out: Console, step: Step) -> Iterator[Given]:
        before = self.lines_refused
        try:
            for count, item in enumerate(source.items(), 1):
                step(source, count)
                if isinstance(item, Given):
                    yield item
                else:
                    self._refuse(item, out, quiet=self.lines_refused - before >= MAX_TOLD)
        finally:
            if (untold := self.lines_refused - before - MAX_TOLD) > 0:
                render.tell(f"{source.name}: {render.many(untold, 'more line')} refused", out=out)

    def _refuse(self, refused: Refused, out: Console, *, quiet: bool = False) -> None:
        self.inputs_refused += refused.whole
        self.lines_refused += not refused.whole
        if quiet:
            return
        where = f"{refused.where}: " if refused.where else ""
        render.tell(where + refused.reason, refused.hint, out=out)

    def _flush(self, memory: Memory, waiting: dict[str, list[Message]]) -> None:
        for session, messages in waiting.items():
            self._count(memory.add(messages, session=session, source=self._source))
        waiting.clear()

    def _count(self, new: Added) -> None:
        before = self._done.get(new.session, Added(session=new.session, ids=()))
        self._done[new.session] = Added(
            session=new.session,
            ids=before.ids + new.ids if self._keep_ids else (),
            stored=before.stored + new.stored,
            known=before.known + new.known,
            units=before.units + new.units,
            conflicts=tuple(dict.fromkeys(before.conflicts + new.conflicts)),
        )


@contextmanager
def _progress(out: Console) -> Iterator[Step]:
    """A bar on a terminal, nothing elsewhere."""
    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]:,} messages"),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=out, disable=not out.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", name="", count=0, total=None)

        def step(source: Input, count: int) -> None:
            bar.update(
                task,
                name=plain.line(source.name),
                count=count,
                completed=source.position(),
                total=source.size,
            )

        yield step

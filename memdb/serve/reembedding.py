"""`memdb reembed`: a bar while vectors are made, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from memdb.records import Reembedded
from memdb.serve.plain import line
from memdb.serve.render import many

Tell = Callable[[Reembedded], None]


@contextmanager
def progress(out: Console) -> Iterator[Tell]:
    """A bar on a terminal with the time left; nothing elsewhere."""
    columns = (TextColumn("vectors"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, disable=not out.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done.done, total=done.vectors)


def reembedded(out: Console, done: Reembedded) -> None:
    """What a re-embedding did, in a line."""
    encoder = line(done.encoder)
    if not done.vectors and done.replaced is None:
        out.print(Text(f"nothing to do: every vector is of {encoder}"))
        return
    text = f"made {many(done.made, 'vector')} with {encoder}"
    if before := done.done - done.made:
        text += f"; {before:,} of before were kept"
    if done.replaced is not None:
        text += f"; those of {line(done.replaced)} are gone"
    out.print(Text(text))

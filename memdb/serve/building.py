"""`memdb build`: a bar while windows are made, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from memdb.records import Built
from memdb.serve.render import many

Tell = Callable[[Built], None]


@contextmanager
def progress(out: Console) -> Iterator[Tell]:
    """A bar on a terminal with tokens, refusals and the time left; nothing elsewhere."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}", style="dim"),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=out, disable=not out.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("windows", total=None, counts="")

        def tell(built: Built) -> None:
            tokens = built.prompt_tokens - built.cached_tokens + built.completion_tokens
            counts = f"{tokens:,} tokens, {sum(built.rejected.values()):,} refused"
            windows = built.done + built.failed + built.passed
            if built.traces and windows == built.windows:
                bar.update(
                    task, description="traces", completed=built.told, total=built.traces, counts=counts
                )
            else:
                bar.update(task, completed=windows, total=built.windows, counts=counts)

        yield tell


def built(out: Console, done: Built) -> None:
    """What a build did, in a few lines."""
    if not done.windows and not done.traces:
        waiting = (
            f"; {many(done.failed_before, 'window')} failed before: --retry" if done.failed_before else ""
        )
        out.print(Text(f"nothing to build{waiting}"))
        return
    out.print(Text(f"built {many(done.done, 'window')} of {done.windows:,}: {many(done.units, 'fact')}"))
    if done.rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in done.rejected.items())
        out.print(Text(f"refused: {reasons}"))
    if done.passed:
        out.print(Text(f"{many(done.passed, 'window')} changed meanwhile: build again", "yellow"))
    if done.traces:
        out.print(Text(f"told {done.trajectories:,} of {many(done.traces, 'trace')}"))
    if done.prompt_tokens:
        read = f"{done.prompt_tokens:,} tokens read ({done.cached_tokens:,} of them cached)"
        out.print(Text(f"{read}, {done.completion_tokens:,} written", "dim"))

"""How the command ends: an error of memdb is one line on stderr and an exit code, any other a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TextIO

import click

from memdb.errors import InputError, MemdbError, MemdbWarning
from memdb.serve.streams import Unread, guarded

FAILED: Final = 1  # the file, a model or stdout
BAD_INPUT: Final = 2
PROBLEMS: Final = 3  # found by verify
LINES_REFUSED: Final = 4
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


class Door(click.Group):
    """The command `memdb`; its commands return their exit code, None for 0."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and exit with the code."""
        run = partial(
            super().main,
            args,
            prog_name or "memdb",
            complete_var,
            standalone_mode=False,
            windows_expand_args=windows_expand_args,
            **extra,
        )
        _forget_no_width()
        with guarded():
            status = _ended(run)
        sys.exit(status or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; its exit code."""
        with _told_warnings():
            return _ended(partial(super().invoke, ctx))


def _ended(run: Callable[[], Any]) -> Any:
    """What `run` returns once stdout has all of it; or tell why not, and return the exit code."""
    try:
        status = run()
        sys.stdout.flush()
        return status
    except click.ClickException as error:
        tell(error.format_message().rstrip("."), _usage_hint(error))
        return BAD_INPUT
    except MemdbError as error:
        tell(error.message, error.hint)
        return BAD_INPUT if isinstance(error, InputError) else FAILED
    except Unread:
        return PIPE_CLOSED
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED


def tell(message: str, hint: str = "") -> None:
    """One line on stderr."""
    from memdb.serve import render

    render.tell(message, hint)


def _forget_no_width() -> None:
    """A COLUMNS that is 0 or no number is as none: rich prints nothing where there is no room."""
    columns = os.environ.get("COLUMNS", "80")
    if not columns.isdecimal() or int(columns) == 0:
        del os.environ["COLUMNS"]


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path} --help" if context else ""


@contextlib.contextmanager
def _told_warnings() -> Iterator[None]:
    """Show warnings of memdb in one line; those of others as Python does."""
    with warnings.catch_warnings():
        python_shows = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, MemdbWarning):
                tell(f"warning: {message}")
            else:
                python_shows(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", MemdbWarning)
        yield

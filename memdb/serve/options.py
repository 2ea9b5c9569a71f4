"""What commands have in common: their options, and how a file is opened for them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memdb import settings
from memdb.errors import MemdbWarning
from memdb.records import Scope

if TYPE_CHECKING:
    from memdb.memory import Memory

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
EVERYONE_OPTION = click.option("--everyone", is_flag=True, help="Read everyone's memory.")
ENCODER_OPTION = click.option(
    "--encoder", metavar="NAME", help="Name or folder of the encoder; else the embedded one."
)


def scope_options(command: F) -> F:
    """Whose memory it is about."""
    for part, of in (("run", "one run"), ("agent", "an agent"), ("user", "a user")):
        command = click.option(f"--{part}", metavar="NAME", help=f"The memory of {of}.")(command)
    return command


def model_options(command: F) -> F:
    """How a language model is run."""
    for option in (
        click.option(
            "--context", type=click.IntRange(min=512), metavar="N", help="Tokens of context to use."
        ),
        click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of a GGUF model."),
        click.option("--base-url", metavar="URL", help="Where an openai: model is served, if not by OpenAI."),
    ):
        command = option(command)
    return command


def scope_of(options: dict[str, Any]) -> Scope | str:
    """Whose memory the options name. Raises UsageError where they name somebody and everyone."""
    scope = Scope(options["user"], options["agent"], options["run"])
    if not options.get("everyone"):
        return scope
    if scope != Scope():
        raise click.UsageError("--everyone leaves no room for --user, --agent or --run")
    return "*"


def require_model(llm: str | None, options: dict[str, Any], names: Iterable[str]) -> None:
    """Raises UsageError for options of a model where none is named."""
    if llm is None and (alone := [name for name in names if options[name]]):
        raise click.UsageError(f"--{alone[0].replace('_', '-')} is for a model: name one with --llm")


def open_memory(
    file: Path, scope: Scope | str, *, writing: bool = False, create: bool = False, **models: Any
) -> Memory:
    """A memory, to be read unless it is for writing."""
    from memdb import opening

    return opening.open(file, scope=scope, read_only=not writing, create=create, **models)


def open_without_model(file: Path) -> Memory:
    """Everyone's memory, for what needs no model: a stand-in loads at once, and cannot be damaged."""
    from memdb.models.fakes import HashEncoder

    return open_silently(file, encoder=HashEncoder(), read_only=True)


def open_silently(file: Path, **options: Any) -> Memory:
    """Everyone's memory, whoever made its vectors."""
    from memdb import opening

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        return opening.open(file, scope="*", create=False, **options)


def stdin_text() -> str:
    """Standard input as UTF-8, or else as the console has it; no more of it than a question may be long."""
    from memdb.serve.input import STDIN_NAME, readable

    with readable(STDIN_NAME, hint="pipe the question in, or give it as an argument"):
        data = sys.stdin.buffer.read(4 * settings.MAX_QUESTION_CHARS + 4)
    try:
        return data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        return data.decode(sys.stdin.encoding, "replace").rstrip("\r\n")

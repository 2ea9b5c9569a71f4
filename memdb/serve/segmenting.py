"""`memdb history` and `memdb calibrate`: the raw history around a question, and what shapes its segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from memdb import settings
from memdb.serve.door import tell
from memdb.serve.options import (
    ENCODER_OPTION,
    EVERYONE_OPTION,
    JSON_OPTION,
    PATH,
    open_memory,
    open_silently,
    scope_of,
    scope_options,
    stdin_text,
)


@click.command(short_help="Print the raw history around a question.")
@click.argument("file", type=PATH)
@click.argument("question")
@click.option(
    "--budget", default=settings.HISTORY_TOKENS, show_default=True, metavar="N", help="Tokens at most."
)
@click.option("-k", default=settings.HISTORY_K, show_default=True, help="Messages that are looked up.")
@click.option("--at", metavar="TIME", help="When the question is asked, for words like yesterday.")
@click.option("--as-of", metavar="TIME", help="Leave out what was said later.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
@JSON_OPTION
def history(file: Path, question: str, budget: int, as_json: bool, **options: Any) -> None:
    """Print the messages of FILE around those that fit QUESTION best, oldest first, in segments of one topic
    and those linked to them. What was found by itself is marked with its rank. Tokens are estimated.
    """
    from memdb.serve import plain, render

    with open_memory(file, scope_of(options), encoder=options["encoder"]) as memory:
        found = memory.history(
            stdin_text() if question == "-" else question,
            options["k"],
            budget_tokens=budget,
            at=options["at"],
            as_of=options["as_of"],
        )
    if as_json:
        render.stdout_text(plain.as_json(found))
    elif found.segments:
        render.remembered(render.console(), found)
    else:
        tell("nothing found, or nothing that fits")


@click.command(short_help="Fit segments to an encoder.")
@click.argument("file", type=PATH)
@click.option(
    "--tokens",
    default=settings.HISTORY_TOKENS,
    show_default=True,
    metavar="N",
    help="Tokens that the history around a message should have.",
)
@click.option("-k", default=settings.CALIBRATION_K, show_default=True, help="Messages that it is of.")
@ENCODER_OPTION
@JSON_OPTION
def calibrate(file: Path, tokens: int, k: int, encoder: str | None, as_json: bool) -> None:
    """Find the likeness of messages at which segments of FILE end, and that of linked segments, and make all
    segments anew. What comes with memdb was measured for the embedded encoder: do it for another.
    """
    from memdb.serve import plain, render

    with open_silently(file, encoder=encoder) as memory:
        found = memory.calibrate(tokens, k=k)
    if as_json:
        render.stdout_text(plain.as_json(found))
    else:
        render.calibrated(render.console(), found)

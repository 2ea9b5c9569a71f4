"""The command `memdb`. What a command needs is imported when it runs: `memdb --help` starts at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memdb import settings
from memdb.errors import Damaged
from memdb.records import Added, Problem, Scope, Session, Verification
from memdb.serve.benching import bench
from memdb.serve.door import BAD_INPUT, INTERRUPTED, LINES_REFUSED, PROBLEMS, Door, tell
from memdb.serve.options import (
    ENCODER_OPTION,
    EVERYONE_OPTION,
    JSON_OPTION,
    PATH,
    model_options,
    open_memory,
    open_silently,
    open_without_model,
    require_model,
    scope_of,
    scope_options,
    stdin_text,
)
from memdb.serve.segmenting import calibrate, history
from memdb.version import __version__

if TYPE_CHECKING:
    from memdb.memory import Memory


@click.group(
    "memdb", cls=Door, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context) -> int | None:
    """Long-term memory for assistants in one SQLite file: give it conversations, ask it questions, offline.

    Exit codes: 0 done, 1 the file or a model cannot be used, 2 bad usage or input, 3 verify found problems,
    4 some lines or windows were refused and the others stored, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return BAD_INPUT
    return None


@commands.command(short_help="Store conversations.")
@click.argument("file", type=PATH)
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option(
    "--format", "form", type=click.Choice(["json", "facts"]), default="json", help="What INPUT is written in."
)
@click.option("--session", default="default", metavar="NAME", help="Session of messages that name none.")
@click.option("--source", default="", metavar="NAME", help="Where the conversation was imported from.")
@scope_options
@ENCODER_OPTION
@click.option("--ignore-unknown", is_flag=True, help="Leave out fields that a message does not have.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print what was stored as JSON, a line for each session."
)
def add(file: Path, inputs: tuple[str, ...], as_json: bool, form: str, **options: Any) -> int:
    """Store conversations in FILE, which is made if there is none.

    INPUT is a JSON file, or - for standard input: an array of messages, {"session": ..., "messages": [...]},
    {"sessions": [...]}, or JSON Lines with one message a line. A message is {"speaker": ..., "content": ...}
    and, if known, "said_at", "id", "role", "image_caption", "location"; outside a session also "session".
    With --format facts INPUT is a numbered list, a fact a line: "12. Ana lives in Porto."; its numbers are
    the clock.

    A JSON document or a list is taken whole or not at all. A line of JSON Lines that cannot be used does not
    lose the others: it is reported, and the exit code is 4. Messages whose id the session has already are not
    stored again.
    """
    from memdb.serve import render
    from memdb.serve.adding import Adding

    if not inputs and sys.stdin.isatty():
        raise click.UsageError("there is no INPUT: name a JSON file, or pipe one in")
    memory = partial(
        open_memory, file, scope_of(options), encoder=options["encoder"], writing=True, create=True
    )
    adding = Adding(memory, session=options["session"], source=options["source"], keep_ids=as_json)
    try:
        out = render.console(stderr=True)
        adding.run(inputs or ("-",), ignore_unknown=options["ignore_unknown"], form=form, out=out)
    except BaseException:
        if adding.done:
            _print_added(adding.done, as_json)
        raise
    _print_added(adding.done or [Added(session=options["session"], ids=())], as_json)
    return BAD_INPUT if adding.inputs_refused else LINES_REFUSED if adding.lines_refused else 0


def _print_added(done: list[Added], as_json: bool) -> None:
    from memdb.serve import plain, render

    if not as_json:
        render.added(render.console(), done)
        return
    for one in done:
        render.stdout_text(plain.as_json(one, indent=None))


@commands.command(short_help="Let a language model make the facts.")
@click.argument("file", type=PATH)
@click.option("--llm", metavar="MODEL", help="A GGUF file, or openai:NAME; else rules make the facts.")
@model_options
@click.option("--session", metavar="NAME", help="This session alone.")
@click.option("--source", default="", metavar="NAME", help="Where the session was imported from.")
@click.option("--retry", is_flag=True, help="Also the windows that failed before.")
@click.option("--redo", is_flag=True, help="Also those that failed, or that another model has built.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
@JSON_OPTION
def build(file: Path, llm: str | None, as_json: bool, **options: Any) -> int:
    """Make the facts of FILE with a language model, in place of those that rules made when it was added to.

    It goes window by window and may be stopped at any moment: called again, it goes on. What the model says
    is checked against the messages: `memdb show --windows` shows what was refused. With openai: messages are
    sent to the endpoint; its key is read from MEMDB_API_KEY or OPENAI_API_KEY.

    Exits with 4 when windows stand as failed: they keep the facts they had.
    """
    from memdb.serve import asking, building, plain, render

    require_model(llm, options, ("base_url", "threads", "context", "retry"))
    with ExitStack() as stack:
        backbone = stack.enter_context(asking.backbone(llm, options))
        memory = stack.enter_context(
            open_memory(file, scope_of(options), encoder=options["encoder"], writing=True)
        )
        tell_progress = stack.enter_context(building.progress(render.console(stderr=True)))
        picked = {name: options[name] for name in ("session", "source", "retry", "redo")}
        done = memory.build(backbone, **picked, progress=tell_progress)
    if as_json:
        render.stdout_text(plain.as_json(done))
    else:
        building.built(render.console(), done)
    return LINES_REFUSED if done.failed or done.failed_before else 0


@commands.command(short_help="Make all vectors anew.")
@click.argument("file", type=PATH)
@ENCODER_OPTION
@JSON_OPTION
def reembed(file: Path, encoder: str | None, as_json: bool) -> int:
    """Make the vectors of FILE anew, where another encoder made them, and those that are missing.

    It may be stopped at any moment: called again, it goes on. Until it is finished FILE is searched as
    before, and may be added to. Then programs that use the encoder of before search it by words alone.
    """
    from memdb.serve import plain, reembedding, render

    try:
        with (
            open_silently(file, encoder=encoder) as memory,
            reembedding.progress(render.console(stderr=True)) as tell_progress,
        ):
            done = memory.reembed(progress=tell_progress)
    except KeyboardInterrupt:
        tell("interrupted", "what was made is kept: called again, it goes on")
        return INTERRUPTED
    if as_json:
        render.stdout_text(plain.as_json(done))
    else:
        reembedding.reembedded(render.console(), done)
    return 0


@commands.command(short_help="Find the evidence for a question.")
@click.argument("file", type=PATH)
@click.argument("question")
@click.option("-k", default=settings.TOP_K, show_default=True, help="How many pieces of evidence at most.")
@click.option("--at", metavar="TIME", help="When the question is asked, for words like yesterday.")
@click.option("--as-of", metavar="TIME", help="Leave out what was said later.")
@click.option("--channels", metavar="A,B", help="Search with these channels alone.")
@click.option("--neighbours", default=0, metavar="N", help="Show N messages on each side of each.")
@click.option("--rerank-depth", type=int, metavar="N", help="Rerank the first N candidates; 0 for none.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
@click.option("--explain", is_flag=True, help="Show the place and score each channel gave.")
@JSON_OPTION
def recall(file: Path, question: str, explain: bool, as_json: bool, **options: Any) -> None:
    """Print the evidence in FILE for QUESTION, best first; - reads the question from standard input."""
    from memdb.serve import plain, render

    channels = options["channels"]
    with open_memory(file, scope_of(options), encoder=options["encoder"]) as memory:
        found = memory.recall(
            stdin_text() if question == "-" else question,
            options["k"],
            at=options["at"],
            as_of=options["as_of"],
            neighbours=options["neighbours"],
            rerank_depth=options["rerank_depth"],
            channels=None if channels is None else [name.strip() for name in channels.split(",")],
        )
    if as_json:
        render.stdout_text(plain.as_json(found))
    elif found:
        render.recalled(render.console(), found, explain=explain)
    else:
        tell("nothing found")


@commands.command(short_help="Answer a question, with its sources.")
@click.argument("file", type=PATH)
@click.argument("question")
@click.option("--llm", metavar="MODEL", help="A GGUF file, or openai:NAME; else a span is the answer.")
@model_options
@click.option("--graph", type=PATH, metavar="FOLDER", help="Graph encoder of the model.")
@click.option("--text-only", is_flag=True, help="Leave the graph token out.")
@click.option(
    "--method",
    type=click.Choice(["qgmem", "defermem", "both"]),
    default="qgmem",
    show_default=True,
    help="What the answer rests on: the working memory, distilled raw history, or both.",
)
@click.option(
    "--distiller", metavar="MODEL", help="Of --method: folder or GGUF file of a distiller; else rules distil."
)
@click.option(
    "--budget", default=settings.CONTEXT_TOKENS, show_default=True, metavar="N", help="Tokens of memory."
)
@click.option("-k", default=settings.TOP_K, show_default=True, help="How many pieces of evidence at most.")
@click.option("--at", metavar="TIME", help="When the question is asked, for words like yesterday.")
@click.option("--as-of", metavar="TIME", help="Leave out what was said later.")
@click.option("--no-sources", is_flag=True, help="Print the answer alone.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
@JSON_OPTION
def ask(file: Path, question: str, llm: str | None, as_json: bool, **options: Any) -> None:
    """Answer QUESTION from FILE, and show the messages the answer rests on; - reads the question from
    standard input.

    Without a language model the answer is the words of the evidence that fit the question. With openai:
    evidence is sent to the endpoint; its key is read from MEMDB_API_KEY or OPENAI_API_KEY.
    """
    from memdb.serve import asking, render

    require_model(llm, options, ("base_url", "threads", "context", "graph", "text_only"))
    text = stdin_text() if question == "-" else question
    if options["distiller"] and options["method"] == "qgmem":
        raise click.UsageError("--distiller is for history: ask by --method defermem or both")
    how = {name: options[name] for name in ("method", "k", "at", "as_of")}
    how |= {"budget_tokens": options["budget"]}
    how |= {"graph_mode": "text"} if options["text_only"] else {}
    with (
        asking.backbone(llm, options) as model,
        open_memory(
            file,
            scope_of(options),
            encoder=options["encoder"],
            backbone=model,
            graph_encoder=options["graph"],
            distiller=options["distiller"],
        ) as memory,
    ):
        if as_json:
            asking.answered_in_json(memory, text, **how)
        else:
            asking.answered(render.console(), memory, text, sources=not options["no_sources"], **how)


@commands.command(short_help="Print what a model needs to answer.")
@click.argument("file", type=PATH)
@click.argument("question")
@click.option(
    "--budget", default=settings.CONTEXT_TOKENS, show_default=True, metavar="N", help="Tokens at most."
)
@click.option("-k", default=settings.TOP_K, show_default=True, help="How many pieces of evidence at most.")
@click.option("--at", metavar="TIME", help="When the question is asked, for words like yesterday.")
@click.option("--as-of", metavar="TIME", help="Leave out what was said later.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
def context(file: Path, question: str, budget: int, **options: Any) -> None:
    """Print the evidence in FILE for QUESTION as text for a language model's prompt, marked as quoted data.

    Evidence stands in clusters with the history of what they tell of, then facts. Tokens are estimated.
    """
    from memdb.serve import plain, render

    with open_memory(file, scope_of(options), encoder=options["encoder"]) as memory:
        text = memory.context(
            stdin_text() if question == "-" else question,
            budget,
            k=options["k"],
            at=options["at"],
            as_of=options["as_of"],
        )
    if text:
        render.stdout_text(plain.block(text))
    else:
        tell("nothing found, or nothing that fits")


@commands.command(short_help="Show how something changed.")
@click.argument("file", type=PATH)
@click.argument("relation")
@click.option("--as-of", metavar="TIME", help="Leave out what was said later.")
@click.option("--update", is_flag=True, help="First let traces know of every claim.")
@scope_options
@EVERYONE_OPTION
@ENCODER_OPTION
@JSON_OPTION
def trace(file: Path, relation: str, as_of: str | None, update: bool, as_json: bool, **options: Any) -> None:
    """Print how RELATION changed in FILE and what holds now, as in "Ana lives in" or "the capital of France".

    A name alone, as in "Ana", gives all that changed about it.
    """
    from memdb.serve import plain, render

    scope = scope_of(options)
    if update:
        with open_memory(file, scope, encoder=options["encoder"], writing=True) as memory:
            memory.update_traces()
    with open_memory(file, scope, encoder=options["encoder"]) as memory:
        found = memory.trace(relation, as_of=as_of)
    if as_json:
        render.stdout_text(plain.as_json(found))
    elif found:
        render.traced(render.console(), found)
    else:
        tell("nothing found")


@commands.command(short_help="Show what a file holds.")
@click.argument("file", type=PATH)
@click.argument("session", required=False)
@click.option("--source", default="", metavar="NAME", help="Where the session was imported from.")
@click.option("--windows", is_flag=True, help="Show how facts were made, and what was refused.")
@scope_options
@EVERYONE_OPTION
@JSON_OPTION
def show(file: Path, session: str | None, source: str, windows: bool, as_json: bool, **options: Any) -> None:
    """Print what FILE holds, or the messages of one SESSION, or the windows its facts were made in.

    Sessions are listed for one scope: those of nobody in particular, unless a user, agent or run is named.
    """
    from memdb.serve import plain, render

    with open_without_model(file) as memory:
        if windows:
            found = memory.windows(session, source=source, scope=scope_of(options))
            if as_json:
                render.stdout_text(plain.as_json(found))
            else:
                render.windows(render.console(), found)
            return
        if session is None:
            _overview(memory, scope_of(options), as_json)
            return
        messages = memory.messages(session, source=source, scope=scope_of(options))
    if as_json:
        render.stdout_text(plain.as_json(messages))
    else:
        render.conversation(render.console(), messages)


def _overview(memory: Memory, scope: Scope | str, as_json: bool) -> None:
    from memdb.serve import plain, render

    about = memory.about()
    everything, listed = memory.sessions(), memory.sessions(scope=scope)
    path, scopes = str(memory.path), _messages_byscope_of(everything)
    if not as_json:
        render.overview(render.console(), path, render.facts(about), scopes, listed)
        return
    whose = [{"scope": one, "sessions": n, "messages": messages} for one, (n, messages) in scopes.items()]
    render.stdout_text(plain.as_json({"path": path, "about": about, "scopes": whose, "sessions": listed}))


def _messages_byscope_of(sessions: Iterable[Session]) -> dict[Scope, tuple[int, int]]:
    """How many sessions and messages each scope has."""
    found: dict[Scope, tuple[int, int]] = {}
    for session in sessions:
        count, messages = found.get(session.scope, (0, 0))
        found[session.scope] = (count + 1, messages + session.messages)
    return found


@commands.command(short_help="Check that a file is sound.")
@click.argument("file", type=PATH)
@JSON_OPTION
def verify(file: Path, as_json: bool) -> int:
    """Check that FILE is sound: print each problem on a line, and exit with 3 if there is any."""
    from memdb.serve import plain, render

    try:
        with open_without_model(file) as memory:
            found = memory.verify()
    except Damaged as error:
        found = Verification(counts={}, problems=(Problem("open", error.message),))
    if as_json:
        render.stdout_text(plain.as_json(found))
    else:
        render.verified(render.console(), found)
    return 0 if found.ok else PROBLEMS


commands.add_command(history)
commands.add_command(calibrate)
commands.add_command(bench)


def main() -> None:
    """The entry point."""
    commands()

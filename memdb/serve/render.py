"""What people see. Nothing from a memory is read as markup, and lines are wrapped on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from memdb import settings
from memdb.records import (
    About,
    Added,
    Calibrated,
    Evidence,
    History,
    Interval,
    Message,
    Query,
    Scope,
    Session,
    Trace,
    Verification,
    Window,
    WorkingMemory,
)
from memdb.serve.plain import block, line

INDENT = 4
MAX_LISTED = 20  # conflicting ids, and refusals of a window
_STATES = {"done": "green", "rules": "", "pending": "yellow", "failed": "red"}
MIN_WIDTH = 20  # columns, whatever a terminal or COLUMNS says: rich leaves out what has no room


def console(*, stderr: bool = False) -> Console:
    """Colours on a terminal unless NO_COLOR says otherwise; elsewhere lines of any length."""
    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    out.soft_wrap = not out.is_terminal
    if out.width < MIN_WIDTH:
        out.width = MIN_WIDTH
    return out


def tell(message: str, hint: str = "", *, out: Console | None = None) -> None:
    """One line on stderr."""
    text = Text.assemble(("memdb: ", "bold"), line(message), (f"; hint: {line(hint)}" if hint else "", "dim"))
    (out or console(stderr=True)).print(text, soft_wrap=True)


def added(out: Console, done: Sequence[Added]) -> None:
    """What an add did, over all sessions."""
    stored, known, units = (
        sum(counts) for counts in zip(*((a.stored, a.known, a.units) for a in done), strict=True)
    )
    sessions = sum(bool(one.stored) for one in done)
    text = f"stored {many(stored, 'new message')}"
    text += f" in {many(sessions, 'session')}, with {many(units, 'fact')}" if stored else ""
    out.print(Text(f"{text}; {known:,} known already" if known else text))
    if ids := [id for one in done for id in one.conflicts]:
        listed = ", ".join(map(line, ids[:MAX_LISTED])) + (", …" if len(ids) > MAX_LISTED else "")
        out.print(
            Text(f"{many(len(ids), 'message')} known with other content, kept as it was: {listed}", "yellow")
        )


def recalled(out: Console, memory: WorkingMemory, *, explain: bool) -> None:
    """Evidence, best first; `explain` adds how the question was understood and what each channel found."""
    if explain:
        _understood(out, memory.query)
    if memory.answerable is not None and (explain or memory.answerable < settings.ABSTAIN_BELOW):
        seems = "holds" if memory.answerable >= settings.ABSTAIN_BELOW else "does not seem to hold"
        out.print(Text(f"the memory {seems} the answer (probability {memory.answerable:.2f})", "yellow"))
    for evidence in memory:
        _evidence(out, evidence, explain=explain)


def _understood(out: Console, query: Query) -> None:
    parts = [f"entity {line(name)}" for name in query.entities]
    parts += [f"place {line(name)}" for name in query.locations]
    parts += [f"{time.kind} time {interval(time.interval)}" for time in query.times]
    out.print(Text(f"asked about: {', '.join(parts) or 'nothing in particular'}", "dim"))


def _evidence(out: Console, evidence: Evidence, *, explain: bool) -> None:
    head = Text(f"{evidence.rank:>2}. ", "bold")
    head.append(line(evidence.speaker), "bold cyan")
    if evidence.said_at:
        head.append(f", {line(evidence.said_at)}")
    head.append(f"  (score {evidence.score:.4f})", "dim")
    out.print(head)
    _indented(out, Text(block(evidence.text)))
    for unit in evidence.facts:
        times = ", ".join(interval(time) for time in unit.fact_time)
        text = f"fact: {line(unit.fact_text)}" + (f" ({times})" if times else "")
        _indented(out, Text(text + ("; replaced later" if unit.current is False else ""), "green"))
    for message in evidence.neighbours:
        _indented(out, Text(f"{line(message.speaker)}: {line(message.content)}  [{line(message.id)}]", "dim"))
    ids = ", ".join(line(message.id) for message in evidence.source)
    _indented(out, Text(f"source: {ids} in session {line(evidence.session)}", "dim"))
    if explain:
        for channel, hit in evidence.channels.items():
            _indented(out, Text(f"{channel}: rank {hit.rank}, score {hit.score:.4g}", "dim"))


def traced(out: Console, found: Sequence[Trace]) -> None:
    """How each relation changed, oldest first, and what holds now."""
    for trace in found:
        out.print(Text(line(trace.relation_text), "bold cyan"))
        for state in trace.states:
            said = f"{line(state.said_at)}  " if state.said_at else ""
            ids = ", ".join(map(line, state.source_ids))
            text = Text(f"{said}{line(state.fact_text)}", "green" if state.current else "")
            _indented(out, text.append(f"  [{ids}]", "dim"))
        holding = "latest" if any(state.current is None for state in trace.states) else "now"
        _indented(out, Text(f"{holding}: {line(trace.current.fact_text)}", "bold"))


def conversation(out: Console, messages: Sequence[Message]) -> None:
    """The messages of one session."""
    for message in messages:
        head = Text(line(message.speaker), "bold cyan")
        parts = [str(message.said_at or ""), message.role or "", message.location or ""]
        head.append("".join(f", {line(part)}" for part in parts if part))
        head.append(f"  [{line(message.id)}]", "dim")
        out.print(head)
        _indented(out, Text(block(message.content)))
        if message.image_caption:
            _indented(out, Text(f"image: {line(message.image_caption)}", "dim"))


def overview(
    out: Console,
    path: str,
    facts: Sequence[str],
    scopes: dict[Scope, tuple[int, int]],
    sessions: Sequence[Session],
) -> None:
    """A file: what made it, whose it is, and the sessions of the scope that was asked for."""
    out.print(Text(line(path), "bold"))
    for fact in facts:
        _indented(out, Text(line(fact)))
    for scope, (count, messages) in scopes.items():
        _indented(out, Text(f"{scope_name(scope)}: {many(count, 'session')}, {many(messages, 'message')}"))
    for session in sessions:
        head = Text(line(session.name), "bold cyan")
        head.append(f"  {many(session.messages, 'message')}")
        if session.first_said:
            head.append(f", {_span(session)}", "dim")
        head.append(f", from {line(session.source)}" if session.source else "", "dim")
        head.append(f", {scope_name(session.scope)}" if session.scope != Scope() else "", "dim")
        out.print(head)


def windows(out: Console, found: Sequence[Window]) -> None:
    """How the facts of each window were made, and what its checks refused."""
    for window in found:
        head = Text(f"{line(window.session)} {window.number}", "bold cyan")
        head.append(f"  messages {window.first + 1}-{window.end}, new from {window.new + 1}", "dim")
        out.print(head)
        text = Text(f"{window.state}: {many(window.units, 'fact')}", _STATES.get(window.state, "red"))
        text.append(f", made by {line(window.made_by or 'nobody')}", "dim")
        if window.attempts > 1:
            text.append(f", {window.attempts:,} attempts", "dim")
        _indented(out, text)
        if window.error:
            _indented(out, Text(f"error: {line(window.error)}", "red"))
        for one in window.rejections[:MAX_LISTED]:
            told = f"refused {one.stage}, {line(one.reason)}: {line(one.detail or '')}"
            _indented(out, Text(told, "yellow"))
        if (more := len(window.rejections) - MAX_LISTED) > 0:
            _indented(out, Text(f"and {more:,} more: --json shows them", "yellow"))


def verified(out: Console, found: Verification) -> None:
    """Problems one per line, then warnings; or that there are none; then what searches the file."""
    for problem in found.problems:
        out.print(Text(f"{line(problem.check)}: {line(problem.detail)}", "red"))
    for warning in found.warnings:
        out.print(Text(f"warning: {line(warning)}", "yellow"))
    if found.ok:
        counts = ", ".join(f"{count:,} {line(name)}" for name, count in found.counts.items())
        out.print(Text(f"sound: {counts}" if counts else "sound"))
    if found.search:
        out.print(Text(f"search: {line(found.search)}"))


def scope_name(scope: Scope) -> str:
    """A scope in words."""
    parts = {"user": scope.user, "agent": scope.agent, "run": scope.run}
    return ", ".join(f"{part} {line(name)}" for part, name in parts.items() if name) or "nobody in particular"


def interval(time: Interval) -> str:
    """A range of days in words."""
    if time.start == time.end:
        return time.start.isoformat()
    return f"{time.start.isoformat()} to {time.end.isoformat()}, a {time.granularity}"


def stdout_text(text: str) -> None:
    """Text that is safe already, as it is."""
    sys.stdout.write(f"{text}\n")


def _span(session: Session) -> str:
    first, last = line(session.first_said), line(session.last_said or session.first_said)
    return first if first == last else f"{first} to {last}"


def _indented(out: Console, text: Text) -> None:
    if not out.soft_wrap:
        out.print(Padding(text, (0, 0, 0, INDENT)))
        return
    for one in text.split("\n", allow_blank=True):
        out.print(Text(" " * INDENT).append_text(one))


def many(count: int, noun: str) -> str:
    """A count and what it counts."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def facts(about: About) -> list[str]:
    """What made a file and how much it holds, in words."""
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in about.counts.items() if count)
    return [
        f"format {about.format}, made by memdb {about.memdb_version}",
        f"encoder {about.encoder_name}, {about.encoder_dimension} components, sha256 {about.encoder_sha256}",
        f"rows: {counts}",
    ]


def remembered(out: Console, found: History) -> None:
    """The raw history around a question, a segment after the other."""
    for segment in found.segments:
        first = segment.utterances[0]
        head = Text(line(first.session), "dim")
        if first.message.said_at:
            head.append(f", {line(str(first.message.said_at))}", "dim")
        out.print(head.append(" (linked)" if segment.linked else "", "dim"))
        for one in segment.utterances:
            text = Text(f"{one.rank or '':>5} ", "dim").append(line(one.message.speaker), "cyan")
            out.print(text.append(f": {line(one.message.text)}"))
    told = f"{many(len(found.utterances), 'message')}, about {many(found.tokens, 'token')}"
    out.print(Text(f"{told}; more were left out" if found.truncated else told, "dim"))


def calibrated(out: Console, found: Calibrated) -> None:
    """What a calibration found, in a line."""
    told = (
        f"segments end below {found.threshold:.2f} and are linked from {found.link_threshold:.2f} on: "
        f"{many(found.messages, 'message')} in {many(found.segments, 'segment')}, about "
        f"{many(found.tokens, 'token')} around one"
    )
    out.print(Text(told))

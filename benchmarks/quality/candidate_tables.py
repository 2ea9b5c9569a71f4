"""The DeferMem figures of a run as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .candidates import BINS, Sifting
from .figures import OVERALL, Estimate, Row
from .histories import MODEL
from .report import Report, by_category, gain, heading, new_table, shares

RECALLS: Final = ("Recall-01", "Recall", "Recall-01, answerable", "Recall, answerable")
SIZES: Final = ("candidate tokens", "messages", "segments")
CUTS: Final = ("of the history", "truncated")
EVIDENCE: Final = (
    "useful recall",
    "useful precision",
    "precision, answerable",
    "empty where nothing answers",
)
STAGES: Final = ("retrieval miss", "distillation error", "rest")
FORM: Final = ("valid", "ids valid")
NOTES: Final = (
    "(a): of questions with an answer; gold of the others are the turns that tempt",
    "told of: by message ids; nothing is gold where nothing answers, and empty",
    "counts those questions of which nothing is told",
    "miss: gold is not all in the candidates; error: it is, but not all is told of;",
    "rest: all is told of. By ids, of questions with an answer: this stands in for",
    "the judge of the paper's classes",
)


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: candidates and their size, categories, what was distilled, where gold was lost, and
    the grid, if there is one.
    """
    sifting = result.sifting or Sifting()
    console.print(_recalls(result))
    console.print(_sizes(result))
    console.print(by_category(result, categories, *result.shown.grouped))
    rows = [row for row in sifting.distilled if row.group == OVERALL]
    if rows:
        console.print(_evidence(rows))
        console.print(_sizes_of_evidence(rows))
        console.print(_entries(sifting))
        console.print(_stages(rows))
    if by_model := [row for row in rows if row.retriever.endswith(MODEL)]:
        console.print(_form(by_model))
    if sifting.grid:
        console.print(_grid(result, sifting))
    console.print(Text("\n".join(NOTES), style="dim"))


def _recalls(result: Report) -> Table:
    heads = [name.replace(", answerable", " (a)") for name in RECALLS]
    more = gain(result)
    table = new_table(heading(result, "gold in the candidates"), "entry", *heads, *more)
    for row in result.main:
        cells = shares(result.main, row, RECALLS)
        table.add_row(row.retriever, *cells, *(cell(row) for cell in more.values()))
    return table


def _sizes(result: Report) -> Table:
    title = "size of the candidates, per question"
    table = new_table(title, "entry", "tokens", *SIZES[1:], *(f"{name} %" for name in CUTS), "median ms")
    for row in result.main:
        cells = [_plain(row.figures.get(name), digits=0) for name in SIZES]
        cuts = [_plain(row.figures.get(name), 100) for name in CUTS]
        table.add_row(row.retriever, *cells, *cuts, f"{row.median_ms:.0f}")
    return table


def _evidence(rows: Sequence[Row]) -> Table:
    heads = "recall", "precision", "precision (a)", "empty"
    table = new_table("messages told of, by gold, %", "distilled by", *heads)
    for row in rows:
        table.add_row(row.retriever, *shares(rows, row, EVIDENCE))
    return table


def _sizes_of_evidence(rows: Sequence[Row]) -> Table:
    heads = "entries", "tokens", "compression", "faithful %", "median s"
    table = new_table("evidence, per question", "distilled by", *heads)
    for row in rows:
        of = row.figures.get
        table.add_row(
            row.retriever,
            _plain(of("entries")),
            _plain(of("evidence tokens"), digits=0),
            _plain(of("compression"), digits=1, sign="×"),
            _plain(of("faithful"), 100),
            f"{row.median_ms / 1000:.2f}",
        )
    return table


def _form(rows: Sequence[Row]) -> Table:
    table = new_table("replies of a model, %", "distilled by", *FORM)
    for row in rows:
        table.add_row(row.retriever, *(_plain(row.figures.get(name), 100) for name in FORM))
    return table


def _entries(sifting: Sifting) -> Table:
    table = new_table("pieces of evidence of a question: % of the questions", "distilled by", *BINS)
    for name, counts in sifting.entries.items():
        asked = sum(counts.values())
        table.add_row(name, *(f"{100 * counts[one] / asked:.1f}" for one in BINS))
    return table


def _stages(rows: Sequence[Row]) -> Table:
    table = new_table("where gold is lost, % of the questions", "distilled by", *STAGES)
    for row in rows:
        table.add_row(row.retriever, *(_plain(row.figures.get(name), 100) for name in STAGES))
    return table


def _grid(result: Report, sifting: Sifting) -> Table:
    rule = result.facts.settings["SEGMENT_RULE"]
    title = f"{result.title}: segments cut at τ1 ({rule}), linked at τ2; no budget"
    cells: dict[str, Callable[[Mapping[str, Estimate]], Text]] = {
        "messages/segment": lambda one: _plain(one.get("messages per segment")),
        "Recall-01": lambda one: _plain(one.get("Recall-01"), 100),
        "Recall": lambda one: _plain(one.get("Recall"), 100),
        "tokens": lambda one: _plain(one.get("candidate tokens"), digits=0),
    }
    table = new_table(title, "entry", "τ1", "τ2", *cells)
    for row in sifting.grid:
        shown = (cell(row.figures) for cell in cells.values())
        table.add_row(row.entry, f"{row.tau1:g}", f"{row.tau2:g}", *shown)
    return table


def _plain(estimate: Estimate | None, times: float = 1, *, digits: int = 1, sign: str = "") -> Text:
    """A number above its interval."""
    if estimate is None:
        return Text("–", style="dim")
    text = Text(f"{sign}{times * estimate.value:.{digits}f}")
    if estimate.low is None or estimate.high is None:
        return text
    low, high = (f"{times * end:.{digits if times == 1 else 0}f}" for end in (estimate.low, estimate.high))
    return text.append(f"\n{low}–{high}", style="dim")

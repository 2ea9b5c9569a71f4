"""A run as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .bootstrap import RESAMPLES
from .evaluate import (
    OVERALL,
    Cluster,
    Estimate,
    Outcome,
    Row,
    by_conversation,
    gains,
    median_milliseconds,
    summarise,
)
from .results import Facts

MESSAGE_FIGURES: Final = ("R@5", "R@10", "R@100", "any@10", "all@10", "nDCG@10")
QGMEM_FIGURES: Final = ("QGMem R@10", "QGMem P@10", "QGMem Suff@10", "QGMem order-nDCG@10")
GROUP_FIGURES: Final = ("all@10", "R@10", "nDCG@10", "stale first")
CATEGORY_FIGURES: Final = ("R@10", "nDCG@10")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to say; shares in [0, 1], times in milliseconds per question (median).

    `gains` are differences to `baseline` over all questions, by retriever and figure; `unscored` counts the
    questions without gold by category; `resampled` says what the intervals are over.
    """

    facts: Facts
    rows: list[Row]
    baseline: str
    gains: dict[str, dict[str, Estimate]]
    milliseconds: dict[str, float]
    unscored: dict[str, int] = {}
    resampled: str = "conversations"

    @property
    def overall(self) -> list[Row]:
        """One row per retriever, over all questions."""
        return [row for row in self.rows if row.group == OVERALL]


def report(
    facts: Facts,
    outcomes: Sequence[Outcome],
    baseline: str,
    unscored: Mapping[str, int] | None = None,
    by: Cluster = by_conversation,
) -> Report:
    """Figures, intervals (over what `by` says) and gains over `baseline`, computed from the outcomes."""
    return Report(
        facts=facts,
        rows=summarise(outcomes, by),
        baseline=baseline,
        gains=gains(outcomes, baseline, by),
        milliseconds=median_milliseconds(outcomes),
        unscored=dict(unscored or {}),
        resampled="conversations" if by is by_conversation else "questions",
    )


def to_json(result: Report) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: messages, QGMem's protocol, categories, and what stands behind them."""
    console.print(_messages(result))
    console.print(_qgmem(result))
    console.print(_by_category(result, categories))
    console.print(_footing(result))


def show_groups(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print a table for each category, every retriever a row with its figures and times."""
    for group in dict.fromkeys(row.group for row in result.rows if row.group != OVERALL):
        rows = [row for row in result.rows if row.group == group]
        title = f"{categories.get(int(group), group)}: {rows[0].questions} questions, "
        title += f"{result.unscored.get(group, 0)} more without gold, %"
        table = _table(title, "retriever", *GROUP_FIGURES, "ms", "mean ms")
        for row in rows:
            cells = _shares(rows, row, [name for name in GROUP_FIGURES if name != "stale first"])
            times = f"{row.median_ms:.1f}", f"{row.mean_ms:.1f}"
            table.add_row(row.retriever, *cells, _cell(row.figures["stale first"]), *times)
        console.print(table)
    console.print(_footing(result))


def _table(title: str, *columns: str) -> Table:
    """A table that fits 80 characters; the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _cell(estimate: Estimate, style: str = "") -> Text:
    """`61.2` above its interval, in percent."""
    text = Text(f"{100 * estimate.value:.1f}", style=style)
    if estimate.low is None or estimate.high is None:
        return text
    return text.append(f"\n{100 * estimate.low:.0f}–{100 * estimate.high:.0f}", style="dim not bold")


def _difference(estimate: Estimate) -> Text:
    """`+3.1` above its interval; dim if the interval holds 0."""
    low, high = estimate.low or 0.0, estimate.high or 0.0
    text = Text(f"{100 * estimate.value:+.1f}", style="dim" if low <= 0 <= high else "bold")
    return text.append(f"\n{100 * low:+.1f}…{100 * high:+.1f}", style="dim not bold")


def _best(rows: Sequence[Row], figure: str) -> float:
    return max(row.figures[figure].value for row in rows)


def _shares(rows: Sequence[Row], row: Row, figures: Sequence[str]) -> list[Text]:
    """The cells of one retriever, the best of each column bold."""
    return [
        _cell(row.figures[one], "bold" if row.figures[one].value == _best(rows, one) else "")
        for one in figures
    ]


def _messages(result: Report) -> Table:
    rows = result.overall
    title = f"{result.facts.benchmark}: messages found, {rows[0].questions} questions, %"
    table = _table(title, "retriever", *MESSAGE_FIGURES, "nDCG gain")
    for row in rows:
        gain = result.gains.get(row.retriever)
        last = _difference(gain["nDCG@10"]) if gain else Text("baseline")
        table.add_row(row.retriever, *_shares(rows, row, MESSAGE_FIGURES), last)
    return table


def _qgmem(result: Report) -> Table:
    rows = result.overall
    figures = [name.removeprefix("QGMem ") for name in QGMEM_FIGURES]
    table = _table("QGMem's protocol, judged by message ids, %", "retriever", *figures, "tokens", "ms")
    for row in rows:
        table.add_row(
            row.retriever,
            *_shares(rows, row, QGMEM_FIGURES),
            f"{row.figures['context tokens'].value:.0f}",
            f"{result.milliseconds[row.retriever]:.1f}",
        )
    return table


def _by_category(result: Report, categories: Mapping[int, str]) -> Table:
    names = [row.retriever for row in result.overall]
    cells = {(row.group, row.retriever): row for row in result.rows if row.group != OVERALL}
    table = _table(f"by category: {' / '.join(CATEGORY_FIGURES)}, %", "category", "n", *names)
    for group in dict.fromkeys(group for group, _ in cells):
        rows = [cells[group, name] for name in names]
        table.add_row(
            f"{group} {categories.get(int(group), '')}".strip(),
            str(rows[0].questions),
            *(" / ".join(f"{100 * row.figures[one].value:.1f}" for one in CATEGORY_FIGURES) for row in rows),
        )
    return table


def _footing(result: Report) -> Text:
    facts = result.facts
    models = ", ".join(f"{name} {digest[:8]}" for name, digest in facts.models.items()) or "no model"
    machine = facts.machine
    lines = [
        f"memdb {facts.memdb_version}, code {facts.code_sha256[:8]}, data {facts.data_sha256[:8]}; {models}",
        f"{facts.conversations} conversations, {facts.messages} messages added in {facts.add_seconds:.1f} s, "
        f"{facts.seconds:.0f} s in all; left out without gold: {facts.unscored}",
        f"intervals: 95 %, {RESAMPLES:,} resamples of {result.resampled}; gain: over {result.baseline}",
        f"tokens: ten best texts, {facts.tokenizer}; ms: median per question",
        f"{machine.processor}, {machine.cores} cores, python {machine.python}, sqlite {machine.sqlite}",
    ]
    return Text("\n".join(lines), style="dim")

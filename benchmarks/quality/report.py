"""A run as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .abstention import Abstention, abstention
from .answer_figures import Answers
from .bootstrap import RESAMPLES
from .candidates import Sifting
from .columns import ABLATIONS, HYBRID, depth_of
from .evaluate import Run
from .figures import (
    MESSAGES,
    OVERALL,
    Estimate,
    Figures,
    Row,
    Shown,
    gains,
    median_milliseconds,
    ratios,
    summarise,
)
from .results import Facts

BASELINE: Final = "bm25-stemmed"  # the one to beat
QGMEM_FIGURES: Final = ("QGMem R@10", "QGMem P@10", "QGMem Suff@10", "QGMem order-nDCG@10")
GROUP_FIGURES: Final = ("all@10", "R@10", "nDCG@10", "stale first")
TOKENS: Final = "context tokens"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to say; shares in [0, 1], times in milliseconds per question (median).

    `gains` are differences to `baseline` over all questions, by retriever and figure; `ratios` quotients by
    every baseline; `ablation` the differences of columns with a part less to the whole system. `unscored`
    counts the questions without gold by category, `unanswered` those of them that have no answer;
    `resampled` says what the intervals are over. `sizes` are the parts of the data that were measured,
    `left_out` counts the questions of those that were not. In adding, `encoded` texts were encoded, and
    `reused` more were known from another conversation. `answers` sums up the answers, if any were asked for,
    `sifting` what was distilled.
    """

    facts: Facts
    rows: list[Row]
    baseline: str
    gains: dict[str, dict[str, Estimate]]
    milliseconds: dict[str, float]
    shown: Shown
    ratios: dict[str, dict[str, dict[str, Estimate]]] = {}
    ablation: dict[str, dict[str, Estimate]] = {}
    abstention: list[Abstention] = []
    unscored: dict[str, int] = {}
    unanswered: int = 0
    resampled: str = "conversations"
    sizes: list[str] = []
    left_out: dict[str, int] = {}
    encoded: int = 0
    reused: int = 0
    answers: Answers | None = None
    sifting: Sifting | None = None

    @property
    def overall(self) -> list[Row]:
        """One row per retriever, over all questions."""
        return [row for row in self.rows if row.group == OVERALL]

    @property
    def main(self) -> list[Row]:
        """Those of `overall` that are neither ablations nor reranking depths."""
        return [row for row in self.overall if not _is_extra(row.retriever)]

    @property
    def title(self) -> str:
        """The benchmark and what was measured of it."""
        return " ".join([self.facts.benchmark, *(f"({size})" for size in self.sizes)])


def _is_extra(name: str) -> bool:
    return name in ABLATIONS or depth_of(name) is not None


def report(
    facts: Facts,
    run: Run,
    figures: Figures = MESSAGES,
    *,
    unscored: Mapping[str, int] | None = None,
    unanswered: int = 0,
    sizes: Sequence[str] = (),
    left_out: Mapping[str, int] | None = None,
    answers: Answers | None = None,
    sifting: Sifting | None = None,
) -> Report:
    """Figures, intervals, gains and ratios, computed from the outcomes of a run."""
    outcomes = run.outcomes
    scored = figures.scored(outcomes)
    names = list(dict.fromkeys(one.retriever for one in scored))
    baseline = BASELINE if BASELINE in names else names[0]
    lost = gains(outcomes, HYBRID, figures) if HYBRID in names and ABLATIONS.keys() & names else {}
    return Report(
        facts=facts,
        rows=summarise(outcomes, figures),
        baseline=baseline,
        gains=gains(outcomes, baseline, figures),
        milliseconds=median_milliseconds(scored),
        shown=figures.shown,
        ratios={one: ratios(outcomes, one, figures) for one in names if one.startswith("bm25")},
        ablation={name: figure for name, figure in lost.items() if name in ABLATIONS},
        abstention=abstention(outcomes, figures.by),
        unscored=dict(unscored or {}),
        unanswered=unanswered,
        resampled=figures.resampled,
        sizes=list(sizes),
        left_out=dict(left_out or {}),
        encoded=run.encoded,
        reused=run.reused,
        answers=answers,
        sifting=sifting,
    )


def to_json(result: Report) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: messages, QGMem's protocol, categories."""
    console.print(table_of(result, heading(result, "messages found"), result.shown.main, gain(result)))
    title = "QGMem's protocol, judged by message ids, %"
    console.print(table_of(result, title, QGMEM_FIGURES, costs(result)))
    console.print(by_category(result, categories, *result.shown.grouped))


def show_groups(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print a table for each category, every retriever a row with its figures and times."""
    for group in dict.fromkeys(row.group for row in result.rows if row.group != OVERALL):
        rows = [row for row in result.rows if row.group == group]
        title = f"{categories.get(int(group), group)}: {rows[0].questions} questions, "
        title += f"{result.unscored.get(group, 0)} more without gold, %"
        table = new_table(title, "retriever", *GROUP_FIGURES, "ms", "mean ms")
        for row in rows:
            cells = shares(rows, row, [name for name in GROUP_FIGURES if name != "stale first"])
            times = f"{row.median_ms:.1f}", f"{row.mean_ms:.1f}"
            table.add_row(row.retriever, *cells, _cell(row.figures.get("stale first")), *times)
        console.print(table)


def show_rest(result: Report, console: Console) -> None:
    """Print what every benchmark has: ablations, reranking depths and abstention if there are any, and what
    stands behind the figures.
    """
    if result.ablation:
        console.print(_ablation(result))
    if any(depth_of(row.retriever) is not None for row in result.overall):
        console.print(_depths(result))
    if result.abstention:
        console.print(_abstention(result))
    console.print(_footing(result))


def new_table(title: str, *columns: str) -> Table:
    """A table that fits 80 characters; the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _cell(estimate: Estimate | None, style: str = "") -> Text:
    """`61.2` above its interval, in percent."""
    if estimate is None:
        return Text("–", style="dim")
    text = Text(f"{100 * estimate.value:.1f}", style=style)
    if estimate.low is None or estimate.high is None:
        return text
    return text.append(f"\n{100 * estimate.low:.0f}–{100 * estimate.high:.0f}", style="dim not bold")


def difference(estimate: Estimate | None) -> Text:
    """`+3.1` above its interval; dim if the interval holds 0."""
    if estimate is None:
        return Text("–", style="dim")
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return Text(f"{100 * estimate.value:+.1f}", style="dim")
    text = Text(f"{100 * estimate.value:+.1f}", style="dim" if low <= 0 <= high else "bold")
    return text.append(f"\n{100 * low:+.1f}…{100 * high:+.1f}", style="dim not bold")


def shares(rows: Sequence[Row], row: Row, figures: Sequence[str]) -> list[Text]:
    """The cells of one retriever, the best of each column bold."""
    cells = []
    for name in figures:
        values = [one.figures[name].value for one in rows if name in one.figures]
        mine = row.figures.get(name)
        cells.append(_cell(mine, "bold" if mine is not None and mine.value == max(values) else ""))
    return cells


def table_of(
    result: Report, title: str, figures: Sequence[str], more: Mapping[str, Callable[[Row], Text | str]]
) -> Table:
    """Figures of every retriever over all questions, ablations and depths left out, and columns besides."""
    table = new_table(title, "retriever", *(name.removeprefix("QGMem ") for name in figures), *more)
    for row in result.main:
        cells = shares(result.main, row, figures)
        table.add_row(row.retriever, *cells, *(cell(row) for cell in more.values()))
    return table


def heading(result: Report, what: str) -> str:
    """The title of the first table."""
    return f"{result.title}: {what}, {result.main[0].questions} questions, %"


def gain(result: Report) -> dict[str, Callable[[Row], Text | str]]:
    """The column of what a retriever gains on the baseline by the key figure."""

    def cell(row: Row) -> Text:
        gained = result.gains.get(row.retriever)
        return Text("baseline") if gained is None else difference(gained.get(result.shown.key))

    return {f"{result.shown.key.partition('@')[0]} gain": cell}


def costs(result: Report) -> dict[str, Callable[[Row], Text | str]]:
    """The columns of what a retriever's context takes in tokens, and a question in milliseconds."""
    return {
        "tokens": lambda row: f"{row.figures[TOKENS].value:.0f}",
        "ms": lambda row: _milliseconds(result.milliseconds[row.retriever]),
    }


def _milliseconds(time: float) -> str:
    return f"{time:.1f}" if time < 100 else f"{time:.0f}"


def by_category(result: Report, categories: Mapping[int, str], *figures: str) -> Table:
    """A row for each category, a column for each retriever that is neither ablation nor reranking depth."""
    names = [row.retriever for row in result.main]
    cells = {(row.group, row.retriever): row for row in result.rows if row.group != OVERALL}
    table = new_table(f"by category: {' / '.join(figures)}, %", "category", "n", *names)
    for group in dict.fromkeys(group for group, _ in cells):
        rows = [cells[group, name] for name in names]
        table.add_row(
            f"{group} {categories.get(int(group), '')}".strip(),
            str(rows[0].questions),
            *(" / ".join(_number(row.figures.get(one)) for one in figures) for row in rows),
        )
    return table


def _number(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{100 * estimate.value:.1f}"


def _ablation(result: Report) -> Table:
    """The whole system, then each column that has a part less, with what it gains or loses."""
    rows = {row.retriever: row for row in result.overall}
    table = new_table(f"{result.title}: a part less, % and Δ", "column", *result.shown.compared)
    for name in [HYBRID, *result.ablation]:
        cells = []
        for figure in result.shown.compared:
            cell = Text(f"{_number(rows[name].figures.get(figure))} ")
            if name in result.ablation:
                cell.append_text(difference(result.ablation[name].get(figure)))
            cells.append(cell)
        table.add_row(name, *cells)
    return table


def depths(result: Report) -> list[tuple[int, Row]]:
    """The reranking depths that were measured, ascending, each with its figures over all questions."""
    named = [(depth_of(row.retriever), row) for row in result.overall]
    return sorted(((depth, row) for depth, row in named if depth is not None), key=lambda one: one[0])


def _depths(result: Report) -> Table:
    title = f"{result.title}: by the number of candidates reranked, %"
    table = new_table(title, "depth", *result.shown.compared, "s per question")
    measured = depths(result)
    rows = [row for _, row in measured]
    for depth, row in measured:
        seconds = f"{row.median_ms / 1000:.3f}"
        table.add_row(str(depth), *shares(rows, row, result.shown.compared), seconds)
    return table


def _abstention(result: Report) -> Table:
    title = "abstention: the score of an answer being there, %"
    table = new_table(title, "retriever", "AUROC", "questions with one", "without")
    for one in result.abstention:
        table.add_row(one.retriever, _cell(one.auroc), str(one.answerable), str(one.unanswerable))
    return table


def _footing(result: Report) -> Text:
    facts = result.facts
    models = ", ".join(f"{name} {digest[:8]}" for name, digest in facts.models.items()) or "no model"
    machine = facts.machine
    unanswered = f", {result.unanswered} of them without an answer" if result.unanswered else ""
    counted = "contents" if result.sifting else "ten best texts"
    lines = [
        f"memdb {facts.memdb_version}, code {facts.code_sha256[:8]}, data {facts.data_sha256[:8]}; {models}",
        f"{facts.conversations} conversations, {facts.messages} messages added in {facts.add_seconds:.1f} s, "
        f"{facts.seconds:.0f} s in all; left out without gold: {facts.unscored}{unanswered}",
        f"intervals: 95 %, {RESAMPLES:,} resamples of {result.resampled}; gain: over {result.baseline}",
        f"tokens: {counted}, {facts.tokenizer}; ms: median per question",
        f"{machine.processor}, {machine.cores} cores, python {machine.python}, sqlite {machine.sqlite}",
    ]
    if result.reused:
        lines.append(
            f"texts encoded once for all conversations: {result.encoded} instead of "
            f"{result.encoded + result.reused}; adding takes longer without"
        )
    if result.left_out:
        others = ", ".join(f"{size} ({number} questions)" for size, number in result.left_out.items())
        lines.append(f"also in the data, not measured: {others}; choose with --sizes")
    return Text("\n".join(lines), style="dim")

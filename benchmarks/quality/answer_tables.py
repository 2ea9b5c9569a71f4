"""The answers of a run as tables for people."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .answer_figures import ABSTAINING, QUALITY, Answers
from .answering import TOKEN
from .figures import OVERALL, Estimate, Row
from .report import difference, new_table, shares

CATEGORY_COLUMNS = 3  # beside the longest category, in 80 characters
COSTS = ("context tokens", "prompt tokens", "completion tokens")


def show_answers(answers: Answers, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables: scores with what the graph token adds, categories, abstention and support, cost."""
    rows = [row for row in answers.rows if row.group == OVERALL]
    if not rows:
        return
    console.print(_quality(answers, rows))
    for first in range(0, len(rows), CATEGORY_COLUMNS):
        console.print(_by_category(answers, categories, rows[first : first + CATEGORY_COLUMNS]))
    console.print(_abstaining(rows))
    console.print(_cost(rows))
    console.print(Text("\n".join(_notes(answers)), style="dim"))


def _quality(answers: Answers, rows: list[Row]) -> Table:
    figures = [name for name in QUALITY if name in rows[0].figures]
    gain = ["token − text"] if answers.token_gain else []
    title = f"answers: {answers.metric}, {rows[0].questions} questions, %"
    table = new_table(title, "answered by", *figures, *gain)
    for row in rows:
        gained = difference(answers.token_gain.get("score")) if row.retriever == TOKEN else Text("")
        table.add_row(row.retriever, *shares(rows, row, figures), *([gained] if gain else []))
    return table


def _by_category(answers: Answers, categories: Mapping[int, str], rows: list[Row]) -> Table:
    cells = {(row.group, row.retriever): row for row in answers.rows}
    table = new_table("by category: score, all, %", "category", "n", *(row.retriever for row in rows))
    for group in dict.fromkeys(row.group for row in answers.rows if row.group != OVERALL):
        mine = [cells[group, row.retriever] for row in rows]
        name = f"{group} {categories.get(int(group), '')}".strip()
        table.add_row(name, str(mine[0].questions), *(_number(row.figures["score, all"]) for row in mine))
    return table


def _abstaining(rows: list[Row]) -> Table:
    heads = [name.replace("abstention ", "").replace("abstained ", "") for name in ABSTAINING]
    table = new_table("abstention, and sentences supported, %", "answered by", *heads, "citations")
    for row in rows:
        cells = [_number(row.figures.get(name)) for name in ABSTAINING]
        table.add_row(row.retriever, *cells, _plain(row.figures.get("citations"), 2))
    return table


def _cost(rows: list[Row]) -> Table:
    table = new_table("what an answer takes", "answered by", *COSTS, "median s")
    for row in rows:
        cells = [_plain(row.figures.get(name), 0) for name in COSTS]
        table.add_row(row.retriever, *cells, f"{row.median_ms / 1000:.2f}")
    return table


def _notes(answers: Answers) -> list[str]:
    lines = [
        "score, contained: of questions with an answer; score, all: of others too, where it says so",
        "wrongly: abstained of questions with an answer; citations: per answer; tokens: per question",
    ]
    for one in answers.judged:
        spread = "judged once" if one.deviation is None else f"± {100 * one.deviation:.2f}"
        lines.append(
            f"{answers.judge} of {one.answerer}: {100 * one.mean:.1f} {spread} over {one.judgings}, "
            f"unreadable {one.unreadable}"
        )
    if answers.without_reference:
        lines.append(f"not answered, for want of a reference: {answers.without_reference}")
    if answers.reused:
        lines.append(f"taken from a run before: {answers.reused} answers with their times")
    return lines


def _number(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{100 * estimate.value:.1f}"


def _plain(estimate: Estimate | None, digits: int) -> str:
    return "–" if estimate is None else f"{estimate.value:.{digits}f}"

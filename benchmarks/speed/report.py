"""A speed run as tables for people and as JSON for programs."""

from __future__ import annotations

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .measured import Found, Held, Measured, exponent
from .results import Facts


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure grows with the file: value ~ size^exponent."""

    row: str
    contender: str
    figure: str
    sizes: list[int]
    values: list[float]
    exponent: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to say."""

    facts: Facts
    measured: list[Measured]
    held: list[Held]
    skipped: list[tuple[str, str, str]]
    growth: list[Growth]


def report(facts: Facts, found: Found) -> Report:
    """The figures with how they grow."""
    skipped = [(one.row, one.what, one.why) for one in found.skipped]
    return Report(
        facts=facts, measured=found.measured, held=found.held, skipped=skipped, growth=growth(found.measured)
    )


def growth(measured: list[Measured]) -> list[Growth]:
    """Of each figure in milliseconds that was measured at two sizes or more."""
    series: dict[tuple[str, str, str], dict[int, float]] = {}
    for one in measured:
        if one.size is not None and one.figure.endswith("ms"):
            series.setdefault((one.row, one.contender, one.figure), {})[one.size] = one.value
    found = []
    for (row, contender, figure), by_size in series.items():
        sizes = sorted(by_size)
        values = [by_size[size] for size in sizes]
        power = exponent(sizes, values)
        if power is not None:
            found.append(
                Growth(
                    row=row, contender=contender, figure=figure, sizes=sizes, values=values,
                    exponent=round(power, 2),
                )
            )  # fmt: skip
    return found


def show(result: Report, console: Console) -> None:
    """A table for each row, what was held against a target, and what was left out."""
    for row in dict.fromkeys(one.row for one in result.measured):
        console.print(_table(result, row))
    console.print(_targets(result.held))
    for row, what, why in result.skipped:
        console.print(Text(f"not measured: {row}, {what}: {why}", "dim"))


def _table(result: Report, row: str) -> Table:
    """Contenders and figures by size."""
    of_row = [one for one in result.measured if one.row == row]
    sizes = sorted({one.size for one in of_row if one.size is not None})
    powers = {(g.contender, g.figure): g.exponent for g in result.growth if g.row == row}
    table = Table(title=row, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    table.add_column("contender")
    table.add_column("figure")
    for size in sizes or [0]:
        table.add_column(f"{size:,}" if size else "value", justify="right")
    if powers:
        table.add_column("growth", justify="right")
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for one in of_row:
        cells.setdefault((one.contender, one.figure), {})[one.size or 0] = _number(one.value)
    for (contender, figure), by_size in cells.items():
        values = [by_size.get(size, by_size.get(0, "")) for size in sizes or [0]]
        power = powers.get((contender, figure))
        grown = [] if not powers else ["" if power is None else f"n^{power:.2f}"]
        table.add_row(contender, figure, *values, *grown)
    return table


def _targets(held: list[Held]) -> Table:
    table = Table(title="targets", title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for name in ("row", "figure", "messages", "value", "target", ""):
        table.add_column(name, justify="right" if name in {"messages", "value", "target"} else "left")
    for one in held:
        bound = f"{'≥' if one.at_least else '≤'} {one.target:g}"
        size = "" if one.size is None else f"{one.size:,}"
        mark = Text("reached", "green") if one.reached else Text("missed", "red")
        table.add_row(one.row, one.what, size, _number(one.value), bound, mark)
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def to_json(result: Report) -> str:
    """The report for programs."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1).decode()

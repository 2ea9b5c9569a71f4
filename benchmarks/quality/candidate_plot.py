"""The DeferMem figures of a run as a picture: recall and entries, or the grid of thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .candidates import BINS, GridRow, Sifting
from .plot import COLOURS, INK, bars, ends
from .report import Report

RECALLS: Final = ("Recall", "Recall-01")
LINES: Final = ("-", "--")  # of the two recalls
FURTHER: Final = 2  # colours on from those of the entries


def figure(result: Report, categories: Mapping[int, str], pyplot: Any) -> Any:
    """The picture of a run: the grid, if there is one."""
    sifting = result.sifting or Sifting()
    return _grid(sifting.grid, pyplot) if sifting.grid else _figures(result, sifting, pyplot)


def _figures(result: Report, sifting: Sifting, pyplot: Any) -> Any:
    """Recall of every entry, and how many pieces of evidence questions have (figure 3 of the paper)."""
    drawn, axes = pyplot.subplots(2, 1, figsize=(11, 8.4), layout="constrained")
    main = result.shown.main
    bars(axes[0], {row.retriever: [row.figures.get(one) for one in main] for row in result.main}, main)
    axes[0].set_title("gold in the candidates", loc="left", fontsize=11, color=INK)
    axes[0].legend(loc="lower right")
    for number, (name, counts) in enumerate(sifting.entries.items()):
        width = 0.84 / len(sifting.entries)
        places = [index + (number - (len(sifting.entries) - 1) / 2) * width for index in range(len(BINS))]
        asked = sum(counts.values())
        heights = [100 * counts[one] / asked for one in BINS]
        axes[1].bar(
            places, heights, width * 0.92, label=name, color=COLOURS[(number + FURTHER) % len(COLOURS)]
        )
    axes[1].set_xticks(range(len(BINS)), BINS)
    axes[1].set_ylabel("% of questions")
    axes[1].set_title("pieces of evidence of a question", loc="left", fontsize=11, color=INK)
    if sifting.entries:
        axes[1].legend(loc="upper right")
    return drawn


def _grid(rows: Sequence[GridRow], pyplot: Any) -> Any:
    """Recall against the tokens of the candidates: a panel for each entry, a line for each τ1, along which τ2
    goes.
    """
    entries = list(dict.fromkeys(row.entry for row in rows))
    drawn, axes = pyplot.subplots(
        1, len(entries), figsize=(5.8 * len(entries), 5.4), layout="constrained", sharey=True, squeeze=False
    )
    for axis, entry in zip(axes[0], entries, strict=True):
        mine = [row for row in rows if row.entry == entry]
        for number, tau1 in enumerate(dict.fromkeys(row.tau1 for row in mine)):
            _line(axis, [row for row in mine if row.tau1 == tau1], COLOURS[number % len(COLOURS)])
        axis.set_title(f"entry: {entry}", loc="left", fontsize=11, color=INK)
        axis.set_xlabel("tokens of the candidates; numbers: τ2")
        axis.set_xlim(left=0)
    axes[0][0].set_ylabel("Recall, %; dashed: Recall-01")
    handles, names = axes[0][0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside lower left", ncols=max(len(names), 1), frameon=False)
    return drawn


def _line(axis: Any, rows: Sequence[GridRow], colour: str) -> None:
    """Both recalls of one τ1, by τ2."""
    tokens = [row.figures["candidate tokens"].value for row in rows]
    for name, style in zip(RECALLS, LINES, strict=True):
        estimates = [row.figures[name] for row in rows]
        heights = [100 * one.value for one in estimates]
        label = f"τ1 = {rows[0].tau1:g}" if style == LINES[0] else None
        axis.plot(tokens, heights, f"o{style}", color=colour, label=label, markersize=4)
        for place, one in zip(tokens, estimates, strict=True):
            low, high = ends(one)
            axis.plot([place, place], [100 * low, 100 * high], color=colour, linewidth=1, alpha=0.4)
    for place, row in zip(tokens, rows, strict=True):
        height = 100 * row.figures[RECALLS[0]].value
        axis.annotate(f"{row.tau2:g}", (place, height), xytext=(3, 4), textcoords="offset points", fontsize=8)

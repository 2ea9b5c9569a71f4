"""A run as a picture: figures of every retriever with their intervals, and one figure by category."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .errors import BenchmarkError, LibraryMissing
from .evaluate import OVERALL, Estimate
from .report import MESSAGE_FIGURES, Report

SUFFIXES: Final = (".png", ".svg", ".pdf")
CATEGORY_FIGURE: Final = "nDCG@10"
GREYS: Final = ("#c4c9d0", "#8b939e")  # baselines
COLOURS: Final = ("#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # Okabe and Ito 2008
INK: Final = "#2b2f36"
STYLE: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#b5bac2",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e6e8eb",
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
    "xtick.bottom": False,
}


def library() -> Any:
    """matplotlib, drawing to files only. Raises LibraryMissing."""
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ImportError as error:
        raise LibraryMissing("--plot needs matplotlib", hint="pip install matplotlib") from error
    matplotlib.use("Agg")
    return matplotlib


def check(file: Path) -> None:
    """Raise now rather than after the run if the picture cannot be drawn: LibraryMissing, BenchmarkError."""
    library()
    if file.suffix.lower() not in SUFFIXES:
        raise BenchmarkError(f"no picture format {file.suffix!r}", hint=f"use one of {', '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise BenchmarkError(f"no folder {file.parent} to write {file.name} to")


def draw(result: Report, categories: Mapping[int, str], file: Path) -> None:
    """Write the picture; the file's suffix says the format (PNG, SVG, PDF)."""
    with library().rc_context(STYLE):
        pyplot = importlib.import_module("matplotlib.pyplot")
        figure, axes = pyplot.subplots(2, 1, figsize=(11, 8.4), layout="constrained")
        _bars(axes[0], _overall(result), MESSAGE_FIGURES)
        axes[0].set_title("all questions", loc="left", fontsize=11, color=INK)
        groups = [row.group for row in result.rows if row.group != OVERALL]
        labels = [_label(result, group, categories) for group in dict.fromkeys(groups)]
        _bars(axes[1], _by_category(result), labels)
        axes[1].set_title(f"{CATEGORY_FIGURE} by category", loc="left", fontsize=11, color=INK)
        figure.suptitle(_title(result), fontsize=13, fontweight="bold", x=0.012, ha="left")
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=len(names), frameon=False)
        figure.savefig(file, dpi=150)
        pyplot.close(figure)


def _title(result: Report) -> str:
    facts = result.facts
    return (
        f"{facts.benchmark}: {facts.questions} questions, {facts.conversations} conversations "
        "(lines: 95 % intervals)"
    )


def _overall(result: Report) -> dict[str, list[Estimate]]:
    return {row.retriever: [row.figures[one] for one in MESSAGE_FIGURES] for row in result.overall}


def _by_category(result: Report) -> dict[str, list[Estimate]]:
    series: dict[str, list[Estimate]] = {}
    for row in result.rows:
        if row.group != OVERALL:
            series.setdefault(row.retriever, []).append(row.figures[CATEGORY_FIGURE])
    return series


def _label(result: Report, group: str, categories: Mapping[int, str]) -> str:
    questions = next(row.questions for row in result.rows if row.group == group)
    return f"{categories.get(int(group), group)}\n{questions} questions"


def _colour(name: str, names: Sequence[str]) -> str:
    baselines = [one for one in names if one.startswith("bm25")]
    if name in baselines:
        return GREYS[baselines.index(name) % len(GREYS)]
    return COLOURS[(list(names).index(name) - len(baselines)) % len(COLOURS)]


def _bars(axis: Any, series: Mapping[str, list[Estimate]], labels: Sequence[str]) -> None:
    """Grouped bars in percent: one group per label, one bar per retriever, with value and interval."""
    names = list(series)
    width = 0.84 / len(names)
    for number, (name, estimates) in enumerate(series.items()):
        places = [index + (number - (len(names) - 1) / 2) * width for index in range(len(labels))]
        heights = [100 * one.value for one in estimates]
        axis.bar(places, heights, width * 0.92, label=name, color=_colour(name, names))
        for place, one in zip(places, estimates, strict=True):
            low, high = (one.value if end is None else end for end in (one.low, one.high))
            axis.plot(
                [place, place], [100 * low, 100 * high], color=INK, linewidth=1.1, solid_capstyle="butt"
            )
            axis.annotate(
                f"{100 * one.value:.0f}",
                (place, 100 * max(high, one.value)),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8 if len(names) <= 5 else 6.5,
            )
    axis.set_xticks(range(len(labels)), labels)
    axis.set_xlim(-0.55, len(labels) - 0.45)
    axis.set_ylim(0, 105)
    axis.set_ylabel("%", rotation=0, labelpad=10)

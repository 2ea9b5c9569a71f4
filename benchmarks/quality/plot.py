"""A run as a picture: figures of every retriever with their intervals, and one figure by category."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .errors import BenchmarkError, LibraryMissing
from .figures import OVERALL, Estimate
from .report import Report, depths

SUFFIXES: Final = (".png", ".svg", ".pdf")
GREYS: Final = ("#c4c9d0", "#8b939e")  # baselines
COLOURS: Final = (  # Okabe and Ito 2008, then three more
    *("#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"),
    *("#6a51a3", "#8c564b", "#2b2f36"),
)
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


# A report, its categories and matplotlib's pyplot; the figure.
Make: TypeAlias = Callable[[Report, Mapping[int, str], Any], Any]


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


def ranked(result: Report, categories: Mapping[int, str], pyplot: Any) -> Any:
    """The picture of a run of rankings; at several reranking depths what more depth brings for its time."""
    return _depths(result, pyplot) if depths(result) else _figures(result, categories, pyplot)


def draw(result: Report, categories: Mapping[int, str], file: Path, make: Make = ranked) -> None:
    """Write the picture that `make` makes; the file's suffix says the format (PNG, SVG, PDF)."""
    with library().rc_context(STYLE):
        pyplot = importlib.import_module("matplotlib.pyplot")
        figure = make(result, categories, pyplot)
        figure.suptitle(_title(result), fontsize=13, fontweight="bold", x=0.012, ha="left")
        figure.savefig(file, dpi=150)
        pyplot.close(figure)


def _title(result: Report) -> str:
    facts = result.facts
    return (
        f"{result.title}: {facts.questions} questions, {facts.conversations} conversations "
        "(lines: 95 % intervals)"
    )


def _figures(result: Report, categories: Mapping[int, str], pyplot: Any) -> Any:
    """The main figures of every retriever, and the key figure by category."""
    figure, axes = pyplot.subplots(2, 1, figsize=(11, 8.4), layout="constrained")
    main, key = result.shown.main, result.shown.key
    bars(axes[0], {row.retriever: [row.figures.get(one) for one in main] for row in result.overall}, main)
    axes[0].set_title("all questions", loc="left", fontsize=11, color=INK)
    series: dict[str, list[Estimate | None]] = {}
    for row in result.rows:
        if row.group != OVERALL:
            series.setdefault(row.retriever, []).append(row.figures.get(key))
    groups = dict.fromkeys(row.group for row in result.rows if row.group != OVERALL)
    bars(axes[1], series, [_label(result, group, categories) for group in groups])
    axes[1].set_title(f"{key} by category", loc="left", fontsize=11, color=INK)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=min(len(names), 6), frameon=False)
    return figure


def _label(result: Report, group: str, categories: Mapping[int, str]) -> str:
    questions = next(row.questions for row in result.rows if row.group == group)
    words = textwrap.fill(categories.get(int(group), group), 14)
    return f"{words}\n{questions} questions"


def _depths(result: Report, pyplot: Any) -> Any:
    """Quality against time: a line for each figure, a point for each reranking depth."""
    figure, axis = pyplot.subplots(figsize=(8, 5.4), layout="constrained")
    measured = depths(result)
    seconds = [row.median_ms / 1000 for _, row in measured]
    for name, colour in zip(result.shown.compared, COLOURS, strict=False):
        estimates = [row.figures[name] for _, row in measured]
        heights = [100 * one.value for one in estimates]
        axis.plot(seconds, heights, "o-", color=colour, label=name, markersize=5)
        for place, one in zip(seconds, estimates, strict=True):
            low, high = ends(one)
            axis.plot([place, place], [100 * low, 100 * high], color=colour, linewidth=1, alpha=0.5)
    for place, (depth, row) in zip(seconds, measured, strict=True):
        top = max(100 * ends(row.figures[name])[1] for name in result.shown.compared)
        axis.annotate(
            f"{depth}", (place, top), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9
        )
    axis.set_xlabel("seconds per question (median); numbers: candidates reranked")
    axis.set_xlim(left=0)
    axis.set_ylabel("%", rotation=0, labelpad=10)
    figure.legend(loc="outside lower left", ncols=len(result.shown.compared), frameon=False)
    return figure


def ends(one: Estimate) -> tuple[float, float]:
    """The interval; without one, the value itself."""
    return one.value if one.low is None else one.low, one.value if one.high is None else one.high


def _colour(name: str, names: Sequence[str]) -> str:
    baselines = [one for one in names if one.startswith("bm25")]
    if name in baselines:
        return GREYS[baselines.index(name) % len(GREYS)]
    return COLOURS[(list(names).index(name) - len(baselines)) % len(COLOURS)]


def bars(axis: Any, series: Mapping[str, Sequence[Estimate | None]], labels: Sequence[str]) -> None:
    """Grouped bars in percent: one group per label, one bar per retriever, with value and interval."""
    names = list(series)
    width = 0.84 / len(names)
    small = len(names) * len(labels) > 30
    for number, (name, estimates) in enumerate(series.items()):
        places = [index + (number - (len(names) - 1) / 2) * width for index in range(len(labels))]
        heights = [0.0 if one is None else 100 * one.value for one in estimates]
        axis.bar(places, heights, width * 0.92, label=name, color=_colour(name, names))
        for place, one in zip(places, estimates, strict=True):
            if one is None:
                continue
            low, high = ends(one)
            axis.plot(
                [place, place], [100 * low, 100 * high], color=INK, linewidth=1.1, solid_capstyle="butt"
            )
            axis.annotate(
                f"{100 * one.value:.0f}",
                (place, 100 * max(high, one.value)),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=6.5 if small else 8,
            )
    axis.set_xticks(range(len(labels)), labels, fontsize=8 if len(labels) > 7 else 10)
    axis.set_xlim(-0.55, len(labels) - 0.45)
    axis.set_ylim(0, 105)
    axis.set_ylabel("%", rotation=0, labelpad=10)

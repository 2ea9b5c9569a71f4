"""Growth curves: milliseconds against the messages of a file, both on logarithmic scales."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ..quality.plot import COLOURS, STYLE, library
from .measured import OURS
from .report import Growth


def draw(growth: list[Growth], file: Path) -> None:
    """Write the picture; the file's suffix says the format. A panel for each row, its exponents beside it.

    Raises LibraryMissing; `quality.plot.check` tells beforehand what could not be drawn.
    """
    panels = list(dict.fromkeys(one.row for one in growth)) or [""]
    with library().rc_context(STYLE):
        pyplot = importlib.import_module("matplotlib.pyplot")
        width = min(2, len(panels))
        height = -(-len(panels) // width)
        figure, axes = pyplot.subplots(
            height, width, figsize=(7.4 * width, 4.2 * height), layout="constrained", squeeze=False
        )
        for axis, row in zip(axes.flat, panels, strict=False):
            _panel(axis, row, [one for one in growth if one.row == row])
        for axis in list(axes.flat)[len(panels) :]:
            axis.set_visible(False)
        figure.savefig(file, dpi=110)
        pyplot.close(figure)


def _panel(axis: Any, row: str, growth: list[Growth]) -> None:
    """Lines of one contender have one colour; the first question is dotted, a harder one dashed. The legend
    lists them as they end, the slowest first.
    """
    names = list(dict.fromkeys(one.contender for one in growth))
    for one in sorted(growth, key=lambda one: -one.values[-1]):
        axis.plot(
            one.sizes,
            one.values,
            "--" if "," in one.figure else ":" if one.figure.startswith("first") else "-",
            marker="o",
            markersize=3,
            color=COLOURS[names.index(one.contender) % len(COLOURS)],
            linewidth=2.4 if one.contender.startswith(OURS) else 1.1,
            label=f"{one.contender}, {one.figure}  (n^{one.exponent:.2f})",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(row, loc="left")
    axis.set_xlabel("messages in the file")
    axis.set_ylabel("ms")
    if growth:
        axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))

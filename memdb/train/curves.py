"""What a training run told: a line of JSON for each step and validation, and a picture of them."""

from __future__ import annotations

import json
from pathlib import Path


class Log:
    """One line of JSON for each step and validation; lines after the step that training goes on from go."""

    def __init__(self, file: Path, step: int) -> None:
        self._file = file
        kept = [line for line in read_log(file) if line["step"] <= step]
        file.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def note(self, **told: float) -> None:
        """Add a line."""
        with self._file.open("a") as stream:
            print(json.dumps({name: round(value, 5) for name, value in told.items()}), file=stream)


def read_log(file: Path) -> list[dict[str, float]]:
    """The lines of a log, none where there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def plot(curves: dict[str, list[list[float]]], file: Path, label: str = "nats per target token") -> None:
    """Curves over the steps, as a picture; `label` says what their values are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="step", ylabel=label)
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), label=name, marker="o" if name == "validation" else None)
    axes.legend()
    figure.savefig(file, dpi=120)

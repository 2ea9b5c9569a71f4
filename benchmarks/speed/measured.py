"""What a row of the speed table gives: figures, what they are held against, and what was left out and why."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from memdb.models.ports import Encoder

from .files import Files

OURS: Final = "memdb"
CPU_MS: Final = "CPU ms"
FIRST_MS: Final = "first CPU ms"  # of the first question after the file was opened


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one contender; `size` is the number of messages in the file where that matters."""

    row: str
    contender: str
    figure: str
    value: float
    size: int | None = None
    note: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A figure held against its target: at least that much, or at most."""

    row: str
    what: str
    value: float
    target: float
    at_least: bool
    size: int | None = None

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.value >= self.target if self.at_least else self.value <= self.target


class Skipped(msgspec.Struct, frozen=True):
    """What was not measured, and why."""

    row: str
    what: str
    why: str


class Found(msgspec.Struct):
    """What one row gave."""

    measured: list[Measured] = []
    held: list[Held] = []
    skipped: list[Skipped] = []

    def without(self, row: str, what: str, why: str) -> Found:
        """The same, and that something was left out."""
        self.skipped.append(Skipped(row, what, why))
        return self

    def extend(self, other: Found) -> None:
        """Take over what another gave."""
        self.measured += other.measured
        self.held += other.held
        self.skipped += other.skipped


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What rows are measured with: files of `sizes`, an encoder, `rounds` repetitions of what is timed.

    `clock` tells seconds of CPU: the time of a shared machine says little. `graph_model` is the GGUF file of
    the row about graph tokens, `graph` its graph encoder.
    """

    files: Files
    encoder: Encoder
    sizes: tuple[int, ...]
    rounds: int
    messages: int = 2_000  # that the rows about adding add
    threads: int | None = None
    graph_model: Path | None = None
    graph: Path | None = None
    clock: Callable[[], float] = time.process_time

    def milliseconds(self, work: Callable[[], object]) -> float:
        """CPU milliseconds of one piece of work."""
        start = self.clock()
        work()
        return 1_000 * (self.clock() - start)


def at_each_size(setting: Setting, measure: Callable[[Setting, int], Found]) -> Found:
    """What a row gives at every size, together."""
    found = Found()
    for size in setting.sizes:
        found.extend(measure(setting, size))
    return found


def middle(values: Iterable[float]) -> float:
    """The median, to four digits that count."""
    return float(f"{median(values):.4g}")


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """b of value = a * size^b by least squares on logarithms; None for fewer than two sizes."""
    if len(set(sizes)) < 2 or min(values) <= 0:
        return None
    slope, _ = np.polyfit([math.log(size) for size in sizes], [math.log(value) for value in values], 1)
    return float(slope)

"""What can be wrong before a benchmark starts."""

from __future__ import annotations

import memdb


class BenchmarkError(memdb.InputError):
    """A benchmark cannot run as asked: the message says why, the hint what to do."""


class DataMissing(BenchmarkError):
    """The benchmark's data is in none of the places looked at."""


class DataMalformed(BenchmarkError):
    """A file is there, but not in the benchmark's format."""


class ChangedMeanwhile(BenchmarkError):
    """The code or a model was changed while the benchmark ran, so its figures are nobody's."""


class LibraryMissing(BenchmarkError):
    """An optional library that only this part needs is not installed."""

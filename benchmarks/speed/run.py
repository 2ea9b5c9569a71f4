"""The entry of the speed benchmarks, for `memdb bench speed` and `python -m benchmarks.speed speed`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from memdb.errors import InputError, MemdbError
from memdb.models.registry import load_encoder
from memdb.serve.render import tell

from ..quality import plot as quality_plot
from ..quality.errors import BenchmarkError
from ..quality.results import now
from . import plot as growth_plot
from . import report, results
from .files import Files, parse_sizes
from .measured import Found, Setting

RESULTS: Final = Path("memdb-speed.sqlite")
SIZES: Final = "10k,100k,1m"
BAD_REQUEST: Final = 2
ROUNDS: Final = 20
Measure = Callable[[Setting], Found]

# The rows of the table in order: the module of each, and its function.
ROWS: Final = {
    "dense": ("vectors", "dense"),
    "lexical": ("terms", "lexical"),
    "hybrid": ("asking", "hybrid"),
    "recall": ("asking", "recall"),
    "cold": ("cold", "cold"),
    "add": ("adding", "adding"),
    "encode": ("encode", "encode"),
    "graph": ("graph", "graph"),
}
OF_FILES: Final = frozenset({"dense", "lexical", "hybrid", "recall", "cold"})  # the others need none


def bench(
    name: str,
    data: Path | None = None,
    *,
    out: Path | None = None,
    plot: Path | None = None,
    json: bool = False,
    keep: Path | None = None,
    sizes: str | None = None,
    only: Sequence[str] = (),
    limit: int | None = None,
    llm: str | None = None,
    graph: str | None = None,
    **rest: object,
) -> int:
    """Measure the rows of the speed table and print it (`json`: the report); the exit status.

    `name` is `speed`, or `encode` for that row alone. `out`: the results file that the run is added to, else
    `memdb-speed.sqlite` here. `plot`: a picture of how times grow. `keep`: a folder for the files that are
    measured, which are made once; without it they are made for this run. `sizes`: messages of each, like
    `10k,1m`. `only`: rows to measure. `limit`: how often each is timed. `llm`: a GGUF file for the row about
    graph tokens, `graph` its graph encoder. A request that cannot be met is told on stderr and gives 2.
    """
    wanted = [name] if name in ROWS else [row for row in ROWS if not only or row in only]
    try:
        if unknown := [row for row in only if row not in ROWS]:
            raise BenchmarkError(f"no row {unknown[0]!r}", hint=f"they are {', '.join(ROWS)}")
        if given := [option for option, value in rest.items() if value]:
            raise BenchmarkError(f"--{given[0]} says nothing to {name}", hint="leave it out")
        results.FILE.check(out or RESULTS)
        if plot is not None:
            quality_plot.check(plot)
        with ExitStack() as held:
            folder = keep or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="memdb-speed-")))
            setting = _setting(folder, sizes, limit, llm, graph)
            start = time.perf_counter()
            found = measure(setting, wanted)
            seconds = round(time.perf_counter() - start, 1)
    except (BenchmarkError, MemdbError) as error:
        tell(error.message, error.hint)
        return BAD_REQUEST
    options: dict[str, str | int | None] = {"sizes": sizes, "only": ",".join(only) or None, "limit": limit}
    models = {setting.encoder.name: setting.encoder.sha256}
    facts = results.Facts(started_at=now(), options=options, models=models, seconds=seconds)
    results.append(out or RESULTS, facts, found)
    told = report.report(facts, found)
    if plot is not None:
        growth_plot.draw(told.growth, plot)
    if json:
        print(report.to_json(told))
    else:
        report.show(told, Console())
    return 0


def _setting(
    folder: Path, sizes: str | None, limit: int | None, llm: str | None, graph: str | None
) -> Setting:
    if limit is not None and limit < 2:
        raise InputError("what is timed is timed twice at least", hint="give --limit 2 or more")
    encoder = load_encoder(threads=1)
    return Setting(
        files=Files(folder, encoder),
        encoder=encoder,
        sizes=tuple(sorted(parse_sizes(sizes or SIZES))),
        rounds=limit or ROUNDS,
        graph_model=None if llm is None else Path(llm),
        graph=None if graph is None else Path(graph),
        threads=1,
    )


def measure(setting: Setting, rows: Sequence[str]) -> Found:
    """What the rows give, one after the other; a row whose module is not there is told of as not built."""
    found = Found()
    for size in setting.sizes if OF_FILES.intersection(rows) else ():
        setting.files.path(size)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("measuring", total=len(rows))
        for row in rows:
            progress.update(task, description=row)
            work = _row(row)
            found.extend(Found().without(row, "all of it", "not built") if work is None else work(setting))
            progress.advance(task)
    return found


def _row(row: str) -> Measure | None:
    module, function = ROWS[row]
    name = f"{__package__}.{module}"
    if importlib.util.find_spec(name) is None:
        return None
    return cast(Measure, getattr(importlib.import_module(name), function))

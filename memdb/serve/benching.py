"""`memdb bench`, and where the benchmarks are: inside an installed memdb, or beside it in a checkout."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click

from memdb.errors import InputError

PACKAGE = Path(__file__).parents[1]
PATH = click.Path(path_type=Path)
SPEED = ("speed", "encode")  # benchmarks that measure time


@click.command(short_help="Measure memdb on data of yours.")
@click.argument("name")
@click.option("--data", type=PATH, envvar="MEMDB_DATA", show_envvar=True, help="Its data.")
@click.option("--out", type=PATH, metavar="FILE", help="Results file that the run is added to.")
@click.option("--plot", type=PATH, metavar="FILE", help="Picture to write: png, svg or pdf.")
@click.option("--limit", type=int, metavar="N", help="Ask the first N questions alone.")
@click.option(
    "--channels", multiple=True, metavar="A,B", help="One more column: these channels alone. Repeatable."
)
@click.option("--keep", type=PATH, metavar="DIR", help="Keep the memory files, use those there.")
@click.option("--ablate", is_flag=True, help="More columns: memdb with a part less in each.")
@click.option("--depths", metavar="A,B", help="More columns: so many candidates reranked: 0,20,50,100.")
@click.option("--sizes", metavar="A,B", help="Of a benchmark in several sizes, these alone: 6k,32k.")
@click.option("--only", multiple=True, metavar="ROW", help="Of speed: this row of its table. Repeatable.")
@click.option(
    "--haystack", type=int, metavar="N", help="Of longmemeval: ask among N sessions of other questions."
)
@click.option("--answers", is_flag=True, help="Answer the questions too, without a model, and with --llm.")
@click.option(
    "--llm", metavar="MODEL", help="A GGUF file or openai:NAME that answers; with --defermem it distils."
)
@click.option("--graph", metavar="FOLDER", help="With --llm: the graph encoder whose token it reads too.")
@click.option("--judge", metavar="MODEL", help="With --answers: a GGUF file or openai:NAME that judges them.")
@click.option("--judgings", type=int, metavar="N", help="Times each answer is judged: 10, of a GGUF file 1.")
@click.option("--defermem", is_flag=True, help="Candidate sets and what is distilled, also by --llm.")
@click.option("--grid", is_flag=True, help="With --defermem: at each pair of thresholds, too.")
@click.option("--json", is_flag=True, help="Print the report as JSON.")
def bench(name: str, data: Path | None, **options: Any) -> int:
    """Run the benchmark NAME on data of yours, and print its tables.

    NAME is locomo, longmemeval, factconsolidation, beam, or talks, which comes with its data; speed or
    encode, which need none.
    """
    if name in SPEED:
        return find_bench(kind="speed")(name, data, **options)
    if options.pop("only"):
        raise InputError("--only is for speed", hint="leave it out")
    return find_bench()(name, data, **options)


def find_bench(package: Path = PACKAGE, kind: str = "quality") -> Callable[..., int]:
    """The function `bench` of one kind of benchmarks. Raises `InputError` where they are not installed."""
    if (package / "benchmarks" / kind / "run.py").is_file():
        module = importlib.import_module(f"memdb.benchmarks.{kind}.run")
    elif (package.parent / "benchmarks" / kind / "run.py").is_file():
        module = _from_checkout(package.parent, kind)
    else:
        raise InputError(
            "the benchmarks are not installed", hint="install memdb-engine again, or use a checkout"
        )
    return cast(Callable[..., int], module.bench)


def _from_checkout(root: Path, kind: str) -> ModuleType:
    """Import the top-level package `benchmarks` of this checkout, and no other of that name."""
    found = importlib.util.find_spec("benchmarks")
    if found is None or found.origin is None or Path(found.origin).resolve().parents[1] != root.resolve():
        sys.modules.pop("benchmarks", None)
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{kind}.run")

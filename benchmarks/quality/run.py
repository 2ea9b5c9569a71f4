"""The entry of the quality benchmarks, for `memdb bench NAME` and `python -m benchmarks.quality NAME`."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import memdb
from memdb.serve.render import tell

from . import factconsolidation, locomo, plot, results, tokens
from .data import Conversation, chosen_sizes, find_files, first_questions, sha256
from .errors import BenchmarkError, ChangedMeanwhile, DataMissing
from .evaluate import Cluster, Run, by_conversation, by_question, evaluate
from .report import Report, report, show, to_json
from .retrievers import Prepared, columns, in_memory_file

RESULTS: Final = Path("memdb-bench.sqlite")
BAD_REQUEST: Final = 2
STRONG_BASELINE: Final = "bm25-stemmed"

Prepare = Callable[[Conversation], AbstractContextManager[Prepared]]


class Benchmark(msgspec.Struct, frozen=True):
    """A benchmark: its files, how they are read, what its categories are called; which columns it has
    besides, what is resampled, and how it is shown.
    """

    pattern: str
    load: Callable[[Sequence[Path]], list[Conversation]]
    categories: Mapping[int, str]
    columns: tuple[str, ...] = ()
    by: Cluster = by_conversation
    show: Callable[[Report, Mapping[int, str], Console], None] = show


BENCHMARKS: Final = {
    "locomo": Benchmark(locomo.PATTERN, locomo.load, locomo.CATEGORIES),
    "factconsolidation": Benchmark(
        factconsolidation.PATTERN,
        factconsolidation.load,
        factconsolidation.CATEGORIES,
        columns=("-hops", "-hops,-traces"),
        by=by_question,
        show=factconsolidation.show,
    ),
}


def bench(
    name: str,
    data: Path | None = None,
    *,
    out: Path | None = None,
    plot: Path | None = None,
    json: bool = False,
    limit: int | None = None,
    channels: Sequence[str] = (),
    keep: Path | None = None,
    sizes: str | None = None,
) -> int:
    """Run a benchmark and print its tables (`json`: its report); the exit status.

    `data`: the folder or file, else MEMDB_DATA. `out`: the results file that the run is added to, else
    `memdb-bench.sqlite` here. `plot`: a picture to write. `limit`: questions in all. `channels`: one more
    column each, a comma-separated list. `keep`: a folder for the memory files; those found there are used as
    they are. `sizes`: of a benchmark in several sizes these alone, comma-separated. A request that cannot be
    met is told on stderr and gives 2.
    """
    try:
        benchmark = BENCHMARKS.get(name)
        chosen = columns([*(benchmark.columns if benchmark else ()), *channels])
        with _folder(keep) as folder:
            result = measure(
                name,
                data,
                prepare=lambda conversation: in_memory_file(conversation, chosen, folder),
                out=out or RESULTS,
                plot_file=plot,
                limit=limit,
                sizes=sizes,
                options={"channels": " ".join(channels), "keep": None if keep is None else "yes"},
            )
    except BenchmarkError as error:
        tell(error.message, error.hint)
        return BAD_REQUEST
    if json:
        print(to_json(result))
    else:
        BENCHMARKS[name].show(result, BENCHMARKS[name].categories, Console())
    return 0


def measure(
    name: str,
    data: Path | None,
    *,
    prepare: Prepare,
    out: Path,
    plot_file: Path | None = None,
    limit: int | None = None,
    sizes: str | None = None,
    options: Mapping[str, str | int | None] | None = None,
) -> Report:
    """Find the data, ask every question, add the run to `out`, draw.

    What makes it impossible raises BenchmarkError before the first message is added.
    """
    if name not in BENCHMARKS:
        raise BenchmarkError(f"no benchmark {name!r}", hint=f"benchmarks: {', '.join(sorted(BENCHMARKS))}")
    if limit is not None and limit < 1:
        raise BenchmarkError(f"--limit {limit} leaves no question")
    benchmark = BENCHMARKS[name]
    files = find_files(name, benchmark.pattern, data)
    conversations = first_questions(chosen_sizes(benchmark.load(files), sizes), limit)
    if not any(question.gold for one in conversations for question in one.questions):
        raise DataMissing(f"no question with gold in {', '.join(map(str, files))}")
    if plot_file is not None:
        plot.check(plot_file)
    results.check(out)
    counter = tokens.counter()
    started_at, code = results.now(), results.code_sha256()
    with _progress(conversations) as step:
        run = evaluate(conversations, prepare, counter.count, step)
    if results.code_sha256() != code:
        raise ChangedMeanwhile("memdb was edited during the run", hint="nothing was kept; measure a copy")
    asked = {"limit": limit, "sizes": sizes, **(options or {})}
    facts = _facts(name, started_at, conversations, run, (code, sha256(files)), counter.name, asked)
    results.append(out, facts, run.outcomes)
    finished = report(facts, run.outcomes, _baseline(run), _unscored(conversations), benchmark.by)
    if plot_file is not None:
        plot.draw(finished, benchmark.categories, plot_file)
    return finished


def _baseline(run: Run) -> str:
    """The retriever the others are compared with: the strong baseline, else the first."""
    names = [outcome.retriever for outcome in run.outcomes]
    return STRONG_BASELINE if STRONG_BASELINE in names else names[0]


def _unscored(conversations: Sequence[Conversation]) -> dict[str, int]:
    """How many questions of each category have no gold."""
    return Counter(
        str(question.category) for one in conversations for question in one.questions if not question.gold
    )


def _facts(
    name: str,
    started_at: str,
    conversations: Sequence[Conversation],
    run: Run,
    digests: tuple[str, str],
    tokenizer: str,
    options: dict[str, str | int | None],
) -> results.Facts:
    questions = [question for one in conversations for question in one.questions]
    scored = sum(bool(question.gold) for question in questions)
    return results.Facts(
        benchmark=name,
        started_at=started_at,
        memdb_version=memdb.__version__,
        settings=results.memdb_settings(),
        options=options,
        models=run.models,
        code_sha256=digests[0],
        data_sha256=digests[1],
        machine=results.machine(),
        tokenizer=tokenizer,
        conversations=len(conversations),
        messages=sum(len(one.messages) for one in conversations),
        questions=scored,
        unscored=len(questions) - scored,
        add_seconds=run.add_seconds,
        seconds=run.seconds,
    )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where the memory files go: `keep`, made if need be, or a folder that goes when the run ends."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as folder:
        yield Path(folder)


@contextmanager
def _progress(conversations: Sequence[Conversation]) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, on a terminal only; the function it gives counts one question of a conversation."""
    console = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*parts, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("adding messages", total=sum(len(one.questions) for one in conversations))
        yield lambda conversation: bar.update(task, advance=1, description=conversation)

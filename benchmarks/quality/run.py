"""The entry of the quality benchmarks, for `memdb bench NAME` and `python -m benchmarks.quality NAME`."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import memdb
from memdb.models.registry import load_encoder
from memdb.serve.render import tell

from . import (
    answering,
    beam,
    candidate_plot,
    candidate_tables,
    candidates,
    factconsolidation,
    locomo,
    longmemeval,
    plot,
    results,
    talks,
    tokens,
)
from .answer_figures import Answers, summed_up
from .answer_tables import show_answers
from .columns import columns, parse_depths
from .data import Conversation, chosen_sizes, find_files, first_questions, sha256, size_of_most_questions
from .encoding import Remembering
from .errors import BenchmarkError, ChangedMeanwhile, DataMissing
from .evaluate import Run, evaluate
from .figures import MESSAGES, Figures
from .history_files import CELLS, histories_in_memory_file
from .judge import Judge
from .report import Report, report, show, show_rest, to_json
from .retrievers import Prepared, in_memory_file
from .scoring import Kept, Marking, Score, is_answered, locomo_score, substring, token_f1

RESULTS: Final = Path("memdb-bench.sqlite")
KEPT_ANSWERS: Final = "answers.jsonl"  # in the folder of the memory files
BAD_REQUEST: Final = 2

Prepare = Callable[[Conversation], AbstractContextManager[Prepared]]


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark: its files, how they are read, what its categories are called, what it reports and how.

    `columns` are those it has besides. `one_size`: a run measures one size of the data, unless more are asked
    for. `haystacks` makes of what is read what is measured, with so many sessions added; its conversations
    may share messages. `home` is where its data is if it comes with memdb, `sizes` what is measured of it
    unless others are asked for. An answer is scored by `score`, called `metric`, and by a judge, who lets
    pass what `lenient` says for a category.
    """

    pattern: str
    load: Callable[[Sequence[Path]], list[Conversation]]
    categories: Mapping[int, str]
    figures: Figures = MESSAGES
    columns: tuple[str, ...] = ()
    one_size: bool = False
    haystacks: Callable[[Sequence[Conversation], int | None], list[Conversation]] | None = None
    show: Callable[[Report, Mapping[int, str], Console], None] = show
    home: Path | None = None
    sizes: str | None = None
    score: Score = token_f1
    metric: str = "token F1"
    lenient: Mapping[int, str] = {}


BENCHMARKS: Final = {
    "locomo": Benchmark(
        pattern=locomo.PATTERN,
        load=locomo.load,
        categories=locomo.CATEGORIES,
        score=locomo_score,
        metric="LoCoMo's token F1",
    ),
    "longmemeval": Benchmark(
        pattern=longmemeval.PATTERN,
        load=longmemeval.load,
        categories=longmemeval.CATEGORIES,
        figures=longmemeval.FIGURES,
        one_size=True,
        haystacks=longmemeval.haystacks,
        show=longmemeval.show,
        lenient=longmemeval.LENIENT,
    ),
    "factconsolidation": Benchmark(
        pattern=factconsolidation.PATTERN,
        load=factconsolidation.load,
        categories=factconsolidation.CATEGORIES,
        figures=factconsolidation.FIGURES,
        columns=("-hops", "-hops,-traces"),
        show=factconsolidation.show,
        score=substring,
        metric="SubEM",
    ),
    "beam": Benchmark(
        pattern=beam.PATTERN,
        load=beam.load,
        categories=beam.CATEGORIES,
        figures=beam.FIGURES,
        one_size=True,
        show=beam.show,
    ),
    "talks": Benchmark(
        pattern=talks.PATTERN,
        load=talks.load,
        categories=talks.CATEGORIES,
        home=talks.HOME,
        sizes=talks.HELD_OUT,
    ),
}


class Wanted(msgspec.Struct, frozen=True):
    """Which part of the data is measured: at most `limit` questions, of the sizes named, in haystacks of so
    many sessions of other questions; and of what: rankings or, with `defermem`, candidate sets, with `grid`
    at each pair of thresholds.
    """

    limit: int | None = None
    sizes: str | None = None
    haystack: int | None = None
    defermem: bool = False
    grid: bool = False

    @property
    def options(self) -> dict[str, str | int | None]:
        """As they are kept in the results file."""
        named = msgspec.structs.asdict(self).items()
        return {name: ("yes" if one else None) if isinstance(one, bool) else one for name, one in named}


EVERYTHING: Final = Wanted()


def bench(
    name: str,
    data: Path | None = None,
    *,
    out: Path | None = None,
    plot: Path | None = None,
    json: bool = False,
    limit: int | None = None,
    channels: Sequence[str] = (),
    ablate: bool = False,
    depths: str | None = None,
    keep: Path | None = None,
    sizes: str | None = None,
    haystack: int | None = None,
    answers: bool = False,
    llm: str | None = None,
    graph: str | None = None,
    judge: str | None = None,
    judgings: int | None = None,
    defermem: bool = False,
    grid: bool = False,
) -> int:
    """Run a benchmark and print its tables (`json`: its report); the exit status.

    `data`: the folder or file, else MEMDB_DATA. `out`: the results file that the run is added to, else
    `memdb-bench.sqlite` here. `plot`: a picture to write. `limit`: questions in all. `channels`: one more
    column each, a comma-separated list. `ablate`: columns with a part of memdb less. `depths`: a column for
    each reranking depth of a comma-separated list. `keep`: a folder for the memory files; those found there
    are used as they are. `sizes`: of a benchmark in several sizes these alone, comma-separated. `haystack`:
    sessions of other questions that are added to those of each. `answers`: questions are answered too,
    without a model, and with the model `llm`, which reads a graph token of the graph encoder `graph` if one
    is named; `judge` is a model that judges each answer `judgings` times. `defermem`: DeferMem's candidate
    sets instead of rankings, and what is distilled from them, by `llm` too; with `grid` at each pair of
    thresholds. A request that cannot be met is told on stderr and gives 2.
    """
    asked = {
        "channels": " ".join(channels),
        "ablate": "yes" if ablate else None,
        "depths": depths,
        "keep": None if keep is None else "yes",
        **({"answers": "yes", "graph": graph, "judge": judge} if answers else {}),
        **({"llm": llm} if answers or defermem else {}),
    }
    models = answering.Wanted(answers, llm, graph, judge, judgings, distilled=defermem)
    shown = Columns(tuple(channels), ablate, depths)
    wanted = Wanted(limit, sizes, haystack, defermem, grid)
    try:
        result = _run(name, data, shown, models, wanted, keep, out, plot, asked)
    except BenchmarkError as error:
        tell(error.message, error.hint)
        return BAD_REQUEST
    if json:
        print(to_json(result))
    else:
        _show(result, _benchmark(name, defermem=defermem))
    return 0


class Columns(NamedTuple):
    """The columns that are asked for besides those of every run."""

    channels: tuple[str, ...] = ()
    ablate: bool = False
    depths: str | None = None


def _run(
    name: str,
    data: Path | None,
    shown: Columns,
    models: answering.Wanted,
    wanted: Wanted,
    keep: Path | None,
    out: Path | None,
    plot_file: Path | None,
    options: Mapping[str, str | int | None],
) -> Report:
    """`measure` with memory files and models of its own."""
    benchmark = _benchmark(name, defermem=wanted.defermem)
    _require_sense(shown, wanted)
    chosen = columns(
        [*benchmark.columns, *shown.channels], ablate=shown.ablate, depths=parse_depths(shown.depths)
    )
    with _folder(keep) as folder, answering.models(models) as loaded:
        remembering = Remembering(load_encoder()) if benchmark.haystacks else None
        prepare: Prepare
        if wanted.defermem:
            prepare = partial(histories_in_memory_file, answers=models.answers, grid=wanted.grid)
        else:
            once = shown.ablate and shown.depths is None
            prepare = partial(in_memory_file, chosen=chosen, score_once=once)
        return measure(
            name,
            data,
            prepare=partial(prepare, folder=folder, remembering=remembering, models=loaded),
            out=out or RESULTS,
            plot_file=plot_file,
            wanted=wanted,
            options=options,
            marking=_marking(benchmark, loaded, keep) if loaded and models.answers else None,
        )


def _require_sense(shown: Columns, wanted: Wanted) -> None:
    """Raises BenchmarkError for options that do not go together."""
    if wanted.grid and not wanted.defermem:
        raise BenchmarkError("--grid is of DeferMem's thresholds", hint="add --defermem")
    if wanted.defermem and shown != Columns():
        raise BenchmarkError(
            "--channels, --ablate and --depths are columns of rankings", hint="leave them or --defermem out"
        )


def _marking(benchmark: Benchmark, models: answering.Models, keep: Path | None) -> Marking:
    """How the answers of a run are scored and kept: with the memory files, if these are kept."""
    judge = models.judge and Judge(models.judge, models.judgings, benchmark.lenient)
    depends_on = [results.code_sha256(), *sorted(f"{a} {b}" for a, b in models.digests.items())]
    kept = keep and Kept(keep / KEPT_ANSWERS, [*depends_on, str(models.judgings if judge else 0)])
    return Marking(benchmark.score, judge or None, kept or None)


def _show(result: Report, benchmark: Benchmark) -> None:
    console = Console()
    benchmark.show(result, benchmark.categories, console)
    if result.answers is not None:
        show_answers(result.answers, benchmark.categories, console)
    show_rest(result, console)


def measure(
    name: str,
    data: Path | None,
    *,
    prepare: Prepare,
    out: Path,
    plot_file: Path | None = None,
    wanted: Wanted = EVERYTHING,
    options: Mapping[str, str | int | None] | None = None,
    marking: Marking | None = None,
) -> Report:
    """Find the data, ask every question, with `marking` have it answered too, add the run to `out`, draw.

    What makes it impossible raises BenchmarkError before the first message is added.
    """
    benchmark = _benchmark(name, defermem=wanted.defermem)
    files = find_files(name, benchmark.pattern, benchmark.home or data)
    conversations, left_out = _chosen(name, benchmark.load(files), wanted)
    if not any(question.scored for one in conversations for question in one.questions):
        raise DataMissing(f"no question with gold in {', '.join(map(str, files))}")
    if plot_file is not None:
        plot.check(plot_file)
    results.FILE.check(out)
    counter = tokens.counter()
    started_at, code = results.now(), results.code_sha256()
    also = candidates.sift_all if wanted.defermem else None
    with _progress(conversations, 1 + wanted.defermem + len(CELLS) * wanted.grid) as step:
        run = evaluate(conversations, prepare, counter.count, step, benchmark.figures.values, marking, also)
    if results.code_sha256() != code:
        raise ChangedMeanwhile("memdb was edited during the run", hint="nothing was kept; measure a copy")
    sizes = list(dict.fromkeys(one.size for one in conversations if one.size))
    asked = {**wanted.options, "measured": ",".join(sizes) or None, **(options or {})}
    facts = _facts(name, started_at, conversations, run, (code, sha256(files)), counter.name, asked)
    results.append(out, facts, run.outcomes, run.answered)
    finished = report(
        facts,
        msgspec.structs.replace(run, outcomes=candidates.ungridded(run.outcomes)),
        benchmark.figures,
        unscored=_unscored(conversations),
        unanswered=_unanswered(conversations),
        sizes=sizes,
        left_out=left_out,
        answers=_answers(benchmark, conversations, run, marking),
        sifting=candidates.summed_up(run.outcomes, benchmark.figures.by) if wanted.defermem else None,
    )
    if plot_file is not None:
        make = candidate_plot.figure if wanted.defermem else plot.ranked
        plot.draw(finished, benchmark.categories, plot_file, make)
    return finished


def _answers(
    benchmark: Benchmark, conversations: Sequence[Conversation], run: Run, marking: Marking | None
) -> Answers | None:
    if marking is None:
        return None
    questions = [question for one in conversations for question in one.questions]
    return summed_up(
        run.answered,
        benchmark.metric,
        benchmark.figures.by,
        judge=marking.judge.backbone.name if marking.judge else "",
        reused=marking.kept.reused if marking.kept else 0,
        without_reference=sum(not is_answered(question) for question in questions),
    )


def _benchmark(name: str, *, defermem: bool = False) -> Benchmark:
    """A benchmark by its name, with `defermem` as one of candidate sets. Raises BenchmarkError."""
    if name not in BENCHMARKS:
        raise BenchmarkError(f"no benchmark {name!r}", hint=f"benchmarks: {', '.join(sorted(BENCHMARKS))}")
    found = BENCHMARKS[name]
    if not defermem:
        return found
    return msgspec.structs.replace(
        found, figures=candidates.figures(found.figures.by), show=candidate_tables.show, columns=()
    )


def _chosen(
    name: str, conversations: list[Conversation], wanted: Wanted
) -> tuple[list[Conversation], dict[str, int]]:
    """What is measured, and how many questions each size has that is not. Raises BenchmarkError."""
    benchmark = _benchmark(name)
    if wanted.limit is not None and wanted.limit < 1:
        raise BenchmarkError(f"--limit {wanted.limit} leaves no question")
    if wanted.haystack is not None and benchmark.haystacks is None:
        raise BenchmarkError(f"{name} has no haystacks that could be made", hint="leave --haystack out")
    left_out: dict[str, int] = {}
    if benchmark.one_size and wanted.sizes is None:
        conversations, left_out = size_of_most_questions(conversations)
    else:
        conversations = chosen_sizes(conversations, wanted.sizes or benchmark.sizes)
    if benchmark.haystacks is not None:
        conversations = benchmark.haystacks(conversations, wanted.haystack)
    return first_questions(conversations, wanted.limit), left_out


def _unscored(conversations: Sequence[Conversation]) -> dict[str, int]:
    """How many questions of each category have no gold."""
    return Counter(
        str(question.category) for one in conversations for question in one.questions if not question.scored
    )


def _unanswered(conversations: Sequence[Conversation]) -> int:
    """How many of these have no answer either."""
    questions = (question for one in conversations for question in one.questions)
    return sum(not question.scored and not question.answerable for question in questions)


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
    scored = sum(question.scored for question in questions)
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
def _progress(conversations: Sequence[Conversation], passes: int = 1) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, on a terminal only; the function it gives counts one question of a conversation, each
    of which is asked in so many passes.
    """
    console = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*parts, console=console, disable=not console.is_terminal, transient=True) as bar:
        questions = sum(len(one.questions) for one in conversations)
        task = bar.add_task("adding messages", total=passes * questions)
        yield lambda conversation: bar.update(task, advance=1, description=conversation)

"""Building memory from windows: what waits is made by a model or by rules, window after window, each in one
transaction.

Windows are made in parallel as far as the maker allows and written in their order, so that a build that was
killed at any moment and begun again ends in the rows of one that was not.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from memdb import errors, settings
from memdb.construct import derive, trajectory
from memdb.construct.admit import Admitted
from memdb.construct.extract import Extraction, Prompts, Stretch, extract
from memdb.construct.pipeline import SessionRow, write_units
from memdb.construct.plan import PlannedUnits, plan_units
from memdb.construct.traces import texts as trace_texts
from memdb.construct.vectors import Overtaken, Vectors
from memdb.models.ports import Backbone
from memdb.models.replies import Spent
from memdb.records import Built, Prompt, Scope
from memdb.store import rows, traces, windows
from memdb.store.connection import Connection, Database
from memdb.store.windows import Wanted, Work

_TRIES = 4  # plans made outside the lock, while other processes keep taking labels away, or re-embed
Progress = Callable[[Built], None]
Item = TypeVar("Item")
Made = TypeVar("Made")


class Maker(Protocol):
    """Who makes the units of a window. Safe to share between `parallel` threads."""

    made_by: str
    is_model: bool
    parallel: int

    def make(self, stretch: Stretch) -> Extraction:
        """The units of a window, or why there are none."""
        ...


class ByRules:
    """The rules of this version."""

    made_by = rows.RULES
    is_model = False
    parallel = 1

    def make(self, stretch: Stretch) -> Extraction:
        """See `Maker`: the units `add` makes of the same messages."""
        together = [*stretch.before, *stretch.messages]
        offset = stretch.first - len(stretch.before)
        units = []
        for position in range(stretch.new, stretch.first + len(stretch.messages)):
            end = position - offset
            near = together[max(0, end - derive.TAIL) : end + 1]
            units += derive.units(near, derive.speakers_of(stretch.opening[:position]), position)
        return Extraction(units, [], Spent())


class ByModel:
    """A language model in two stages (QGMem appendix F1)."""

    is_model = True

    def __init__(self, backbone: Backbone, prompts: Prompts) -> None:
        self._backbone = backbone
        self._prompts = prompts
        self.made_by = made_by(backbone, *prompts)
        self.parallel = max(1, backbone.parallel)

    def make(self, stretch: Stretch) -> Extraction:
        """See `Maker`."""
        return extract(self._backbone, self._prompts, stretch)


def made_by(backbone: Backbone, *prompts: Prompt) -> str:
    """What a file records of a model: its identity, and a digest of what it was told."""
    digest = hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()
    name = backbone.identity
    return f"{'model ' * name.startswith('rules')}{name} prompts {digest[:8]}"


class _Tally:
    """What a build has done so far."""

    def __init__(self, built: Built, progress: Progress | None) -> None:
        self.built = built
        self._rejected = Counter(built.rejected)
        self._progress = progress or (lambda built: None)
        self._progress(self.built)

    def count(self, spent: Spent, *reasons: str, **more: int) -> None:
        """Add to the counts, and tell."""
        self._rejected.update(reasons)
        more |= {f"{kind}_tokens": tokens for kind, tokens in spent._asdict().items()}
        counts = {name: getattr(self.built, name) + count for name, count in more.items()}
        rejected = dict(sorted(self._rejected.items()))
        self.built = msgspec.structs.replace(self.built, rejected=rejected, **counts)
        self._progress(self.built)


def build(
    database: Database, vectors: Vectors, maker: Maker, wanted: Wanted, progress: Progress | None = None
) -> Built:
    """Make the units of all windows that are wanted; `progress` is told after each.

    A window somebody else changed meanwhile is passed over. Raises what the maker raises when it cannot run:
    what was written until then stays.
    """
    with database.exclusive(), database.reader() as connection:  # ReadOnly before anything is asked
        todo = windows.to_build(connection, wanted)
        failed = windows.count_failed(connection, wanted) if maker.is_model else 0
    waiting = failed - sum(work.state == "failed" for work in todo if maker.is_model)
    tally = _Tally(Built(windows=len(todo), failed_before=waiting), progress)

    def make(work: Work) -> tuple[_Window, Extraction] | None:
        with database.reader() as connection:
            window = _read(connection, work)
        return None if window is None else (window, maker.make(window.stretch))

    with contextlib.closing(in_order(make, todo, maker.parallel)) as all_made:
        for made in all_made:
            if made is None:
                tally.count(Spent(), passed=1)
                continue
            window, extraction = made
            reasons = [one.reason for one in extraction.rejected]
            replaced = _write(database, vectors, maker, window, extraction)
            if replaced is None:
                tally.count(extraction.spent, passed=1)
            elif extraction.error is not None:
                tally.count(extraction.spent, *reasons, failed=1)
            else:
                made_units = len(extraction.units)
                emptied = int(replaced > 0 and not made_units)
                tally.count(extraction.spent, *reasons, done=1, units=made_units, emptied=emptied)
    return tally.built


def shortfalls(built: Built) -> Iterator[str]:
    """What a build did not do, or did beyond what was asked for, each in a sentence."""
    if failed := built.failed + built.failed_before:
        yield (
            f"the model's answers for {_many(failed)} cannot be used: the facts stay as they were; build "
            "with retry asks again, windows() and `memdb show --windows` say why"
        )
    if built.emptied:
        yield (
            f"the model found nothing in {_many(built.emptied)} that had facts: build with redo and without "
            "a model makes those again"
        )


def _many(windows: int) -> str:
    return f"{windows} window" + "s" * (windows != 1)


def in_order(
    work: Callable[[Item], Made], items: Sequence[Item], parallel: int
) -> Generator[Made, None, None]:
    """What `work` makes of each item, in their order, `parallel` at a time and not far ahead.

    To be closed: whoever stops early waits for what is being made, and no more of it is begun.
    """
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(parallel, thread_name_prefix="memdb-build") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > parallel * settings.BUILD_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class _Window(NamedTuple):
    """A window as it was read; `stored` is message_id and said_key by position."""

    work: Work
    stretch: Stretch
    stored: dict[int, tuple[int, int]]


def _read(connection: Connection, work: Work) -> _Window | None:
    if windows.work(connection, work.session_id, work.window_no) != work:
        return None  # somebody else was faster: the model need not be asked
    start = max(0, work.first - derive.TAIL)
    near = rows.session_range(connection, work.session_id, start, work.end)
    if work.first < 0 or len(near) != work.end - start:
        raise errors.Damaged(
            f"window {work.window_no} of session {work.session!r} is about messages that are not there",
            hint="run memdb verify",
        )
    opening = rows.session_range(connection, work.session_id, 0, derive.EARLY)
    messages = [Admitted(one.message, one.instant) for one in near]
    cut = work.first - start
    stretch = Stretch(
        session=work.session,
        first=work.first,
        new=work.new,
        messages=messages[cut:],
        before=messages[:cut],
        opening=[Admitted(one.message, one.instant) for one in opening],
    )
    stored = {one.position: (one.message_id, rows.said_key(one.instant)) for one in near}
    return _Window(work, stretch, stored)


def _write(
    database: Database, vectors: Vectors, maker: Maker, window: _Window, extraction: Extraction
) -> int | None:
    """Write what became of a window; how many units it replaced, None if somebody else has changed the window
    since it was read.
    """
    stretch = window.stretch
    near = [*stretch.before, *stretch.messages]
    last = stretch.first + len(stretch.messages) - 1
    terms = [derive.unit_terms(unit, near, last) for unit in extraction.units]
    with database.exclusive():
        for _ in range(_TRIES):
            vectors = vectors.read(database)
            planned = plan_units(database, vectors, extraction.units, terms)
            with contextlib.suppress(Overtaken), database.atomic() as connection:
                vectors.require(connection)
                return _write_if_current(connection, maker, window, extraction, planned)
        with database.atomic() as connection:
            planned = plan_units(database, vectors.now(connection), extraction.units, terms)
            return _write_if_current(connection, maker, window, extraction, planned)


def _write_if_current(
    connection: Connection, maker: Maker, window: _Window, extraction: Extraction, planned: PlannedUnits
) -> int | None:
    work = window.work
    if windows.work(connection, work.session_id, work.window_no) != work:
        return None
    windows.put_rejections(connection, work, extraction.rejected)
    if extraction.error is not None:
        windows.fail(connection, work, extraction.error[: settings.MAX_DETAIL_CHARS])
        return 0
    session = SessionRow(work.session_id, work.scope_id, window.stored)
    replaced = windows.units_of(connection, work)
    write_units(connection, session, *planned, replaced=replaced)
    windows.finish(connection, work, maker.made_by, is_model=maker.is_model)
    return len(replaced)


def tell_traces(
    database: Database,
    backbone: Backbone,
    prompt: Prompt,
    scope: Scope | None,
    built: Built,
    progress: Progress | None,
) -> Built:
    """Let a model tell the trajectory of every trace it has not told yet (QGMem section III-A2).

    One that is not supported by its members stays as the rules tell it; the trace says who tried. What was
    done is counted on top of `built`.
    """
    name = made_by(backbone, prompt)
    with database.reader() as connection:
        todo = traces.to_tell(connection, scope, name)
    tally = _Tally(msgspec.structs.replace(built, traces=built.traces + len(todo)), progress)

    def tell(trace_id: int) -> tuple[int, list[traces.Member], trajectory.Told]:
        with database.reader() as connection:
            members = traces.members(connection, traces=[trace_id])
        return trace_id, members, trajectory.tell(backbone, prompt, members)

    with contextlib.closing(in_order(tell, todo, max(1, backbone.parallel))) as all_told:
        for trace_id, members, told in all_told:
            with database.atomic() as connection:
                current = traces.members(connection, traces=[trace_id]) == members and members
                if current and told.trajectory is not None:
                    traces.tell(connection, trace_id, told.relation_text, told.trajectory, name)
                elif current:
                    relation_text, by_rules = trace_texts(members)
                    traces.tell(connection, trace_id, relation_text, by_rules, f"rules/{name}")
            used = bool(current) and told.trajectory is not None
            tally.count(told.spent, told=1, trajectories=int(used))
    return tally.built

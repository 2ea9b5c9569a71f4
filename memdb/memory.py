"""Memory, the one object a user holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack, overload

import msgspec

from memdb import errors, settings
from memdb.activate import asked
from memdb.activate.follow import Followed, follow
from memdb.activate.parse import parse_question
from memdb.activate.parse_by_model import parse_by_model
from memdb.activate.recall import Reader, Wish, recall
from memdb.activate.working_memory import estimated_tokens, serialised
from memdb.construct import build as construct_build
from memdb.construct import pipeline
from memdb.construct import reembed as construct_reembed
from memdb.construct import traces as construct_traces
from memdb.construct.admit import admit, batches, named, scope_of, within
from memdb.construct.build import ByModel, ByRules
from memdb.construct.derive import Derivation
from memdb.construct.extract import Prompts
from memdb.construct.plan import Place, Vectors, vectors_of_another
from memdb.construct.relation import readings
from memdb.generate import qgmem
from memdb.generate.prompts import prompt
from memdb.generate.qgmem import GRAPH_MODES, METHODS, Asking, Generator, How
from memdb.generate.stream import AnswerStream
from memdb.language.clock import parse_instant
from memdb.models.ports import Backbone, Encoder, GraphEncoder, Reranker
from memdb.models.registry import as_backbone
from memdb.records import (
    About,
    Added,
    Answer,
    Built,
    Instant,
    Message,
    Moment,
    Query,
    Reembedded,
    Scope,
    Session,
    Trace,
    Verification,
    Window,
    WorkingMemory,
)
from memdb.store import rows, schema, traces, verify
from memdb.store import windows as store_windows
from memdb.store.connection import Database
from memdb.store.windows import Wanted


class Memory:
    """A memory file, open. Safe to share between threads; a context manager that closes it.

    Made by `memdb.open`. Every method may raise `Closed`, `Locked`, `StorageFailed` and `Damaged`.
    """

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        scope: Scope | None,
        backbone: Backbone | None,
        reranker: Callable[[], Reranker | None],
        graph_encoder: GraphEncoder | None = None,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._backbone = backbone
        self._scope = scope
        self._reranker = reranker
        self._graph_encoder = graph_encoder

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._database.path

    @property
    def encoder(self) -> Encoder | None:
        """The encoder in use; None when the file's vectors come from another: words alone are searched."""
        return self._now().encoder

    @property
    def reader(self) -> Reader:
        """What questions are answered with."""
        return self._reading(self._now())

    def add(
        self,
        messages: Iterable[Message],
        *,
        session: str = "default",
        source: str = "",
        scope: Scope | None = None,
    ) -> Added:
        """Store messages at the end of a session.

        A list or tuple is one transaction: all of it is stored, or none. Any other iterable is a stream that
        is committed every `ADD_BATCH_MESSAGES` messages, in bounded memory. A message whose id the session
        holds is not stored again, so repeating an add is safe. `source` names the place the conversation was
        imported from.

        Claims are found by rules. A memory opened with a backbone then has it build the windows that are
        full; should it be out of reach, or its answers unusable, that is a warning (`MemdbWarning`): what was
        added stays, and `build` tries again.

        Raises `MessageError` for a message that cannot be stored, `ScopeError`, `ReadOnly`.
        """
        place = Place(self._one_scope(scope), *named(source, session))
        done = [Added(session=place.session, ids=())]
        for batch in batches(messages):
            given = sum(len(added.ids) for added in done)
            done.append(pipeline.add(self._database, self._now(), place, admit(batch, given)))
        self._now()  # warns if the file was re-embedded meanwhile
        if self._backbone is not None:
            self._build_added(self._backbone, place)
        return pipeline.together(done)

    def build(
        self,
        backbone: Backbone | str | None = None,
        *,
        scope: Scope | str | None = None,
        session: str | None = None,
        source: str = "",
        retry: bool = False,
        redo: bool = False,
        progress: Callable[[Built], None] | None = None,
    ) -> Built:
        """Let a language model make the units of every window that waits for it, in place of those that rules
        made, and tell the traces (QGMem section III-A).

        `backbone` is a model (`load_backbone` makes one, at any `base_url`), the path of a GGUF file or
        `openai:NAME`; by default the one the memory was opened with, and without any the rules of this
        version, which make anew what older ones made. Each window is one transaction: a build may be stopped
        at any moment and begun again. `session` and `source` pick one session. `retry` takes windows that
        failed before, `redo` these and those that another model has built; without a model it takes back what
        models made. `progress` is told what was done so far.

        Raises `ModelUnavailable` and `ModelError` when the model cannot run, `InputError` for a session that
        is not there, `ReadOnly`, `ScopeError`.
        Warns (`MemdbWarning`) of windows that failed, and of those in which a model found nothing.
        """
        reading = self._reading_scope(scope)
        if session is not None:
            source, session = named(source, session)
            self.windows(session, source=source, scope=scope)  # raises where there is none
        chosen = self._backbone if backbone is None else as_backbone(backbone)
        prompts = Prompts(prompt("units"), prompt("indexes"))
        maker = ByRules() if chosen is None else ByModel(chosen, prompts)
        wanted = Wanted(maker.made_by, maker.is_model, reading, session, source, retry=retry, redo=redo)
        try:
            built = construct_build.build(self._database, self._now(), maker, wanted, progress)
            if chosen is not None:
                telling = prompt("trajectory")
                built = construct_build.tell_traces(self._database, chosen, telling, reading, built, progress)
        finally:
            if isinstance(backbone, str) and chosen is not None:
                chosen.close()
        _warn(construct_build.shortfalls(built))
        return built

    def windows(
        self, session: str | None = None, *, source: str = "", scope: Scope | str | None = None
    ) -> tuple[Window, ...]:
        """The windows of construction work, of one session or of all, and what their checks refused.

        Raises `InputError` for a session that is not there.
        """
        reading = self._reading_scope(scope)
        if session is not None:
            source, session = named(source, session)
        with self._database.reader() as connection:
            found = store_windows.windows(connection, reading, session, source)
        if session is not None and not found:
            raise _no_session(session)
        return found

    def recall(
        self,
        question: str,
        k: int = settings.TOP_K,
        *,
        scope: Scope | str | None = None,
        at: Moment | None = None,
        as_of: Moment | None = None,
        channels: Sequence[str] | None = None,
        neighbours: int = 0,
        parser: str = "rules",
        rerank_depth: int | None = None,
    ) -> WorkingMemory:
        """The evidence for a question, best first (QGMem section III-B).

        `at` is the question's own time, which relative expressions in it count from. `as_of` leaves out
        everything said later (a date stands for its end in UTC) and everything of unknown time. `channels`
        picks from CHANNELS. `neighbours` messages on each side of a piece of evidence come with it. What the
        same speaker says again in nearly the same words is one piece of evidence. Names, places and times are
        found in the question by the `parser` "rules", or by "model", the backbone the memory was opened with:
        better, and slower by one call; where it fails the rules stand in, with a warning. Of a question the
        first `rerank_depth` candidates, RERANK_DEPTH by default, are put into a new order by the reranker; 0
        leaves the first one. The result's `answerable` is the probability that the memory holds the answer.
        Any text is a legal question.

        Raises `InputError` for what is not text, `TimeError`, `ScopeError` for a scope outside the memory's
        own.
        """
        text = asked.question_text(question)
        wish = self._wish(k, scope, as_of)._replace(
            channels=asked.chosen_channels(channels),
            neighbours=asked.reach(neighbours),
            rerank_depth=asked.depth(rerank_depth),
        )
        query = self._parsed(text, parse_instant(at) if at is not None else None, parser)
        return recall(self._reading(self._now()), query, wish)

    @overload
    def ask(
        self,
        question: str,
        at: Moment | None = None,
        *,
        stream: Literal[False] = False,
        **how: Unpack[How],
    ) -> Answer: ...

    @overload
    def ask(
        self, question: str, at: Moment | None = None, *, stream: Literal[True], **how: Unpack[How]
    ) -> AnswerStream: ...

    def ask(
        self,
        question: str,
        at: Moment | None = None,
        *,
        method: str = "qgmem",
        k: int = settings.TOP_K,
        scope: Scope | str | None = None,
        as_of: Moment | None = None,
        budget_tokens: int = settings.CONTEXT_TOKENS,
        graph_mode: str = "token",
        stream: bool = False,
    ) -> Answer | AnswerStream:
        """The answer to a question, with its sources (QGMem section III).

        The memory's backbone answers from the working memory of at most `budget_tokens`. In front of it, it
        reads the working memory's graph as one token, if the memory was opened with a graph encoder;
        `graph_mode` "text" leaves the token out. Without a backbone the answer is the span of the evidence
        that fits the question. Where the memory does not seem to hold the answer, it says so and is
        `abstained`. `at`, `k`, `scope` and `as_of` are those of `recall`. With `stream`, an `AnswerStream`
        gives the text piece by piece.

        Raises what `recall` raises, `ModelUnavailable` and `ModelError` when the backbone cannot answer.
        """
        text, instant = asked.question_text(question), None if at is None else parse_instant(at)
        wish = self._wish(k, scope, as_of)
        asking = Asking(
            query=self._parsed(text, instant, "rules"),
            question_time=None if instant is None else instant.text,
            budget_tokens=asked.budget(budget_tokens),
            graph_mode=asked.one_of(graph_mode, GRAPH_MODES, "graph_mode"),
        )
        asked.one_of(method, METHODS, "method")
        vectors = self._now()
        generator = Generator(self._backbone, self._graph_encoder, vectors.own)
        make = partial(qgmem.ask, self._reading(vectors), generator, asking, wish)
        return AnswerStream(make) if stream else make()

    def context(
        self,
        question: str,
        budget_tokens: int = settings.CONTEXT_TOKENS,
        *,
        k: int = settings.TOP_K,
        count_tokens: Callable[[str], int] | None = None,
        scope: Scope | str | None = None,
        at: Moment | None = None,
        as_of: Moment | None = None,
    ) -> str:
        """The working memory of a question as text for a prompt (QGMem appendix F1): evidence clusters with
        the trajectories of their traces, then labelled facts, in at most `budget_tokens`.

        It is marked as quoted data, and nothing that was said can end the mark. Tokens are counted by
        `count_tokens`, else by the memory's backbone, else by an upper estimate. Empty when nothing was
        found, or nothing fits. Raises what `recall` raises.
        """
        found = self.recall(question, k, scope=scope, at=at, as_of=as_of)
        count = count_tokens or (self._backbone.count_tokens if self._backbone else estimated_tokens)
        return serialised(found, budget_tokens, count).text

    def trace(
        self, relation: str, *, scope: Scope | str | None = None, as_of: Moment | None = None
    ) -> tuple[Trace, ...]:
        """How a relation changed and what holds now, for each trace that tells of it (QGMem section III-A2).

        `relation` names a holder and what is said of it: "Ana lives in", "the capital of France"; a holder
        alone gives all its traces. The same words come first; if nothing has them, the nearest by the
        encoder. `as_of` leaves out what was said later, as in `recall`: the latest of the rest is current
        then. Warns (`MemdbWarning`) of claims that traces do not know of yet: see `update_traces`.

        Raises `InputError` for what is not text, `TimeError`, `ScopeError` for a scope outside the memory's
        own.
        """
        followed = Followed(
            readings=tuple(readings(asked.question_text(relation))),
            scope=self._reading_scope(scope),
            as_of=None if as_of is None else asked.keys_until(as_of),
        )
        now = self._now()
        found = follow(self._database, now.encoder, now.scale, followed)
        with self._database.reader() as connection:
            traced, newest = traces.traced_until(connection)
        if traced < newest:
            warnings.warn(
                f"traces do not know of the last {newest - traced} claims: call update_traces()",
                errors.MemdbWarning,
                stacklevel=2,
            )
        return found

    def update_traces(self) -> None:
        """Let traces know of every claim, in short transactions; may be stopped and called again.

        `add` does so as messages come, while the file has at most TRACED_ON_ADD_UNITS claims: beyond, looking
        around each of them costs more than writing it. Raises `ReadOnly`.
        """
        left = 1
        while left:
            with self._database.atomic() as connection:
                left = construct_traces.update(connection)

    def rebuild_traces(self) -> int:
        """Make all traces of the file anew, in one transaction; returns how many there are.

        What is made anew does not depend on the order in which messages came.
        Raises `ReadOnly`, and `ScopeError` unless the memory was opened for everyone or for nobody in
        particular.
        """
        if self._scope not in (None, Scope()):
            raise errors.ScopeError(
                "rebuilding concerns every scope", hint="open the memory without a scope, or with '*'"
            )
        with self._database.atomic() as connection:
            return construct_traces.rebuild(connection)

    def reembed(self, *, progress: Callable[[Reembedded], None] | None = None) -> Reembedded:
        """Make all vectors of the file anew with the encoder this memory was opened with, whatever scope they
        belong to; where the file is of this encoder already, those that are missing.

        Until it is finished the file answers as before, and may be written to. It may be stopped at any
        moment and called again: it goes on where it was. The switch is one transaction; memories that are
        open then search by words alone, or begin to search by vectors. Traces keep their members and
        trajectories: `rebuild_traces` makes them anew. `progress` is told what was done so far.

        Raises `ReadOnly`, `ModelError`, and `Locked` when somebody else begins with another encoder.
        """
        return construct_reembed.reembed(self._database, self._vectors.own, progress)

    def sessions(self, *, scope: Scope | str | None = None) -> tuple[Session, ...]:
        """The sessions of a scope in the order they were begun."""
        with self._database.reader() as connection:
            return rows.sessions(connection, self._reading_scope(scope))

    def messages(
        self, session: str, *, source: str = "", scope: Scope | str | None = None
    ) -> tuple[Message, ...]:
        """The messages of each session of that name the scope sees. `InputError` if there is none."""
        source, session = named(source, session)
        with self._database.reader() as connection:
            found = rows.session_messages(connection, self._reading_scope(scope), source, session)
        if not found:
            raise _no_session(session)
        return found

    def verify(self) -> Verification:
        """Derive again and compare: SQLite's own checks, counts, indexes, spans, references."""
        with self._database.inspector() as connection:
            return verify.verify(connection, self._database.path, Derivation, construct_traces.texts)

    def about(self) -> About:
        """What made the file, and how many rows it holds."""
        with self._database.reader() as connection:
            counts = verify.counts(connection)
            made = schema.read_made(connection, self.path)
        return About(
            format=schema.FORMAT,
            memdb_version=made.memdb_version,
            encoder_name=made.encoder_name,
            encoder_sha256=made.encoder_sha256,
            encoder_dimension=made.encoder_dimension,
            settings=made.settings,
            counts=counts,
        )

    def close(self) -> None:
        """Close the file. Closing twice is allowed. A backbone that was given stays open."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Memory {self.path}>"

    def _parsed(self, text: str, at: Instant | None, parser: str) -> Query:
        """A question with its constraints, by rules or by the memory's model."""
        query = parse_question(text, at)
        if parser == "rules":
            return query
        if parser != "model" or self._backbone is None:
            hint = "it is rules, or model for a memory that was opened with a backbone"
            raise errors.InputError(f"no parser {parser!r}", hint=hint)
        try:
            query, error = parse_by_model(self._backbone, prompt("query"), query, at)
        except errors.ModelError as failed:
            error = str(failed)
        if error is not None:
            told = f"the model did not parse the question, the rules did: {error}"
            warnings.warn(told, errors.MemdbWarning, stacklevel=3)
        return query

    def _wish(self, k: int, scope: Scope | str | None, as_of: Moment | None) -> Wish:
        return Wish(
            k=asked.count(k),
            scope=self._reading_scope(scope),
            as_of=None if as_of is None else asked.keys_until(as_of),
            rerank_depth=settings.RERANK_DEPTH,
        )

    def _reading(self, vectors: Vectors) -> Reader:
        return Reader(self._database, vectors.encoder, vectors.scale, self._reranker)

    def _now(self) -> Vectors:
        """The memory's encoder, as far as the file's vectors are of it; warns when they have come to be of
        another one.
        """
        before, now = self._vectors, self._vectors.read(self._database)
        self._vectors = now
        if before.encoder is not None and now.encoder is None:
            with self._database.reader() as connection:
                made = schema.read_made(connection, self.path)
            warnings.warn(vectors_of_another(self.path, made, now.own), errors.MemdbWarning, stacklevel=3)
        return now

    def _build_added(self, backbone: Backbone, place: Place) -> None:
        """Build the full windows of a session that was added to: what fails is a warning."""
        maker = ByModel(backbone, Prompts(prompt("units"), prompt("indexes")))
        wanted = Wanted(
            maker.made_by, True, place.scope, place.session, place.source,
            exact=True, full_messages=settings.WINDOW_MESSAGES,
        )  # fmt: skip
        try:
            built = construct_build.build(self._database, self._now(), maker, wanted)
        except errors.MemdbError as error:
            told = f"the messages are stored, but their facts were not built: {error}"
            warnings.warn(told, errors.MemdbWarning, stacklevel=3)
        else:
            now = msgspec.structs.replace(built, failed_before=0)
            _warn(construct_build.shortfalls(now), stacklevel=4)

    def _one_scope(self, scope: Scope | None) -> Scope:
        """The scope to write in: the narrower of the memory's own and the given one."""
        wanted = self._scope if scope is None else within(self._scope, scope_of(scope))
        if wanted is None:
            raise errors.ScopeError(
                "adding needs one scope", hint="name a user, agent or run, or Scope() for nobody"
            )
        return wanted

    def _reading_scope(self, scope: Scope | str | None) -> Scope | None:
        """The scope to read, None for everyone."""
        return self._scope if scope is None else within(self._scope, scope_of(scope))


def _no_session(session: str) -> errors.InputError:
    return errors.InputError(f"there is no session {session!r}", hint="sessions() and `memdb show` list them")


def _warn(told: Iterable[str], *, stacklevel: int = 3) -> None:
    for warning in told:
        warnings.warn(warning, errors.MemdbWarning, stacklevel=stacklevel)

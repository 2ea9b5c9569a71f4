"""What keeps a memory file in order: models that build it, segments, traces, vectors, verification."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from memdb import errors, settings
from memdb.activate import asked
from memdb.activate.recall import Reader
from memdb.activate.working_memory import estimated_tokens
from memdb.construct.admit import named, scope_of, within
from memdb.construct.vectors import Place, Vectors, vectors_of_another
from memdb.models.ports import Backbone, Encoder, GraphEncoder, Reranker
from memdb.models.registry import as_backbone
from memdb.records import (
    About,
    Built,
    Calibrated,
    Reembedded,
    Scope,
    Verification,
    Window,
)
from memdb.store import derived, schema
from memdb.store.connection import Database

if TYPE_CHECKING:
    from memdb.generate.distill import Distiller


class Upkeep:
    """An open file with the models it is read with, and what is done to all of it. See `Memory`."""

    def __init__(
        self,
        database: Database,
        vectors: Vectors,
        scope: Scope | None,
        backbone: Backbone | None,
        reranker: Callable[[], Reranker | None],
        graph_encoder: GraphEncoder | None = None,
        distiller: Distiller | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._backbone = backbone
        self._scope = scope
        self._reranker = reranker
        self._graph_encoder = graph_encoder
        self._distiller = distiller
        self._close = close or database.close

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
        models made. `progress` is told what was done so far. What searches are faster with and an older
        version did not keep is made too, at once in place of little by little.

        Raises `ModelUnavailable` and `ModelError` when the model cannot run, `InputError` for a session that
        is not there, `ReadOnly`, `ScopeError`.
        Warns (`MemdbWarning`) of windows that failed, and of those in which a model found nothing.
        """
        from memdb.construct import build as construct_build
        from memdb.construct.build import ByModel, ByRules
        from memdb.construct.extract import Prompts
        from memdb.generate.prompts import prompt
        from memdb.store.windows import Wanted

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
            derived.complete(self._database)
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
        from memdb.store import windows as store_windows

        reading = self._reading_scope(scope)
        if session is not None:
            source, session = named(source, session)
        with self._database.reader() as connection:
            found = store_windows.windows(connection, reading, session, source)
        if session is not None and not found:
            raise no_session(session)
        return found

    def update_traces(self) -> None:
        """Let traces know of every claim, in short transactions; may be stopped and called again.

        `add` does so as messages come, while the file has at most TRACED_ON_ADD_UNITS claims: beyond, looking
        around each of them costs more than writing it. Raises `ReadOnly`.
        """
        from memdb.construct import traces as construct_traces

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
        from memdb.construct import retrace

        self._require_everyone("rebuilding")
        with self._database.atomic() as connection:
            return retrace.rebuild(connection)

    def update_segments(self) -> int:
        """Put all messages into segments, and link these (DeferMem section 3.2), in short transactions; may
        be stopped and called again. Returns how many messages that were.

        `add` does so as messages come. What is left are messages that had no vector, and those of a file
        whose segments were to be made anew by somebody who was stopped. Raises `ReadOnly`.
        """
        from memdb.construct import segments as construct_segments

        encoder = self._now().encoder
        return (
            0 if encoder is None else construct_segments.update(self._database, encoder, self._vectors.scorer)
        )

    def rebuild_segments(
        self, *, tau1: float | None = None, tau2: float | None = None, rule: str | None = None
    ) -> int:
        """Make all segments of the file anew; returns how many messages are in them.

        `tau1` is the cosine of adjacent messages below which a segment may end, `tau2` the least cosine of
        linked segments. By the `rule` "sim" it ends there, by "valley" where it is also less than before and
        after, by "and" and "or" where also, or else, the encoder's attention says so (DeferMem section 3.2).
        What is not given stays as it is in the file, and what is given is used from now on. It may be
        stopped: `update_segments` goes on.

        Raises `ReadOnly`, `InputError` for a threshold that is no cosine, an unknown rule, or one that needs
        attention where the encoder tells none; `ScopeError` unless the memory was opened for everyone or for
        nobody in particular.
        """
        from memdb.construct import segments as construct_segments

        self._require_everyone("rebuilding")
        encoder = self._encoder_in_use()
        changes: dict[str, float | str] = {}
        for name, value in (("segment_threshold", tau1), ("link_threshold", tau2)):
            if value is not None:
                changes[name] = asked.cosine(value, name)
        if rule is not None:
            changes["segment_rule"] = asked.one_of(rule, construct_segments.RULES, "rule")
            if rule in construct_segments.ATTENTIVE and self._vectors.scorer is None:
                raise errors.InputError(
                    f"the encoder {encoder.name} tells no attention", hint="take rule sim"
                )
        return construct_segments.rebuild(self._database, encoder, self._vectors.scorer, **changes)

    def calibrate(
        self, target_tokens: int = settings.HISTORY_TOKENS, *, k: int = settings.CALIBRATION_K
    ) -> Calibrated:
        """Find τ1 and τ2 for the encoder of the file from its own conversations, and make its segments anew
        with them (DeferMem section 4.3): segments and links as large as `target_tokens` for the history
        around `k` messages allow.

        The defaults are measured for the embedded encoder. Raises what `rebuild_segments` raises, and
        `InputError` for a file with too few messages.
        """
        from memdb.construct import segments as construct_segments
        from memdb.construct.calibrate import calibrate

        self._require_everyone("calibrating")
        encoder = self._encoder_in_use()
        with self._database.reader() as connection:
            rule = construct_segments.shaping(connection).rule
        found = calibrate(
            self._database,
            self._vectors.scorer,
            rule,
            estimated_tokens,
            asked.count(k),
            asked.budget(target_tokens),
        )
        construct_segments.rebuild(
            self._database, encoder, self._vectors.scorer,
            segment_threshold=found.threshold, link_threshold=found.link_threshold,
        )  # fmt: skip
        return found

    def _encoder_in_use(self) -> Encoder:
        """The file's encoder. Raises InputError where it is another than the memory's."""
        encoder = self._now().encoder
        if encoder is None:
            raise errors.InputError(
                "the file's vectors are of another encoder", hint="reembed makes them anew"
            )
        return encoder

    def _require_everyone(self, doing: str) -> None:
        if self._scope not in (None, Scope()):
            raise errors.ScopeError(
                f"{doing} concerns every scope", hint="open the memory without a scope, or with '*'"
            )

    def reembed(self, *, progress: Callable[[Reembedded], None] | None = None) -> Reembedded:
        """Make all vectors of the file anew with the encoder this memory was opened with, whatever scope they
        belong to; where the file is of this encoder already, those that are missing.

        Until it is finished the file answers as before, and may be written to. It may be stopped at any
        moment and called again: it goes on where it was. The switch is one transaction; memories that are
        open then search by words alone, or begin to search by vectors. Traces keep their members and
        trajectories: `rebuild_traces` makes them anew. `progress` is told what was done so far.

        Raises `ReadOnly`, `ModelError`, and `Locked` when somebody else begins with another encoder.
        """
        from memdb.construct import reembed as construct_reembed

        return construct_reembed.reembed(self._database, self._vectors.own, progress, self._vectors.scorer)

    def verify(self) -> Verification:
        """Derive again and compare: SQLite's own checks, counts, indexes, spans, references."""
        from memdb.construct import segments as construct_segments
        from memdb.construct import traces as construct_traces
        from memdb.construct.derive import Derivation
        from memdb.store import verify

        with self._database.inspector() as connection:
            return verify.verify(
                connection, self._database.path, Derivation, construct_traces.texts, construct_segments.starts
            )

    def about(self) -> About:
        """What made the file, and how many rows it holds."""
        from memdb.store import verify

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
        """Close the file, and a distiller that was named. Closing twice is allowed. A backbone that was given
        stays open.
        """
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Memory {self.path}>"

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
        from memdb.construct import build as construct_build
        from memdb.construct.build import ByModel
        from memdb.construct.extract import Prompts
        from memdb.generate.prompts import prompt
        from memdb.store.windows import Wanted

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


def no_session(session: str) -> errors.InputError:
    """What is raised where there is no session of that name."""
    return errors.InputError(f"there is no session {session!r}", hint="sessions() and `memdb show` list them")


def _warn(told: Iterable[str], *, stacklevel: int = 3) -> None:
    for warning in told:
        warnings.warn(warning, errors.MemdbWarning, stacklevel=stacklevel)

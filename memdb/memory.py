"""Memory, the one object a user holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Unpack, overload

from memdb import errors, settings
from memdb.activate import asked
from memdb.activate.follow import Followed, follow
from memdb.activate.parse import parse_question
from memdb.activate.recall import Wish, recall
from memdb.activate.working_memory import estimated_tokens, serialised
from memdb.construct.admit import admit, batches, named
from memdb.construct.vectors import Place
from memdb.language.clock import parse_instant
from memdb.records import (
    Added,
    Answer,
    History,
    Instant,
    Message,
    Moment,
    Query,
    Scope,
    Session,
    Trace,
    WorkingMemory,
)
from memdb.store import rows, traces
from memdb.upkeep import Upkeep, no_session

if TYPE_CHECKING:
    from memdb.generate.respond import How
    from memdb.generate.stream import AnswerStream

METHODS: Final = ("qgmem", "defermem", "both")


class Memory(Upkeep):
    """A memory file, open. Safe to share between threads; a context manager that closes it.

    Made by `memdb.open`. Every method may raise `Closed`, `Locked`, `StorageFailed` and `Damaged`.
    """

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
        from memdb.construct import pipeline

        place = Place(self._one_scope(scope), *named(source, session))
        done = [Added(session=place.session, ids=())]
        for batch in batches(messages):
            given = sum(len(added.ids) for added in done)
            done.append(pipeline.add(self._database, self._now(), place, admit(batch, given)))
        self._now()  # warns if the file was re-embedded meanwhile
        if self._backbone is not None:
            self._build_added(self._backbone, place)
        return pipeline.together(done)

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

    def history(
        self,
        question: str,
        k: int = settings.HISTORY_K,
        *,
        scope: Scope | str | None = None,
        at: Moment | None = None,
        as_of: Moment | None = None,
        budget_tokens: int = settings.HISTORY_TOKENS,
        entry: str = "hybrid",
        links: str = "direct",
        count_tokens: Callable[[str], int] | None = None,
    ) -> History:
        """The raw history around a question, oldest first (DeferMem section 3.2): the segments of the `k`
        best messages, and the segments linked to these, in at most `budget_tokens`.

        `entry` is how the messages are found: "hybrid" as by `recall` without reranking, "dense" by their
        vectors alone, as in the paper. `links` are followed to "direct" neighbours, to whole link groups
        ("components"), or not ("none"). Tokens are counted as in `context`. Where the budget ends, segments
        with the best messages come first. Raises what `recall` raises, `InputError` for another `entry` or
        `links`.
        """
        from memdb.activate.expand import ENTRIES, LINKS, Reach, history

        text, instant = asked.question_text(question), None if at is None else parse_instant(at)
        reach = Reach(
            entry=asked.one_of(entry, ENTRIES, "entry"),
            links=asked.one_of(links, LINKS, "links"),
            budget_tokens=asked.budget(budget_tokens),
        )
        query = self._parsed(text, instant, "rules")
        count = count_tokens or (self._backbone.count_tokens if self._backbone else estimated_tokens)
        wish = self._wish(k, scope, as_of)
        return history(self._reading(self._now()), query, wish, reach, lambda one: count(one.message.text))

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
        """The answer to a question, with its sources.

        By the `method` "qgmem" it rests on the working memory (QGMem section III); by "defermem" on the raw
        history around the question, of which a distiller tells what helps (DeferMem section 3); by "both" on
        both, each message once. The distiller is the one the memory was opened with, else works by rules.

        The memory's backbone answers from the working memory of at most `budget_tokens`. In front of it, it
        reads the working memory's graph as one token, if the memory was opened with a graph encoder;
        `graph_mode` "text" leaves the token out. Without a backbone the answer is the span of the evidence
        that fits the question. Where the memory does not seem to hold the answer, it says so and is
        `abstained`. `at`, `k`, `scope` and `as_of` are those of `recall`. With `stream`, an `AnswerStream`
        gives the text piece by piece.

        Raises what `recall` raises, `ModelUnavailable` and `ModelError` when the backbone cannot answer.
        """
        from memdb.generate import defermem, qgmem
        from memdb.generate.respond import GRAPH_MODES, Asking, Generator
        from memdb.generate.stream import AnswerStream

        text, instant = asked.question_text(question), None if at is None else parse_instant(at)
        wish = self._wish(k, scope, as_of)
        asking = Asking(
            query=self._parsed(text, instant, "rules"),
            question_time=None if instant is None else instant.text,
            budget_tokens=asked.budget(budget_tokens),
            graph_mode=asked.one_of(graph_mode, GRAPH_MODES, "graph_mode"),
        )
        methods = dict(zip(METHODS, (qgmem.ask, defermem.ask, defermem.ask_both), strict=True))
        answer = methods[asked.one_of(method, METHODS, "method")]
        vectors = self._now()
        generator = Generator(self._backbone, self._graph_encoder, vectors.own, self._distiller)
        make = partial(answer, self._reading(vectors), generator, asking, wish)
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
        from memdb.construct.relation import readings

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
            raise no_session(session)
        return found

    def _parsed(self, text: str, at: Instant | None, parser: str) -> Query:
        """A question with its constraints, by rules or by the memory's model."""
        query = parse_question(text, at)
        if parser == "rules":
            return query
        if parser != "model" or self._backbone is None:
            hint = "it is rules, or model for a memory that was opened with a backbone"
            raise errors.InputError(f"no parser {parser!r}", hint=hint)
        from memdb.activate.parse_by_model import parse_by_model
        from memdb.generate.prompts import prompt

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

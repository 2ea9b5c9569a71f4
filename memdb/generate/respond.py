"""From a working memory to an answer: told to the backbone with its graph, or a span of it (QGMem sections
III-C, III-D).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypedDict

from memdb import settings
from memdb.activate.recall import Reader
from memdb.activate.working_memory import Serialised, estimated_tokens, serialised
from memdb.errors import InputError
from memdb.generate.answer import from_reply, from_span, none_held, seems_held, with_costs
from memdb.generate.answer_prompt import ANSWER_SCHEMA, answer_turns
from memdb.generate.distill import Distiller
from memdb.generate.extractive import extract
from memdb.generate.local_graph import edge_array, local_graph
from memdb.generate.reply import read_reply, telling
from memdb.models.ports import Backbone, EmbeddingBackbone, Encoder, GraphEncoder, SoftToken
from memdb.records import Answer, Moment, Query, Scope, Tokens, WorkingMemory

GRAPH_MODES: Final = ("token", "text")
OnAnswer = Callable[[str], None]


class How(TypedDict, total=False):
    """How a question is to be answered: see `Memory.ask`."""

    method: str
    k: int
    scope: Scope | str | None
    as_of: Moment | None
    budget_tokens: int
    graph_mode: str


class Generator(NamedTuple):
    """What an answer is made with. `encoder` makes the vectors that `graph_encoder` reads; without a
    `backbone` the answer is a span of what was said. `distiller` None is the extractive one.
    """

    backbone: Backbone | None
    graph_encoder: GraphEncoder | None
    encoder: Encoder
    distiller: Distiller | None = None


class Asking(NamedTuple):
    """A question, its own time as it was given, and how it is to be answered: see `Memory.ask`."""

    query: Query
    question_time: str | None
    budget_tokens: int
    graph_mode: str


def respond(
    reader: Reader,
    generator: Generator,
    asking: Asking,
    memory: WorkingMemory,
    clock: Clock,
    on_answer: OnAnswer | None = None,
) -> Answer:
    """The answer that a working memory gives. `on_answer` is told its text piece by piece."""
    backbone = generator.backbone
    with clock.step("serialise"):
        count = estimated_tokens if backbone is None else backbone.count_tokens
        told = serialised(memory, _room(backbone, asking), count)
    if not told.text or (backbone is None and not seems_held(memory)):
        answer = none_held(memory)
    elif backbone is None:
        with clock.step("answer"):
            answer = from_span(memory, extract(asking.query, told, reader.reranker()), told)
    else:
        return _generated(backbone, generator, asking, memory, told, clock, on_answer)
    if on_answer is not None:
        on_answer(answer.text)
    return with_costs(answer, clock.seconds)


def _generated(
    backbone: Backbone,
    generator: Generator,
    asking: Asking,
    memory: WorkingMemory,
    told: Serialised,
    clock: Clock,
    on_answer: Callable[[str], None] | None,
) -> Answer:
    """The backbone's answer to a working memory of which something is told."""
    turns, place = answer_turns(asking.query.text, asking.question_time, told.text)
    given: dict[str, Any] = {}
    with clock.step("graph"):
        soft = _graph_token(generator, asking.graph_mode, told, place)
        if soft is not None:
            given["soft"] = soft
    if on_answer is not None:
        given["on_text"] = telling(on_answer)
    with clock.step("answer"):
        reply = backbone.complete(turns, max_tokens=settings.ANSWER_TOKENS, schema=ANSWER_SCHEMA, **given)
    answer = from_reply(memory, read_reply(reply), told)
    return with_costs(
        answer,
        clock.seconds,
        graph_mode="text" if soft is None else "token",
        tokens=Tokens(
            prompt=reply.prompt_tokens, cached=reply.cached_tokens, completion=reply.completion_tokens
        ),
    )


def _room(backbone: Backbone | None, asking: Asking) -> int:
    """Tokens that the serialised memory may have."""
    if backbone is None:
        return asking.budget_tokens
    turns, _ = answer_turns(asking.query.text, asking.question_time, "")
    prompt = sum(backbone.count_tokens(turn.text) for turn in turns) + settings.TEMPLATE_TOKENS
    room = backbone.context_tokens - settings.ANSWER_TOKENS - prompt
    if room < 1:
        hint = "ask a shorter question, or take a model with a larger context"
        raise InputError(
            f"the question leaves no room for memory in {backbone.context_tokens} tokens", hint=hint
        )
    return min(asking.budget_tokens, room)


def _graph_token(
    generator: Generator, graph_mode: str, told: Serialised, place: tuple[int, int]
) -> SoftToken | None:
    """The graph of the told facts as one token before the memory; None where nothing is to be or can be
    encoded: then the facts stand in the text alone.
    """
    graph_encoder = generator.graph_encoder
    if graph_mode == "text" or graph_encoder is None or not isinstance(generator.backbone, EmbeddingBackbone):
        return None
    graph = local_graph(fact.triple for fact in told.facts.values())
    if not graph.nodes:
        return None
    vectors = generator.encoder.encode([*graph.nodes, *graph.relations])
    count = len(graph.nodes)
    return SoftToken(graph_encoder.row(vectors[:count], edge_array(graph), vectors[count:]), *place)


class Clock:
    """Seconds by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Take the time of a step."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

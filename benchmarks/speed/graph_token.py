"""What the graph token costs: labels embedded, graph encoded, row read, against the prompt without it.

Every prompt starts with a number of its own, so that nothing of it was read before; a round asks with the
token and without it, in turns which of the two comes first. Ratios are medians over rounds of the time until
the first token.

Trap: the share of the graph token falls with the size of the model, since only reading the prompt grows; what
holds for a small model holds all the more for a large one. Seconds on a shared machine say little, ratios
within a round more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import msgspec
import numpy as np

from memdb.errors import InputError
from memdb.generate.local_graph import edge_array, local_graph
from memdb.models.graph_shape import CPU_SIZE, GraphShape
from memdb.models.ports import (
    Backbone,
    Completion,
    EmbeddingBackbone,
    Encoder,
    GraphEncoder,
    SoftToken,
    Turn,
)
from memdb.records import LocalGraph, Triple

TARGET: Final = 1.05  # what the ratio should not exceed
UNITS: Final = 10  # of a working memory
PLACES: Final = ("Oslo", "Rome", "Lyon", "Porto", "Graz", "Turku", "Ghent", "Basel", "Cadiz", "Bergen")
PEOPLE: Final = ("Ana", "Ben", "Cleo", "Dana", "Emil", "Fay", "Gus", "Hana", "Ivo", "June")
DOINGS: Final = (
    "moved to",
    "grew up in",
    "rents a flat in",
    "found work in",
    "is on holiday in",
    "runs a shop in",
    "misses the bakery in",
    "ran a race in",
    "met a friend in",
    "wants to study in",
)
T = TypeVar("T")
Clock = Callable[[], float]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured; seconds are medians, ratios are to the prompt without a graph token.

    `ratio` counts labels and predicates as embedded anew, `ratio_of_stored_vectors` as taken from the file.
    """

    rounds: int
    prompt_tokens: int
    cached_tokens: int
    nodes: int
    edges: int
    prompt_seconds: float
    label_seconds: float
    encode_seconds: float
    read_seconds: float
    ratio: float
    ratio_of_stored_vectors: float
    target: float = TARGET


class Timed(msgspec.Struct, frozen=True):
    """Seconds of a round: `label` to embed, `encode` the graph, the prompt `without` the token, `with_it`."""

    label: float
    encode: float
    without: float
    with_it: float


def working_memory() -> tuple[str, LocalGraph]:
    """A memory as a prompt tells it, about 60 tokens a unit as in the paper, and the graph of its triples."""
    triples = [
        Triple(subject=person, predicate=doing, object=place)
        for person, doing, place in zip(PEOPLE, DOINGS, PLACES, strict=True)
    ]
    units = [
        f"  MU{number} (utterance_time: 2023-03-{number:02}): {t.subject} said over coffee that she"
        f" {t.predicate} {t.object}, and that the weather there had been wet all week. She will tell the"
        f" others about it when they meet for dinner, perhaps with pictures."
        for number, t in enumerate(triples, 1)
    ]
    facts = [f"F{n}: ({t.subject}; {t.predicate}; {t.object})" for n, t in enumerate(triples, 1)]
    return "\n".join(["Evidence Clusters:", *units, "Facts:", *facts]), local_graph(triples)


def prompt(number: int, memory: str) -> tuple[list[Turn], int]:
    """The turns, and where in the last one the memory starts."""
    question = "Answer the question from the memory.\nQuestion: Who moved to Oslo?\n"
    turns = [Turn("system", f"{number} is the number of this call."), Turn("user", question + memory)]
    return turns, len(question)


def measure(
    backbone: EmbeddingBackbone,
    encoder: Encoder,
    graph_encoder: GraphEncoder,
    rounds: int = 15,
    clock: Clock = time.perf_counter,
) -> Result:
    """Raises what the models raise: InputError where the row is not of the backbone's width."""
    memory, graph = working_memory()
    edges = edge_array(graph)
    texts = [*graph.nodes, *graph.relations]
    times: list[Timed] = []
    completions: list[Completion] = []
    for number in range(-1, rounds):
        vectors, label = timed(clock, partial(encoder.encode, texts))
        nodes, relations = np.split(vectors, [len(graph.nodes)])
        row, encode = timed(clock, partial(graph_encoder.row, nodes, edges, relations))
        seconds = {}
        for soft in (False, True) if number % 2 else (True, False):
            turns, at = prompt(2 * number + soft + 100, memory)
            token = SoftToken(row, len(turns) - 1, at) if soft else None
            ask = partial(backbone.complete, turns, max_tokens=1, soft=token)
            said, seconds[soft] = timed(clock, ask)
            completions.append(said)
        if number >= 0:  # the first round warms caches up
            times.append(Timed(label, encode, seconds[False], seconds[True]))
    return summary(times, graph, completions)


def timed(clock: Clock, work: Callable[[], T]) -> tuple[T, float]:
    """What the work gives, and its seconds."""
    start = clock()
    done = work()
    return done, clock() - start


def summary(times: Sequence[Timed], graph: LocalGraph, completions: Sequence[Completion]) -> Result:
    """Medians over the rounds."""

    def middle(value: Callable[[Timed], float]) -> float:
        return round(median(map(value, times)), 5)

    return Result(
        rounds=len(times),
        prompt_tokens=max(done.prompt_tokens for done in completions),
        cached_tokens=max(done.cached_tokens for done in completions),
        nodes=len(graph.nodes),
        edges=len(graph.sources),
        prompt_seconds=middle(lambda t: t.without),
        label_seconds=middle(lambda t: t.label),
        encode_seconds=middle(lambda t: t.encode),
        read_seconds=middle(lambda t: t.with_it - t.without),
        ratio=middle(lambda t: (t.label + t.encode + t.with_it) / t.without),
        ratio_of_stored_vectors=middle(lambda t: (t.encode + t.with_it) / t.without),
    )


def reading_rows(backbone: Backbone) -> EmbeddingBackbone:
    """The backbone as it is. Raises InputError for one that reads tokens only."""
    if not isinstance(backbone, EmbeddingBackbone):
        raise InputError(f"{backbone.name} reads no rows of its embedding space", hint="give a GGUF file")
    return backbone


def untrained(dimension: int, width: int, folder: Path) -> GraphEncoder:
    """An encoder of the CPU's size with random weights: it costs what a trained one costs."""
    from memdb.models.export_graph import tensor_shapes, to_graph_model
    from memdb.models.graph_encoder import OnnxGraphEncoder

    shape: GraphShape = msgspec.structs.replace(CPU_SIZE, dimension=dimension, width=width)
    rng = np.random.default_rng(0)
    tensors = {name: rng.uniform(0.01, 0.1, size) for name, size in tensor_shapes(shape).items()}
    file = folder / "model.onnx"
    file.write_bytes(to_graph_model(tensors, shape).SerializeToString())
    return OnnxGraphEncoder(
        file,
        name="untrained",
        sha256="",
        encoder_sha256="",
        backbone_sha256="",
        dimension=dimension,
        width=width,
    )

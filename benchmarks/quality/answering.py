"""What answers a benchmark's questions: `Memory.ask` without a model, with one, and with its graph token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import memdb
from memdb import errors
from memdb.models import registry
from memdb.models.ports import Backbone, EmbeddingBackbone, GraphEncoder

from .data import Question
from .errors import BenchmarkError
from .judge import JUDGINGS

EXTRACTIVE: Final = "extractive"  # no language model: a span of the evidence
TEXT: Final = "text"  # a language model that reads the working memory as text
TOKEN: Final = "token"  # and its graph as one token before it
QGMEM: Final = "qgmem"
METHODS: Final = (QGMEM, "defermem", "both")


class Wanted(NamedTuple):
    """Which models answer and judge: a GGUF file or `openai:NAME`, a folder with a graph encoder. With
    `distilled` the first distils evidence, too, and is loaded without answers also.
    """

    answers: bool = False
    llm: str | None = None
    graph: str | None = None
    judge: str | None = None
    judgings: int | None = None
    distilled: bool = False


class Models(NamedTuple):
    """What answers besides the rules, and what judges, how often."""

    backbone: Backbone | None = None
    graph_encoder: GraphEncoder | None = None
    judge: Backbone | None = None
    judgings: int = 1

    @property
    def digests(self) -> dict[str, str]:
        """Of each model by name, for those at an endpoint the name alone."""
        used = [one for one in (self.backbone, self.graph_encoder, self.judge) if one is not None]
        return {one.name: str(getattr(one, "sha256", None) or getattr(one, "identity", "")) for one in used}


class Ask:
    """`Memory.ask`, as a column asks it."""

    def __init__(self, memory: memdb.Memory, graph_mode: str, method: str = QGMEM) -> None:
        self._memory = memory
        self._graph_mode = graph_mode
        self._method = method

    def __call__(self, question: Question, /) -> memdb.Answer:
        """The answer, by the clock the question is asked by. A reply that a model wrote and that cannot be
        read answers nothing, and is no reason to ask no more.
        """
        try:
            return self._memory.ask(
                question.text, at=question.asked_at, graph_mode=self._graph_mode, method=self._method
            )
        except errors.ModelUnavailable:
            raise
        except errors.ModelError:
            return memdb.Answer(text=UNREADABLE)


UNREADABLE: Final = "(the model's reply could not be read)"


def answerer_name(mode: str, method: str) -> str:
    """What tables call the answers of a method: qgmem's by the mode alone, extractive ones by the method."""
    if method == QGMEM:
        return mode
    return method if mode == EXTRACTIVE else f"{mode}, {method}"


def answerers(
    memory: memdb.Memory, told: memdb.Memory | None, models: Models, methods: Sequence[str] = (QGMEM,)
) -> dict[str, Ask]:
    """What answers by each method: `memory` without a model, `told` with one, if there is one. The graph
    token is of qgmem alone.
    """
    found = {answerer_name(EXTRACTIVE, method): Ask(memory, TEXT, method) for method in methods}
    if told is not None:
        found |= {answerer_name(TEXT, method): Ask(told, TEXT, method) for method in methods}
        if models.graph_encoder is not None:
            found[TOKEN] = Ask(told, TOKEN)
    return found


def require_sense(wanted: Wanted) -> None:
    """Raises BenchmarkError for models that nothing would ask."""
    if not wanted.answers:
        of_answers = [
            name for name in ("llm", "graph", "judge", "judgings") if getattr(wanted, name) is not None
        ]
        named = [f"--{name}" for name in of_answers if not (wanted.distilled and name == "llm")]
        if named:
            raise BenchmarkError(f"{named[0]} is for answers, and none are asked for", hint="add --answers")
    if wanted.graph is not None and wanted.llm is None:
        raise BenchmarkError("--graph is read by a language model, and none is named", hint="add --llm")
    if wanted.judgings is not None and (wanted.judge is None or wanted.judgings < 1):
        reason = "is less than one" if wanted.judge else "needs a judge"
        raise BenchmarkError(
            f"--judgings {wanted.judgings} {reason}", hint="add --judge, and ask once or more"
        )


@contextmanager
def models(wanted: Wanted) -> Iterator[Models | None]:
    """The models, loaded, until the block ends; None where nothing is answered or distilled.

    A judge in this process is asked once: it would say the same again. Raises BenchmarkError for a request
    without sense, and what the models raise when they cannot be loaded.
    """
    require_sense(wanted)
    if not (wanted.answers or wanted.distilled):
        yield None
        return
    loaded: dict[str, Backbone] = {}
    try:
        for spec in (wanted.llm, wanted.judge):
            if spec is not None and spec not in loaded:
                loaded[spec] = registry.load_backbone(spec)
        backbone = loaded.get(wanted.llm or "")
        if wanted.graph is not None and not isinstance(backbone, EmbeddingBackbone):
            raise BenchmarkError(
                f"{wanted.llm} reads text alone, no graph token",
                hint="take a GGUF file, or leave --graph out",
            )
        once = wanted.judge is None or not wanted.judge.startswith(registry.OPENAI)
        yield Models(
            backbone=backbone,
            graph_encoder=None if wanted.graph is None else registry.load_graph_encoder(wanted.graph),
            judge=loaded.get(wanted.judge or ""),
            judgings=wanted.judgings or (1 if once else JUDGINGS),
        )
    finally:
        for one in loaded.values():
            one.close()

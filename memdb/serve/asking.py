"""What `memdb ask` shows: the answer, and the messages it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from memdb.memory import Memory
from memdb.models import registry
from memdb.models.ports import Backbone
from memdb.records import Answer, Evidence
from memdb.serve.plain import as_json, block, line
from memdb.serve.render import stdout_text

UNCITED = 3  # best pieces of evidence that are shown of an answer that names none


@contextmanager
def backbone(llm: str | None, options: dict[str, Any]) -> Iterator[Backbone | None]:
    """The language model of the options, closed at the end; None where none is named."""
    if llm is None:
        yield None
        return
    model = registry.load_backbone(
        llm,
        base_url=options["base_url"],
        threads=options["threads"],
        context_tokens=options["context"],
    )
    try:
        yield model
    finally:
        model.close()


def answered(out: Console, memory: Memory, question: str, *, sources: bool, **how: Any) -> None:
    """Ask, and show the answer as it is written, then what it rests on."""
    with memory.ask(question, stream=True, **how) as stream:
        for piece in stream:
            out.print(Text(block(piece), "bold"), end="", soft_wrap=True)
        out.print()
        answer = stream.answer
    _doubts(out, answer)
    if sources:
        _sources(out, answer)


def answered_in_json(memory: Memory, question: str, **how: Any) -> None:
    """Ask, and print the whole answer as JSON."""
    stdout_text(as_json(memory.ask(question, **how)))


def _doubts(out: Console, answer: Answer) -> None:
    if answer.abstained:
        told = f"the memory does not seem to hold the answer (probability {answer.confidence:.2f})"
        out.print(Text(told, "yellow"))
    for sentence in answer.sentences:
        if not sentence.supported:
            out.print(Text(f"not in the evidence: {line(sentence.text)}", "yellow"))
    if answer.unknown_labels:
        out.print(Text(f"no such evidence: {', '.join(map(line, answer.unknown_labels))}", "yellow"))


def _sources(out: Console, answer: Answer) -> None:
    """The evidence the answer names, each piece once; the best of it where it names none."""
    by_rank = {evidence.rank: evidence for evidence in answer.evidence}
    labels = dict[int, list[str]]()
    for citation in answer.citations:
        labels.setdefault(citation.rank, []).append(citation.label)
    if labels:
        for rank, named in labels.items():
            _source(out, by_rank[rank], ", ".join(named))
    else:
        for evidence in answer.evidence[:UNCITED]:
            _source(out, evidence, f"{evidence.rank}.")


def _source(out: Console, evidence: Evidence, label: str) -> None:
    text = Text(f"  {line(label)} ", "dim").append(line(evidence.speaker), "cyan")
    if evidence.said_at:
        text.append(f", {line(evidence.said_at)}", "dim")
    text.append(f": {line(evidence.text)}")
    ids = ", ".join(line(message.id) for message in evidence.source)
    out.print(text.append(f"  [{ids}]", "dim"))

"""QGMem's read path on one page: activate a working memory, encode its graph, answer (section III)."""

from __future__ import annotations

from memdb.activate.recall import Reader, Wish, recall
from memdb.generate.respond import Asking, Clock, Generator, OnAnswer, respond
from memdb.records import Answer


def ask(
    reader: Reader, generator: Generator, asking: Asking, wish: Wish, on_answer: OnAnswer | None = None
) -> Answer:
    """The answer to a question, from its working memory. `on_answer` is told its text piece by piece."""
    clock = Clock()
    with clock.step("recall"):
        memory = recall(reader, asking.query, wish)
    return respond(reader, generator, asking, memory, clock, on_answer)

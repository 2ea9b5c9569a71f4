"""The activated triples as a small graph: arrays only, in a fixed order (QGMem equation 5)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memdb.language.patterns import lazy
from memdb.records import LocalGraph, Triple

_ARTICLE: Final = lazy(r"(?:the|a|an) ")
_BLANKS: Final = lazy(r"\s+")


def local_graph(triples: Iterable[Triple]) -> LocalGraph:
    """The set of the triples: equal ones, by their normalised labels, are one edge, at the first's place.

    Subject and object of one label are one node, so that a path may lead over it. Nodes stand in the order
    in which they are met, the subject before the object. An edge leads from the subject to the object.
    """
    nodes: dict[str, str] = {}  # normalised label to the first one met
    edges: dict[tuple[str, str, str], str] = {}
    for triple in triples:
        subject, predicate, value = map(normalised, (triple.subject, triple.predicate, triple.object))
        nodes.setdefault(subject, triple.subject)
        nodes.setdefault(value, triple.object)
        edges.setdefault((subject, predicate, value), triple.predicate)
    place = {label: number for number, label in enumerate(nodes)}
    return LocalGraph(
        nodes=tuple(nodes.values()),
        sources=tuple(place[subject] for subject, _, _ in edges),
        targets=tuple(place[value] for _, _, value in edges),
        relations=tuple(edges.values()),
    )


def normalised(label: str) -> str:
    """ν: NFKC, case folded, without marks around it or an article before it, single blanks."""
    folded = unicodedata.normalize("NFKC", label).casefold()
    composed = unicodedata.normalize("NFKC", folded)  # folding takes some letters apart, such as U+0390
    text = _BLANKS.sub(" ", _stripped(composed))
    bare = _stripped(_ARTICLE.sub("", text, count=1)) if _ARTICLE.match(text) else text
    return bare or text or label


def edge_array(graph: LocalGraph) -> NDArray[np.int64]:
    """int64 [2, e]: the nodes that edges come from, over those they lead to."""
    return np.array([graph.sources, graph.targets], np.int64).reshape(2, -1)


def _stripped(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _is_mark(text[start]):
        start += 1
    while end > start and _is_mark(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_mark(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] == "P"

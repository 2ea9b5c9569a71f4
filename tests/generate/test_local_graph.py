"""The activated triples as a graph: equation 5, and the rule by which two labels are one node."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.generate.local_graph import edge_array, local_graph, normalised
from memdb.records import LocalGraph, Triple
from tests.strategies import SCRIPTS

LABELS = (
    "Ana",
    "ana",
    "The cat",
    "a cat",
    "cat",
    "Oslo",
    "Rome",
    '"Rome"',
    "",
    "!!!",
    "the",
    "Straße",
    "STRASSE",
)
PREDICATES = ("lives in", "Lives In", "moved to", "likes")
TRIPLES = st.lists(
    st.builds(
        Triple,
        subject=st.sampled_from(LABELS) | st.text(max_size=8),
        predicate=st.sampled_from(PREDICATES) | st.text(max_size=8),
        object=st.sampled_from(LABELS) | st.text(max_size=8),
    ),
    max_size=12,
)
examples = settings(max_examples=150, deadline=None, derandomize=True)


def triples(*parts: tuple[str, str, str]) -> list[Triple]:
    return [Triple(subject=subject, predicate=predicate, object=value) for subject, predicate, value in parts]


def test_a_value_that_is_an_entity_is_the_same_node() -> None:
    graph = local_graph(
        triples(("Ana", "works for", "the Acme"), ("Acme", "sits in", "Oslo"), ("Ana", "lives in", "Rome"))
    )
    assert graph == LocalGraph(
        nodes=("Ana", "the Acme", "Oslo", "Rome"),
        sources=(0, 1, 0),
        targets=(1, 2, 3),
        relations=("works for", "sits in", "lives in"),
    )
    edges = edge_array(graph)
    assert edges.dtype == np.int64
    assert edges.tolist() == [[0, 1, 0], [1, 2, 3]]


def test_equal_triples_are_one_edge_with_the_words_of_the_first() -> None:
    graph = local_graph(
        triples(("Ana", "Lives in", "Oslo"), ("ANA", "lives in", '"oslo"'), ("Oslo", "lives in", "Ana"))
    )
    assert (graph.nodes, graph.relations) == (("Ana", "Oslo"), ("Lives in", "lives in"))
    assert (graph.sources, graph.targets) == ((0, 1), (1, 0))


def test_parallel_edges_of_other_predicates_stay() -> None:
    graph = local_graph(triples(("Ana", "likes", "Oslo"), ("Ana", "left", "Oslo"), ("Ana", "likes", "Oslo")))
    assert (graph.sources, graph.targets, graph.relations) == ((0, 0), (1, 1), ("likes", "left"))


def test_a_self_loop_stays() -> None:
    graph = local_graph(triples(("Ana", "taught", "the Ana")))
    assert (graph.nodes, graph.sources, graph.targets) == (("Ana",), (0,), (0,))


def test_no_triples_are_an_empty_graph() -> None:
    graph = local_graph([])
    assert graph == LocalGraph()
    assert edge_array(graph).shape == (2, 0)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Ana", "ana"),
        ("  The   Red\tCat. ", "red cat"),
        ("an apple", "apple"),
        ("A", "a"),
        ("the", "the"),
        ("The The", "the"),
        ("“Oslo”", "oslo"),
        ("(Oslo)", "oslo"),
        ("'the' Rome", "the' rome"),
        ("the 'Rome'", "rome"),
        ("theatre", "theatre"),
        ("O'Neil", "o'neil"),
        ("Straße", "strasse"),
        ("ﬁsh", "fish"),
        ("Ｏｓｌｏ", "oslo"),
        ("e\u0301cole", "école"),
        ("\u0390", "\u0390"),
        ("!!!", "!!!"),
        ("", ""),
        ("C++", "c++"),
        ("$5", "$5"),
    ],
)
def test_labels_are_compared_without_case_marks_and_articles(label: str, expected: str) -> None:
    assert normalised(label) == expected


@examples
@given(st.text(max_size=20) | st.sampled_from(tuple(SCRIPTS.values())))
def test_spelling_of_characters_and_marks_around_do_not_count(label: str) -> None:
    known = normalised(label)
    assert normalised(unicodedata.normalize("NFD", label)) == known
    if known != label:  # a label of marks alone stands for itself
        assert normalised(f"  “{label}” ") == known


@pytest.mark.parametrize("label", [*SCRIPTS.values(), "ΐδιος", "ŉ", "ß"], ids=ascii)
def test_case_does_not_count(label: str) -> None:
    assert normalised(label.upper()) == normalised(label.upper().lower())
    assert normalised(label.casefold()) == normalised(label)


@examples
@given(TRIPLES)
def test_it_is_the_set_of_the_triples(given_triples: list[Triple]) -> None:
    graph = local_graph(given_triples)
    of_graph = [
        (normalised(graph.nodes[source]), normalised(relation), normalised(graph.nodes[target]))
        for source, relation, target in zip(graph.sources, graph.relations, graph.targets, strict=True)
    ]
    wanted = [tuple(map(normalised, (t.subject, t.predicate, t.object))) for t in given_triples]
    assert of_graph == list(dict.fromkeys(wanted))
    assert len(of_graph) <= len(given_triples)
    assert local_graph(given_triples) == graph
    assert local_graph(given_triples * 2) == graph


@examples
@given(TRIPLES)
def test_nodes_stand_as_they_are_first_met(given_triples: list[Triple]) -> None:
    graph = local_graph(given_triples)
    met = [label for triple in given_triples for label in (triple.subject, triple.object)]
    first: dict[str, str] = {}
    for label in met:
        first.setdefault(normalised(label), label)
    assert graph.nodes == tuple(first.values())
    assert len(graph.nodes) <= 2 * len(given_triples)
    assert set(graph.sources) | set(graph.targets) == set(range(len(graph.nodes)))

"""Made-up worlds, and the trial of a graph token on them."""

from __future__ import annotations

import json
import re
from itertools import islice

import pytest

from memdb.generate.answer_prompt import answer_turns
from memdb.models.fakes import HashEncoder, HashGraphEncoder, ScriptedEmbeddingBackbone
from memdb.train import graph_trial
from memdb.train.graph_world import (
    ASKED,
    HELD_OUT_SHARE,
    KINDS,
    LEAST_FACTS,
    MOST_FACTS,
    OPTIONS,
    TRAINED_WORDINGS,
    VALUES,
    World,
    worlds,
)
from memdb.train.metrics import wilson

SOME = list(islice(worlds("some", held_out=False), 300))
KEPT = list(islice(worlds("kept", held_out=True), 100))


def _edges(world: World) -> set[tuple[str, str, str]]:
    graph = world.example.graph
    ends = zip(graph.sources, graph.relations, graph.targets, strict=True)
    return {(graph.nodes[source], relation, graph.nodes[target]) for source, relation, target in ends}


def test_the_answer_is_at_the_end_of_the_path() -> None:
    for world in SOME:
        assert json.loads(world.example.target)["answer"] == world.answer
        edges = _edges(world)
        held = {world.person}
        for _ in range(world.hops):
            held = {value for subject, _, value in edges if subject in held}
        assert world.answer in held


def _facts(world: World) -> set[str]:
    return {line.partition(": ")[2] for line in world.example.memory.splitlines() if re.match(r"F\d", line)}


def test_the_text_tells_neither_who_nor_what() -> None:
    values = {value for kind in VALUES.values() for value in kind}
    for world in SOME:
        if not world.told:
            words = set(world.example.memory.replace("\n", " ").split())
            assert not words & values
            assert world.person not in words
            assert set(world.example.graph.relations) == _facts(world)


def test_the_text_of_a_share_of_worlds_tells_the_facts() -> None:
    told = [world for world in SOME if world.told]
    assert len(SOME) / 8 < len(told) < len(SOME) / 2
    for world in told:
        assert _facts(world) == {"; ".join(edge) for edge in _edges(world)}


def test_the_question_names_the_answer_among_four() -> None:
    places = [world.options.index(world.answer) for world in SOME]
    assert {len(set(world.options)) for world in SOME} == {OPTIONS}
    assert min(places.count(place) for place in range(OPTIONS)) > len(SOME) / 8
    assert all(option in world.example.question for world in SOME for option in world.options)


def test_values_of_the_same_kind_stand_where_it_is_contested_alone() -> None:
    for world in SOME:
        rivals = {value for _, relation, value in _edges(world) if KINDS[relation] == "city"} - {world.answer}
        assert bool(rivals) == world.contested
        assert rivals <= set(world.options)
    assert len(SOME) / 8 < sum(world.contested for world in SOME) < len(SOME) / 2


def test_a_holder_has_a_relation_once() -> None:
    for world in SOME:
        edges = _edges(world)
        assert LEAST_FACTS <= len(edges) <= MOST_FACTS
        assert len({edge[:2] for edge in edges}) == len(edges)


def test_what_is_held_out_is_never_asked_in_training() -> None:
    def pair(world: World) -> int:
        return sum(map(ord, world.person + world.answer)) % HELD_OUT_SHARE

    assert {pair(world) for world in KEPT} == {0}
    assert 0 not in {pair(world) for world in SOME}


def test_the_same_seed_makes_the_same_worlds() -> None:
    assert list(islice(worlds("some", held_out=False), 300)) == SOME
    assert list(islice(worlds("other", held_out=False), 300)) != SOME


def test_only_the_chosen_wordings_are_used() -> None:
    def asked(some: list[World]) -> set[str]:
        return {world.example.question.partition("?")[0].replace(world.person, "{}") + "?" for world in some}

    assert asked(SOME) == {wording for kind in ASKED for wording in kind.wordings[:TRAINED_WORDINGS]}
    third = list(islice(worlds("w", held_out=False, wordings=(2,)), 60))
    assert asked(third) == {kind.wordings[2] for kind in ASKED}


def test_a_trial_asks_with_its_own_token_without_one_and_with_anothers() -> None:
    some, encoder = [world for world in KEPT if not world.told][:6], HashEncoder(32)
    graph_encoder = HashGraphEncoder(32, 16)
    replies = []
    for number, world in enumerate(some):
        every = " or ".join(world.options)  # names the right one among others
        for told in (f"In {world.answer.upper()}.", every, some[number - 5].answer):
            replies.append(json.dumps({"reasoning_path": "", "answer": told}))
    backbone = ScriptedEmbeddingBackbone(replies, embedding_width=16)
    told = graph_trial.accuracies(graph_trial.tried(some, backbone, graph_encoder, encoder))[
        "in the graph alone"
    ]
    same = sum(some[n].answer == some[n - 5].answer for n in range(6)) / 6
    assert told["own"] == [1.0, *(round(bound, 3) for bound in wilson(6, 6)), 6]
    assert told["none"][0] == 0.0
    assert told["foreign"][0] == pytest.approx(same, abs=1e-3)
    rows = [graph_trial.row(world.example, graph_encoder, encoder).tobytes() for world in some]
    given = [None if call.soft is None else call.soft.row.tobytes() for call in backbone.calls]
    assert given == [row for n in range(6) for row in (rows[n], None, rows[n - 5])]
    turns, place = answer_turns(some[0].example.question, None, some[0].example.memory)
    assert backbone.calls[0].turns == tuple(turns)
    assert backbone.calls[0].soft is not None
    assert (backbone.calls[0].soft.turn, backbone.calls[0].soft.at) == place


def test_a_reply_without_an_answer_is_no_right_one() -> None:
    backbone = ScriptedEmbeddingBackbone(['{"reasoning_path": "' + "on " * 400] * 6, embedding_width=16)
    some = graph_trial.tried(KEPT[:2], backbone, HashGraphEncoder(32, 16), HashEncoder(32))
    assert [(one.answer, one.right) for one in some] == [("", False)] * 6


def test_wilsons_interval_by_hand() -> None:
    """Of 8 in 10: (.8 + 1.9208/10 ± 1.96 √(.016 + .9604/100)) / 1.38415."""
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 10)[0] == pytest.approx(0, abs=1e-12)
    assert wilson(10, 10)[1] == pytest.approx(1)

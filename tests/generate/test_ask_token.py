"""The graph token in `Memory.ask`: which graph, where it stands, and what it is refused for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import memdb
from memdb import errors
from memdb.activate.working_memory import OPENING, estimated_tokens, serialised
from memdb.generate.local_graph import edge_array, local_graph
from memdb.models.fakes import HashEncoder, HashGraphEncoder, ScriptedBackbone, ScriptedEmbeddingBackbone

WIDTH = 16
QUESTION = "Where does Ana live, and what does she like?"
TALK = [
    memdb.Message("Ana", "I live in Rome. I like olives.", "2026-01-20", "m1"),
    memdb.Message("Ben", "My sister Clara lives in Lisbon.", "2026-01-21", "m2"),
]
REPLY = json.dumps({"reasoning_path": "MU1", "answer": "In Rome."})


def backbone_of(replies: int = 9) -> ScriptedEmbeddingBackbone:
    return ScriptedEmbeddingBackbone([REPLY] * replies, embedding_width=WIDTH)


def graphs_for(
    backbone: ScriptedEmbeddingBackbone, encoder: HashEncoder, width: int = WIDTH
) -> HashGraphEncoder:
    return HashGraphEncoder(
        encoder.dimension, width, encoder_sha256=encoder.sha256, backbone_sha256=backbone.sha256
    )


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., memdb.Memory]]:
    with memdb.open(path, encoder=HashEncoder()) as memory:
        memory.add(TALK)
    made: list[memdb.Memory] = []

    def open_one(**models: object) -> memdb.Memory:
        made.append(memdb.open(path, encoder=HashEncoder(), **models))
        return made[-1]

    yield open_one
    for memory in made:
        memory.close()


def test_the_token_is_that_of_the_told_facts_and_stands_before_the_memory(opened) -> None:
    backbone, encoder = backbone_of(), HashEncoder()
    graphs = graphs_for(backbone, encoder)
    memory = opened(backbone=backbone, graph_encoder=graphs)
    answer = memory.ask(QUESTION)
    assert answer.graph_mode == "token"
    (call,) = backbone.calls
    turn, at = call.soft.turn, call.soft.at
    assert call.turns[turn].text[at:].startswith(OPENING)
    told = serialised(memory.recall(QUESTION), 1_024, backbone.count_tokens)
    graph = local_graph(fact.triple for fact in told.facts.values())
    assert len(graph.relations) >= 2
    row = graphs.row(encoder.encode(graph.nodes), edge_array(graph), encoder.encode(graph.relations))
    assert np.array_equal(call.soft.row, row)


def test_text_mode_is_the_same_prompt_without_the_token(opened) -> None:
    backbone = backbone_of()
    memory = opened(backbone=backbone, graph_encoder=graphs_for(backbone, HashEncoder()))
    with_token, text_only = memory.ask(QUESTION), memory.ask(QUESTION, graph_mode="text")
    first, second = backbone.calls
    assert (with_token.graph_mode, text_only.graph_mode) == ("token", "text")
    assert second.soft is None
    assert first.turns == second.turns
    assert with_token.tokens.prompt == text_only.tokens.prompt + 1


def test_a_memory_without_facts_has_no_token(path: Path) -> None:
    backbone = backbone_of()
    with memdb.open(path, encoder=HashEncoder()) as memory:
        memory.add([memdb.Message("Ana", "Hm, olives?", "2026-01-20", "m1")])
    graphs = graphs_for(backbone, HashEncoder())
    with memdb.open(path, encoder=HashEncoder(), backbone=backbone, graph_encoder=graphs) as memory:
        assert memory.ask("Who said olives?").graph_mode == "text"
    assert backbone.calls[0].soft is None


def test_without_a_graph_encoder_the_backbone_reads_text(opened) -> None:
    backbone = backbone_of()
    assert opened(backbone=backbone).ask(QUESTION).graph_mode == "text"
    assert opened(backbone=ScriptedBackbone([REPLY])).ask(QUESTION).graph_mode == "text"


@pytest.mark.parametrize(
    "wrong", ["no backbone", "text backbone", "other backbone", "other encoder", "width"]
)
def test_a_graph_encoder_for_something_else_is_refused_when_the_memory_is_opened(opened, wrong: str) -> None:
    backbone, encoder = backbone_of(), HashEncoder()
    graphs = {
        "other backbone": HashGraphEncoder(64, WIDTH, encoder_sha256=encoder.sha256),
        "other encoder": graphs_for(backbone, HashEncoder(32)),
        "width": graphs_for(backbone, encoder, width=WIDTH + 1),
    }.get(wrong, graphs_for(backbone, encoder))
    given = {"no backbone": None, "text backbone": ScriptedBackbone()}.get(wrong, backbone)
    with pytest.raises(errors.InputError) as raised:
        opened(backbone=given, graph_encoder=graphs)
    assert raised.value.hint


def test_the_budget_is_kept_in_the_tokens_of_the_backbone(opened) -> None:
    backbone = backbone_of()
    memory = opened(backbone=backbone, graph_encoder=graphs_for(backbone, HashEncoder()))
    found = memory.recall(QUESTION)
    whole = backbone.count_tokens(serialised(found, 10_000, backbone.count_tokens).text)
    memory.ask(QUESTION, budget_tokens=whole - 1)
    user = backbone.calls[0].turns[1].text
    told = user[: user.index("</memory>") + len("</memory>")]
    assert OPENING in told
    assert backbone.count_tokens(told) < whole
    assert estimated_tokens(told) != backbone.count_tokens(told), "the two would not be told apart"

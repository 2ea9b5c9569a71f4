"""`Memory.ask` by distilled raw history, and by both papers' evidence together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.generate.check import NO_ANSWER
from memdb.generate.defermem import fuse
from memdb.generate.distill import Distillation, ModelDistiller
from memdb.models.fakes import HashEncoder, OverlapReranker, ScriptedBackbone
from memdb.records import Distilled, Evidence, History, Message, Tokens, Utterance

TALK = [
    memdb.Message("Ben", "Where do you keep the canoe?", "2026-01-20", "m1"),
    memdb.Message("Ana", "I keep my canoe behind the boathouse.", "2026-01-20", "m2"),
    memdb.Message("Ben", "Right! Have you ever fallen into the river?", "2026-01-20", "m3"),
    memdb.Message("Ana", "Yes, twice.", "2026-01-20", "m4"),
    memdb.Message("Ben", "My sister bakes bread.", "2026-02-01", "m5"),
]
WHERE = "Where does Ana keep her canoe?"


def action(*evidence: tuple[str, str]) -> str:
    useful = [{"msg_id": id} for id, _ in evidence]
    return json.dumps(
        {"useful_msg": useful, "distilled_info": [{"msg_id": id, "info": info} for id, info in evidence]}
    )


def reply(answer: str, reason: str = "") -> str:
    return json.dumps({"reasoning_path": reason, "answer": answer})


@pytest.fixture
def memory(path: Path) -> Callable[..., memdb.Memory]:
    """A memory of TALK, with a backbone and a distiller that say what they are told to."""
    opened: list[memdb.Memory] = []

    def open_one(**models: Any) -> memdb.Memory:
        one = memdb.open(path, encoder=HashEncoder(), reranker=OverlapReranker(), **models)
        opened.append(one)
        one.add(TALK, session="s")
        return one

    yield open_one
    for one in opened:
        one.close()


def test_without_models_evidence_is_what_rules_tell_of_the_history(memory) -> None:
    answer = memory().ask(WHERE, method="defermem")
    assert answer.method == "defermem"
    told = {one.source[0].id: one.text for one in answer.evidence}
    assert told["m2"] == "Ana keeps Ana's canoe behind the boathouse."
    assert "behind the boathouse" in answer.text
    (citation,) = answer.citations
    assert [message.id for message in citation.source] == ["m2"]
    assert {"recall", "expand", "distil", "answer"} <= set(answer.timings)


def test_nothing_useful_is_no_answer(memory) -> None:
    answer = memory(distiller=ScriptedBackbone([action()])).ask(WHERE, method="defermem")
    assert (answer.text, answer.abstained, answer.evidence) == (NO_ANSWER, True, ())


def test_a_model_distils_and_the_backbone_reads_that_alone_in_the_order_of_time(memory) -> None:
    distiller = ScriptedBackbone(
        [action(("m4", "Ana fell into the river twice."), ("m2", "Ana keeps it behind the boathouse."))]
    )
    backbone = ScriptedBackbone([reply("Behind the boathouse.", "MU1")])
    answer = memory(distiller=distiller, backbone=backbone).ask(WHERE, method="defermem")
    (call,) = backbone.calls
    prompt = call.turns[-1].text
    assert prompt.index("MU1 (utterance_time: 2026-01-20): Ana: Ana keeps it") < prompt.index("MU2 ")
    assert "My sister" not in prompt
    assert answer.text == "Behind the boathouse."
    assert answer.citations[0].source[0].id == "m2"
    assert answer.tokens.completion > len("Behind the boathouse.".split()), "those of the distiller too"


def test_a_distiller_of_ones_own_is_asked_for_its_room(memory) -> None:
    class Short(ModelDistiller):
        def __init__(self) -> None:
            self.seen: list[History] = []

        def room(self, question: str, question_time: str | None) -> int:
            return 12

        def size(self, utterance: Utterance) -> int:
            return 6

        def distil(self, history: History, question_time: str | None) -> Distillation:
            self.seen.append(history)
            return Distillation()

    own = Short()
    memory(distiller=own).ask(WHERE, "2026-03-01", method="defermem")
    assert own.seen[0].truncated
    assert len(own.seen[0].utterances) == 2


def test_both_tell_each_message_once(memory) -> None:
    answer = memory().ask(WHERE, method="both")
    ids = [message.id for one in answer.evidence for message in one.source]
    assert answer.method == "both"
    assert len(ids) == len(set(ids))
    assert {one.id for one in TALK if one.id != "m5"} <= set(ids)
    assert [one.rank for one in answer.evidence] == list(range(1, len(answer.evidence) + 1))


def test_what_is_streamed_is_the_answer(memory) -> None:
    with memory().ask(WHERE, method="both", stream=True) as stream:
        assert "".join(stream) == stream.answer.text


def test_an_unknown_method_is_refused(memory) -> None:
    with pytest.raises(memdb.InputError, match="method is 'defer'"):
        memory().ask(WHERE, method="defer")


def evidence(rank: int, *ids: str) -> Evidence:
    source = tuple(Message("Ana", "x", id=id) for id in ids)
    return Evidence(rank=rank, score=1.0, text="raw", speaker="Ana", session="s", source=source)


def distilled(id: str, rank: int | None) -> Distilled:
    one = Utterance(message=Message("Ana", "x", id=id), session="s", position=0, rank=rank)
    return Distilled(info="told", utterance=one)


def test_ranks_are_fused_and_a_message_of_both_comes_first() -> None:
    fused = fuse(
        (evidence(1, "a"), evidence(2, "b", "c")), (distilled("c", 1), distilled("d", None)), reworded=True
    )
    assert [one.source[0].id for one in fused] == ["b", "a", "d"]
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert fused[0].text == "raw"
    assert fused[2].text == "told"


@pytest.mark.parametrize("reworded", [True, False])
def test_what_is_in_both_is_reworded_if_it_is_to_be(reworded: bool) -> None:
    (one,) = fuse((evidence(1, "a"),), (distilled("a", 1),), reworded=reworded)
    assert one.text == ("told" if reworded else "raw")


@given(
    recalled=st.lists(st.sampled_from("abcdef"), unique=True),
    told=st.lists(st.sampled_from("abcdef"), unique=True),
)
def test_fusion_loses_and_doubles_nothing(recalled: list[str], told: list[str]) -> None:
    fused = fuse(
        tuple(evidence(rank, id) for rank, id in enumerate(recalled, 1)),
        tuple(distilled(id, rank) for rank, id in enumerate(told, 1)),
        reworded=True,
    )
    ids = [one.source[0].id for one in fused]
    assert sorted(ids) == sorted({*recalled, *told})
    assert [one.rank for one in fused] == list(range(1, len(fused) + 1))
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)


def test_tokens_of_both_models_are_told(memory) -> None:
    answer = memory(distiller=ScriptedBackbone([action()])).ask(WHERE, method="defermem")
    assert answer.tokens.prompt > 0
    assert answer.tokens != Tokens()

"""The encoder's training, on a tiny trunk: needs torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memdb.records import Message
from memdb.train import encoder, pool, reranker, talks
from memdb.train.encoder import Example
from memdb.train.weights import Weights

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")

SAID = (
    Message("Ben", "What is the cat called?", "2023-05-07", id="1"),
    Message("Ana", "Biscuit.", "2023-05-07", id="2"),
    Message("Ben", "Rex is grey.", "2023-05-07", id="3"),
)
TALK = talks.Talk("own", (talks.Sitting("1", SAID),), ())
GROUP = pool.Group(
    talk="own",
    question="What is Ana's cat called?",
    kind="single",
    ids=("3", "2", "1"),
    speakers=("Ben", "Ana", "Ben"),
    documents=("Source: Ben: Rex is grey.", "Source: Ana: Biscuit.", "Source: Ben: what?"),
    scores=(1.0, 0.9, 0.8),
    gold=(1,),
    missed=0,
)


def test_both_sides_are_the_texts_that_memdb_encodes() -> None:
    (example,) = encoder.examples([GROUP], {"own": TALK})
    assert example.asked == "What is my cat called?"
    assert example.texts[1] == "What is the cat called? Ana: Biscuit."
    assert example.gold == (1,)


def test_a_group_without_evidence_teaches_nothing() -> None:
    import msgspec

    assert encoder.examples([msgspec.structs.replace(GROUP, gold=(), missed=1)], {"own": TALK}) == []


def test_batches_have_the_evidence_first() -> None:
    many = encoder.examples([GROUP] * (2 * encoder.GROUPS), {"own": TALK})
    made = list(encoder.batches(many, 1, 0))
    assert [len(batch) for batch in made] == [encoder.GROUPS] * 2
    assert all(one.gold == (0,) and one.texts[0].endswith("Biscuit.") for batch in made for one in batch)
    assert made == list(encoder.batches(many, 1, 0))


def test_the_loss_by_hand() -> None:
    """One question e1 with two messages e1 and e2 at τ = .05: cosines / τ are 20 and 0.

    Taught equally, KL(½, ½ || 1, 0) = 20/2 - ln 2 = 9.3069; apart: ln(1 + exp(-20)) = 0; stay: 0.
    """
    e = torch.eye(2)
    example = Example("own", "q", "q", ("a", "b"), ("a", "b"), (0,))
    value = encoder.loss(e[:1], e, e, torch.zeros(2), [example])
    assert value.item() == pytest.approx(9.3069, abs=1e-3)
    # Vectors that turned round by 90 degrees: stay is 1.
    moved = encoder.loss(e[:1], e, e.flip(0), torch.zeros(2), [example])
    assert moved.item() - value.item() == pytest.approx(encoder.STAY_WEIGHT, abs=1e-5)


def test_other_evidence_of_the_same_question_is_no_rival() -> None:
    e = torch.eye(3)
    both = Example("own", "q", "q", ("a", "b"), ("a", "b"), (0, 1))
    taught = torch.tensor([0.0, 0.0])
    told = torch.stack([e[0], e[0]])
    one = Example("own", "q", "q", ("a", "b"), ("a", "b"), (0,))
    apart = encoder.loss(e[:1], told, told, taught, [one]) - encoder.loss(e[:1], told, told, taught, [both])
    assert apart.item() == pytest.approx(encoder.BATCH_WEIGHT * 0.6931, abs=1e-3)


@pytest.fixture
def teacher(weights: Path, tmp_path: Path) -> Path:
    """A reranker of the tiny trunk that was hardly trained."""
    reranker.train(
        [GROUP] * reranker.GROUPS, [GROUP], weights, tmp_path / "teacher", epochs=1, precision="float32"
    )
    return tmp_path / "teacher"


def trained(weights: Path, teacher: Path, out: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    many = encoder.examples([GROUP] * (2 * encoder.GROUPS), {"own": TALK})
    encoder.train(many, weights, teacher, out, epochs=3, precision="float32")
    return load_file(out / "model.safetensors")


def test_training_moves_the_weights_and_a_stopped_run_goes_on_to_the_same(
    weights: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    monkeypatch.setattr(reranker, "CHECKPOINT_STEPS", 2)
    whole = trained(weights, teacher, tmp_path / "whole")
    before = load_file(weights / "model.safetensors")
    assert not all(torch.equal(whole[name], before[name]) for name in whole if "encoder.layer" in name)
    assert torch.equal(
        whole["embeddings.word_embeddings.weight"], before["embeddings.word_embeddings.weight"]
    )
    advance, left = Weights.advance, [5]

    def stopped(held: Weights, value: Any, steps: int) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        advance(held, value, steps)

    monkeypatch.setattr(Weights, "advance", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained(weights, teacher, tmp_path / "halves")
    monkeypatch.setattr(Weights, "advance", advance)
    halves = trained(weights, teacher, tmp_path / "halves")
    assert all(torch.allclose(halves[name], whole[name], atol=1e-6) for name in whole)

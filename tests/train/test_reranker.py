"""The reranker's training, on a tiny trunk: needs torch and transformers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from memdb.train import pool, reranker
from memdb.train.reranker import Batch
from memdb.train.weights import Weights
from tests.train.conftest import WORDS

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")


def group(question: str, answer: str, *others: str, talk: str = "own", kind: str = "single") -> pool.Group:
    texts = ([answer] if answer else []) + list(others)
    return pool.Group(
        talk=talk,
        question=question,
        kind=kind,
        ids=tuple(str(place) for place in range(len(texts))),
        speakers=("Ana", "Ben"),
        documents=tuple(f"Source: {text}" for text in texts),
        scores=tuple(1 / (place + 1) for place in range(len(texts))),
        gold=(0,) if answer else (),
        missed=0,
    )


def groups(count: int, talk: str = "own") -> list[pool.Group]:
    one = group("What is the cat called?", "Ana: Biscuit.", "Ben: Rex.", "Ana: grey.", talk=talk)
    return [one] * count


# --- Losses


def test_the_listwise_loss_by_hand() -> None:
    """One positive 1, negatives 0, 0: log(1 + 2/e) = .5514; logistic: (.3133 + 2 · .6931) / 3 = .5665."""
    batch = Batch([("q", "d")] * 3, [0, 0, 0], [True, False, False])
    value = reranker.loss(torch.tensor([1.0, 0.0, 0.0]), batch)
    assert value.item() == pytest.approx(0.5514 + reranker.LOGISTIC * 0.5665, abs=1e-3)


def test_two_positives_do_not_compete() -> None:
    both = Batch([("q", "d")] * 3, [0, 0, 0], [True, True, False])
    one = Batch([("q", "d")] * 2, [0, 0], [True, False])
    ranked = [
        reranker.loss(torch.tensor(logits), batch).item()
        for logits, batch in (([2.0, 2.0, 0.0], both), ([2.0, 0.0], one))
    ]
    logistic = [(2 * 0.1269 + 0.6931) / 3, (0.1269 + 0.6931) / 2]
    order = [value - reranker.LOGISTIC * part for value, part in zip(ranked, logistic, strict=True)]
    assert order[0] == pytest.approx(order[1], abs=1e-3)


def test_a_question_without_answer_teaches_only_log_odds() -> None:
    batch = Batch([("q", "d")] * 2, [0, 0], [False, False])
    assert reranker.loss(torch.tensor([0.0, 0.0]), batch).item() == pytest.approx(
        reranker.LOGISTIC * 0.6931, abs=1e-3
    )


# --- Batches


def test_an_epoch_asks_every_question_once_with_its_evidence() -> None:
    many = [
        group(f"What is {number}?", "Ana: Biscuit.", "Ben: Rex.") for number in range(2 * reranker.GROUPS)
    ]
    made = list(reranker.batches(many, seed=1, epoch=0))
    assert len(made) == 2
    assert sum(map(sum, (batch.gold for batch in made))) == len(many)
    asked = {pair[0] for batch in made for pair in batch.pairs}
    assert len(asked) == len(many)
    assert made == list(reranker.batches(many, seed=1, epoch=0))
    assert made != list(reranker.batches(many, seed=1, epoch=1))


def test_an_origin_may_give_a_share_only() -> None:
    many = groups(4 * reranker.GROUPS, "friendsqa-1") + groups(reranker.GROUPS)
    assert len(list(reranker.batches(many, 1, 0))) == 4 * reranker.SHARES["friendsqa"] + 1


def test_speakers_are_renamed_alike_in_question_and_documents() -> None:
    one = group("What did Ana call it?", "Ana: Biscuit, said Ben.")
    rename = reranker._renaming(one, random.Random(3))
    ana, ben = rename("Ana"), rename("Ben")
    assert ana != "Ana"
    assert ana != ben
    assert rename("Ana's cat, Ben, Anabel") == f"{ana}'s cat, {ben}, Anabel"


# --- The model


def test_the_order_of_the_pairs_is_kept_and_padding_changes_nothing(weights: Path) -> None:
    model, tokens = reranker.CrossEncoder(weights).eval(), reranker.Tokens(weights, "cpu")
    pairs = [("what", "cat " * length) for length in (9, 1, 30, 4)]
    with torch.inference_mode():
        together = reranker.forward(model, tokens, pairs)
        alone = [reranker.forward(model, tokens, [pair]).item() for pair in pairs]
    assert together.tolist() == pytest.approx(alone, abs=1e-5)


def test_masking_spares_special_tokens_and_padding(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reranker, "MASKED", 1.0)
    ids, mask = reranker.Tokens(weights, "cpu")([("cat", "dog grey")], random.Random(1))
    special = {WORDS.index("[CLS]"), WORDS.index("[SEP]")}
    told = ids[mask > 0].tolist()
    assert [one for one in told if one in special] != []
    assert {one for one in told if one not in special} == {WORDS.index("[MASK]")}
    assert ids[mask == 0].sum() == 0


def trained(weights: Path, out: Path, **more: Any) -> dict[str, Any]:
    reranker.train(
        groups(3 * reranker.GROUPS), groups(2), weights, out, **{"epochs": 4, "precision": "float32", **more}
    )
    from safetensors.torch import load_file

    return load_file(out / "model.safetensors")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reranker, "LEARNING_RATE", 5e-3)
    monkeypatch.setattr(reranker, "CHECKPOINT_STEPS", 2)


@pytest.mark.usefixtures("quick")
def test_training_learns_and_a_stopped_run_goes_on_to_the_same_weights(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(weights, tmp_path / "whole")
    log = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert log[-1]["nDCG@10"]["reranked"] == 1.0
    advance, left = Weights.advance, [5]

    def stopped(run: Weights, value: Any, steps: int) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        advance(run, value, steps)

    monkeypatch.setattr(Weights, "advance", stopped)
    with pytest.raises(KeyboardInterrupt):
        trained(weights, tmp_path / "halves")
    monkeypatch.setattr(Weights, "advance", advance)
    halves = trained(weights, tmp_path / "halves")
    assert set(halves) == set(whole)
    assert all(torch.allclose(halves[name], whole[name], atol=1e-6) for name in whole)


@pytest.mark.usefixtures("quick")
def test_what_is_written_is_what_the_export_reads(weights: Path, tmp_path: Path) -> None:
    written = trained(weights, tmp_path, epochs=1)
    assert written["classifier.weight"].shape == (1, 16)
    assert "embeddings.word_embeddings.weight" in written
    assert (tmp_path / "tokenizer.json").is_file()
    assert (tmp_path / "config.json").is_file()

from __future__ import annotations

import random

import pytest

from memdb.models.fakes import HashEncoder, OverlapReranker
from memdb.records import Message
from memdb.train import calibrate
from memdb.train.calibrate import Instance
from memdb.train.metrics import auroc
from memdb.train.talks import Question, Sitting, Talk

SAID = (
    Message("Ben", "Lovely weather for a walk today.", "2023-05-07", id="2"),
    Message("Ana", "I adopted a grey cat called Biscuit.", "2023-05-07", id="1"),
)
TALK = Talk(
    "small",
    (Sitting("1", SAID),),
    (
        Question("What is Ana's cat called?", "single", ("1",)),
        Question("What is Ben's boat called?", "unanswerable", ()),
        Question("What did Ana and Ben adopt?", "multi", ("1",)),
    ),
)


def test_each_question_is_asked_as_it_is_without_its_evidence_and_about_the_other() -> None:
    made = list(calibrate.instances([TALK], OverlapReranker(), HashEncoder(32)))
    assert [one.answerable for one in made] == [True, False, False, False, True, False]
    as_it_is, without, other, *_ = made
    assert as_it_is.signs["same_speaker"] == 1.0
    assert without.signs["words"] < as_it_is.signs["words"]
    assert other.signs["same_speaker"] == -1.0


def test_questions_of_other_talks_are_asked_of_these_speakers() -> None:
    said = (Message("Eve", "Hello.", id="1"), Message("Dan", "Hi.", id="2"))
    asked = (Question("Where did Dan sail?", "single", ("2",)), Question("Why?", "single", ("1",)))
    other = Talk("other", (Sitting("1", said),), asked)
    assert calibrate.foreign(TALK, [TALK, other]) == ["Where did Ana sail?"]
    assert calibrate.foreign(other, [TALK, other]) == [
        "What is Dan's cat called?",
        "What did Dan and Eve adopt?",
    ]


def test_only_one_named_speaker_can_be_exchanged() -> None:
    assert calibrate.about_the_other("What is Ana's cat called?", TALK) == "What is Ben's cat called?"
    assert calibrate.about_the_other("What did Ana and Ben adopt?", TALK) is None
    assert calibrate.about_the_other("What was adopted? Anabel's?", TALK) is None


def cloud(seed: int, count: int = 400) -> list[Instance]:
    """Answerable where a - b + noise > 0; c says nothing."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        told = {name: draw.uniform(-1, 1) for name in "abc"}
        made.append(Instance(f"t{number % 2}", told, told["a"] - told["b"] + draw.gauss(0, 0.3) > 0))
    return made


def test_a_fit_finds_what_matters() -> None:
    weights = calibrate.fit(cloud(1))
    assert weights["a"] > 3
    assert weights["b"] < -3
    assert abs(weights["c"]) < 1
    assert calibrate.across_talks(cloud(1)) > 0.9


def test_both_classes_weigh_the_same() -> None:
    """With signs that say nothing the probability is one half, however few are answerable."""
    made = [Instance("t", {"a": 0.0}, number == 0) for number in range(10)]
    assert calibrate.fit(made)["bias"] == pytest.approx(0.0, abs=1e-3)


def test_auroc_by_hand() -> None:
    # pairs: (3 > 1), (3 > 2), (2 > 1), (2 = 2)
    assert auroc([3, 2, 1, 2], [True, True, False, False]) == pytest.approx(3.5 / 4)

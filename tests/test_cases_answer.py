"""Cases from users of systems of this kind: an answer when there is none. With the embedded models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memdb
from memdb import settings

DISHES = (
    "lentil soup", "roast chicken", "apple pie", "mushroom risotto", "potato salad", "fish stew", "rye bread",
    "plum jam", "onion tart", "carrot cake", "bean chili", "leek quiche", "rice pudding", "beef goulash",
    "spinach lasagne", "tomato sauce", "pea curry", "cheese souffle", "ginger biscuits", "pumpkin gnocchi",
)  # fmt: skip
TALK = (
    "I made {dish} for dinner yesterday, and there was nothing left.",
    "For the {dish} I use my grandmother's heavy pan.",
    "The secret of a good {dish} is to season it at the very end.",
    "My {dish} needs about forty minutes in all.",
    "Next time I want to try the {dish} with more garlic.",
    "The neighbours asked me for the recipe of the {dish}.",
    "I burnt the {dish} once because I was on the phone.",
    "We had {dish} on Sunday with a green salad.",
    "You can freeze the {dish}, it keeps for three months.",
)
EGGS = "Eggs I boil for exactly seven minutes, then the yolk is still a little soft."


@pytest.fixture(scope="module")
def cook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.Memory]:
    """A memory of 200 messages about cooking."""
    said = [text.format(dish=dish) for dish in DISHES for text in TALK]
    said += [f"I bought {dish} at the market, mine was not ready." for dish in DISHES][:19]
    said.insert(97, EGGS)
    assert len(said) == 200
    path: Path = tmp_path_factory.mktemp("cook") / "cook.memdb"
    with memdb.open(path) as memory:
        memory.add([memdb.Message("Ana", text, "2023-05-07") for text in said])
        yield memory


@pytest.mark.parametrize(
    "question",
    [
        "What is my blood type?",
        "What is Ana's blood type?",
        "Which university did Ana go to?",
        "When is Ana's passport due for renewal?",
        "What is the name of Ana's brother?",
    ],
)
def test_case_22_what_nobody_said_is_not_answered(cook: memdb.Memory, question: str) -> None:
    found = cook.recall(question)
    assert found.answerable is not None
    assert found.answerable < settings.ABSTAIN_BELOW


@pytest.mark.parametrize(
    "question",
    [
        "How long do I boil eggs?",
        "How long does Ana boil eggs?",
        "How long can you keep the plum jam in the freezer?",
    ],
)
def test_case_22_what_was_said_is(cook: memdb.Memory, question: str) -> None:
    found = cook.recall(question)
    assert found.answerable is not None
    assert found.answerable >= settings.ABSTAIN_BELOW
    assert EGGS in [one.text for one in found][:1] or "eggs" not in question

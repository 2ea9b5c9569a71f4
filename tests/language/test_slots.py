"""Which predicates name a slot with one value, and how the history of a slot is told."""

from __future__ import annotations

import pytest

from memdb.language.slots import State, holds_one_value, is_replaced, same_value, still_holds, trajectory

ONE_VALUE = """lives in|works for|favourite player is|capital is|is a citizen of|is married to
plays the position of|was born in the city of|was founded by|died in the city of|speaks the language of
is learning|prefers|name is
headquarters is located in the city of|type of music that plays is|drives|job was|LIVES IN"""
SEVERAL = """is|was|has|has got|had|has been|is not|went to|bought|saw|adopted|likes|loves|wants to|made|felt
is looking forward to|won't|will keep|looks|really likes||do not know|got to"""


@pytest.mark.parametrize("predicate", ONE_VALUE.replace("\n", "|").split("|"))
def test_a_state_has_one_value(predicate: str) -> None:
    assert holds_one_value(predicate)


@pytest.mark.parametrize("predicate", SEVERAL.replace("\n", "|").split("|"))
def test_of_tastes_properties_and_events_several_hold(predicate: str) -> None:
    assert not holds_one_value(predicate)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Rome", "rome", True),
        ("a nurse", "nurse", True),
        ("The Hague.", "hague", True),
        ("Zürich", "ZURICH", True),
        ("the  night   shift", "night shift", True),
        ("Rome", "Oslo", False),
        ("a", "the", False),
        ("5 Elm Street", "6 Elm Street", False),
    ],
)
def test_values_are_compared_folded(one: str, other: str, same: bool) -> None:
    assert (same_value(one) == same_value(other)) == same


WORKS, WORKED, PLANTED = "works for", "worked for", "planted"


@pytest.mark.parametrize(
    ("predicate", "value", "newest", "holds"),
    [
        (WORKS, "Acme", [], None),
        (WORKS, "Acme", [(WORKS, "Initech")], False),
        (WORKS, "the Acme.", [(WORKS, "acme")], True),
        (PLANTED, "tree 1", [(PLANTED, "tree 2")], None),
        (PLANTED, "tree 2", [(PLANTED, "tree 2")], True),
        (WORKS, "Acme", [(WORKED, "Initech"), (WORKS, "Acme")], True),
        (WORKS, "Globex", [(WORKED, "Initech"), (WORKS, "Acme")], False),
        (WORKED, "Initech", [(WORKS, "Acme"), (WORKED, "Initech")], None),
        (WORKED, "Initech", [(WORKED, "Initech"), (WORKS, "Acme")], True),
    ],
)
def test_only_a_slot_that_has_one_value_is_replaced_and_only_by_its_like(
    predicate: str, value: str, newest: list[tuple[str, str]], holds: bool | None
) -> None:
    assert still_holds(predicate, value, newest) is holds


OSLO = State("2024-01-05", "Ana lives in Oslo.", "Oslo")
ROME = State("2024-06-05", "Ana lives in Rome.", "Rome")


def test_a_trajectory_names_times_changes_and_the_latest() -> None:
    assert trajectory([OSLO, ROME], 9) == (
        "[2024-01-05] Ana lives in Oslo. → [2024-06-05] Ana lives in Rome. Latest: Ana lives in Rome."
    )


def test_equal_values_in_a_row_are_one_change_the_first_time_is_told_and_the_last_words() -> None:
    again = State("2024-07-01", "Ana is living in rome", "rome")
    back = State("serial-9", "Ana lives in Oslo.", "oslo")
    assert trajectory([OSLO, OSLO, ROME, again], 9) == (
        "[2024-01-05] Ana lives in Oslo. → [2024-06-05] Ana lives in Rome. Latest: Ana is living in rome"
    )
    assert trajectory([OSLO, ROME, back], 9).count("→") == 2, "a value may come back"


def test_an_unknown_time_is_left_out() -> None:
    assert trajectory([State(None, "Ana lives in Oslo.", "Oslo")], 9) == (
        "Ana lives in Oslo. Latest: Ana lives in Oslo."
    )


def test_a_long_history_is_told_from_its_end() -> None:
    states = [State(f"serial-{n}", f"Home {n}.", str(n)) for n in range(5)]
    assert trajectory(states, 2) == "… → [serial-3] Home 3. → [serial-4] Home 4. Latest: Home 4."
    assert trajectory(states, 5).startswith("[serial-0]")


@pytest.mark.parametrize(
    ("predicate", "replaced"),
    [
        ("lives in", True),
        ("now lives in", True),
        ("favourite player is", True),
        ("favorite pet is", True),
        ("phone number is", True),
        ("is married to", True),
        ("works for", True),
        ("was born in the city of", True),
        ("speaks", False),
        ("plays", False),
        ("owns", False),
        ("works with", False),
        ("sister is", False),
        ("hobbies are", False),
        ("does not eat", False),
        ("isn't married to", False),
        ("was founded by", False),
        ("took a picture of", False),
        ("is", False),
        ("", False),
    ],
)
def test_in_conversation_only_a_slot_with_one_value_is_replaced(predicate: str, replaced: bool) -> None:
    assert is_replaced(predicate, numbered=False) == replaced
    assert is_replaced(predicate, numbered=True) == holds_one_value(predicate)

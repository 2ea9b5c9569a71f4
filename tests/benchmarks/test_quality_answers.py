"""Worked examples of every answer metric."""

from __future__ import annotations

import math

import pytest

from benchmarks.quality import answers

pytest.importorskip("snowballstemmer", reason="token F1 needs snowballstemmer")


@pytest.mark.parametrize(
    ("prediction", "gold", "category", "expected"),
    [
        ("7 May 2023", "7 May 2023", 2, 1.0),
        ("She went on 7 May, 2023", "7 May 2023", 2, 2 / 3),
        ("painting and running", "paints, runs", 4, 1.0),
        ("Paris, Rome", "Rome, Paris", 1, 1.0),
        ("Paris", "Paris, Rome", 1, 0.5),
        ("Paris and Rome", "Paris, Rome", 1, 2 / 3),
        ("No", "Likely no; she said so", 3, 2 / 3),
        ("Not mentioned in the talk", "", 5, 1.0),
        ("There is NO INFORMATION AVAILABLE.", "", 5, 1.0),
        ("a horse", "", 5, 0.0),
        ("2022", 2022, 2, 1.0),
        ("", "anything", 2, 0.0),
        ("", "anything", 3, 0.0),
        ("", "anything", 4, 0.0),
        ("the", "the", 4, 0.0),
    ],
)
def test_locomo_f1(prediction: str, gold: str | int, category: int, expected: float) -> None:
    assert answers.locomo_f1(prediction, gold, category) == pytest.approx(expected)


def test_locomo_has_five_categories() -> None:
    with pytest.raises(ValueError, match="1 to 5"):
        answers.locomo_f1("a", "a", 6)


@pytest.mark.parametrize(("reply", "expected"), [("Yes.", True), ("no", False), ("Yes, but…", True)])
def test_longmemeval_label(reply: str, expected: bool) -> None:
    assert answers.longmemeval_label(reply) is expected


@pytest.mark.parametrize(
    ("prediction", "accepted", "expected"),
    [
        ("Answer: The United States of America.", ["United States"], 1),
        ("New Yorker", ["York"], 1),
        ("in 2004", ["2005"], 0),
        ("in 2004", ["2005", "2004"], 1),
        ("Washington, D.C.", ["Washington DC"], 1),
    ],
)
def test_substring_match(prediction: str, accepted: list[str], expected: float) -> None:
    assert answers.substring_match(prediction, accepted) == expected


@pytest.mark.parametrize(
    ("reference", "answer", "tau_b", "tau_norm", "f1"),
    [
        ("abc", "abc", 1, 1, 1),
        ("abc", "bac", 0.333333, 0.666667, 1),
        ("abc", "cba", -1, 0, 1),
        ("abc", "ac", 0.333333, 0.666667, 0.8),
        ("abc", "habc", 0, 0.5, 0.857143),
        ("abc", "x", -0.707107, 0.146447, 0),
        ("abc", "xy", -0.755929, 0.122036, 0),
        ("a", "a", math.nan, 1, 1),
        ("a", "", math.nan, 0, 0),
        ("ab", "", math.nan, 0, 0),
    ],
)
def test_event_order(reference: str, answer: str, tau_b: float, tau_norm: float, f1: float) -> None:
    score = answers.event_order(reference, answer)
    assert score == pytest.approx((tau_b, tau_norm, f1), abs=1e-6, nan_ok=True)


def test_event_lines_drop_markers_and_blanks() -> None:
    assert answers.event_lines("1. moved\n\n- wed\n * 2 cats\n") == ["moved", "wed", "2 cats"]


def test_align_events_uses_each_event_once() -> None:
    lines = ["He moved", "moved again", "sang"]
    aligned = answers.align_events(lines, ["moved", "wed"], lambda line, event: event in line)
    assert aligned == ["moved", "moved again", "sang"]


def test_nugget_modes_and_overall() -> None:
    assert answers.nugget_score([1, 0.5, 0], "summarization") == 0.5
    assert answers.nugget_score([1, 0.5, 0], "summarization", mode="official") == pytest.approx(1 / 3)
    assert answers.nugget_score([1, 0.5, 0], "event_ordering", mode="official") == 0.5


@pytest.mark.parametrize(("nine", "tau", "expected"), [(36.81, 21.77, 35.306), (40.26, 26.79, 38.913)])
def test_beam_overall_is_mean_of_ten_abilities(nine: float, tau: float, expected: float) -> None:
    abilities = dict.fromkeys(answers.BEAM_ABILITIES, nine) | {"event_ordering": tau}
    assert answers.beam_overall(abilities) == pytest.approx(expected)
    with pytest.raises(ValueError, match="event_ordering"):
        answers.beam_overall({name: nine for name in answers.BEAM_ABILITIES if name != "event_ordering"})

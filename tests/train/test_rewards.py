"""The eight rewards: every row of the table by hand, and what holds for any reply."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.generate.action import EVIDENCE, USEFUL
from memdb.train.instances import Instance
from memdb.train.rewards import (
    COMPONENTS,
    EV,
    FMT,
    FULL,
    GATES,
    SEL,
    SPAN,
    TABLE,
    Gating,
    Judge,
    RuleJudge,
    rewards,
)
from tests.train.instances import BOTH, CANOE_INSTANCE, KEEPS, NOBODY_KNOWS, FixedJudge, written

GATINGS = get_args(Gating)
FIRST = ("m2", KEEPS)
SECOND = ("m4", "Ana has fallen into the river twice.")
OTHER = ("m5", "Ben's sister bakes bread.")


def of(
    text: str, instance: Instance = BOTH, judge: Judge | None = None, gating: Gating = "leaky"
) -> list[float]:
    return list(rewards(text, instance, judge or FixedJudge(), gating))


# --- The table


def test_the_table_has_a_span_and_a_gate_for_each() -> None:
    assert SPAN == ((FMT, SEL, EV), (SEL,), (SEL,), (SEL,), (EV,), (EV,), (EV,), (EV,))
    assert len(TABLE) == COMPONENTS == 8
    assert FULL == 8.0
    assert GATES["leaky"] == ((), (0,), (0,), (0, 2), (0, 1), (0, 1, 4), (0,), (0,))
    assert GATES["strict"][5:] == (tuple(range(5)), tuple(range(6)), tuple(range(6)))
    for gates in GATES.values():
        assert len(gates) == COMPONENTS
        assert all(all(gate < number for gate in needed) for number, needed in enumerate(gates))


# --- r0


@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize(
    ("text", "format_reward"),
    [
        ("", -1.0),
        ("no JSON", -1.0),
        (written(["m2"], FIRST)[:-1], -1.0),
        ("```json\n" + written(["m2"], FIRST) + "\n```", -1.0),
        ("[]", 0.5),
        ("null", 0.5),
        ('{"useful_msg": []}', 0.5),
        ('{"useful_msg": [], "distilled_info": [], "why": ""}', 0.5),
        ('{"useful_msg": [{"msg_id": ""}], "distilled_info": []}', 0.5),
        ('{"useful_msg": ["m2"], "distilled_info": []}', 0.5),
        (written(["<id>"], ("<id>", "<text>")), 0.5),
    ],
)
def test_what_is_not_valid_earns_format_alone(text: str, format_reward: float, gating: Gating) -> None:
    judge = FixedJudge()
    assert of(text, BOTH, judge, gating) == [format_reward, *[0.0] * 7]
    assert of(text, NOBODY_KNOWS, judge, gating) == [format_reward, *[0.0] * 7]
    assert judge.calls == []


# --- r1 to r4, ungated, so that each row is seen by itself


@pytest.mark.parametrize(
    ("useful", "known", "recall", "precision"),
    [
        ([], 1.0, 0.0, 0.0),
        (["m2", "m4"], 1.0, 1.0, 1.0),
        (["m4", "m2"], 1.0, 1.0, 1.0),
        (["m2"], 1.0, 1 / 2, 1.0),
        (["m2", "m4", "m5", "m6"], 1.0, 1.0, 1 / 2),
        (["m2", "m4", "m9"], 2 / 3, 1.0, 2 / 3),
        (["m2", "m4", "m2", "m2"], 2 / 4, 1.0, 2 / 4),
        (["m9", "m9"], 0.0, 0.0, 0.0),
        (["M2", " m2"], 0.0, 0.0, 0.0),
    ],
)
def test_choosing_of_two_gold_messages(
    useful: list[str], known: float, recall: float, precision: float
) -> None:
    assert of(written(useful), BOTH, gating="none")[1:4] == [known, recall, precision]


@pytest.mark.parametrize(
    ("useful", "known", "precision"),
    [([], 1.0, 1.0), (["m1"], 1.0, 1 / 2), (["m1", "m2"], 1.0, 1 / 3), (["m1", "m1", "m9"], 1 / 3, 1 / 4)],
)
def test_choosing_where_nothing_answers(useful: list[str], known: float, precision: float) -> None:
    assert of(written(useful), NOBODY_KNOWS, gating="none")[1:4] == [known, 1.0, precision]


@pytest.mark.parametrize(
    ("useful", "told", "alignment"),
    [
        ([], [], 1.0),
        (["m2", "m4"], ["m2", "m4"], 1.0),
        (["m2", "m4"], ["m4", "m2"], 1.0),
        (["m2", "m2"], ["m2"], 1.0),  # S is a set: the second m2 is r1's to punish
        (["m2", "m4"], ["m2"], 1 / 2),
        (["m2", "m4"], ["m2", "m5"], 1 / 3),
        (["m2"], [], 0.0),
        ([], ["m2"], 0.0),
        (["m2"], ["m5"], 0.0),
        (["m2"], ["m2", "m2"], 1 / 2),
        (["m9"], ["m9"], 1.0),
    ],
)
def test_evidence_fits_the_choice(useful: list[str], told: list[str], alignment: float) -> None:
    text = written(useful, *((id, "Ana rows.") for id in told))
    assert of(text, BOTH, gating="none")[4] == alignment


# --- r5 to r7


@pytest.mark.parametrize(
    ("passed", "share"), [([True], 1.0), ([True, False], 1 / 2), ([False], 0.0), ([True, True, False], 2 / 3)]
)
def test_the_share_of_entries_that_pass(passed: list[bool], share: float) -> None:
    entries = [FIRST, SECOND, OTHER][: len(passed)]
    text = written([id for id, _ in entries], *entries)
    assert of(text, BOTH, FixedJudge(passed))[5] == share


def test_no_evidence_passes_where_nothing_answers() -> None:
    judge = FixedJudge()
    assert of(written([]), NOBODY_KNOWS, judge)[5] == 1.0
    assert of(written([]), BOTH, judge)[5] == 0.0
    assert "entries" not in judge.calls


@pytest.mark.parametrize(
    ("correct", "failed", "answer", "information"),
    [(True, False, 1.0, 1.0), (True, True, 1.0, 1.0), (False, False, 0.0, 1.0), (False, True, 0.0, 0.0)],
)
def test_the_answer_and_what_is_to_blame(
    correct: bool, failed: bool, answer: float, information: float
) -> None:
    judge = FixedJudge(correct=correct, failed=failed)
    assert of(written(["m2", "m4"], FIRST, SECOND), BOTH, judge)[6:] == [answer, information]


# --- Gates


FULLY = written(["m2", "m4"], FIRST, SECOND)


@pytest.mark.parametrize(
    ("text", "judge", "leaky", "strict", "none"),
    [
        pytest.param(FULLY, FixedJudge(), [1] * 8, [1] * 8, [1] * 8, id="full"),
        pytest.param(
            written(["m2", "m4", "m9"], FIRST, SECOND, ("m9", "Ana rows.")),
            FixedJudge(),
            [1, 2 / 3, 1, 2 / 3, 0, 0, 1, 1],
            [1, 2 / 3, 0, 0, 0, 0, 0, 0],
            [1, 2 / 3, 1, 2 / 3, 1, 1, 1, 1],
            id="r1 closes r4 and r5",
        ),
        pytest.param(
            written(["m2"], FIRST),
            FixedJudge(correct=False),
            [1, 1, 1 / 2, 0, 1, 1, 0, 1],
            [1, 1, 1 / 2, 0, 0, 0, 0, 0],
            [1, 1, 1 / 2, 1, 1, 1, 0, 1],
            id="r2 closes r3",
        ),
        pytest.param(
            written(["m2", "m4", "m5"], FIRST, SECOND, OTHER),
            FixedJudge(),
            [1, 1, 1, 2 / 3, 1, 1, 1, 1],
            [1, 1, 1, 2 / 3, 0, 0, 0, 0],
            [1, 1, 1, 2 / 3, 1, 1, 1, 1],
            id="r3 closes nothing unless strict",
        ),
        pytest.param(
            written(["m2", "m4"], FIRST),
            FixedJudge(),
            [1, 1, 1, 1, 1 / 2, 0, 1, 1],
            [1, 1, 1, 1, 1 / 2, 0, 0, 0],
            [1, 1, 1, 1, 1 / 2, 1, 1, 1],
            id="r4 closes r5",
        ),
        pytest.param(
            FULLY,
            FixedJudge([True, False]),
            [1, 1, 1, 1, 1, 1 / 2, 1, 1],
            [1, 1, 1, 1, 1, 1 / 2, 0, 0],
            [1, 1, 1, 1, 1, 1 / 2, 1, 1],
            id="r5 closes r6 and r7 if strict",
        ),
        pytest.param(
            FULLY,
            FixedJudge(correct=False),
            [1, 1, 1, 1, 1, 1, 0, 1],
            [1, 1, 1, 1, 1, 1, 0, 1],
            [1, 1, 1, 1, 1, 1, 0, 1],
            id="r6 and r7 share a gate",
        ),
    ],
)
def test_gates(
    text: str, judge: FixedJudge, leaky: list[float], strict: list[float], none: list[float]
) -> None:
    found = [of(text, BOTH, judge, gating) for gating in GATINGS]
    assert found == [leaky, strict, none]


@pytest.mark.parametrize(
    ("text", "gating", "calls"),
    [
        ("no JSON", "none", []),
        (FULLY, "leaky", ["entries", "answer"]),
        (written(["m9"], ("m9", "Ana rows.")), "leaky", ["answer"]),
        (written(["m2", "m4"], FIRST), "leaky", ["answer"]),
        (written(["m2", "m4"], FIRST), "strict", []),
        (written(["m2", "m4"], FIRST), "none", ["entries", "answer"]),
        (written(["m2"], FIRST), "strict", []),
    ],
)
def test_a_judge_is_asked_only_behind_open_gates(text: str, gating: Gating, calls: list[str]) -> None:
    judge = FixedJudge()
    of(text, BOTH, judge, gating)
    assert judge.calls == calls


def test_under_strict_gating_an_entry_that_fails_saves_the_answer() -> None:
    judge = FixedJudge([True, False])
    of(FULLY, BOTH, judge, "strict")
    assert judge.calls == ["entries"]


def test_nothing_chosen_where_nothing_answers_is_full() -> None:
    for gating in GATINGS:
        assert sum(of(written([]), NOBODY_KNOWS, RuleJudge(), gating)) == FULL
    assert of(written([]), CANOE_INSTANCE, RuleJudge()) == [1, 1, 0, 0, 1, 0, 0, 0]


# --- Any reply

ids = st.sampled_from(["m1", "m2", "m3", "m4", "m5", "m6", "m7", "", "M1", "<id>", "m1 "])
infos = st.one_of(st.text(max_size=20), st.just(KEEPS))
rows = st.lists(st.builds(lambda id: {"msg_id": id}, ids), max_size=5)
told = st.lists(st.builds(lambda id, info: {"msg_id": id, "info": info}, ids, infos), max_size=5)
documents = st.builds(lambda useful, evidence: {USEFUL: useful, EVIDENCE: evidence}, rows, told)
replies = st.one_of(
    documents.map(json.dumps), documents.map(json.dumps).map(lambda text: text[:-2]), st.text()
)
instances = st.builds(
    lambda gold: msgspec.structs.replace(BOTH, gold=tuple(gold), answer="twice" if gold else ""),
    st.lists(st.sampled_from(["m1", "m2", "m3", "m4"]), unique=True, max_size=3),
)
judges = st.builds(
    lambda passed, correct, failed: FixedJudge(passed, correct=correct, failed=failed),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=200)
@given(replies, instances, judges, st.sampled_from(GATINGS))
def test_values_and_gates_of_any_reply(
    text: str, instance: Instance, judge: FixedJudge, gating: Gating
) -> None:
    found = of(text, instance, judge, gating)
    assert len(found) == COMPONENTS
    assert sum(found) <= FULL
    for number, (component, value) in enumerate(zip(TABLE, found, strict=True)):
        assert component.least <= value <= 1.0
        assert not component.values or value in component.values
        if any(found[gate] != 1.0 for gate in GATES[gating][number]):
            assert value == 0.0
    if found[0] == 1.0 and gating != "strict":
        assert found[7] >= found[6]


@settings(max_examples=200)
@given(replies, instances, judges)
def test_a_looser_gate_pays_at_least_as_much(text: str, instance: Instance, judge: FixedJudge) -> None:
    leaky, strict, none = (of(text, instance, judge, gating) for gating in GATINGS)
    for loose, tight in ((leaky, strict), (none, leaky)):
        assert all(one >= other for one, other in zip(loose, tight, strict=True))
    full = [sum(found) == FULL for found in (leaky, strict, none)]
    assert full[0] == full[1] == full[2]


@settings(max_examples=100)
@given(documents, instances, judges, st.sampled_from(GATINGS))
def test_the_order_of_keys_and_blanks_do_not_matter(
    document: dict[str, list[dict[str, str]]], instance: Instance, judge: FixedJudge, gating: Gating
) -> None:
    turned = {key: [dict(reversed(row.items())) for row in rows] for key, rows in reversed(document.items())}
    assert of(json.dumps(document), instance, judge, gating) == of(
        json.dumps(turned, indent=2), instance, judge, gating
    )


@settings(max_examples=100)
@given(documents, instances, st.randoms(use_true_random=False))
def test_the_order_of_a_choice_and_of_its_evidence_does_not_matter(
    document: dict[str, list[dict[str, str]]], instance: Instance, random: object
) -> None:
    mixed = {key: list(rows) for key, rows in document.items()}
    for rows in mixed.values():
        random.shuffle(rows)  # type: ignore[attr-defined]
    found, other = (of(json.dumps(one), instance, gating="none")[:5] for one in (document, mixed))
    assert found == other

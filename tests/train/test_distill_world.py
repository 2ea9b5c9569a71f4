"""Worlds for a small distiller: what they promise holds for every one of them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from memdb.generate.faithful import faithful
from memdb.generate.rewrite import statement
from memdb.language.terms import tokens
from memdb.train import distill_world
from memdb.train.anchors import anchor
from memdb.train.distill_world import ATTRIBUTES, MESSAGES, PEOPLE, families, is_held_out, worlds
from memdb.train.instances import Instance, read
from memdb.train.rewards import RuleJudge

SOME = list(islice(worlds("test"), 400))
VALUE_OF = {value: name for name, kind in ATTRIBUTES.items() for value in kind.values}


def asked(one: Instance) -> tuple[str, str]:
    """Person and attribute."""
    question = one.history.query.text
    (person,) = (name for name in PEOPLE if name in question)
    (attribute,) = (
        name for name, kind in ATTRIBUTES.items() if question in {text.format(person) for text in kind.asked}
    )
    return person, attribute


def told(one: Instance) -> list[tuple[str, str, str]]:
    """Speaker, attribute and value of each message."""
    found = []
    for said in one.history.utterances:
        (value,) = (word for word in tokens(said.message.content) if word in map(str.lower, VALUE_OF))
        name = next(name for known, name in VALUE_OF.items() if known.lower() == value)
        found.append((said.message.speaker, name, value))
    return found


def test_one_message_tells_what_is_asked_for_or_none_does() -> None:
    for one in SOME:
        telling = [
            (f"m{place}", value)
            for place, (speaker, name, value) in enumerate(told(one), 1)
            if (speaker, name) == asked(one)
        ]
        assert one.gold == tuple(id for id, _ in telling)
        assert [one.answer.lower()] == ([value for _, value in telling] or [""])
    unanswerable = sum(not one.gold for one in SOME) / len(SOME)
    assert 0.10 < unanswerable < 0.20, "15 %, of 400"


def test_the_others_are_hard_to_tell_from_it() -> None:
    for one in SOME:
        person, attribute = asked(one)
        assert len(one.history.utterances) == MESSAGES
        pairs = [(speaker, name) for speaker, name, _ in told(one)]
        assert len(set(pairs)) == MESSAGES, "nobody tells of one thing twice"
        assert sum(speaker == person and name != attribute for speaker, name in pairs) == 2
        assert sum(speaker != person and name == attribute for speaker, name in pairs) >= 2


def test_all_is_in_the_first_person_and_dated() -> None:
    for one in SOME:
        for said in one.history.utterances:
            assert {"i", "my"} & set(tokens(said.message.content))
            assert said.message.said_at is not None
            assert str(said.message.said_at) < str(one.question_time)


def test_there_are_one_or_two_conversations_in_the_order_of_time() -> None:
    for one in SOME:
        days = [{said.message.said_at for said in segment.utterances} for segment in one.history.segments]
        assert all(len(some) == 1 for some in days)
        assert [min(map(str, some)) for some in days] == sorted(str(day) for some in days for day in some)
        assert [len(segment.utterances) for segment in one.history.segments] in ([6], [2, 4], [3, 3], [4, 2])
    counts = [len(one.history.segments) for one in SOME]
    assert 0.3 < counts.count(2) / len(counts) < 0.7


def test_rules_can_tell_every_message_faithfully() -> None:
    for one in SOME:
        for segment in one.history.segments:
            speakers = [said.message.speaker for said in one.history.utterances]
            for said in segment.utterances:
                info = statement(said, segment, speakers, one.history.query.text)
                assert info.startswith(said.message.speaker), info
                assert "I" not in info.split()
                assert faithful(info, said, segment, speakers)


def test_rules_make_an_anchor_of_full_reward_for_every_one() -> None:
    judge = RuleJudge()
    assert all(anchor(one, judge) is not None for one in SOME[:100])


def test_a_pair_that_is_held_out_is_never_asked_for_in_training() -> None:
    training = {(asked(one)[0], one.answer) for one in SOME if one.gold}
    held = {(asked(one)[0], one.answer) for one in islice(worlds("test", held_out=True), 200) if one.gold}
    assert held
    assert not training & held
    assert all(is_held_out(*pair) for pair in held)
    every = [(person, value) for person in PEOPLE for value in VALUE_OF]
    assert 0.1 < sum(is_held_out(*pair) for pair in every) / len(every) < 0.3


def test_a_family_asks_one_history_for_all_it_tells_and_for_what_it_does_not() -> None:
    for family in islice(families("test"), 50):
        assert len({one.history.segments for one in family}) == 1
        *answered, nothing = family
        assert (nothing.gold, nothing.answer) == ((), "")
        facts = told(nothing)
        assert asked(nothing) not in [(speaker, name) for speaker, name, _ in facts]
        assert asked(nothing)[0] in [speaker for speaker, _, _ in facts]
        free = [
            (f"m{place}", speaker, name, value)
            for place, (speaker, name, value) in enumerate(facts, 1)
            if not is_held_out(speaker, value if name != "city" else value.capitalize())
        ]
        assert [(one.gold[0], *asked(one), one.answer.lower()) for one in answered] == free


def test_a_seed_gives_the_same_worlds_and_another_gives_others() -> None:
    assert list(islice(worlds("test"), 20)) == SOME[:20]
    assert list(islice(worlds("else"), 20)) != SOME[:20]
    assert len({one.case for one in SOME}) == len(SOME)


def test_the_command_writes_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["distill_world", "--count", "5", "--seed", "test", "--out", str(tmp_path / "made.jsonl")]
    monkeypatch.setattr("sys.argv", words)
    distill_world.main()
    assert read(tmp_path / "made.jsonl") == SOME[:5]
    monkeypatch.setattr("sys.argv", [*words, "--held-out"])
    distill_world.main()
    assert read(tmp_path / "made.jsonl") == list(islice(worlds("test", held_out=True), 5))
    monkeypatch.setattr("sys.argv", [*words, "--families"])
    distill_world.main()
    assert read(tmp_path / "made.jsonl") == list(next(families("test"))[:5])

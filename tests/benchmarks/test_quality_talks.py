"""memdb's own conversations as a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.quality import run, talks
from benchmarks.quality.errors import DataMalformed


def test_the_talks_that_come_with_memdb() -> None:
    found = talks.load(sorted(talks.HOME.glob(talks.PATTERN)))
    assert [one.name for one in found if one.size == talks.HELD_OUT] == ["glacier", "museum"]
    assert len(found) == 14
    for conversation in found:
        known = {message.id for message in conversation.messages}
        assert len(known) == len(conversation.messages)
        for question in conversation.questions:
            assert set(question.gold) <= known
            assert question.answerable == bool(question.gold) == bool(question.answer)
            assert question.category in talks.CATEGORIES
            assert question.asked_at == conversation.messages[-1].said_at


def test_the_held_out_ones_are_measured_unless_others_are_asked_for() -> None:
    everything = talks.load(sorted(talks.HOME.glob(talks.PATTERN)))
    chosen, _ = run._chosen("talks", everything, run.Wanted())
    assert [one.name for one in chosen] == ["glacier", "museum"]
    chosen, _ = run._chosen("talks", everything, run.Wanted(sizes=talks.DEVELOPMENT))
    assert len(chosen) == 12


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "x", "sessions": [{}], "questions": []}'])
def test_what_is_no_talk_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "talk.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataMalformed, match=r"talk\.json"):
        talks.load([file])

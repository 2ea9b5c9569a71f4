"""Whatever a model replies: a build does not raise, loses no message, stores nothing its checks refuse."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb.construct.admit import admit
from memdb.construct.derive import speakers_of
from memdb.construct.extract import extract
from memdb.construct.support import support_of
from memdb.errors import MemdbWarning
from memdb.language.cleaning import cleaned
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.models.ports import Completion, Turn
from memdb.records import Message
from tests import strategies
from tests.scripted import PROMPTS, Schema, everything, reads, stretch_of

ENCODER = HashEncoder(16)
ids = st.one_of(st.integers(0, 12).map("M{}".format), st.integers(0, 9).map("U{}".format), strategies.text)
said_words = st.sampled_from(["Ana", "Ben", "Porto", "I moved to Porto.", "user", "2023", "rain", "hospital"])
texts = st.one_of(said_words, st.lists(said_words, max_size=4).map(" ".join), strategies.text)
triples = st.fixed_dictionaries({"subject": texts, "predicate": texts, "object": texts})
days = st.one_of(
    st.sampled_from(["2023", "2023-05", "2023-05-07", "2023-02-30", "9999", "0000-01"]), strategies.text
)
times = st.fixed_dictionaries(
    {"start": days, "end": days, "granularity": st.sampled_from(["day", "week", "month", "year", "era"])}
)
units = st.fixed_dictionaries({"start_turn": ids, "end_turn": ids, "fact_text": texts, "triple": triples})
indexes = st.fixed_dictionaries(
    {
        "memory_unit_id": ids,
        "entities": st.lists(texts, max_size=3),
        "locations": st.lists(texts, max_size=3),
        "time": st.lists(times, max_size=3),
    }
)
leaves = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), texts)
values = st.recursive(leaves, lambda inner: st.one_of(st.lists(inner, max_size=3),
                                                      st.dictionaries(texts, inner, max_size=3)))  # fmt: skip
documents = st.one_of(
    st.fixed_dictionaries({"memory_units": st.lists(units, max_size=4)}),
    st.fixed_dictionaries({"memory_units": st.lists(st.one_of(units, indexes, values), max_size=4)}),
    st.fixed_dictionaries({"memory_units": st.lists(indexes, max_size=4)}),
    st.fixed_dictionaries({"trajectory": texts}),
    st.fixed_dictionaries({"memory_units": values}),
    values,
)


@st.composite
def replies(draw: st.DrawFn) -> str | Completion:
    """JSON, nearly JSON and anything else; whole or cut off."""
    text = json.dumps(draw(documents), ensure_ascii=draw(st.booleans()))
    before, after = draw(st.tuples(strategies.text, strategies.text)) if draw(st.booleans()) else ("", "")
    text = draw(st.sampled_from([before + text + after, f"```json\n{text}\n```", before, text]))
    if not draw(st.booleans()):
        return text
    text = text[: draw(st.integers(0, len(text)))]
    return Completion(text=text, finish="length", prompt_tokens=1, completion_tokens=1)


conversations = st.lists(
    st.one_of(strategies.messages(), st.just(Message("Ana", "I moved to Porto in May 2023.", "2024-01-02"))),
    min_size=1,
    max_size=9,
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(said=conversations, answers=st.lists(replies(), min_size=1, max_size=6))
def test_a_build_takes_any_reply(said: list[Message], answers: list[Any]) -> None:
    asked = iter(answers * 40)
    backbone = ScriptedBackbone(lambda turns, schema: next(asked))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        path = Path(folder) / "m.memdb"
        with memdb.open(path, encoder=ENCODER) as memory:
            memory.add(said, session="s")
            before = everything(path)
            built = memory.build(backbone)
            assert built.done + built.failed == built.windows
            assert memory.verify().problems == ()
            after = everything(path)
            assert after["message"] == before["message"]
            assert after["message_vector"] == before["message_vector"]
            model_made = {w.number for w in memory.windows() if w.state == "done"}
            _check_again(said, [row for row in after["unit"] if row[3] in model_made])
            assert all(cleaned(row[5] or "") == (row[5] or "").strip() for row in after["rejection"])


def _check_again(said: Sequence[Message], rows: Sequence[tuple[Any, ...]]) -> None:
    """Every unit a model made passes the checks, by the rows of the file alone."""
    admitted = admit(said)
    for row in rows:
        first, last, fact, subject, predicate, value = row[6:12]
        assert 0 <= first <= last < len(said)
        assert all(text and text == cleaned(text) for text in (fact, subject, predicate, value))
        support = support_of(admitted[first : last + 1], speakers_of(admitted))
        assert support.lacking(subject) == support.lacking(value) == support.lacking_names(fact) == []


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    said=conversations,
    answers=st.lists(replies(), min_size=4, max_size=4),
    context=st.integers(1, 9_000),
    name=strategies.text,
)
def test_a_window_takes_any_reply_in_any_context(
    said: list[Message], answers: list[Any], context: int, name: str
) -> None:
    backbone = ScriptedBackbone(answers, context_tokens=context)
    found = extract(backbone, PROMPTS, stretch_of(*said, session=name))
    assert (found.units == []) or found.error is None
    assert all(one.detail is None or one.detail.isprintable() for one in found.rejected)
    assert len({(unit.fact_text.casefold(), unit.first, unit.last) for unit in found.units}) == len(
        found.units
    )
    lines = max(call.turns[1].text.count("[M") for call in backbone.calls) if backbone.calls else 0
    assert lines >= len(said) or not backbone.calls


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    cuts=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["build", "fail", "rules", ""])), max_size=5),
    retry=st.booleans(),
)
def test_adding_and_building_in_any_order_ends_the_same(cuts: list[tuple[int, str]], retry: bool) -> None:
    """However a session grew, and whoever made its windows meanwhile: a last build is all that counts."""
    from tests.scripted import TALK, facts

    def careful(turns: Sequence[Turn], schema: Schema) -> str:
        return reads(turns, schema)

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        found = []
        for name, steps in (("once", []), ("many", cuts)):
            path, at = Path(folder) / name, 0
            with memdb.open(path, encoder=ENCODER) as memory:
                for count, then in steps:
                    memory.add(TALK[at : at + count], session="s")
                    at += count
                    if then == "build":
                        memory.build(ScriptedBackbone(careful))
                    elif then == "fail":
                        memory.build(ScriptedBackbone(lambda turns, schema: "no"), retry=retry)
                    elif then == "rules":
                        memory.build(redo=True)
                    assert memory.verify().problems == ()
                memory.add(TALK[at:], session="s")
                memory.build(ScriptedBackbone(careful), retry=True)
                assert {w.state for w in memory.windows()} == {"done"}
                assert memory.verify().problems == ()
            found.append(facts(path))
    assert found[0] == found[1]

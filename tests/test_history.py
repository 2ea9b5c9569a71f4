"""The raw history around a question: whole segments and what is linked to them, in time, within a budget."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

import memdb
from memdb import errors, settings
from memdb.activate.parse import parse_question
from memdb.activate.recall import Wish, candidates
from memdb.activate.working_memory import estimated_tokens
from memdb.construct import segments
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.records import History, Message, Scope
from tests import segmented, strategies
from tests.conftest import OpenMemory
from tests.encoders import Lettered, Turned
from tests.segmented import Name


def said(*texts: str, at: str | None = None) -> list[Message]:
    return [Message("Ana", text, at) for text in texts]


def shown(history: History) -> list[str]:
    """The texts of each segment."""
    return [" ".join(one.message.content for one in segment.utterances) for segment in history.segments]


def ended(memory: memdb.Memory) -> None:
    """Every session is over: the last segment of each is closed and linked, as if more had been said."""
    with memory._database.atomic() as connection:
        ids = [id for (id,) in connection.execute("SELECT segment_id FROM segment WHERE NOT closed")]
        connection.execute("UPDATE segment SET closed = 1")
        segments.link(connection, ids, 0.7)


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    """Each session is a segment of its own; a cosine of .7 links two."""
    memory = open_memory(encoder=Lettered(), scope="*")
    memory.rebuild_segments(tau1=-1.0, tau2=0.7, rule="sim")
    return memory


@pytest.fixture
def chain(memory: memdb.Memory) -> memdb.Memory:
    """x is linked to y by .71, y to z by .71, w to none: the latest is x, and y has no clock."""
    for session, texts, at in (
        ("z", ("b1", "b2"), "2024-01-02"),
        ("y", ("a1 b1", "a2 b2", "a3 b3"), None),
        ("w", ("c1",), "2024-01-01"),
        ("x", ("a1", "a2"), "2024-01-03"),
    ):
        memory.add(said(*texts, at=at), session=session, scope=Scope())
    ended(memory)
    return memory


def asked(memory: memdb.Memory, question: str = "a1", k: int = 1, **how: Any) -> History:
    return memory.history(question, k, **{"entry": "dense", **how})


def test_the_best_message_brings_its_segment(chain: memdb.Memory) -> None:
    found = asked(chain, links="none")
    [segment] = found.segments
    assert shown(found) == ["a1 a2"]
    assert [(one.session, one.position, one.source) for one in segment.utterances] == [
        ("x", 0, ""),
        ("x", 1, ""),
    ]
    assert sorted(one.rank or 9 for one in segment.utterances) == [1, 9]
    assert segment.utterances[0].message == Message("Ana", "a1", "2024-01-03", id="x#1")
    assert (segment.linked, segment.cut, found.truncated) == (False, False, False)
    assert found.tokens == sum(estimated_tokens(text) for text in ("a1", "a2"))
    assert found.query.text == "a1"
    assert found.utterances == segment.utterances


def test_links_are_followed_as_far_as_is_wished(chain: memdb.Memory) -> None:
    """In the order of time, what has no clock last."""
    assert shown(asked(chain, links="none")) == ["a1 a2"]
    assert shown(asked(chain, links="direct")) == ["a1 a2", "a1 b1 a2 b2 a3 b3"]
    assert shown(asked(chain)) == shown(asked(chain, links="direct"))
    assert shown(asked(chain, links="components")) == ["b1 b2", "a1 a2", "a1 b1 a2 b2 a3 b3"]
    assert [one.linked for one in asked(chain, links="components").segments] == [True, False, True]
    assert shown(asked(chain, "c1", links="components")) == ["c1"]


def test_what_was_found_is_ranked_once(chain: memdb.Memory) -> None:
    found = asked(chain, k=8, links="components")
    assert sorted(one.rank or 99 for one in found.utterances) == list(range(1, 9))
    assert not any(one.linked for one in found.segments)
    assert shown(found) == ["c1", "b1 b2", "a1 a2", "a1 b1 a2 b2 a3 b3"]


def test_sessions_that_interleave_are_told_in_time(memory: memdb.Memory) -> None:
    memory.rebuild_segments(tau1=0.5)
    for day in range(1, 7):
        letter, session = ("a", "s") if day % 2 else ("b", "t")
        memory.add(said(f"{letter}1", at=f"2024-01-0{day}"), session=session, scope=Scope())
        memory.add(said(f"{letter}1 c9", at=f"2024-01-0{day}"), session=session, scope=Scope())
    found = asked(memory, k=12, links="none")
    assert shown(found) == ["a1", "a1 c9", "b1", "b1 c9"] * 3


def words(text: str) -> int:
    return len(text.split())


def test_a_budget_is_for_the_best_first(chain: memdb.Memory) -> None:
    """x has 2 words, its neighbour y has 6, z has 2; x is cut, y and z come whole or not at all."""
    by_words: dict[str, Any] = {"count_tokens": words, "links": "components"}
    told = [
        (asked(chain, budget_tokens=tokens, **by_words), tokens) for tokens in (1, 2, 3, 4, 7, 8, 9, 10, 99)
    ]
    assert [(len(shown(found)), found.tokens, found.truncated) for found, _ in told] == [
        (1, 1, True), (1, 2, True), (1, 2, True), (2, 4, True), (2, 4, True), (2, 8, True), (2, 8, True),
        (3, 10, False), (3, 10, False),
    ]  # fmt: skip
    first = told[0][0].segments[0]
    assert first.cut
    assert [one.rank for one in first.utterances] == [1]
    assert not told[1][0].segments[0].cut
    assert shown(told[3][0]) == ["b1 b2", "a1 a2"], "y is passed over"


def test_a_segment_is_cut_around_its_best_message(memory: memdb.Memory) -> None:
    """What came before goes first; a message that does not fit ends its side."""
    texts = ["w w w w w w", "w w", "w", "a1", "w w w", "w"]
    memory.add(said(*texts), session="s", scope=Scope())
    for tokens, expected in {
        1: texts[3:4],
        2: texts[2:4],
        4: texts[1:4],
        5: texts[2:5],
        6: texts[2:6],
        7: texts[1:5],
        8: texts[1:6],
        13: texts[1:6],
        14: texts,
    }.items():
        found = asked(memory, count_tokens=words, budget_tokens=tokens, links="none")
        assert shown(found) == [" ".join(expected)], tokens
        assert found.segments[0].cut == found.truncated == (len(expected) < 6)
        assert found.tokens == words(" ".join(expected))


def test_a_cut_segment_stands_where_what_is_left_of_it_was_said(memory: memdb.Memory) -> None:
    memory.add([*said("w w w w w", at="2024-01-01"), *said("a1", at="2024-03-01")], scope=Scope())
    memory.add(said("a1 b1", at="2024-02-01"), session="t", scope=Scope())
    assert shown(asked(memory, k=2, links="none")) == ["w w w w w a1", "a1 b1"]
    cut = asked(memory, k=2, links="none", count_tokens=words, budget_tokens=3)
    assert shown(cut) == ["a1 b1", "a1"]
    assert [one.cut for one in cut.segments] == [False, True]


def test_more_messages_than_a_candidate_set_may_have(
    chain: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not asked(chain, links="components").truncated
    for most, expected in ((7, 3), (6, 2), (5, 2), (4, 1), (2, 1), (1, 0)):
        monkeypatch.setattr(settings, "HISTORY_MESSAGES", most)
        found = asked(chain, links="components")
        assert (len(found.segments), found.truncated) == (expected, expected < 3 and expected > 0), most


def test_an_image_is_told_by_its_caption(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "a1", image_caption="one two")], session="s", scope=Scope())
    assert asked(memory, count_tokens=words).tokens == words("a1 [image: one two]") == 4
    assert asked(memory, count_tokens=words, budget_tokens=3) == History(
        query=asked(memory).query, truncated=True
    )


def test_tokens_are_counted_by_the_backbone(open_memory: OpenMemory) -> None:
    memory = open_memory(backbone=ScriptedBackbone())
    memory.add(said("It rains; I stay."))
    assert memory.history("rain").tokens == ScriptedBackbone().count_tokens("It rains; I stay.") == 6
    assert memory.history("rain", count_tokens=len).tokens == 17


def test_a_question_sees_its_own_scope(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    for user in ("ana", "ben"):
        for session in ("s", "t"):
            memory.add(said("a1", f"a2 {user}"), session=session, scope=Scope(user))
    ended(memory)
    for links in ("none", "direct", "components"):
        alone = open_memory(encoder=Lettered(), scope=Scope("ana"))
        for found in (
            asked(alone, k=9, links=links),
            asked(memory, k=9, links=links, scope=Scope("ana")),
        ):
            assert shown(found) == ["a1 a2 ana"] * 2
        assert (
            sorted(shown(asked(memory, k=9, links=links, scope="*"))) == ["a1 a2 ana"] * 2 + ["a1 a2 ben"] * 2
        )
        assert shown(asked(memory, k=9, links=links, scope=Scope())) == []
        with pytest.raises(errors.ScopeError):
            asked(alone, scope=Scope("ben"))


def test_a_forged_link_does_not_lead_to_another_user(memory: memdb.Memory, path: Path) -> None:
    for user in ("ana", "ben"):
        memory.add(said(f"a1 {user}"), session="s", scope=Scope(user))
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO segment_link VALUES (1, 2, 1.0), (2, 1, 1.0)")
    connection.execute("UPDATE segment SET link_id = 1")
    connection.execute("UPDATE segment SET first_position = 0, last_position = 9 WHERE segment_id = 1")
    connection.close()
    for links in ("direct", "components"):
        assert shown(asked(memory, links=links, scope=Scope("ana"))) == ["a1 ana"]
    assert any(problem.check == "segments" for problem in memory.verify().problems)


def test_nothing_said_later_is_told(memory: memdb.Memory) -> None:
    """The segment of an early message ends where the question is asked; what has no clock is left out."""
    memory.add(
        [
            *said("a1", at="2024-01-01"),
            *said("a2", at="2024-01-03"),
            *said("a3"),
            *said("a4", at="2024-01-02"),
            *said("a5", at="2024-01-09"),
        ],
        session="s",
        scope=Scope(),
    )
    memory.add(said("a9", at="2024-02-01"), session="t", scope=Scope())
    memory.add(said("a8", at="serial-3"), session="u", scope=Scope())
    ended(memory)
    for as_of, expected in {
        "2023-12-31": [],
        "2024-01-01": ["a1"],
        "2024-01-02": ["a1 a4"],
        "2024-01-05": ["a1 a2 a4"],
        "2024-01-31": ["a1 a2 a4 a5"],
        "2024-03-01": ["a1 a2 a4 a5", "a9"],
        "serial-2": [],
        "serial-3": ["a8"],
    }.items():
        found = asked(memory, as_of=as_of, links="components")
        assert shown(found) == expected, as_of
        assert not found.truncated
        assert not any(one.cut for one in found.segments)
    assert shown(asked(memory)) == ["a1 a2 a3 a4 a5", "a9", "a8"]


def test_messages_in_no_segment_stand_for_themselves(open_memory: OpenMemory, memory: memdb.Memory) -> None:
    memory.add(said("a1 red", "a2 blue", at="2024-01-01"), session="s", scope=Scope())
    memory.close()
    with pytest.warns(errors.MemdbWarning):
        other = open_memory(encoder=Turned(8))
    other.add(said("c1 red", "c1 green", at="2024-01-02"), session="s")
    other.add(said("c1 red", at="2024-01-03"), session="t")
    found = other.history("red", 3)
    assert shown(found) == ["a1 red a2 blue", "c1 red", "c1 red"]
    assert [one.position for one in found.utterances] == [0, 1, 2, 0]
    assert not any(one.linked or one.cut for one in found.segments)
    assert asked(other, "red").segments == (), "there are no vectors to find them by"
    for tokens in (1, 2, 3):
        part = other.history("red", 3, budget_tokens=tokens, count_tokens=words)
        assert (part.tokens, part.truncated) == (tokens // 2 * 2, True)


def test_an_empty_file_has_no_history(memory: memdb.Memory) -> None:
    assert memory.history("Where is the parrot?").segments == ()
    assert asked(memory) == History(query=asked(memory).query)


@pytest.mark.parametrize(
    ("how", "error", "what"),
    [
        ({"k": 0}, errors.InputError, "k is 0"),
        ({"k": True}, errors.InputError, "k is True"),
        ({"k": settings.MAX_K + 1}, errors.InputError, "k is"),
        ({"budget_tokens": 0}, errors.InputError, "budget_tokens is 0"),
        ({"budget_tokens": 2.5}, errors.InputError, "budget_tokens is 2.5"),
        ({"entry": "lexical"}, errors.InputError, "entry is 'lexical'"),
        ({"entry": None}, errors.InputError, "entry is None"),
        ({"links": "all"}, errors.InputError, "links is 'all'"),
        ({"links": ["direct"]}, errors.InputError, "links is"),
        ({"question": 5}, errors.InputError, "not int"),
        ({"question": None}, errors.InputError, "not NoneType"),
        ({"question": "a" * (settings.MAX_QUESTION_CHARS + 1)}, errors.InputError, "characters"),
        ({"at": "soon"}, errors.TimeError, "soon"),
        ({"as_of": "soon"}, errors.TimeError, "soon"),
    ],
)
def test_what_is_no_question(
    chain: memdb.Memory, how: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        chain.history(**{"question": "a1", **how})


def test_a_closed_memory_has_none(chain: memdb.Memory) -> None:
    chain.close()
    with pytest.raises(errors.Closed):
        chain.history("a1")


def test_a_relative_time_counts_from_the_question(chain: memdb.Memory) -> None:
    [constraint] = chain.history("What did I do yesterday?", at="2024-01-03").query.times
    assert constraint.interval.start.isoformat() == "2024-01-02"


def reached(held: segmented.Segmented, found: Sequence[Name], links: str) -> set[Name]:
    """What segments lead to."""
    chosen = set(found)
    if links == "direct":
        chosen |= {other for one, other in held.links if one in found}
    if links == "components":
        chosen |= {one for group in held.groups if group & set(found) for one in group}
    return chosen


questions = st.one_of(strategies.text, strategies.sentence.map("Where is the {}?".format))


@hypothesis(max_examples=15, deadline=None, derandomize=True)
@given(
    portions=st.lists(
        st.tuples(st.sampled_from([None, "ana"]), st.sampled_from("st"), strategies.talk(most=8)), max_size=6
    ),
    asking=st.lists(
        st.tuples(
            questions,
            st.integers(1, 12),
            st.sampled_from(["none", "direct", "components"]),
            st.sampled_from(["hybrid", "dense"]),
            st.one_of(st.integers(1, 60), st.just(10**6)),
            st.sampled_from([None, "ana"]),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_what_holds_of_every_history(
    portions: list[tuple[str | None, str, list[Message]]],
    asking: list[tuple[str, int, str, str, int, str | None]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        memdb.open(Path(folder) / "m.memdb", encoder=HashEncoder(32), scope="*") as memory,
    ):
        memory.rebuild_segments(rule="sim", tau1=0.6, tau2=0.5)
        for user, session, texts in portions:
            memory.add(texts, session=session, scope=Scope(user))
        held = segmented.held(memory.path)
        for question, k, links, entry, budget, user in asking:
            options: dict[str, Any] = {"links": links, "entry": entry, "scope": Scope(user)}
            whole = memory.history(question, k, budget_tokens=10**9, **options)
            is_whole(whole, held, user, k, links)
            is_part(memory.history(question, k, budget_tokens=budget, **options), whole, budget)


def named(history: History, user: str | None, held: segmented.Segmented) -> list[Name]:
    """The segments of a file that those of a history are."""
    found = []
    for segment in history.segments:
        first, last = segment.utterances[0], segment.utterances[-1]
        positions = [one.position for one in segment.utterances]
        assert positions == list(range(first.position, last.position + 1))
        [name] = [
            (whose, session, number)
            for (whose, session, number), (start, end, _) in held.spans.items()
            if whose == user and session == first.session and start <= first.position <= last.position <= end
        ]
        found.append(name)
    return found


def is_whole(history: History, held: segmented.Segmented, user: str | None, k: int, links: str) -> None:
    """All segments of what was found and all that is linked, each whole and once, in their order."""
    names = named(history, user, held)
    assert len(names) == len(set(names))
    assert all(len(one.utterances) == held.spans[name][1] + 1 - held.spans[name][0]
               for one, name in zip(history.segments, names, strict=True))  # fmt: skip
    ranks = sorted(one.rank for one in history.utterances if one.rank)
    assert ranks == list(range(1, len(ranks) + 1))
    assert len(ranks) <= k
    direct = [name for name, one in zip(names, history.segments, strict=True) if not one.linked]
    assert all(any(one.rank for one in segment.utterances) != segment.linked for segment in history.segments)
    assert set(names) == reached(held, direct, links)
    sessions = list(dict.fromkeys(session for user_, session, _ in held.spans if user_ == user))
    assert names == sorted(names, key=lambda name: (sessions.index(name[1]), name[2])), "there are no clocks"
    assert not history.truncated
    assert not any(one.cut for one in history.segments)


def is_part(part: History, whole: History, budget: int) -> None:
    """No more tokens than asked for, the best message first of all, and told where something is missing."""

    def tokens(history: History) -> int:
        return sum(
            estimated_tokens(f"{m.content} [image: {m.image_caption}]" if m.image_caption else m.content)
            for m in (one.message for one in history.utterances)
        )

    assert part.tokens == tokens(part) <= budget
    assert whole.tokens == tokens(whole)
    assert part.truncated == (part.utterances != whole.utterances)
    kept = {(one.session, one.position): one for one in part.utterances}
    assert kept.items() <= {(one.session, one.position): one for one in whole.utterances}.items()
    places = [(one.session, one.position) for one in whole.utterances]
    assert list(kept) == sorted(kept, key=places.index)
    if budget >= whole.tokens:
        assert part == whole
    for segment in part.segments:
        [own] = [one for one in whole.segments if set(segment.utterances) <= set(one.utterances)] or [segment]
        assert segment.cut == (len(segment.utterances) < len(own.utterances))
        assert not (segment.cut and segment.linked)
        best = min((one.rank for one in own.utterances if one.rank), default=math.inf)
        assert own.linked or best in [one.rank for one in segment.utterances]


def test_messages_are_found_in_the_order_of_recall_without_the_claims_in_them(
    open_memory: OpenMemory,
) -> None:
    memory = open_memory()
    memory.add(said("I live in Oslo.", "My cat is called Pepper.", "I bought a lamp in Rome."))
    query, wish = parse_question("Where does Ana live?", None), Wish(k=3, scope=Scope())
    whole, bare = (candidates(memory.reader, query, wish._replace(facts=facts)) for facts in (True, False))
    assert [one.message_id for one in bare] == [one.message_id for one in whole]
    assert any(one.evidence.facts for one in whole)
    assert not any(one.evidence.facts for one in bare)

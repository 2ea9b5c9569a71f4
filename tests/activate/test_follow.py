"""Following a relation: by its words, else by its vectors; at any time, in any scope, and never more."""

from __future__ import annotations

from typing import Any

import pytest

import memdb
from memdb import Message, Scope, Trace
from memdb.activate.retrieve import CHANNELS
from memdb.errors import Closed, InputError, MemdbWarning, ScopeError, TimeError
from memdb.models.fakes import HashEncoder
from tests.conftest import OpenMemory

SAID = [
    Message("Ana", "I live in Oslo.", "2024-01-05", id="oslo"),
    Message("Ana", "I live in Rome. I work for Acme.", "2024-06-05", id="rome"),
    Message("Ben", "I live in Lima.", "2024-01-05", id="lima"),
    Message("Ben", "I live in Porto.", "2024-07-05", id="porto"),
    Message("Ana", "I work for Initech.", "2024-09-01", id="initech"),
    Message("Ana", "The capital of Freedonia is Fredville.", "serial-3", id="fredville"),
    Message("Ana", "Freedonia's capital is Marxburg.", "serial-4", id="marxburg"),
    Message("Ana", "My cat is called Pepper.", "2024-09-01", id="cat"),
]


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    memory = open_memory()
    memory.add(SAID)
    assert memory.about().counts["traces"] == 4
    return memory


def sources(found: tuple[Trace, ...]) -> list[list[str]]:
    return [[unit.source_ids[0] for unit in trace.states] for trace in found]


ANA = ["oslo", "rome"]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("Ana lives in", [ANA]),
        ("ana LIVES in", [ANA]),
        ("  Ana   lives in? ", [ANA]),
        ("Ana | lives in", [ANA]),
        ("Ana lives in Tokyo", [ANA]),
        ("Ben lives in", [["lima", "porto"]]),
        ("Ana works for", [["rome", "initech"]]),
        ("the capital of Freedonia", [["fredville", "marxburg"]]),
        ("Freedonia's capital is", [["fredville", "marxburg"]]),
        ("Ana", [ANA, ["rome", "initech"]]),
        ("Ana |", [ANA, ["rome", "initech"]]),
        ("Ana's cat is called", []),
        ("Zoe", []),
        ("", []),
        ("|", []),
    ],
)
def test_a_relation_is_found_by_its_words(
    memory: memdb.Memory, relation: str, expected: list[list[str]]
) -> None:
    assert sources(memory.trace(relation)) == expected


def test_what_no_trace_says_in_these_words_is_found_by_vectors(memory: memdb.Memory) -> None:
    assert sources(memory.trace("Ana living in")) == [ANA]
    assert memory.trace("a wholly different matter") == ()


def test_without_its_encoder_words_alone_find_it(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    with pytest.warns(MemdbWarning):
        other = open_memory(encoder=HashEncoder(8))
    assert other.trace("Ana lives in") == memory.trace("Ana lives in")
    assert other.trace("Ana living in") == ()


def test_a_trace_says_everything_of_its_states(memory: memdb.Memory) -> None:
    [trace] = memory.trace("Ana lives in")
    assert trace.relation_text == "Ana | lives in"
    assert trace.trajectory == (
        "[2024-01-05] Ana lives in Oslo. → [2024-06-05] Ana lives in Rome. Latest: Ana lives in Rome."
    )
    assert trace.current == trace.states[-1]
    first, last = trace.states
    assert (first.fact_text, first.said_at, first.source_ids) == (
        "Ana lives in Oslo.",
        "2024-01-05",
        ("oslo",),
    )
    assert (first.current, last.current) == (False, True)
    assert (first.first, first.last, first.id) == (0, 0, "default:w0:0")
    assert "Oslo" in first.locations
    assert trace.id.isdigit()
    facts = [fact for evidence in memory.recall("Ana Oslo Rome", k=20) for fact in evidence.facts]
    assert {first, last} <= set(facts), "a recall says the same of a unit"


@pytest.mark.parametrize(
    ("as_of", "ids", "current"),
    [
        ("2024-01-04", None, None),
        ("2024-01-05", ["oslo"], "Oslo"),
        ("2024-06-04T23:59Z", ["oslo"], "Oslo"),
        ("2024-06-05", ANA, "Rome"),
        ("2030-01-01", ANA, "Rome"),
    ],
)
def test_what_was_said_later_is_not_told(
    memory: memdb.Memory, as_of: str, ids: list[str] | None, current: str | None
) -> None:
    found = memory.trace("Ana lives in", as_of=as_of)
    assert sources(found) == ([] if ids is None else [ids])
    for trace in found:
        assert trace.current.triple is not None
        assert trace.current.triple.object == current
        assert trace.current.current is True
        assert trace.trajectory.endswith(f"Latest: Ana lives in {current}.")
        assert current == "Rome" or "Rome" not in str(trace)


def marks(memory: memdb.Memory, question: str = "Ana Ben", **options: Any) -> dict[str, list[bool | None]]:
    found = memory.recall(question, k=50, **options)
    assert all(e.superseded == any(f.current is False for f in e.facts) for e in found)
    return {str(e.source[0].id): [f.current for f in sorted(e.facts, key=lambda f: f.id)] for e in found}


def test_evidence_says_what_holds_no_more(memory: memdb.Memory) -> None:
    found = marks(memory)
    assert found["oslo"] == [False]
    assert found["rome"] == [True, False]
    assert found["initech"] == found["porto"] == [True]
    assert found["cat"] == [None]


@pytest.mark.parametrize(
    ("as_of", "oslo", "rome"),
    [
        ("2024-05-01", [True], None),
        ("2024-06-05", [False], [True, True]),
        ("2024-09-01", [False], [True, False]),
    ],
)
def test_evidence_says_what_held_then(
    memory: memdb.Memory, as_of: str, oslo: list[bool], rome: list[bool] | None
) -> None:
    found = marks(memory, as_of=as_of)
    assert (found["oslo"], found.get("rome")) == (oslo, rome)


def test_what_is_said_again_still_holds(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "I live in rome.", "2024-08-01", id="again")])
    found = marks(memory)
    assert (found["oslo"], found["rome"][0], found["again"]) == ([False], True, [True])
    [trace] = memory.trace("Ana lives in")
    assert [unit.current for unit in trace.states] == [False, True, True]
    assert trace.trajectory.count("→") == 1


def test_events_that_read_alike_replace_nothing(open_memory: OpenMemory) -> None:
    memory = open_memory(encoder=None)
    said = [
        Message("Ana", "I planted tree 1.", "2024-01-05", id="1"),
        Message("Ana", "I planted tree 2.", "2024-02-05", id="2"),
        Message("Ana", "I live in Oslo.", "2024-03-05", id="oslo"),
        Message("Ana", "I live in Rome.", "2024-04-05", id="rome"),
    ]
    memory.add(said)
    [planted] = memory.trace("Ana planted")
    assert sources((planted,)) == [["1", "2"]], "equation 2 puts them in one trace"
    assert [unit.current for unit in planted.states] == [None, True]
    assert marks(memory, "What did Ana plant?") == {"1": [None], "2": [True], "oslo": [False], "rome": [True]}
    superseded = [e.source[0].id for e in memory.recall("Ana", k=50) if e.superseded]
    assert superseded == ["oslo"]
    assert memory.rebuild_traces() == 2
    assert marks(memory)["1"] == [None]


def test_moments_and_serial_numbers_are_two_orders(memory: memdb.Memory) -> None:
    assert sources(memory.trace("Freedonia", as_of="serial-3")) == [["fredville"]]
    assert sources(memory.trace("Freedonia", as_of="serial-4")) == [["fredville", "marxburg"]]
    assert memory.trace("Freedonia", as_of="serial-2") == memory.trace("Freedonia", as_of="2030-01-01") == ()
    assert memory.trace("Ana lives in", as_of="serial-9") == ()
    memory.add([Message("Ana", "I live in Lima.", "serial-5", id="lima of Ana")])
    assert sources(memory.trace("Ana lives in", as_of="2030-01-01")) == [ANA]
    assert marks(memory, as_of="2030-01-01")["rome"][0] is True
    assert marks(memory)["rome"][0] is False
    assert marks(memory, as_of="serial-5")["lima of Ana"] == [True]


def test_traces_change_the_order_alone(memory: memdb.Memory) -> None:
    found = memory.recall("Where does Ana live?", k=50)
    without = memory.recall("Where does Ana live?", k=50, channels=CHANNELS[:-1])
    with memory._database.atomic() as connection:
        connection.execute("DELETE FROM trace_unit")
    after = memory.recall("Where does Ana live?", k=50)
    assert [(e.source, e.score) for e in after] == [(e.source, e.score) for e in without]
    assert {e.source for e in after} == {e.source for e in found}
    assert [e.source for e in after] != [e.source for e in found]
    assert not any(e.superseded for e in after)


# --- What was replaced, in the ranking


def homes(memory: memdb.Memory, question: str, **asked: Any) -> list[str | None]:
    """The messages on where Ana lives, as they are ranked."""
    found = [one.source[0].id for one in memory.recall(question, k=50, **asked)]
    return [id for id in found if id in ("oslo", "again", "moved")]


@pytest.fixture
def moved(open_memory: OpenMemory) -> memdb.Memory:
    """The old claims are nearer to a question than the new one."""
    memory = open_memory()
    memory.add(
        [
            Message("facts", "Ana lives in Oslo.", "serial-1", id="oslo"),
            Message("facts", "Ana lives in Oslo.", "serial-2", id="again"),
            Message("facts", "Ana lives in Rome, by the river, with two cats.", "serial-3", id="moved"),
            *(Message("facts", f"Remark {n} on the weather.", f"serial-{10 + n}") for n in range(5)),
        ]
    )
    return memory


def test_what_holds_comes_before_what_it_replaced(moved: memdb.Memory) -> None:
    assert homes(moved, "Where does Ana live?", channels=CHANNELS[:5])[0] != "moved"
    assert homes(moved, "Where does Ana live?")[0] == "moved"
    found = moved.recall("Where does Ana live?", k=50)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert {message.id for one in found if one.superseded for message in one.source} == {"oslo", "again"}


def test_a_question_about_the_past_gets_the_past(moved: memdb.Memory) -> None:
    question = "Where did Ana live before?"
    assert homes(moved, question) == homes(moved, question, channels=CHANNELS[:5])


def test_as_of_then_the_latest_by_then_holds(moved: memdb.Memory) -> None:
    [told] = moved.recall("Where does Ana live?", as_of="serial-2")
    assert {message.id for message in told.source} == {"oslo", "again"}
    scores = [one.score for one in moved.recall("Where does Ana live?", k=50, as_of="serial-2")]
    plain = moved.recall("Where does Ana live?", k=50, as_of="serial-2", channels=CHANNELS[:5])
    assert scores == [one.score for one in plain]


def test_a_message_that_also_says_what_holds_keeps_its_place(open_memory: OpenMemory) -> None:
    memory = open_memory()
    memory.add(
        [
            Message("facts", "Ana lives in Oslo. Ana works for Acme.", "serial-1", id="both"),
            Message("facts", "Ana lives in Rome, by the river, with two cats.", "serial-2", id="moved"),
        ]
    )
    for question in ("Where does Ana live?", "Whom does Ana work for?"):
        plain = memory.recall(question, channels=CHANNELS[:5])
        assert [one.score for one in memory.recall(question)] == [one.score for one in plain]


def test_what_was_said_again_is_not_replaced(open_memory: OpenMemory) -> None:
    memory = open_memory()
    homes_said = ("Oslo", "Rome", "Oslo")
    memory.add(
        [
            Message("facts", f"Ana lives in {home}.", f"serial-{n}", id=str(n))
            for n, home in enumerate(homes_said)
        ]
    )
    found = [one.source[0].id for one in memory.recall("Where does Ana live?")]
    assert found[-1] == "1"


def test_a_scope_sees_its_own_traces(open_memory: OpenMemory) -> None:
    for user in ("ana", "ben"):
        with open_memory(scope=user) as one:
            one.add(
                [
                    Message("I", f"{user.title()} lives in {home}.", id=f"{user} {home}")
                    for home in ("Oslo", "Rome")
                ]
            )
    with open_memory(scope="ana") as ana:
        assert sources(ana.trace("Ana lives in")) == [["ana Oslo", "ana Rome"]]
        assert ana.trace("Ben lives in") == ()
        with pytest.raises(ScopeError):
            ana.trace("Ana lives in", scope=Scope("ben"))
        with pytest.raises(ScopeError, match="every scope"):
            ana.rebuild_traces()
    with open_memory() as nobody:
        assert nobody.trace("Ana lives in") == ()
        assert len(nobody.trace("Ana lives in", scope="*")) == 1
        assert nobody.rebuild_traces() == 2


def test_what_cannot_be_asked(memory: memdb.Memory) -> None:
    with pytest.raises(InputError):
        memory.trace(7)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="shorten"):
        memory.trace("x" * 100_001)
    with pytest.raises(TimeError):
        memory.trace("Ana", as_of="the day after")
    memory.close()
    with pytest.raises(Closed):
        memory.trace("Ana")


@pytest.mark.parametrize(
    "relation", ["\x00", "\ud800", '"', "' OR 1", "海底捞 在", "a" * 9_000, "| | |", "Ana | |"]
)
def test_any_text_may_name_a_relation(memory: memdb.Memory, relation: str) -> None:
    assert isinstance(memory.trace(relation), tuple)


def test_read_only_reads_and_does_not_rebuild(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    other = open_memory(read_only=True)
    assert sources(other.trace("Ana lives in")) == [ANA]
    with pytest.raises(memdb.ReadOnly):
        other.rebuild_traces()


def test_what_holds_beside_each_other_keeps_its_places(open_memory: OpenMemory) -> None:
    memory = open_memory()
    said = ["I speak French.", "I play tennis.", "My sister is Mia.", "I work with Ben."]
    later = ["I speak German.", "I play the piano.", "My sister is Lea.", "I work with Cleo."]
    memory.add([Message("Ana", text, f"2024-01-{n:02d}") for n, text in enumerate(said + later, 1)])
    for question in ("Does Ana speak French?", "Who is Ana's sister?", "What does Ana play?"):
        found = memory.recall(question, k=50)
        plain = memory.recall(question, k=50, channels=CHANNELS[:5])
        assert [(one.text, one.score) for one in found] == [(one.text, one.score) for one in plain]
        assert not any(one.superseded for one in found)


def test_nothing_is_pushed_down_among_other_messages(open_memory: OpenMemory) -> None:
    """What was replaced comes directly after what holds, wherever that was found."""
    memory = open_memory()
    noise = [Message("Ana", f"The city of Oslo is nice, number {n}.", "2024-01-02") for n in range(30)]
    first = Message("Ana", "I live in Oslo.", "2024-01-01", id="old")
    memory.add(
        [
            first,
            *noise,
            Message("Ana", "I live in Rome.", "2024-02-01", id="new"),
        ]
    )
    plain = [one.source[0].id for one in memory.recall("Where does Ana live?", k=50, channels=CHANNELS[:5])]
    found = [one.source[0].id for one in memory.recall("Where does Ana live?", k=50)]
    assert found.index("old") <= plain.index("old") + 1
    assert found.index("new") < found.index("old")

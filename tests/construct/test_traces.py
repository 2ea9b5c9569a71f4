"""Dynamic traces: worked examples of QGMem's equations 2 and 3, and what changes of a memory do to them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import memdb
from memdb import Message, Scope, settings
from memdb.construct import traces as construct
from memdb.construct.traces import Tracing, cluster, point, relation_scores, relation_text
from memdb.language.clock import parse_instant
from memdb.models.fakes import HashEncoder
from memdb.records import Axis, Triple, Unit
from memdb.store import indexes, rows, windows
from memdb.store import traces as store
from memdb.store.statements import statements
from memdb.store.traces import Member
from tests.conftest import OpenMemory

SCALE = indexes.vector_scale(8)


def direction(*parts: float) -> bytes:
    """An int8 code of eight components in this direction."""
    vector = np.array([*parts, *[0.0] * (8 - len(parts))], np.float32)
    return indexes.code(vector / np.linalg.norm(vector), SCALE).tobytes()


def at(cosine: float) -> bytes:
    """A direction with this cosine to the first axis."""
    return direction(cosine, (1 - cosine**2) ** 0.5)


def turned(degrees: float) -> bytes:
    return direction(float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees))))


X = direction(1)


def member(
    number: int = 1,
    *,
    fact: bytes | None = X,
    holder: Any = ("Ana", X),
    slot: Any = ("is", X),
    value: str = "v",
) -> Member:
    """A member as the store returns it."""
    return Member(
        unit_id=number, trace_id=None, number=0, current=0, session_id=1, first=number, said_key=number,
        said_text=f"serial-{number}", fact_text=f"fact {number}", subject=holder[0], predicate=slot[0],
        object=value, triple=fact, subject_code=holder[1], predicate_code=slot[1],
    )  # fmt: skip


# --- Equation 2


@pytest.mark.parametrize(
    ("fact", "subject", "predicate"),
    [(0.9, 0.95, 0.85), (0.95, 0.85, 0.9), (0.82, 0.9, 0.99), (0.5, 1.0, 1.0), (1.0, 0.1, 1.0)],
)
def test_the_relation_score_is_the_least_of_three_cosines(
    fact: float, subject: float, predicate: float
) -> None:
    one, other = member(), member(2, fact=at(fact), holder=("Anna", at(subject)), slot=("was", at(predicate)))
    scores = relation_scores([point(one)], [point(other)])
    assert scores.shape == (1, 1)
    assert scores[0, 0] == pytest.approx(min(fact, subject, predicate), abs=0.01)


def test_relation_scores_are_symmetric_and_1_between_equals() -> None:
    points = [point(member(n, fact=turned(7 * n), holder=(f"h{n % 3}", turned(n)))) for n in range(6)]
    scores = relation_scores(points, points)
    assert (scores == scores.T).all()
    assert (np.diag(scores) == 1).all()


def test_equal_words_are_1_even_without_a_vector() -> None:
    one = point(member(holder=("Ana", None), slot=("is", None)))
    assert relation_scores([one], [point(member(2, holder=("ANA", None), slot=("Is", X)))])[0, 0] == 1
    assert relation_scores([one], [point(member(3, holder=("Ben", None)))])[0, 0] == 0


@pytest.mark.parametrize(("cosine", "score"), [(1.0, 1.0), (0.75, 0.9), (0.5, 0.8), (0.25, 0.7)])
def test_the_same_slot_of_one_value_reads_the_fact_on_its_own_scale(cosine: float, score: float) -> None:
    one = point(member(slot=("lives in", X)))
    other = point(member(2, fact=at(cosine), slot=("Lives in", X)))
    assert relation_scores([one], [other])[0, 0] == pytest.approx(score, abs=0.005)


@pytest.mark.parametrize(("holder", "slot"), [("Ben", "lives in"), ("Ana", "has lived in"), ("Ana", "is")])
def test_any_other_pair_is_equation_2_to_the_letter(holder: str, slot: str) -> None:
    one = point(member(slot=("lives in" if slot != "is" else "is", X)))
    other = point(member(2, fact=at(0.75), holder=(holder, X), slot=(slot, X)))
    assert relation_scores([one], [other])[0, 0] == pytest.approx(0.75, abs=0.005)


def test_the_text_of_a_triple_is_a_sentence() -> None:
    assert construct.triple_text(Triple("Ana", "lives in", "Rome")) == "Ana lives in Rome."
    assert construct.triple_text(Triple("Ana", "lives in", "D.C.")) == "Ana lives in D.C."


# --- Greedy complete linkage


def clusters_of(scores: Any, pairs: Sequence[tuple[int, int]] | None = None) -> list[list[int]]:
    matrix = np.asarray(scores)
    every = pairs if pairs is not None else list(itertools.combinations(range(len(matrix)), 2))
    return cluster(
        len(matrix), ((i, j, matrix[i, j]) for i, j in every), lambda a, b: matrix[np.ix_(a, b)].min()
    )


def test_worked_example_of_complete_linkage() -> None:
    """S(1,2)=.95, S(2,3)=.90, S(1,3)=.70: {1, 2}, where union-find would give {1, 2, 3}."""
    assert clusters_of([[1, 0.95, 0.70], [0.95, 1, 0.90], [0.70, 0.90, 1]]) == [[0, 1]]


def test_ties_go_by_number_and_the_threshold_itself_counts() -> None:
    assert clusters_of([[1, 0.8, 0.1], [0.8, 1, 0.8], [0.1, 0.8, 1]]) == [[0, 1]]
    assert clusters_of([[1, 0.7999], [0.7999, 1]]) == []


def test_a_pair_that_is_no_candidate_is_still_looked_at_when_sets_grow() -> None:
    far = [[1, 0.9, 0.2], [0.9, 1, 0.9], [0.2, 0.9, 1]]
    assert clusters_of(far, [(0, 1), (1, 2)]) == [[0, 1]]
    near = [[1, 0.9, 0.85], [0.9, 1, 0.9], [0.85, 0.9, 1]]
    assert clusters_of(near, [(0, 1), (1, 2)]) == [[0, 1, 2]]


def plain_linkage(matrix: Any, threshold: float) -> set[frozenset[int]]:
    """The definition again, without memory of what was refused."""
    groups = [{n} for n in range(len(matrix))]
    order = sorted((-matrix[i, j], i, j) for i, j in itertools.combinations(range(len(matrix)), 2))
    for score, i, j in order:
        a, b = (next(group for group in groups if n in group) for n in (i, j))
        if a is not b and -score >= threshold and min(matrix[x, y] for x in a for y in b) >= threshold:
            groups.remove(b)
            a |= b
    return {frozenset(group) for group in groups if len(group) > 1}


@hypothesis_settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), count=st.integers(0, 9))
def test_clusters_are_cliques_maximal_and_those_of_the_definition(data: st.DataObject, count: int) -> None:
    matrix = np.eye(count)
    for i, j in itertools.combinations(range(count), 2):
        matrix[i, j] = matrix[j, i] = data.draw(st.sampled_from([0.1, 0.7, 0.8, 0.85, 0.9, 0.95]))
    pairs = data.draw(st.permutations(list(itertools.combinations(range(count), 2))))
    found = clusters_of(matrix, pairs)
    assert {frozenset(group) for group in found} == plain_linkage(matrix, 0.8)
    for group in found:
        assert all(matrix[i, j] >= 0.8 for i, j in itertools.combinations(group, 2))
    for one, other in itertools.combinations(found, 2):
        assert matrix[np.ix_(one, other)].min() < 0.8


# --- Relation text


def test_the_relation_is_that_of_the_member_most_like_all_others() -> None:
    angles = {"edge": 0, "middle": 10, "other edge": 22}
    points = [point(member(n, fact=turned(a), slot=(name, X))) for n, (name, a) in enumerate(angles.items())]
    assert relation_text(points) == "Ana | middle"


def test_of_members_equally_alike_the_newest_names_the_relation() -> None:
    points = [point(member(n, fact=turned(20 * n), slot=(f"slot {n}", X))) for n in range(2)]
    assert relation_text(points) == "Ana | slot 1"


# --- In a file


class Claimed(NamedTuple):
    """A unit to put in: the direction of its fact, when it was said and by whom."""

    value: str
    fact: bytes = X
    said_at: str | None = None
    scope: Scope = Scope()
    holder: str = "Ana"
    slot: str = "is"
    sides: tuple[bytes, bytes] = (X, X)


def put(memory: memdb.Memory, *claimed: Claimed) -> list[int]:
    """Each unit in a session of its own, one transaction each; returns the unit ids."""
    units = []
    for one in claimed:
        with memory._database.atomic() as connection:
            scope_id = rows.put_scope(connection, one.scope)
            name = f"s{len(memory.sessions(scope='*'))}" if memory._scope is None else "s"
            session_id = rows.put_session(connection, scope_id, "", name)
            instant = parse_instant(one.said_at) if one.said_at else None
            message = Message("Ana", one.value)
            position = rows.session_length(connection, session_id)
            message_id = rows.put_message(connection, scope_id, session_id, position, message, instant)
            windows.put_window(connection, session_id, position, (position, position + 1, position))
            triple = Triple(one.holder, one.slot, one.value)
            unit = Unit(fact_text=f"{one.value}.", triple=triple, first=position, last=position)
            unit_id = rows.put_unit(connection, scope_id, session_id, position, message_id, unit)
            sides: list[tuple[Axis, str]] = [("subject", one.holder), ("predicate", one.slot)]
            for (axis, text), code in zip(sides, one.sides, strict=True):
                label_id, is_new = rows.put_label(connection, axis, text)
                rows.put_unit_label(connection, label_id, unit_id)
                if is_new:
                    indexes.put_label_vector(connection, label_id, axis, code)
            store.put_triple_vector(connection, unit_id, scope_id, one.fact)
            tracing = Tracing(connection, scope_id)
            tracing.add(unit_id, triple)
            tracing.flush()
        units.append(unit_id)
    return units


def told(memory: memdb.Memory) -> list[list[str]]:
    """The values of each trace in order, and that what is written about them is consistent."""
    with memory._database.reader() as connection:
        found: dict[int, list[tuple[str, int, int]]] = {}
        for trace_id, number, value, current in connection.execute(
            "SELECT trace_id, trace_unit.number, object, current FROM trace_unit JOIN unit USING (unit_id)"
            " ORDER BY trace_id, trace_unit.number"
        ):
            found.setdefault(trace_id, []).append((value, number, current))
        assert set(found) == {t for (t,) in connection.execute("SELECT trace_id FROM trace WHERE dirty = 0")}
        assert connection.execute("SELECT count(*) FROM trace WHERE dirty = 1").get == 0
    for members in found.values():
        assert [number for _, number, _ in members] == list(range(len(members)))
        assert [current for *_, current in members] == [0] * (len(members) - 1) + [1]
    problems = {problem.check for problem in memory.verify().problems}
    assert not {check for check in problems if check.startswith("trace")}
    return [[value for value, *_ in members] for members in found.values()]


@pytest.fixture
def small(open_memory: OpenMemory) -> memdb.Memory:
    return open_memory(encoder=HashEncoder(8), scope="*")


def test_a_unit_that_fits_a_lone_one_makes_a_trace(small: memdb.Memory) -> None:
    put(small, Claimed("a", turned(0)), Claimed("far", turned(80)))
    assert told(small) == []
    put(small, Claimed("b", turned(20)))
    assert told(small) == [["a", "b"]]
    put(small, Claimed("c", turned(30)))
    assert told(small) == [["a", "b", "c"]]


def test_one_member_too_far_keeps_a_unit_out(small: memdb.Memory) -> None:
    """As in the worked example: 19 and 26 degrees are close enough, 45 are not."""
    put(small, Claimed("1", turned(0)), Claimed("2", turned(19)), Claimed("3", turned(45)))
    assert told(small) == [["1", "2"]]


def test_a_unit_joins_where_its_least_score_is_largest(small: memdb.Memory) -> None:
    put(small, Claimed("a", turned(0)), Claimed("b", turned(10)))
    put(small, Claimed("y", turned(60)), Claimed("z", turned(55)))
    put(small, Claimed("new", turned(33)))
    assert told(small) == [["a", "b"], ["y", "z", "new"]]


def test_of_equal_least_scores_the_larger_mean_then_the_older(small: memdb.Memory) -> None:
    put(small, Claimed("a", turned(-30)), Claimed("b", turned(-29)))
    put(small, Claimed("y", turned(30)), Claimed("z", turned(20)))
    put(small, Claimed("new", turned(0)))
    assert told(small) == [["a", "b"], ["y", "z", "new"]]
    other = put(small, Claimed("p", direction(0, 0, 1, 0.6)), Claimed("q", direction(0, 0, 1, -0.6)))
    assert len(other) == 2
    assert len(told(small)) == 2
    put(small, Claimed("between", direction(0, 0, 1)))
    assert told(small)[2] == ["p", "between"], "the older of two lone ones"


def test_holders_and_slots_apart_make_no_trace(small: memdb.Memory) -> None:
    put(small, Claimed("a"), Claimed("b", holder="Ben", sides=(turned(50), X)))
    put(small, Claimed("c", slot="was", sides=(X, turned(50))))
    assert told(small) == []
    put(small, Claimed("d", holder="Bennie", sides=(turned(40), X)))
    assert told(small) == [["b", "d"]]
    small.rebuild_traces()
    assert told(small) == [["b", "d"]]


def test_the_same_slot_is_found_however_far_its_facts_are(small: memdb.Memory) -> None:
    put(small, Claimed("Oslo", turned(0), slot="lives in"))
    put(small, Claimed("Rome", turned(55), slot="lives in", scope=Scope("ben")))
    put(small, *(Claimed(f"near {n}", turned(55), holder=f"H{n}", sides=(turned(90), X)) for n in range(25)))
    put(small, Claimed("Lima", turned(55), slot="Lives in"), Claimed("Porto", turned(113), slot="lives in"))
    homes_ = [trace for trace in told(small) if "near 0" not in trace]
    assert homes_ == [["Oslo", "Lima"]], "Porto is near Lima, but not Oslo"
    small.rebuild_traces()
    assert [trace for trace in told(small) if "near 0" not in trace] == homes_


def test_a_rebuild_takes_the_strongest_pair_first_where_adding_took_the_first(small: memdb.Memory) -> None:
    put(small, Claimed("a", turned(0)), Claimed("b", turned(20)), Claimed("c", turned(38)))
    assert told(small) == [["a", "b"]]
    assert small.rebuild_traces() == 1
    assert told(small) == [["b", "c"]]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ties_of_a_rebuild_go_by_what_was_said_first(small: memdb.Memory, order: tuple[int, ...]) -> None:
    said = [
        Claimed("left", turned(-30), "serial-1"),
        Claimed("middle", turned(0), "serial-2"),
        Claimed("right", turned(30), "serial-3"),
    ]
    put(small, *(said[number] for number in order))
    small.rebuild_traces()
    assert told(small) == [["left", "middle"]]


def test_the_worse_side_of_a_reading_counts(small: memdb.Memory) -> None:
    put(small, *(Claimed(f"uneven {n}", holder="U", sides=(X, turned(45)), slot="u") for n in range(2)))
    even = (turned(30), turned(-30))
    put(
        small, *(Claimed(f"even {n}", direction(0, 0, 1), holder="E", sides=even, slot="e") for n in range(2))
    )
    search = store.Search([("x", "y")], X, X, dimension=8, threshold=0.6, label_hits=9, most=9)
    with small._database.reader() as connection:
        found = store.find(connection, None, search)
    assert [trace_id for trace_id, _ in found] == [2, 1]
    assert [score for _, score in found] == pytest.approx([0.866, 0.707], abs=0.01)


def test_scopes_are_never_mixed(small: memdb.Memory) -> None:
    ana, ben, nobody = Scope("ana"), Scope("ben"), Scope()
    for scope in (ana, ben, nobody, Scope("ana", "helper")):
        put(small, Claimed(f"one of {scope.user} {scope.agent}", scope=scope))
    assert told(small) == []
    put(small, Claimed("two", scope=ben), Claimed("two", scope=ana))
    assert told(small) == [["one of ben None", "two"], ["one of ana None", "two"]]
    assert small.rebuild_traces() == 2
    assert told(small) == [["one of ana None", "two"], ["one of ben None", "two"]]


CLOCKS = [
    (["2024-05-01", "2024-03-01", "2024-04-01"], [1, 2, 0]),
    (["serial-10", "serial-9", "serial-100"], [1, 0, 2]),
    ([None, "2024-03-01", None], [1, 0, 2]),
    ([None, None, None], [0, 1, 2]),
    (["2024-03-01T10:00+05:00", "2024-03-01T06:00Z", "2024-03-01T04:00-08:00"], [0, 1, 2]),
    (["2024-03-01", "2024-03-01", "2024-02-01"], [2, 0, 1]),
    ([None, "serial-1", "2024-03-01"], [2, 1, 0]),
]


@pytest.mark.parametrize(("clocks", "order"), CLOCKS)
def test_members_stand_in_the_order_in_which_they_were_said(
    small: memdb.Memory, clocks: list[str | None], order: list[int]
) -> None:
    """[F-053]"""
    put(small, *(Claimed(str(n), said_at=clock) for n, clock in enumerate(clocks)))
    assert told(small) == [[str(n) for n in order]]
    small.rebuild_traces()
    assert told(small) == [[str(n) for n in order]]


def test_removing_elects_anew_and_ends_a_trace_of_one(small: memdb.Memory) -> None:
    a, b, c = put(small, Claimed("a"), Claimed("b"), Claimed("c"))
    lone = put(small, Claimed("lone", turned(90)))

    def remove(*units: int) -> None:
        with small._database.atomic() as connection:
            tracing = Tracing(connection, 1)
            tracing.remove(units)
            tracing.flush()

    remove(c, *lone)
    assert told(small) == [["a", "b"]]
    with small._database.reader() as connection:
        assert "Latest: b." in connection.execute("SELECT trajectory FROM trace").get
    remove(a)
    assert told(small) == []
    assert small.about().counts["traces"] == 0
    remove(a, b, c)
    assert told(small) == []


def test_removing_and_adding_in_one_transaction(small: memdb.Memory) -> None:
    a, _b = put(small, Claimed("a"), Claimed("b"))
    put(small, Claimed("c", turned(80)))
    with small._database.atomic() as connection:
        tracing = Tracing(connection, 1)
        tracing.remove([a])
        tracing.add(a, Triple("Ana", "is", "a"))
        tracing.flush()
    assert told(small) == [["a", "b"]]


# --- Through add


def homes(*said: tuple[str, str, str]) -> list[Message]:
    return [Message(speaker, text, said_at) for speaker, text, said_at in said]


MOVES = homes(
    ("Ana", "I live in Oslo.", "2024-01-05"),
    ("Ben", "I live in Rome.", "2024-01-06"),
    ("Ana", "I work in Rome.", "2024-02-01"),
    ("Ana", "I live in Rome.", "2024-06-05"),
)


def values(found: Sequence[memdb.Trace]) -> list[list[str]]:
    return [[unit.triple.object for unit in trace.states if unit.triple] for trace in found]


def test_an_add_makes_and_extends_traces(memory: memdb.Memory) -> None:
    memory.add(MOVES[:3])
    assert memory.about().counts["traces"] == 0
    memory.add(MOVES[3:])
    assert told(memory) == [["Oslo", "Rome"]]
    memory.add([Message("Ana", "I live in Lima.", "2024-03-01")], session="found later")
    assert told(memory) == [["Oslo", "Lima", "Rome"]]
    assert memory.verify().problems == ()


def test_the_embedded_encoder_gives_one_trace_of_two_homes(open_memory: OpenMemory) -> None:
    memory = open_memory(encoder=None)
    memory.add(MOVES)
    assert told(memory) == [["Oslo", "Rome"]]
    [trace] = memory.trace("Ana lives in")
    assert trace.current.fact_text == "Ana lives in Rome."
    assert memory.trace("Ana is living in") == (trace,), "by vectors"
    assert memory.trace("The price of tin") == ()


PEOPLE = ("Ana", "Ben", "Zoe", "Kim")
SLOTS = (
    "{} lives in {}.", "{} works for {}.", "{} is married to {}.", "{} went to {}.", "{} likes {}.",
    "{} has a cat called {}.",
)  # fmt: skip
VALUES = ("Oslo", "Rome", "Lima", "Acme", "Initech", "Pepper", "Salt")


def facts(count: int, seed: int) -> list[Message]:
    roll = random.Random(seed)
    texts = [roll.choice(SLOTS).format(roll.choice(PEOPLE), roll.choice(VALUES)) for _ in range(count)]
    return [Message("Kim", text, f"serial-{n}", id=str(n)) for n, text in enumerate(texts)]


def partition(memory: memdb.Memory) -> set[tuple[str, ...]]:
    """Each trace as the ids of its members in order."""
    found = [memory.trace(person) for person in PEOPLE]
    return {tuple(u.source_ids[0] for u in t.states) for t in itertools.chain(*found)}


@pytest.mark.parametrize("seed", range(4))
def test_rebuilt_traces_do_not_depend_on_the_order_of_adding(open_memory: OpenMemory, seed: int) -> None:
    said = facts(60, seed)
    found = []
    for turn in range(3):
        order = said[:]
        random.Random(turn).shuffle(order)
        memory = open_memory(open_memory().path.with_name(f"{turn}.memdb"))
        for n, message in enumerate(order):
            memory.add([message], session=f"{n // 7 % (turn + 2)}")
        assert told(memory) is not None
        memory.rebuild_traces()
        texts = {m.id: m.content for s in memory.sessions() for m in memory.messages(s.name)}
        found.append({tuple((texts[id], id) for id in ids) for ids in partition(memory)})
        assert memory.verify().problems == ()
        memory.rebuild_traces()
        assert {tuple((texts[id], id) for id in ids) for ids in partition(memory)} == found[-1]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 5


def test_adding_finds_the_traces_of_a_rebuild_where_slots_are_clear(memory: memdb.Memory) -> None:
    said = [m for m in facts(80, 9) if "likes" not in m.content and "went" not in m.content]
    for message in said:
        memory.add([message])
    as_added = partition(memory)
    memory.rebuild_traces()
    assert partition(memory) == as_added
    for ids in as_added:
        spoken = [next(m.content for m in said if m.id == id).rsplit(" ", 1)[0] for id in ids]
        assert len(set(spoken)) == 1, "one holder and one slot"


def test_traces_follow_from_the_batches_all_the_same(open_memory: OpenMemory, tmp_path: Any) -> None:
    said = facts(60, 3)
    found = []
    for step in (1, 7, 60):
        memory = open_memory(tmp_path / f"{step}.memdb")
        for first in range(0, len(said), step):
            memory.add(said[first : first + step])
        found.append(partition(memory))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["put_trace", "place", "tell", "put_triple_vector", "neighbours"])
def test_an_add_that_fails_leaves_the_traces_as_they_were(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    memory.add(MOVES)
    before, counts = memory.trace("Ana"), memory.about().counts
    real = getattr(store, name)

    class Broken(Exception):
        pass

    def fail(*args: Any) -> Any:
        real(*args)
        raise Broken

    later = homes(("Ana", "I live in Lima.", "2025-01-01"), ("Ben", "I live in Lima.", "2025-01-01"))
    with monkeypatch.context() as patched:
        patched.setattr(store, name, fail)
        with pytest.raises(Broken):
            memory.add(later)
    assert (memory.trace("Ana"), memory.about().counts) == (before, counts)
    assert memory.verify().problems == ()
    memory.add(later)
    assert told(memory) == [["Oslo", "Rome", "Lima"], ["Rome", "Lima"]]


def test_a_rebuild_that_fails_leaves_the_traces_as_they_were(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add(MOVES)
    before = memory.trace("Ana")
    with monkeypatch.context() as patched:
        patched.setattr(store, "tell", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.rebuild_traces()
    assert memory.trace("Ana") == before


def test_without_its_encoder_a_file_takes_claims_but_makes_no_traces(
    memory: memdb.Memory, open_memory: OpenMemory
) -> None:
    memory.add(MOVES[:3])
    with pytest.warns(memdb.errors.MemdbWarning):
        other = open_memory(encoder=HashEncoder(8))
    other.add(MOVES[3:])
    assert other.verify().ok
    assert told(other) == []
    memory.add([Message("Ana", "I live in Lima.", "2024-08-01")])
    assert told(memory) == [["Oslo", "Lima"]]
    assert memory.verify().ok


def statements_of(memory: memdb.Memory, said: Sequence[Message]) -> list[str]:
    """The names of the statements on traces that an add runs."""
    names = {sql: name for native in (False, True) for name, sql in statements(native).items()}
    ours = set(
        "put_triple_vector trace_neighbours trace_members insert_trace mark_trace tell_trace"
        " insert_trace_unit delete_trace_units".split()
    )
    ran: list[str] = []
    with memory._database.writer_setup() as connection:
        connection.exec_trace = lambda cursor, sql, values: ran.append(names.get(sql.strip(), "")) is None
        memory.add(said)
        connection.exec_trace = None
    return [name for name in ran if name in ours]


def test_a_unit_without_neighbours_costs_two_statements(memory: memdb.Memory) -> None:
    memory.add(MOVES)
    assert statements_of(memory, [Message("Zoe", "I drive a tram.")]) == [
        "put_triple_vector",
        "trace_neighbours",
    ]


def test_what_an_add_runs_does_not_grow_with_the_memory(memory: memdb.Memory) -> None:
    memory.add(homes(("Ana", "I live in Oslo.", "2020-01-01"), ("Ana", "I live in Rome.", "2020-01-02")))
    few = statements_of(memory, [Message("Ana", "I live in Lima.", "serial-1000")])
    assert few.count("trace_neighbours") == few.count("trace_members") == 1
    memory.add(facts(400, 2), session="more")
    memory.add(homes(*(("Ana", f"I live in Street {n}.", "2020-02-01") for n in range(40))), session="homes")
    assert statements_of(memory, [Message("Ana", "I live in Lima.", "serial-1001")]) == few


def test_a_trace_of_very_many_is_told_from_its_end(memory: memdb.Memory) -> None:
    many = settings.TRACE_STATES_TOLD + 10
    memory.add([Message("Ana", f"I live in Street {n}.", f"serial-{n}") for n in range(many)])
    [trace] = memory.trace("Ana lives in")
    assert len(trace.states) == many
    assert trace.trajectory.startswith("… → ")
    assert trace.trajectory.endswith(f"Latest: Ana lives in Street {many - 1}.")
    assert memory.verify().problems == ()


def _traces(memory: memdb.Memory) -> list[tuple[Any, ...]]:
    with memory._database.reader() as connection:
        return connection.execute(
            "SELECT relation_text, trajectory, trace_unit.number, fact_text, current"
            " FROM trace JOIN trace_unit USING (trace_id) JOIN unit USING (unit_id) ORDER BY 1, 2, 3"
        ).fetchall()


def test_in_a_large_file_traces_wait_until_they_are_asked_for(
    open_memory: OpenMemory, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = ["Oslo", "Rome", "Paris", "Lima"]
    said = [Message("Ana", f"I live in {home}.", f"2024-01-0{n}") for n, home in enumerate(homes, 1)]
    small = open_memory(tmp_path / "small.memdb")
    for message in said:
        small.add([message])
    monkeypatch.setattr(settings, "TRACED_ON_ADD_UNITS", 2)
    large = open_memory(tmp_path / "large.memdb")
    for message in said:
        large.add([message])
    assert large.verify().ok
    assert len(_traces(large)) == 2
    with pytest.warns(memdb.errors.MemdbWarning, match="last 2 claims"):
        large.trace("Ana lives in")
    large.update_traces()
    large.update_traces()
    assert _traces(large) == _traces(small)
    assert large.trace("Ana lives in")[0].current.fact_text == "Ana lives in Lima."
    assert large.verify().ok


@pytest.mark.parametrize("most", [1, 2, 100])
def test_bringing_traces_up_to_date_in_portions_gives_the_same(
    open_memory: OpenMemory, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(settings, "TRACED_ON_ADD_UNITS", 0)
    memory = open_memory(tmp_path / "m.memdb")
    memory.add([Message("Ana", f"I live in {home}.") for home in ("Oslo", "Rome", "Lima")])
    memory.add([Message("Ben", "I live in Rome."), Message("Ben", "Really?")], scope=Scope("ben"))
    left = 1
    while left:
        with memory._database.atomic() as connection:
            left = construct.update(connection, most)
    assert [row[3] for row in _traces(memory)] == [
        f"Ana lives in {home}." for home in ("Oslo", "Rome", "Lima")
    ]
    assert memory.verify().ok


def test_a_rebuild_knows_of_every_claim(
    open_memory: OpenMemory, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "TRACED_ON_ADD_UNITS", 0)
    memory = open_memory(tmp_path / "m.memdb")
    memory.add([Message("Ana", f"I live in {home}.") for home in ("Oslo", "Rome")])
    assert _traces(memory) == []
    assert memory.rebuild_traces() == 1
    with memory._database.reader() as connection:
        traced, newest = store.traced_until(connection)
    assert traced == newest > 0

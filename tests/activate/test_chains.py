"""Chains of facts: what can start one, how a question falls into parts, where the graph leads, its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import memdb
from memdb import settings
from memdb.activate.chains import Mention, _longest, _mentions, _parts
from memdb.activate.retrieve import CHANNELS, SEARCHES
from memdb.errors import MemdbWarning
from memdb.language.terms import fold
from memdb.models.fakes import HashEncoder
from memdb.models.ports import Kind
from memdb.records import Message, Scope, WorkingMemory
from memdb.store.hops import Chain, Parts, chain_starts, hops
from tests.conftest import OpenMemory
from tests.handmade import DIMENSION, vector

# --- The question


def names(question: str) -> set[str]:
    return {one.name for one in _mentions(question.split())}


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Who is the author of The Old Mill?", "the old mill"),
        ('Where was the singer of "River Song" born?', "river song"),
        ("Where does Ana's wife work?", "ana"),
        ("What is St. Ives University known for?", "st. ives university"),
        ("Who sang Made in the U.S.A.?", "made in the u.s.a."),
        ("Who leads Acme Inc.?", "acme inc"),
        ("Who wrote 1999?", "1999"),
        ("Was Zoë's dog born in (New) Porto?", "zoe"),
    ],
)
def test_names_are_found_whatever_stands_around_them(question: str, name: str) -> None:
    assert name in names(question)


def test_what_has_no_capital_is_no_name() -> None:
    assert names("who wrote the old mill?") == set()
    assert "who" not in names("Who wrote it?")


def test_the_longest_mention_counts() -> None:
    words = "Is the New Porto Opera in Porto ?".split()
    mentions = [one for one in _mentions(words) if one.name in {"porto", "new porto opera", "opera"}]
    assert _longest(mentions) == [Mention("new porto opera", 2, 5), Mention("porto", 6, 7)]


def test_parts_are_runs_of_words_that_carry_meaning() -> None:
    words = "What is the capital city of the country where Ana's boss, a painter/poet, was born?".split()
    named = [one for one in _mentions(words) if one.name == "ana"]
    parts = _parts(words, _longest(named))
    assert parts == ["capital city", "country", "boss", "painter poet", "born"]


@given(st.text(max_size=400))
def test_any_text_falls_into_bounded_parts(text: str) -> None:
    words = text.split()[:64]
    parts = _parts(words, _longest(list(_mentions(words))))
    assert len(parts) <= settings.MAX_QUESTION_PARTS
    assert all(parts)
    assert len(set(parts)) == len(parts)


# --- The graph, with vectors known by hand

A, B, C = vector(100), vector(0, 100), vector(0, 0, 100)
SEEN = {"everyone": 1, "user": None, "agent": None, "run": None,
        "said_from": -(1 << 63), "said_until": (1 << 63) - 1}  # fmt: skip


WORDS = ("alpha", "beta", "gamma")


class Directions(HashEncoder):
    """Texts with "alpha", "beta", "gamma" lie along A, B, C; all others between the other axes."""

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        made = super().encode(texts, kind=kind)
        for row, text in zip(made, texts, strict=True):
            at = next((n for n, word in enumerate(WORDS) if word in text), None)
            row[: len(WORDS)] = 0
            if at is not None:
                row[:] = 0
                row[at] = 1
            row /= np.sqrt(np.square(row).sum())
        return made


@pytest.fixture
def graph(open_memory: OpenMemory) -> memdb.Memory:
    return open_memory(encoder=Directions(DIMENSION))


def tell(memory: memdb.Memory, *facts: str, scope: Scope | None = None, start: int = 0) -> None:
    """Facts "X | slot | Y", one message each, said at their number."""
    said = []
    for number, fact in enumerate(facts, start):
        holder, slot, value = fact.split(" | ")
        said.append(Message("facts", f"{holder}'s {slot} is {value}.", f"serial-{number}", str(number)))
    memory.add(said, scope=scope)


def chains(memory: memdb.Memory, starts: Sequence[str], *codes: bytes, **seen: object) -> list[list[str]]:
    """The chains found, as the ids of their messages."""
    parts = Parts(b"".join(codes), len(codes), DIMENSION)
    with memory._database.reader() as connection:
        found = hops(connection, SEEN | seen, starts, parts)  # type: ignore[arg-type]
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        return [_ids(connection, one) for one in found]


def _ids(connection, chain: Chain) -> list[str]:  # type: ignore[no-untyped-def]
    sql = "SELECT external_id FROM message JOIN unit USING (message_id) WHERE unit_id = ?"
    return [str(connection.execute(sql, (unit_id,)).get) for unit_id in chain.units]


def test_a_chain_follows_the_slots_the_question_tells_of(graph: memdb.Memory) -> None:
    tell(
        graph,
        "Ana | alpha | Bob",
        "Ana | gamma | Zed",
        "Bob | beta | Cid",
        "Bob | gamma | Dan",
        "Zed | delta | Cid",
    )
    assert chains(graph, ["ana"], A, B) == [["0", "2"]]
    assert chains(graph, ["ana"], A, C) == [["0", "3"]]


def test_one_fact_is_no_chain(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | alpha | Cid")
    assert chains(graph, ["ana"], A) == [], "a part of the question counts once"
    assert chains(graph, ["bob"], A, B) == []


def test_each_fact_must_tell_something_of_the_question(graph: memdb.Memory) -> None:
    tell(graph, "Ana | delta | Bob", "Bob | alpha | Cid")
    assert chains(graph, ["ana"], A, B) == []


def test_a_chain_must_tell_a_share_of_the_question(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid")
    others = [vector(0, 0, 0, *[100 * (n == m) for n in range(4)]) for m in range(4)]
    assert chains(graph, ["ana"], A, B, *others) == [["0", "1"]]
    assert chains(graph, ["ana"], A, B, *others, *others) == []


def test_what_was_restated_is_followed_by_its_newest_value(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid", "Eve | beta | Fay", "Ana | alpha | Eve")
    assert chains(graph, ["ana"], A, B) == [["3", "2"]]
    assert chains(graph, ["ana"], A, B, said_until=(1 << 62) + 2) == [["0", "1"]]
    with graph._database.atomic() as connection:
        connection.execute("DELETE FROM trace_unit")
    assert chains(graph, ["ana"], A, B) == [["3", "2"]], "without traces the same"


@pytest.mark.parametrize("traced", [True, False])
def test_what_was_replaced_leads_nowhere(graph: memdb.Memory, traced: bool) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid", "Ana | alpha | Eve")
    if not traced:
        with graph._database.atomic() as connection:
            connection.execute("DELETE FROM trace_unit")
    assert chains(graph, ["ana"], A, B) == []
    assert chains(graph, ["ana"], A, B, said_until=(1 << 62) + 1) == [["0", "1"]]


def test_a_later_number_wins_whatever_the_order_of_adding(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Eve", start=9)
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid", "Eve | beta | Fay")
    assert chains(graph, ["ana"], A, B) == [["9", "2"]]


def test_a_ring_ends(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Ana", "Bob | gamma | Bob")
    assert chains(graph, ["ana"], A, B, C) == []


def test_four_facts_are_the_most(graph: memdb.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LEAST_HOP_GAIN", 0.0)
    tell(graph, *(f"Zone{n} | {WORDS[n % 3]} | Zone{n + 1}" for n in range(6)))
    monkeypatch.setattr(settings, "HOP_COST", -1.0)
    assert chains(graph, ["zone0"], A, B, C) == [["0", "1", "2", "3"]]
    monkeypatch.setattr(settings, "HOP_COST", 0.05)
    assert chains(graph, ["zone0"], A, B, C) == [["0", "1", "2"]]


def test_a_holder_that_is_more_than_the_name_is_reached(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Spain")
    graph.add([Message("facts", "The name of the beta of state in Spain is Fay.", id="x")])
    assert chains(graph, ["ana"], A, B) == [["0", "x"]]


def test_case_and_article_do_not_matter(graph: memdb.Memory) -> None:
    graph.add(
        [
            Message("f", "Ana's alpha is old mill.", id="0"),
            Message("f", "The Old Mill's beta is Fay.", id="1"),
        ]
    )
    assert chains(graph, ["ana"], A, B) == [["0", "1"]]


def test_a_scope_sees_its_own_chains(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid", scope=Scope("ben"))
    mine = {"everyone": 0, "user": "ana"}
    assert chains(graph, ["ana"], A, B, **mine) == []
    assert chains(graph, ["ana"], A, B, **(mine | {"user": "ben"})) == [["0", "1"]]
    with graph._database.reader() as connection:
        assert chain_starts(connection, SEEN | {"everyone": 0, "user": "ana"}, ["ana"]) == frozenset()


def test_a_start_leads_over_two_facts(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Bob", "Bob | beta | Cid", "Dan | alpha | Eve")
    with graph._database.reader() as connection:
        found = chain_starts(connection, SEEN, ["ana", "bob", "dan", "nobody", ""])
    assert found == {"ana"}


@pytest.mark.parametrize("middle", ["José", "JOSE\u0301", "Łukasz", "the Größe", "İz"])
def test_a_start_is_found_in_any_script(graph: memdb.Memory, middle: str) -> None:
    tell(graph, f"Çelik | alpha | {middle}", f"{middle} | beta | Cid", f"Dan | alpha | {middle} Eve")
    names = [fold(name) for name in ("Çelik", middle, "Dan")]
    with graph._database.reader() as connection:
        assert chain_starts(connection, SEEN, names) == {fold("Çelik")}


def test_the_newest_facts_of_a_holder_are_followed(graph: memdb.Memory) -> None:
    tell(graph, "Ana | alpha | Hub", "Hub | beta | Zoe")
    most = settings.HOP_NODE_EDGES
    graph.add([Message("facts", f"Hub likes Item{n}.", f"serial-{n + 2}") for n in range(most - 1)])
    assert chains(graph, ["ana"], A, B) == [["0", "1"]]
    graph.add([Message("facts", "Hub likes one more.", f"serial-{most + 2}")])
    assert chains(graph, ["ana"], A, B) == []


def crowd(connection: apsw.Connection, subject: str, axis: str) -> None:
    """A hundred thousand units, newer than all others, that carry the label "Hub" on an axis."""
    values = {"subject": subject, "axis": axis}
    connection.execute(
        """
        INSERT INTO unit (scope_id, session_id, window_no, number, message_id,
                          first_position, last_position, fact_text, subject, predicate, object)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        SELECT scope_id, session_id, window_no, 1000 + i, message_id, first_position, last_position, 'x',
               :subject, 'likes', 'Hub'
        FROM n, (SELECT * FROM unit WHERE subject = 'Hub' LIMIT 1)""",
        values,
    )
    connection.execute(
        """INSERT INTO unit_label SELECT label_id, unit_id FROM unit, label
           WHERE fact_text = 'x' AND axis = :axis AND name = 'Hub'""",
        values,
    )


@pytest.mark.parametrize(("subject", "axis"), [("Hub", "subject"), ("Elsewhere", "entity")])
def test_a_hundred_thousand_facts_of_one_name_do_not_blow_it_up(
    graph: memdb.Memory, subject: str, axis: str
) -> None:
    """Whether each leads on to as many, or none leads anywhere: what is looked at stays within the bounds."""
    tell(graph, "Ana | alpha | Hub", "Hub | beta | Zoe", "Zoe | gamma | Fay")
    steps: list[int] = []

    def count() -> bool:
        steps.append(1)
        return False

    with graph._database.atomic() as connection:
        crowd(connection, subject, axis)
        connection.set_progress_handler(count, 1_000)
        found = hops(connection, SEEN, ["ana", "hub"], Parts(A + B, 2, DIMENSION))
        assert [one.units for one in found] == [(1, 2)]
        assert chain_starts(connection, SEEN, ["ana", "hub"]) >= {"ana"}
        connection.set_progress_handler(None)
    assert 0 < len(steps) < 1_000, "virtual machine steps, in thousands"


# --- Whole questions, with the embedded encoder

STORY = [
    "The author of The Silent Orchard is Mira Kovac.",
    "Mira Kovac is married to Piet Larsen.",
    "Piet Larsen is a citizen of Norland.",
    "The capital of Norland is Osthaven.",
    "Osthaven is located in the continent of Atlantis.",
    "Ana's wife is Eva Lindt.",
    "Eva Lindt works at Brightwater Labs.",
    "The headquarters of Brightwater Labs is located in the city of Ravenna.",
    "Ravenna Rovers is associated with the sport of snowball.",
    "Snowball was created in the country of Norland.",
    "Mira Kovac was born in the city of Selm.",
    "Mira Kovac died in the city of Tarn.",
    "The official language of Norland is Norse.",
    "Ben lives in Tarn.",
    "Ben has a dog called Rex.",
]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.Memory]:
    path: Path = tmp_path_factory.mktemp("story") / "m.memdb"
    with memdb.open(path) as memory:
        noise = [f"Person {n} likes the colour number {n}." for n in range(40)]
        memory.add([Message("facts", text, f"serial-{n}", str(n)) for n, text in enumerate([*STORY, *noise])])
        yield memory


def chained(found: WorkingMemory) -> set[int]:
    return {int(one.source[0].id or -1) for one in found if "hops" in one.channels}


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("What is the country of citizenship of the spouse of the author of The Silent Orchard?", {0, 1, 2}),
        ("Where was the author of The Silent Orchard born?", {0, 10}),
        ('In which place did the writer of "The Silent Orchard" pass away?', {0, 11}),
        ("What is the employer of Ana's wife?", {5, 6}),
        ("In which city is the headquarters of Ana's wife's employer?", {5, 6, 7}),
        (
            "Which city serves as the capital of the country of origin for the sport of the Ravenna Rovers?",
            {8, 9, 3},
        ),
        (
            "What is the official language of the country where the sport of Ravenna Rovers was created?",
            {8, 9, 12},
        ),
        ("Which country is Mira Kovac's husband a citizen of?", {1, 2}),
    ],
)
def test_nested_questions_find_every_fact_they_need(
    story: memdb.Memory, question: str, facts: set[int]
) -> None:
    found = story.recall(question)
    assert facts <= {int(one.source[0].id or -1) for one in found}
    assert facts <= chained(found)


@pytest.mark.parametrize(
    "question",
    [
        "Who is the author of The Silent Orchard?",
        "What is the capital of Norland?",
        "What is the name of Ben's dog?",
        "the spouse of the author of the silent orchard",
        "Where does the sister of Nobody Known work?",
    ],
)
def test_questions_without_a_chain_are_left_alone(story: memdb.Memory, question: str) -> None:
    found = story.recall(question)
    assert chained(found) == set()
    assert found == story.recall(question, channels=[*SEARCHES, "traces"])


def test_the_channel_can_be_switched_off(story: memdb.Memory) -> None:
    question = "Where was the author of The Silent Orchard born?"
    without = story.recall(question, channels=[name for name in CHANNELS if name != "hops"])
    assert chained(without) == set()
    alone = story.recall(question, channels=["hops"])
    assert {int(one.source[0].id or -1) for one in alone} == {0, 10}
    assert [one.channels["hops"].rank for one in alone] == [1, 2]


def test_without_the_encoder_there_are_no_chains(story: memdb.Memory) -> None:
    with pytest.warns(MemdbWarning), memdb.open(story.path, encoder=HashEncoder(64)) as memory:
        found = memory.recall("Where was the author of The Silent Orchard born?")
    assert len(found) > 0
    assert chained(found) == set()


def test_the_chain_is_what_held_as_of_then(story: memdb.Memory, open_memory: OpenMemory) -> None:
    memory = open_memory(encoder=story.encoder)
    facts = [
        "The chairperson of Acme is Ida Moll.", "Ida Moll was born in the city of Selm.",
        "Jon Falk was born in the city of Tarn.", "The chairperson of Acme is Jon Falk.",
    ]  # fmt: skip
    memory.add([Message("facts", text, f"serial-{n}", str(n)) for n, text in enumerate(facts)])
    question = "In which city was the chairperson of Acme born?"
    assert chained(memory.recall(question)) == {3, 2}
    assert chained(memory.recall(question, as_of="serial-2")) == {0, 1}


CHAIN = [
    "The author of Emma is Jane Austen.",
    "Jane Austen was born in the city of Steventon.",
    "The publisher of Emma Woodhouse is Penguin.",
]
LEADING = "In which city was the author of Emma Woodhouse born?"
CHAINED = ("message_dense", "unit_dense", "hops", "traces")  # BM25 has the statistics of the whole file


def ranks(memory: memdb.Memory, **asked: object) -> list[tuple[str | None, float]]:
    found = memory.recall(LEADING, 50, channels=CHAINED, **asked)  # type: ignore[arg-type]
    return [(one.source[0].id, one.score) for one in found]


@pytest.mark.parametrize("many", [1, settings.HOP_LABEL_UNITS + 6])
@pytest.mark.parametrize("by", ["another", "later"])
def test_what_a_question_may_not_see_changes_no_chain(
    open_memory: OpenMemory, tmp_path: Path, by: str, many: int
) -> None:
    told = [Message("facts", text, f"serial-{n}", f"f{n}") for n, text in enumerate(CHAIN)]
    hidden = [
        "Penguin was founded in the city of London.",
        *(f"Jane Austen met Bob{n}." for n in range(many)),
    ]
    alone = open_memory(tmp_path / "alone.memdb", scope="me")
    alone.add(told)
    shared = open_memory(tmp_path / "shared.memdb", scope="me")
    shared.add(told)
    unseen = [Message("facts", text, f"serial-{n + 90}") for n, text in enumerate(hidden)]
    if by == "later":
        shared.add(unseen)
        assert ranks(shared, as_of="serial-50") == ranks(alone, as_of="serial-50")
        return
    with open_memory(tmp_path / "shared.memdb", scope="you") as other:
        other.add(unseen)
    assert ranks(shared) == ranks(alone)


@pytest.mark.parametrize("by", ["another", "later"])
def test_a_holder_a_question_may_not_see_is_no_start(
    open_memory: OpenMemory, tmp_path: Path, by: str
) -> None:
    """The longer name is a holder of unseen facts alone: the chain starts from the shorter one."""
    told = [*CHAIN[:2], "Penguin was founded in the city of London."]
    seen = [Message("facts", text, f"serial-{n}", f"f{n}") for n, text in enumerate(told)]
    unseen = Message("facts", CHAIN[2], "serial-90")
    alone = open_memory(tmp_path / "alone.memdb", scope="me")
    alone.add(seen)
    shared = open_memory(tmp_path / "shared.memdb", scope="me")
    shared.add(seen)
    if by == "later":
        shared.add([unseen])
    else:
        with open_memory(tmp_path / "shared.memdb", scope="you") as other:
            other.add([unseen])
    assert ranks(shared, as_of="serial-50") == ranks(alone, as_of="serial-50")

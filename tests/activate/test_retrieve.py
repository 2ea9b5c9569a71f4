from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

import memdb
from memdb import settings
from memdb.activate.retrieve import SEARCHES
from memdb.errors import Damaged, MemdbWarning
from memdb.models.fakes import HashEncoder
from memdb.records import Evidence, Message, Scope
from memdb.store import indexes
from tests import reference
from tests.conftest import OpenMemory
from tests.handmade import DIMENSION, Ask, Claim, Said, ask, put, vector

UNITS = ("unit_lexical", "unit_dense", "unit_attribute")


@pytest.fixture
def memory(open_memory: OpenMemory) -> memdb.Memory:
    """A memory of eight components, for rows that are put in by hand."""
    return open_memory(encoder=HashEncoder(DIMENSION))


# --- The statement against an independent reference


def palette() -> list[bytes]:
    """A few directions whose cosines are far apart, so that only equal codes tie."""
    codes = np.random.default_rng(7).integers(-100, 101, (14, DIMENSION)).astype(np.int8)
    return [row.tobytes() for row in codes]


CODES = palette()
WORDS = "parrot piano porto river oven lamp rome march".split()
DAYS = [f"2023-05-{day:02}" for day in (1, 2, 3, 7, 10, 20)]
SCOPES = [Scope(), Scope("ana"), Scope("ana", "helper"), Scope("ben")]


class Dice:
    """Random rows and questions, few enough of each kind that many of them tie."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.beside = random.Random(seed)

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 5)))

    def days(self) -> tuple[str, str]:
        first, last = sorted(self.random.choices(DAYS, k=2))
        return first, last

    def some(self, make: Callable[[], Any], most: int) -> list[Any]:
        return [make() for _ in range(self.random.randint(0, most))]

    def code(self) -> bytes | None:
        return self.random.choice([*CODES, None])

    def label(self) -> tuple[Any, str, bytes | None]:
        number = self.random.randrange(10)
        axis = ("entity", "location")[number % 2]
        return axis, WORDS[number % 8].title() + str(number), CODES[number] if number else None

    def claim(self) -> Claim:
        return Claim(self.text(), self.code(), self.some(self.label, 3), self.some(self.days, 2))

    def said(self) -> Said:
        clock = self.random.choice([None, "serial-4", *DAYS, *DAYS])
        scope = self.random.choice([SCOPES[0], *SCOPES])
        return Said(
            self.text(), self.code(), self.some(self.claim, 3), clock, self.random.choice("AB"), scope
        )

    def constraint(self) -> tuple[Any, str, bytes]:
        axis, name, _ = self.label()
        return axis, self.random.choice([name, name.lower(), "Else"]), self.random.choice(CODES)

    def chains(self) -> list[tuple[int, float]]:
        roll = self.beside
        return [(roll.randint(1, 40), roll.choice([0.5, 1.0, 1.7])) for _ in range(roll.randint(0, 4))]

    def ask(self) -> Ask:
        roll = self.random
        keys = [(1 << 63) - 1] * 3 + [19_480 * 86_400_000_000 - 1, 19_490 * 86_400_000_000, 3]
        channels = roll.sample(SEARCHES, roll.choice([1, 3, 5, 5, 5]))
        return Ask(
            terms=" OR ".join(f'"{word}"' for word in roll.sample(WORDS, roll.randint(1, 3))),
            code=self.code(),
            names=self.some(self.constraint, 3),
            times=[(roll.choice(["fact", "utterance"]), *self.days()) for _ in range(roll.randint(0, 2))],
            channels=channels,
            scope=roll.choice([None, *SCOPES]),
            as_of=roll.choice(keys),
            n=roll.choice([2, 5, 100, 100]),
            k=roll.choice([1, 4, 50]),
            speaker=roll.choice([None, "A"]),
            chains=self.chains(),
        )


def assert_as_expected(memory: memdb.Memory, asked: Ask) -> None:
    found = ask(memory, asked)
    with memory._database.reader() as connection:
        if reference.cut_at_a_tie(connection, asked):
            return
        wanted = reference.expected(connection, asked)
    assert [hit.message_id for hit in found] == [one.message_id for one in wanted], asked
    for hit, one in zip(found, wanted, strict=True):
        assert hit.score == pytest.approx(one.score, abs=1e-6), asked
        assert {name: place for name, (place, _) in hit.channels.items()} == {
            name: place for name, (place, _) in one.channels.items()
        }, asked
        for name, (_, score) in hit.channels.items():
            assert score == pytest.approx(one.channels[name][1], abs=1e-6), (name, asked)


@pytest.mark.parametrize("seed", range(25))
def test_the_statement_is_the_reference(memory: memdb.Memory, seed: int) -> None:
    dice = Dice(seed)
    put(memory, *(dice.said() for _ in range(dice.random.choice([0, 1, 5, 20, 40]))))
    for _ in range(12):
        assert_as_expected(memory, dice.ask())


def test_the_reference_sees_every_channel_and_ties() -> None:
    """That the comparison above is not one of empty lists."""
    asked = [Dice(seed).ask() for seed in range(25)]
    assert {channel for one in asked for channel in one.channels} == set(SEARCHES)
    assert any(one.chains for one in asked)
    assert any(one.names and one.times and one.code for one in asked)


# --- Worked examples of the specification


def elt(memory: memdb.Memory, **asked: Any) -> float:
    """S_ELT of the one unit, 0 when it is not in the list."""
    found = ask(memory, Ask(channels=["unit_attribute"], **asked))
    return found[0].channels["unit_attribute"][1] if found else 0.0


X, Y = vector(100), vector(0, 0, 100)


def with_labels(*labels: tuple[Any, str, bytes | None]) -> Said:
    return Said("said", claims=[Claim("claim", labels=labels)])


def test_sem_match_is_the_mean_of_the_best_above_the_threshold(memory: memdb.Memory) -> None:
    put(memory, with_labels(("entity", "a", vector(90, 44)), ("entity", "b", vector(0, 0, 55, 84))))
    both = elt(memory, names=[("entity", "x", X), ("entity", "y", Y)])
    assert both == pytest.approx(0.45, abs=0.003)


def test_sem_match_takes_the_threshold_itself(memory: memdb.Memory) -> None:
    put(memory, with_labels(("entity", "a", vector(60, 80))))
    assert elt(memory, names=[("entity", "x", X)]) == pytest.approx(0.60)


def test_sem_match_leaves_out_what_is_under_the_threshold(memory: memdb.Memory) -> None:
    put(memory, with_labels(("entity", "a", vector(59, 81))))
    assert elt(memory, names=[("entity", "x", X)]) == 0


def test_sem_match_of_no_attributes_is_nothing(memory: memdb.Memory) -> None:
    put(memory, with_labels())
    assert elt(memory, names=[("entity", "x", X)]) == 0


def test_sem_match_takes_the_best_of_several_labels_and_equal_text_as_one(memory: memdb.Memory) -> None:
    labels: Sequence[Any] = [("entity", "a", vector(70, 71)), ("entity", "b", vector(95, 31))]
    put(memory, with_labels(*labels))
    assert elt(memory, names=[("entity", "x", X)]) == pytest.approx(0.95, abs=0.003)
    assert elt(memory, names=[("entity", "A", Y)]) == 1.0
    assert elt(memory, names=[("location", "a", X)]) == 0, "each axis is matched on its own"


def with_times(*times: tuple[str, str], said_at: str | None = None) -> Said:
    return Said("said", claims=[Claim("claim", times=times)], said_at=said_at)


MAY = ("2023-05-01", "2023-05-31")


@pytest.mark.parametrize(
    ("fact", "constraint", "score"),
    [
        (("2023-05-07", "2023-05-07"), MAY, 1.0),
        (("2023-05-06", "2023-05-20"), ("2023-05-01", "2023-05-10"), 0.5),
        (("2023-05-06", "2023-05-20"), ("2023-06-01", "2023-06-10"), 0.0),
        (("2023-05-10", "2023-05-20"), ("2023-05-01", "2023-05-10"), 0.1),
        (("2023-05-11", "2023-05-20"), ("2023-05-01", "2023-05-10"), 0.0),
        (("1969-12-31", "1970-01-02"), ("1970-01-01", "1970-01-01"), 1.0),
    ],
)
def test_time_match_of_a_fact_time(memory: memdb.Memory, fact: Any, constraint: Any, score: float) -> None:
    put(memory, with_times(fact, said_at="2023-06-05"))
    assert elt(memory, times=[("fact", *constraint)]) == pytest.approx(score)


def test_time_match_takes_the_best_of_several_fact_times(memory: memdb.Memory) -> None:
    put(memory, with_times(("2023-05-31", "2023-06-09"), ("2023-05-30", "2023-06-08")))
    assert elt(memory, times=[("fact", *MAY)]) == pytest.approx(0.2)


def test_time_match_falls_back_on_the_day_it_was_said_by_half(memory: memdb.Memory) -> None:
    put(memory, with_times(said_at="2023-05-07T23:30-08:00"))
    assert elt(memory, times=[("fact", "2023-05-07", "2023-05-07")]) == 0.5
    assert elt(memory, times=[("fact", "2023-05-08", "2023-05-08")]) == 0
    assert elt(memory, times=[("utterance", *MAY)]) == 1.0
    assert elt(memory, times=[("fact", *MAY), ("fact", "2024-01-01", "2024-01-01")]) == 0.25


@pytest.mark.parametrize("kind", ["fact", "utterance"])
@pytest.mark.parametrize("said_at", ["serial-19484", None])
def test_time_match_knows_no_day_of_a_serial_number(
    memory: memdb.Memory, kind: str, said_at: str | None
) -> None:
    put(memory, with_times(said_at=said_at))
    assert elt(memory, times=[(kind, "1970-01-01", "2100-01-01")]) == 0


def test_s_elt_is_the_mean_over_the_constrained_axes(memory: memdb.Memory) -> None:
    claim = Claim("claim", labels=[("entity", "Ines", None), ("location", "Porto", None)], times=[MAY])
    put(memory, Said("said", claims=[claim]))
    names: list[Any] = [("entity", "ines", Y), ("location", "porto", Y)]
    assert elt(memory, names=names, times=[("fact", *MAY)]) == 1.0
    assert elt(memory, names=names[:1]) == 1.0
    assert elt(memory, names=[*names[:1], ("location", "Rome", Y)]) == 0.5
    elsewhen = [("fact", "2024-01-01", "2024-01-02")]
    assert elt(memory, names=names, times=elsewhen) == pytest.approx(2 / 3)
    assert elt(memory) == 0, "without constraints there is no list"


def test_rrf(memory: memdb.Memory) -> None:
    """Lists [a, b, c], [b, a], [c, b] give b .0486515, a .0325225, c .0322665."""
    put(
        memory,
        Said("a", claims=[Claim("fox fox fox", vector(80, 60))]),
        Said("b", claims=[Claim("fox fox cat", vector(100), [("entity", "B", vector(0, 0, 70, 71))])]),
        Said("c", claims=[Claim("fox cat cat", None, [("entity", "C", vector(0, 0, 90, 44))])]),
    )
    found = ask(memory, Ask(terms='"fox"', code=vector(100), names=[("entity", "y", Y)], channels=UNITS))
    assert [hit.content for hit in found] == ["b", "a", "c"]
    places = [{name: place for name, (place, _) in hit.channels.items()} for hit in found]
    assert places == [
        {"unit_lexical": 2, "unit_dense": 1, "unit_attribute": 2},
        {"unit_lexical": 1, "unit_dense": 2},
        {"unit_lexical": 3, "unit_attribute": 1},
    ]
    shares = [hit.score / found[0].score * 0.0486515 for hit in found]
    assert shares == pytest.approx([0.0486515, 0.0325225, 0.0322665], abs=1e-7)


def test_ties_of_attributes_go_by_the_dense_score_then_by_number(memory: memdb.Memory) -> None:
    label: Any = ("entity", "Ines", None)
    near, nearer = vector(80, 60), vector(100, 10)
    codes = [near, None, nearer, near, None]
    put(memory, *(Said(str(n), claims=[Claim("claim", code, [label])]) for n, code in enumerate(codes)))
    asked = Ask(code=vector(100), names=[("entity", "Ines", Y)], channels=["unit_attribute"])
    assert [hit.content for hit in ask(memory, asked)] == ["2", "0", "3", "1", "4"]


def test_ties_of_attributes_above_the_last_places_go_by_the_dense_score_too(memory: memdb.Memory) -> None:
    ines: Any = ("entity", "Ines", None)
    porto: Any = ("location", "Porto", None)
    far, farther = vector(10, 100), vector(0, 100)
    best = [
        Said(f"best {n}", claims=[Claim("c", code, [ines, porto])]) for n, code in enumerate([farther, far])
    ]
    rest = [Said(f"rest {n}", claims=[Claim("c", vector(100, n), [ines])]) for n in range(8)]
    put(memory, *best, *rest)
    names: list[Any] = [("entity", "Ines", Y), ("location", "Porto", Y)]
    found = ask(memory, Ask(code=vector(100), names=names, channels=["unit_attribute"], n=4))
    assert [hit.content for hit in found] == ["best 1", "best 0", "rest 0", "rest 1"]


# --- Through recall


@pytest.fixture
def chat(open_memory: OpenMemory, tmp_path: Path) -> memdb.Memory:
    memory = open_memory(tmp_path / "chat.memdb", encoder=HashEncoder(64))
    memory.add(
        [
            Message("Ana", "I adopted a grey parrot in Porto on 7 May 2023.", "2023-05-08"),
            Message("Ben", "Lovely! What do you call it?", "2023-05-08"),
            Message("Ana", "I call the parrot Pepper.", "2023-05-08"),
            Message("Ben", "My cousin Ines plays the piano in Rome.", "2023-06-01"),
            Message("Ana", "The river rose by the piano shop.", "2023-06-02"),
            *(Message("Ben", f"Remark number {n} on the weather.", "2023-06-03") for n in range(12)),
        ],
        session="chat",
    )
    return memory


QUESTION = "When did Ana adopt the parrot in Porto in May 2023?"


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that readers run, in order."""
    ran: list[str] = []
    borrow = memdb.Memory._one_scope.__globals__["Database"]._borrow

    def borrow_traced(self: Any) -> apsw.Connection:
        connection: apsw.Connection = borrow(self)
        connection.exec_trace = lambda cursor, sql, values: ran.append(sql.strip()) is None
        return connection

    monkeypatch.setattr("memdb.store.connection.Database._borrow", borrow_traced)
    return ran


def on_tables(ran: Sequence[str]) -> list[str]:
    return [sql for sql in ran if not sql.upper().startswith(("PRAGMA", "BEGIN", "ROLLBACK"))]


def hybrid(memory: memdb.Memory) -> str:
    """The statement as this memory's connections are searched."""
    with memory.reader.database.reader() as connection:
        return indexes.statement("hybrid", indexes.native(connection))


def test_a_recall_is_one_statement(chat: memdb.Memory, traced: list[str]) -> None:
    chat.recall("parrot")
    assert len(on_tables(traced)) == 2, "the first one also reads who speaks"
    for question in ("who sings to the parrot?", "Ines", "", "parrot " * 1_000):
        traced.clear()
        chat.recall(question)
        assert on_tables(traced) == [hybrid(chat)]


def test_a_question_that_names_something_asks_first_whether_a_chain_can_start(
    chat: memdb.Memory, traced: list[str]
) -> None:
    chat.recall("parrot")
    for question in (QUESTION, "Where is Ines?"):
        traced.clear()
        chat.recall(question)
        assert on_tables(traced) == [indexes.statement("chain_starts"), hybrid(chat)]
        traced.clear()
        chat.recall(question, channels=SEARCHES)
        assert on_tables(traced) == [hybrid(chat)]


def test_only_where_a_chain_can_start_the_graph_is_followed(chat: memdb.Memory, traced: list[str]) -> None:
    chat.add([Message("Ana", "Ines is married to Karl."), Message("Ana", "Karl works at Acme.")])
    chat.recall("parrot")
    traced.clear()
    chat.recall("Where does the husband of Ines work?")
    names = ("chain_starts", "hops", "hybrid")
    assert on_tables(traced) == [
        hybrid(chat) if name == "hybrid" else indexes.statement(name) for name in names
    ]


def test_who_speaks_is_read_again_only_when_the_file_changed(
    chat: memdb.Memory, open_memory: OpenMemory, traced: list[str]
) -> None:
    other = open_memory(chat.path, encoder=HashEncoder(64))
    for writer, name in ((chat, "Quentin"), (other, "Zelda")):
        chat.recall(QUESTION)
        traced.clear()
        writer.add([Message(name, "I play chess.")])
        traced.clear()
        found = chat.recall(f"What does {name} play?")
        asked = "who speaks, and of another writer's change whose vectors there are"
        assert len(on_tables(traced)) == (3 if writer is chat else 4), asked
        assert found[0].speaker == name
        traced.clear()
        chat.recall(QUESTION)
        assert len(on_tables(traced)) == 2


def places(found: Sequence[Evidence]) -> dict[tuple[str, str | None], tuple[int, float]]:
    return {
        (name, evidence.source[0].id): (hit.rank, hit.score)
        for evidence in found
        for name, hit in evidence.channels.items()
    }


@pytest.mark.parametrize("off", SEARCHES)
def test_a_channel_switched_off_changes_no_other(chat: memdb.Memory, off: str) -> None:
    everything = places(list(chat.recall(QUESTION, k=100)))
    without = places(list(chat.recall(QUESTION, k=100, channels=[c for c in memdb.CHANNELS if c != off])))
    assert any(name == off for name, _ in everything)
    assert without == {key: value for key, value in everything.items() if key[0] != off}


BROKEN = {
    "message_lexical": "DELETE FROM message_terms_data WHERE id = 10",
    "unit_lexical": "DELETE FROM unit_terms_data WHERE id = 10",
    "message_dense": "UPDATE message_vector_vector_chunks00 SET vectors = x'00'",
    "unit_dense": "UPDATE unit_vector_vector_chunks00 SET vectors = x'00'",
    "unit_attribute": "UPDATE label_vector_vector_chunks00 SET vectors = x'00'",
}


@pytest.mark.parametrize("off", SEARCHES)
def test_a_channel_switched_off_does_not_touch_its_index(
    chat: memdb.Memory, open_memory: OpenMemory, off: str
) -> None:
    chat.close()
    connection = apsw.Connection(str(chat.path))
    connection.execute(BROKEN[off])
    connection.close()
    memory = open_memory(chat.path)
    rest = [channel for channel in memdb.CHANNELS if channel != off]
    if off == "unit_dense":
        rest.remove("unit_attribute")  # breaks its ties by the same vectors
    assert len(memory.recall(QUESTION, channels=rest)) > 0
    with pytest.raises(memdb.FileError):
        memory.recall(QUESTION, channels=[off])


def test_no_channel_finds_nothing(chat: memdb.Memory) -> None:
    assert len(chat.recall(QUESTION, channels=[])) == 0


@pytest.mark.parametrize("k", [1, 2, 5, 17, 18, 100, 101, 1000])
def test_k_is_how_many_come_back_and_more_of_them_change_nothing(chat: memdb.Memory, k: int) -> None:
    found = chat.recall(QUESTION, k)
    assert len(found) == min(k, 17)
    assert list(found) == list(chat.recall(QUESTION, 17))[:k]


def test_ranks_scores_and_order_are_consistent_and_repeatable(chat: memdb.Memory) -> None:
    found = chat.recall(QUESTION, k=50)
    assert [evidence.rank for evidence in found] == list(range(1, len(found) + 1))
    scores = [evidence.score for evidence in found]
    assert scores == sorted(scores, reverse=True)
    assert len({evidence.source[0].id for evidence in found}) == len(found)
    for channel in ("message_lexical", "message_dense"):
        hits = sorted(
            (e.channels[channel].rank, -e.channels[channel].score) for e in found if channel in e.channels
        )
        assert [rank for rank, _ in hits] == list(range(1, len(hits) + 1))
        assert [score for _, score in hits] == sorted(score for _, score in hits)
    assert all(chat.recall(QUESTION, k=50) == found for _ in range(3))


def test_evidence_says_what_was_said_and_what_was_made_of_it(chat: memdb.Memory) -> None:
    first = chat.recall(QUESTION)[0]
    assert first.text == "I adopted a grey parrot in Porto on 7 May 2023."
    assert (first.speaker, first.session, first.said_at) == ("Ana", "chat", "2023-05-08")
    assert first.source == (chat.messages("chat")[0],)
    assert first.source[0].id == "chat#1"
    [fact] = first.facts
    assert fact.id == "chat:w0:0"
    assert (fact.first, fact.last) == (0, 0)
    assert fact.fact_time == first.fact_time
    assert [str(interval.start) for interval in first.fact_time] == ["2023-05-07"]
    assert "Porto" in fact.locations
    assert set(first.channels) == set(SEARCHES)


def test_the_one_speaker_a_question_names_gets_the_bonus(chat: memdb.Memory) -> None:
    with_name = {
        e.source[0].id: e.score for e in chat.recall("Ben on the weather", k=50, channels=["message_dense"])
    }
    weight, bonus = settings.SEARCH_LIST_WEIGHTS["message_dense"], settings.SPEAKER_BONUS
    assert max(with_name.values()) == pytest.approx(weight + bonus)


# --- A file made by another encoder


@pytest.fixture
def foreign(chat: memdb.Memory, open_memory: OpenMemory) -> Iterator[memdb.Memory]:
    with pytest.warns(MemdbWarning):
        yield open_memory(chat.path, encoder=HashEncoder(32))


def test_without_its_encoder_a_file_is_searched_by_words_and_labels(
    chat: memdb.Memory, foreign: memdb.Memory
) -> None:
    found = foreign.recall(QUESTION, k=50)
    assert found[0].text == "I adopted a grey parrot in Porto on 7 May 2023."
    used = {name for evidence in found for name in evidence.channels}
    assert used == {"message_lexical", "unit_lexical", "unit_attribute"}
    for channel in ("message_lexical", "unit_lexical"):
        assert places(list(foreign.recall(QUESTION, k=50, channels=[channel]))) == places(
            list(chat.recall(QUESTION, k=50, channels=[channel]))
        )
    assert len(foreign.recall(QUESTION, channels=["message_dense", "unit_dense"])) == 0
    assert foreign.messages("chat") == chat.messages("chat")


def test_a_damaged_index_is_a_typed_error(chat: memdb.Memory, open_memory: OpenMemory) -> None:
    chat.close()
    connection = apsw.Connection(str(chat.path))
    connection.execute(BROKEN["message_lexical"])
    connection.close()
    with pytest.raises(Damaged):
        open_memory(chat.path).recall(QUESTION)

"""All vectors anew by another encoder: the same as a file made with it, whatever happens on the way."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import memdb
from memdb import settings
from memdb.construct import build as construct_build
from memdb.construct import pipeline, traces
from memdb.construct import reembed as construct_reembed
from memdb.errors import Locked, MemdbWarning, ModelError
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Reembedded, Scope, Verification
from memdb.store import schema, staging
from memdb.store import traces as store_traces
from memdb.store.connection import Database
from tests import strategies
from tests.encoders import Turned, Watched, wrong_vectors
from tests.scripted import SEGMENTS, TALK, VECTORS, everything, reader

OLD = HashEncoder(64)
OTHERS = [HashEncoder(32), HashEncoder(256), Turned(64)]
SAID = [
    Message("Ana", "I live in Porto. Do you like the sea?", "2024-01-01", id="a"),
    Message("Ben", "Yes!", "2024-01-02", id="b"),
    Message("Ana", "I live in Rome now.", "2024-01-03", id="c", image_caption="a red door"),
    Message("Ben", "I play the piano, and I work at the harbour.", "2024-01-04", id="d"),
    *(
        Message("Ana", f"I bought lamp {n} in Oslo yesterday.", f"2024-02-{n:02}", f"l{n}")
        for n in range(1, 20)
    ),
]
QUESTIONS = ["Where does Ana live?", "lamp 7 from Oslo", "Who plays?", "a red door", "海", ""]
DENSE = ["message_dense", "unit_dense", "unit_attribute"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REEMBED_BATCH_ROWS", 5)
    monkeypatch.setattr(construct_reembed, "_LOOKED_UP", 12)


def opened(path: Path, encoder: HashEncoder, **options: Any) -> memdb.Memory:
    """A memory, whoever made its vectors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        return memdb.open(path, encoder=encoder, **options)


def filled(path: Path, encoder: HashEncoder = OLD) -> Path:
    with memdb.open(path, encoder=encoder) as memory:
        memory.add(SAID[:3], session="s")
        memory.add(SAID[3:], session="s")
    with memdb.open(path, encoder=encoder, scope=Scope("ana")) as memory:
        memory.add(SAID[:4], session="own")
    return path


@pytest.fixture
def file(path: Path) -> Path:
    return filled(path)


def answers(memory: memdb.Memory, channels: Sequence[str] = DENSE) -> list[Any]:
    """What the vectors find: messages, and their places and scores in each channel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemdbWarning)
        found = [memory.recall(question, k=50, scope="*", channels=channels) for question in QUESTIONS]
    return [[(e.session, e.source[0].id, e.score, e.channels) for e in one] for one in found]


def channels(memory: memdb.Memory) -> set[str]:
    return {name for evidence in memory.recall("lamp 7 in Oslo") for name in evidence.channels}


def staged(path: Path) -> int:
    with opened(path, OLD) as memory, memory._database.reader() as connection:
        return staging.counts(connection).staged


@pytest.mark.parametrize("encoder", OTHERS, ids=lambda encoder: encoder.name)
def test_the_file_is_as_one_that_was_made_with_the_encoder(
    file: Path, tmp_path: Path, encoder: HashEncoder
) -> None:
    fresh = filled(tmp_path / "fresh", encoder)
    old = everything(file)
    with opened(file, encoder) as memory:
        done = memory.reembed()
        assert done.replaced == OLD.name
        assert (done.encoder, done.vectors) == (encoder.name, done.made)
        found = memory.verify()
        assert found == Verification(counts=memory.about().counts, search=found.search)
        with memdb.open(fresh, encoder=encoder) as other:
            assert answers(memory) == answers(other)
            assert answers(memory, memdb.CHANNELS[:4]) == answers(other, memdb.CHANNELS[:4])
            assert any(answers(memory))
    new, expected = everything(file), everything(fresh)
    for table in [*VECTORS.split(), *SEGMENTS.split(), "meta", "tables"]:
        assert new[table] == expected[table], table
    for table in new.keys() - {*VECTORS.split(), *SEGMENTS.split(), "meta", "trace", "tables"}:
        assert new[table] == old[table], table
    assert done.made == sum(len(new[table]) for table in VECTORS.split())
    assert wrong_vectors(file, encoder) == []


@hypothesis_settings(max_examples=20, deadline=None, derandomize=True)
@given(
    said=st.lists(strategies.messages(), min_size=1, max_size=9),
    questions=st.lists(strategies.text, max_size=3),
    encoder=st.sampled_from([HashEncoder(12), Turned(16)]),
)
def test_any_messages_are_found_as_in_a_fresh_file(
    said: list[Message], questions: list[str], encoder: HashEncoder
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "moved", Path(folder) / "fresh"
        for path, by in zip(paths, (HashEncoder(16), encoder), strict=True):
            with memdb.open(path, encoder=by) as memory:
                memory.add(said)
        with opened(paths[0], encoder) as moved, memdb.open(paths[1], encoder=encoder) as fresh:
            moved.reembed()
            assert moved.verify().problems == ()
            for question in [*questions, said[0].content]:
                found = [
                    [(e.source, e.score, e.channels) for e in memory.recall(question, channels=DENSE[:2])]
                    for memory in (moved, fresh)
                ]
                assert found[0] == found[1]
        rows = [everything(path) for path in paths]
        assert [rows[0][name] for name in VECTORS.split()] == [rows[1][name] for name in VECTORS.split()]


def test_an_empty_file(path: Path) -> None:
    memdb.open(path, encoder=OLD).close()
    with opened(path, OTHERS[0]) as memory:
        assert memory.reembed() == Reembedded(encoder="hash-32", replaced="hash-64")
        assert memory.encoder is not None
        memory.add(SAID)
        assert memory.verify().problems == ()
    assert wrong_vectors(path, OTHERS[0]) == []


def test_progress_counts_up_to_the_end(file: Path) -> None:
    told: list[Reembedded] = []
    with opened(file, OTHERS[0]) as memory:
        done = memory.reembed(progress=told.append)
    assert told[-1] == done
    assert [one.done for one in told] == sorted({one.done for one in told})
    assert {one.vectors for one in told} == {done.vectors}
    assert told[0].made == 0
    assert len(told) > 10


def test_what_is_done_is_not_done_again(file: Path) -> None:
    asked: list[Sequence[str]] = []
    encoder = Watched(32, asked.append)
    with opened(file, encoder) as memory:
        memory.reembed()
        count, before = len(asked), everything(file)
        assert memory.reembed() == Reembedded(encoder="hash-32")
        assert len(asked) == count
    assert everything(file) == before
    with memdb.open(file, encoder=encoder) as memory:
        assert memory.reembed() == Reembedded(encoder="hash-32")


def test_texts_are_encoded_a_batch_at_a_time(file: Path) -> None:
    asked: list[Sequence[str]] = []
    with opened(file, Watched(32, asked.append)) as memory:
        memory.reembed()
    assert max(map(len, asked)) <= 2 * settings.REEMBED_BATCH_ROWS, "a unit has a claim and a triple"
    assert all(len(texts) == len(set(texts)) for texts in asked)


def test_a_memory_that_was_opened_for_reading_refuses(file: Path) -> None:
    asked: list[Sequence[str]] = []
    before = file.read_bytes()
    for encoder in (Watched(32, asked.append), Watched(64, asked.append)):
        with opened(file, encoder, read_only=True) as memory, pytest.raises(memdb.ReadOnly):
            memory.reembed()
    assert asked == []
    assert file.read_bytes() == before


def test_nobody_waits_while_texts_are_encoded(file: Path) -> None:
    with memdb.open(file, encoder=OLD, busy_timeout_ms=0) as other:
        said = iter(f"I saw owl {n}." for n in itertools.count())
        once = iter([True])
        encoder = Watched(32, lambda _: next(once, False) and other.add([Message("Ben", next(said))]))
        with opened(file, encoder) as memory:
            memory.reembed()
            assert memory.recall("owl")[0].text == "I saw owl 0."
    assert wrong_vectors(file, encoder) == []


# --- Stopped on the way


class Stopped(Exception):
    pass


def stopping(after: int) -> Callable[[Any], None]:
    """Raises at call number `after`, counted from 0."""
    left = iter(range(after))

    def stop(_: Any) -> None:
        if next(left, None) is None:
            raise Stopped

    return stop


@pytest.mark.parametrize("batches", [0, 1, 3, 7, 12])
def test_until_it_is_finished_the_file_answers_as_before(file: Path, tmp_path: Path, batches: int) -> None:
    before = everything(file)
    with memdb.open(file, encoder=OLD) as memory:
        found = answers(memory)
        with opened(file, Watched(32, stopping(batches))) as other, pytest.raises(Stopped):
            other.reembed()
        assert answers(memory) == found
        assert memory.encoder is OLD
        verification = memory.verify()
        assert verification.problems == ()
        assert [w for w in verification.warnings if "wait for the rest: reembed goes on" in w]
    assert [table for table, rows in everything(file).items() if rows != before[table]] == ["meta", "tables"]
    made = staged(file)
    assert (made > 0) == (batches > 0)
    asked: list[Sequence[str]] = []
    with opened(file, Watched(32, asked.append)) as memory:
        assert memory.encoder is None
        done = memory.reembed()
        assert (done.vectors - made, done.done) == (done.made, done.vectors)
        assert not memory.verify().warnings
    other_file = filled(tmp_path / "unbroken")
    with opened(other_file, OTHERS[0]) as memory:
        memory.reembed()
    assert everything(file) == everything(other_file)


def test_a_model_that_fails_is_an_error_and_nothing_is_lost(file: Path) -> None:
    class Broken(Turned):
        def encode(self, texts: Sequence[str], **options: Any) -> NDArray[np.float32]:
            return super().encode(texts, **options) * (np.nan if any("lamp 9" in t for t in texts) else 1)

    with opened(file, Broken(64)) as memory:
        with pytest.raises(ModelError, match="not finite"):
            memory.reembed()
        assert memory.verify().problems == ()
    with opened(file, Turned(64)) as memory:
        done = memory.reembed()
        assert 0 < done.made < done.done
        assert memory.verify().problems == ()
    assert wrong_vectors(file, Turned(64)) == []


def test_what_was_staged_by_another_encoder_is_given_up(file: Path, tmp_path: Path) -> None:
    with opened(file, Watched(32, stopping(6))) as memory, pytest.raises(Stopped):
        memory.reembed()
    with opened(file, OTHERS[2]) as memory:
        done = memory.reembed()
        assert done.made == done.vectors
        assert memory.verify().problems == ()
    assert wrong_vectors(file, OTHERS[2]) == []
    unbroken = filled(tmp_path / "unbroken")
    with opened(unbroken, OTHERS[2]) as memory:
        memory.reembed()
    assert everything(file) == everything(unbroken)


def test_giving_up_what_was_staged_goes_in_steps(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_CLEARED_ROWS", 3)
    with opened(file, Watched(32, stopping(6))) as memory, pytest.raises(Stopped):
        memory.reembed()
    begin = staging.begin
    left: list[int] = []

    def begins(connection: Any, encoder: HashEncoder) -> bool:
        ready = begin(connection, encoder)
        left.append(staging.counts(connection).staged)
        assert memory.verify().problems == ()
        return ready

    monkeypatch.setattr(staging, "begin", begins)
    with opened(file, OTHERS[2]) as memory:
        memory.reembed()
    assert left == sorted(left, reverse=True)
    assert len(left) > 3
    assert left[-1] == 0
    assert wrong_vectors(file, OTHERS[2]) == []


@pytest.mark.parametrize("then", [OTHERS[0], OTHERS[2], OLD], ids=lambda encoder: encoder.name)
def test_what_is_left_over_after_the_switch_harms_nothing(
    file: Path, tmp_path: Path, then: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the switch, before the staging table was emptied."""
    with monkeypatch.context() as patched, opened(file, OTHERS[0]) as memory:
        patched.setattr(staging, "clear", stopping(0))
        with pytest.raises(Stopped):
            memory.reembed()
        assert memory.encoder is OTHERS[0]
        assert memory.verify().problems == ()
    assert staged(file) > 0
    with memdb.open(file, encoder=OTHERS[0]) as memory:
        memory.build(redo=True)
        memory.add([Message("Zoe", "I play chess in Lima.")])
        assert memory.verify().problems == ()
    with opened(file, then) as memory:
        memory.reembed()
        assert memory.verify().problems == ()
    assert wrong_vectors(file, then) == []
    assert not any(name == "staged_vector" for name, _ in everything(file)["tables"])


# --- Others write meanwhile


def meanwhile(*works: Callable[[], object]) -> Callable[[Any], None]:
    """Does each once, at the second, third, … call."""
    left = iter([lambda: None, *works])
    return lambda _: next(left, lambda: None)() and None


@pytest.mark.parametrize("adder", [OLD, OTHERS[0], OTHERS[2]], ids=lambda encoder: encoder.name)
def test_messages_that_are_added_meanwhile_are_in(file: Path, adder: HashEncoder) -> None:
    more = [Message("Zoe", f"I play tune {n} on the flute in Quito.", id=f"z{n}") for n in range(30)]
    with opened(file, adder) as other, opened(file, OTHERS[0]) as memory:
        works = [lambda n=n: other.add(more[n : n + 3], session="z") for n in range(0, 30, 3)]
        memory.reembed(progress=meanwhile(*works))
        assert len(memory.messages("z")) == 30
        assert memory.verify().problems == ()
        assert memory.verify().warnings == ()
    assert wrong_vectors(file, OTHERS[0]) == []


def test_it_ends_though_somebody_adds_all_the_time(file: Path) -> None:
    numbers = itertools.count()
    with memdb.open(file, encoder=OLD) as other:

        def add(done: Reembedded) -> None:
            if other.encoder is not None:
                other.add([Message("Zoe", f"I play tune {next(numbers)} in Quito.")], session="z")

        with opened(file, OTHERS[0]) as memory, warnings.catch_warnings():
            warnings.simplefilter("ignore", MemdbWarning)
            memory.reembed(progress=add)
            assert memory.verify().problems == ()
    assert wrong_vectors(file, OTHERS[0]) == []
    assert next(numbers) > 10


def test_claims_that_are_made_anew_meanwhile_get_their_own_vectors(path: Path) -> None:
    """Units are replaced, and the ids of those that went are given to others."""
    with memdb.open(path, encoder=OLD) as other:
        other.add(TALK, session="s")
        works = [
            lambda: other.build(reader()),
            lambda: other.build(redo=True),
            lambda: other.build(reader(name="again"), redo=True),
        ]
        with opened(path, OTHERS[0]) as memory:
            memory.reembed(progress=meanwhile(*works, *works))
            assert memory.verify().problems == ()
    assert wrong_vectors(path, OTHERS[0]) == []


def test_a_row_that_changes_while_it_is_encoded_is_encoded_again(path: Path) -> None:
    """One window: what takes the place of its claims gets their ids."""
    with memdb.open(path, encoder=OLD) as other:
        other.add(TALK[:6], session="s")
        before = everything(path)["unit"]
        built: list[int] = []

        def change(texts: Sequence[str]) -> None:
            claims = not any(":" in text for text in texts) and any("Rome." in text for text in texts)
            if claims and len(built) < 3:
                built.append(other.build(*([] if len(built) == 1 else [reader()]), redo=True).units)
                after = {row[0]: row[8] for row in everything(path)["unit"]}
                assert [row for row in before if after.get(row[0], row[8]) != row[8]] or len(built) == 2

        with opened(path, Watched(32, change)) as memory:
            memory.reembed()
            assert memory.verify().problems == ()
        assert len(built) == 3
        assert min(built) > 0
    assert wrong_vectors(path, OTHERS[0]) == []


def test_another_process_with_the_same_encoder_may_be_faster(file: Path) -> None:
    with (
        opened(file, OTHERS[0]) as faster,
        opened(file, Watched(32, meanwhile(faster.reembed))) as memory,
    ):
        memory.reembed()
        assert memory.encoder is not None
        assert memory.verify().problems == ()
    assert wrong_vectors(file, OTHERS[0]) == []
    assert not any(name == "staged_vector" for name, _ in everything(file)["tables"])


@pytest.mark.parametrize("finished", [True, False])
def test_whoever_begins_later_with_another_encoder_goes_on(file: Path, finished: bool) -> None:
    later = OTHERS[2] if finished else Watched(128, stopping(3))
    with opened(file, later) as other:

        def begin() -> None:
            try:
                other.reembed()
            except Stopped:
                assert not finished

        with opened(file, Watched(32, meanwhile(begin))) as memory:
            with pytest.raises(Locked, match="another encoder") as caught:
                memory.reembed()
            assert caught.value.hint
            assert memory.verify().problems == ()
    last = OTHERS[2] if finished else HashEncoder(128)
    with opened(file, last) as memory:
        memory.reembed()
    assert wrong_vectors(file, last) == []


# --- Messages without vectors


def test_what_was_added_without_vectors_gets_them(file: Path) -> None:
    before = everything(file)
    with opened(file, OTHERS[0]) as memory:
        memory.add([Message("Zoe", "I play chess in Lima.", id="z"), Message("Zoe", "Is it late?")])
    with memdb.open(file, encoder=OLD) as memory:
        assert memory.verify().warnings
        assert wrong_vectors(file, OLD)
        done = memory.reembed()
        assert done.replaced is None
        assert (
            done.made
            == done.vectors
            == len(wrong_vectors(file, OTHERS[0])) - sum(len(before[table]) for table in VECTORS.split())
        )
        assert memory.verify().warnings == memory.verify().problems == ()
        assert memory.recall("chess in Lima", channels=["message_dense"])[0].source[0].id == "z"
    after = everything(file)
    for table in VECTORS.split():
        assert before[table] == [row for row in after[table] if row in before[table]]
    assert wrong_vectors(file, OLD) == []


def test_the_names_of_traces_follow_labels_that_get_vectors(file: Path) -> None:
    """A label that somebody without vectors wrote first, and a trace that goes by it."""
    with opened(file, OTHERS[0]) as memory:
        memory.add([Message("Zoe", "I live in Lima."), Message("Zoe", "I moved to Quito.")], session="z")
    with memdb.open(file, encoder=OLD) as memory:
        memory.add([Message("Zoe", "I live in Basel."), Message("Zoe", "I live in Turin.")], session="z")
        assert memory.verify().problems == ()
        memory.reembed()
        assert memory.verify().problems == ()


# --- Traces


def test_traces_keep_their_members_and_are_named_anew(path: Path) -> None:
    said = [
        Message("Ana", f"I {text}.")
        for text in ("like red wine", "live in Porto", "work at a bank", "play the piano", "bought a lamp")
    ]
    names = set()
    for encoder in (OLD, *OTHERS):
        path.unlink(missing_ok=True)
        with memdb.open(path, encoder=OLD) as memory:
            memory.add(said)
            with memory._database.atomic() as connection:
                store_traces.clear(connection, 1)
                units = [
                    unit
                    for (unit,) in connection.execute(
                        "SELECT unit_id FROM unit WHERE subject IS NOT NULL ORDER BY 1"
                    )
                ]
                assert len(units) > 3
                trace_id = store_traces.put_trace(connection, 1)
                store_traces.place(
                    connection, [(trace_id, n, unit, int(unit == units[-1])) for n, unit in enumerate(units)]
                )
                told = traces.texts(store_traces.members(connection, traces=[trace_id]))
                store_traces.tell(connection, trace_id, *told)
            assert memory.verify().problems == ()
        before = everything(path)
        with opened(path, encoder) as memory:
            memory.reembed()
            assert memory.verify().problems == ()
        after = everything(path)
        assert after["trace_unit"] == before["trace_unit"]
        [trace], [old] = after["trace"], before["trace"]
        assert trace[3:] == old[3:]
        names.add(trace[2])
    assert len(names) > 1, "the name depends on the encoder, or this shows nothing"


def test_traces_that_a_model_told_stay_told(path: Path) -> None:
    with memdb.open(path, encoder=OLD) as memory:
        memory.add(TALK, session="s")
        memory.build(reader())
    before = everything(path)
    assert before["trace"]
    with opened(path, Turned(64)) as memory:
        memory.reembed()
        assert memory.verify().problems == ()
        assert memory.rebuild_traces() > 0
        assert memory.verify().problems == ()
    # Their names may have changed, and rebuilding told them by rules: members of equal words stay together.
    assert {row[1] for row in everything(path)["trace"]} == {row[1] for row in before["trace"]}


# --- Memories that are open


def test_a_memory_of_the_old_encoder_searches_by_words_from_then_on(file: Path) -> None:
    for encoder in OTHERS[1:]:
        again = filled(file.with_name(encoder.name))
        with memdb.open(again, encoder=OLD) as old, opened(again, encoder) as new:
            assert "message_dense" in channels(old)
            assert channels(new) <= {"message_lexical", "unit_lexical", "unit_attribute"}
            new.reembed()
            with pytest.warns(
                MemdbWarning, match=f"{encoder.name}.*not hash-64.*words alone.*reembed"
            ) as caught:
                found = channels(old)
            assert caught[0].filename == __file__
            assert found <= {"message_lexical", "unit_lexical", "unit_attribute"}
            assert "message_dense" in channels(new)
            assert "message_dense" not in channels(old), "and warns once: a second one would be an error"
            assert old.trace("Ana dwells in") == ()
            assert old.encoder is None
            assert old.about().encoder_name == encoder.name
            old.add([Message("Zoe", "I play chess in Lima.", id="z")])
            assert old.verify().problems == ()
            assert len(wrong_vectors(again, encoder)) > 1
            new.reembed()
            assert wrong_vectors(again, encoder) == []
            assert new.recall("chess in Lima", channels=["message_dense"])[0].source[0].id == "z"


def test_a_memory_turns_back_with_the_file(file: Path) -> None:
    with memdb.open(file, encoder=OLD) as old, opened(file, OTHERS[0]) as new:
        found = answers(old)
        for memory, other in itertools.islice(itertools.cycle([(new, old), (old, new)]), 4):
            memory.reembed()
            assert memory.encoder is not None
            with pytest.warns(MemdbWarning, match="words alone"):
                assert other.encoder is None
        assert answers(old) == found


@pytest.mark.parametrize("encoder", OTHERS, ids=lambda encoder: encoder.name)
@pytest.mark.parametrize("question", ["lamp 7 in Oslo", "Where was the sister of Ben born?"])
def test_a_switch_while_a_question_is_encoded(file: Path, encoder: HashEncoder, question: str) -> None:
    with memdb.open(file, encoder=OLD) as memory:
        memory.add([Message("Ana", "The sister of Ben is Cleo."), Message("Ana", "Cleo was born in Cairo.")])
    switched: list[int] = []

    def switch(texts: Sequence[str]) -> None:
        if texts in ([question], ["born"], ["sister", "born"]) and not switched:
            switched.append(1)
            with opened(file, encoder) as other:
                other.reembed()

    with memdb.open(file, encoder=Watched(64, switch)) as memory:
        found = memory.recall(question)
        assert switched
        assert found
        assert not {"message_dense", "unit_dense"} & {name for one in found for name in one.channels}


@pytest.mark.parametrize("encoder", OTHERS, ids=lambda encoder: encoder.name)
def test_a_switch_while_a_relation_is_looked_for(file: Path, encoder: HashEncoder) -> None:
    with memdb.open(file, encoder=OLD) as memory:
        assert memory.trace("Ana live in")[0].relation_text == "Ana | lives in"
        read = memory._vectors.__class__.read

        def switched_after(vectors: Any, database: Database) -> Any:
            found = read(vectors, database)
            with opened(file, encoder) as other:
                other.reembed()
            return found

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("memdb.construct.plan.Vectors.read", switched_after)
            assert memory.trace("Ana live in") == (), "nothing of the old encoder is compared"
        with pytest.warns(MemdbWarning, match="words alone"):
            assert memory.trace("Ana lives in")[0].current.triple is not None


@pytest.mark.parametrize("by_old", [True, False], ids=["by the old", "by the new"])
@pytest.mark.parametrize("encoder", OTHERS, ids=lambda encoder: encoder.name)
def test_a_switch_while_an_add_is_planned(
    file: Path, encoder: HashEncoder, by_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes of the old encoder are not written, and those of the new one are not left out."""
    made: list[bool] = []
    make_plan = pipeline.make_plan

    def planned(*args: Any) -> Any:
        plan = make_plan(*args)
        made.append(args[1].encoder is not None)
        if len(made) == 1:
            with opened(file, encoder) as other:
                other.reembed()
        return plan

    monkeypatch.setattr(pipeline, "make_plan", planned)
    with opened(file, OLD if by_old else encoder) as memory, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        memory.add([Message("Zoe", "I play chess in Lima.")], session="z")
        assert ["words alone" in str(one.message) for one in told] == [True] * by_old
        assert memory.verify().problems == ()
    assert made == [by_old, not by_old]
    wrong = wrong_vectors(file, encoder)
    assert bool(wrong) == by_old
    assert len(wrong) < 10, "only what the add wrote has no vectors"


@pytest.mark.parametrize("times", [1, 5], ids=["once", "again and again"])
def test_a_switch_while_a_window_is_planned(path: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with memdb.open(path, encoder=OLD) as memory:
        memory.add(TALK[:6], session="s")
    switches = [OTHERS[0], OLD, OTHERS[0], OLD, OTHERS[0]][:times]
    left = iter(switches)
    plan_units = construct_build.plan_units
    made: list[bool] = []

    def planned(*args: Any) -> Any:
        plan = plan_units(*args)
        made.append(args[1].encoder is not None)
        if not args[0]._writer.in_transaction and (encoder := next(left, None)) is not None:
            with opened(path, encoder) as other:
                other.reembed()
        return plan

    monkeypatch.setattr(construct_build, "plan_units", planned)
    with memdb.open(path, encoder=OLD) as memory:
        assert memory.build(reader()).done == 1
        assert memory.verify().problems == ()
    assert made == ([True, False] if times == 1 else [True, False, True, False, True])
    with opened(path, OTHERS[0]) as memory:
        assert memory.reembed().replaced == (None if times == 1 else OLD.name)
    assert wrong_vectors(path, OTHERS[0]) == []


def test_a_plan_that_is_overtaken_again_and_again_is_made_under_the_lock(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter([OTHERS[0], OLD, OTHERS[0], OLD, OTHERS[0]])
    make_plan = pipeline.make_plan

    def planned(*args: Any) -> Any:
        plan = make_plan(*args)
        if (encoder := next(turns, None)) is not None and not args[0]._writer.in_transaction:
            with opened(file, encoder) as other:
                other.reembed()
        return plan

    with memdb.open(file, encoder=OLD) as memory:
        monkeypatch.setattr(pipeline, "make_plan", planned)
        memory.add([Message("Zoe", "I play chess in Lima.")], session="z")
        assert memory.verify().problems == ()
        assert memory.encoder is OLD
    assert wrong_vectors(file, OLD) == []


def test_two_threads_reembed_and_others_read_and_add(file: Path) -> None:
    with opened(file, OTHERS[0]) as memory, ThreadPoolExecutor(4) as pool:
        works = [pool.submit(memory.reembed) for _ in range(2)]
        works += [pool.submit(memory.recall, f"lamp {n}") for n in range(40)]
        works += [
            pool.submit(memory.add, [Message("Zoe", f"I play tune {n}.")], session="z") for n in range(20)
        ]
        for work in works:
            work.result()
        memory.reembed()
        assert memory.verify().problems == memory.verify().warnings == ()
    assert wrong_vectors(file, OTHERS[0]) == []


# --- The file


def test_the_switch_is_the_only_transaction_that_changes_what_is_in_use(file: Path) -> None:
    seen: list[list[str]] = [[]]
    with opened(file, OTHERS[0]) as memory:
        writer: Any = memory._database._writer

        def trace(cursor: Any, sql: str, bindings: Any) -> bool:
            seen[-1].append(sql)
            if sql == "COMMIT":
                seen.append([])
            return True

        writer.set_exec_trace(trace)
        memory.reembed()
        writer.set_exec_trace(None)
    uses = [
        any("DROP TABLE message_vector" in sql or "INSERT INTO label_vector" in sql for sql in transaction)
        for transaction in seen
    ]
    assert uses.count(True) == 1
    assert len(seen) > 10
    [switch] = [transaction for transaction, use in zip(seen, uses, strict=True) if use]
    assert switch[0] == "BEGIN IMMEDIATE"
    assert any("UPDATE meta SET value = CASE key" in sql for sql in switch)


def test_a_forged_staging_table_is_refused(file: Path) -> None:
    for extra in (
        "CREATE TABLE staged_vector (kind, row_id, code)",
        "CREATE VIEW staged_vector AS SELECT 1 AS kind, 1 AS row_id, x'00' AS code",
        staging.statement("create_staged_vector") + "; CREATE INDEX extra ON staged_vector (row_id)",
    ):
        forged = filled(file.with_name("forged"))
        connection = apsw.Connection(str(forged))
        connection.execute(extra)
        connection.close()
        with pytest.raises(memdb.Damaged, match="no memory has"):
            memdb.open(forged, encoder=OLD)
        forged.unlink()


@pytest.fixture
def halfway(file: Path) -> Path:
    with opened(file, Watched(32, stopping(6))) as memory, pytest.raises(Stopped):
        memory.reembed()
    return file


def test_a_file_halfway_opens_for_everybody(halfway: Path) -> None:
    for encoder in (OLD, OTHERS[0], OTHERS[2]):
        for read_only in (True, False):
            with opened(halfway, encoder, read_only=read_only) as memory:
                assert memory.recall("lamp 7 in Oslo")[0].text.startswith("I bought lamp 7")
                assert memory.verify().problems == ()
                assert (memory.encoder is None) == (encoder is not OLD)


@pytest.mark.parametrize(
    "forged",
    [
        "UPDATE staged_vector SET code = x'00'",
        "UPDATE staged_vector SET code = zeroblob(100000) WHERE row_id = 1",
        "INSERT INTO staged_vector VALUES ('message', 999, zeroblob(32))",
        "UPDATE meta SET value = 5 WHERE key = 'staged_encoder_sha256'",
        "UPDATE meta SET value = x'00' WHERE key = 'staged_encoder_sha256'",
        "DELETE FROM meta WHERE key = 'staged_encoder_sha256'",
        "DROP TABLE staged_vector",
    ],
)
def test_what_a_stranger_staged_is_given_up(halfway: Path, forged: str) -> None:
    connection = apsw.Connection(str(halfway))
    connection.execute(forged)
    connection.close()
    with memdb.open(halfway, encoder=OLD) as memory:
        assert memory.recall("lamp 7 in Oslo")[0].text.startswith("I bought lamp 7")
        told = memory.verify()
        assert told.problems or told.warnings or "DELETE FROM meta" in forged
    with opened(halfway, OTHERS[0]) as memory:
        memory.reembed()
        assert memory.verify().problems == ()
    assert wrong_vectors(halfway, OTHERS[0]) == []


def test_schema_of_a_switched_file_is_that_of_a_new_one(file: Path) -> None:
    with opened(file, OTHERS[1]) as memory:
        memory.reembed()
        with memory._database.reader() as connection:
            assert schema.foreign_objects(connection) == []

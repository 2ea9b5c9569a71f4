"""Building windows: exactly once, in order, resumable, and nothing of what was there before stays."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb.construct.build import in_order
from memdb.errors import InputError, MemdbWarning, ModelError, ModelUnavailable, ReadOnly, ScopeError
from memdb.generate.prompts import prompt
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.models.ports import Completion, Turn
from memdb.records import Built, Message, Scope, Window
from tests.conftest import OpenMemory
from tests.scripted import (
    TALK,
    Schema,
    differing,
    everything,
    facts,
    first_id,
    listed,
    reader,
    reads,
    saying,
    stage,
    unit,
)

BY_RULES = "rules-3"


def open_at(path: Path, **options: Any) -> memdb.Memory:
    return memdb.open(path, encoder=HashEncoder(64), **options)


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


def asked(backbone: ScriptedBackbone) -> list[tuple[str, str]]:
    """(stage, first message) of every question about a window."""
    about = [(stage(call.schema), call.turns) for call in backbone.calls]
    return [(kind, first_id(turns)) for kind, turns in about if kind != "trajectory"]


def states(memory: memdb.Memory) -> list[tuple[str, str | None, int, int]]:
    return [(w.state, w.made_by, w.attempts, w.units) for w in memory.windows()]


@pytest.fixture
def talk(path: Path) -> Path:
    """A memory of two sessions, made by rules and closed."""
    with open_at(path) as memory:
        memory.add(TALK[:11], session="s")
        memory.add(TALK[7:13], session="t", source="chat")
    return path


@pytest.fixture
def unbroken(talk: Path) -> dict[str, list[Any]]:
    """What the memory holds after one build that nothing disturbs."""
    path = copied(talk, "unbroken")
    with open_at(path) as memory:
        memory.build(reader())
        assert memory.verify().problems == ()
    return everything(path)


def test_a_build_replaces_the_units_of_rules_by_those_of_the_model(talk: Path) -> None:
    before = everything(talk)
    backbone = reader()
    with open_at(talk) as memory:
        built = memory.build(backbone)
        assert memory.verify().problems == ()
        assert memory.verify().warnings == ()
        done = [
            ("done", f"scripted prompts {memory.windows()[0].made_by[-8:]}", 1, units)
            for units in (6, 4, 1, 6)
        ]
        assert states(memory) == done
    assert (built.windows, built.done, built.failed, built.passed, built.units) == (4, 4, 0, 0, 17)
    assert (built.traces, built.told, built.trajectories, built.rejected) == (2, 2, 2, {})
    assert built.prompt_tokens > built.completion_tokens > 100
    places = [TALK[n].content.split()[3].rstrip(".") for n in [*range(11), *range(7, 13)]]
    who = [TALK[n].speaker for n in [*range(11), *range(7, 13)]]
    assert facts(talk) == [f"{speaker} lives in {city}." for speaker, city in zip(who, places, strict=True)]
    after = everything(talk)
    assert after["message"] == before["message"]
    assert after["message_terms"] == before["message_terms"]
    old, new = ({row[0] for row in found["unit"]} for found in (before, after))
    assert not old & new
    for table, at in (("unit_terms", 1), ("unit_vector", 0), ("triple_vector", 0), ("unit_label", 1)):
        assert {row[at] for row in after[table]} == new, table
    assert {row[0] for row in after["unit_interval"]} | {row[2] for row in after["trace_unit"]} <= new
    names = {(row[1], row[2]) for row in after["label"]}
    assert ("predicate", "cat is called") in {(row[1], row[2]) for row in before["label"]}
    assert not {name for _, name in names if "cat" in name or "Pepper" in name}
    assert {row[0] for row in after["label_vector"]} == {row[0] for row in after["label"]}
    assert not {row[0] for row in after["unit_terms"]} & {"cat", "pepper0", "move"}


def test_a_second_build_has_nothing_to_do(talk: Path) -> None:
    with open_at(talk) as memory:
        memory.build(reader())
        before, again = everything(talk), reader()
        assert memory.build(again) == Built()
    assert again.calls == []
    assert differing(talk, before) == []


class Stopped(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_build_that_stops_at_any_call_and_goes_on_ends_in_the_same_rows(
    talk: Path, unbroken: dict[str, list[Any]], parallel: int
) -> None:
    lock = threading.Lock()
    stops = 0
    for number in range(1, 20):
        path = copied(talk, f"stopped{number}")
        calls = 0

        def script(turns: Sequence[Turn], schema: Schema, stop: int = number) -> str | Exception:
            nonlocal calls
            with lock:
                calls += 1
                if calls == stop:
                    return Stopped()
            return reads(turns, schema)

        with open_at(path) as memory:
            try:
                memory.build(ScriptedBackbone(script, parallel=parallel))
            except Stopped:
                stops += 1
                assert memory.verify().problems == (), number
            else:
                assert number == 11, "four windows with two questions each, and two traces"
                break
        with open_at(path) as memory:
            memory.build(reader(parallel=parallel))
            assert memory.verify().problems == ()
        assert differing(path, unbroken) == [], number
    assert stops == 10


def test_windows_are_written_one_by_one_as_they_are_made(talk: Path) -> None:
    """Each is durable before the next is asked about: another process sees it."""
    seen: list[list[str]] = []

    def script(turns: Sequence[Turn], schema: Schema) -> str:
        if stage(schema) == "units":
            with open_at(talk, read_only=True) as other:
                seen.append([window.state for window in other.windows(scope="*")])
        return reads(turns, schema)

    with open_at(talk) as memory:
        told: list[Built] = []
        memory.build(ScriptedBackbone(script), progress=told.append)
    assert seen[0] == ["rules"] * 4
    assert [states.count("done") for states in seen] == sorted(states.count("done") for states in seen)
    assert [one.done for one in told if not one.traces] == [0, 1, 2, 3, 4]
    assert [one.told for one in told if one.traces] == [0, 1, 2]
    assert {one.windows for one in told} == {4}


def test_answers_that_come_in_any_order_give_the_same_file(
    talk: Path, unbroken: dict[str, list[Any]]
) -> None:
    """Four at a time, each group of four answered backwards."""
    with open_at(talk) as memory:
        memory.add(TALK * 3, session="u")  # repeated ids: thirteen messages
    firsts = [f"M{n + 1}" for n in (0, 4, 8)] * 2
    path = copied(talk, "backwards")
    with open_at(talk) as memory:
        memory.build(reader())
    windows = 3 + 1 + 3
    order: list[int] = []
    answered = [threading.Event() for _ in range(windows + 1)]
    answered[windows].set()
    numbers = iter(range(windows))
    taken: dict[str, int] = {}
    lock = threading.Lock()

    def script(turns: Sequence[Turn], schema: Schema) -> str:
        if stage(schema) != "units":
            return reads(turns, schema)
        with lock:
            number = taken.setdefault(turns[1].text, next(numbers))
        if number % 4 != 3:
            assert answered[number + 1].wait(30)
        order.append(number)
        answered[number].set()
        return reads(turns, schema)

    with open_at(path) as memory:
        built = memory.build(ScriptedBackbone(script, parallel=4))
        assert memory.verify().problems == ()
    assert len(firsts) <= windows
    assert built.done == windows
    assert order != sorted(order)
    assert differing(path, everything(talk)) == []


def test_things_are_made_in_parallel_but_not_far_ahead_and_come_in_order() -> None:
    taken: list[int] = []

    class Watched(list[int]):
        def __iter__(self) -> Iterator[int]:
            for number in super().__iter__():
                taken.append(number)
                yield number

    def square(number: int) -> int:
        return number * number

    made = in_order(square, Watched(range(100)), 3)
    assert next(made) == 0
    assert len(taken) == 3 * 2 + 1
    made.close()
    assert len(taken) == 3 * 2 + 1
    assert list(in_order(square, range(20), 3)) == [number * number for number in range(20)]
    assert list(in_order(square, [], 1)) == []


def test_when_writing_fails_nothing_more_is_asked(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while the error, and with it the frame of the build, is still held."""

    def fail(*args: Any, **options: Any) -> None:
        raise Stopped

    monkeypatch.setattr("memdb.store.windows.finish", fail)
    backbone = reader(parallel=2)
    with open_at(talk) as memory:
        with pytest.raises(Stopped) as caught:
            memory.build(backbone)
        asked_then = len(backbone.calls)
        assert not [t for t in threading.enumerate() if t.name.startswith("memdb-build")]
        assert len(backbone.calls) == asked_then
        assert caught.value is not None
        assert memory.verify().problems == ()
        assert [window.state for window in memory.windows()] == ["rules"] * 4


# --- Windows that grow, fail, and are done again


def test_appending_changes_the_open_window_only(path: Path) -> None:
    with open_at(path) as memory:
        memory.add(TALK[:8], session="s")
        memory.build(reader())
        made_by = memory.windows()[0].made_by
        memory.add(TALK[8:9], session="s")
        assert states(memory) == [("done", made_by, 1, 6), ("pending", made_by, 0, 4)]
        assert facts(path)[6:] == [
            "Ana lives in Basel.",
            "Ben lives in Cairo.",
            "Ana moved to Delhi.",
            "Ana's cat is called Pepper8.",
        ]
        assert memory.verify().problems == ()
        again = reader()
        assert memory.build(again).done == 1
        assert asked(again) == [("units", "M5"), ("indexes", "M5")]
        assert states(memory) == [("done", made_by, 1, 6), ("done", made_by, 1, 3)]
        assert facts(path)[6:] == ["Ana lives in Basel.", "Ben lives in Cairo.", "Ana lives in Delhi."]
        assert memory.verify().problems == ()


def test_a_full_last_window_is_never_asked_about_again(path: Path) -> None:
    with open_at(path) as memory:
        memory.add(TALK[:6], session="s")
        memory.build(reader())
        before = everything(path)["window"]
        memory.add(TALK[6:7], session="s")
        assert everything(path)["window"][:1] == before
        again = reader()
        memory.build(again)
    assert asked(again) == [("units", "M5"), ("indexes", "M5")]


@pytest.mark.parametrize("portions", [1, 4, 13])
def test_building_after_every_portion_or_at_the_end_gives_the_same_units(path: Path, portions: int) -> None:
    whole = path.with_name("whole")
    with open_at(whole) as memory:
        memory.add(TALK, session="s")
        memory.build(reader())
    with open_at(path) as memory:
        for start in range(0, len(TALK), portions):
            memory.add(TALK[start : start + portions], session="s")
            memory.build(reader())
        assert memory.verify().problems == ()
    assert facts(path) == facts(whole)


def test_a_window_that_failed_waits_for_retry(talk: Path) -> None:
    def broken(turns: Sequence[Turn], schema: Schema) -> str:
        about_it = stage(schema) == "units" and first_id(turns) == "M5"
        return "no JSON" if about_it else reads(turns, schema)

    before = facts(talk)
    with open_at(talk) as memory:
        with pytest.warns(MemdbWarning, match="1 window cannot be used: .* build with retry"):
            built = memory.build(ScriptedBackbone(broken), session="s")
        assert (built.done, built.failed, built.rejected) == (2, 1, {"bad_json": 2})
        failed = memory.windows("s")[1]
        assert (failed.state, failed.made_by, failed.attempts, failed.units) == ("failed", BY_RULES, 1, 8)
        assert failed.error == "no JSON of the right shape: there is no JSON object in it"
        assert [(one.stage, one.reason) for one in failed.rejections] == [("units", "bad_json")] * 2
        assert facts(talk)[6:14] == before[12:20]
        assert memory.verify().problems == ()
        untouched = reader()
        with pytest.warns(MemdbWarning, match="1 window cannot be used"):
            assert memory.build(untouched, session="s").failed_before == 1
        assert asked(untouched) == []
        with pytest.warns(MemdbWarning):
            memory.build(saying("still none"), session="s", retry=True)
        assert memory.windows("s")[1].attempts == 2
        again = reader()
        assert memory.build(again, session="s", retry=True).done == 1
        assert asked(again) == [("units", "M5"), ("indexes", "M5")]
        mended = memory.windows("s")[1]
        assert (mended.state, mended.attempts, mended.error, mended.rejections) == ("done", 3, None, ())


def test_a_failed_window_that_grows_is_a_new_one(path: Path) -> None:
    with open_at(path) as memory:
        memory.add(TALK[:3], session="s")
        with pytest.warns(MemdbWarning):
            memory.build(saying("no"))
        memory.add(TALK[3:4], session="s")
        [window] = memory.windows()
        assert (window.state, window.attempts, window.error, window.units) == ("rules", 0, None, 8)
        assert memory.build(reader()).done == 1


def test_redo_takes_the_windows_of_other_models_and_prompts(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_at(talk) as memory:
        memory.build(reader())
        same, other, told = reader(), reader(name="other"), reader(name="other")
        assert memory.build(same, redo=True).windows == 0
        assert memory.build(other).windows == 0, "without redo nothing is done twice"
        assert memory.build(told, redo=True).done == 4
        assert {w.made_by for w in memory.windows()} == {f"other prompts {memory.windows()[0].made_by[-8:]}"}
        changed = memdb.records.Prompt("Be careful.", "$annotated_memory_content\nMessages: $start_turn to")
        monkeypatch.setattr(
            "memdb.generate.prompts.prompt", lambda name: changed if name == "units" else prompt(name)
        )
        assert memory.build(reader(name="other")).windows == 0
        assert memory.build(reader(name="other"), redo=True).done == 4
        assert memory.verify().problems == ()


def test_a_redo_that_fails_keeps_the_units_of_the_model_before(talk: Path) -> None:
    with open_at(talk) as memory:
        memory.build(reader())
        before, made_by = facts(talk), memory.windows()[0].made_by
        with pytest.warns(MemdbWarning):
            memory.build(saying("no", name="other"), redo=True)
        assert {(w.state, w.made_by) for w in memory.windows()} == {("failed", made_by)}
        assert facts(talk) == before
        assert memory.verify().problems == ()


def without_ids(found: dict[str, list[Any]]) -> list[Any]:
    units = {row[0]: row[1:] for row in found["unit"]}
    names = {row[0]: row[1:] for row in found["label"]}
    labels = [(units[unit_id], names[label_id]) for label_id, unit_id in found["unit_label"]]
    times = [(units[row[0]], row[1:]) for row in found["unit_interval"]]
    traces = {row[0]: row[1:] for row in found["trace"]}
    members = [(traces[t], n, units[unit_id], current) for t, n, unit_id, current in found["trace_unit"]]
    terms = [(term, units[unit_id], *rest) for term, unit_id, *rest in found["unit_terms"]]
    vectors = [(units[row[0]], row[1:]) for row in found["unit_vector"] + found["triple_vector"]]
    vectors += [(names[row[0]], row[1:]) for row in found["label_vector"]]
    windows = [(*row[:7], row[8]) for row in found["window"]]
    parts = (units.values(), labels, times, members, terms, vectors, windows)
    return [sorted(part, key=repr) for part in parts]


def test_rules_undo_what_a_model_made(talk: Path) -> None:
    """All but the ids, and the count of attempts, is as if no model had ever been asked."""
    before = everything(talk)
    with open_at(talk) as memory:
        assert memory.build() == Built(), "rules of this version are not made anew"
        memory.build(reader())
        assert memory.build() == Built(), "what a model made is left alone"
        built = memory.build(redo=True)
        assert (built.done, built.traces, built.prompt_tokens) == (4, 0, 0)
        assert memory.verify().problems == ()
        memory.rebuild_traces()
    with open_at(copied(talk, "again")) as memory:
        assert memory.verify().problems == ()
    after = everything(talk)
    assert without_ids(after)[:3] == without_ids(before)[:3]
    assert without_ids(after)[4:] == without_ids(before)[4:]


def test_units_of_older_rules_are_made_anew(talk: Path) -> None:
    expected = facts(talk)
    with open_at(talk) as memory:
        with memory._database.atomic() as connection:
            connection.execute("UPDATE window SET made_by = 'rules-0' WHERE window_no = 0")
            connection.execute("UPDATE unit SET fact_text = 'Old.' WHERE window_no = 0")
        assert memory.build().done == 2
        assert memory.verify().problems == ()
    assert facts(talk) == expected


# --- Somebody else


def test_a_window_that_changed_meanwhile_is_passed_over(path: Path) -> None:
    with open_at(path) as memory, open_at(path) as other:
        memory.add(TALK[:8], session="s")
        late = list(TALK[8:10])

        def script(turns: Sequence[Turn], schema: Schema) -> str:
            if stage(schema) == "units" and first_id(turns) == "M5" and late:
                other.add([late.pop(0)], session="s")
            return reads(turns, schema)

        built = memory.build(ScriptedBackbone(script))
        assert (built.windows, built.done, built.passed, built.units) == (2, 1, 1, 6)
        assert [w.state for w in memory.windows()] == ["done", "rules"]
        assert len(memory.messages("s")) == 9
        assert memory.verify().problems == ()
        assert memory.build(ScriptedBackbone(script)).passed == 1
        assert memory.build(ScriptedBackbone(script)).done == 1
        assert facts(path) == [f"{m.speaker} lives in {m.content.split()[3].rstrip('.')}." for m in TALK[:10]]


@pytest.mark.parametrize("other_fails", [False, True])
def test_two_that_build_at_once_write_each_window_once(talk: Path, other_fails: bool) -> None:
    with open_at(talk) as memory, open_at(talk) as other:
        went = []

        def script(turns: Sequence[Turn], schema: Schema) -> str:
            if not went:
                went.append(True)
                if other_fails:
                    with pytest.warns(MemdbWarning):
                        went.append(other.build(saying("no"), session="s"))
                else:
                    went.append(other.build(reader(), session="s"))
            return reads(turns, schema)

        backbone = ScriptedBackbone(script)
        built = memory.build(backbone)
        assert (built.done, built.passed) == (1, 3), "it went on with what nobody had done"
        assert asked(backbone) == [("units", "M1"), ("indexes", "M1")] * 2, "nor asked for anything else"
        assert {w.attempts for w in memory.windows()} == {1}
        assert memory.verify().problems == ()


def test_a_label_that_somebody_took_away_is_planned_anew(path: Path) -> None:
    """A label is known when the write is planned and gone when it is written: it gets its vector again."""

    class Watched(HashEncoder):
        meanwhile: Callable[[], object] = staticmethod(lambda: None)

        def encode(self, texts: Sequence[str], **kind: Any) -> Any:
            if "asked about" in texts:  # a new label: what is known was read before
                self.meanwhile()
            return super().encode(texts, **kind)

    watched = Watched(64)
    offered = unit("M1", "M1", "Ben asked about Rome.", "Ben", "asked about", "Rome")
    backbone = ScriptedBackbone(
        [listed(offered), listed({"memory_unit_id": "U1", "locations": ["Rome"]})],
    )
    with memdb.open(path, encoder=watched) as memory, open_at(path) as other:
        other.add([Message("Ana", "I moved to Rome.")], session="t")
        memory.add([Message("Ben", "What is it like in Rome?")], session="s")
        assert len(facts(path)) == 1, "a question claims nothing: the label is the other session's"
        gone: list[Built] = []

        def take() -> None:
            if not gone:
                with pytest.warns(MemdbWarning, match="found nothing"):
                    gone.append(other.build(saying(listed()), session="t"))

        watched.meanwhile = take
        assert memory.build(backbone, session="s").done == 1
        assert [one.done for one in gone] == [1]
        assert facts(path) == ["Ben asked about Rome."]
        assert memory.verify().problems == ()
        assert memory.verify().warnings == (), "no label is without a vector"


def test_one_scopes_build_never_reads_anothers(path: Path) -> None:
    with open_at(path, scope="ana") as memory:
        memory.add(TALK[:2], session="s")
    with open_at(path, scope="ben") as memory:
        memory.add([Message("Ben", "My secret is xyzzy. I moved to Lima.", "2024-01-10")], session="s")
    backbone = reader()
    with open_at(path, scope="ana") as memory:
        assert memory.build(backbone).windows == 1
        assert memory.windows() != ()
        for foreign in ("ben", "*", Scope(), Scope(agent="x")):
            with pytest.raises(ScopeError):
                memory.build(backbone, scope=foreign)
            with pytest.raises(ScopeError):
                memory.windows(scope=foreign)
    assert not [turn for call in backbone.calls for turn in call.turns if "xyzzy" in turn.text]
    with open_at(path, scope="ben") as memory:
        assert [w.state for w in memory.windows()] == ["rules"]
    with open_at(path, scope="*") as memory:
        assert [w.state for w in memory.windows()] == ["done", "rules"]
        assert memory.build(reader()).windows == 1
        assert memory.verify().problems == ()


def test_traces_of_others_are_not_told(path: Path) -> None:
    for user in ("ana", "ben"):
        with open_at(path, scope=user) as memory:
            memory.add(TALK, session="s")
    with open_at(path, scope="ana") as memory:
        assert memory.build(reader()).trajectories == 2
    made = [(row[1], row[4]) for row in everything(path)["trace"]]
    assert {by.split(" ")[0] for scope, by in made if scope == 1} == {"scripted"}
    assert {by for scope, by in made if scope == 2} == {"rules"}


def test_one_session_of_one_source(talk: Path) -> None:
    with open_at(talk) as memory:
        backbone = reader()
        for there_is_none in (lambda: memory.build(backbone, session="t"), lambda: memory.windows("t")):
            with pytest.raises(InputError, match="no session 't'"):
                there_is_none()
        assert backbone.calls == []
        assert memory.build(reader(), session="t", source="chat").windows == 1
        assert [w.session for w in memory.windows("s")] == ["s"] * 3
        [window] = memory.windows("t", source="chat")
        assert (window.first, window.end, window.new, window.number) == (0, 6, 0, 0)
        assert isinstance(window, Window)


@pytest.mark.parametrize("bad", [{"session": 5}, {"session": ""}, {"session": "s", "source": 3}])
def test_names_that_are_none_are_refused(talk: Path, bad: dict[str, Any]) -> None:
    backbone = reader()
    with open_at(talk) as memory:
        with pytest.raises(InputError):
            memory.build(backbone, **bad)
        with pytest.raises(InputError):
            memory.windows(**bad)
    assert backbone.calls == []


def test_a_memory_for_reading_is_not_built_and_the_model_not_asked(talk: Path) -> None:
    backbone = reader()
    with open_at(talk, read_only=True) as memory, pytest.raises(ReadOnly):
        memory.build(backbone)
    assert backbone.calls == []


def test_a_model_given_by_its_name_is_closed_and_one_that_was_given_is_not(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, given = reader(), reader()
    monkeypatch.setattr("memdb.models.registry.load_backbone", lambda spec: loaded)
    with open_at(talk) as memory:
        assert memory.build("some.gguf", session="s").done == 3
        assert memory.build(given).done == 1
    with pytest.raises(ModelError, match="closed"):
        loaded.complete([Turn("user", "there?")], max_tokens=1)
    assert given.complete(given.calls[0].turns, max_tokens=999, schema=given.calls[0].schema).finish == "stop"


def test_without_the_files_encoder_units_have_no_vectors(talk: Path) -> None:
    with pytest.warns(MemdbWarning, match="by words alone"):
        memory = memdb.open(talk, encoder=HashEncoder(32))
    with memory:
        memory.build(reader())
        assert memory.verify().problems == ()
        assert memory.about().counts["unit_vectors"] == 0
        assert memory.about().counts["label_vectors"] < memory.about().counts["labels"]


# --- Adding with a backbone


def test_adding_builds_the_windows_that_are_full(open_memory: OpenMemory, path: Path) -> None:
    backbone = reader()
    memory = open_memory(backbone=backbone)
    memory.add(TALK[:5], session="s")
    assert backbone.calls == []
    memory.add(TALK[5:9], session="s")
    assert asked(backbone) == [("units", "M1"), ("indexes", "M1")]
    memory.add(iter(TALK[9:]), session="s")
    assert asked(backbone)[2:] == [("units", "M5"), ("indexes", "M5")]
    assert [w.state for w in memory.windows()] == ["done", "done", "rules"]
    assert not [call for call in backbone.calls if stage(call.schema) == "trajectory"]
    memory.add(TALK[:9], session="other")
    assert asked(backbone)[4:] == [("units", "M1"), ("indexes", "M1")], "of the session that grew alone"
    assert memory.build().done == 2, "the memory's own model, also for what is open"
    assert {w.state for w in memory.windows()} == {"done"}
    assert memory.verify().problems == ()


def test_adding_in_one_scope_builds_nothing_of_another(open_memory: OpenMemory) -> None:
    open_memory(scope="ben").add(TALK[:6], session="s")
    backbone = reader()
    open_memory(scope="ana", backbone=backbone).add(TALK[:6], session="s")
    assert [w.state for w in open_memory(scope="ben").windows()] == ["rules"]
    assert len(backbone.calls) == 2


@pytest.mark.parametrize("error", [ModelUnavailable("gone"), ModelError("broken"), InputError("too long")])
def test_adding_keeps_the_messages_when_the_model_is_gone(open_memory: OpenMemory, error: Exception) -> None:
    answers: list[Any] = [error]
    memory = open_memory(
        backbone=ScriptedBackbone(lambda turns, schema: answers.pop() if answers else reads(turns, schema))
    )
    with pytest.warns(MemdbWarning, match="the messages are stored"):
        assert memory.add(TALK[:6], session="s").stored == 6
    assert states(memory) == [("rules", BY_RULES, 0, 12)]
    memory.add(TALK[6:7], session="s")
    assert [w.state for w in memory.windows()] == ["done", "rules"], "it is tried again when more is added"
    assert memory.verify().problems == ()


def test_adding_is_done_even_if_building_finds_the_file_locked(open_memory: OpenMemory, path: Path) -> None:
    """The messages are stored: an error would say that they are not."""
    other = apsw.Connection(str(path))

    def script(turns: Sequence[Turn], schema: Schema) -> str:
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        return reads(turns, schema)

    memory = open_memory(backbone=ScriptedBackbone(script), busy_timeout_ms=1)
    with pytest.warns(MemdbWarning, match="the messages are stored, but their facts were not built"):
        assert memory.add(TALK[:6], session="s").stored == 6
    other.close()
    assert [w.state for w in memory.windows()] == ["rules"]


def test_what_failed_when_it_was_added_is_not_asked_again_by_adding(open_memory: OpenMemory) -> None:
    backbone = saying("no JSON")
    memory = open_memory(backbone=backbone)
    with pytest.warns(MemdbWarning, match="1 window cannot"):
        memory.add(TALK[:6], session="s")
    assert len(backbone.calls) == 2
    memory.add(TALK[6:7], session="s")
    assert len(backbone.calls) == 2


# --- What a model made proves itself


@pytest.mark.parametrize(
    "forged",
    [
        "UPDATE unit SET fact_text = 'Ana confessed.' WHERE unit_id = (SELECT max(unit_id) FROM unit)",
        "UPDATE label SET name = 'Vienna', folded = 'vienna' WHERE name = 'Porto' AND axis = 'location'",
        "UPDATE unit_interval SET start_day = start_day - 400, end_day = end_day - 400",
    ],
)
@pytest.mark.parametrize("grown", [False, True])
def test_units_of_a_model_that_are_indexed_by_other_terms_are_found(
    path: Path, forged: str, grown: bool
) -> None:
    with open_at(path) as memory:
        memory.add(TALK[:5], session="s")
        memory.build(reader())
        if grown:
            memory.add(TALK[5:6], session="s")
        assert memory.verify().problems == ()
        with memory._database.atomic() as connection:
            connection.execute(forged)
        assert "units" in {problem.check for problem in memory.verify().problems}


def test_the_same_days_told_twice_are_one_time(path: Path) -> None:
    """By another granularity: the unit is indexed by the one that is stored."""
    month = {"start": "2023-05", "end": "2023-05", "granularity": "month"}
    days = {"start": "2023-05-01", "end": "2023-05-31", "granularity": "day"}
    year = {"start": "2023", "end": "2023", "granularity": "year"}
    replies = [
        listed(unit("M1", "M1", "Ana moved to Porto.", "Ana", "moved to", "Porto")),
        listed(
            {
                "memory_unit_id": "U1",
                "entities": ["Porto"],
                "locations": ["Porto"],
                "time": [month, days, year],
            }
        ),
    ]
    with open_at(path) as memory:
        memory.add([Message("Ana", "I moved to Porto in May 2023.", "2024-01-01")])
        memory.build(ScriptedBackbone(replies))
        assert [row[3] for row in everything(path)["unit_interval"]] == ["year", "month"]
        assert memory.verify().problems == ()


# --- Traces


def trajectories(path: Path) -> list[tuple[str, str]]:
    return [(row[3], row[4]) for row in everything(path)["trace"]]


def test_a_trajectory_that_is_refused_stays_the_rules_and_is_not_asked_for_twice(talk: Path) -> None:
    def script(turns: Sequence[Turn], schema: Schema) -> str:
        invented = '{"trajectory": "Ana and Ben moved to Mars."}'
        return invented if stage(schema) == "trajectory" else reads(turns, schema)

    backbone = ScriptedBackbone(script)
    with open_at(talk) as memory:
        built = memory.build(backbone)
        assert (built.traces, built.told, built.trajectories) == (2, 2, 0)
        assert {by.split(" ")[0] for _, by in trajectories(talk)} == {"rules/scripted"}
        assert all("Latest: " in text for text, _ in trajectories(talk))
        assert memory.verify().problems == ()
        calls = len(backbone.calls)
        assert memory.build(backbone).traces == 0
        assert len(backbone.calls) == calls
        assert memory.build(reader(name="other")).trajectories == 2
        assert memory.build(reader(name="other")).traces == 0


def test_a_trace_that_changes_is_told_again(talk: Path) -> None:
    with open_at(talk) as memory:
        memory.build(reader())
        memory.add([Message("Ana", "I moved to Vienna.", "2024-03-01")], session="s")
        memory.update_traces()
        told = memory.build(reader())
        assert (told.done, told.traces, told.trajectories) == (1, 1, 1)
        [ana] = [text for text, _ in trajectories(talk) if "Vienna" in text]
        assert ana.endswith("Then Ana lives in Vienna.")
        assert memory.verify().problems == ()


def test_what_a_model_told_is_checked_for_its_relation(talk: Path) -> None:
    with open_at(talk) as memory:
        memory.build(reader())
        with memory._database.atomic() as connection:
            connection.execute("UPDATE trace SET trajectory = trajectory || ' And so on.'")
        assert memory.verify().problems == (), "what a model told cannot be derived again"
        with memory._database.atomic() as connection:
            connection.execute("UPDATE trace SET relation_text = 'Zoe | lives in' WHERE trace_id = "
                               "(SELECT min(trace_id) FROM trace)")  # fmt: skip
        assert [problem.check for problem in memory.verify().problems] == ["trace_texts"]


def test_a_trace_that_changed_while_it_was_told_is_left_for_the_next_time(talk: Path) -> None:
    with open_at(talk) as memory, open_at(talk) as other:
        late = [
            Message("Ana", "I live in Vienna.", "2024-03-01"),
            Message("Ben", "I live in Bern.", "2024-03-01"),
        ]

        def script(turns: Sequence[Turn], schema: Schema) -> str:
            if stage(schema) == "trajectory" and late:
                other.add([late.pop(0), late.pop(0)], session="v")
            return reads(turns, schema)

        built = memory.build(ScriptedBackbone(script))
        assert (built.traces, built.told) == (2, 2)
        assert built.trajectories < 2
        assert memory.verify().problems == ()
        with pytest.warns(MemdbWarning, match="found nothing in 1 window that had facts"):
            again = memory.build(reader())  # who reads the talk alone makes nothing of Vienna
        assert (again.emptied, again.traces >= 1) == (1, True)
        assert memory.verify().problems == ()
        assert memory.build(redo=True).units > 0


def test_in_a_large_file_traces_learn_of_rebuilt_units_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new units have the ids of the old ones, which traces knew of."""
    with open_at(path) as memory:
        memory.add(TALK[:6], session="s")
        monkeypatch.setattr("memdb.settings.TRACED_ON_ADD_UNITS", 0)
        memory.build(reader())
        assert everything(path)["trace"] == []
        assert {row[0] for row in everything(path)["unit"]} == set(range(1, 7))
        memory.update_traces()
        assert [len(trace.states) for trace in memory.trace("Ana lives in")] == [3]
        assert memory.verify().problems == ()


def test_tokens_are_counted_with_those_of_failures(path: Path) -> None:
    def script(turns: Sequence[Turn], schema: Schema) -> Completion:
        return Completion(text="no", finish="stop", prompt_tokens=100, completion_tokens=7, cached_tokens=40)

    with open_at(path) as memory:
        memory.add(TALK[:3], session="s")
        with pytest.warns(MemdbWarning):
            built = memory.build(ScriptedBackbone(script))
    assert (built.failed, built.told) == (1, 1), "two questions about the window, one about the cats"
    assert (built.prompt_tokens, built.cached_tokens, built.completion_tokens) == (300, 120, 21)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("memdb-build")]


def test_adding_has_no_other_scopes_session_built(path: Path) -> None:
    """A user's scope reads what came from any agent; adding concerns the one session that was added to."""
    with open_at(path, scope=Scope("ana", "coach")) as coach:
        coach.add([Message("Ana", f"My secret is xyzzy{n}.") for n in range(6)], session="s")
    backbone = reader()
    with open_at(path, scope=Scope("ana"), backbone=backbone) as memory:
        memory.add(TALK[:6], session="s")
    assert backbone.calls
    assert not any("xyzzy" in turn.text for call in backbone.calls for turn in call.turns)

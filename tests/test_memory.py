"""The public object: what each call returns, and what it refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import settings
from memdb.errors import Closed, MemdbWarning, MessageError, ModelNotFound, ReadOnly, ScopeError, TimeError
from memdb.models.fakes import HashEncoder
from memdb.records import About, Added, Message, Scope, Session
from tests.conftest import OpenMemory


def contents(found: memdb.WorkingMemory) -> list[str]:
    return [evidence.text for evidence in found]


# --- add


def test_add_says_what_it_did(memory: memdb.Memory) -> None:
    said = [Message("Ana", "My cat is called Pepper."), Message("Ben", "Hi!", id="b")]
    assert memory.add(said, session="s") == Added(session="s", ids=("s#1", "b"), stored=2, units=1)
    again = memory.add([said[1], Message("Ana", "New")], session="s")
    assert again == Added(session="s", ids=("b", "s#3"), stored=1, known=1, units=again.units)


@pytest.mark.parametrize("nothing", [[], (), iter(()), (m for m in ())])
def test_adding_nothing_is_allowed(memory: memdb.Memory, nothing: Any) -> None:
    assert memory.add(nothing, session="s") == Added(session="s", ids=())
    assert memory.sessions() == ()


def test_default_ids_are_places_and_stay(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    memory.add([Message("Ana", "one"), Message("Ana", "two", id="x")])
    memory.add([Message("Ana", "three")])
    expected = ("default#1", "x", "default#3")
    assert tuple(m.id for m in memory.messages("default")) == expected
    memory.close()
    memory = open_memory()
    assert tuple(m.id for m in memory.messages("default")) == expected
    assert memory.recall("three", channels=["message_lexical"])[0].source[0].id == "default#3"


def test_every_field_comes_back(memory: memdb.Memory) -> None:
    said = Message("Ana", "Look!\n\tThere", "8 May, 2023", "id 1", "user", "a parrot", "Porto")
    memory.add([said])
    assert memory.messages("default") == (said,)
    [evidence] = memory.recall("parrot")
    assert evidence.source == (said,)
    assert evidence.text == "Look!\n\tThere [image: a parrot]"


BAD_FIELDS: list[tuple[str, Any]] = [
    ("speaker", None),
    ("speaker", ""),
    ("speaker", 3),
    ("speaker", b"Ana"),
    ("speaker", "x" * 1_001),
    ("content", None),
    ("content", b"hello"),
    ("content", 3),
    ("content", ["x"]),
    ("content", "x" * 1_000_001),
    ("said_at", "yesterday"),
    ("said_at", ""),
    ("said_at", 3),
    ("said_at", "5/7/2023"),
    ("said_at", b"2023-05-07"),
    ("id", ""),
    ("id", 3),
    ("id", b"x"),
    ("id", "x" * 1_001),
    ("role", 3),
    ("role", "x" * 1_001),
    ("image_caption", 3),
    ("image_caption", b"x"),
    ("location", 3),
    ("location", "x" * 1_001),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("field", "value"), BAD_FIELDS, ids=lambda value: ascii(value)[:24])
def test_a_message_that_cannot_be_stored(memory: memdb.Memory, field: str, value: Any, stream: bool) -> None:
    fields: dict[str, Any] = {"speaker": "Ana", "content": "hello", field: value}
    batch = [Message("Ana", "fine"), Message("Ana", "fine"), Message(**fields), Message("Ana", "fine")]
    with pytest.raises(MessageError, match=field) as caught:
        memory.add(iter(batch) if stream else batch)
    assert caught.value.position == 2
    assert caught.value.hint
    assert len(str(caught.value)) < 300
    assert memory.sessions() == ()


@pytest.mark.parametrize("thing", [{"speaker": "Ana", "content": "x"}, "x", b"x", None, 3, ("Ana", "x")])
def test_what_is_no_message(memory: memdb.Memory, thing: Any) -> None:
    with pytest.raises(MessageError) as caught:
        memory.add([Message("Ana", "fine"), thing])
    assert caught.value.position == 1
    assert type(thing).__name__ in str(caught.value)
    assert memory.about().counts["messages"] == 0


@pytest.mark.parametrize(
    "things",
    [None, 3, "hello", b"hello", {"speaker": "Ana"}, Message("Ana", "hello")],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_list_of_messages(memory: memdb.Memory, things: Any) -> None:
    with pytest.raises(memdb.InputError) as caught:
        memory.add(things)
    assert caught.value.hint


@pytest.mark.parametrize("argument", ["session", "source"])
@pytest.mark.parametrize("value", [None, 3, b"x", "x" * 1_001])
def test_names_that_cannot_be_used(memory: memdb.Memory, argument: str, value: Any) -> None:
    with pytest.raises(memdb.InputError) as caught:
        memory.add([Message("Ana", "hello")], **{argument: value})
    assert caught.value.hint
    with pytest.raises(memdb.InputError):
        memory.messages(**{"session": "default", argument: value})
    assert memory.sessions() == ()


def test_a_session_without_a_name_is_refused(memory: memdb.Memory) -> None:
    with pytest.raises(memdb.InputError):
        memory.add([Message("Ana", "hello")], session="")


@pytest.mark.parametrize("name", ["海", "it's", "a#1"])
def test_odd_names_of_sessions_find_their_messages(memory: memdb.Memory, name: str) -> None:
    added = memory.add([Message("Ana", "hello")], session=name, source=name)
    assert len(memory.messages(name, source=name)) == 1
    assert added.session == memory.sessions()[0].name
    assert memory.add([Message("Ana", "again")], session=name, source=name).ids[0].endswith("#2")


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
def test_names_and_ids_that_cannot_be_stored_are_refused(memory: memdb.Memory, name: str) -> None:
    with pytest.raises(memdb.InputError, match="NUL or half"):
        memory.add([Message("Ana", "hello")], session=name)
    with pytest.raises(memdb.InputError, match="NUL or half"):
        memory.add([Message("Ana", "hello")], scope=Scope(user=name))
    with pytest.raises(memdb.MessageError, match="id holds a NUL or half"):
        memory.add([Message("Ana", "hello", id=name)])
    assert memory.about().counts["messages"] == 0


def test_messages_without_ids_can_be_added_as_they_were_read(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "one"), Message("Ben", "two")])
    again = memory.add([*memory.messages("default"), Message("Ana", "three")])
    assert (again.stored, again.known, again.conflicts) == (1, 2, ())
    assert memory.add([Message("Ana", "other", id="default#1")]).conflicts == ("default#1",)
    with pytest.raises(memdb.MessageError, match="default#9"):
        memory.add([Message("Ana", "future", id="default#9")])
    assert [m.id for m in memory.messages("default")] == ["default#1", "default#2", "default#3"]


def test_a_list_is_all_or_nothing_and_a_stream_is_kept_in_batches(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ADD_BATCH_MESSAGES", 4)
    good = [Message("Ana", f"thing {n}", id=str(n)) for n in range(10)]
    with pytest.raises(MessageError) as caught:
        memory.add([*good, Message("Ana", None)])  # type: ignore[arg-type]
    assert caught.value.position == 10
    assert memory.sessions() == ()
    with pytest.raises(MessageError) as caught:
        memory.add(iter([*good, Message("Ana", None)]))  # type: ignore[arg-type]
    assert caught.value.position == 10
    assert len(memory.messages("default")) == 8
    added = memory.add(iter(good))
    assert (added.stored, added.known, added.ids) == (2, 8, tuple(str(n) for n in range(10)))


def test_a_stream_is_read_no_further_than_it_is_stored(
    memory: memdb.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ADD_BATCH_MESSAGES", 4)
    ahead: list[int] = []

    def stream() -> Iterator[Message]:
        for n in range(13):
            ahead.append(n - memory.about().counts["messages"])
            yield Message("Ana", f"thing {n}")

    assert memory.add(stream()).stored == 13
    assert max(ahead) == 3


def test_an_error_in_a_stream_reaches_the_caller(memory: memdb.Memory) -> None:
    def stream() -> Iterator[Message]:
        yield Message("Ana", "one")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.add(stream())
    assert memory.add([Message("Ana", "two")]).stored == 1


def test_sources_tell_sessions_of_one_name_apart(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "here", id="a")], session="s")
    assert memory.add([Message("Ana", "there", id="a")], session="s", source="export").stored == 1
    assert [m.content for m in memory.messages("s", source="export")] == ["there"]
    assert [(s.name, s.source) for s in memory.sessions()] == [("s", ""), ("s", "export")]


# --- recall


@pytest.mark.parametrize("k", [0, -1, 4_097, 2**70, "3", 2.0, None, True])
def test_k_is_a_number_in_bounds(memory: memdb.Memory, k: Any) -> None:
    with pytest.raises(memdb.InputError) as caught:
        memory.recall("parrot", k)
    assert caught.value.hint


def test_the_greatest_k_works(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "parrot")])
    assert len(memory.recall("parrot", settings.MAX_K)) == 1


@pytest.mark.parametrize("channels", ["unit_dense", 3, ["nothing"], [None], ["message_lexical", "x"]])
def test_channels_that_are_not_there(memory: memdb.Memory, channels: Any) -> None:
    with pytest.raises(memdb.InputError, match="channel"):
        memory.recall("parrot", channels=channels)


@pytest.mark.parametrize("moment", ["yesterday", 3, "", b"2023-05-07", []])
@pytest.mark.parametrize("argument", ["at", "as_of"])
def test_moments_that_are_none(memory: memdb.Memory, argument: str, moment: Any) -> None:
    with pytest.raises(TimeError):
        memory.recall("parrot", **{argument: moment})


def test_an_empty_memory_has_no_evidence(memory: memdb.Memory) -> None:
    found = memory.recall("When did Ana go to Porto in May 2023?")
    assert len(found) == 0
    assert list(found) == []
    assert found.query.times


@pytest.fixture
def dated(memory: memdb.Memory) -> memdb.Memory:
    clocks: list[Any] = [
        "1969-07-20T20:17Z",
        "2024-03-10",
        "2024-03-10T23:30-08:00",
        "2024-03-11T00:10+09:00",
        dt.datetime(2024, 3, 12, 8, 0, tzinfo=dt.UTC),
        "serial-5",
        None,
    ]
    names = ("moon", "day", "west", "east", "twelfth", "serial", "unknown")
    memory.add([Message("Ana", f"parrot {n}", clock) for n, clock in zip(names, clocks, strict=True)])
    return memory


@pytest.mark.parametrize(
    ("as_of", "seen"),
    [
        (None, {"moon", "day", "west", "east", "twelfth", "serial", "unknown"}),
        ("1969-07-20", {"moon"}),
        ("1969-07-20T20:16Z", set()),
        ("2024-03-09", {"moon"}),
        ("2024-03-10", {"moon", "day", "east"}),
        (dt.date(2024, 3, 10), {"moon", "day", "east"}),
        ("2024-03-10T00:00Z", {"moon", "day"}),
        ("2024-03-10T15:10Z", {"moon", "day", "east"}),
        ("2024-03-10T23:30-08:00", {"moon", "day", "east", "west"}),
        (dt.datetime(2024, 3, 10), {"moon", "day"}),
        ("2024-03-11", {"moon", "day", "east", "west"}),
        ("2024-03-12T09:00+01:00", {"moon", "day", "east", "west", "twelfth"}),
    ],
)
def test_as_of_leaves_out_what_was_said_later(dated: memdb.Memory, as_of: Any, seen: set[str]) -> None:
    for channels in (None, ["message_lexical"], ["message_dense"], ["unit_lexical"], ["unit_dense"]):
        found = {
            text.split()[-1] for text in contents(dated.recall("parrot", as_of=as_of, channels=channels))
        }
        assert found - {"serial"} == seen - {"serial"}, channels


def test_as_of_a_serial_number(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", f"parrot {n}", f"serial-{n}") for n in (3, 10, 20)])
    assert sorted(contents(memory.recall("parrot", as_of="serial-10"))) == ["parrot 10", "parrot 3"]


def test_at_only_resolves_the_question(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "I went to Porto on 7 May 2023.", "2023-06-01")])
    found = memory.recall("What happened yesterday?", at="2023-05-08T10:00+02:00")
    [time] = found.query.times
    assert str(time.interval.start) == str(time.interval.end) == "2023-05-07"
    assert found[0].channels["unit_attribute"].score == 1.0
    assert memory.recall("What happened yesterday?").query.times == ()


# --- Scopes


def test_a_users_name_is_a_scope(open_memory: OpenMemory, memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "parrot")], scope="ana")  # type: ignore[arg-type]
    assert len(open_memory(scope="ana").recall("parrot")) == 1
    assert len(memory.recall("parrot", scope="ana")) == 1
    assert len(memory.recall("parrot")) == 0
    assert memory.sessions(scope="ana")[0].scope == Scope(user="ana")


@pytest.mark.parametrize("scope", [3, b"ana", ["ana"], {"user": "ana"}])
def test_what_is_no_scope(memory: memdb.Memory, open_memory: OpenMemory, scope: Any) -> None:
    for call in (
        lambda: memory.recall("parrot", scope=scope),
        lambda: memory.add([Message("Ana", "x")], scope=scope),
        lambda: memory.sessions(scope=scope),
        lambda: open_memory(scope=scope),
    ):
        with pytest.raises(ScopeError):
            call()


@pytest.mark.parametrize("scope", ["", Scope(user=""), Scope(user=3), Scope(agent="x" * 1_001)])  # type: ignore[arg-type]
def test_scopes_with_parts_that_are_no_names(memory: memdb.Memory, scope: Any) -> None:
    with pytest.raises(memdb.InputError):
        memory.recall("parrot", scope=scope)


def test_a_narrower_scope_is_written_inside_ones_own(open_memory: OpenMemory) -> None:
    memory = open_memory(scope="ana")
    memory.add([Message("Ana", "parrot")], scope=Scope("ana", "helper"))
    assert len(memory.recall("parrot")) == 1
    assert len(memory.recall("parrot", scope=Scope("ana", "other"))) == 0
    with pytest.raises(ScopeError):
        memory.add([Message("Ana", "parrot")], scope=Scope(None, "helper"))


# --- Looking at a memory


def test_sessions_and_messages(memory: memdb.Memory) -> None:
    memory.add([Message("Ana", "one", "2023-05-07"), Message("Ben", "two", "2023-05-08")], session="b")
    memory.add([Message("Ana", "three")], session="a")
    assert memory.sessions() == (
        Session(
            name="b", source="", messages=2, first_said="2023-05-07", last_said="2023-05-08", scope=Scope()
        ),
        Session(name="a", source="", messages=1, first_said=None, last_said=None, scope=Scope()),
    )
    assert [m.content for m in memory.messages("b")] == ["one", "two"]


@pytest.mark.parametrize("session", ["nothing", "S", "s ", "%"])
def test_a_session_that_is_not_there(memory: memdb.Memory, session: str) -> None:
    memory.add([Message("Ana", "one")], session="s")
    with pytest.raises(memdb.InputError, match="no session") as caught:
        memory.messages(session)
    assert "sessions()" in caught.value.hint


def test_about(memory: memdb.Memory, encoder: HashEncoder) -> None:
    memory.add([Message("Ana", "My cat is called Pepper.")])
    about = memory.about()
    assert about == About(
        format=1,
        memdb_version=memdb.__version__,
        encoder_name=encoder.name,
        encoder_sha256=encoder.sha256,
        encoder_dimension=64,
        settings=settings.shaping(),
        counts=memory.verify().counts,
    )
    assert about.counts["messages"] == 1


# --- Opening and closing


def test_a_context_manager_closes(path: Path, open_memory: OpenMemory) -> None:
    with open_memory() as memory:
        memory.add([Message("Ana", "parrot")])
    with pytest.raises(Closed):
        memory.recall("parrot")
    assert [part.name for part in path.parent.iterdir()] == [path.name], (
        "closing folds everything into one file"
    )


CALLS: dict[str, Callable[[memdb.Memory], object]] = {
    "add": lambda memory: memory.add([Message("Ana", "x")]),
    "recall": lambda memory: memory.recall("x"),
    "sessions": lambda memory: memory.sessions(),
    "messages": lambda memory: memory.messages("default"),
    "verify": lambda memory: memory.verify(),
    "about": lambda memory: memory.about(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_closed_memory_says_so(
    memory: memdb.Memory, open_memory: OpenMemory, call: Callable[[memdb.Memory], object], read_only: bool
) -> None:
    memory.add([Message("Ana", "x")])
    one = open_memory(read_only=read_only)
    one.close()
    one.close()
    with pytest.raises(Closed) as caught:
        call(one)
    assert caught.value.hint


def test_a_memory_for_reading(memory: memdb.Memory, open_memory: OpenMemory) -> None:
    memory.add([Message("Ana", "parrot")])
    reading = open_memory(read_only=True)
    for call in CALLS.values():
        if call is CALLS["add"]:
            with pytest.raises(ReadOnly):
                call(reading)
        else:
            assert call(reading)
    memory.add([Message("Ana", "parrot again")])
    assert len(reading.recall("parrot")) == 2, "a reader sees what is added later"


def test_a_memory_says_where_it_is(memory: memdb.Memory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.path == path
    assert repr(memory) == f"<Memory {path}>"
    monkeypatch.chdir(path.parent)
    with memdb.open(path.name, encoder=HashEncoder(64)) as same:
        assert same.path == path


@pytest.mark.parametrize("encoder", ["no-such-model", Path("/no/such/folder")])
def test_an_encoder_that_is_not_there_makes_no_file(path: Path, encoder: Any) -> None:
    with pytest.raises(ModelNotFound):
        memdb.open(path, encoder=encoder)
    assert not path.exists()


def test_an_encoder_with_the_same_weights_is_the_same(open_memory: OpenMemory) -> None:
    open_memory().close()
    assert open_memory(encoder=HashEncoder(64)).encoder is not None
    with pytest.warns(MemdbWarning) as caught:
        open_memory(encoder=HashEncoder(63))
    assert caught[0].filename == __file__.replace("test_memory", "conftest"), (
        "the warning points at the caller"
    )

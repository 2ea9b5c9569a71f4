"""A memory against a plain dict: added, repeated, re-embedded or killed, what was told is there."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import apsw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import memdb
from memdb.language.cleaning import storable
from memdb.language.clock import parse_instant
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Reembedded, Scope
from tests import strategies
from tests.encoders import Turned

ENCODER = HashEncoder(16)
ENCODERS = [ENCODER, HashEncoder(24), Turned(16)]
OWN_WORD = "uniq{}word"
Key = tuple[str | None, str]  # user, session

places = st.tuples(st.sampled_from([None, "ana", "ben"]), st.sampled_from(["s", "t"]))
ids = st.one_of(st.none(), st.sampled_from("abcdef"))
batches = st.lists(strategies.messages(ids), min_size=0, max_size=5)


class MemoryMachine(RuleBasedStateMachine):
    """`told` is what the memory must hold: by place, the messages in order with their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="memdb-machine-"))
        self.told: dict[Key, list[Message]] = {}
        self.copies = 0
        self.words = 0
        self.encoder = ENCODER
        self.memory = self.open(self.folder / "memory.memdb")

    def open(self, path: Path) -> memdb.Memory:
        return memdb.open(path, encoder=self.encoder)

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        assert self.memory.about().counts["messages"] == 0

    @rule(place=places, batch=batches, stream=st.booleans())
    def add(self, place: Key, batch: list[Message], stream: bool) -> None:
        batch = [self.findable(message) for message in batch]
        self.tell(place, batch, stream)

    @rule(place=places, first=st.integers(0, 20), last=st.integers(0, 20))
    def add_again(self, place: Key, first: int, last: int) -> None:
        named = [message for message in self.told.get(place, []) if message.id and "#" not in message.id]
        self.tell(place, named[first:last], False)

    def findable(self, message: Message) -> Message:
        self.words += 1
        parts = {name: getattr(message, name) for name in Message.__struct_fields__}
        return Message(**{**parts, "content": f"{OWN_WORD.format(self.words)} {message.content}"})

    def tell(self, place: Key, batch: list[Message], stream: bool) -> None:
        user, session = place
        held = self.told.get(place, [])
        known = {message.id for message in held}
        fresh: list[Message] = []
        expected: list[str] = []
        for message in batch:
            if message.id is None or message.id not in known:
                kept = as_kept(message, f"{session}#{len(held) + len(fresh) + 1}")
                known.add(message.id)
                fresh.append(kept)
                expected.append(kept.id or "")
            else:
                expected.append(message.id)
        given_: Any = iter(batch) if stream else batch
        added = self.memory.add(given_, session=session, scope=Scope(user))
        assert list(added.ids) == expected
        assert (added.stored, added.known) == (len(fresh), len(batch) - len(fresh))
        if fresh:
            self.told[place] = held + fresh

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.memory = self.open(self.memory.path)

    @rule(encoder=st.sampled_from(ENCODERS), stopped=st.booleans())
    def reembed(self, encoder: HashEncoder, stopped: bool) -> None:
        """Stopped after the first batch, the file stays of the encoder it was of."""
        self.memory.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", memdb.errors.MemdbWarning)
            memory = memdb.open(self.memory.path, encoder=encoder)
        with memory, contextlib.suppress(KeyboardInterrupt):
            memory.reembed(progress=stop if stopped else None)
            self.encoder = encoder
        self.memory = self.open(self.memory.path)
        assert self.memory.encoder is self.encoder

    @rule()
    def kill(self) -> None:
        """The process dies without closing: what it left is the file and its write-ahead log."""
        self.copies += 1
        place = self.folder / str(self.copies)
        place.mkdir()
        path = self.memory.path
        for part in (path, Path(f"{path}-wal")):
            if part.exists():
                shutil.copy(part, place / path.name.replace(path.name, part.name))
        self.memory.close()
        self.memory = self.open(place / path.name)

    @rule(question=strategies.text)
    def recall(self, question: str) -> None:
        found = self.memory.recall(question, scope="*")
        everything = [message for held in self.told.values() for message in held]
        assert all(evidence.source[0] in everything for evidence in found)

    @rule(data=st.data())
    def recall_by_its_own_word(self, data: st.DataObject) -> None:
        if not self.told:
            return
        place = data.draw(st.sampled_from(sorted(self.told, key=str)))
        message = data.draw(st.sampled_from(self.told[place]))
        word = message.content.split(" ", 1)[0]
        found = self.memory.recall(word, scope=Scope(place[0]), channels=["message_lexical"])
        assert found[0].source[0] == message

    @invariant()
    def what_was_told_is_there(self) -> None:
        for (user, session), held in self.told.items():
            assert list(self.memory.messages(session, scope=Scope(user))) == held
        assert len(self.memory.sessions(scope="*")) == len(self.told)

    @invariant()
    def the_file_proves_itself(self) -> None:
        verification = self.memory.verify()
        assert verification.problems == ()
        assert all("wait for the rest" in warning for warning in verification.warnings)
        assert verification.counts["messages"] == sum(map(len, self.told.values()))


def stop(done: Reembedded) -> None:
    if done.made:
        raise KeyboardInterrupt


def as_kept(message: Message, name: str) -> Message:
    """A message as the file gives it back."""
    said_at = None if message.said_at is None else parse_instant(message.said_at).text
    texts = {
        field: getattr(message, field)
        for field in ("speaker", "content", "role", "image_caption", "location")
    }
    kept: dict[str, Any] = {field: None if text is None else storable(text) for field, text in texts.items()}
    return Message(**kept, said_at=said_at, id=message.id if message.id is not None else name)


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(
    max_examples=25,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def contents_of(path: Path) -> dict[str, list[Any]]:
    """The messages, their terms and their vectors, without anything that depends on how they were added."""
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    import sqlite_vec

    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, message_terms, instance)")
    queries = {
        "message": "SELECT * FROM message ORDER BY message_id",
        "terms": 'SELECT term, doc, col, "offset" FROM temp.terms ORDER BY doc, col, "offset", term',
        "vectors": "SELECT * FROM message_vector ORDER BY message_id",
        "window": "SELECT * FROM window ORDER BY session_id, window_no",
        "speaker": "SELECT * FROM speaker ORDER BY scope_id, name",
    }
    found = {name: connection.execute(sql).fetchall() for name, sql in queries.items()}
    connection.close()
    return found


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    said=st.lists(strategies.messages(), min_size=1, max_size=16),
    cuts=st.sets(st.integers(0, 16), max_size=6),
)
def test_how_a_list_is_split_into_batches_changes_nothing(said: list[Message], cuts: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "once", Path(folder) / "split"
        with memdb.open(paths[0], encoder=ENCODER) as memory:
            memory.add(said)
        bounds = [0, *sorted(cuts), len(said)]
        with memdb.open(paths[1], encoder=ENCODER) as memory:
            for first, last in itertools.pairwise(bounds):
                memory.add(said[first:last])
            assert memory.verify().problems == ()
        once, split = map(contents_of, paths)
        assert split == once

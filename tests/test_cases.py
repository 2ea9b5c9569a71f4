"""Cases that users of systems of this kind reported, each with its whole kind; numbered as in their list."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import memdb
from memdb.errors import Locked, MemdbWarning
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Reembedded
from tests.conftest import NetworkTouched, OpenMemory
from tests.encoders import Turned

ROOT = Path(memdb.__file__).parents[1]
HEAD = """
import sys
import memdb
from memdb.models.fakes import HashEncoder
memory = memdb.open(sys.argv[1], encoder=HashEncoder(64))
def say(text):
    print(text, flush=True)
"""


def start(code: str, *args: object) -> subprocess.Popen[str]:
    """A second process of Python that talks over pipes, line by line."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def hears(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], text: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def contents(found: memdb.WorkingMemory) -> list[str]:
    return [evidence.text for evidence in found]


# --- Loss, corruption, locking


def test_case_01_processes_that_add_at_once_one_of_them_killed(path: Path, open_memory: OpenMemory) -> None:
    adding = (
        HEAD
        + """
for n in range(int(sys.argv[3])):
    said = memdb.Message("Ana", f"word{sys.argv[2]}x{n}", id=f"{sys.argv[2]}-{n}")
    [id] = memory.add([said], session="s").ids
    say(id)
"""
    )
    open_memory().close()
    workers = [start(adding, path, number, 1_000_000 if number == 0 else 25) for number in range(4)]
    acknowledged = [hears(workers[0]) for _ in range(10)]
    workers[0].send_signal(signal.SIGKILL)
    for worker in workers:
        assert worker.stdout is not None
        acknowledged += worker.stdout.read().split()
        worker.wait()
        worker.stdout.close()
        assert worker.stdin is not None
        worker.stdin.close()
    with open_memory() as memory:
        stored = [message.id for message in memory.messages("s")]
        assert len(set(stored)) == len(stored)
        assert set(acknowledged) <= set(stored)
        assert len(set(stored) - set(acknowledged)) <= 1, "the killed one may have stored one more"
        for worker in range(1, 4):
            assert [id for id in stored if id and id.startswith(f"{worker}-")] == [
                f"{worker}-{n}" for n in range(25)
            ]
        assert contents(memory.recall("word2x7", channels=["message_lexical"]))[0] == "word2x7"
        assert memory.verify().ok


def test_case_03_two_processes_that_add_in_turn(path: Path, open_memory: OpenMemory) -> None:
    adding = (
        HEAD
        + """
say("ready")
for n, line in enumerate(sys.stdin):
    memory.add([memdb.Message("Ben", f"there {n}", id=f"there-{n}")], session="s")
    say("done")
"""
    )
    memory = open_memory()
    with start(adding, path) as other:
        assert hears(other) == "ready"
        for n in range(30):
            memory.add([Message("Ana", f"here {n}", id=f"here-{n}")], session="s")
            tell(other)
            assert hears(other) == "done"
            assert len(memory.messages("s")) == 2 * n + 2
        assert other.stdin is not None
        other.stdin.close()
    assert [m.id for m in memory.messages("s")] == [
        f"{where}-{n}" for n in range(30) for where in ("here", "there")
    ]
    assert memory.verify().ok


UNPRIVILEGED = """
import os, sys
import memdb
from memdb.models.fakes import HashEncoder
memdb.open(sys.argv[3], encoder=HashEncoder(64)).recall("what is imported late is imported now")
os.chdir("/")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    memory = memdb.open(sys.argv[1], encoder=HashEncoder(64), read_only=sys.argv[2] == "read")
    print("opened", len(memory.recall("parrot")))
    memory.add([memdb.Message("Ana", "kept nowhere")])
    print("added")
except memdb.MemdbError as error:
    print(type(error).__name__, error.hint)
"""
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can drop its privileges"
)


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder that nobody but root may write in, on a path that everyone may walk."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(path: Path, mode: str, warm: Path) -> list[str]:
    with start(UNPRIVILEGED, path, mode, warm) as process:
        return [line.strip() for line in process.stdout or ()]


@as_root
@pytest.mark.parametrize("there", [False, True], ids=["new", "existing"])
def test_case_04_a_folder_that_cannot_be_written_is_an_error(
    unprivileged_folder: Path, open_memory: OpenMemory, tmp_path: Path, there: bool
) -> None:
    path = unprivileged_folder / "memory.memdb"
    if there:
        with open_memory(path) as memory:
            memory.add([Message("Ana", "I have a parrot.")])
    before = path.read_bytes() if there else None
    lines = as_nobody(path, "write", tmp_path / "warm")
    assert len(lines) == 1
    assert lines[0].split()[0] in ("CannotOpen", "ReadOnly"), lines
    assert len(lines[0].split()) > 1, "the error says what to do"
    assert sorted(unprivileged_folder.iterdir()) == ([path] if there else [])
    assert before == (path.read_bytes() if there else None)


@pytest.mark.parametrize("where", ["missing/m.memdb", "file/m.memdb", "folder"])
@pytest.mark.parametrize("read_only", [False, True])
def test_case_04_no_place_for_a_file_is_an_error(
    tmp_path: Path, open_memory: OpenMemory, where: str, read_only: bool
) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(memdb.CannotOpen) as caught:
        open_memory(tmp_path / where, read_only=read_only)
    assert caught.value.hint
    assert sorted(tmp_path.rglob("*")) == before


def test_case_05_an_encoder_of_another_dimension_loses_nothing(path: Path, open_memory: OpenMemory) -> None:
    said = [Message("Ana", f"The parrot number{n} sings.", id=str(n)) for n in range(20)]
    with open_memory() as memory:
        memory.add(said)
        counts = memory.about().counts
    with pytest.warns(MemdbWarning, match="words alone"):
        other = open_memory(encoder=HashEncoder(32))
    assert other.encoder is None
    assert other.about().counts == counts
    assert contents(other.recall("number7"))[0] == "The parrot number7 sings."
    other.add([Message("Ana", "The owl number20 sings.", id="20")])
    assert contents(other.recall("number20"))[0] == "The owl number20 sings."
    assert other.verify().ok
    other.close()
    again = open_memory()
    assert again.encoder is not None
    assert len(again.messages("default")) == 21
    assert again.about().counts["message_vectors"] == 20
    assert "The owl number20 sings." in contents(again.recall("number20"))
    assert set(again.recall("number7")[0].channels) >= {"message_lexical", "message_dense"}


# Another process that has the file open with the encoder it was made with, and uses it when it is told to.
OPEN_WITH_THE_OLD = """
import sys, warnings
import memdb
from memdb.models.fakes import HashEncoder
memory = memdb.open(sys.argv[1], encoder=HashEncoder(64))
for line in sys.stdin:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if line == "add\\n":
            memory.add([memdb.Message("Zoe", "The heron sings.")])
        found = memory.recall("number7")[0]
    dense = [name for name in found.channels if "dense" in name]
    print(found.text, len(dense), sum("words alone" in str(one.message) for one in told), flush=True)
"""


@pytest.mark.parametrize("new", [HashEncoder(32), Turned(64)], ids=lambda encoder: encoder.name)
def test_case_05_another_encoder_is_offered_to_re_embed(
    path: Path, open_memory: OpenMemory, new: HashEncoder
) -> None:
    """Of another dimension, or of the same one and another vector space; stopped, and gone on with."""
    said = [Message("Ana", f"The parrot number{n} sings.", id=str(n)) for n in range(300)]
    with open_memory() as memory:
        memory.add(said)
    with start(OPEN_WITH_THE_OLD, path) as other:
        tell(other)
        assert hears(other) == "The parrot number7 sings. 2 0"
        with pytest.warns(MemdbWarning, match="words alone.*call reembed\\(\\), or memdb reembed FILE"):
            memory = open_memory(encoder=new)

        def stop(done: Reembedded) -> None:
            if done.done > 300:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            memory.reembed(progress=stop)
        assert contents(memory.recall("number7"))[0] == "The parrot number7 sings."
        tell(other, "add")
        assert hears(other) == "The parrot number7 sings. 2 0", "it answers as before"
        assert 0 < memory.reembed().made < 2 * 300
        assert set(memory.recall("number7")[0].channels) >= {"message_lexical", "message_dense"}
        assert "message_dense" in memory.recall("heron")[0].channels, "what came meanwhile is in"
        for warned in (1, 0):
            tell(other)
            assert hears(other) == f"The parrot number7 sings. 0 {warned}", "never mixed, and said once"
        tell(other, "add")
        assert hears(other) == "The parrot number7 sings. 0 0"
        assert other.stdin is not None
        other.stdin.close()
        assert other.wait(60) == 0
    assert memory.about().counts["messages"] == 302
    assert memory.reembed().done == 2, "a message of the other process and its claim, without vectors"
    assert memory.verify().problems == memory.verify().warnings == ()
    assert memory.encoder is new


HOLD = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
for line in sys.stdin:
    connection.execute("BEGIN IMMEDIATE" if line.strip() == "hold" else "ROLLBACK")
    print(line.strip(), flush=True)
"""


@pytest.fixture
def holder(path: Path, memory: memdb.Memory) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the write lock of `path` while it is told to; the memory exists."""
    memory.add([Message("Ana", "I have a parrot.")])
    with start(HOLD, path) as process:
        tell(process, "hold")
        assert hears(process) == "hold"
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_case_06_a_writer_waits_for_another_process_and_readers_do_not(
    memory: memdb.Memory, holder: subprocess.Popen[str]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(memory.add, [Message("Ana", "The parrot sings.")])
        for _ in range(20):
            assert contents(memory.recall("parrot")) == ["I have a parrot."]
            assert len(memory.messages("default")) == 1
            assert memory.verify().ok
        assert not adding.done()
        tell(holder, "release")
        assert hears(holder) == "release"
        assert adding.result().stored == 1
    assert len(memory.recall("parrot")) == 2


def test_case_06_a_lock_that_stays_is_a_clean_error(
    memory: memdb.Memory, holder: subprocess.Popen[str], open_memory: OpenMemory
) -> None:
    memory._database._writer.set_busy_timeout(1)  # type: ignore[union-attr]
    for session in ("default", "new"):
        with pytest.raises(Locked) as caught:
            memory.add([Message("Ana", "The parrot sings.")], session=session)
        assert caught.value.retryable
        assert caught.value.hint
    assert memory.about().counts["messages"] == 1
    reading = open_memory(read_only=True)
    assert len(reading.recall("parrot")) == 1
    tell(holder, "release")
    assert hears(holder) == "release"
    assert memory.add([Message("Ana", "The parrot sings.")]).stored == 1
    assert len(reading.recall("parrot")) == 2
    assert memory.verify().ok


def test_case_06_opening_an_existing_memory_needs_no_lock(
    holder: subprocess.Popen[str], open_memory: OpenMemory
) -> None:
    memory = open_memory(busy_timeout_ms=1)
    assert len(memory.recall("parrot")) == 1


def conversation(number: int) -> list[Message]:
    pick = random.Random(number)
    things = ("parrot", "piano", "river", "oven", "lamp", "march")
    return [
        Message(
            f"Speaker{number}",
            f"I saw the {pick.choice(things)} {number}x{n} yesterday.",
            f"2024-0{n + 1}-11",
        )
        for n in range(6)
    ]


def test_case_07_one_object_in_sixteen_threads_is_as_good_as_one(
    open_memory: OpenMemory, tmp_path: Path
) -> None:
    serial, shared = open_memory(tmp_path / "serial"), open_memory(tmp_path / "shared")
    gate = threading.Barrier(16)

    def work(memory: memdb.Memory, number: int) -> list[list[str]]:
        found = []
        for said in conversation(number):
            memory.add([said], session=f"s{number}")
            found.append(contents(memory.recall(said.content, channels=["message_lexical"], k=1)))
        return found

    def work_at_once(number: int) -> list[list[str]]:
        gate.wait()
        return work(shared, number)

    with ThreadPoolExecutor(16) as pool:
        at_once = list(pool.map(work_at_once, range(16)))
    assert at_once == [work(serial, number) for number in range(16)]
    assert shared.about().counts == serial.about().counts
    for number in range(16):
        assert shared.messages(f"s{number}") == serial.messages(f"s{number}")
        question = f"What did Speaker{number} see?"
        assert sorted(contents(shared.recall(question, k=6))) == sorted(
            contents(serial.recall(question, k=6))
        )
    assert shared.verify().ok


def test_case_07_threads_that_add_the_same_ids_to_one_session(memory: memdb.Memory) -> None:
    said = [Message("Ana", f"thing {n}", id=str(n)) for n in range(12)]

    def add(number: int) -> int:
        order = said[number % 12 :] + said[: number % 12]
        return sum(memory.add([message], session="s").stored for message in order)

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(add, range(16))) == 12
    assert sorted(memory.messages("s"), key=lambda m: int(m.id or 0)) == said
    assert memory.verify().ok


# --- Duplicates, wrong memories


def test_case_12_one_id_is_stored_once_however_it_comes(open_memory: OpenMemory) -> None:
    memory = open_memory()
    said = Message("Ana", "I have a parrot.", "2024-01-01", id="a")
    other = Message("Ana", "I have an owl.", "2024-01-01", id="a")
    added = memory.add([said, said, Message("Ben", "Oh.", id="b"), said], session="s")
    assert (added.stored, added.known, added.ids, added.conflicts) == (2, 2, ("a", "a", "b", "a"), ())
    assert memory.add([said], session="s").stored == 0
    assert memory.add(iter([said]), session="s").known == 1
    memory.close()
    memory = open_memory()
    changed = memory.add([other, Message("Ana", "New.", id="c")], session="s")
    assert (changed.stored, changed.known, changed.conflicts) == (1, 1, ("a",))
    assert [m.content for m in memory.messages("s")] == ["I have a parrot.", "Oh.", "New."]
    assert memory.add([said], session="another").stored == 1, "an id is unique in its session only"
    assert memory.verify().ok


@pytest.mark.parametrize("change", ["speaker", "content", "said_at", "role", "image_caption", "location"])
def test_case_12_a_known_id_with_any_other_field_is_reported(memory: memdb.Memory, change: str) -> None:
    fields = {"speaker": "Ana", "content": "Hello parrot", "said_at": "2024-01-01"}
    memory.add([Message(**fields, id="a")])  # type: ignore[arg-type]
    fields[change] = "2024-01-02" if change == "said_at" else "something else"
    added = memory.add([Message(**fields, id="a")])  # type: ignore[arg-type]
    assert (added.stored, added.conflicts) == (0, ("a",))
    assert memory.messages("default")[0].content == "Hello parrot"


def test_case_12_the_same_text_under_two_ids_is_stored_twice(memory: memdb.Memory) -> None:
    twice = [Message("Ana", "I have a parrot.", id=id) for id in ("a", "b", None, None)]  # type: ignore[arg-type]
    assert memory.add(twice).stored == 4
    assert memory.add(twice[2:]).stored == 2
    [told] = memory.recall("parrot")
    assert [message.content for message in told.source] == ["I have a parrot."] * 6
    assert len({message.id for message in told.source}) == 6


GREETINGS = (
    "Hi!",
    "Hello there",
    "Hey Ana!",
    "Good morning!",
    "Thanks a lot!",
    "Thank you so much.",
    "You're welcome!",
    "Bye!",
    "See you later!",
    "Good night, Ben.",
    "Wow, that's great!",
    "How are you?",
    "What's up?",
    "Nice!",
    "Congratulations!",
    "lol",
    "ok",
    "Okay, sounds good.",
    "Haha",
    "👍",
)


@pytest.mark.parametrize("take", [1, 5, len(GREETINGS)])
def test_case_14_greetings_claim_nothing(memory: memdb.Memory, take: int) -> None:
    for first in range(len(GREETINGS) - take + 1):
        spoken = [("Ana", "Ben")[n % 2] for n in range(take)]
        said = GREETINGS[first : first + take]
        added = memory.add([Message(*one) for one in zip(spoken, said, strict=True)], session=str(first))
        assert added.units == 0, said
    assert memory.about().counts["units"] == 0


CLAIMS = [
    ("Ana", "My favourite player is Ronaldo. I live in Porto, and my sister studies medicine."),
    ("Ben", "I bought a blue bicycle yesterday. What do you ride?"),
    ("Ana", "A red scooter."),
    ("Ben", "My boss is called Ines. She moved here from Rome in May 2023."),
    ("Ana", "Now it is Messi."),
    ("assistant", "You told me that your cat is named Pepper."),
    ("Ana", "We adopted two dogs; I call them Salt and Vinegar."),
]


def test_case_14_the_value_of_every_unit_was_said_in_its_messages(memory: memdb.Memory) -> None:
    assert memory.add([Message(speaker, said) for speaker, said in CLAIMS]).units >= 8
    units = {unit.id: unit for e in memory.recall("Ana Ben", k=50) for unit in e.facts}.values()
    assert len(units) == memory.about().counts["units"]
    resolved = {"ana", "ben", "assistant", "s", "their", "they", "them", "him", "her", "has", "is"}
    for unit in units:
        cited = " ".join(f"{speaker} {said}" for speaker, said in CLAIMS[unit.first : unit.last + 1]).lower()
        if unit.triple:
            spoken = set("".join(c if c.isalnum() else " " for c in unit.triple.object.lower()).split())
            assert all(word in cited for word in spoken - resolved), unit


# --- Privacy


@pytest.mark.parametrize("address", [("127.0.0.1", 9), ("192.0.2.1", 80), ("example.org", 443)])
def test_case_25_nothing_in_this_suite_can_connect(address: tuple[str, int]) -> None:
    with socket.socket() as one, pytest.raises(NetworkTouched):
        one.connect(address)
    with socket.socket(type=socket.SOCK_DGRAM) as one, pytest.raises(NetworkTouched):
        one.sendto(b"hello", address)
    with pytest.raises(NetworkTouched):
        socket.create_connection(address)
    with pytest.raises(NetworkTouched):
        socket.getaddrinfo(*address)


def test_case_25_the_embedded_encoder_needs_no_network(path: Path) -> None:
    with memdb.open(path) as memory:
        memory.add([Message("Ana", "I adopted a grey parrot."), Message("Ana", "It rained in Porto.")])
        assert contents(memory.recall("Which pet does she own?"))[0] == "I adopted a grey parrot."

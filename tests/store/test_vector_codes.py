"""1-bit codes beside vectors: made as chunks are filled, in files of earlier versions too."""

from __future__ import annotations

from pathlib import Path

import apsw
import numpy as np
import pytest

import memdb
from memdb import Message
from memdb.models.fakes import HashEncoder
from memdb.store import codes, schema
from memdb.store.connection import load_vectors
from tests.conftest import OpenMemory

SLOTS = 168


def told(first: int, count: int) -> list[Message]:
    return [Message("Ana", f"Tree {n} stands in garden {n * n}.") for n in range(first, first + count)]


def coded(path: Path, table: str = "message_vector") -> dict[int, bytes]:
    connection = apsw.Connection(str(path))
    found = dict(connection.execute(f"SELECT code_id, codes FROM {table}_code").fetchall())
    connection.close()
    return found


def test_a_chunk_is_coded_when_the_next_one_is_begun(memory: memdb.Memory, path: Path) -> None:
    """[F-048]"""
    memory.add(told(0, SLOTS))
    assert coded(path) == {}
    memory.add(told(SLOTS, SLOTS + 1))
    assert list(coded(path)) == [4_096, 2 * 4_096]
    assert memory.verify().ok
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    vectors = [row for (row,) in connection.execute("SELECT own FROM message_vector ORDER BY message_id")]
    signs = np.packbits(np.frombuffer(b"".join(vectors[:SLOTS]), np.int8).reshape(SLOTS, -1) > 0, axis=1)
    assert coded(path)[4_096] == signs.tobytes()


def test_a_long_vector_needs_several_parts(open_memory: OpenMemory, path: Path) -> None:
    memory = open_memory(encoder=HashEncoder(384))
    memory.add(told(0, SLOTS + 1))
    assert {key: len(code) for key, code in coded(path).items()} == {4_096: 84 * 48, 4_097: 84 * 48}
    assert memory.verify().ok


def test_wrong_codes_are_told_by_verify_and_set_right_by_reembed(memory: memdb.Memory, path: Path) -> None:
    memory.add(told(0, 2 * SLOTS + 1))
    right = coded(path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE message_vector_code SET codes = zeroblob(length(codes)) WHERE code_id = 4096")
    connection.close()
    (problem,) = memory.verify().problems
    assert (problem.check, problem.detail.split()[0]) == ("vector_codes", "message_vector_code")
    memory.reembed()
    assert coded(path) == right
    assert memory.verify().ok


def test_vectors_of_another_encoder_have_codes_of_their_own(
    memory: memdb.Memory, open_memory: OpenMemory
) -> None:
    memory.add(told(0, 2 * SLOTS + 1))
    before = coded(memory.path)
    with pytest.warns(memdb.errors.MemdbWarning):
        other = open_memory(encoder=HashEncoder(48))
    other.reembed()
    after = coded(memory.path)
    assert after.keys() == before.keys()
    assert all(len(code) == SLOTS * 6 for code in after.values())
    assert other.verify().ok


def earlier(path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A file as the versions before this one made it: larger chunks, and no codes."""
    text = schema.schema_sql().replace("chunk_size=168", "chunk_size=512")
    old = text[: text.index("-- The signs of the components")]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "schema_sql", lambda: old)
        patch.setattr(
            schema, "_objects_of_format", lambda dimension: schema._objects(for_size(old, dimension))
        )
        patch.setattr(codes, "CODED", ())
        with memdb.open(path, encoder=HashEncoder(64)) as memory:
            memory.add(told(0, count))


def for_size(text: str, dimension: int) -> str:
    return text.replace("{dimension}", str(dimension))


def test_a_file_of_an_earlier_version_goes_on(
    tmp_path: Path, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[F-004]"""
    path = tmp_path / "earlier.memdb"
    earlier(path, monkeypatch, 520)
    with memdb.open(path, encoder=HashEncoder(64), read_only=True) as memory:
        assert memory.verify().ok
        before = memory.recall("Which tree stands in garden 49?")
    memory = open_memory(path)
    assert memory.recall("Which tree stands in garden 49?") == before
    memory.add(told(520, 1))
    assert {key: len(code) for key, code in coded(path).items()} == {4_096: 256 * 8, 4_097: 256 * 8}
    assert memory.verify().ok
    memory.close()
    assert memdb.open(path, encoder=HashEncoder(64), read_only=True).verify().ok


def test_a_build_codes_all_of_a_file_of_an_earlier_version(
    tmp_path: Path, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[F-048] However many chunks one write codes; the second time there is nothing to do."""
    path = tmp_path / "earlier.memdb"
    earlier(path, monkeypatch, 3 * 512 + 1)
    monkeypatch.setattr(codes, "_MOST", 1)
    memory = open_memory(path)
    memory.build()
    made = coded(path)
    assert sorted({number // 4_096 for number in made}) == [1, 2, 3]
    memory.build()
    assert coded(path) == made
    assert memory.verify().ok


def test_what_is_deleted_leaves_no_code(memory: memdb.Memory, path: Path) -> None:
    memory.add(told(0, SLOTS + 1))
    assert any(coded(path)[4_096][8:16])
    with memory.reader.database.atomic() as connection:
        codes.delete(connection, "message_vector", "DELETE FROM message_vector WHERE message_id = ?", [2])
    assert not any(coded(path)[4_096][8:16])
    assert any(coded(path)[4_096][:8])

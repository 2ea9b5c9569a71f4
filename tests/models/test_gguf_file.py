"""The table of tokens, read from files that the gguf package writes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import ModelDamaged, ModelError, ModelNotFound
from memdb.models.gguf_file import token_rows
from tests.models import tiny_llama

WIDTH = tiny_llama.WIDTH
TABLE = tiny_llama.tensors("llama")["token_embd.weight"]


def by_hand(
    kind: int = 0, *, version: int = 3, alignment: int | None = None, name: str = "token_embd.weight"
) -> bytes:
    """A file of one float32 table [3, 2], with values of every kind before it."""

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    pairs = [
        string("a.text") + struct.pack("<I", 8) + string("general.alignment"),
        string("a.byte") + struct.pack("<IB", 0, 7),
        string("a.flag") + struct.pack("<IB", 7, 1),
        string("a.long") + struct.pack("<IQ", 10, 2**60),
        string("a.double") + struct.pack("<Id", 12, 0.5),
        string("a.shorts") + struct.pack("<IIQ", 9, 2, 3) + struct.pack("<3H", 1, 2, 3),
        string("a.words") + struct.pack("<IIQ", 9, 8, 2) + string("one") + string(""),
        string("a.lists") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 8, 1) + string("x"),
    ]
    if alignment is not None:
        pairs.append(string("general.alignment") + struct.pack("<II", 4, alignment))
    head = b"GGUF" + struct.pack("<IQQ", version, 2, len(pairs)) + b"".join(pairs)
    head += string("other") + struct.pack("<IQIQ", 1, 3, 0, 0)
    offset = alignment or 32
    head += string(name) + struct.pack("<IQQIQ", 2, 2, 3, kind, offset)
    head += bytes(-len(head) % offset)
    return head + b"\xff" * offset + np.arange(6, dtype="<f4").tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.gguf"


@pytest.mark.parametrize("alignment", [None, 8, 32, 256])
def test_rows_are_found_behind_every_kind_of_value(path: Path, alignment: int | None) -> None:
    path.write_bytes(by_hand(alignment=alignment))
    assert token_rows(path, [2, 0, 2], 2).tolist() == [[4, 5], [0, 1], [4, 5]]
    assert token_rows(path, [], 2).shape == (0, 2)


@pytest.mark.parametrize("table", ["F32", "F16", "BF16", "Q8_0", "Q4_1", "Q5_0"])
def test_rows_are_those_that_the_package_reads(path: Path, table: str) -> None:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    tiny_llama.write(path, table=table)
    (stored,) = [t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight"]
    whole = gguf.quants.dequantize(stored.data, stored.tensor_type)
    ids = [0, 260, 7, 7]
    rows = token_rows(path, ids, WIDTH)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert np.array_equal(rows, whole[ids])
    spread = {"F32": 0, "F16": 1e-3, "BF16": 1e-2}.get(table, 0.15)
    assert np.abs(rows - TABLE[ids]).max() <= spread


def test_plain_tables_take_no_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    tiny_llama.write(path, table="Q8_0")
    packed = path.read_bytes()
    tiny_llama.write(path, table="F16")
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert np.abs(token_rows(path, [3], WIDTH) - TABLE[3]).max() < 1e-3
    path.write_bytes(packed)
    with pytest.raises(ModelNotFound, match="gguf") as caught:
        token_rows(path, [3], WIDTH)
    assert "memdb-engine[llm]" in caught.value.hint


def test_a_file_cut_short_is_damage(path: Path) -> None:
    whole = by_hand()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelDamaged, match=r"a\.gguf"):
            token_rows(path, [2], 2)


@pytest.mark.parametrize(
    ("data", "tokens", "width"),
    [
        (by_hand(version=1), [0], 2),
        (by_hand(name="output.weight"), [0], 2),
        (by_hand(), [0], 3),
        (by_hand(), [3], 2),
        (by_hand(), [-1], 2),
        (by_hand(kind=999), [0], 2),
    ],
    ids=["version", "no table", "width", "beyond", "before", "kind"],
)
def test_what_has_no_such_rows_is_an_error(path: Path, data: bytes, tokens: list[int], width: int) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"a\.gguf"):
        token_rows(path, tokens, width)


@pytest.mark.parametrize("count", [2**31, 2**62])
def test_counts_beyond_the_file_end(path: Path, count: int) -> None:
    data: Any = bytearray(by_hand())
    struct.pack_into("<Q", data, 16, count)
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"a\.gguf"):
        token_rows(path, [0], 2)

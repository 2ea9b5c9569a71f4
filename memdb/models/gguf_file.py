"""The table of tokens in a GGUF file: llama.cpp reads it, and shows it to nobody.

The layout is that of GGUF version 2 and 3: a head, key-value pairs, descriptions of tensors, padding, the
tensors. Numbers are little-endian. Only what is needed is read: the vocabulary alone has 10^5 strings.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged, ModelError, ModelNotFound

TABLE: Final = "token_embd.weight"
ALIGNMENT_KEY: Final = "general.alignment"
ALIGNMENT: Final = 32  # bytes, where the file does not say
STRING, ARRAY = 8, 9  # kinds of values
SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of the others
UNSIGNED: Final = 4  # the kind of the alignment
FLOATS: Final[dict[int, np.dtype[np.floating[Any]]]] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f2"),
}  # tensors that need no package


class _Tensor(NamedTuple):
    kind: int
    width: int
    rows: int
    start: int  # byte of the file


def token_rows(path: Path, tokens: Sequence[int], width: int) -> NDArray[np.float32]:
    """float32 [len(tokens), width]: the rows of these tokens, dequantised.

    Raises ModelNotFound where the table is quantised and the package gguf missing, ModelDamaged where the
    file ends too early, ModelError where it has no table of that width or one packed in an unknown way.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            table = _table(data)
            if table is None or table.width != width or not all(0 <= token < table.rows for token in tokens):
                raise ModelError(f"{path} has no table of tokens {width} wide")
            return _unpacked(data, table, tokens, path)
        except (struct.error, LookupError, ArithmeticError) as error:
            raise ModelDamaged(f"{path} ends before its table of tokens does") from error


def _unpacked(data: mmap.mmap, table: _Tensor, tokens: Sequence[int], path: Path) -> NDArray[np.float32]:
    if table.kind in FLOATS:
        size = FLOATS[table.kind].itemsize * table.width
        packed = _packed(data, table, tokens, size).view(FLOATS[table.kind])
        plain: NDArray[np.float32] = packed.astype(np.float32).reshape(len(tokens), table.width)
        return plain
    try:
        import gguf
    except ImportError as error:
        message = f"the table of tokens of {path} is quantised: that takes the package gguf"
        raise ModelNotFound(message, hint="pip install 'memdb-engine[llm]'") from error
    try:
        kind = gguf.GGMLQuantizationType(table.kind)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        packed = _packed(data, table, tokens, table.width // block * size)
        rows: NDArray[np.float32] = gguf.quants.dequantize(packed, kind)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"the table of tokens of {path} is packed in an unknown way: {error}") from error
    return np.ascontiguousarray(rows, np.float32).reshape(len(tokens), table.width)


def _packed(data: mmap.mmap, table: _Tensor, tokens: Sequence[int], size: int) -> NDArray[np.uint8]:
    """uint8 [len(tokens), size]"""
    packed = np.empty((len(tokens), size), np.uint8)
    for number, token in enumerate(tokens):
        start = table.start + token * size
        row = data[start : start + size]
        if len(row) < size:
            raise IndexError(start)
        packed[number] = np.frombuffer(row, np.uint8)
    return packed


def _table(data: mmap.mmap) -> _Tensor | None:
    """Where the table stands; None where the file has none."""
    version, tensors, pairs = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        return None
    at, alignment, found = 24, ALIGNMENT, None
    for _ in range(pairs):
        key, at = _string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if kind == UNSIGNED and key == ALIGNMENT_KEY.encode():
            (alignment,) = struct.unpack_from("<I", data, at + 4)
        at = _after(data, at + 4, kind)
    for _ in range(tensors):
        name, at = _string(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        shape = struct.unpack_from(f"<{dimensions}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * dimensions)
        at += 16 + 8 * dimensions
        if name == TABLE.encode() and dimensions == 2:
            found = _Tensor(kind, shape[0], shape[1], offset)
    return None if found is None else found._replace(start=found.start + -(-at // alignment) * alignment)


def _string(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    """The string at `at`, and where it ends."""
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length], at + 8 + length


def _after(data: mmap.mmap, at: int, kind: int) -> int:
    """Where a value that begins at `at` ends."""
    if kind == STRING:
        return _string_end(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in SIZES:
        return at + SIZES[inner] * int(count)
    for _ in range(count):
        at = _after(data, at, inner)
    return at


def _string_end(data: mmap.mmap, at: int) -> int:
    return at + 8 + int(struct.unpack_from("<Q", data, at)[0])

"""The bytes of a graph: what is added to a model, or left out of it, without the library that reads models.

A model's file is a protocol buffer: fields one after the other, each a key, and a varint or so many bytes.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PRODUCER: Final = 2  # ModelProto.producer_name
_GRAPH: Final = 7  # ModelProto.graph
_INITIALIZER: Final = 5  # GraphProto.initializer
MAPPED_FROM: Final = 1 << 16  # bytes of a tensor that is left in its file
_BYTES: Final = (2, 3)  # TensorProto.DataType UINT8 and INT8: legal at any place in a file
_FIXED: Final = {1: 8, 5: 4}  # wire types of so many bytes


class _Field(NamedTuple):
    """A field of a message: where its key starts, and where what it holds starts and ends."""

    number: int
    start: int
    content: int
    end: int


def as_output(value: str) -> bytes:
    """A ModelProto of nothing but the declaration of one output, float32 of any shape.

    Protocol buffers merge: appended to a model's bytes it adds an output to the model's graph.
    """
    tensor = _message(1, bytes([8, 1]))  # ValueInfoProto.type: TypeProto.tensor_type: elem_type 1, FLOAT
    output = _message(1, value.encode()) + _message(2, tensor)  # ValueInfoProto.name, type
    return _message(_GRAPH, _message(12, output))  # GraphProto.output


class Outline(NamedTuple):
    """A model without its large tensors of bytes: each says where in the model's file it is, as one that is
    kept beside a model does. `producer` is what wrote the model.
    """

    content: bytes
    producer: str = ""
    left_out: int = 0


def outline(file: Path) -> Outline:
    """The outline of the model in a file. Who loads it maps the tensors, and neither parses nor copies them.

    The file must then stay as it is while the model is in use. One that is not a model comes back as it is,
    for the runtime to refuse.
    """
    with file.open("rb") as stream:
        try:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return Outline(b"")
    with mapped:
        try:
            return _outline(mapped, file.name)
        except (IndexError, UnicodeError):
            return Outline(mapped[:])


def _outline(model: mmap.mmap, name: str) -> Outline:
    parts, producer, left_out = list[bytes](), "", 0
    for field in _fields(model, 0, len(model)):
        part = model[field.start : field.end] if field.number != _GRAPH else b""
        if field.number == _PRODUCER:
            producer = model[field.content : field.end].decode()
        elif field.number == _GRAPH:
            graph, without = _graph(model, field, name)
            part, left_out = _message(_GRAPH, graph), left_out + without
        parts.append(part)
    return Outline(b"".join(parts) if left_out else model[:], producer, left_out)


def _graph(model: mmap.mmap, graph: _Field, name: str) -> tuple[bytes, int]:
    """The GraphProto, and the number of tensors that are left out."""
    parts, copied = list[bytes](), graph.content
    for field in _fields(model, graph.content, graph.end):
        large = field.number == _INITIALIZER and field.end - field.content >= MAPPED_FROM
        if large and (made := _elsewhere(model, field, name)):
            parts += [model[copied : field.start], _message(_INITIALIZER, made)]
            copied = field.end
    return b"".join([*parts, model[copied : graph.end]]), len(parts) // 2


def _elsewhere(model: mmap.mmap, tensor: _Field, name: str) -> bytes:
    """The TensorProto with the place of its raw_data instead of that, empty where it is not of bytes."""
    kept, kind, raw = list[bytes](), 0, None
    for field in _fields(model, tensor.content, tensor.end):
        if field.number == 9:
            raw = field
            continue
        if field.number == 2:
            kind = model[field.content]
        kept.append(model[field.start : field.end])
    if raw is None or kind not in _BYTES:
        return b""
    place = {"location": name, "offset": str(raw.content), "length": str(raw.end - raw.content)}
    told = [
        _message(13, _message(1, key.encode()) + _message(2, value.encode())) for key, value in place.items()
    ]
    return b"".join([*kept, *told, bytes([14 << 3, 1])])  # external_data, data_location EXTERNAL


def _fields(model: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message from `start` to `end`. Raises IndexError where it is not one."""
    while start < end:
        key, content = _varint(model, start)
        wire = key & 7
        if wire == 2:
            length, content = _varint(model, content)
            after = content + length
        elif wire == 0:
            after = _varint(model, content)[1]
        else:
            after = content + _FIXED.get(wire, end)
        if after > end:
            raise IndexError
        yield _Field(key >> 3, start, content, after)
        start = after


def _varint(model: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of up to ten bytes, and where it ends. Raises IndexError where there is none."""
    value = shift = 0
    while shift < 70:
        byte = model[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise IndexError


def _message(field: int, content: bytes) -> bytes:
    """One length-delimited field of a protocol buffer."""
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + content

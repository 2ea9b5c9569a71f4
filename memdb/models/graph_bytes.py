"""The bytes of a graph: what is added to a model without reading it."""

from __future__ import annotations


def as_output(value: str) -> bytes:
    """A ModelProto of nothing but the declaration of one output, float32 of any shape.

    Protocol buffers merge: appended to a model's bytes it adds an output to the model's graph.
    """
    tensor = _message(1, bytes([8, 1]))  # ValueInfoProto.type: TypeProto.tensor_type: elem_type 1, FLOAT
    output = _message(1, value.encode()) + _message(2, tensor)  # ValueInfoProto.name, type
    return _message(7, _message(12, output))  # ModelProto.graph, GraphProto.output


def _message(field: int, content: bytes) -> bytes:
    """One length-delimited field of a protocol buffer."""
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + content

"""Encoders that are not the file's, or that something happens to; and what vectors a file should have."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from memdb.construct.traces import triple_text
from memdb.construct.views import dense_text
from memdb.models.fakes import HashEncoder, OverlapAttention
from memdb.models.ports import Kind
from memdb.records import Message, Triple
from memdb.store import indexes
from memdb.store.connection import load_vectors


class Turned(HashEncoder):
    """Of the dimension of a HashEncoder, but another vector space."""

    @property
    def name(self) -> str:
        return f"turned-{self.dimension}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(f"turned {self.dimension}".encode()).hexdigest()

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        turned: NDArray[np.float32] = -np.roll(super().encode([t[::-1] for t in texts], kind=kind), 7, axis=1)
        return turned


class Watched(HashEncoder):
    """Tells `seen` of each list of texts before it encodes it, from which point on anything may happen."""

    def __init__(self, dimension: int, seen: Callable[[Sequence[str]], object]) -> None:
        super().__init__(dimension)
        self.seen = seen

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        self.seen(texts)
        return super().encode(texts, kind=kind)


class Attentive(HashEncoder):
    """One that tells attention, the share of words that two texts have in common."""

    @property
    def name(self) -> str:
        return f"attentive-{self.dimension}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(f"attentive {self.dimension}".encode()).hexdigest()

    def attention(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return OverlapAttention().attention(pairs)


class Lettered(HashEncoder):
    """A text that says "a3 b4" has the direction (3, 4, 0, …), one that says nothing so is along the last
    axis: every cosine is known.
    """

    def __init__(self) -> None:
        super().__init__(8)

    @property
    def name(self) -> str:
        return "lettered"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(b"lettered").hexdigest()

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), 8), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for letter, size in re.findall(r"\b([a-g])(\d+)\b", text):
                row["abcdefg".index(letter)] += int(size)
            row[7] = not row.any()
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


MESSAGES = """
    SELECT message.message_id, own, message.speaker, message.content, message.image_caption, before.content
    FROM message LEFT JOIN message_vector USING (message_id)
    LEFT JOIN message AS before ON before.session_id = message.session_id
                               AND before.position = message.position - 1
"""
UNITS = """
    SELECT unit_id, unit_vector.fact, triple, fact_text, subject, predicate, object FROM unit
    LEFT JOIN unit_vector USING (unit_id) LEFT JOIN triple_vector USING (unit_id)
"""
LABELS = """
    SELECT label_id, label_vector.name, label.name FROM label LEFT JOIN label_vector USING (label_id)
"""


def wrong_vectors(path: Path, encoder: HashEncoder) -> list[str]:
    """Every vector of a file that is not the one this encoder gives, or that is missing."""
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    pairs: list[tuple[str, bytes | None, str]] = []
    for id, code, speaker, content, caption, before in connection.execute(MESSAGES):
        said = [Message("", before)] * (before is not None) + [
            Message(speaker, content, image_caption=caption)
        ]
        pairs.append((f"message {id}", code, dense_text(said, len(said) - 1)))
    for id, code, triple_code, fact, *triple in connection.execute(UNITS):
        pairs.append((f"unit {id}", code, fact))
        if triple[0] is not None:
            pairs.append((f"triple {id}", triple_code, triple_text(Triple(*triple))))
        elif triple_code is not None:
            pairs.append((f"triple {id} of none", None, ""))
    pairs += [(f"label {id}", code, name) for id, code, name in connection.execute(LABELS)]
    connection.close()
    scale = indexes.vector_scale(encoder.dimension)
    right = indexes.code(encoder.encode([text for _, _, text in pairs]), scale) if pairs else ()
    return [what for (what, code, _), own in zip(pairs, right, strict=True) if code != own.tobytes()]

"""Texts to codes through a memory's own encoder, and where messages go: what reading and writing share.

Opening a file to read it loads this and none of what builds memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb.models.ports import AttentionScorer, Encoder
from memdb.records import Scope
from memdb.store import indexes, schema
from memdb.store.connection import Connection, Database


class Place(NamedTuple):
    """Where messages go: a session of a scope, which came from a source."""

    scope: Scope
    source: str
    session: str


class Overtaken(Exception):
    """What a write was planned on has changed: the encoder of the file, the rule of its segments, or a label
    that is there no more.
    """


class Vectors:
    """Texts to int8 codes through a memory's own encoder, while the file's vectors are of it.

    Else `encoder` is None, and there are no codes. `scorer` tells attention between messages, if anything
    does: what was given, or the encoder. Another process may re-embed the file at any time: a plan
    is made with `read`, and the transaction that writes it begins with `require`.
    """

    def __init__(self, own: Encoder, *, usable: bool = True, scorer: AttentionScorer | None = None) -> None:
        self.own = own
        self.scorer = scorer or (own if isinstance(own, AttentionScorer) else None)
        self.encoder = own if usable else None
        self.scale = indexes.vector_scale(own.dimension)

    def now(self, connection: Connection) -> Vectors:
        """The same for the state of the file the writer sees."""
        usable = schema.has_vectors_of(connection, self.own)
        return Vectors(self.own, usable=usable, scorer=self.scorer)

    def read(self, database: Database) -> Vectors:
        """The same for the file as it is now."""
        with database.reader() as connection:
            usable = schema.sees_vectors_of(database, connection, self.own)
        return Vectors(self.own, usable=usable, scorer=self.scorer)

    def require(self, connection: Connection) -> None:
        """Raise Overtaken unless codes that these vectors gave, or did not give, are right for the file."""
        if self.now(connection).encoder is not self.encoder:
            raise Overtaken(self.own.name)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Document vectors, [n, d], length 1."""
        return None if self.encoder is None else self.encoder.encode(texts)

    def codes(self, vectors: NDArray[np.float32] | None, count: int) -> list[bytes | None]:
        """One code per row; `count` times None without an encoder."""
        if vectors is None:
            return [None] * count
        return [row.tobytes() for row in indexes.code(vectors, self.scale)]


def vectors_of_another(path: Path, made: schema.Made, own: Encoder) -> str:
    """What is said of a file whose vectors are not of the encoder in use."""
    return (
        f"the vectors of {path} are of the encoder {made.encoder_name} ({made.encoder_sha256[:8]}), not "
        f"{own.name} ({own.sha256[:8]}): searching by words alone, adding without vectors; to make vectors "
        "anew call reembed(), or memdb reembed FILE"
    )

"""An encoder that remembers: the same vectors, each document encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.columns import Column
from benchmarks.quality.data import Conversation, Question, Session
from benchmarks.quality.encoding import Remembering
from benchmarks.quality.retrievers import in_memory_file
from memdb import Message
from memdb.errors import InputError
from memdb.models.fakes import HashEncoder
from memdb.models.ports import Encoder, Kind


class Counting(HashEncoder):
    """Notes what it has encoded."""

    def __init__(self) -> None:
        super().__init__(64)
        self.encoded: list[tuple[str, Kind]] = []

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> np.ndarray:  # type: ignore[type-arg]
        self.encoded += [(text, kind) for text in texts]
        return super().encode(texts, kind=kind)


def test_each_document_is_encoded_once() -> None:
    real = Counting()
    encoder = Remembering(real)
    first = encoder.encode(["a cat", "a dog", "a cat"])
    again = encoder.encode(["a dog", "a bird"])
    assert [text for text, _ in real.encoded] == ["a cat", "a dog", "a bird"]
    assert encoder.counts == (3, 2)
    plain = HashEncoder(64)
    assert np.array_equal(first, plain.encode(["a cat", "a dog", "a cat"]))
    assert np.array_equal(again, plain.encode(["a dog", "a bird"]))


def test_questions_are_encoded_each_time() -> None:
    real = Counting()
    encoder = Remembering(real)
    for _ in range(2):
        encoder.encode(["where?"], kind="query")
    assert real.encoded == [("where?", "query")] * 2
    assert encoder.counts == (0, 0)


def test_it_is_an_encoder_under_the_real_name() -> None:
    real = HashEncoder(64)
    encoder = Remembering(real)
    assert isinstance(encoder, Encoder)
    for name in ("name", "sha256", "dimension", "max_tokens"):
        assert getattr(encoder, name) == getattr(real, name)
    assert encoder.encode([]).shape == (0, 64)
    with pytest.raises(InputError, match="not one text"):
        encoder.encode("a cat")


def test_conversations_that_share_messages_share_vectors(tmp_path: Path) -> None:
    """The second conversation has a session of the first; questions go to the real encoder."""
    told = [
        Session(name, (Message("user", f"I adopted a {name}.", id=f"{name}_1"),)) for name in ("cat", "dog")
    ]
    question = Question(0, "Which animal did I adopt?", 1, ("cat_1",))
    real = Counting()
    remembering = Remembering(real)
    taken = []
    for name, sessions in (("one", told[:1]), ("two", told)):
        conversation = Conversation(name, tuple(sessions), (question,))
        with in_memory_file(conversation, {"all": Column()}, tmp_path, remembering) as prepared:
            taken.append((prepared.encoded, prepared.reused))
            documents = [text for text, kind in real.encoded if kind == "document"]
            assert len(documents) == len(set(documents)), "none twice"
            assert prepared.models[real.name] == real.sha256
            reply = prepared.retrievers["all"](question)
            assert {piece.ids[0] for piece in reply.found} == {f"{one.name}_1" for one in sessions}
    assert [reused > 0 for _, reused in taken] == [False, True]
    assert [kind for _, kind in real.encoded].count("query") == 2

"""How much a message attends to the one before it, read from inside a transformer (DeferMem section 3.2,
appendix B.1): from the queries and keys of its deepest layers, which the graph is asked for beside its own
outputs. The file of the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged
from memdb.models.card import AttentionShape
from memdb.models.onnx import PROVIDERS, SLICE_TEXTS, OnnxEncoder, Runtime
from memdb.models.ports import require_finite, require_pairs

Array = NDArray[np.float32]


class AttentionReader:
    """Attention from a graph and its tokenizer, loaded.

    A pair is read as one text, `[CLS] first second [SEP]`. The attention of a token is the softmax over all
    tokens, the mean over the layers of `shape` and their heads; a pair's score is the mean over the tokens
    of the second text of what they pay to those of the first together. Special tokens are paid to, and are
    none of either text. What is raised: see `Runtime`.
    """

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        shape: AttentionShape,
        *,
        name: str,
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
    ) -> None:
        self._name, self._shape = name, shape
        self._values = [value for layer in shape.layers for value in layer]
        self._runtime = Runtime(
            model_file, tokenizer_file, name=name, inner=self._values, providers=providers, threads=threads
        )
        self._before, self._after = self._runtime.special_tokens()
        self._runtime.tokenizer.encode_special_tokens = True  # what they are called is only text from here on

    def attention(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """See `ports.AttentionScorer`."""
        require_pairs(pairs)
        scores = np.zeros(len(pairs), np.float32)
        limit = self._shape.text_tokens
        for start in range(0, len(pairs), SLICE_TEXTS):
            some = pairs[start : start + SLICE_TEXTS]
            firsts, seconds = (self._runtime.tokens([pair[side] for pair in some], limit) for side in (0, 1))
            # One pair a run: a neighbour must not move a boundary, and on a CPU batches are hardly faster.
            for at, (first, second) in enumerate(zip(firsts, seconds, strict=True), start):
                if first and second:
                    scores[at] = self._score(first[:limit], second[:limit])
        return require_finite(scores, self._name)

    def _score(self, first: list[int], second: list[int]) -> float:
        ids = np.array([[*self._before, *first, *second, *self._after]])
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        begin = len(self._before)
        middle, end = begin + len(first), begin + len(first) + len(second)
        paid = list[float]()
        values = iter(self._runtime.values(self._values, feed))
        for query, key in zip(values, values, strict=True):
            shares = attention_shares(self._heads(query, ids.size)[:, middle:end], self._heads(key, ids.size))
            paid.append(float(shares[:, :, begin:middle].sum(axis=2).mean()))
        return sum(paid) / len(paid)

    def _heads(self, value: Array, tokens: int) -> Array:
        """[1, t, hidden_size] -> [heads, t, hidden_size / heads]"""
        heads = self._shape.heads
        if value.ndim != 3 or value.shape[:2] != (1, tokens) or value.shape[2] % heads:
            expected = f"[1, {tokens}, a multiple of {heads}]"
            raise ModelDamaged(f"the attention of {self._name} is {list(value.shape)}, not {expected}")
        parts: Array = value[0].reshape(tokens, heads, -1).transpose(1, 0, 2)
        return parts


def attention_shares(query: Array, key: Array) -> Array:
    """softmax(QKᵀ / √d): [heads, q, d], [heads, t, d] -> [heads, q, t]"""
    logits = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
    powers = np.exp(logits - logits.max(axis=2, keepdims=True))
    shares: Array = powers / powers.sum(axis=2, keepdims=True)
    return shares


class Attending:
    """The `attention` of a model, its reader made when it is first asked."""

    def __init__(self, make: Callable[[], AttentionReader]) -> None:
        self._make, self._lock = make, Lock()
        self._made: AttentionReader | None = None

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """See `ports.AttentionScorer`."""
        with self._lock:
            reader = self._made = self._made or self._make()
        return reader.attention(pairs)


class AttendingEncoder(OnnxEncoder):
    """An encoder whose card tells where it attends; a `ports.AttentionScorer` too."""

    def __init__(
        self, model_file: Path, tokenizer_file: Path, *, shape: AttentionShape, **given: Any
    ) -> None:
        super().__init__(model_file, tokenizer_file, **given)
        self._attending = late_reader(model_file, tokenizer_file, shape, given)

    def attention(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """See `ports.AttentionScorer`. The first call loads the graph a second time."""
        return self._attending(pairs)


def late_reader(
    model_file: Path, tokenizer_file: Path, shape: AttentionShape, given: dict[str, Any]
) -> Attending:
    """The attention of a model that was made with `given`."""
    shared = {key: given[key] for key in ("name", "providers", "threads") if key in given}
    return Attending(lambda: AttentionReader(model_file, tokenizer_file, shape, **shared))

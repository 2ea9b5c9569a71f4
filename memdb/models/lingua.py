"""LLMLingua-2 (Pan et al. 2024): a token classifier that says which words of a text to keep; DeferMem
section 3.2, appendix B.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import InputError, ModelDamaged
from memdb.language.compress import Word, chunks, require_rate, require_text, without_unlikely
from memdb.models.attention import Array, late_reader
from memdb.models.card import AttentionShape
from memdb.models.described import Described
from memdb.models.onnx import PROVIDERS, Pieces, Runtime
from memdb.models.ports import require_finite, valid_unicode


class Lingua(Described):
    """A token classifier that gives logits [n, t, 2], of dropping and of keeping; a `ports.Compressor`.

    `rate` is the share of words it keeps, where a call says nothing else. `providers`, `threads` and what is
    raised: see `Runtime`; InputError for a rate that is none, or too few max_tokens.
    """

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        *,
        name: str,
        sha256: str,
        rate: float = settings.COMPRESSION_RATE,
        max_tokens: int = settings.CHUNK_TOKENS,
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
    ) -> None:
        require_rate(rate)
        super().__init__(name, sha256, max_tokens)
        self._rate = rate
        self._runtime = Runtime(model_file, tokenizer_file, name=name, providers=providers, threads=threads)
        self._before, self._after = self._runtime.special_tokens()
        self._room = max_tokens - len(self._before) - len(self._after)
        if self._room < 1:
            raise InputError(f"{max_tokens} tokens leave no room for a text")
        self._runtime.tokenizer.encode_special_tokens = True  # what they are called is only text from here on
        self._output = self._runtime.output("logits")

    @property
    def name(self) -> str:
        """See `ports.Compressor`: the model's name, the first 8 digits of its digest, and the rate."""
        return f"{self._name}-{self._sha256[:8]}@{self._rate:g}"

    def __call__(self, text: str) -> str:
        """See `ports.Compressor`."""
        return self.compress(text, self._rate)

    def compress(self, text: str, rate: float) -> str:
        """The words that the model keeps at this rate: see `compress.without_unlikely`.

        The text is read in chunks of at most max_tokens, cut at the ends of sentences; a word's probability
        is the mean over its tokens. What is raised: see `ports.Compressor`, and InputError for no rate.
        """
        require_text(text)
        require_rate(rate)
        legal = valid_unicode(text)
        pieces = self._runtime.pieces(legal)
        starts = [start for start, _ in pieces.places]
        spans = chunks(legal, starts, self._room)
        parts = [self._kept(pieces.ids[span.start : span.end]) for span in spans]
        words = _words(legal, pieces, np.concatenate(parts) if parts else np.zeros(0, np.float32))
        short = without_unlikely(legal, words, rate)
        return text if short is legal else short

    def _kept(self, tokens: list[int]) -> Array:
        """float32 [len(tokens)]: the probability of class 1 of each."""
        ids = np.array([[*self._before, *tokens, *self._after]])
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        logits = self._runtime.run(self._output, feed)
        if logits.shape != (1, ids.size, 2):
            raise ModelDamaged(f"the compressor {self._name} gives {logits.shape}, not [n, t, 2]")
        own = require_finite(logits[0, len(self._before) :][: len(tokens)], self._name)
        kept: Array = 1 / (1 + np.exp((own[:, 0] - own[:, 1]).clip(-80, 80)))
        return kept


def _words(text: str, pieces: Pieces, probabilities: NDArray[np.float32]) -> list[Word]:
    """The tokenizer's words that are more than blanks."""
    words = list[Word]()
    for _, group in groupby(range(len(pieces.ids)), key=pieces.words.__getitem__):
        places = list(group)
        start, end = pieces.places[places[0]][0], pieces.places[places[-1]][1]
        said = text[start:end]
        start += len(said) - len(said.lstrip())
        if said.strip():
            probability = float(probabilities[places].mean())
            words.append(Word(start, start + len(said.strip()), probability, len(places)))
    return words


class AttendingLingua(Lingua):
    """A compressor whose card tells where it attends; a `ports.AttentionScorer` too."""

    def __init__(
        self, model_file: Path, tokenizer_file: Path, *, shape: AttentionShape, **given: Any
    ) -> None:
        super().__init__(model_file, tokenizer_file, **given)
        self._attending = late_reader(model_file, tokenizer_file, shape, given)

    def attention(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """See `ports.AttentionScorer`. The first call loads the graph a second time."""
        return self._attending(pairs)

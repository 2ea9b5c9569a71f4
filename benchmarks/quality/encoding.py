"""Encoding once what a run asks for several times."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from memdb.models.described import Described
from memdb.models.ports import Encoder, Kind, require_texts


class Remembering(Described):
    """An encoder that keeps the vectors of documents: `memdb.models.ports.Encoder` over another, `real`.

    Its name and digest are those of `real`, as a vector depends on its text alone. Questions are encoded
    anew each time.
    """

    def __init__(self, real: Encoder) -> None:
        super().__init__(real.name, real.sha256, real.max_tokens)
        self.real = real
        self._known: dict[str, NDArray[np.float32]] = {}
        self._lock = Lock()
        self._encoded = self._reused = 0

    @property
    def dimension(self) -> int:
        """That of the real one."""
        return self.real.dimension

    @property
    def counts(self) -> tuple[int, int]:
        """How many documents were encoded so far, and how many more were known already."""
        return self._encoded, self._reused

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """See `ports.Encoder`."""
        require_texts(texts)
        if kind != "document" or not texts:
            return self.real.encode(texts, kind=kind)
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._known]
            self._known.update(zip(new, self.real.encode(new), strict=True))
            self._encoded += len(new)
            self._reused += len(texts) - len(new)
            return np.stack([self._known[text] for text in texts])

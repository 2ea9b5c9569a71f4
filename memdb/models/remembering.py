"""Reranking once what is asked for several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memdb.models.described import DescribedReranker
from memdb.models.ports import Calibrated, Reranker


class RememberingReranker(DescribedReranker):
    """A reranker that keeps its scores: `ports.Reranker` and `Calibrated` over another, `real`.

    A score depends on question and document alone, so they are those of `real`. It keeps all of them: it is
    for one question, or for one run.
    """

    def __init__(self, real: Reranker) -> None:
        super().__init__(real.name, real.sha256, real.max_tokens, real.fields)
        self.real = real
        self._known: dict[tuple[str, str], float] = {}

    @property
    def calibration(self) -> Mapping[str, float]:
        """That of the real one, none if it has none."""
        return self.real.calibration if isinstance(self.real, Calibrated) else {}

    def count_tokens(self, text: str) -> int:
        """See `ports.Reranker`."""
        return self.real.count_tokens(text)

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`."""
        return self.real.document_tokens(question)

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`."""
        new = [one for one in dict.fromkeys(documents) if (question, one) not in self._known]
        if new:
            scores = self.real.score(question, new).tolist()
            self._known.update(zip(((question, one) for one in new), scores, strict=True))
        return np.array([self._known[question, one] for one in documents], np.float32)

"""Late interaction (ColBERT, Khattab and Zaharia 2020): a reranker made of the encoder there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError
from memdb.models.described import DescribedReranker
from memdb.models.ports import FIELDS, Encoder, Field, Kind, require_documents, require_finite

SLICE_DOCUMENTS = 64  # whose token vectors are held at once: 25 MB of the embedded encoder


@runtime_checkable
class TokenEncoder(Encoder, Protocol):
    """An encoder that also gives the vectors of single tokens; `models.onnx.OnnxEncoder` is one."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a whole text, special tokens left out."""
        ...

    def token_vectors(self, texts: Sequence[str], *, kind: Kind = "document") -> list[NDArray[np.float32]]:
        """For each text float32 [tokens, dimension], rows of L2 norm 1."""
        ...


class LateInteractionReranker(DescribedReranker):
    """MaxSim over an encoder's token vectors; a `ports.Reranker`, but for what a score is.

    A score is the sum, over the question's tokens, of the largest cosine with a token of the document: -1
    each for a document without tokens. It orders the documents of one question. It is neither a probability
    nor log-odds, and scores of two questions cannot be compared. Question and document have `max_tokens`
    each. Alone and among others a document's score is the same within 1e-3.

    Raises InputError for an encoder that gives no vectors of tokens.
    """

    def __init__(self, encoder: object, fields: Sequence[Field] = FIELDS) -> None:
        if not isinstance(encoder, TokenEncoder):
            message = f"a {type(encoder).__name__} gives no vectors of single tokens"
            raise InputError(message, hint="give what load_encoder returns")
        super().__init__(f"late-interaction:{encoder.name}", encoder.sha256, encoder.max_tokens, fields)
        self._encoder = encoder

    def count_tokens(self, text: str) -> int:
        """See `ports.Reranker`."""
        return self._encoder.count_tokens(text)

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`: the question takes nothing from the document."""
        return self._encoder.max_tokens

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`, and the class for what a score is."""
        require_documents(question, documents)
        (asked,) = self._encoder.token_vectors([question], kind="query")
        scores = np.empty(len(documents), np.float32)
        for start in range(0, len(documents), SLICE_DOCUMENTS):
            said = self._encoder.token_vectors(documents[start : start + SLICE_DOCUMENTS])
            scores[start : start + len(said)] = [max_sim(asked, vectors) for vectors in said]
        return require_finite(scores, self.name)


def max_sim(asked: NDArray[np.float32], said: NDArray[np.float32]) -> float:
    """[q, d], [t, d] -> the sum over q of the largest cosine among t; -1 each where t is 0."""
    return float((asked @ said.T).max(axis=1, initial=-1.0).sum())

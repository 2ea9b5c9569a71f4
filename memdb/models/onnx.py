"""Encoders on ONNX Runtime, on CPU or CUDA. The only file that knows onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged, ModelError, ModelNotFound
from memdb.models.ports import Kind, require_texts, valid_unicode

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Encoding, Tokenizer

Pooling = Literal["mean", "cls"]

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")  # best first
BATCH_TOKENS = 1024  # padded tokens of one run; 2048 is no faster and holds 80 MB more
SLICE_TEXTS = 2048  # texts tokenised at once
CHARACTERS_PER_TOKEN = 64  # text beyond max_tokens times this is not tokenised


class OnnxEncoder:
    """A transformer that gives hidden states [n, t, d], pooled and normalised here; a `ports.Encoder`.

    `threads` are those of one run, None for one per core; runs may overlap. Of `providers`, the best that
    this machine has is used. Raises ModelNotFound when a file is missing, ModelDamaged when unreadable.
    """

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        *,
        name: str,
        sha256: str,
        dimension: int,
        max_tokens: int = 256,
        pooling: Pooling = "mean",
        query_prefix: str = "",
        document_prefix: str = "",
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
    ) -> None:
        for file in (model_file, tokenizer_file):
            if not file.is_file():
                raise ModelNotFound(f"the model {name} lacks its file {file}")
        self._name, self._sha256, self._dimension, self._max_tokens = name, sha256, dimension, max_tokens
        self._pooling = pooling
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._tokenizer = _tokenizer(tokenizer_file, max_tokens)
        self._session = _session(model_file, providers, threads)
        self._inputs = {value.name for value in self._session.get_inputs()}
        outputs = [value.name for value in self._session.get_outputs()]
        self._output = "last_hidden_state" if "last_hidden_state" in outputs else outputs[0]

    @property
    def name(self) -> str:
        """See `ports.Encoder`."""
        return self._name

    @property
    def sha256(self) -> str:
        """See `ports.Encoder`."""
        return self._sha256

    @property
    def dimension(self) -> int:
        """See `ports.Encoder`."""
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """See `ports.Encoder`."""
        return self._max_tokens

    @property
    def provider(self) -> str:
        """The execution provider that runs it, one of PROVIDERS."""
        return str(self._session.get_providers()[0])

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """See `ports.Encoder`."""
        require_texts(texts)
        vectors = np.empty((len(texts), self._dimension), np.float32)
        prefix = self._prefixes[kind]
        limit = self._max_tokens * CHARACTERS_PER_TOKEN
        for start in range(0, len(texts), SLICE_TEXTS):
            legal = [prefix + valid_unicode(text[:limit]) for text in texts[start : start + SLICE_TEXTS]]
            encodings = self._tokenizer.encode_batch_fast(legal)
            for rows in _batches([len(encoding) for encoding in encodings]):
                vectors[np.add(rows, start)] = self._run([encodings[row] for row in rows])
        return vectors

    def _run(self, encodings: list[Encoding]) -> NDArray[np.float32]:
        """float32 [len(encodings), dimension]"""
        shape = len(encodings), max(len(encoding) for encoding in encodings)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: value for name, value in feed.items() if name in self._inputs}
        try:
            (hidden,) = self._session.run([self._output], feed)
        except _failures() as error:
            raise ModelError(f"the encoder {self._name} failed: {error}") from error
        hidden = np.asarray(hidden, np.float32)
        if hidden.shape != (*shape, self._dimension):
            raise ModelDamaged(
                f"the encoder {self._name} gives {hidden.shape}, not [n, t, {self._dimension}]"
            )
        return _unit(_pool(hidden, mask, self._pooling))


def _pool(hidden: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """[n, t, d], [n, t] -> [n, d]"""
    if pooling == "cls":
        return hidden[:, 0]
    weights = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    pooled: NDArray[np.float32] = np.matmul(weights[:, None, :], hidden)[:, 0]
    return pooled


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ModelError("the encoder gave a vector without a direction: zero, NaN or infinite")
    unit: NDArray[np.float32] = vectors / norms
    return unit


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers, shortest texts first, in batches of at most BATCH_TOKENS padded tokens (or one text)."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _tokenizer(file: Path, max_tokens: int) -> Tokenizer:
    """Its file may say to truncate and pad; here max_tokens and the batch decide."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        if type(error) is Exception:  # the library has no class of its own
            raise ModelDamaged(f"{file} is not a tokenizer: {error}") from error
        raise
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _session(file: Path, providers: Sequence[str], threads: int | None) -> onnxruntime.InferenceSession:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; its warnings speak to authors of models
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads sleep
    available = set(onnxruntime.get_available_providers())
    usable = [provider for provider in PROVIDERS if provider in available and provider in providers]
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=usable)
    except _failures() as error:
        raise ModelDamaged(f"{file} is not a model the runtime can load: {error}") from error


def _failures() -> tuple[type[Exception], ...]:
    """The runtime's exceptions: they have no common class of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    classes = [value for value in vars(state).values() if isinstance(value, type)]
    return (RuntimeError, *(found for found in classes if issubclass(found, Exception)))

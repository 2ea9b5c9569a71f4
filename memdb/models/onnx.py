"""Encoders and rerankers on ONNX Runtime, on CPU or CUDA. The only file that knows onnxruntime."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models.counts import Encoded, Remembered, Tally
from memdb.models.described import Described, DescribedReranker
from memdb.models.graph_bytes import as_output, outline
from memdb.models.padding import batches, padded
from memdb.models.ports import (
    FIELDS,
    Field,
    Kind,
    require_documents,
    require_finite,
    require_texts,
    valid_unicode,
)

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Encoding, Tokenizer

Pooling = Literal["mean", "cls"]

CUDA = "CUDAExecutionProvider"
PROVIDERS = (CUDA, "CPUExecutionProvider")  # best first
OWN = "memdb"  # the producer that memdb.models.export names
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
SLICE_TEXTS = 2048  # texts tokenised at once
QUESTIONS_REMEMBERED = 64  # vectors of the last questions that an encoder keeps
CHARACTERS_PER_TOKEN = 64  # text beyond max_tokens times this is not tokenised


def begin_loading() -> None:
    """Import the runtime in a thread, so that whoever is about to need it can check files meanwhile."""
    threading.Thread(target=_import_runtime, name="memdb-runtime").start()


def _import_runtime() -> None:
    try:
        import onnxruntime  # noqa: F401
    except ImportError:  # raised again where it is needed
        return


class Session:
    """A graph, loaded. Safe to share between threads.

    `threads` are those of one run, None for one per core; runs may overlap. Of `providers`, the best that
    this machine has is used. `inner` are float32 values inside the graph that can be read as outputs too.
    `bound` runs copy inputs and outputs once between memories; None: bound where a graphics card runs it.
    Raises ModelNotFound when the file is missing, ModelDamaged when unreadable, or without these values.
    """

    def __init__(
        self,
        model_file: Path,
        *,
        name: str,
        inner: Sequence[str] = (),
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
        bound: bool | None = None,
    ) -> None:
        _require_file(model_file, name)
        self.name = name
        self._session = _session(model_file, inner, providers, threads)
        self.bound = self.provider == CUDA if bound is None else bound
        self.inputs = {value.name for value in self._session.get_inputs()}
        self.outputs = [value.name for value in self._session.get_outputs()]

    @property
    def provider(self) -> str:
        """The execution provider that runs it, one of PROVIDERS."""
        return str(self._session.get_providers()[0])

    def output(self, wanted: str) -> str:
        """The output called `wanted`, or the first where none is."""
        return wanted if wanted in self.outputs else self.outputs[0]

    def run(self, output: str, feed: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """One output; what the graph does not take of `feed` is left out."""
        return self.values([output], feed)[0]

    def values(self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Several outputs of one run: see `run`."""
        taken = {name: value for name, value in feed.items() if name in self.inputs}
        run = self._run_bound if self.bound else self._session.run
        try:
            values = run(list(outputs), taken)
        except _failures() as error:
            raise ModelError(f"the model {self.name} failed: {error}") from error
        return [np.asarray(value, np.float32) for value in values]

    def _run_bound(self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """A binding of its own for each run: runs may overlap, and shapes differ."""
        binding = self._session.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in outputs:  # left where they are made, and copied from there
            binding.bind_output(name, "cuda" if self.provider == CUDA else "cpu")
        self._session.run_with_iobinding(binding)
        return list[NDArray[Any]](binding.copy_outputs_to_cpu())


class Pieces(NamedTuple):
    """The tokens of a text: ids, the characters each stands for, and the number of the word it is of."""

    ids: list[int]
    places: list[tuple[int, int]]
    words: list[int | None]


class Runtime(Session):
    """A graph and its tokenizer, loaded; see `Session`."""

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        *,
        name: str,
        inner: Sequence[str] = (),
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
        bound: bool | None = None,
    ) -> None:
        _require_file(tokenizer_file, name)
        beside = _Beside(tokenizer_file)
        beside.start()  # the runtime lets other threads work while it loads a graph
        try:
            super().__init__(
                model_file, name=name, inner=inner, providers=providers, threads=threads, bound=bound
            )
        finally:
            beside.join()
        self.tokenizer = beside.tokenizer()

    def tokens(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Token ids of each text, special tokens left out, of its beginning where it is very long."""
        limit = max_tokens * CHARACTERS_PER_TOKEN
        legal = [valid_unicode(text[:limit]) for text in texts]
        encodings = self.tokenizer.encode_batch_fast(legal, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def count_tokens(self, text: str) -> int:
        """Tokens of a whole text, special tokens left out."""
        encoding = self.tokenizer.encode(valid_unicode(text), add_special_tokens=False)
        return sum(map(len, (encoding, *encoding.overflowing)))  # a tokenizer that truncates keeps the rest

    def pieces(self, text: str) -> Pieces:
        """The tokens of a whole text without lone surrogates, special tokens left out."""
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return Pieces(encoding.ids, encoding.offsets, encoding.word_ids)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before a text and after it: read from what it makes of some letter."""
        encoding = self.tokenizer.encode("a")
        plain = np.flatnonzero(np.equal(encoding.special_tokens_mask, 0))
        if not plain.size:
            raise ModelDamaged(f"the tokenizer of {self.name} makes nothing of a text")
        return encoding.ids[: plain[0]], encoding.ids[plain[-1] + 1 :]


class OnnxEncoder(Described):
    """A transformer that gives hidden states [n, t, d], pooled and normalised here; a `ports.Encoder`.

    `providers`, `threads`, `bound` and what is raised: see `Session`.
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
        bound: bool | None = None,
    ) -> None:
        super().__init__(name, sha256, max_tokens)
        self._dimension, self._pooling = dimension, pooling
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._runtime = Runtime(
            model_file, tokenizer_file, name=name, providers=providers, threads=threads, bound=bound
        )
        self._runtime.tokenizer.enable_truncation(max_tokens)
        self._output = self._runtime.output("last_hidden_state")
        self._tally, self._questions = Tally(), Remembered(QUESTIONS_REMEMBERED)

    @property
    def dimension(self) -> int:
        """See `ports.Encoder`."""
        return self._dimension

    @property
    def provider(self) -> str:
        """See `Runtime`."""
        return self._runtime.provider

    @property
    def encoded(self) -> Encoded:
        """What this encoder has done so far, in `encode`."""
        return self._tally.counts

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """See `ports.Encoder`. What comes twice is encoded once; the last few questions are remembered."""
        require_texts(texts)
        asked = list(dict.fromkeys(texts))
        known = self._questions.find(asked) if kind == "query" else {}
        new = [text for text in asked if text not in known]
        vectors = self._encode(new, kind)
        self._tally.add(texts=len(texts), remembered=len(known), repeated=len(texts) - len(asked))
        if kind == "query":
            self._questions.keep(zip(new, vectors, strict=True))
        if len(new) == len(texts):
            return vectors
        found = known | dict(zip(new, vectors, strict=True))
        return np.array([found[text] for text in texts], np.float32).reshape(len(texts), self._dimension)

    def _encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), self._dimension), np.float32)
        for start in range(0, len(texts), SLICE_TEXTS):
            encodings = self._encodings(texts[start : start + SLICE_TEXTS], kind)
            for rows in batches([len(encoding) for encoding in encodings]):
                hidden, mask = self._states([encodings[row].ids for row in rows])
                tokens = int(mask.sum())
                self._tally.add(runs=1, tokens=tokens, padding=mask.size - tokens)
                vectors[np.add(rows, start)] = _unit(_pool(hidden, mask, self._pooling))
        return vectors

    def token_vectors(self, texts: Sequence[str], *, kind: Kind = "document") -> list[NDArray[np.float32]]:
        """For each text float32 [tokens, dimension]: a row of L2 norm 1 per token, special tokens left out.

        Legal texts and what is raised: see `ports.Encoder.encode`.
        """
        require_texts(texts)
        vectors = list[NDArray[np.float32]]()
        for start in range(0, len(texts), SLICE_TEXTS):
            encodings = self._encodings(texts[start : start + SLICE_TEXTS], kind)
            found = dict[int, NDArray[np.float32]]()
            for rows in batches([len(encoding) for encoding in encodings]):
                hidden, _ = self._states([encodings[row].ids for row in rows])
                for row, states in zip(rows, hidden, strict=True):
                    plain = np.flatnonzero(np.equal(encodings[row].special_tokens_mask, 0))
                    found[row] = _unit(states[plain])
            vectors += [found[row] for row in range(len(encodings))]
        return vectors

    def count_tokens(self, text: str) -> int:
        """Tokens of a whole text, special tokens left out."""
        return self._runtime.count_tokens(text)

    def _encodings(self, texts: Sequence[str], kind: Kind) -> list[Encoding]:
        limit = self._max_tokens * CHARACTERS_PER_TOKEN
        legal = [self._prefixes[kind] + valid_unicode(text[:limit]) for text in texts]
        return self._runtime.tokenizer.encode_batch_fast(legal)

    def _states(self, rows: list[list[int]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Hidden states float32 [n, t, dimension] and the mask [n, t]."""
        ids, mask = padded(rows), padded([[1] * len(row) for row in rows])
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._runtime.run(self._output, feed)
        if hidden.shape != (*ids.shape, self._dimension):
            raise ModelDamaged(
                f"the encoder {self._name} gives {hidden.shape}, not [n, t, {self._dimension}]"
            )
        return hidden, mask


class Frame(msgspec.Struct, frozen=True):
    """What a tokenizer puts around a pair of texts: special tokens `before` the first, `between` them and
    `after` the second, and segment numbers of all five parts (the texts are the second and the fourth).
    """

    before: list[int]
    between: list[int]
    after: list[int]
    segments: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        """Its special tokens."""
        return len(self.before) + len(self.between) + len(self.after)

    def around(self, question: list[int], document: list[int]) -> tuple[list[int], list[int]]:
        """Token ids of the pair, and their segments."""
        parts = (self.before, question, self.between, document, self.after)
        segments = [number for number, part in zip(self.segments, parts, strict=True) for _ in part]
        return [token for part in parts for token in part], segments


class OnnxReranker(DescribedReranker):
    """A cross-encoder that gives logits [n, 1] or [n] of pairs of texts; a `ports.Reranker`.

    A pair is what the tokenizer's own template makes of the question and the document. The document is cut to
    what the question leaves, the question to half of max_tokens; neither holds a special token. Alone and
    among others a document's score is the same within 1e-4. `providers`, `threads` and what is raised: see
    `Runtime`; ModelError for a graph that asks for more than ids, mask and segments, InputError for too few
    max_tokens.
    """

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        *,
        name: str,
        sha256: str,
        max_tokens: int = 256,
        fields: Sequence[Field] = FIELDS,
        calibration: Mapping[str, float] | None = None,
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
    ) -> None:
        super().__init__(name, sha256, max_tokens, fields)
        self._calibration = dict(calibration or {})
        self._runtime = Runtime(model_file, tokenizer_file, name=name, providers=providers, threads=threads)
        self._frame = _frame(self._runtime.tokenizer, name)
        self._runtime.tokenizer.encode_special_tokens = True  # what they are called is only text from here on
        if max_tokens < 2 * (self._frame.size + 1):
            raise InputError(f"{max_tokens} tokens are too few for a question and a document")
        if unknown := self._runtime.inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise ModelError(f"the reranker {name} asks for {', '.join(sorted(unknown))}")
        self._output = self._runtime.output("logits")

    @property
    def calibration(self) -> Mapping[str, float]:
        """See `ports.Calibrated`."""
        return self._calibration

    @property
    def provider(self) -> str:
        """See `Runtime`."""
        return self._runtime.provider

    def count_tokens(self, text: str) -> int:
        """See `ports.Reranker`."""
        return self._runtime.count_tokens(text)

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`."""
        return self._room(self._asked(question))

    def _asked(self, question: str) -> list[int]:
        return self._runtime.tokens([question], self._max_tokens)[0][: self._max_tokens // 2]

    def _room(self, asked: Sequence[int]) -> int:
        return self._max_tokens - self._frame.size - len(asked)

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`."""
        require_documents(question, documents)
        scores = np.empty(len(documents), np.float32)
        asked = self._asked(question)
        room = self._room(asked)
        for start in range(0, len(documents), SLICE_TEXTS):
            texts = self._runtime.tokens(documents[start : start + SLICE_TEXTS], self._max_tokens)
            pairs = [self._frame.around(asked, text[:room]) for text in texts]
            for rows in batches([len(ids) for ids, _ in pairs]):
                scores[np.add(rows, start)] = self._run([pairs[row] for row in rows])
        return require_finite(scores, self._name)

    def _run(self, pairs: list[tuple[list[int], list[int]]]) -> NDArray[np.float32]:
        """float32 [len(pairs)]"""
        feed = {
            "input_ids": padded([ids for ids, _ in pairs]),
            "attention_mask": padded([[1] * len(ids) for ids, _ in pairs]),
            "token_type_ids": padded([segments for _, segments in pairs]),
        }
        logits = self._runtime.run(self._output, feed)
        if logits.shape not in {(len(pairs), 1), (len(pairs),)}:
            raise ModelDamaged(f"the reranker {self._name} gives {logits.shape}, not [n, 1]")
        return logits.reshape(-1)


def _frame(tokenizer: Tokenizer, name: str) -> Frame:
    """Read from what the tokenizer makes of two texts of some letter."""
    encoding = tokenizer.encode("a", "a")
    places = encoding.sequence_ids
    order = [place for at, place in enumerate(places) if at == 0 or place != places[at - 1]]
    if [place for place in order if place is not None] != [0, 1]:
        raise ModelDamaged(f"the tokenizer of {name} has no template for a pair of texts")
    first, second = places.index(0), places.index(1)
    ends = first + places.count(0), second + places.count(1)
    ids, segments = encoding.ids, encoding.type_ids
    before, between, after = ids[:first], ids[ends[0] : second], ids[ends[1] :]
    return Frame(
        before=before,
        between=between,
        after=after,
        segments=(segments[0], segments[first], segments[second - 1], segments[second], segments[-1]),
    )


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


def _require_file(file: Path, name: str) -> None:
    if not file.is_file():
        raise ModelNotFound(f"the model {name} lacks its file {file}")


class _Beside(threading.Thread):
    """Loads a tokenizer. The standard library's executors would cost a tenth of that to import."""

    def __init__(self, file: Path) -> None:
        super().__init__(name="memdb-tokenizer")
        self._file = file
        self._made: Tokenizer | None = None
        self._failed: BaseException | None = None

    def run(self) -> None:
        """Load it; what goes wrong is raised by `tokenizer`."""
        try:
            self._made = _tokenizer(self._file)
        except (ModelDamaged, ImportError) as error:
            self._failed = error

    def tokenizer(self) -> Tokenizer:
        """What was loaded, after the end of the thread."""
        if self._made is None:
            raise self._failed or ModelDamaged(f"{self._file} gave no tokenizer")
        return self._made


def _tokenizer(file: Path) -> Tokenizer:
    """Its file may say to truncate and pad; here max_tokens and the batch decide."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        if type(error) is Exception:  # the library has no class of its own
            raise ModelDamaged(f"{file} is not a tokenizer: {error}") from error
        raise
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _session(
    file: Path, inner: Sequence[str], providers: Sequence[str], threads: int | None
) -> onnxruntime.InferenceSession:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; its warnings speak to authors of models
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads sleep
    available = set(onnxruntime.get_available_providers())
    usable = [provider for provider in PROVIDERS if provider in available and provider in providers]
    options.add_session_config_entry(WEIGHTS_FOLDER, str(file.parent))  # of the weights, in it or beside it
    model = outline(file)
    if model.producer == OWN and model.left_out:  # what the runtime would change makes these no faster
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        content = model.content + b"".join(map(as_output, inner))
        return onnxruntime.InferenceSession(content, options, providers=usable)
    except _failures() as error:
        raise ModelDamaged(f"{file} is not a model the runtime can load: {error}") from error


def _failures() -> tuple[type[Exception], ...]:
    """The runtime's exceptions: they have no common class of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    classes = [value for value in vars(state).values() if isinstance(value, type)]
    return (RuntimeError, *(found for found in classes if issubclass(found, Exception)))

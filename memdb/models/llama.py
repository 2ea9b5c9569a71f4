"""A GGUF model in this process, on llama.cpp. The only file that knows llama_cpp.

What a model reads is a list of segments. Of a chat it has one for each turn, made of the chat template's text
before it and its own text, and one for what the template puts after the last. The template's text may hold
control tokens, a turn's text never does: they are tokenised apart.

What was read of one prompt is kept for the next that begins with the same segments. That must not show: the
bits of an answer are the same whether the beginning was kept or not. Floating point sums depend on which
tokens are evaluated together, so a segment is always evaluated in calls of its own, split at the same places,
without flash attention (whose sums depend on where batches end), and what the model wrote is never kept.
"""

from __future__ import annotations

import codecs
import ctypes
import hashlib
import logging
import os
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models.chat_template import ChatTemplate
from memdb.models.ports import Completion, Turn, require_room, require_turns, rooted, valid_unicode

Segment = tuple[int, ...]  # token ids
Native = Any  # a pointer of llama.cpp

MAGIC = b"GGUF"
SLICE_CHARACTERS = 65_536  # of a text tokenised at once: bounds the recursion of the splitting expressions
LIKELY_TOKENS = 128  # tried against a grammar before the whole vocabulary is
GRAMMAR_REPEATS = 1_000  # longest maxLength or maxItems that llama.cpp's grammars take
FLASH_ATTENTION_OFF = 0
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data

_log = logging.getLogger(__name__)
_native_errors: deque[str] = deque(maxlen=4)  # llama.cpp's last ones: its functions return no reason
_callback: Native = None  # llama.cpp holds it, so it must not be collected


class LlamaModel:
    """A GGUF file with one context to read in. One call runs at a time.

    What it becomes calls `_start` once, then `_read` and `_logits` under `_lock`. Raises ModelNotFound when
    the file or the package llama_cpp is missing, ModelDamaged when the file is not a whole GGUF.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = Lock()
        self._held: list[Segment] = []  # what the context has read, from its start
        self._owned = list[tuple[Any, Native]]()  # what to free and by which function, last first
        self._finalizer = weakref.finalize(self, _free, self._owned)
        self._model = _load(self._path)
        self._owned.append((_library().llama_model_free, self._model))
        self._vocabulary = _Vocabulary(self._model)

    def _said(self, key: str) -> str:
        """What the file says of itself under `key`, `*` in it being its architecture; empty for nothing."""
        if "*" in key:
            key = key.replace("*", self._said("general.architecture"))
        buffer = ctypes.create_string_buffer(256)
        count = _library().llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if count >= 0 else ""

    def _start(self, context_tokens: int, threads: int | None) -> None:
        """Open the context, which is most of the memory."""
        self._context_tokens = context_tokens
        self._context = _open(self._model, context_tokens, threads)
        self._owned.append((_library().llama_free, self._context))
        self._batch = _library().llama_batch_init(settings.LLAMA_BATCH_TOKENS, 0, 1)
        self._owned.append((_library().llama_batch_free, self._batch))

    @property
    def name(self) -> str:
        """The file's, without its ending."""
        return self._path.stem

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the file, read when this is first asked."""
        with self._path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, no part of which is a control token."""
        with self._lock:
            self._require_open()
            return sum(len(ids) for ids in self._vocabulary.text(text))

    def close(self) -> None:
        """Give back what the model holds; may be called twice. Waits for the call under way."""
        with self._lock:
            self._finalizer()

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise ModelError(f"the model {self.name} was closed")

    def _read(self, segments: list[Segment]) -> int:
        """Evaluate a prompt, up to the logits of what follows it; the number of tokens that were kept.

        The last segment is never kept: its last token is evaluated with an output, the others without.
        """
        library = _library()
        kept = 0
        while kept < min(len(self._held), len(segments) - 1) and self._held[kept] == segments[kept]:
            kept += 1
        cached = sum(map(len, segments[:kept]))
        self._held = []  # until all is read: what stops the reading leaves nothing to rely on
        memory = library.llama_get_memory(self._context)
        if not library.llama_memory_seq_rm(memory, 0, cached, -1):
            library.llama_memory_clear(memory, True)  # a recurrent state cannot be cut
            kept = cached = 0
        at = cached
        for number in range(kept, len(segments)):
            self._decode(segments[number], at, output=number == len(segments) - 1)
            at += len(segments[number])
        self._held = segments[:-1]
        return cached

    def _logits(self) -> NDArray[np.float32]:
        """float32 [vocabulary] of what follows the last token read; llama.cpp's own memory.

        Raises ModelError where the largest is no number.
        """
        pointer = _library().llama_get_logits_ith(self._context, -1)
        if not pointer:
            raise ModelError(f"the model {self.name} gave no logits")
        logits: NDArray[np.float32] = np.ctypeslib.as_array(pointer, (self._vocabulary.size,))
        if not np.isfinite(logits.max()):  # the maximum is NaN wherever one stands
            self._held = []
            raise ModelError(f"the model {self.name} gave logits that are no numbers")
        return logits

    def _decode(self, ids: Segment, at: int, *, output: bool) -> None:
        """Evaluate `ids` at positions from `at`; with `output`, keep the last one's logits.

        llama.cpp aborts the process for a batch larger than its buffers: what it is given is checked here.
        """
        if at + len(ids) > self._context_tokens:
            raise ModelError(f"{at + len(ids)} tokens do not fit in a context of {self._context_tokens}")
        batch, size = self._batch, settings.LLAMA_BATCH_TOKENS
        for start in range(0, len(ids), size):
            some = ids[start : start + size]
            for place, token in enumerate(some):
                batch.token[place], batch.pos[place] = token, at + start + place
                batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, 0, False
            batch.logits[len(some) - 1] = output and start + len(some) == len(ids)
            batch.n_tokens = len(some)
            _native_errors.clear()
            if status := _library().llama_decode(self._context, batch):
                self._held = []
                _fail(f"the model {self.name} could not read {len(some)} tokens ({status})")


class LlamaBackbone(LlamaModel):
    """A chat model in a GGUF file, a `ports.Backbone`.

    `context_tokens` defaults to what the model was trained on, at most settings.LLAMA_CONTEXT_TOKENS;
    `threads` to llama.cpp's choice: give the number of idle cores. Decoding is greedy. A schema becomes a
    grammar; bounds of numbers are not part of it.

    Raises what LlamaModel does, ModelError when the model does not chat or does not fit in memory, InputError
    for more context_tokens than the model was trained on.
    """

    def __init__(
        self, path: str | Path, *, context_tokens: int | None = None, threads: int | None = None
    ) -> None:
        super().__init__(path)
        self._template = _template(self._model, self._vocabulary, self._path)
        self._start(context_length(self._model, context_tokens, settings.LLAMA_CONTEXT_TOKENS), threads)

    def __repr__(self) -> str:
        return f"LlamaBackbone({str(self._path)!r}, context_tokens={self._context_tokens})"

    @cached_property
    def identity(self) -> str:
        """See `ports.Backbone`. The file is read for its digest when this is first asked."""
        return f"{self.name}@{self.sha256[:8]}"

    @property
    def context_tokens(self) -> int:
        """See `ports.Backbone`."""
        return self._context_tokens

    @property
    def parallel(self) -> int:
        """See `ports.Backbone`."""
        return 1

    def complete(
        self, turns: Sequence[Turn], *, max_tokens: int, schema: Mapping[str, object] | None = None
    ) -> Completion:
        """See `ports.Backbone`."""
        require_turns(turns, max_tokens)
        rules = None if schema is None else grammar(schema)
        with self._lock:
            self._require_open()
            segments = self._segments(turns, max_tokens)
            prompt_tokens = sum(map(len, segments))
            require_room(prompt_tokens, max_tokens, self._context_tokens)
            constraint = None if rules is None else _Constraint(self._vocabulary, rules)
            try:
                cached_tokens = self._read(segments)
                text, finish, written = self._write(prompt_tokens, max_tokens, constraint)
            finally:
                if constraint is not None:
                    constraint.free()
        return Completion(
            text=text,
            finish=finish,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=written,
        )

    def _segments(self, turns: Sequence[Turn], max_tokens: int) -> list[Segment]:
        """Token ids of the prompt, a segment per turn and one for the end; none is empty."""
        vocabulary = self._vocabulary
        *heads, tail = self._template.parts([turn.role for turn in turns])
        segments, total = list[Segment](), 0
        for head, turn in zip(heads, turns, strict=True):
            ids = vocabulary.control(head)
            for more in vocabulary.text(turn.text):
                ids += more
                require_room(total + len(ids), max_tokens, self._context_tokens)  # before gigabytes are read
            total += len(ids)
            segments.append(tuple(ids))
        segments.append(tuple(vocabulary.control(tail)))
        if vocabulary.first is not None and segments[0][:1] != (vocabulary.first,):
            segments[0] = (vocabulary.first, *segments[0])
        return [segment for segment in segments if segment]

    def _write(
        self, at: int, max_tokens: int, constraint: _Constraint | None
    ) -> tuple[str, Literal["stop", "length"], int]:
        """The text that follows position `at`, why it ended, and its number of tokens."""
        pieces = list[bytes]()
        finish: Literal["stop", "length"] = "length"
        while True:
            token = self._choose(constraint)
            if token in self._vocabulary.ends:
                finish = "stop"
                break
            pieces.append(self._vocabulary.piece(token))
            if len(pieces) == max_tokens:
                break
            self._decode((token,), at, output=True)
            at += 1
        return _whole_characters(b"".join(pieces)), finish, len(pieces)

    def _choose(self, constraint: _Constraint | None) -> int:
        """The likeliest token, of those the constraint allows; the first of equals."""
        logits = self._logits()
        token = int(np.argmax(logits))
        return token if constraint is None else constraint.choose(logits, token)


class _Vocabulary:
    """Text to token ids and back."""

    def __init__(self, model: Native) -> None:
        library = _library()
        self.pointer = library.llama_model_get_vocab(model)
        self.size = int(library.llama_vocab_n_tokens(self.pointer))
        bos = int(library.llama_vocab_bos(self.pointer))
        self.first = bos if library.llama_vocab_get_add_bos(self.pointer) and bos >= 0 else None
        self.ends = {token for token in range(self.size) if library.llama_vocab_is_eog(self.pointer, token)}

    @cached_property
    def controls(self) -> NDArray[np.int64]:
        """Control tokens that end nothing: a grammar would take their names for text."""
        is_control = _library().llama_vocab_is_control
        found = [token for token in range(self.size) if is_control(self.pointer, token)]
        return np.array([token for token in found if token not in self.ends], np.int64)

    def control(self, text: str) -> list[int]:
        """Ids of a piece of the chat template, control tokens read as such."""
        return self._ids(text, special=True)

    def text(self, text: str) -> Iterator[list[int]]:
        """Ids of a turn's text, slice by slice; no part of it is a control token."""
        text = valid_unicode(text)
        for start in range(0, len(text), SLICE_CHARACTERS):
            yield self._ids(text[start : start + SLICE_CHARACTERS], special=False)

    def _ids(self, text: str, *, special: bool) -> list[int]:
        library, data = _library(), text.encode()
        room = len(data) + 8  # a token is a byte at least, and a blank may be put in front
        buffer = (library.llama_token * room)()
        count = library.llama_tokenize(self.pointer, data, len(data), buffer, room, False, special)
        if count < 0:
            _fail(f"a text of {len(data)} bytes could not be tokenised")
        return list(buffer[:count])

    def piece(self, token: int) -> bytes:
        """The bytes of a token, none for a control token."""
        library, room = _library(), 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = library.llama_token_to_piece(self.pointer, token, buffer, room, 0, False)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def name(self, token: int) -> str:
        """A token as the chat template writes it; empty for one the vocabulary lacks."""
        found = _library().llama_vocab_get_text(self.pointer, token) if token >= 0 else None
        return (found or b"").decode("utf-8", "replace")


class _Constraint:
    """A grammar on its way through one text. To be freed."""

    def __init__(self, vocabulary: _Vocabulary, rules: str) -> None:
        self._vocabulary = vocabulary
        self._rows = np.zeros(vocabulary.size, CANDIDATE)
        self._sampler = _library().llama_sampler_init_grammar(vocabulary.pointer, rules.encode(), b"root")
        if not self._sampler:  # llama.cpp would follow the null pointer
            _fail("llama.cpp refuses the schema's grammar", "make it shorter")

    def choose(self, logits: NDArray[np.float32], likeliest: int) -> int:
        """The likeliest allowed token, which is taken. Trying all of them costs as much as evaluating one."""
        token: int | None = likeliest if self._allowed(np.array([likeliest])).all() else None
        if token is None:
            rank = min(LIKELY_TOKENS, len(logits))
            token = self._best(logits, np.sort(np.argpartition(-logits, rank - 1)[:rank]))
        if token is None:
            token = self._best(logits, np.arange(len(logits)))
        if token is None:
            raise ModelError("no token of the model continues a text of the schema")
        if token not in self._vocabulary.ends:
            _library().llama_sampler_accept(self._sampler, token)
        return token

    def free(self) -> None:
        """To be called once."""
        _library().llama_sampler_free(self._sampler)

    def _best(self, logits: NDArray[np.float32], tokens: NDArray[np.int64]) -> int | None:
        """The likeliest of the allowed among `tokens`, ascending; None when none is."""
        allowed = tokens[self._allowed(tokens)]
        return int(allowed[np.argmax(logits[allowed])]) if len(allowed) else None

    def _allowed(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [len(tokens)]"""
        library, rows = _library(), self._rows[: len(tokens)]
        rows["id"], rows["logit"] = tokens, 0
        data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(library.llama_token_data))
        candidates = library.llama_token_data_array(data, len(tokens), -1, False)
        library.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        allowed: NDArray[np.bool_] = (rows["logit"] == 0) & ~np.isin(tokens, self._vocabulary.controls)
        return allowed


def grammar(schema: Mapping[str, object]) -> str:
    """The schema in llama.cpp's grammar notation. Numeric bounds are left out.

    Raises InputError for a `$ref` that leads out of the schema, ModelError for what the notation cannot say.
    """
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    text = msgspec.json.encode(rooted(schema)).decode()
    try:
        rules = str(json_schema_to_gbnf(text))
    except (AssertionError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ModelError(f"the schema cannot be made a grammar: {type(error).__name__} {error}") from error
    if ")?" * (GRAMMAR_REPEATS + 1) in rules:
        hint = f"no maxLength or maxItems above {GRAMMAR_REPEATS}"
        raise ModelError("the schema cannot be made a grammar: it counts too far", hint=hint)
    return rules


def _whole_characters(data: bytes) -> str:
    """The text without a character cut off at its end; other bytes that are no UTF-8 become U+FFFD."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=False)


def _library() -> Any:
    """llama_cpp, its output collected. Raises ModelNotFound where it is not installed."""
    global _callback  # noqa: PLW0603 - the callback is the process's, as is llama.cpp's log
    try:
        import llama_cpp
    except ImportError as error:
        hint = "pip install 'memdb-engine[llm]'"
        raise ModelNotFound("a GGUF model needs the package llama-cpp-python", hint=hint) from error
    if _callback is None:
        _callback = llama_cpp.llama_log_callback(_listen)
        llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def _listen(level: int, text: bytes, data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    _log.debug("%s", line)
    if level == 3:  # GGML_LOG_LEVEL_ERROR
        _native_errors.append(line)


def _fail(message: str, hint: str = "", kind: type[ModelError] = ModelError) -> NoReturn:
    """Raise with what llama.cpp logged about it."""
    said = "; ".join(_native_errors)
    _native_errors.clear()
    raise kind(f"{message}: {said}" if said else message, hint=hint)


def _load(path: Path) -> Native:
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name no file can have: too long, or with a zero in it
        raise ModelNotFound(f"there is no model file {str(path)!r}: {error}") from error
    if not found:
        raise ModelNotFound(f"there is no model file {path}")
    library = _library()
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ModelDamaged(f"{path} is not a GGUF file")
    _native_errors.clear()
    model = library.llama_model_load_from_file(os.fsencode(path), library.llama_model_default_params())
    if not model:
        _fail(f"{path} is not a model llama.cpp can load", kind=ModelDamaged)
    return model


def _template(model: Native, words: _Vocabulary, path: Path) -> ChatTemplate:
    library = _library()
    source = library.llama_model_chat_template(model, None)
    if not source or not library.llama_model_has_decoder(model) or library.llama_model_has_encoder(model):
        hint = "take an instruction-tuned, decoder-only model"
        raise ModelError(f"the model {path.stem} does not chat: it has no chat template", hint=hint)
    bos, eos = library.llama_vocab_bos(words.pointer), library.llama_vocab_eos(words.pointer)
    return ChatTemplate(source.decode("utf-8", "replace"), bos=words.name(bos), eos=words.name(eos))


def context_length(model: Native, asked: int | None, most: int) -> int:
    """What was asked for, or as much as the model was trained on, at most `most`."""
    trained = int(_library().llama_model_n_ctx_train(model))
    if asked is None:
        return min(trained, most)
    if not 2 <= asked <= trained:
        raise InputError(f"the model reads 2 to {trained} tokens, not {asked}")
    return asked


def _open(model: Native, context_tokens: int, threads: int | None) -> Native:
    library = _library()
    options = library.llama_context_default_params()
    options.n_ctx, options.n_seq_max = context_tokens, 1
    options.n_batch = options.n_ubatch = settings.LLAMA_BATCH_TOKENS
    options.flash_attn_type = FLASH_ATTENTION_OFF
    options.swa_full = True  # else what is kept of a sliding window depends on what was read after it
    if threads is not None:
        if threads < 1:
            raise InputError(f"a model cannot run on {threads} threads")
        options.n_threads = options.n_threads_batch = threads
    _native_errors.clear()
    context = library.llama_init_from_model(model, options)
    if not context or library.llama_n_ctx(context) < context_tokens:
        _fail(f"no context of {context_tokens} tokens", "give fewer context_tokens")
    return context


def _free(owned: list[tuple[Any, Native]]) -> None:
    while owned:
        free, pointer = owned.pop()
        free(pointer)

"""A GGUF model in this process, on llama.cpp, which only the files named llama… know.

What a model reads is a list of segments. Of a chat it has one for each turn, made of the chat template's text
before it and its own text, and one for what the template puts after the last. The template's text may hold
control tokens, a turn's text never does: they are tokenised apart. A soft token is a segment of its own, in
the middle of its turn: what stands before it stays read when another takes its place.

What was read of one prompt is kept for the next that begins with the same segments. That must not show: the
bits of an answer are the same whether the beginning was kept or not. Floating point sums depend on which
tokens are evaluated together, so a segment is always evaluated in calls of its own, split at the same places,
without flash attention (whose sums depend on where batches end), and what the model wrote is never kept.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models import gguf_file
from memdb.models.chat_template import ChatTemplate
from memdb.models.llama_library import Native, fail, library, native_errors
from memdb.models.llama_vocabulary import Characters, Constraint, Vocabulary, grammar
from memdb.models.ports import (
    Completion,
    OnText,
    SoftToken,
    Turn,
    require_place,
    require_room,
    require_soft,
    require_turns,
)
from memdb.models.soft import PROBE, Rows, embedding_scale

Segment = tuple[int, ...] | Rows  # token ids, or rows of the embedding space

MAGIC = b"GGUF"
FLASH_ATTENTION_OFF = 0


class LlamaModel:
    """A GGUF file with one context to read in. One call runs at a time.

    What it becomes calls `_start` once, then `_require_free`, `_read` and `_logits` under `_lock`. Raises
    ModelNotFound when the file or the package llama_cpp is missing, ModelDamaged when the file is not a whole
    GGUF.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = RLock()  # what is told of a text may come back here: `_require_free` sends it away
        self._writing = False
        self._held: list[Segment] = []  # what the context has read, from its start
        self._owned = list[tuple[Any, Native]]()  # what to free and by which function, last first
        self._finalizer = weakref.finalize(self, _free, self._owned)
        self._model = _load(self._path)
        self._owned.append((library().llama_model_free, self._model))
        self._vocabulary = Vocabulary(self._model)

    def _said(self, key: str) -> str:
        """What the file says of itself under `key`, `*` in it being its architecture; empty for nothing."""
        if "*" in key:
            key = key.replace("*", self._said("general.architecture"))
        buffer = ctypes.create_string_buffer(256)
        count = library().llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if count >= 0 else ""

    def _start(self, context_tokens: int, threads: int | None) -> None:
        """Open the context, which is most of the memory."""
        self._context_tokens = context_tokens
        self._context = _open(self._model, context_tokens, threads)
        self._owned.append((library().llama_free, self._context))
        self._batch = library().llama_batch_init(settings.LLAMA_BATCH_TOKENS, 0, 1)
        self._owned.append((library().llama_batch_free, self._batch))

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
            if self._writing:
                raise InputError("on_text cannot close the model that is writing", hint="end it first")
            self._finalizer()

    def _require_free(self) -> None:
        self._require_open()
        if self._writing:
            raise InputError("on_text cannot ask the model that is writing", hint="ask it afterwards")

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise ModelError(f"the model {self.name} was closed")

    def _read(self, segments: list[Segment]) -> int:
        """Evaluate a prompt, up to the logits of what follows it; the number of tokens that were kept.

        The last segment is never kept: its last token is evaluated with an output, the others without.
        """
        native = library()
        kept = 0
        while kept < min(len(self._held), len(segments) - 1) and self._held[kept] == segments[kept]:
            kept += 1
        cached = sum(map(len, segments[:kept]))
        self._held = []  # until all is read: what stops the reading leaves nothing to rely on
        memory = native.llama_get_memory(self._context)
        if not native.llama_memory_seq_rm(memory, 0, cached, -1):
            native.llama_memory_clear(memory, True)  # a recurrent state cannot be cut
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
        pointer = library().llama_get_logits_ith(self._context, -1)
        if not pointer:
            raise ModelError(f"the model {self.name} gave no logits")
        logits: NDArray[np.float32] = np.ctypeslib.as_array(pointer, (self._vocabulary.size,))
        if not np.isfinite(logits.max()):  # the maximum is NaN wherever one stands
            self._held = []
            raise ModelError(f"the model {self.name} gave logits that are no numbers")
        return logits

    def _decode(self, segment: Segment, at: int, *, output: bool) -> None:
        """Evaluate a segment at positions from `at`; with `output`, keep the logits of its last one.

        llama.cpp aborts the process for a batch larger than its buffers: what it is given is checked here.
        """
        if at + len(segment) > self._context_tokens:
            raise ModelError(f"{at + len(segment)} tokens do not fit in a context of {self._context_tokens}")
        size = settings.LLAMA_BATCH_TOKENS
        for start in range(0, len(segment), size):
            count = min(size, len(segment) - start)
            batch = self._filled(segment, start, count)
            for place in range(count):
                batch.pos[place] = at + start + place
                batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, 0, False
            batch.logits[count - 1] = output and start + count == len(segment)
            batch.n_tokens = count
            native_errors.clear()
            if status := library().llama_decode(self._context, batch):
                self._held = []
                fail(f"the model {self.name} could not read {count} tokens ({status})")

    def _filled(self, segment: Segment, start: int, count: int) -> Native:
        """The batch for tokens, or the one for rows, with `count` of the segment from `start`."""
        if isinstance(segment, Rows):
            size = 4 * self._width
            assert len(segment.data) == size * len(segment), "llama.cpp would read what lies behind"
            ctypes.memmove(self._rows_batch.embd, segment.data[start * size :][: count * size], count * size)
            return self._rows_batch
        for place, token in enumerate(segment[start : start + count]):
            self._batch.token[place] = token
        return self._batch

    @cached_property
    def _width(self) -> int:
        return int(library().llama_model_n_embd(self._model))

    @cached_property
    def _rows_batch(self) -> Native:
        """A batch holds tokens or rows: of both, llama.cpp would ignore the rows."""
        batch = library().llama_batch_init(settings.LLAMA_BATCH_TOKENS, self._width, 1)
        self._owned.append((library().llama_batch_free, batch))
        return batch


class LlamaBackbone(LlamaModel):
    """A chat model in a GGUF file, a `ports.EmbeddingBackbone`.

    `context_tokens` defaults to what the model was trained on, at most settings.LLAMA_CONTEXT_TOKENS;
    `threads` to llama.cpp's choice: give the number of idle cores. Decoding is greedy. A schema becomes a
    grammar; bounds of numbers are not part of it.

    Soft tokens are rows of the model's table of tokens: one that is a token's own row reads like that token.
    Whether the model does read it so is tried when the first comes; ModelError says where it does not.

    Raises what LlamaModel does, ModelError when the model does not chat or does not fit in memory, InputError
    for more context_tokens than the model was trained on.
    """

    def __init__(
        self, path: str | Path, *, context_tokens: int | None = None, threads: int | None = None
    ) -> None:
        super().__init__(path)
        self._template = _template(self._model, self._vocabulary, self._path)
        self._scale: float | None = None  # of soft tokens, once it was tried
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

    @property
    def embedding_width(self) -> int:
        """See `ports.EmbeddingBackbone`."""
        return self._width

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
        soft: SoftToken | None = None,
    ) -> Completion:
        """See `ports.EmbeddingBackbone`. What on_text calls cannot use this backbone, but to count tokens.

        Raises ModelError also for a soft token where the model does not read rows as it reads tokens, and
        ModelNotFound where that cannot be tried: see `token_rows`.
        """
        self._require_prompt(turns, max_tokens, soft)
        rules = None if schema is None else grammar(schema)
        with self._lock:
            self._require_free()
            segments = self._prompt(turns, max_tokens, soft)
            prompt_tokens = sum(map(len, segments))
            require_room(prompt_tokens, max_tokens, self._context_tokens)
            constraint = None if rules is None else Constraint(self._vocabulary, rules)
            try:
                cached_tokens = self._read(segments)
                written = Characters(on_text)
                self._writing = True
                finish, count = self._write(prompt_tokens, max_tokens, constraint, written)
            finally:
                self._writing = False
                if constraint is not None:
                    constraint.free()
        return Completion(
            text=written.text,
            finish=finish,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=count,
        )

    def prompt_ids(
        self, turns: Sequence[Turn], soft_at: tuple[int, int] | None = None
    ) -> tuple[list[int], list[int]]:
        """The ids that `complete` reads, before and after a soft token at (turn, characters of it); without
        one, all are before.

        Raises InputError for turns that no backbone can answer, a place they do not have, or more tokens than
        the context holds.
        """
        require_turns(turns, 1)
        if soft_at is not None:
            require_place(turns, *soft_at)
        with self._lock:
            self._require_open()
            halves = self._halves(turns, 0, soft_at)
        before, after = ([token for part in half for token in part] for half in halves)
        return before, after

    def next_logits(self, turns: Sequence[Turn], soft: SoftToken | None = None) -> NDArray[np.float32]:
        """float32 [vocabulary]: the logits of what `complete` would choose its first token from.

        Raises what `complete` does.
        """
        self._require_prompt(turns, 1, soft)
        with self._lock:
            self._require_free()
            self._read(self._prompt(turns, 1, soft))
            return self._logits().copy()

    def logits_after(self, parts: Sequence[Sequence[int] | NDArray[np.float32]]) -> NDArray[np.float32]:
        """float32 [vocabulary] of what follows a prompt of any parts, each evaluated apart: token ids, or
        rows float32 [n, embedding_width] that are read as they are, by any model.

        Raises InputError for no parts, an empty one, an id that is no token, rows that `complete` would not
        take, or more of both than the context holds.
        """
        segments = [self._segment(part) for part in parts]
        if not segments or not all(map(len, segments)):
            raise InputError("a prompt has parts, and every part a token or a row")
        require_room(sum(map(len, segments)), 0, self._context_tokens)
        with self._lock:
            self._require_free()
            self._read(segments)
            return self._logits().copy()

    def token_rows(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """float32 [len(tokens), embedding_width]: the rows of the model's own table of tokens.

        Raises InputError for an id that is no token, ModelNotFound where a quantised table needs the package
        gguf and it is missing, ModelError where the file has no such table.
        """
        self._segment(tokens)
        return gguf_file.token_rows(self._path, tokens, self._width)

    def _require_prompt(self, turns: Sequence[Turn], max_tokens: int, soft: SoftToken | None) -> None:
        require_turns(turns, max_tokens)
        if soft is not None:
            require_soft(turns, soft, self._width)

    def _prompt(self, turns: Sequence[Turn], max_tokens: int, soft: SoftToken | None) -> list[Segment]:
        """The segments of a prompt."""
        if soft is None:
            return [*self._segments(turns, max_tokens)]
        before, after = self._halves(turns, max_tokens, (soft.turn, soft.at))
        return [*before, Rows.of(soft.row[None], self._soft_scale()), *after]

    def _segments(self, turns: Sequence[Turn], max_tokens: int) -> list[tuple[int, ...]]:
        """Token ids of the prompt, a segment per turn and one for the end; none is empty."""
        return self._halves(turns, max_tokens, None)[0]

    def _halves(
        self, turns: Sequence[Turn], max_tokens: int, soft_at: tuple[int, int] | None
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The segments of ids before the soft token and after it: all are before where there is none."""
        words = self._vocabulary
        *heads, tail = self._template.parts([turn.role for turn in turns])
        at, cut = soft_at or (len(turns), 0)
        before, after, total = list[list[int]](), list[list[int]](), int(soft_at is not None)
        for number, (head, turn) in enumerate(zip(heads, turns, strict=True)):
            texts = [turn.text] if number != at else [turn.text[:cut], turn.text[cut:]]
            for half, text in enumerate(texts):
                ids = [] if half else words.control(head)
                for more in words.text(text):
                    ids += more
                    # Before gigabytes are read.
                    require_room(total + len(ids), max_tokens, self._context_tokens)
                total += len(ids)
                (after if half or number > at else before).append(ids)
        (before if soft_at is None else after).append(words.control(tail))
        if words.first is not None and before[0][:1] != [words.first]:
            before[0].insert(0, words.first)
        return [tuple(ids) for ids in before if ids], [tuple(ids) for ids in after if ids]

    def _segment(self, part: Sequence[int] | NDArray[np.float32]) -> Segment:
        """Raises InputError for what is no token of the model, and no row of its width."""
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            return Rows.of(part, width=self._width)
        ids = tuple(int(token) for token in part)
        if not all(0 <= token < self._vocabulary.size for token in ids):
            raise InputError(f"the tokens of the model are 0 to {self._vocabulary.size - 1}")
        return ids

    def _soft_scale(self) -> float:
        """What a row is multiplied by to read like the token it is the row of; tried with tokens once."""
        if self._scale is None:
            native, found = library(), None
            plain = {native.LLAMA_ROPE_TYPE_NONE, native.LLAMA_ROPE_TYPE_NORM, native.LLAMA_ROPE_TYPE_NEOX}
            # Rows of the others have several positions each: llama.cpp would read what lies behind.
            single = native.llama_model_rope_type(self._model) in plain
            if single and native.llama_model_n_embd_inp(self._model) == self._width:
                ids = [token for some in self._vocabulary.text(PROBE) for token in some]
                found = embedding_scale(ids, self.token_rows(ids), self._probed)
            if found is None:
                message = (
                    f"the model {self.name} does not read rows of its embedding space as it reads tokens"
                )
                raise ModelError(message, hint='take graph_mode="text", or another model')
            self._scale = found
        return self._scale

    def _probed(self, segments: list[Segment]) -> NDArray[np.float32]:
        self._read(segments)
        return self._logits().copy()

    def _write(
        self, at: int, max_tokens: int, constraint: Constraint | None, written: Characters
    ) -> tuple[Literal["stop", "length"], int]:
        """Write what follows position `at`: why it ended, and its number of tokens."""
        count = 0
        while True:
            token = self._choose(constraint)
            if token in self._vocabulary.ends:
                return "stop", count
            written.add(self._vocabulary.piece(token))
            count += 1
            if count == max_tokens:
                return "length", count
            self._decode((token,), at, output=True)
            at += 1

    def _choose(self, constraint: Constraint | None) -> int:
        """The likeliest token, of those the constraint allows; the first of equals."""
        logits = self._logits()
        token = int(np.argmax(logits))
        return token if constraint is None else constraint.choose(logits, token)


def _load(path: Path) -> Native:
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name no file can have: too long, or with a zero in it
        raise ModelNotFound(f"there is no model file {str(path)!r}: {error}") from error
    if not found:
        raise ModelNotFound(f"there is no model file {path}")
    native = library()
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ModelDamaged(f"{path} is not a GGUF file")
    native_errors.clear()
    model = native.llama_model_load_from_file(os.fsencode(path), native.llama_model_default_params())
    if not model:
        fail(f"{path} is not a model llama.cpp can load", kind=ModelDamaged)
    return model


def _template(model: Native, words: Vocabulary, path: Path) -> ChatTemplate:
    native = library()
    source = native.llama_model_chat_template(model, None)
    if not source or not native.llama_model_has_decoder(model) or native.llama_model_has_encoder(model):
        hint = "take an instruction-tuned, decoder-only model"
        raise ModelError(f"the model {path.stem} does not chat: it has no chat template", hint=hint)
    bos, eos = native.llama_vocab_bos(words.pointer), native.llama_vocab_eos(words.pointer)
    return ChatTemplate(source.decode("utf-8", "replace"), bos=words.name(bos), eos=words.name(eos))


def context_length(model: Native, asked: int | None, most: int) -> int:
    """What was asked for, or as much as the model was trained on, at most `most`."""
    trained = int(library().llama_model_n_ctx_train(model))
    if asked is None:
        return min(trained, most)
    if not 2 <= asked <= trained:
        raise InputError(f"the model reads 2 to {trained} tokens, not {asked}")
    return asked


def _open(model: Native, context_tokens: int, threads: int | None) -> Native:
    native = library()
    options = native.llama_context_default_params()
    options.n_ctx, options.n_seq_max = context_tokens, 1
    options.n_batch = options.n_ubatch = settings.LLAMA_BATCH_TOKENS
    options.flash_attn_type = FLASH_ATTENTION_OFF
    options.swa_full = True  # else what is kept of a sliding window depends on what was read after it
    if threads is not None:
        if threads < 1:
            raise InputError(f"a model cannot run on {threads} threads")
        options.n_threads = options.n_threads_batch = threads
    native_errors.clear()
    context = native.llama_init_from_model(model, options)
    if not context or native.llama_n_ctx(context) < context_tokens:
        fail(f"no context of {context_tokens} tokens", "give fewer context_tokens")
    return context


def _free(owned: list[tuple[Any, Native]]) -> None:
    while owned:
        free, pointer = owned.pop()
        free(pointer)

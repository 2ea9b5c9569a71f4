"""Qwen3-Reranker (Zhang et al. 2025): a language model that is asked whether a document helps, yes or no.

The prompt is the one of its authors, word for word, with an instruction of our own. A score is the logit of
"yes" less that of "no" where the answer would stand: its sigmoid is the authors' probability. The question
and the document are data: no part of them is ever read as a control token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError
from memdb.models.described import DescribedReranker
from memdb.models.llama import LlamaModel, context_length
from memdb.models.onnx import CHARACTERS_PER_TOKEN, PROVIDERS, SLICE_TEXTS, Runtime
from memdb.models.padding import batches, padded
from memdb.models.ports import FIELDS, Field, require_documents, require_finite, valid_unicode

PREFIX: Final = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the"
    ' Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX: Final = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCT: Final = (
    "Given a question about earlier conversations, decide whether the memory record contains evidence that"
    " helps to answer it; prefer records that match the people, place and time asked about and that are still"
    " current."
)
CONTROL = "<|im_start|>"  # one token of every model of the family
TIED_WIDTH = (
    2_560  # of the 4B: up to it the head is the table of words, which every file has; the 8B's is not
)
RANK_POOLING = "4"  # in a GGUF file
GRAPH_INPUTS = {"input_ids", "attention_mask", "position_ids"}


class Prompt(msgspec.Struct, frozen=True):
    """Token ids of what stands around the instruction, the question and the document, and of both answers."""

    prefix: list[int]
    suffix: list[int]
    yes: int
    no: int


def head(question: str, instruct: str = INSTRUCT) -> str:
    """What stands between the prefix and the document; a blank follows."""
    return f"<Instruct>: {instruct}\n<Query>: {question}\n<Document>:"


def yes_no_ids(prompt: Prompt, body: Sequence[int], max_tokens: int) -> list[int]:
    """The ids of one prompt: `body` is the head and the document, cut off at its end to fit in max_tokens."""
    return [*prompt.prefix, *body[: document_room(prompt, 0, max_tokens)], *prompt.suffix]


def document_room(prompt: Prompt, start: int, max_tokens: int) -> int:
    """The tokens that the prompt and the `start` of its body leave."""
    return max_tokens - len(prompt.prefix) - len(prompt.suffix) - start


def fitted(question: str, limit: int, count: Callable[[str], int]) -> str:
    """The beginning of the question that has at most `limit` tokens, of which `count` tells the number."""
    text = valid_unicode(question[: limit * CHARACTERS_PER_TOKEN])
    while (found := count(text)) > limit:
        text = text[: len(text) * limit // found]
    return text


def question_tokens(prompt: Prompt, bare: int, max_tokens: int) -> int:
    """The most tokens of a question: half of what the prompt and the `bare` tokens of a head leave.

    Raises InputError where that is none.
    """
    least = len(prompt.prefix) + len(prompt.suffix) + bare + 2
    if max_tokens < least:
        raise InputError(f"{max_tokens} tokens are too few: the prompt alone has {least - 2}")
    return (max_tokens - least + 2) // 2


class Qwen3OnnxReranker(DescribedReranker):
    """A Qwen3-Reranker as a graph: logits [n, t, V], [n, 1, V] or [n, V] of padded rows; a `ports.Reranker`.

    Give a graph of the last position alone where there is a choice: the logits of 1,024 tokens are 600 MB.
    Alone and among others a document's score is the same within 1e-3. `providers`, `threads` and what is
    raised: see `Runtime`; ModelError for a graph with a cache, or a vocabulary without yes and no.
    """

    def __init__(
        self,
        model_file: Path,
        tokenizer_file: Path,
        *,
        name: str,
        sha256: str,
        max_tokens: int = settings.YES_NO_TOKENS,
        fields: Sequence[Field] = FIELDS,
        instruct: str = INSTRUCT,
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = None,
    ) -> None:
        super().__init__(name, sha256, max_tokens, fields)
        self._runtime = Runtime(model_file, tokenizer_file, name=name, providers=providers, threads=threads)
        _require_inputs(self._runtime)
        self._output = self._runtime.output("logits")
        self._instruct = instruct
        self._prompt = _prompt(self._runtime)
        bare = self._runtime.count_tokens(head("", instruct))
        self._question_tokens = question_tokens(self._prompt, bare, max_tokens)

    @property
    def calibration(self) -> Mapping[str, float]:
        """See `ports.Calibrated`."""
        return {}

    @property
    def provider(self) -> str:
        """See `Runtime`."""
        return self._runtime.provider

    def count_tokens(self, text: str) -> int:
        """See `ports.Reranker`."""
        return self._runtime.count_tokens(text)

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`."""
        return document_room(self._prompt, self.count_tokens(self._head(question)), self._max_tokens)

    def _head(self, question: str) -> str:
        return head(fitted(question, self._question_tokens, self.count_tokens), self._instruct)

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`."""
        require_documents(question, documents)
        scores = np.empty(len(documents), np.float32)
        start_of_body = self._head(question)
        for start in range(0, len(documents), SLICE_TEXTS):
            bodies = [f"{start_of_body} {document}" for document in documents[start : start + SLICE_TEXTS]]
            tokens = self._runtime.tokens(bodies, self._max_tokens)
            prompts = [yes_no_ids(self._prompt, body, self._max_tokens) for body in tokens]
            for rows in batches([len(ids) for ids in prompts]):
                scores[np.add(rows, start)] = self._run([prompts[row] for row in rows])
        return require_finite(scores, self._name)

    def _run(self, prompts: list[list[int]]) -> NDArray[np.float32]:
        """float32 [len(prompts)]. Rows are filled up on the left, so that all end in the last column."""
        mask = padded([[1] * len(ids) for ids in prompts], left=True)
        feed = {
            "input_ids": padded(prompts, left=True),
            "attention_mask": mask,
            "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        }
        logits = self._runtime.run(self._output, feed)
        last = logits[:, -1] if logits.ndim == 3 else logits
        answers = [self._prompt.yes, self._prompt.no]
        if last.ndim != 2 or len(last) != len(prompts) or last.shape[1] <= max(answers):
            raise ModelDamaged(
                f"the reranker {self._name} gives {logits.shape}, not logits of its vocabulary"
            )
        picked: NDArray[np.float32] = last[:, answers]
        return picked[:, 0] - picked[:, 1]


class Qwen3LlamaReranker(LlamaModel):
    """A Qwen3-Reranker in a GGUF file, on llama.cpp; a `ports.Reranker`. One call runs at a time.

    What comes before the document is read once for a question. `max_tokens` defaults to what the model was
    trained on, at most settings.YES_NO_TOKENS; `threads` to llama.cpp's choice. Raises what LlamaModel does,
    ModelError for a vocabulary without yes and no or a model without the logits of its vocabulary, InputError
    for more tokens than the model was trained on.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_tokens: int | None = None,
        fields: Sequence[Field] = FIELDS,
        instruct: str = INSTRUCT,
        threads: int | None = None,
    ) -> None:
        super().__init__(path)
        self._fields, self._instruct = tuple(fields), instruct
        self._require_head()
        self._prompt = self._read_prompt()
        room = context_length(self._model, max_tokens, settings.YES_NO_TOKENS)
        self._question_tokens = question_tokens(self._prompt, len(self._ids(head("", instruct))), room)
        self._start(room, threads)

    def __repr__(self) -> str:
        return f"Qwen3LlamaReranker({str(self._path)!r}, max_tokens={self.max_tokens})"

    @property
    def max_tokens(self) -> int:
        """See `ports.Reranker`; the prompt's own tokens are among them."""
        return self._context_tokens

    @property
    def fields(self) -> tuple[Field, ...]:
        """See `ports.Reranker`."""
        return self._fields

    @property
    def calibration(self) -> Mapping[str, float]:
        """See `ports.Calibrated`."""
        return {}

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`."""
        with self._lock:
            self._require_open()
            return document_room(self._prompt, len(self._ids(self._head(question))), self.max_tokens)

    def _head(self, question: str) -> str:
        asked = fitted(question, self._question_tokens, lambda text: len(self._ids(text)))
        return head(asked, self._instruct)

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`."""
        require_documents(question, documents)
        scores = np.empty(len(documents), np.float32)
        with self._lock:
            self._require_free()
            start = self._head(question)
            shared = [*self._prompt.prefix, *self._ids(start)]
            for number, document in enumerate(documents):
                scores[number] = self._score(start, shared, document)
        return require_finite(scores, self.name)

    def _score(self, start: str, shared: list[int], document: str) -> float:
        """The log-odds of one document. What all prompts share is a segment of its own, and stays read."""
        text = f"{start} {document[: self.max_tokens * CHARACTERS_PER_TOKEN]}"
        ids = yes_no_ids(self._prompt, self._ids(text), self.max_tokens)
        apart = len(shared) if ids[: len(shared)] == shared else 0
        self._read([tuple(part) for part in (ids[:apart], ids[apart:]) if part])
        logits = self._logits()
        return float(logits[self._prompt.yes]) - float(logits[self._prompt.no])

    def _ids(self, text: str) -> list[int]:
        return [token for ids in self._vocabulary.text(text) for token in ids]

    def _require_head(self) -> None:
        """Of a head that is not the table of words, llama.cpp's converter keeps two rows of a reranker's:
        the logits would be made of the table, without a warning.
        """
        width = int(self._said("*.embedding_length") or 0)
        if self._said("*.pooling_type") == RANK_POOLING and width > TIED_WIDTH:
            hint = "convert it without its README.md, by which convert_hf_to_gguf knows a reranker"
            raise ModelError(f"{self.name} lacks the head of its vocabulary", hint=hint)

    def _read_prompt(self) -> Prompt:
        vocabulary = self._vocabulary
        answers = [self._ids(answer) for answer in ("yes", "no")]
        if any(len(ids) != 1 for ids in (*answers, vocabulary.control(CONTROL))):
            raise _no_reranker(self.name)
        prefix, suffix = vocabulary.control(PREFIX), vocabulary.control(SUFFIX)
        return Prompt(prefix=prefix, suffix=suffix, yes=answers[0][0], no=answers[1][0])


def _prompt(runtime: Runtime) -> Prompt:
    """From here on the tokenizer takes the names of control tokens for text."""
    tokenizer = runtime.tokenizer
    yes, no, control = (tokenizer.token_to_id(token) for token in ("yes", "no", CONTROL))
    if yes is None or no is None or control is None:
        raise _no_reranker(runtime.name)
    prefix, suffix = (tokenizer.encode(text, add_special_tokens=False).ids for text in (PREFIX, SUFFIX))
    tokenizer.encode_special_tokens = True
    return Prompt(prefix=prefix, suffix=suffix, yes=yes, no=no)


def _no_reranker(name: str) -> ModelError:
    message = f"the vocabulary of {name} lacks yes, no or {CONTROL}: it is no Qwen3-Reranker"
    return ModelError(message, hint="take a Qwen3-Reranker, or a cross-encoder as ONNX")


def _require_inputs(runtime: Runtime) -> None:
    unknown = sorted(runtime.inputs - GRAPH_INPUTS)
    if any(name.startswith("past_key_values") for name in unknown):
        hint = "export it again without: use_cache=False, or the task text-generation instead of …-with-past"
        raise ModelError(f"the graph of {runtime.name} takes a cache, past_key_values", hint=hint)
    if unknown:
        raise ModelError(f"the reranker {runtime.name} asks for {', '.join(unknown)}")

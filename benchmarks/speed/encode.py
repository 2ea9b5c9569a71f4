"""The encoder on messages of the talks: as memdb runs it, and as the runtime is used plainly.

Plain is what a first program does: texts in the order given, 32 at a time, each batch padded to its longest.
The encoder runs with one thread within a run, with two, and with its inputs and outputs bound.
Traps: padding costs by its share of tokens, so texts of one length show no difference; two threads need
two idle cores; to bind saves copies between memories, of which a processor alone has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from memdb.models.onnx import OnnxEncoder
from memdb.models.registry import DEFAULT_ENCODER, find, load_encoder
from memdb.train.talks import own

from .measured import OURS, Found, Measured, Setting, middle

BATCH_TEXTS: Final = 32
TEXTS: Final = 1_024
PLAIN: Final = "plain onnxruntime"
CUDA: Final = "CUDAExecutionProvider"
WAYS: Final = {  # contender -> threads within a run, and whether its inputs and outputs are bound
    "memdb, 2 threads": (2, False),
    "memdb, bound": (1, True),
}


def encode(setting: Setting) -> Found:
    """The row: texts and tokens per CPU second, and the share of what was read that is padding."""
    encoder = setting.encoder
    found = _gpu()
    if not isinstance(encoder, OnnxEncoder):
        return found.without("encode", "the encoder", f"{encoder.name} is none of the runtime")
    texts = _texts(min(TEXTS, setting.messages))
    plain = Plain(find(DEFAULT_ENCODER), encoder.max_tokens, setting.threads or 1)
    _measure(setting, found, OURS, partial(_ours, encoder, texts), len(texts))
    _measure(setting, found, PLAIN, partial(plain.run, texts), len(texts))
    if encoder.sha256 != load_encoder().sha256:
        return found.without("encode", "threads and binding", f"{encoder.name} is not the embedded encoder")
    for contender, (threads, bound) in WAYS.items():
        made = load_encoder(threads=threads, bound=bound)
        assert isinstance(made, OnnxEncoder)
        made.encode(texts[:1])  # what a first run makes room for
        _measure(setting, found, contender, partial(_ours, made, texts), len(texts))
    return found


def _measure(
    setting: Setting, found: Found, contender: str, run: Callable[[], tuple[int, int]], texts: int
) -> None:
    """The figures of one contender; `run` tells the tokens it read and the padding."""
    start, cpu = time.perf_counter(), setting.clock()
    tokens, padding = run()
    cpu, seconds = setting.clock() - cpu, time.perf_counter() - start
    figures = {
        "texts per CPU second": texts / cpu,
        "tokens per CPU second": tokens / cpu,
        "texts/s": texts / seconds,
        "share of padding": padding / (tokens + padding),
    }
    found.measured += [
        Measured(row="encode", contender=contender, figure=figure, value=middle([value]))
        for figure, value in figures.items()
    ]


def _ours(encoder: OnnxEncoder, texts: list[str]) -> tuple[int, int]:
    before = encoder.encoded
    encoder.encode(texts)
    done = encoder.encoded.since(before)
    return done.tokens, done.padding


def _texts(most: int) -> list[str]:
    said = dict.fromkeys(one.content for talk in own() for one in talk.messages)
    return list(said)[:most]


def _gpu() -> Found:
    """Why no graphics card is measured, if none is."""
    import onnxruntime

    if CUDA not in onnxruntime.get_available_providers():
        why = "the runtime installed here has no CUDA provider"
    else:
        why = "the embedded encoder runs on processors alone: its weights are int8"
    return Found().without("encode", "on a graphics card", why)


class Plain:
    """The same graph and tokenizer without anything of memdb."""

    def __init__(self, folder: Path, max_tokens: int, threads: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=providers)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.enable_padding()
        self.tokens = self.padding = 0

    def run(self, texts: list[str]) -> tuple[int, int]:
        """Encode them; the tokens and the padding that this read."""
        self.tokens = self.padding = 0
        self.encode(texts)
        return self.tokens, self.padding

    def encode(self, texts: list[str]) -> list[Any]:
        """Means of the hidden states, of length 1, [n, d] for each batch."""
        made = []
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = self._tokenizer.encode_batch(texts[start : start + BATCH_TEXTS])
            ids = np.array([one.ids for one in batch], np.int64)
            mask = np.array([one.attention_mask for one in batch], np.int64)
            hidden = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            means = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            made.append(means / np.linalg.norm(means, axis=1, keepdims=True))
            self.tokens += int(mask.sum())
            self.padding += int(mask.size - mask.sum())
        return made

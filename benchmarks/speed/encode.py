"""The encoder on messages of the talks: as memdb runs it, and as the runtime is used plainly.

Plain is what a first program does: texts in the order given, 32 at a time, each batch padded to its longest.
Trap: padding costs by its share of tokens, so texts of one length show no difference.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from memdb.models.onnx import OnnxEncoder
from memdb.models.registry import DEFAULT_ENCODER, find
from memdb.train.talks import own

from .measured import OURS, Found, Measured, Setting, middle

BATCH_TEXTS: Final = 32
TEXTS: Final = 1_024
PLAIN: Final = "plain onnxruntime"
CUDA: Final = "CUDAExecutionProvider"


def encode(setting: Setting) -> Found:
    """The row: texts and tokens per CPU second, and the share of what was read that is padding."""
    encoder = setting.encoder
    found = _gpu()
    if not isinstance(encoder, OnnxEncoder):
        return found.without("encode", "the encoder", f"{encoder.name} is none of the runtime")
    texts = _texts(min(TEXTS, setting.messages))
    before = encoder.encoded
    seconds = setting.milliseconds(partial(encoder.encode, texts)) / 1_000
    done = encoder.encoded.since(before)
    plain = Plain(find(DEFAULT_ENCODER), encoder.max_tokens, setting.threads or 1)
    plain_seconds = setting.milliseconds(partial(plain.encode, texts)) / 1_000
    for name, took, tokens, padding in (
        (OURS, seconds, done.tokens, done.padding),
        (PLAIN, plain_seconds, plain.tokens, plain.padding),
    ):
        figures = {
            "texts per CPU second": len(texts) / took,
            "tokens per CPU second": tokens / took,
            "share of padding": padding / (tokens + padding),
        }
        found.measured += [
            Measured(row="encode", contender=name, figure=figure, value=middle([value]))
            for figure, value in figures.items()
        ]
    return found


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

"""A BERT that tells tokens to keep from others, written by torch's own exporter: float32, nothing fused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from memdb.models.card import sha256_of

LAYER = "/bert/encoder/layer.{}/attention/self/{}/Add_output_0"
HEADS, LAYERS = 4, 3
WORDS = [*(f"w{number}" for number in range(16)), *(f"{letter}o" for letter in "abcdefghijklm")]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, "##x", "##y", ".", ",", "Ana", "7"]


def attention_card(layers: tuple[int, ...] = (1, 2), text_tokens: int = 8) -> dict[str, Any]:
    """Names as torch gives them."""
    names = [[LAYER.format(layer, part) for part in ("query", "key")] for layer in layers]
    return {"heads": HEADS, "layers": names, "text_tokens": text_tokens}


def token_classifier() -> Any:
    """A random transformers model. Skips without transformers."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="the train extra is not installed")
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=len(PIECES),
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=48,
        max_position_embeddings=24,
        initializer_range=0.4,
        attn_implementation="eager",
    )
    return transformers.BertForTokenClassification(config).eval()


def write_folder(model: Any, folder: Path, **card: Any) -> Path:
    """The folder of a compressor, with a card that says `card` besides."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    one = torch.ones(1, 5, dtype=torch.long)
    names = ("input_ids", "attention_mask", "logits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is the older one
        torch.onnx.export(
            model,
            (one, one),
            str(folder / "model.onnx"),
            input_names=list(names[:2]),
            output_names=[names[2]],
            dynamic_axes={name: {0: "n", 1: "t"} for name in names},
            dynamo=False,
        )
    tokenizer = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(PIECES[:4])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(6)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_card(folder, **card)
    return folder


def write_card(folder: Path, **card: Any) -> None:
    """The card.json of the files that are there."""
    files = {name: sha256_of(folder / name) for name in ("model.onnx", "tokenizer.json")}
    content = {"kind": "compressor", "name": "tiny", "max_tokens": 12, "files": files, **card}
    (folder / "card.json").write_text(json.dumps(content))

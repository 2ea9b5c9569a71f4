"""A BERT of two layers with random weights, small enough to export in every test run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

CONFIG = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "vocab_size": 40,
    "layer_norm_eps": 1e-12,
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(36))]


def tiny_tensors() -> dict[str, np.ndarray]:
    """Weights under the checkpoint's names, larger than a trained model's so that every part shows."""
    rng = np.random.default_rng(11)
    width, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (CONFIG["vocab_size"], width),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(CONFIG["num_hidden_layers"])):
        parts = {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        parts |= {"attention.output.dense": (width, width)}
        parts |= {"intermediate.dense": (wide, width), "output.dense": (width, wide)}
        for name, (out, size) in parts.items():
            shapes |= {f"{layer}.{name}.weight": (out, size), f"{layer}.{name}.bias": (out,)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    tensors = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    for name in norms:
        tensors[f"{name}.weight"] = rng.normal(1, 0.2, width).astype(np.float32)
        tensors[f"{name}.bias"] = rng.normal(0, 0.2, width).astype(np.float32)
    return tensors


def tiny_head() -> dict[str, np.ndarray]:
    """What makes the trunk a reranker."""
    rng = np.random.default_rng(12)
    return {
        "classifier.weight": rng.normal(0, 1, (1, CONFIG["hidden_size"])).astype(np.float32),
        "classifier.bias": np.array([0.25], np.float32),
    }


def tiny_token_head() -> dict[str, np.ndarray]:
    """What makes the trunk a compressor."""
    rng = np.random.default_rng(13)
    return {
        "classifier.weight": rng.normal(0, 1, (2, CONFIG["hidden_size"])).astype(np.float32),
        "classifier.bias": np.array([0.25, -0.25], np.float32),
    }


def write_checkpoint(folder: Path, tensors: dict[str, np.ndarray]) -> Path:
    """A folder as `memdb.models.export --weights` takes it."""
    numpy_files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    numpy_files.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(WORDS[:4])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder's."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint"), tiny_tensors())


@pytest.fixture(scope="session")
def compressor_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token classifier's: the same trunk with another head."""
    return write_checkpoint(tmp_path_factory.mktemp("compressor"), tiny_tensors() | tiny_token_head())


@pytest.fixture(scope="session")
def reranker_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reranker's: the same trunk with a head."""
    return write_checkpoint(tmp_path_factory.mktemp("reranker"), tiny_tensors() | tiny_head())

"""A tiny trunk for what trains: needs torch and transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] what is the cat dog called grey source ana ben biscuit rex : . ?".split()
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers of 16 units and a tokenizer of a few words."""
    torch = pytest.importorskip("torch", reason="the train extra is not installed")
    transformers = pytest.importorskip("transformers", reason="the train extra is not installed")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder

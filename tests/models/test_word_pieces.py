"""Plain questions are tokenized as the library does, or left to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from memdb.models.onnx import PLAIN_CHARS
from memdb.models.registry import DEFAULT_ENCODER, WEIGHTS, load_encoder
from memdb.models.word_pieces import WordPieces, read_word_pieces

FILE = WEIGHTS / DEFAULT_ENCODER / "tokenizer.json"
QUESTION = "What did they say about the market?"
WORDS = st.sampled_from(
    'What Caroline \'s sandcastles [x] "quoted" a\\b 7:30pm, zqxjk {it} ## ##ing the'.split()
)


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    found = read_word_pieces(FILE)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def library() -> Any:
    tokenizer = Tokenizer.from_file(str(FILE))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@settings(deadline=None)
@example(text=QUESTION)
@example(text=" ".join(map(chr, range(32, 127))))
@example(text="")
@given(text=st.text(st.characters(min_codepoint=32, max_codepoint=126)) | st.lists(WORDS).map(" ".join))
def test_plain_text_is_read_as_the_library_reads_it(pieces: WordPieces, library: Any, text: str) -> None:
    ids = pieces.ids(text, 256)
    if all(len(word) <= 40 for word in text.split()):
        assert ids is not None
    assert ids in (None, library.encode(text).ids)


@pytest.mark.parametrize(
    "text", ["café", "a\tb", "a\0b", "the [MASK] of", "x" * 41, "the " * 300, "日本", "a\nb"]
)
def test_the_rest_is_left_to_the_library(pieces: WordPieces, text: str) -> None:
    assert pieces.ids(text, 256) is None


def test_a_text_that_fits_exactly(pieces: WordPieces, library: Any) -> None:
    ids = library.encode(QUESTION).ids
    assert pieces.ids(QUESTION, len(ids)) == ids
    assert pieces.ids(QUESTION, len(ids) - 1) is None


def _changed(**changes: Any) -> str:
    return json.dumps(json.loads(FILE.read_text(encoding="utf-8")) | changes, separators=(",", ":"))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        _changed(normalizer=None),
        _changed(normalizer={"type": "BertNormalizer", "clean_text": True, "lowercase": False}),
        _changed(pre_tokenizer={"type": "Whitespace"}),
        _changed(post_processor=None),
        _changed(post_processor={"type": "TemplateProcessing", "single": [], "special_tokens": {}}),
        _changed(model={"type": "BPE", "vocab": {}, "merges": []}),
        _changed(added_tokens=[{"id": 1, "content": "the"}]),
        json.dumps(json.loads(FILE.read_text(encoding="utf-8")), indent=1),
    ],
    ids=lambda content: str(len(content)),
)
def test_another_tokenizer_is_left_to_the_library(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    assert read_word_pieces(tmp_path / "tokenizer.json") is None


def test_the_tokenizer_is_loaded_when_it_is_needed_and_says_the_same() -> None:
    encoder: Any = load_encoder(threads=1)
    vector = encoder.encode([QUESTION])
    assert not encoder._runtime._tokens.loaded
    encoder.encode(["café"])
    assert encoder._runtime._tokens.loaded
    assert np.array_equal(encoder.encode([QUESTION]), vector)


def test_many_texts_are_worth_the_tokenizer() -> None:
    encoder: Any = load_encoder(threads=1)
    for number in range(PLAIN_CHARS // len(QUESTION)):
        encoder.encode([f"{QUESTION[:-2]}{number:02}"])
    assert not encoder._runtime._tokens.loaded
    encoder.encode([QUESTION])
    assert encoder._runtime._tokens.loaded

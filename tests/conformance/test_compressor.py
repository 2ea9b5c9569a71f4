"""The contract of `ports.Compressor`, over every compressor that ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.language.compress import stays
from memdb.language.sentences import WORD
from memdb.models.ports import Compressor, valid_unicode
from memdb.models.registry import load_compressor
from tests.conformance.test_encoder import ODD, SENTENCES
from tests.models.conftest import tiny_tensors, tiny_token_head, write_checkpoint

TEXTS = [*SENTENCES, "w1 w2 w3 w4 and w5. Then w6 w7 w8 w9, w10 w11. " * 9, *ODD]


@pytest.fixture(scope="module", params=["stopword", "lingua"])
def compressor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compressor:
    if request.param == "stopword":
        return load_compressor()
    export = pytest.importorskip("memdb.models.export")
    pytest.importorskip("onnx", reason="onnx is not installed")
    checkpoint: Path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(checkpoint, tiny_tensors() | tiny_token_head())
    folder = tmp_path_factory.mktemp("lingua")
    export.export(checkpoint, folder, kind="compressor")
    return load_compressor(folder, rate=0.5, threads=1)


def test_it_is_a_compressor_and_has_a_name(compressor: Compressor) -> None:
    assert isinstance(compressor, Compressor)
    assert compressor.name


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_any_str_becomes_a_shorter_one(compressor: Compressor, text: str) -> None:
    short = compressor(text)
    assert len(short) <= len(text)
    assert bool(short) == bool(text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=[]), max_size=60))
def test_letters_come_from_the_text_in_its_order(compressor: Compressor, text: str) -> None:
    short = compressor(text)
    rest = iter(text if short == text else valid_unicode(text))
    assert all(c in rest for c in short if not c.isspace())
    assert bool(short) == bool(text)


def test_names_and_numbers_stay(compressor: Compressor) -> None:
    text = "we met Ana and Ben at 7 in the old town on the 3rd of May"
    left = WORD.findall(compressor(text))
    assert [word for word in WORD.findall(text) if stays(word)] == [word for word in left if stays(word)]


def test_it_drops_something(compressor: Compressor) -> None:
    assert any(len(compressor(text)) < len(text) for text in SENTENCES)


def test_it_gives_the_same_again(compressor: Compressor) -> None:
    assert [compressor(text) for text in TEXTS] == [compressor(text) for text in TEXTS]


@pytest.mark.parametrize("wrong", [None, 1, b"bytes", ["a"]])
def test_what_is_no_str_is_refused(compressor: Compressor, wrong: object) -> None:
    with pytest.raises(InputError, match="takes a str"):
        compressor(wrong)  # type: ignore[arg-type]

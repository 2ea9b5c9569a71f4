"""What an encoder counts, and what it does not do twice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models import padding
from memdb.models.counts import Encoded, Remembered, Tally
from memdb.models.onnx import OnnxEncoder
from memdb.models.registry import load_encoder

QUESTIONS = ["Where does Ana live?", "When did Ben move to the house by the river?"]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    loaded = load_encoder(threads=1)
    assert isinstance(loaded, OnnxEncoder)
    return loaded


def test_a_question_is_encoded_once(encoder: OnnxEncoder) -> None:
    first = encoder.encode(QUESTIONS, kind="query")
    before = encoder.encoded
    again = encoder.encode(QUESTIONS[::-1], kind="query")
    np.testing.assert_array_equal(again[::-1], first)
    assert encoder.encoded.since(before) == Encoded(texts=2, remembered=2)


def test_what_is_remembered_is_nobody_elses(encoder: OnnxEncoder) -> None:
    vector = encoder.encode(["Who sings?"], kind="query")
    kept = vector.copy()
    vector[:] = 0
    again = encoder.encode(["Who sings?"], kind="query")
    np.testing.assert_array_equal(again, kept)
    again[:] = 0
    np.testing.assert_array_equal(encoder.encode(["Who sings?"], kind="query"), kept)


def test_documents_are_not_remembered_and_repeated_ones_encoded_once(encoder: OnnxEncoder) -> None:
    before = encoder.encoded
    vectors = encoder.encode(["a cat", "a dog", "a cat"])
    done = encoder.encoded.since(before)
    assert (done.texts, done.repeated, done.remembered, done.runs) == (3, 1, 0, 1)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert done.tokens == 2 * 4  # [CLS] a cat [SEP]
    encoder.encode(["a cat"])
    assert encoder.encoded.since(before).runs == 2


def test_padding_is_what_shorter_texts_are_filled_up_with(encoder: OnnxEncoder) -> None:
    before = encoder.encoded
    encoder.encode(["a cat", "a cat sat"])
    done = encoder.encoded.since(before)
    assert (done.tokens, done.padding, done.padding_share) == (9, 1, 0.1)


def test_nothing_is_encoded_in_no_run(encoder: OnnxEncoder) -> None:
    before = encoder.encoded
    assert encoder.encode([], kind="query").shape == (0, encoder.dimension)
    assert encoder.encoded == before


@given(lengths=st.lists(st.integers(1, 256), min_size=1, max_size=200))
def test_no_batch_pads_more_for_a_longer_text_than_a_run_costs(lengths: list[int]) -> None:
    batches = list(padding.batches(lengths))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        ordered = [lengths[row] for row in batch]
        assert ordered == sorted(ordered)
        assert len(batch) == 1 or len(batch) * ordered[-1] <= padding.BATCH_TOKENS
        for count, (shorter, longer) in enumerate(pairwise(ordered), 1):
            assert count * (longer - shorter) <= padding.RUN_TOKENS


def test_labels_are_not_padded_to_the_length_of_sentences(encoder: OnnxEncoder) -> None:
    before = encoder.encoded
    sentences = [f"{name} went down to the river with the old dog and a red kite" for name in ("Ana", "Ben")]
    encoder.encode([f"Town {number}" for number in range(30)] + sentences)
    done = encoder.encoded.since(before)
    assert done.runs == 2
    assert done.padding_share < 0.05


def test_the_oldest_is_forgotten_first() -> None:
    kept = Remembered(2)
    one = np.ones(3, np.float32)
    kept.keep([("a", one), ("b", one)])
    assert list(kept.find(["a"])) == ["a"]
    kept.keep([("c", one)])
    assert sorted(kept.find(["a", "b", "c"])) == ["a", "c"]


def test_counts_add_up() -> None:
    tally = Tally()
    tally.add(runs=1, tokens=30, padding=10)
    before = tally.counts
    tally.add(runs=2, tokens=5)
    assert tally.counts == Encoded(runs=3, tokens=35, padding=10)
    assert tally.counts.since(before) == Encoded(runs=2, tokens=5)
    assert Encoded().padding_share == 0

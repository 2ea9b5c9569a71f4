"""The contract of `ports.AttentionScorer`, over every scorer that ships."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import InputError
from memdb.models.fakes import OverlapAttention
from memdb.models.ports import AttentionScorer
from memdb.models.registry import load_encoder
from tests.conformance.test_encoder import ODD, SENTENCES

PAIRS = [*pairwise(SENTENCES), *zip(SENTENCES, ODD, strict=False)]
PAIRS += list(zip(ODD, SENTENCES, strict=False))
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=40)


@pytest.fixture(scope="module", params=["embedded", "overlap"])
def scorer(request: pytest.FixtureRequest) -> Any:
    return load_encoder(threads=1) if request.param == "embedded" else OverlapAttention()


def test_it_is_a_scorer_and_says_what_it_is(scorer: AttentionScorer) -> None:
    assert isinstance(scorer, AttentionScorer)
    assert scorer.name
    assert len(scorer.sha256) == 64
    assert set(scorer.sha256) <= set("0123456789abcdef")


def test_scores_are_shares_of_float32(scorer: AttentionScorer) -> None:
    scores = scorer.attention(PAIRS)
    assert scores.shape == (len(PAIRS),)
    assert scores.dtype == np.float32
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[:5].any()


def test_no_pairs_give_no_scores(scorer: AttentionScorer) -> None:
    assert scorer.attention([]).shape == (0,)
    assert scorer.attention([]).dtype == np.float32


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_any_str_is_a_legal_text(scorer: AttentionScorer, text: str) -> None:
    scores = scorer.attention([(text, SENTENCES[0]), (SENTENCES[0], text), (text, text)])
    assert np.isfinite(scores).all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=4))
def test_any_pairs_of_str_are_legal(scorer: AttentionScorer, pairs: list[tuple[str, str]]) -> None:
    scores = scorer.attention(pairs)
    assert scores.shape == (len(pairs),)
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("pair", [("", ""), ("", SENTENCES[0]), (SENTENCES[0], ""), (" ", SENTENCES[0])])
def test_nothing_attends_to_nothing(scorer: AttentionScorer, pair: tuple[str, str]) -> None:
    assert scorer.attention([pair])[0] == 0


def test_a_score_depends_on_its_pair_alone_to_the_last_bit(scorer: AttentionScorer) -> None:
    together = scorer.attention(PAIRS)
    alone = np.concatenate([scorer.attention([pair]) for pair in PAIRS])
    assert together.tobytes() == alone.tobytes()
    order = np.random.default_rng(7).permutation(len(PAIRS))
    assert scorer.attention([PAIRS[at] for at in order]).tobytes() == together[order].tobytes()


def test_the_order_of_two_texts_matters(scorer: AttentionScorer) -> None:
    one, two = scorer.attention([(SENTENCES[0], SENTENCES[3]), (SENTENCES[3], SENTENCES[0])])
    assert abs(one - two) > 1e-3


def test_more_pairs_than_are_tokenised_at_once(
    scorer: AttentionScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scorer.attention(PAIRS)
    monkeypatch.setattr("memdb.models.attention.SLICE_TEXTS", 4)
    assert scorer.attention(PAIRS).tobytes() == expected.tobytes()


def test_threads_share_it(scorer: AttentionScorer) -> None:
    expected = scorer.attention(PAIRS[:6])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(scorer.attention, [PAIRS[:6]] * 8))
    assert all(scores.tobytes() == expected.tobytes() for scores in found)


@pytest.mark.parametrize(
    "wrong",
    ["one text", ["ab"], [("one",)], [("one", "two", "three")], [("one", None)], [["one", "two"]], [1]],
    ids=repr,
)
def test_what_is_no_pair_is_refused(scorer: AttentionScorer, wrong: Any) -> None:
    with pytest.raises(InputError, match="pair 0"):
        scorer.attention(wrong)

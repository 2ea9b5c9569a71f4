"""The terms a text is indexed by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.language.terms import MAX_TOKEN_CHARS, document_terms

ASCII = st.text(st.characters(max_codepoint=127))


@given(text=ASCII)
def test_the_terms_of_a_plain_text_do_not_depend_on_its_neighbours(text: str) -> None:
    assert document_terms(f"{text} \u00e9").split() == [*document_terms(text).split(), "e"]


@pytest.mark.parametrize("text", ["x" * (MAX_TOKEN_CHARS + 1), f"a {'y' * (2 * MAX_TOKEN_CHARS)} b"])
def test_a_long_word_is_cut(text: str) -> None:
    terms = document_terms(text).split()
    assert "".join(terms) == text.replace(" ", "")
    assert max(map(len, terms)) == MAX_TOKEN_CHARS

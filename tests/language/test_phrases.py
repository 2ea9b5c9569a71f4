from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.language.phrases import MAX_PHRASES, distinct, phrases

# text -> entities | places
CASES = [
    ("I went to a LGBTQ support group yesterday and it was so powerful.", "LGBTQ, LGBTQ support group |"),
    ("The transgender stories were so inspiring!", "transgender stories |"),
    ("I'm keen on counseling or working in mental health", "counseling, mental health |"),
    ("I signed up for a pottery class", "pottery class |"),
    ("I love hiking in the mountains", "hiking, mountains | mountains"),
    ("We camped at the beach with her family", "beach, family | beach"),
    ("My dog Rex loves Spain", "Rex, Spain, dog Rex | Spain"),
    ("Ana's sister works at Google in Berlin", "Ana, Google, Berlin, sister | Google, Berlin"),
    ("The headquarters of University of Minnesota is located in Minneapolis.",
     "University of Minnesota, Minneapolis, headquarters | Minneapolis"),
    ("The author of A Wizard of Earthsea is Ursula K. Le Guin",
     "Wizard of Earthsea, Ursula K Le Guin, author |"),
    ("Dr. Seuss wrote it", "Dr Seuss |"),
    ("I moved here from Sweden 4 years ago", "Sweden | Sweden"),
    ("I'm from Atlantis", "Atlantis | Atlantis"),
    ("We flew to Atlantis", "Atlantis | Atlantis"),
    ("I wrote to Sarah", "Sarah |"),
    ("She lives in the city of Atlantis", "Atlantis, city | Atlantis"),
    ("We walked in Hyde Park", "Hyde Park | Hyde Park"),
    ("She codes in HTML", "HTML |"),
    ("See you in May on Monday", "|"),
    ("Painting is calm", "Painting |"),
    ("The Beatles played. Running late.", "Beatles, Running |"),
    ('She read "The Four Seasons" twice', "The Four Seasons, Four Seasons |"),
    ("He said OK and that's it", "|"),
    ("I saw LH-1172 and v2.0", "LH-1172, v2.0 |"),
    ("in 2023 and 20 more", "|"),
    ("", "|"),
    ("海底捞 很好吃", "海底捞 很好吃 |"),
    ("the pottery workshop, the race", "pottery workshop, race |"),
    ("We stayed at Nate's", "Nate |"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_phrases(text: str, expected: str) -> None:
    found = phrases(text)
    assert f"{', '.join(found.entities)} | {', '.join(found.locations)}".strip() == expected.strip()


def test_known_persons_are_no_places() -> None:
    assert phrases("I stayed at Florence for a week").locations == ("Florence",)
    assert phrases("I stayed at Florence for a week", ["Florence"]).locations == ()


def test_distinct_strips_and_bounds() -> None:
    assert distinct([" a ", "A", "", "b", "x" * 200, "c"], 2) == ("a", "b")


@given(st.text(alphabet=st.characters(codec=None)), st.lists(st.text(), max_size=3))
def test_any_text_gives_bounded_distinct_phrases_of_its_own_words(text: str, names: list[str]) -> None:
    for found in phrases(text, names):
        assert len(found) <= MAX_PHRASES
        assert len({name.casefold() for name in found}) == len(found)
        for name in found:
            assert name == name.strip() != ""
            assert all(word in text for word in name.split())


@given(
    st.lists(st.sampled_from("Ana the Rome in of dog's \" , . Dr. A LGBTQ to from city is running &".split()))
)
def test_word_salad(parts: list[str]) -> None:
    text = " ".join(parts)
    assert phrases(text) == phrases(text)

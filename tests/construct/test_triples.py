from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.construct.triples import triple
from memdb.records import Triple

FACTS = [
    # holder, slot, value
    ("The capital of France is Paris.", ("France", "capital is", "Paris")),
    ("France's capital is Paris", ("France", "capital is", "Paris")),
    ("Ana's favourite player is Ronaldo.", ("Ana", "favourite player is", "Ronaldo")),
    ("Ana's favourite player is now Messi", ("Ana", "favourite player is", "Messi")),
    ("Ana's favourite player is Messi now.", ("Ana", "favourite player is", "Messi")),
    ("Ana lives in Rome right now.", ("Ana", "lives in", "Rome")),
    ("Ana works for Acme these days.", ("Ana", "works for", "Acme")),
    ("Ana likes Apocalypse Now.", ("Ana", "likes", "Apocalypse Now")),
    ("The name of the dog is Rex", ("the dog", "name is", "Rex")),
    ("The chief executive of Apple Inc. is Tim Cook.", ("Apple Inc.", "chief executive is", "Tim Cook")),
    ("The author of A Wizard of Earthsea is Ursula K. Le Guin.",
     ("A Wizard of Earthsea", "author is", "Ursula K. Le Guin")),
    ("The headquarters of University of Minnesota is located in Minneapolis",
     ("University of Minnesota", "headquarters is located in", "Minneapolis")),
    ("The company that produced Ford Probe is Ford.", ("Ford Probe", "company that produced is", "Ford")),
    ("The school where Ada Byron was educated is Home.",
     ("Ada Byron", "school where was educated is", "Home")),
    ("The type of music that John McVie plays is rock music.",
     ("John McVie", "type of music that plays is", "rock music")),
    # the kind of thing named before the value goes with the slot
    ("Tom Jones plays the position of goalkeeper.", ("Tom Jones", "plays the position of", "goalkeeper")),
    ("Eliud Kipchoge is a citizen of Kenya.", ("Eliud Kipchoge", "is a citizen of", "Kenya")),
    ("Paris is the capital of France", ("Paris", "is the capital of", "France")),
    ("Thomas Kyd was born in the city of London.", ("Thomas Kyd", "was born in the city of", "London")),
    ("Ana ate a bowl of soup", ("Ana", "ate a bowl of", "soup")),
    ("Ana bought a lot of books", ("Ana", "bought", "a lot of books")),
    # what somebody is known for goes with it too
    ("Stephen Crane is famous for The Red Badge of Courage.",
     ("Stephen Crane", "is famous for", "The Red Badge of Courage")),
    ("Ana is best known for her paintings", ("Ana", "is best known for", "her paintings")),
    ("Ana works famous for", ("Ana", "works", "famous for")),
    # plain verbs
    ("Chanel was founded by Coco Chanel.", ("Chanel", "was founded by", "Coco Chanel")),
    ("Ana lives in Rome.", ("Ana", "lives in", "Rome")),
    ("Ana works at Mercy Hospital", ("Ana", "works at", "Mercy Hospital")),
    ("Ana is a nurse", ("Ana", "is", "a nurse")),
    ("Ana is reading a book about bees", ("Ana", "is reading", "a book about bees")),
    ("Ana has been working on a plan", ("Ana", "has been working on", "a plan")),
    ("Ana wants to learn Greek", ("Ana", "wants to learn", "Greek")),
    ("Ana is going to visit Oslo", ("Ana", "is going to visit", "Oslo")),
    ("Ana doesn't like fish", ("Ana", "doesn't like", "fish")),
    ("Ana has never seen snow", ("Ana", "has never seen", "snow")),
    ("Ana really likes tea", ("Ana", "likes", "tea")),
    ("Ana also plays chess", ("Ana", "plays", "chess")),
    ("The book written by Ana is a success", ("The book written by Ana", "is", "a success")),
    ("Ana is looking forward to the trip", ("Ana", "is looking forward to", "the trip")),
    ("Ana moved from Sweden", ("Ana", "moved from", "Sweden")),
    # names with marks and small words
    ("Rowan Atkinson Jr. is a citizen of Peru", ("Rowan Atkinson Jr.", "is a citizen of", "Peru")),
    ("NeXT Computer, Inc. was founded by Jobs", ("NeXT Computer, Inc.", "was founded by", "Jobs")),
    ("Burnley F.C. is associated with football", ("Burnley F.C.", "is associated with", "football")),
    ("Rob Rich, 2nd Earl of Warwick is a citizen of Kent",
     ("Rob Rich, 2nd Earl of Warwick", "is a citizen of", "Kent")),
    ("Amber Heard is married to Depp", ("Amber Heard", "is married to", "Depp")),
    ("Girl Meets World was created by Jacobs", ("Girl Meets World", "was created by", "Jacobs")),
    ("Drew Brees plays football", ("Drew Brees", "plays", "football")),
    ("Hope Solo plays football", ("Hope Solo", "plays", "football")),
    ("Rock music was created in Spain", ("Rock music", "was created in", "Spain")),
    ("It was written in Washington, D.C.", None),
    ("Ana works in Washington, D.C.", ("Ana", "works in", "Washington, D.C.")),
    ("Baldur's Gate was developed by BioWare", ("Baldur's Gate", "was developed by", "BioWare")),
    # what stands before and after the fact
    ("In 2019, Ana moved to Rome", ("Ana", "moved to", "Rome")),
    ("When she was young, Ana lived in Rome", ("Ana", "lived in", "Rome")),
    ("Also, Ana plays chess", ("Ana", "plays", "chess")),
    ("Ana lives in Rome because it is warm", ("Ana", "lives in", "Rome")),
    ("Ana lives in Rome, which is warm", ("Ana", "lives in", "Rome")),
    ("Ana lives in Rome - great!", ("Ana", "lives in", "Rome")),
]  # fmt: skip

UNSURE = [
    "",
    "Rome",
    "It is warm",
    "It's been a wild ride",
    "That is great",
    "She works for Google",
    "There are two ways",
    "Enjoy the good feels",
    "Let's join forces",
    "Try the soup at Luigi's",
    "Go to Rome",
    "Ana slept",
    "What a day",
    "Ensuring that the page loads is crucial",
    "After the long walk through the very old and very quiet part of the big town",
    "Welcome to the club",
    "- - -",
    "ana, ben, and cem went",
    "我昨天去了",
]


@pytest.mark.parametrize(("claim", "expected"), FACTS)
def test_facts(claim: str, expected: tuple[str, str, str] | None) -> None:
    assert triple(claim) == (Triple(*expected) if expected else None)


@pytest.mark.parametrize("claim", UNSURE)
def test_none_when_unsure(claim: str) -> None:
    assert triple(claim) is None


@pytest.mark.parametrize(
    ("claim", "times", "expected"),
    [
        ("Ana went to Rome yesterday", ("yesterday",), ("Ana", "went to", "Rome")),
        ("Ana moved to Rome in May 2023.", ("May 2023",), ("Ana", "moved to", "Rome")),
        ("Last Monday Ana saw a play", ("Last Monday",), ("Ana", "saw", "a play")),
        ("In 2019 Ana saw a play", ("2019",), ("Ana", "saw", "a play")),
        ("Ana likes tomorrow's plan", ("tomorrow",), ("Ana", "likes", "tomorrow's plan")),
        ("Ana went yesterday", ("yesterday",), None),
    ],
)
def test_times_are_no_part_of_the_value(
    claim: str, times: tuple[str, ...], expected: tuple[str, str, str] | None
) -> None:
    assert triple(claim, times) == (Triple(*expected) if expected else None)


SLOTS = st.sampled_from(["capital", "author", "head coach", "official language", "favourite food"])
NAMES = st.sampled_from(["France", "Ana", "New York City", "Apple Inc.", "Tang Empire", "The Sky"])


@given(NAMES, SLOTS, NAMES, NAMES)
def test_a_changed_value_keeps_holder_and_slot(holder: str, slot: str, old: str, new: str) -> None:
    before, after = triple(f"The {slot} of {holder} is {old}."), triple(f"The {slot} of {holder} is {new}.")
    assert before is not None
    assert after is not None
    assert (before.subject, before.predicate) == (after.subject, after.predicate) == (holder, f"{slot} is")
    assert (before.object, after.object) == (old, new)


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_gives_words_of_its_own_or_nothing(text: str) -> None:
    fact = triple(text)
    if fact is not None:
        assert fact.subject.strip()
        assert fact.predicate.strip()
        assert fact.object.strip()
        said = set(text.replace("'s", " ").split())
        assert set(fact.subject.split()) <= said | {fact.subject}


words = st.sampled_from(
    "Ana is the of a plays that 's to was Rome , by in never F.C. which dogs run - ;".split()
)


@given(st.lists(words, max_size=40).map(" ".join))
def test_word_salad_never_fails(text: str) -> None:
    fact = triple(text)
    assert fact is None or fact.subject

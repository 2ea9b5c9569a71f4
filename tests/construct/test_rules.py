from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.construct.rules import MAX_UNITS_PER_MESSAGE, extract
from memdb.language.clock import parse_instant
from memdb.language.phrases import MAX_PHRASES
from memdb.language.verbs import FORMS
from memdb.language.words import EMPTY
from memdb.records import Interval, Message, Triple, Unit

ANA_AND_BEN = ("Ana", "Ben")


def units(*lines: tuple[str, str], names: Sequence[str] = ANA_AND_BEN, at: str = "2023-05-08") -> list[Unit]:
    messages = [Message(speaker, content) for speaker, content in lines]
    return extract(messages, [parse_instant(at)] * len(messages), 0, names)


def ana(content: str) -> list[str]:
    return [unit.fact_text for unit in units(("Ana", content))]


CLAIMS = [
    ("I live in Rome.", ["Ana lives in Rome."]),
    ("I'm a nurse and I live in Rome.", ["Ana is a nurse", "Ana lives in Rome."]),
    ("My sister loves jazz; she plays drums.", ["Ana's sister loves jazz", "She plays drums."]),
    ("I like tea but my sister drinks coffee", ["Ana likes tea", "Ana's sister drinks coffee"]),
    ("It rained, so we stayed at home", ["It rained", "Ana and others stayed at home"]),
    ("I went to Rome and bought a hat.", ["Ana went to Rome and bought a hat."]),
    ("I bought bread and milk.", ["Ana bought bread and milk."]),
    ("Yeah, I painted that lake last year!", ["Ana painted that lake last year!"]),
    ("Thanks, Ben! I moved to Oslo.", ["Ana moved to Oslo."]),
    ("Ben, I moved to Oslo.", ["Ana moved to Oslo."]),
    ("Well, so I moved to Oslo.", ["Ana moved to Oslo."]),
    ("Went to Rome last week.", ["Ana went to Rome last week."]),
    ("Just finished my thesis!", ["Ana just finished Ana's thesis!"]),
    ("Been learning the piano.", ["Ana has been learning the piano."]),
    ("Gonna visit the zoo.", ["Ana is going to visit the zoo."]),
    ("Still working on my thesis.", ["Ana is still working on Ana's thesis."]),
    ("Can't wait for the concert!", ["Ana can't wait for the concert!"]),
    ("Drew Brees plays football.", ["Drew Brees plays football."]),
    ("Inspired by Monet, the picture glows.", ["Inspired by Monet, the picture glows."]),
    ("You paint well.", ["Ben paints well."]),
    ("The capital of France is Paris.", ["The capital of France is Paris."]),
    ("I paint landscapes, do you paint too?", ["Ana paints landscapes"]),
    ("I paint landscapes. Do you paint too?", ["Ana paints landscapes."]),
    ("I'm 24.", ["Ana is 24."]),
    ("Drive My Car was performed by The Beatles.", ["Drive My Car was performed by The Beatles."]),
    ("**Budget**: I spend `300` euro", ["Budget: I spend 300 euro".replace("I spend", "Ana spends")]),
    ("- milk from the farm\n- bread from the mill", ["Milk from the farm", "Bread from the mill"]),
    ("I wrote this:\n```\nx = my_secret\n```\nIt sorts numbers.", ["Ana wrote this", "It sorts numbers."]),
]

NOTHING = [
    "",
    " ",
    "Hi!",
    "Hello there!",
    "Hey Ben!",
    "Hey Ben, good to see you!",
    "Good morning, how are you?",
    "Good evening!",
    "Good night, Cem.",
    "Hi Cem",
    "You're welcome, Cem!",
    "See you later, Cem",
    "Hi, nice to meet you",
    "Long time no see!",
    "How have you been?",
    "What's up",
    "what do you think",
    "Do you like jazz?",
    "Thanks!",
    "Thank you so much, Ben!",
    "thx",
    "You're welcome!",
    "Wow, that's cool!",
    "That's so awesome, Ben!",
    "Sounds great!",
    "That sounds like fun!",
    "Haha, yes!",
    "Ok.",
    "Sure, no problem",
    "Congrats!",
    "Take care!",
    "Talk to you soon!",
    "See you tomorrow!",
    "Bye!",
    "Glad to hear that you are well!",
    "Sorry to hear about the flood",
    "Have a great day!",
    "Let me know how it goes",
    "Woohoo!",
    "I know",
    "I think so too",
    "...",
    "???",
    "👍👍",
    "->-> 1,2",
    "12",
]

VAGUE = ["I ran recently.", "I ran lately in the park", "I ran for two hours", "I ran a few days ago"]


@pytest.mark.parametrize(("content", "expected"), CLAIMS)
def test_claims(content: str, expected: list[str]) -> None:
    assert ana(content) == expected


@pytest.mark.parametrize("content", NOTHING)
def test_greetings_thanks_praise_and_questions_claim_nothing(content: str) -> None:
    assert ana(content) == []


def test_five_greetings_are_no_units() -> None:
    lines = [("Ana", "Hi!"), ("Ben", "Hello Ana!"), ("Ana", "Good morning!"), ("Ben", "Hey, how are you?"),
             ("Ana", "Nice to see you, Ben!")]  # fmt: skip
    assert units(*lines) == []


@pytest.mark.parametrize("content", VAGUE)
def test_vague_times_are_no_times(content: str) -> None:
    assert [unit.fact_time for unit in units(("Ana", content))] == [()]


def test_a_unit_carries_its_indexes() -> None:
    said = "Last Saturday I ran a charity race for mental health with my sister in Berlin."
    (unit,) = units(("Ana", said))
    assert unit.triple == Triple("Ana", "ran", "a charity race for mental health with Ana's sister in Berlin")
    assert unit.entities == ("Ana", "Berlin", "charity race", "mental health", "sister")
    assert unit.locations == ("Berlin",)
    assert unit.fact_time == (Interval(dt.date(2023, 5, 6), dt.date(2023, 5, 6), "day"),)
    assert (unit.first, unit.last) == (0, 0)


def test_times_belong_to_the_half_that_says_them() -> None:
    first, second = units(("Ana", "I saw Cem yesterday and I will see him tomorrow."))
    assert [time.start.day for time in first.fact_time] == [7]
    assert [time.start.day for time in second.fact_time] == [9]


def test_no_clock_and_serial_numbers_leave_full_dates() -> None:
    message = Message("Ana", "I went to Rome yesterday, not on 7 May 2023.")
    for instant in (None, parse_instant("serial-3")):
        (unit,) = extract([message], [instant], 0, ANA_AND_BEN)
        assert [time.start for time in unit.fact_time] == [dt.date(2023, 5, 7)]


# --- replies


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("Where do you live?", "Rome.", "Asked «Where do you live?», Ana said: Rome."),
        ("Hey! Which instrument?", "The piano", "Asked «Which instrument?», Ana said: The piano"),
        ("Do you like jazz?", "Yes, a lot!", "Asked «Do you like jazz?», Ana said: Yes, a lot!"),
        ("Do you smoke?", "No.", "Asked «Do you smoke?», Ana said: No."),
    ],
)
def test_a_short_reply_brings_its_question(question: str, reply: str, expected: str) -> None:
    (unit,) = units(("Ben", question), ("Ana", reply))
    assert unit.fact_text == expected
    assert (unit.first, unit.last) == (0, 1)
    assert "Ana" in unit.entities


def test_a_reply_knows_the_places_of_both() -> None:
    (unit,) = units(("Ben", "Who did you meet in Oslo?"), ("Ana", "Cem."))
    assert "Oslo" in unit.locations
    assert "Cem" in unit.entities


@pytest.mark.parametrize(
    "lines",
    [
        [("Ben", "How are you?"), ("Ana", "Fine, thanks!")],
        [("Ben", "Do you like jazz?"), ("Ana", "Haha!")],
        [("Ben", "I like jazz."), ("Ana", "Yes!")],
        [("Ana", "Do you like jazz?"), ("Ana", "Yes!")],
    ],
)
def test_no_reply_without_a_question_that_asks_something(lines: list[tuple[str, str]]) -> None:
    assert [unit for unit in units(*lines) if unit.last == 1] == []


def test_a_full_answer_needs_no_question() -> None:
    unit = units(("Ben", "Where do you live?"), ("Ana", "I live in Rome."))[-1]
    assert (unit.fact_text, unit.first, unit.last) == ("Ana lives in Rome.", 1, 1)


# --- a new value for an old slot


@pytest.mark.parametrize(
    "update", ["Now it is Messi.", "now it's Messi", "It's Messi now.", "But now it is Messi!"]
)
def test_a_new_value_is_said_of_the_old_slot(update: str) -> None:
    before, after = units(("Ana", "My favourite player is Ronaldo."), ("Ben", "Ok!"), ("Ana", update))
    assert before.triple == Triple("Ana", "favourite player is", "Ronaldo")
    assert after.triple == Triple("Ana", "favourite player is", "Messi")
    assert after.fact_text == "Ana's favourite player is now Messi."
    assert (after.first, after.last) == (0, 2)


def test_a_new_value_in_the_same_breath() -> None:
    before, after = units(("Ana", "My favourite player is Ronaldo, but now it's Messi."))
    assert before.triple is not None
    assert after.triple is not None
    assert before.triple.predicate == after.triple.predicate
    assert (before.triple.object, after.triple.object) == ("Ronaldo", "Messi")


def test_somebody_elses_slot_is_not_changed() -> None:
    after = units(("Ben", "My favourite player is Ronaldo."), ("Ana", "Now it is Messi."))[-1]
    assert after.triple is None


# --- who is who


def test_between_three_you_stays() -> None:
    (unit,) = units(("Ana", "You live in Rome."), names=("Ana", "Ben", "Cem"))
    assert unit.fact_text == "You live in Rome."


def test_user_and_assistant() -> None:
    said = [
        Message("user", "I live in Rome with your help.", role="user"),
        Message("assistant", "You could visit the Pantheon in Rome.", role="assistant"),
    ]
    found = extract(said, [None, None], 0, ("user", "assistant"))
    assert [unit.fact_text for unit in found] == [
        "The user lives in Rome with the assistant's help.",
        "The user could visit the Pantheon in Rome.",
    ]
    assert found[0].entities[0] == "user"


def test_the_speaker_is_an_entity_only_of_what_is_about_them() -> None:
    about_ana, about_paris = units(("Ana", "I live in Rome. The capital of France is Paris."))
    assert "Ana" in about_ana.entities
    assert "Ana" not in about_paris.entities


# --- images, other languages, long answers


def test_an_image_is_a_unit() -> None:
    message = Message("Ana", "Look!", image_caption="a photo of a dog in a park")
    (unit,) = extract([message], [None], 0, ANA_AND_BEN)
    assert unit.fact_text == "Ana shared an image: a photo of a dog in a park"
    assert unit.entities == ("Ana", "dog", "park")
    assert unit.locations == ("park",)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("我昨天去了海底捞。你呢？很好吃！", ["Ana: 我昨天去了海底捞。", "Ana: 很好吃！"]),
        ("Ich wohne mit meiner Frau in Köln.", ["Ana: Ich wohne mit meiner Frau in Köln."]),
        ("Ich wohne in Berlin und arbeite viel.", ["Ana: Ich wohne in Berlin und arbeite viel."]),
        ("Vivo en Madrid con mi familia.", ["Ana: Vivo en Madrid con mi familia."]),
        ("J'habite à Paris avec ma soeur.", ["Ana: J'habite à Paris avec ma soeur."]),
        ("Я живу в Москве.", ["Ana: Я живу в Москве."]),
        ("好", []),
        ("嗯。", []),
    ],
)
def test_other_languages_stay_as_said(content: str, expected: list[str]) -> None:
    found = units(("Ana", content))
    assert [unit.fact_text for unit in found] == expected
    assert all(unit.triple is None and unit.entities[0] == "Ana" for unit in found)


def test_names_with_accents_are_still_english() -> None:
    assert ana("I had lunch at a café in München.") == ["Ana had lunch at a café in München."]


def test_a_message_gives_a_bounded_number_of_units() -> None:
    content = "\n".join(f"- item {number} has colour blue" for number in range(1000))
    assert len(units(("Ana", content))) == MAX_UNITS_PER_MESSAGE


def test_labels_are_bounded_and_distinct() -> None:
    content = "I saw " + ", ".join(f"Mr. Name{chr(97 + n)} and the thing{n}x" for n in range(26)) + "."
    (unit,) = units(("Ana", content))
    assert len(unit.entities) == MAX_PHRASES
    assert len({name.casefold() for name in unit.entities}) == MAX_PHRASES


# --- the contract


def test_only_new_messages_give_units() -> None:
    said = [Message("Ben", "I live in Oslo. Where do you live?"), Message("Ana", "Rome.")]
    everything = extract(said, [None, None], 0, ANA_AND_BEN)
    assert extract(said, [None, None], 1, ANA_AND_BEN) == [unit for unit in everything if unit.last == 1]
    assert extract(said, [None, None], 2, ANA_AND_BEN) == []


def test_nothing_said() -> None:
    assert extract([], [], 0, ()) == []


RESOLUTION = set(
    "is are am has have does do was were will would had and others themselves the user assistant s asked "
    "said shared an image now going to not".split()
)
THEMES = st.sampled_from(
    [
        "I went to Rome yesterday.", "My sister loves jazz.", "Where do you live?", "In Oslo.",
        "We're hiking!",
        "You've got a dog", "now it is Messi", "My favourite player is Ronaldo", "Thanks, Ben!", "Yes.",
        "I study law and my friend teaches Greek", "Went home.",
        "- a list\n- of things", "It rained; I slept",
        'He said "I quit".', "I'm 24", "我去了", "Been to Spain", "The capital of France is Paris.",
        "I'd seen it before, but you hadn't.", "Gonna run", "She has 3 cats, do you?",
        "**bold** claim about bees",
    ]
)  # fmt: skip
CONVERSATIONS = st.lists(
    st.tuples(st.sampled_from(["Ana", "Ben", "user"]), st.lists(THEMES, max_size=3).map(" ".join)), max_size=8
)


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def stems(words: set[str]) -> set[str]:
    """A third person counts as the form it comes from."""
    return words | {word[:-1] for word in words} | {re.sub("ies$", "y", word) for word in words} | {
        word[:-2] for word in words if word.endswith("es")
    }  # fmt: skip


@given(CONVERSATIONS)
def test_what_a_unit_says_stands_in_its_messages(lines: list[tuple[str, str]]) -> None:
    messages = [Message(speaker, content) for speaker, content in lines]
    names = tuple(dict.fromkeys(speaker for speaker, _ in lines))
    for unit in extract(messages, [None] * len(messages), 0, names):
        cited = " ".join(message.content for message in messages[unit.first : unit.last + 1])
        allowed = content_words(cited) | content_words(" ".join(names)) | RESOLUTION
        for word in content_words(unit.fact_text) - allowed:
            assert word in FORMS
            assert stems({word}) & allowed, (unit.fact_text, word)


@given(CONVERSATIONS)
def test_spans_and_indexes_are_sound(lines: list[tuple[str, str]]) -> None:
    messages = [Message(speaker, content, image_caption="a dog" if len(content) > 30 else None)
                for speaker, content in lines]  # fmt: skip
    found = extract(messages, [parse_instant("2023-05-08")] * len(messages), 0, ANA_AND_BEN)
    assert [unit.last for unit in found] == sorted(unit.last for unit in found)
    for unit in found:
        assert 0 <= unit.first <= unit.last < len(messages)
        assert unit.fact_text.strip()
        for labels in (unit.entities, unit.locations):
            assert len(labels) <= MAX_PHRASES
            assert len({label.casefold() for label in labels}) == len(labels)
            assert all(label == label.strip() != "" for label in labels)
        assert all(time.start <= time.end for time in unit.fact_time)


@given(CONVERSATIONS, st.integers(0, 8))
def test_a_unit_does_not_depend_on_what_is_said_later(lines: list[tuple[str, str]], cut: int) -> None:
    messages = [Message(speaker, content) for speaker, content in lines]
    whole = extract(messages, [None] * len(messages), 0, ANA_AND_BEN)
    part = extract(messages[:cut], [None] * len(messages[:cut]), 0, ANA_AND_BEN)
    assert part == [unit for unit in whole if unit.last < cut]


ANY_TEXT = st.text(alphabet=st.characters(codec=None))


@given(
    st.lists(st.tuples(ANY_TEXT, ANY_TEXT, st.none() | ANY_TEXT), max_size=4), st.lists(ANY_TEXT, max_size=3)
)
def test_any_text_gives_sound_units(lines: list[tuple[str, str, str | None]], names: list[str]) -> None:
    messages = [Message(speaker, content, image_caption=caption) for speaker, content, caption in lines]
    for unit in extract(messages, [None] * len(messages), 0, names):
        assert 0 <= unit.first <= unit.last < len(messages)
        assert unit.fact_text


def test_empty_words_are_lower_case() -> None:
    assert all(word == word.lower() for word in EMPTY)

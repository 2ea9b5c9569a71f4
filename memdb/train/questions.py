"""Questions made from the claims of any conversation, for talks that come with none.

A claim of a speaker, (Ana; adopted; a grey cat from the shelter), becomes "When did Ana adopt a grey cat?"
where its time is known, "Where did …" where its place is, else "Did Ana adopt …?", "Who adopted …?" and the
like. Words are left out or replaced by words of like meaning, so that the question is not found by its words
alone. The negatives are what the retrieval finds beside it: the same topic from the other speaker or from
another day.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from memdb.construct.rules import extract
from memdb.language.clock import parse_instant
from memdb.language.terms import STOP_WORDS
from memdb.language.verbs import BASE_OF, BASES, past, third_person
from memdb.language.words import word_set
from memdb.records import Unit
from memdb.train.talks import Kind, Question, Sitting, Talk

LEAST_WORDS: Final = 2  # of content, in what a claim says of its subject
MOST_WORDS: Final = 9  # of what it says, all counted
KEPT: Final = 0.75  # share of the words of an object that a question keeps
SWAPPED: Final = 0.5  # share of the words that have a like one which are replaced by it

_ALIKE: Final = """
buy purchase get; house home place; job work position; kid child; kids children; start begin; finish
complete; big large huge; small little tiny; like enjoy love; talk speak chat; trip journey; movie
film; photo picture; friend buddy; doctor physician; dinner supper meal; car vehicle; scared afraid;
happy glad; sad unhappy; tired exhausted; fix repair; make create prepare; meet encounter; visit
see; quit leave; shop store; help support; mom mother; dad father; boss manager; wedding marriage;
flat apartment; holiday vacation; gift present; walk stroll; nervous anxious; plan intend; idea
plan; class course lesson; money cash; pick choose; sick ill; old ancient; street road; try attempt;
need require; keep continue; whole entire; nice lovely pleasant; hard difficult; easy simple;
meeting appointment
"""
ALIKE: Final = {
    word: tuple(other for other in group.split() if other != word)
    for group in _ALIKE.split(";")
    for word in group.split()
}
_THIRDS: Final = {
    third_person(base): base for base in sorted(BASES) if base not in ("be", "have", "do", "am", "are")
}
_REGULAR_PASTS: Final = {past(base): base for base in sorted(BASES)}
_VAGUE: Final = word_set(
    "it that this these those things something anything everything one them him her there"
)


def with_questions(talk: Talk, count: int, seed: int) -> Talk:
    """The talk with `count` made questions, or as many as its claims give."""
    draw = random.Random(f"{seed}:{talk.name}")
    made = list(_questions(talk, draw))
    draw.shuffle(made)
    return msgspec.structs.replace(talk, questions=tuple(made[:count]))


def _questions(talk: Talk, draw: random.Random) -> Iterator[Question]:
    speakers = list(dict.fromkeys(message.speaker for message in talk.messages))
    for sitting in talk.sittings:
        for unit, id in _claims(sitting, speakers):
            text = question(unit, speakers, draw)
            if text is not None:
                kind: Kind = "time" if text.startswith("When") else "single"
                yield Question(text, kind, (id,))


def _claims(sitting: Sitting, speakers: Sequence[str]) -> Iterator[tuple[Unit, str]]:
    instants = [parse_instant(one.said_at) if one.said_at else None for one in sitting.messages]
    for unit in extract(sitting.messages, instants, 0, speakers):
        yield unit, str(sitting.messages[unit.last].id)


def question(unit: Unit, speakers: Sequence[str], draw: random.Random) -> str | None:
    """A question that the claim answers; None for a claim that says too little, or is not of a speaker."""
    triple = unit.triple
    if triple is None or triple.subject not in speakers:
        return None
    verb, _, more = triple.predicate.partition(" ")
    base, auxiliary = _base(verb)
    words = [*more.split(), *triple.object.split()]
    content = [word for word in words if word.lower() not in STOP_WORDS]
    if base is None or len(content) < LEAST_WORDS or len(words) > MOST_WORDS:
        return None
    if any(word.lower() in _VAGUE or word in speakers for word in words):
        return None
    told = " ".join(_paraphrased(words, draw))
    base = draw.choice(ALIKE[base]) if base in ALIKE and draw.random() < SWAPPED else base
    if unit.fact_time and draw.random() < 0.7:
        return f"When {auxiliary} {triple.subject} {base} {told}?"
    if unit.locations and draw.random() < 0.7:
        place = set(" ".join(unit.locations).lower().split())
        rest = " ".join(word for word in told.split() if word.lower().strip(".,") not in place)
        return f"Where {auxiliary} {triple.subject} {base} {rest}?"
    return draw.choice(
        (
            f"Did {triple.subject} {base} {told}?"
            if auxiliary == "did"
            else f"Does {triple.subject} {base} {told}?",
            f"What does {triple.subject} say about {' '.join(content[-2:])}?",
            f"Why {auxiliary} {triple.subject} {base} {told}?",
            f"Who {third_person(base)} {told}?" if auxiliary == "does" else f"Who {verb} {told}?",
        )
    )


def _base(verb: str) -> tuple[str | None, str]:
    """The base form of a finite verb and the auxiliary that asks for it; None for what is no such verb."""
    lower = verb.lower()
    if lower in _REGULAR_PASTS:
        return _REGULAR_PASTS[lower], "did"
    if lower in _THIRDS:
        return _THIRDS[lower], "does"
    if lower in BASE_OF and BASE_OF[lower] not in ("be", "have", "do"):
        return BASE_OF[lower], "did"
    return None, ""


def _paraphrased(words: Sequence[str], draw: random.Random) -> list[str]:
    kept = [word for word in words if word.lower() in STOP_WORDS or draw.random() < KEPT] or list(words)
    return [
        draw.choice(ALIKE[word.lower()]) if word.lower() in ALIKE and draw.random() < SWAPPED else word
        for word in kept
    ]

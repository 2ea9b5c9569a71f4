"""A made-up world for a small distiller: people tell of where they live, what they eat, their work and pets.

A question asks for one thing of one person. Its history has six messages: the one that tells, the same person
on other things, and other people on the same thing. In a share of the worlds nobody tells. All of it is in
the first person and dated, so that what is distilled has to be worded anew (B9.4 of the specification).

    python -m memdb.train.distill_world --count 48 --seed training --out FILE [--held-out | --families]
        [--unanswerable SHARE]
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Final, NamedTuple

from memdb.records import History, Message, Query, Segment, Utterance
from memdb.train.instances import Instance, write

MESSAGES: Final = 6  # [B9.4]
UNANSWERABLE: Final = 0.15  # share of questions [B9.4]
HELD_OUT_SHARE: Final = 5  # one in so many pairs of a person and a value is never asked for in training
FIRST_DAY: Final = dt.date(2024, 1, 8)
DAYS: Final = 300
LATER: Final = 40  # most days from one conversation to the next

PEOPLE: Final = "Ana Ben Carla David Emma Felix Grace Hugo".split()


class Attribute(NamedTuple):
    """A thing that people tell of themselves: its values, how they say it, how one asks for it."""

    values: tuple[str, ...]
    said: tuple[str, ...]
    asked: tuple[str, ...]


ATTRIBUTES: Final = {
    "city": Attribute(
        ("Rome", "Oslo", "Lima", "Cairo", "Paris", "Berlin", "Madrid", "Dublin"),
        (
            "I moved to {} last May.",
            "I have lived in {} since 2019.",
            "I bought a flat in {} two weeks ago.",
        ),
        ("Where does {} live?", "In which city does {} live?"),
    ),
    "pet": Attribute(
        ("cat", "dog", "parrot", "rabbit", "hamster", "turtle", "goat", "pony"),
        ("I adopted a {} yesterday.", "My {} turned three last week.", "I have kept a {} since March."),
        ("What pet does {} have?", "Which animal does {} keep?"),
    ),
    "job": Attribute(
        ("baker", "nurse", "pilot", "teacher", "lawyer", "farmer", "dentist", "plumber"),
        (
            "I started to work as a {} in April.",
            "I have worked as a {} for two years.",
            "I became a {} last summer.",
        ),
        ("What is {}'s job?", "What does {} work as?"),
    ),
    "food": Attribute(
        ("pizza", "sushi", "curry", "pasta", "soup", "rice", "salad", "cheese"),
        (
            "My favourite food has been {} since I was ten.",
            "I ate {} every day last week.",
            "I love {} and cooked it again yesterday.",
        ),
        ("Which food does {} like?", "What does {} like to eat?"),
    ),
}


class Told(NamedTuple):
    """Somebody telling something of themselves."""

    person: str
    attribute: str
    value: str
    text: str


class World(NamedTuple):
    """A history, and what its messages tell, in their order."""

    told: tuple[Told, ...]
    segments: tuple[Segment, ...]

    def instance(self, asked: Told, case: str, draw: random.Random) -> Instance:
        """The world asked, some days later, for what somebody tells, or would have told."""
        question = draw.choice(ATTRIBUTES[asked.attribute].asked).format(asked.person)
        last = dt.date.fromisoformat(str(self.segments[-1].utterances[-1].message.said_at))
        return Instance(
            case=case,
            history=History(query=Query(text=question), segments=self.segments),
            question_time=(last + dt.timedelta(days=draw.randint(1, 20))).isoformat(),
            gold=(f"m{self.told.index(asked) + 1}",) if asked in self.told else (),
            answer=asked.value if asked in self.told else "",
        )


def worlds(seed: str, *, held_out: bool = False, unanswerable: float = UNANSWERABLE) -> Iterator[Instance]:
    """Instances without end, the same for the same seed, a share of them unanswerable. With `held_out`, those
    that ask for a pair of a person and a value that is never asked for in training; without, all others.
    """
    draw, number = random.Random(seed), 0
    while True:
        asked = _told(draw, draw.choice(PEOPLE), draw.choice(sorted(ATTRIBUTES)))
        made = _world(draw, asked, unanswerable).instance(asked, f"{seed}:{number}", draw)
        if is_held_out(asked.person, asked.value) == held_out:
            number += 1
            yield made


def families(seed: str) -> Iterator[tuple[Instance, ...]]:
    """Instances to train on without end, those of one history together: it is asked for what each message
    tells, unless that is held out, and for one thing that nobody tells.
    """
    draw = random.Random(seed)
    for number in count():
        asked_for = _told(draw, draw.choice(PEOPLE), draw.choice(sorted(ATTRIBUTES)))
        world = _world(draw, asked_for, UNANSWERABLE)
        known = {(one.person, one.attribute) for one in world.told}
        speakers = sorted({one.person for one in world.told})
        unknown = [(name, thing) for name in speakers for thing in ATTRIBUTES if (name, thing) not in known]
        asked = [one for one in world.told if not is_held_out(one.person, one.value)]
        asked.append(_told(draw, *draw.choice(unknown)))
        yield tuple(world.instance(one, f"{seed}:{number}", draw) for one in asked)


def is_held_out(person: str, value: str) -> bool:
    """Whether training never asks for this value of this person."""
    return sum(map(ord, person + value)) % HELD_OUT_SHARE == 0


def _world(draw: random.Random, asked: Told, unanswerable: float) -> World:
    answerable = draw.random() >= unanswerable
    told = _others(draw, asked, MESSAGES - answerable)
    if answerable:
        told.append(asked)
    draw.shuffle(told)
    return World(tuple(told), _segments(draw, told))


def _others(draw: random.Random, asked: Told, count: int) -> list[Told]:
    """Two messages of the same person on other things, two of others on the same thing, the rest of others on
    anything; nobody tells of one thing twice, and nobody tells of what is asked for.
    """
    same = [asked.person]
    others = [name for name in PEOPLE if name != asked.person]
    draw.shuffle(others)
    things = [name for name in sorted(ATTRIBUTES) if name != asked.attribute]
    draw.shuffle(things)
    pairs = [(same[0], thing) for thing in things[:2]] + [(name, asked.attribute) for name in others[:2]]
    pairs += [(name, draw.choice(sorted(ATTRIBUTES))) for name in others[2:]]
    return [_told(draw, *pair) for pair in pairs[:count]]


def _told(draw: random.Random, person: str, attribute: str) -> Told:
    kind = ATTRIBUTES[attribute]
    value = draw.choice(kind.values)
    return Told(person, attribute, value, draw.choice(kind.said).format(value))


def _segments(draw: random.Random, told: Sequence[Told]) -> tuple[Segment, ...]:
    """One conversation, or two on different days."""
    first = FIRST_DAY + dt.timedelta(days=draw.randrange(DAYS))
    days = [first, first + dt.timedelta(days=draw.randint(1, LATER))]
    cut = draw.choice([len(told), draw.randint(2, len(told) - 2)])
    return tuple(
        Segment(
            utterances=tuple(
                Utterance(
                    message=Message(one.person, one.text, day.isoformat(), id=f"{name}:{place}"),
                    session=name,
                    position=place,
                    rank=start + place + 1,
                )
                for place, one in enumerate(some)
            )
        )
        for name, day, start, some in zip(("s1", "s2"), days, (0, cut), (told[:cut], told[cut:]), strict=True)
        if some
    )


def main() -> None:
    """Read the command line, write instances."""
    parser = argparse.ArgumentParser(description="Make worlds to train a small distiller on.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", default="training")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--held-out", action="store_true", help="pairs that training never asks for")
    which.add_argument("--families", action="store_true", help="ask each history for all that it tells")
    share = "of questions that nobody answers; families have their own"
    parser.add_argument("--unanswerable", type=float, default=UNANSWERABLE, metavar="SHARE", help=share)
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    args = parser.parse_args()
    every = chain.from_iterable(families(args.seed))
    single = worlds(args.seed, held_out=args.held_out, unanswerable=args.unanswerable)
    made = every if args.families else single
    write(islice(made, args.count), args.out)


if __name__ == "__main__":
    main()

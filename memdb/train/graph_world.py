"""Small made-up worlds for the graph token: graphs whose answer the text does not hold.

A question has one right answer among four, which it names itself. The text shows only the names of the
relations, so that what is right can be read from the graph alone; in a share of the worlds it tells the facts
themselves, so that a token learns to stand beside a text. In another share other answers stand in the graph
too, with other people or by other relations; in the rest the right one is the only one.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from memdb.activate.working_memory import CLOSING, OPENING
from memdb.generate.local_graph import local_graph
from memdb.records import Triple
from memdb.train.graph_examples import Example, target, write
from memdb.train.names import FIRST_NAMES

LEAST_FACTS: Final = 3
MOST_FACTS: Final = 10
OPTIONS: Final = 4
REASON: Final = "graph"  # the same everywhere: a reason that tells the path is most of what there is to learn
CONTESTED: Final = 0.25  # share of worlds with other values of the answer's kind
TOLD: Final = 0.25  # share of worlds whose text tells the facts
TRAINED_WORDINGS: Final = 2  # the first of each question; the rest are for the test alone
HELD_OUT_SHARE: Final = 5  # one in so many pairs of a person and an answer is never asked in training

PEOPLE: Final = FIRST_NAMES[::6]
VALUES: Final = {
    "city": "Oslo Rome Lima Cairo".split(),
    "company": "Orbit Falcon Summit Harvest Beacon Atlas".split(),
    "job": "baker nurse pilot teacher lawyer farmer".split(),
    "instrument": "piano violin guitar flute drums trumpet".split(),
    "pet": "cat dog parrot rabbit hamster turtle".split(),
}


class Asked(NamedTuple):
    """A question: the relations that lead from the person to the answer, and its wordings."""

    path: tuple[str, ...]
    wordings: tuple[str, ...]


KINDS: Final = {  # of what a relation leads to
    "lives in": "city",
    "was born in": "city",
    "works at": "company",
    "is in": "city",
    "works as a": "job",
    "plays the": "instrument",
    "has a": "pet",
    "has the sister": "person",
}
ASKED: Final = (
    Asked(
        ("lives in",),
        ("Where does {} live?", "In which city is {}'s home?", "{} has a flat in which town?"),
    ),
    Asked(
        ("works at", "is in"),
        ("Where is {}'s company?", "In which city does {} work?", "To which town does {} go to work?"),
    ),
    Asked(
        ("has the sister", "lives in"),
        (
            "Where does {}'s sister live?",
            "In which city is {}'s sister?",
            "Where is {}'s sister at home?",
        ),
    ),
)


class World(NamedTuple):
    """An example that asks over `hops` relations: `contested` where something else is in a city too, `told`
    where the text holds the answer.
    """

    example: Example
    person: str
    answer: str
    options: tuple[str, ...]
    hops: int
    contested: bool
    told: bool


def worlds(
    seed: str, *, held_out: bool, wordings: Sequence[int] = range(TRAINED_WORDINGS)
) -> Iterator[World]:
    """Worlds without end, the same for the same seed. With `held_out`, those whose person and answer are a
    pair that is never asked in training; without, all others. Each is worded by one of `wordings`.
    """
    draw = random.Random(seed)
    number = 0
    while True:
        made = _world(draw, wordings, f"{seed}:{number}")
        if made is not None and made[1] == held_out:
            number += 1
            yield made[0]


def _world(draw: random.Random, wordings: Sequence[int], case: str) -> tuple[World, bool] | None:
    asked = draw.choice(ASKED)
    person, *others = draw.sample(PEOPLE, 4)
    facts, at = list[Triple](), person
    for relation in asked.path:
        value = others.pop() if KINDS[relation] == "person" else draw.choice(VALUES[KINDS[relation]])
        facts.append(Triple(at, relation, value))
        at = value
    answer = facts[-1].object
    contested = draw.random() < CONTESTED
    facts += _others(draw, facts, (person, *others), contested)
    graph = local_graph(facts)
    kind = KINDS[asked.path[-1]]
    rivals = {fact.object for fact in facts if KINDS[fact.predicate] == kind} - {answer}
    chosen = sorted(rivals)[: OPTIONS - 1]
    fill = [value for value in VALUES[kind] if value not in {answer, *rivals}]
    options = [answer, *chosen, *draw.sample(fill, OPTIONS - 1 - len(chosen))]
    draw.shuffle(options)
    draw.shuffle(facts)
    told = draw.random() < TOLD
    shown = list(
        dict.fromkeys(
            "; ".join((fact.subject, fact.predicate, fact.object)) if told else fact.predicate
            for fact in facts
        )
    )
    wording = asked.wordings[draw.choice(wordings)].format(person)
    example = Example(
        case=case,
        question=f"{wording} {', '.join(options[:-1])} or {options[-1]}?",
        memory="\n".join([OPENING, "Facts:", *(f"F{n}: {line}" for n, line in enumerate(shown, 1)), CLOSING]),
        graph=graph,
        target=target(REASON, answer),
    )
    held = sum(map(ord, person + answer)) % HELD_OUT_SHARE == 0
    return World(example, person, answer, tuple(options), len(asked.path), contested, told), held


def _others(
    draw: random.Random, facts: list[Triple], people: tuple[str, ...], contested: bool
) -> list[Triple]:
    """Facts beside those of the path: of the same person, and of others; no relation of a thing twice.

    Only where it is contested are values of the answer's kind among them.
    """
    answer, kind = facts[-1].object, KINDS[facts[-1].predicate]
    free = [
        (holder, relation)
        for holder in people
        for relation, leads_to in KINDS.items()
        if leads_to not in ("person", kind) and all(one[:2] != (holder, relation) for one in _parts(facts))
    ]
    draw.shuffle(free)
    free.sort(key=lambda pair: pair[0] != people[0] and draw.random() < 0.5)
    rivals = [
        (holder, relation)
        for holder in people
        for relation, leads_to in KINDS.items()
        if leads_to == kind
        and relation != "is in"
        and (holder, relation, answer) not in _parts(facts)
        and holder not in (one[2] for one in _parts(facts))
    ]
    some = draw.sample(rivals, draw.randint(1, 2)) if contested else []
    wanted = max(0, draw.randint(LEAST_FACTS, MOST_FACTS) - len(facts) - len(some))
    return [
        Triple(holder, relation, _other_value(draw, KINDS[relation], answer))
        for holder, relation in [*some, *free[:wanted]]
    ]


def _parts(facts: list[Triple]) -> list[tuple[str, str, str]]:
    return [(fact.subject, fact.predicate, fact.object) for fact in facts]


def _other_value(draw: random.Random, kind: str, than: str) -> str:
    return draw.choice([value for value in VALUES[kind] if value != than])


def main() -> None:
    """Read the command line, write examples for `memdb.train.graph_token`."""
    parser = argparse.ArgumentParser(description="Make worlds whose answers stand in the graph alone.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", default="training")
    parser.add_argument("--held-out", action="store_true", help="pairs that training never asks for")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    args = parser.parse_args()
    made = islice(worlds(args.seed, held_out=args.held_out), args.count)
    write((world.example for world in made), args.out)


if __name__ == "__main__":
    main()

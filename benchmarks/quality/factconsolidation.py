"""FactConsolidation (Hu et al. 2025, MemoryAgentBench): numbered facts that contradict each other, and
questions about what holds.

Read as published: records with `context` (a numbered list, a larger number being newer), `questions`,
`answers` and `metadata.source`, `factconsolidation_{sh,mh}_{size}`. The data names no gold facts, so they are
derived from its sentence forms and its answers:

* single-hop (sh): the newest fact of a slot of which the question names the holder and whose newest value is
  the answer. Older facts of this slot with another value are stale.
* multi-hop (mh): the chain of newest facts that leads from a holder the question names to the answer.

Where the newest facts do not lead to the answer, there is no gold: such questions are counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

import memdb
from memdb.importers.numbered import numbered_facts

from .data import Conversation, Question, Session
from .errors import DataMalformed

PATTERN: Final = "factconsolidation*.json"
SINGLE_HOP: Final = 1
MULTI_HOP: Final = 2
SIZES: Final = (6, 32, 64, 262)
KINDS: Final = {"sh": SINGLE_HOP, "mh": MULTI_HOP}
CATEGORIES: Final = {10 * size + kind: f"{name} {size}k" for size in SIZES for name, kind in KINDS.items()}
MAX_HOPS: Final = 4

_SOURCE = re.compile(r"factconsolidation_(sh|mh)_(\d+)k")
_OF = (
    "author|capital|chairperson|chief executive officer|director|head coach|official language"
    "|original language|origianl broadcaster"
)
_SAYS = (
    "is a citizen of|is affiliated with the religion of|is married to|is famous for|is employed by"
    "|is associated with the sport of|is located in the continent of|plays the position of"
    "|was created in the country of|was created by|was founded in the city of|was founded by"
    "|was performed by|was developed by|was born in the city of|was written in the language of"
    "|died in the city of|worked in the city of|works in the field of|speaks the language of"
)
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"The name of the (?P<slot>current head) of the (?P<holder>.+?) government is (?P<value>.+)",
        r"The name of the (?P<slot>current head of state) in (?P<holder>.+?) is (?P<value>.+)",
        r"The (?P<slot>univeristy) where (?P<holder>.+?) was educated is (?P<value>.+)",
        r"The (?P<slot>type of music) that (?P<holder>.+?) plays is (?P<value>.+)",
        r"The (?P<slot>company that produced) (?P<holder>.+?) is (?P<value>.+)",
        r"The (?P<slot>headquarters) of (?P<holder>.+?) is located in the city of (?P<value>.+)",
        rf"The (?P<slot>{_OF}) of (?P<holder>.+?) is (?P<value>.+)",
        r"(?P<holder>.+?)'s (?P<slot>child) is (?P<value>.+)",
        rf"(?P<holder>.+?) (?P<slot>{_SAYS}) (?P<value>.+)",
        r"(?P<holder>.+?) (?P<slot>is) (?P<value>.+)",
    )
)
_WORD = re.compile(r"\w+")


class _Metadata(msgspec.Struct):
    source: str


class _Record(msgspec.Struct):
    context: str
    questions: list[str]
    answers: list[list[str]]
    metadata: _Metadata


class Fact(NamedTuple):
    """One numbered fact, names folded: `id` is that of its message."""

    id: str
    holder: str
    slot: str
    value: str


Slots: TypeAlias = dict[tuple[str, str], list[Fact]]  # holder and slot -> its facts, oldest first


def folded(text: str) -> str:
    """A name for comparison: without case, and without the stop of its sentence."""
    return " ".join(text.casefold().split()).removesuffix(".")


def facts(messages: Iterable[memdb.Message]) -> Iterator[Fact]:
    """The facts of those messages whose sentence has one of the benchmark's forms."""
    for message in messages:
        sentence = message.content.removesuffix(".")
        found = next((match for form in _FORMS if (match := form.fullmatch(sentence))), None)
        if found is not None and message.id is not None:
            yield Fact(message.id, folded(found["holder"]), found["slot"], folded(found["value"]))


def slots(stated: Iterable[Fact]) -> Slots:
    """Facts by holder and slot, oldest first."""
    of: Slots = {}
    for fact in sorted(stated, key=lambda one: int(one.id.removeprefix("fact-"))):
        of.setdefault((fact.holder, fact.slot), []).append(fact)
    return of


def _named(question: str, holders: Iterable[str]) -> list[str]:
    """The holders a question names, those left out that stand inside a longer one."""
    asked = folded(question)
    found: list[tuple[int, int, str]] = []
    for holder in sorted(holders, key=len, reverse=True):
        match = re.search(rf"(?<!\w){re.escape(holder)}(?!\w)", asked)
        if match and not any(a <= match.start() and match.end() <= b for a, b, _ in found):
            found.append((*match.span(), holder))
    return [holder for _, _, holder in found]


def single_hop(question: str, answers: Iterable[str], of: Slots) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(gold, stale): the newest fact of the slot a question asks for, and the older ones of another value."""
    wanted = set(map(folded, answers))
    for holder in _named(question, {holder for holder, _ in of}):
        fitting = [
            told for (of_holder, _), told in of.items() if of_holder == holder and told[-1].value in wanted
        ]
        if fitting:
            told = max(fitting, key=lambda one: _likeness(question, one[-1:]))
            return (told[-1].id,), tuple(fact.id for fact in told if fact.value != told[-1].value)
    return (), ()


def multi_hop(question: str, answers: Iterable[str], of: Slots) -> tuple[str, ...]:
    """The chain of newest facts from a holder a question names to its answer; of several the likest one."""
    wanted = set(map(folded, answers))
    edges: dict[str, list[Fact]] = {}
    for (holder, _), told in of.items():
        edges.setdefault(holder, []).append(told[-1])
    found = [
        chain
        for holder in _named(question, edges)
        for chain in _chains(edges, (), holder)
        if chain[-1].value in wanted
    ]
    if not found:
        return ()
    return tuple(fact.id for fact in max(found, key=lambda chain: (_likeness(question, chain), -len(chain))))


def _chains(
    edges: Mapping[str, list[Fact]], so_far: tuple[Fact, ...], node: str
) -> Iterator[tuple[Fact, ...]]:
    """Every chain of up to MAX_HOPS facts from a holder that comes to no name twice."""
    for fact in edges.get(node, ()):
        if fact.value != fact.holder and all(fact.value not in (one.holder, one.value) for one in so_far):
            yield (*so_far, fact)
            if len(so_far) + 1 < MAX_HOPS:
                yield from _chains(edges, (*so_far, fact), fact.value)


def _likeness(question: str, chain: Sequence[Fact]) -> int:
    """How many words the slots of a chain share with a question."""
    asked = set(_WORD.findall(folded(question)))
    return len(asked & {word for fact in chain for word in _WORD.findall(fact.slot)})


def load(files: Sequence[Path]) -> list[Conversation]:
    """One conversation for each size, with the questions of both kinds. Raises DataMalformed."""
    messages: dict[str, tuple[memdb.Message, ...]] = {}
    asked: dict[str, list[Question]] = {}
    for file in files:
        for number, record in enumerate(_records(file)):
            found = _SOURCE.fullmatch(record.metadata.source)
            if found is None or int(found[2]) not in SIZES or len(record.questions) != len(record.answers):
                raise DataMalformed(f"{file}: record {number} is none of this benchmark")
            size = f"{found[2]}k"
            try:
                told = tuple(numbered_facts(record.context.splitlines()))
            except memdb.InputError as error:
                raise DataMalformed(f"{file}: record {number}: {error.message}") from error
            if messages.setdefault(size, told) != told:
                raise DataMalformed(f"{file}: record {number}: another context for {size} came before")
            questions = asked.setdefault(size, [])
            questions += _questions(record, told, 10 * int(found[2]) + KINDS[found[1]], len(questions))
    return [
        Conversation(size, (Session("facts", told),), tuple(asked[size])) for size, told in messages.items()
    ]


def _records(file: Path) -> list[_Record]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[_Record])
    except (OSError, msgspec.MsgspecError) as error:
        raise DataMalformed(f"{file}: {error}", hint="expected records of MemoryAgentBench") from error


def _questions(
    record: _Record, messages: Sequence[memdb.Message], category: int, first: int
) -> Iterator[Question]:
    of = slots(facts(messages))
    for number, (text, answers) in enumerate(zip(record.questions, record.answers, strict=True), first):
        gold, stale = (
            single_hop(text, answers, of)
            if category % 10 == SINGLE_HOP
            else (multi_hop(text, answers, of), ())
        )
        yield Question(number, text, category, gold, answer=" / ".join(answers), stale=stale)

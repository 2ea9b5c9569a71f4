"""FactConsolidation (Hu et al. 2025, MemoryAgentBench): numbered facts that contradict each other, and
questions about what holds.

Read as published: records with `context` (a numbered list, a larger number being newer), `questions`,
`answers` and `metadata.source`, `factconsolidation_{sh,mh}_{size}`. The data names no gold facts, so they are
derived from its sentence forms and its answers:

* single-hop (sh): the newest fact of the slot the question asks for, of a holder it names. Older facts of
  this slot with another value are stale.
* multi-hop (mh): the chain of two to four newest facts along the slots the question asks for, from a holder
  it names.

Which slots are asked for is told by the words of the question alone, the names taken out, never by the
answer. Where the newest facts of these slots do not lead to the answer, there is no gold: such questions are
counted and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
from rich.console import Console
from rich.text import Text

import memdb
from memdb.importers.numbered import numbered_facts

from .data import Conversation, Question, Session
from .errors import DataMalformed
from .figures import MESSAGES, OVERALL, Row, by_question
from .report import Report, show_groups

PATTERN: Final = "factconsolidation*.json"
SINGLE_HOP: Final = 1
MULTI_HOP: Final = 2
SIZES: Final = (6, 32, 64, 262)
KINDS: Final = {"sh": SINGLE_HOP, "mh": MULTI_HOP}
CATEGORIES: Final = {10 * size + kind: f"{name} {size}k" for size in SIZES for name, kind in KINDS.items()}
MAIN: Final = "all@10"
FIGURES: Final = msgspec.structs.replace(MESSAGES, by=by_question)
IN_HOLDER: Final = "is"
MIN_HOPS: Final = 2
MAX_HOPS: Final = 4
NO_HOLDER: Final = "names no holder"
NO_SLOT: Final = "asks for no slot of it"
SEVERAL: Final = "several slots fit alike"
OTHER_ANSWER: Final = "the newest fact gives another answer"

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
# How questions speak of a slot, and of the kind of value it has: beginnings of words. "was created in the
# country of" is spoken of by "originates", its values are countries.
_ASKED_BY: Final = {
    IN_HOLDER: ("", ""),
    "author": ("author wr[io]t creator", "who person individual"),
    "capital": ("capital seat", "city"),
    "chairperson": ("chairperson", "who person individual"),
    "chief executive officer": ("chief executive officer ceo", "who person individual"),
    "director": ("direct manage", "who person individual"),
    "head coach": ("head coach", "who person individual"),
    "official language": ("official language tongue", ""),
    "original language": ("original language", ""),
    "origianl broadcaster": ("original broadcast network aired", "company"),
    "current head": ("head government leader chief executive", "who person individual name"),
    "current head of state": ("head state chief official", "who person individual name"),
    "univeristy": ("universit educat attend stud", "institution organization"),
    "type of music": ("type music genre kind", "style"),
    "company that produced": ("produce manufactur made", "company"),
    "headquarters": ("headquarter", "city town location where"),
    "child": ("child", "who person name"),
    "is a citizen of": ("citizen belong", "country nation"),
    "is affiliated with the religion of": ("religi affiliat faith belie follow", "belong"),
    "is married to": ("marri spouse partner significant wife husband", "who person"),
    "is famous for": ("famous notable creation work", "known"),
    "is employed by": ("employ work", "company organization institution"),
    "is associated with the sport of": ("sport", "associat play specializ"),
    "is located in the continent of": ("continent", "located"),
    "plays the position of": ("position special", "play team"),
    "was created in the country of": ("creat origin develop first come came hail birth", "country nation"),
    "was created by": ("creat", "who person individual"),
    "was founded in the city of": ("found establish existence", "city place where location"),
    "was founded by": ("found establish", "who person individual"),
    "was performed by": ("perform", "who person individual"),
    "was developed by": ("develop", "who company"),
    "was born in the city of": ("born birth origin", "city place where location"),
    "was written in the language of": ("written language", ""),
    "died in the city of": ("die death breath pass", "city place where location"),
    "worked in the city of": ("work", "city place where location"),
    "works in the field of": ("work profession occupation job field", "role title"),
    "speaks the language of": ("speak spoken sign language", ""),
}


def _beginnings(words: str) -> re.Pattern[str]:
    return re.compile("|".join(words.split()) or "(?!)")


CUES: Final = {slot: (_beginnings(cues), _beginnings(kind)) for slot, (cues, kind) in _ASKED_BY.items()}
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
Chain: TypeAlias = tuple[Fact, ...]  # each about the value of the one before


class Gold(NamedTuple):
    """The facts a question rests on, those of an older value, and without gold the reason why."""

    ids: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    reason: str = ""


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


def derive(question: str, answers: Iterable[str], kind: int, of: Slots) -> Gold:
    """The gold of a question of this kind, SINGLE_HOP or MULTI_HOP."""
    return (single_hop if kind == SINGLE_HOP else multi_hop)(question, answers, of)


def single_hop(question: str, answers: Iterable[str], of: Slots) -> Gold:
    """The newest fact of the slot a question asks for, if its value is the answer."""
    named = _named(question, {holder for holder, _ in of})
    newest = [(told[-1],) for (holder, _), told in of.items() if holder in named]
    gold, chain = _asked_for(question, answers, named, newest)
    stale = (fact.id for one in chain for fact in of[one.holder, one.slot] if fact.value != one.value)
    return gold._replace(stale=tuple(stale))


def multi_hop(question: str, answers: Iterable[str], of: Slots) -> Gold:
    """The chain of newest facts, from a holder a question names, along the slots it asks for, if that ends at
    the answer.
    """
    edges: dict[str, list[Fact]] = {}
    for (holder, _), told in of.items():
        edges.setdefault(holder, []).append(told[-1])
    named = _named(question, edges)
    chains = [chain for holder in named for chain in _chains(edges, (), holder)]
    return _asked_for(question, answers, named, chains)[0]


def _asked_for(
    question: str, answers: Iterable[str], named: Sequence[str], chains: Iterable[Chain]
) -> tuple[Gold, Chain]:
    """The chain whose slots a question asks for, whatever it leads to, if that is then the answer."""
    if not named:
        return Gold(reason=NO_HOLDER), ()
    asked = _words(question, named)
    likest = _likest(asked, chains)
    if len(likest) != 1:
        return Gold(reason=SEVERAL if likest else NO_SLOT), ()
    last = likest[0][-1]
    if last.slot != IN_HOLDER and not any(map(CUES[last.slot][0].match, asked)):
        return Gold(reason=NO_SLOT), ()
    if last.value not in set(map(folded, answers)):
        return Gold(reason=OTHER_ANSWER), ()
    return Gold(tuple(fact.id for fact in likest[0])), likest[0]


def _chains(edges: Mapping[str, list[Fact]], so_far: Chain, node: str) -> Iterator[Chain]:
    """Every chain of MIN_HOPS to MAX_HOPS facts from a holder that comes to no name twice."""
    for fact in edges.get(node, ()):
        if fact.value != fact.holder and all(fact.value not in (one.holder, one.value) for one in so_far):
            chain = (*so_far, fact)
            if len(chain) >= MIN_HOPS:
                yield chain
            if len(chain) < MAX_HOPS:
                yield from _chains(edges, chain, fact.value)


def _words(question: str, named: Iterable[str]) -> list[str]:
    """The words of a question without those of the names in it."""
    asked = folded(question)
    for name in named:
        asked = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", asked)
    return _WORD.findall(asked)


def _likest(asked: Sequence[str], chains: Iterable[Chain]) -> list[Chain]:
    """The chains whose slots are most like what is asked; none if no chain is like it at all."""
    scored = [(_likeness(asked, [fact.slot for fact in chain]), chain) for chain in chains]
    best = max((score for score, _ in scored if score is not None), default=None)
    return [chain for score, chain in scored if best is not None and score == best]


def _likeness(asked: Sequence[str], of_slots: Sequence[str]) -> tuple[int, int, int] | None:
    """How like a question these slots are; None if it does not ask for them.

    First the words that speak of the slots less the slots without a word of their own, then the words that
    speak of their kinds of value, then fewer slots. A question asks for slots if it speaks of one (or names a
    holder that is one, "the president of X") and no more slots go without a word than words speak.
    """
    speaking: set[int] = set()
    kinds: set[int] = set()
    silent = 0
    for slot in of_slots:
        cues, kind = CUES[slot]
        heard = {place for place, word in enumerate(asked) if cues.match(word)}
        silent += slot != IN_HOLDER and not heard - speaking
        speaking |= heard
        kinds |= {place for place, word in enumerate(asked) if kind.match(word)}
    if silent > len(speaking):
        return None
    return len(speaking) - silent, len(kinds - speaking), -len(of_slots)


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
        Conversation(size, (Session("facts", told),), tuple(asked[size]), size)
        for size, told in messages.items()
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
        gold = derive(text, answers, category % 10, of)
        yield Question(
            number,
            text,
            category,
            gold.ids,
            answer=" / ".join(answers),
            stale=gold.stale,
            accepted=tuple(answers),
        )


def over_all(row: Row, figure: str, left_out: int) -> float:
    """A figure over all questions of a group: those left out count as misses."""
    return row.figures[figure].value * row.questions / (row.questions + left_out)


def show(result: Report, categories: Mapping[int, str], console: Console) -> None:
    """Print the tables and a note: how many questions were left out, and the main figure with and without."""
    show_groups(result, categories, console)
    for group in sorted(
        {row.group for row in result.rows if row.group != OVERALL} | set(result.unscored), key=int
    ):
        rows = [row for row in result.rows if row.group == group]
        scored, left_out = rows[0].questions if rows else 0, result.unscored.get(group, 0)
        name = categories.get(int(group), group)
        lines = [
            f"{name}: {left_out} of {scored + left_out} questions left out; "
            f"{MAIN}, % of those with gold / of all"
        ]
        for row in rows:
            both = row.figures[MAIN].value, over_all(row, MAIN, left_out)
            lines.append(f"  {row.retriever}: {' / '.join(f'{100 * value:.1f}' for value in both)}")
        console.print(Text("\n".join(lines)))

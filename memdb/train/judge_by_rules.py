"""A judge without a language model: words are compared, and the answer is a span of the evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from memdb import settings
from memdb.activate.working_memory import estimated_tokens, serialised
from memdb.construct.resolve import cast_of, resolve
from memdb.construct.rules import is_foreign
from memdb.construct.support import NUMBERS, Support
from memdb.generate.defermem import as_memory
from memdb.generate.distill import speakers_in
from memdb.generate.extractive import extract
from memdb.generate.faithful import instant_of, said_by
from memdb.language.clock import anchor_day
from memdb.language.sentences import WORD, Span, sentences
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, document_terms, fold
from memdb.language.words import FUNCTION, REACTIONS, word_set
from memdb.models.ports import Reranker
from memdb.records import Interval, Message, Segment, Utterance, WorkingMemory
from memdb.train.instances import Instance
from memdb.train.judge import Entry, Judged, KeepingJudge, distillation

_QUOTED: Final = re.compile(r"«[^«»]*»")
_SOMEBODY: Final = word_set("he she they him her them his their hers theirs")
_FIRST_PERSON: Final = word_set("i me my mine myself we us our ours ourselves")
_POINTS_BACK: Final = _SOMEBODY | word_set("it its this that these those there then so too also")
_ASIDE: Final = re.compile(r"\s*\([^()]*\)")
_OTHERWISE: Final = re.compile(r"\s+/\s+|\s*;\s*or\s+")
_VERDICT: Final = re.compile(r"\W*(?:(?:probably|(?:very )?likely|rather)\W+)?(yes|no)\b", re.IGNORECASE)


class RuleJudge(KeepingJudge):
    """A `Judge` that asks no language model.

    An entry passes when every word of content in it is said in its message or earlier in the segment, when it
    tells of this message and of whom it is about, and when I, we and you are named, and nobody is only "he"
    or "she". The answer is the span that
    `generate.extractive` finds in the evidence alone, with a reranker or without. It is correct when it has
    all words of content of the reference, or shares settings.LEAST_ANSWER_F1 with it; where nothing is to be
    answered, no evidence is correct. The information failed when it lacks words of the reference.
    """

    def __init__(self, reranker: Reranker | None = None) -> None:
        super().__init__()
        self._reranker = reranker

    def judge_entries(self, instance: Instance, used: tuple[Entry, ...]) -> tuple[bool, ...]:
        """See `KeepingJudge`."""
        history = instance.history
        return tuple(
            one.faithful
            and self_contained(one.info, one.utterance, speakers_in(history, one.utterance))
            and tells_of(one.info, one.utterance, speakers_in(history, one.utterance))
            for one in distillation(instance, used).evidence
        )

    def judge_answer(self, instance: Instance, used: tuple[Entry, ...]) -> Judged:
        """See `KeepingJudge`."""
        if not instance.answer:
            return Judged()
        memory = as_memory(instance.history.query, distillation(instance, used).evidence, by_rank=True)
        told = serialised(memory, settings.HISTORY_TOKENS, estimated_tokens)
        found = extract(memory.query, told, self._reranker)
        if found is not None and matches(found.text, instance.answer):
            return Judged(correct=True, information_failed=False)
        share = said_of(instance.answer, memory)
        return Judged(
            correct=share >= settings.LEAST_ANSWER_SHARE,
            information_failed=share < settings.LEAST_INFORMATION_SHARE,
        )


def self_contained(info: str, utterance: Utterance, speakers: Sequence[str]) -> bool:
    """Whether what a message says is told so that it can be understood alone, as far as rules see it.

    It has a word of content, does not begin with "she" or "their", and outside of quotations nobody is "I",
    "we", or "you" where it is known who is spoken to. `speakers` are those of the session.
    """
    message = utterance.message
    told = _QUOTED.sub("«»", info)
    for name in filter(None, speakers):
        told = re.sub(rf"\b{re.escape(name)}\b", "N", told)
    first = WORD.search(told)
    if first is None or re.split("['’]", fold(first[0]))[0] in _SOMEBODY:
        return False
    if set(document_terms(info).split()) <= FUNCTION | REACTIONS:
        return False
    cast = cast_of(message.speaker, message.role, tuple(speakers))
    cast = cast._replace(speaker=cast.speaker or "N")
    spoken = (told[start:end] for start, end in sentences(told) or [Span(0, len(told))])
    return all(is_foreign(one) or resolve(one, cast) == one for one in spoken)


def tells_of(info: str, utterance: Utterance, speakers: Sequence[str]) -> bool:
    """Whether a piece of evidence tells what this message says, of whom it says it, as far as rules see it.

    What stands in no quotation has to be said in the message itself; in one that points back, or replies in a
    few words, half of it. Where the sentence that is told speaks of "I" or "we", the speaker is named.
    """
    message, told = utterance.message, _QUOTED.sub("", info)
    own = said_by(utterance, Segment(utterances=(utterance,)), speakers)
    words = set(document_terms(message.content).split())
    if len(words - STOP_WORDS) >= settings.LEAST_STATED_WORDS or message.image_caption:
        least = settings.LEAST_OWN_SHARE if words & _POINTS_BACK else 1.0
        if own.share(told) < least:
            return False
    speaker = set(document_terms(cast_of(message.speaker, message.role, tuple(speakers)).speaker).split())
    return not speaker or bool(speaker & set(document_terms(told).split())) or not _of_speaker(told, message)


def _of_speaker(told: str, message: Message) -> bool:
    """Whether the sentence of a message that is told, or one of those that are as likely, is about its
    speaker: "I", "we". What is not English is not read.
    """
    stems = set(map(stem, document_terms(told).split()))
    spoken = [message.content[start:end] for start, end in sentences(message.content)]
    words = [set(document_terms(one).split()) for one in spoken]
    shared = [len(stems & set(map(stem, some - STOP_WORDS))) for some in words]
    most = max(shared, default=0)
    likely = [one for one in range(len(spoken)) if shared[one] == most and not is_foreign(spoken[one])]
    return any(words[one] & _FIRST_PERSON for one in likely)


def said_of(reference: str, memory: WorkingMemory) -> float:
    """The share of a reference's words of content that the evidence says, names, clocks and the days that
    expressions of time mean among them; 0 where it lacks a number of the reference.
    """
    support = Support()
    for one in memory.evidence:
        instant = instant_of(one.source[0])
        support.say(one.speaker)
        support.say_on(one.text, instant)
        if (day := anchor_day(instant)) is not None:
            support.say_time(Interval(day, day, "day"))
    return max(_share(one, support) for one in _accepted(reference))


def _share(reference: str, support: Support) -> float:
    numbers = " ".join(word for word in document_terms(reference).split() if _number(word) is not None)
    return 0.0 if numbers and support.lacking(numbers) else support.share(reference)


def matches(answer: str, reference: str) -> bool:
    """Whether an answer says what a reference does: all its words of content, or settings.LEAST_ANSWER_F1 of
    both and its numbers.

    What a reference has in brackets need not be said, and of "green / emerald" one suffices; yes and no
    exclude each other.
    """
    wanted, given = _VERDICT.match(reference), _VERDICT.match(answer)
    if wanted and given and fold(wanted[1]) != fold(given[1]):
        return False
    said = _terms(answer)
    return any(_says(said, _terms(one)) for one in (*_accepted(reference), reference))


def _accepted(reference: str) -> list[str]:
    """What each suffices to say; a yes or no that goes before it is told by the rest."""
    kept = [_VERDICT.sub("", one, count=1) for one in _OTHERWISE.split(_ASIDE.sub("", reference))]
    return [one for one in kept if document_terms(one)] or [reference]


def _says(said: Counter[str], wanted: Counter[str]) -> bool:
    if wanted.keys() <= said.keys():
        return True
    if any(_number(word) is not None and word not in said for word in wanted):
        return False
    common = (said & wanted).total()
    return 2 * common >= settings.LEAST_ANSWER_F1 * (said.total() + wanted.total())


def _terms(text: str) -> Counter[str]:
    """The stems of the words of content in a text, numbers as digits; of one without, all its words."""
    words = document_terms(text).split()
    content = [word for word in words if word not in STOP_WORDS] or words
    return Counter(_number(word) or stem(stem(word)) for word in content)


def _number(word: str) -> str | None:
    return word if word[0].isdigit() else NUMBERS.get(word)

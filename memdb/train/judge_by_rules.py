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
from memdb.language.sentences import WORD, Span, sentences
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, document_terms, fold
from memdb.language.words import FUNCTION, REACTIONS, word_set
from memdb.models.ports import Reranker
from memdb.records import Utterance
from memdb.train.instances import Instance
from memdb.train.judge import Entry, Judged, KeepingJudge, distillation

_QUOTED: Final = re.compile(r"«[^«»]*»")
_SOMEBODY: Final = word_set("he she they him her them his their hers theirs")
_ASIDE: Final = re.compile(r"\s*\([^()]*\)")
_OTHERWISE: Final = re.compile(r"\s+/\s+|\s*;\s*or\s+")
_YES_OR_NO: Final = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class RuleJudge(KeepingJudge):
    """A `Judge` that asks no language model.

    An entry passes when every word of content in it is said in its message or earlier in the segment, and
    when I, we and you are named, and nobody is only "he" or "she". The answer is the span that
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
            one.faithful and self_contained(one.info, one.utterance, speakers_in(history, one.utterance))
            for one in distillation(instance, used).evidence
        )

    def judge_answer(self, instance: Instance, used: tuple[Entry, ...]) -> Judged:
        """See `KeepingJudge`."""
        if not instance.answer:
            return Judged()
        memory = as_memory(instance.history.query, distillation(instance, used).evidence, by_rank=True)
        told = serialised(memory, settings.HISTORY_TOKENS, estimated_tokens)
        found = extract(memory.query, told, self._reranker)
        correct = found is not None and matches(found.text, instance.answer)
        support = Support()
        for one in memory.evidence:
            support.say(f"{one.speaker} {one.text} {one.said_at or ''}")
        return Judged(
            correct=correct, information_failed=support.share(instance.answer) < settings.LEAST_SUPPORT
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


def matches(answer: str, reference: str) -> bool:
    """Whether an answer says what a reference does: all its words of content, or settings.LEAST_ANSWER_F1 of
    both.

    What a reference has in brackets need not be said, and of "green / emerald" one suffices; yes and no
    exclude each other.
    """
    wanted, given = _YES_OR_NO.match(reference), _YES_OR_NO.match(answer)
    if wanted and given and fold(wanted[1]) != fold(given[1]):
        return False
    said = _terms(answer)
    accepted = [*_OTHERWISE.split(_ASIDE.sub("", reference)), reference]
    return any(_says(said, _terms(one)) for one in accepted if one.strip())


def _says(said: Counter[str], wanted: Counter[str]) -> bool:
    common = (said & wanted).total()
    f1 = 2 * common / max(1, said.total() + wanted.total())
    return common > 0 and (wanted.keys() <= said.keys() or f1 >= settings.LEAST_ANSWER_F1)


def _terms(text: str) -> Counter[str]:
    """The stems of the words of content in a text, numbers as digits; of one without, all its words."""
    words = document_terms(text).split()
    content = [word for word in words if word not in STOP_WORDS] or words
    return Counter(NUMBERS.get(word) or stem(stem(word)) for word in content)

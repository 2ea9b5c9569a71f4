"""Whether a claim rests on the messages it cites: what keeps a model that invents from writing memory.

The holder and the value of a claim must be said in its messages, word for word but for inflection; names and
numbers of its text too. "I" and "you" stand for the speaker and the one spoken to, and an expression of time
for the days it means. How a relation is worded is the model's own, "lives in" may come of "moved to", but
what was denied cannot be claimed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Final

from memdb.construct.admit import Admitted
from memdb.construct.resolve import cast_of
from memdb.construct.temporal import times_of
from memdb.language.clock import anchor_day
from memdb.language.patterns import lazy
from memdb.language.sentences import WORD, sentences
from memdb.language.stems import stem
from memdb.language.terms import STOP_WORDS, document_terms, fold
from memdb.language.verbs import FORMS
from memdb.language.words import EMPTY, word_set
from memdb.records import Instant, Interval, Triple

NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty".split()
    )
}
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_DAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_SECOND_PERSON: Final = word_set("you your yours yourself")
_OTHERS: Final = word_set("others others' and")
# Words that date something without being read here, without those that are more often something else ("may").
_TIME_CUES: Final = (
    word_set(
        "ago last next yesterday today tomorrow tonight year years month months week weeks weekend weekends",
        "morning evening summer autumn winter born birthday anniversary holiday holidays christmas easter",
        "decade century childhood semester",
    )
    | (set(_MONTHS) - {"march", "may"})
    | set(_DAYS)
)
_FAR_YEARS: Final = 120  # between speaking and a time that is spoken of in words that are not read here
# What denies in English. An even number in a clause cancel out: "I can't live without it". Some only seem to.
_NEGATION: Final = lazy(
    r"\b(?:not(?!\s(?:only|just|until)\b)|never|no(?!\s(?:wonder|problem|doubt|worries)\b)|nope|nobody"
    r"|nothing"
    r"|none|neither|without|cannot(?!\s(?:wait|believe)\b)|hardly|barely|if|aint"
    r"|refuse[sd]?|avoid(?:s|ed)?|stop(?:s|ped)?|quits?|hate[sd]?|dislike[sd]?|g[ai]ven?\sup"
    r"|(?:ca|could)n['’]?t(?!\s(?:wait|believe|be\s\w+er|help|stop|agree)\b)"
    r"|(?!ca|could)\w+n['’]t|(?:do|does|did|is|was|are|were|wo|have|has|had|would|should)nt)\b",
    re.IGNORECASE,
)
_NO: Final = lazy(
    r"\s*(?:no|nope|nah|not\sreally|not\sat\sall)\b(?!\s(?:wonder|problem|doubt))", re.IGNORECASE
)
_CLAUSES: Final = lazy(r"[,;:—]|\s(?:but|and|so|because|although|though|while)\s", re.IGNORECASE)
_SENTENCE_START: Final = lazy(r"(?:\A|[.!?]\s+)[\"“'(]*\Z")


class Support:
    """What texts say, as a bag of stems, and the times they speak of."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._words: set[str] = set()
        self._unread: set[str] = set()
        self._days: set[dt.date | None] = set()
        self._times: list[Interval] = []
        self._clauses: list[tuple[set[str], bool]] = []  # stems, and whether they are denied
        self._asked: list[set[str]] = []  # those of the last questions

    def say(self, text: str) -> None:
        """Count a text as said."""
        for term in document_terms(text).split():
            self._said.update((term, stem(term)))
            self._words.add(term)
            if term in NUMBERS:
                self._said.add(NUMBERS[term])

    def say_on(self, text: str, instant: Instant | None) -> None:
        """Count a text as said at a time: its expressions of time stand for the days they mean."""
        self.say(text)
        self._days.add(anchor_day(instant))
        rest, at = "", 0
        for time in times_of(text, instant):
            rest, at = f"{rest}{text[at : time.start_char]} ", time.end_char
            self.say_time(time.interval)
        self._unread.update(document_terms(rest + text[at:]).split())
        if _NO.match(text):
            self._clauses += [(stems, True) for stems in self._asked]
        else:
            self._clauses += [(stems, False) for stems in self._asked]
        self._asked = []
        for start, end in sentences(text):
            asks = text[start:end].rstrip("\"'”’)*_ ").endswith(("?", "？"))
            for clause in _CLAUSES.split(text[start:end]):
                stems = {stem(term) for term in document_terms(clause).split()}
                if asks:
                    self._asked.append(stems)
                else:
                    self._clauses.append((stems, denies(clause)))

    def say_time(self, interval: Interval) -> None:
        """Count the days of an interval as spoken of, in whatever way they are written."""
        self._times.append(interval)
        words = _date_words(interval).split()
        self._said.update(words)
        self._said.update(map(stem, words))

    @property
    def speaks_to_somebody(self) -> bool:
        """Whether somebody is spoken to: "you", "your"."""
        return not self._words.isdisjoint(_SECOND_PERSON)

    def lacking(self, text: str) -> list[str]:
        """The words of content in a text that the messages do not say; of one without, any of its words, and
        one without words is not said at all.
        """
        words = _content(text) or document_terms(text).split()
        return self._lacking(words) if words else [text]

    def share(self, text: str) -> float:
        """Of the words of content in a text, the share that the messages say; 1 if there is none."""
        words = dict.fromkeys(_content(text))
        return 1 - len(self._lacking(words)) / len(words) if words else 1.0

    def lacking_names(self, text: str) -> list[str]:
        """The names and numbers in a text that the messages do not say.

        At the start of a sentence any word has a capital: a known English word there is no name.
        """
        names: list[str] = []
        for found in WORD.finditer(text):
            word = found[0]
            low = fold(word)
            starts = _SENTENCE_START.search(text[max(0, found.start() - 8) : found.start()]) is not None
            if word[0].isdigit() or (
                word[0].isupper() and not (starts and (low in EMPTY or low in FORMS or low in STOP_WORDS))
            ):
                names += [term for term in document_terms(word).split() if term not in STOP_WORDS]
        return self._lacking(names)

    def _lacking(self, terms: Iterable[str]) -> list[str]:
        return [
            term
            for term in dict.fromkeys(terms)
            if term not in self._said
            and stem(term) not in self._said
            and NUMBERS.get(term, term) not in self._said
        ]

    def turns_round(self, fact_text: str, triple: Triple) -> bool:
        """Whether a claim affirms what the messages deny, or denies what no message does.

        What counts are the clauses that say most of the value's words.
        """
        if denies(fact_text) or denies(f"{triple.predicate} {triple.object}"):
            return not any(denied for _, denied in self._clauses)
        stems = {stem(term) for term in _content(triple.object)}
        clauses = self._clauses + [(asked, False) for asked in self._asked]
        shared = [(len(stems & said), denied) for said, denied in clauses]
        most = max((count for count, _ in shared), default=0)
        return most > 0 and all(denied for count, denied in shared if count == most)

    def allows_time(self, interval: Interval) -> bool:
        """Whether the messages can date a fact: an expression of time meets the interval, or at least speaks
        of a time in words that are not read here. The day of speaking alone dates nothing, nor do such words
        date what is more than a lifetime away.
        """
        if any(time.start <= interval.end and interval.start <= time.end for time in self._times):
            return True
        if interval.start == interval.end and interval.start in self._days:
            return False
        years = {int(word) for word in self._unread if len(word) == 4 and word.isascii() and word.isdigit()}
        if any(interval.start.year <= year <= interval.end.year for year in years):
            return True
        near = [abs(interval.start.year - day.year) <= _FAR_YEARS for day in self._days if day is not None]
        return all(near) and not self._unread.isdisjoint(_TIME_CUES)


def denies(clause: str) -> bool:
    """Whether an English clause denies what it speaks of."""
    return len(_NEGATION.findall(clause)) % 2 == 1


def _content(text: str) -> list[str]:
    return [term for term in document_terms(text).split() if term not in STOP_WORDS and term not in _OTHERS]


def support_of(cited: Sequence[Admitted], participants: Sequence[str]) -> Support:
    """What messages say, their speakers included; between two `participants`, "you" is the other one."""
    support = Support()
    for message, instant in cited:
        support.say_on(message.content, instant)
        for text in (message.image_caption, message.location):
            if text:
                support.say_on(text, instant)
        cast = cast_of(message.speaker, message.role, tuple(participants))
        support.say(f"{message.speaker} {message.role or ''} {cast.speaker}")
        if cast.counterpart is not None and support.speaks_to_somebody:
            support.say(cast.counterpart)
    return support


def _date_words(interval: Interval) -> str:
    days = (interval.start, interval.end)
    return " ".join(
        f"{d.year} {_MONTHS[d.month - 1]} {d.month} {d:%m} {d.day} {d:%d} {_DAYS[d.weekday()]}" for d in days
    )

"""As many messages and claims as wanted, in the manner of real talks, with vectors like real ones.

Words are drawn from how often the talks that come with memdb use them, and some from a long Zipf tail, so
that common words are as common as in talk and the vocabulary grows with the file. Vectors mix vectors of real
sentences and add noise. All of it depends on the seed alone: blocks are drawn each by itself.

Trap: word order means nothing, so no question is answered; what is measured is time, not quality.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb import Message
from memdb.models.ports import Encoder
from memdb.records import Interval, Triple, Unit
from memdb.train.talks import Talk, own

SESSION_MESSAGES: Final = 25
BLOCK_SESSIONS: Final = 160
BLOCK: Final = SESSION_MESSAGES * BLOCK_SESSIONS  # messages drawn at once
TAIL_SHARE: Final = 0.08  # of the words of a message
TAIL_WORDS: Final = 200_000
REAL_VECTORS: Final = 1_024  # sentences that vectors are mixed from
SECOND_WEIGHT: Final = 0.6  # of the other sentence's vector, against the first one's
NOISE: Final = 0.5  # length of the noise, against the first one's
FIRST_DAY: Final = dt.date(2020, 1, 1).toordinal()
DAYS: Final = 1_800
_WORD = re.compile(r"[a-z']+")
_SYLLABLES: Final = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


class Session(NamedTuple):
    """A session with its claims, one of each message, and the vectors of both, [n, d]."""

    name: str
    messages: list[Message]
    units: list[Unit]
    message_vectors: NDArray[np.float32]
    fact_vectors: NDArray[np.float32]
    triple_vectors: NDArray[np.float32]

    def first(self, most: int) -> Session:
        """The session with at most so many messages."""
        return Session(
            self.name, self.messages[:most], self.units[:most], self.message_vectors[:most],
            self.fact_vectors[:most], self.triple_vectors[:most],
        )  # fmt: skip


class Corpus:
    """The source of a file: words, names, lengths of messages and vectors of real sentences."""

    def __init__(self, encoder: Encoder, seed: int = 0, talks: Sequence[Talk] | None = None) -> None:
        told = own() if talks is None else list(talks)
        said = [message for talk in told for message in talk.messages]
        counts = Counter(word for one in said for word in _WORD.findall(one.content.lower()))
        self.seed = seed
        self.dimension = encoder.dimension
        self._words = np.array([*counts, *map(_tail_word, range(TAIL_WORDS))])
        self._cumulated = _cumulated(list(counts.values()))
        self._lengths = np.array([max(4, len(one.content.split())) for one in said])
        self._names = list(dict.fromkeys(one.speaker for one in said))
        self.questions = [question.text for talk in told for question in talk.questions]
        sentences = list(dict.fromkeys(one.content for one in said))
        chosen = np.random.default_rng(seed).permutation(len(sentences))[:REAL_VECTORS]
        self._real = encoder.encode([sentences[at] for at in chosen])

    def block(self, number: int) -> list[Session]:
        """The sessions of one block, `BLOCK` messages, the same whenever it is drawn."""
        rng = np.random.default_rng((self.seed, number))
        lengths = rng.choice(self._lengths, BLOCK)
        at = np.searchsorted(self._cumulated, rng.random(int(lengths.sum())), side="right")
        spoken = np.split(self._words[at], np.cumsum(lengths)[:-1])
        vectors = [self.vectors(rng, BLOCK) for _ in range(3)]
        first = number * BLOCK_SESSIONS
        return [
            self._session(rng, first + one, spoken[start : start + SESSION_MESSAGES], start, vectors)
            for one, start in enumerate(range(0, BLOCK, SESSION_MESSAGES))
        ]

    def vectors(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        """[count, dimension], length 1: two real ones each, and noise."""
        picked = rng.integers(len(self._real), size=(2, count))
        noise = rng.standard_normal((count, self.dimension), np.float32) / np.sqrt(np.float32(self.dimension))
        mixed = self._real[picked[0]] + np.float32(SECOND_WEIGHT) * self._real[picked[1]]
        mixed += np.float32(NOISE) * noise
        unit: NDArray[np.float32] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return unit

    def _session(
        self,
        rng: np.random.Generator,
        number: int,
        spoken: Sequence[NDArray[np.str_]],
        start: int,
        vectors: Sequence[NDArray[np.float32]],
    ) -> Session:
        pair = [self._names[at] for at in rng.choice(len(self._names), 2, replace=False)]
        day = dt.date.fromordinal(FIRST_DAY + int(rng.integers(DAYS)))
        tails = rng.zipf(1.4, size=(len(spoken), 2)) % TAIL_WORDS
        events = rng.random((len(spoken), 2))
        messages, units = [], []
        for place, words in enumerate(spoken):
            speaker = pair[place % 2]
            messages.append(Message(speaker, _sentences(words), day.isoformat()))
            names = [_tail_word(int(tail)).capitalize() for tail in tails[place]]
            units.append(_unit(place, speaker, words, names, day, events[place]))
        end = start + len(spoken)
        return Session(f"s{number}", messages, units, *(part[start:end] for part in vectors))


def _cumulated(counts: Sequence[int]) -> NDArray[np.float64]:
    """The distribution function of the words: those of talks first, then the tail."""
    common = np.array(counts, np.float64)
    tail = 1 / np.arange(1, TAIL_WORDS + 1)
    shares = [common / common.sum() * (1 - TAIL_SHARE), tail / tail.sum() * TAIL_SHARE]
    cumulated: NDArray[np.float64] = np.cumsum(np.concatenate(shares))
    cumulated /= cumulated[-1]
    return cumulated


def _tail_word(rank: int) -> str:
    """An invented word of its own for each rank: at least three syllables."""
    word, left = "", rank + len(_SYLLABLES) ** 2
    while left:
        left, syllable = divmod(left, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word


def _sentences(words: NDArray[np.str_]) -> str:
    """Words as sentences of at most twelve."""
    parts = (words[at : at + 12] for at in range(0, len(words), 12))
    return " ".join(f"{' '.join(part).capitalize()}." for part in parts)


def _unit(
    place: int,
    speaker: str,
    words: NDArray[np.str_],
    names: Sequence[str],
    day: dt.date,
    events: NDArray[np.float64],
) -> Unit:
    """A claim of a message: a third of them at a place, a quarter on a known day."""
    predicate, object = str(words[0]), " ".join(words[1:4])
    happened = day - dt.timedelta(days=int(events[1] * 40))
    return Unit(
        fact_text=f"{speaker} {predicate} {object} {names[0]}.",
        triple=Triple(speaker, predicate, f"{object} {names[0]}"),
        entities=(speaker, names[0]),
        locations=(names[1],) if events[0] < 1 / 3 else (),
        fact_time=(Interval(happened, happened, "day"),) if events[1] < 1 / 4 else (),
        first=place,
        last=place,
    )

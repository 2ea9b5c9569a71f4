"""From the entities a question names along facts that hold to the one it asks for.

"Where was the author of Emma born?" needs a fact about a person it does not name. So the graph of the
current facts, holder to value, is followed from the names in the question, as far as each slot tells of some
part of it (docs/why/hops.md). There is no language model, and no form of a question is known here: a part is
a run of words that carry meaning, and a slot fits it by their vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from memdb import settings
from memdb.language.patterns import lazy
from memdb.language.terms import STOP_WORDS, fold
from memdb.models.ports import Encoder
from memdb.store import indexes, schema
from memdb.store.connection import Database
from memdb.store.hops import Chain, Parts, chain_starts, hops

_MAX_CHARS: Final = 2_000  # of a question that are read
_MAX_WORDS: Final = 64  # of a question that are read
_MAX_NAME_WORDS: Final = 10
_OPENING: Final = "\"'([{<«‹“„‘‚*_"
_CLOSING: Final = "\"')]}>»›”“’‘*_,;:?!"
_POSSESSIVE: Final = lazy(r"['’]s?\Z")
_WORD: Final = lazy(r"[^\W_]+")


class Mention(NamedTuple):
    """A name in a question: folded, and its words, [first, end)."""

    name: str
    first: int
    end: int


def find_chains(
    database: Database, encoder: Encoder, scale: float, question: str, seen: Mapping[str, indexes.Value]
) -> list[Chain]:
    """The best chains for a question, best first; none if it names nothing from which one can start.

    Looking for a start is a small statement; only where there is one, the parts of the question are encoded
    (outside of any transaction), and a second statement follows the graph. `seen` are the bindings of scope
    and time.
    """
    words = question[:_MAX_CHARS].split()[:_MAX_WORDS]
    mentions = list(_mentions(words))
    if not mentions:
        return []
    with database.reader() as connection:
        known = chain_starts(connection, seen, list(dict.fromkeys(one.name for one in mentions)))
    named = _longest([one for one in mentions if one.name in known])
    parts = _parts(words, named)
    if not named or not parts:
        return []
    codes = indexes.code(encoder.encode(parts), scale).tobytes()
    starts = list(dict.fromkeys(one.name for one in named))
    with database.reader() as connection:
        if not schema.sees_vectors_of(database, connection, encoder):
            return []  # they were replaced meanwhile
        return hops(connection, seen, starts, Parts(codes, len(parts), encoder.dimension))


def _mentions(words: Sequence[str]) -> Iterator[Mention]:
    """Every run of words that may be a name: it holds a capital or a digit, and is no function word.

    A stop at its end counts as part of the name and as none of it, "of", "the" and quotes inside as they are.
    """
    for first in range(len(words)):
        for end in range(first + 1, min(len(words), first + _MAX_NAME_WORDS) + 1):
            text = " ".join(words[first:end]).lstrip(_OPENING).rstrip(_CLOSING)
            if not any(character.isupper() or character.isdigit() for character in text):
                continue
            owner = _POSSESSIVE.sub("", text).rstrip(_CLOSING)
            for name in dict.fromkeys(fold(form) for form in (text, text.rstrip("."), owner)):
                if name and name not in STOP_WORDS:
                    yield Mention(name, first, end)


def _longest(mentions: Sequence[Mention]) -> list[Mention]:
    """Mentions that lie in no longer one, in the order of the question."""
    kept: list[Mention] = []
    for one in sorted(mentions, key=lambda mention: mention.first - mention.end):
        if all(one.end <= other.first or other.end <= one.first for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda mention: mention.first)


def _parts(words: Sequence[str], named: Sequence[Mention]) -> list[str]:
    """The distinct runs of words that carry meaning, names apart; at most MAX_QUESTION_PARTS."""
    inside = {at for one in named for at in range(one.first, one.end)}
    runs: list[list[str]] = [[]]
    for at, word in enumerate(words):
        if at in inside:
            runs.append([])
            continue
        for token in _WORD.findall(fold(word)):
            if token in STOP_WORDS:
                runs.append([])
            else:
                runs[-1].append(token)
        if word[-1] in _CLOSING:
            runs.append([])
    return list(dict.fromkeys(" ".join(run) for run in runs if run))[: settings.MAX_QUESTION_PARTS]

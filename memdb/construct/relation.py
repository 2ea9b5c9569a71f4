"""What relation a text names: "Ana lives in", "the capital of France", "Ana | lives in"."""

from __future__ import annotations

from typing import Final, TypeAlias

from memdb.construct.triples import triple
from memdb.language.terms import fold
from memdb.records import Triple

Reading: TypeAlias = tuple[str, str | None]

_VALUE: Final = "something"  # stands for the value that is asked for
_MAX_WORDS: Final = 12  # of a text that are split in every way
_MAX_CHARS: Final = 400


def readings(text: str) -> list[Reading]:
    """Holder and slot in every way a text may be read, likeliest first; slot None: whatever the holder has.

    At most the first 400 characters are read.
    """
    text = " ".join(text[:_MAX_CHARS].split()).rstrip("?!.")
    if "|" in text:
        named, _, what = (part.strip() for part in text.partition("|"))
        return [(named, what or None)] if named else []
    words = text.split()[:_MAX_WORDS]
    parsed: list[Triple | None] = []
    if len(words) > 1:
        parsed = [triple(f"{text} {_VALUE}") or triple(f"{text} is {_VALUE}"), triple(text)]
    found: list[Reading] = [(one.subject, one.predicate) for one in parsed if one is not None]
    found += [
        (_without_possessive(" ".join(words[:at])), " ".join(words[at:])) for at in range(1, len(words))
    ]
    if text:
        found.append((text, None))
    distinct: dict[Reading, Reading] = {}
    for holder, slot in found:
        distinct.setdefault((fold(holder), slot and fold(slot)), (holder, slot))
    return list(distinct.values())


def _without_possessive(holder: str) -> str:
    for ending in ("'s", "\u2019s", "'", "\u2019"):
        if len(holder) > len(ending) and holder.endswith(ending):
            return holder[: -len(ending)]
    return holder

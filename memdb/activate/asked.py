"""What a question is asked with, checked before anything is looked up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from memdb import errors, settings
from memdb.activate.retrieve import CHANNELS
from memdb.language.cleaning import storable
from memdb.language.clock import DAY_US, parse_instant
from memdb.records import Moment
from memdb.store import rows


def question_text(question: str) -> str:
    """A question as it can be looked up. Raises `InputError`."""
    if not isinstance(question, str):
        raise errors.InputError(f"a question is text, not {type(question).__name__}", hint="give a str")
    if len(question) > settings.MAX_QUESTION_CHARS:
        raise errors.InputError(
            f"the question has {len(question):,} characters, over {settings.MAX_QUESTION_CHARS:,}",
            hint="shorten it",
        )
    return storable(question)


def count(k: int) -> int:
    """How many pieces of evidence are wanted. Raises `InputError`."""
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= settings.MAX_K:
        raise errors.InputError(f"k is {k!r}", hint=f"ask for 1 to {settings.MAX_K:,} pieces of evidence")
    return k


def reach(neighbours: int) -> int:
    """How many messages on each side come with a piece of evidence. Raises `InputError`."""
    if not isinstance(neighbours, int) or isinstance(neighbours, bool) or neighbours < 0:
        raise errors.InputError(f"neighbours is {neighbours!r}", hint="give a number of messages, from 0")
    return min(neighbours, settings.MAX_NEIGHBOURS)


def depth(wished: int | None) -> int:
    """How many candidates are reranked, RERANK_DEPTH by default. Raises `InputError`."""
    if wished is None:
        return settings.RERANK_DEPTH
    if not isinstance(wished, int) or isinstance(wished, bool) or not 0 <= wished <= settings.MAX_K:
        hint = f"rerank 0 to {settings.MAX_K:,} candidates"
        raise errors.InputError(f"rerank_depth is {wished!r}", hint=hint)
    return wished


def budget(tokens: int) -> int:
    """How many tokens the serialised working memory may have. Raises `InputError`."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise errors.InputError(f"budget_tokens is {tokens!r}", hint="give a number of tokens, from 1")
    return tokens


def cosine(value: float, name: str) -> float:
    """A threshold of likeness. Raises `InputError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise errors.InputError(f"{name} is {value!r}", hint="give a cosine, -1 to 1")
    return float(value)


def one_of(given: str, allowed: Sequence[str], name: str) -> str:
    """A choice by its name. Raises `InputError`."""
    if given not in allowed:
        raise errors.InputError(f"{name} is {given!r}", hint=f"choose from {', '.join(allowed)}")
    return given


def chosen_channels(channels: Sequence[str] | None) -> tuple[str, ...]:
    """The channels to search, all of them by default. Raises `InputError`."""
    if channels is None:
        return CHANNELS
    if isinstance(channels, str) or not isinstance(channels, Iterable):
        raise errors.InputError("channels is not a list", hint=f"choose from {', '.join(CHANNELS)}")
    if strange := [channel for channel in channels if channel not in CHANNELS]:
        raise errors.InputError(f"no channel {strange[0]!r}", hint=f"choose from {', '.join(CHANNELS)}")
    return tuple(channels)


def keys_until(moment: Moment) -> tuple[int, int]:
    """The least and the greatest said_key said by `moment`; a date stands for its end in UTC."""
    instant = parse_instant(moment)
    if instant.utc_us is None:
        return rows.SERIAL_KEY, rows.said_key(instant)
    date_only = isinstance(moment, dt.date) and not isinstance(moment, dt.datetime)
    date_only = date_only or (isinstance(moment, str) and ":" not in moment)
    return rows.EARLIEST_KEY, instant.utc_us + (DAY_US - 1 if date_only else 0)

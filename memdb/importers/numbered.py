"""A numbered list of facts, "12. Ana lives in Porto.": the numbers are the clock by which they were said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from memdb.errors import InputError
from memdb.records import Message

SPEAKER: Final = "facts"
_MAX_DIGITS: Final = 18  # of a number: larger ones do not fit a serial clock
_NUMBERED: Final = re.compile(r"\s*(\d+)[.)](?:\s+(.*))?", re.DOTALL)


def numbered_facts(lines: Iterable[str], speaker: str = SPEAKER) -> Iterator[Message]:
    """Each fact as a message `fact-N`, said at `serial-N`, in the order of the lines.

    A fact is a line `N. text` or `N) text`, kept as it is after the number, with the lines without a number
    that follow it. Lines before the first number are a heading. Numbers may fall and may leave gaps.

    Raises `InputError`, which names the line, for a number that stands twice or is too long, and for a fact
    without text; also for a list without any fact.
    """
    seen: dict[int, int] = {}
    number, began, parts = -1, 0, list[str]()
    for line_no, line in enumerate(lines, 1):
        found = _NUMBERED.fullmatch(line.strip())
        if found is None:
            parts += [line.strip()] if seen and line.strip() else []
            continue
        if seen:
            yield _message(speaker, number, began, parts)
        number, began, parts = _number(found[1], line_no, seen), line_no, [(found[2] or "").strip()]
        seen[number] = line_no
    if not seen:
        raise InputError("holds no numbered fact", hint='a fact is a line "N. text"')
    yield _message(speaker, number, began, parts)


def _number(digits: str, line_no: int, seen: dict[int, int]) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InputError(f"line {line_no}: the number has more than {_MAX_DIGITS} digits")
    number = int(digits)
    if number in seen:
        raise InputError(
            f"line {line_no}: the number {number} stands on line {seen[number]} already",
            hint="numbers are the clock: give each fact its own",
        )
    return number


def _message(speaker: str, number: int, line_no: int, parts: list[str]) -> Message:
    text = " ".join(part for part in parts if part)
    if not text:
        raise InputError(f"line {line_no}: the fact {number} has no text")
    return Message(speaker=speaker, content=text, said_at=f"serial-{number}", id=f"fact-{number}")

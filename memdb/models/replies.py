"""The replies of a backbone: reading the JSON in them, and what they cost."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeVar

import msgspec

from memdb.models.ports import Completion

_FENCE: Final = re.compile(r"\A\s*```[\w-]*\s*\n?|\n?\s*```\s*\Z")
T = TypeVar("T")


class Spent(NamedTuple):
    """Tokens of a backbone."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0

    def plus(self, reply: Completion) -> Spent:
        """With one more reply."""
        return Spent(
            self.prompt + reply.prompt_tokens,
            self.cached + reply.cached_tokens,
            self.completion + reply.completion_tokens,
        )


def read(text: str, shape: type[T], *, cut_off: bool = False) -> tuple[T, str]:
    """A reply as a record, and what of its end was lost when it was cut off at the token limit.

    Repaired once: without a code fence, from its first brace to its last; one that was cut off ends with its
    last whole item. Raises ValueError with what is wrong with it.
    """
    plain = _FENCE.sub("", text)
    start = plain.find("{")
    if start < 0:
        raise ValueError("there is no JSON object in it")
    if cut_off:
        plain, lost = _whole_items(plain[start:])
    else:
        plain, lost = plain[start : plain.rfind("}") + 1], ""
    try:
        return msgspec.json.decode(plain.encode("utf-8", "replace"), type=shape), lost
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _whole_items(text: str) -> tuple[str, str]:
    """A list in JSON that was cut off, up to its last whole item, and closed; and what was left out."""
    open_now: list[str] = []
    whole = 0
    quoted = escaped = False
    for at, character in enumerate(text, 1):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{[":
            open_now.append(character)
        elif character in "}]" and open_now:
            open_now.pop()
            if not open_now:
                return text[:at], ""
            if open_now == ["{", "["]:
                whole = at
    return (text[:whole] + "]}" if whole else text), text[whole:]

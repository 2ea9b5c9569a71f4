"""Regular expressions that are compiled when they are first used: most questions need few of them."""

from __future__ import annotations

import re
from typing import Final, cast

_KEPT: Final = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern")


class _Lazy:
    """Stands for a compiled pattern: takes over its methods at the first use of one."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = re.compile(self._text, self._flags)
        for kept in _KEPT:
            setattr(self, kept, getattr(compiled, kept))
        return getattr(compiled, name)


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, at the first use: what is wrong with `text` is raised then. Safe between threads."""
    return cast("re.Pattern[str]", _Lazy(text, flags))

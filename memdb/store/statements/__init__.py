"""The SQL of memdb by name: each file holds statements headed by `-- name: …`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """All statements by name. Names are unique over all files."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        parts = _HEAD.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"statement {name} stands twice")
            found[name] = text.strip().removesuffix(";")
    return found


def statement(name: str) -> str:
    """The text of one statement."""
    return statements()[name]

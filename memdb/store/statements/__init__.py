"""The SQL of memdb by name: each file holds statements headed by `-- name: …`.

Comments that fill a line are left out: a connection keeps prepared statements of at most 16 KiB of text only.
`{visible_scope}` stands for the one condition by which a scope row is seen, whatever is read.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """All statements by name. Names are unique over all files."""
    found: dict[str, str] = {}
    folder = Path(__file__).parent
    visible = (folder / "visible_scope.fragment").read_text(encoding="utf-8").strip()
    for path in sorted(folder.glob("*.sql")):
        parts = _HEAD.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"statement {name} stands twice")
            bare = _COMMENT.sub("", text).strip().removesuffix(";")
            found[name] = bare.replace("{visible_scope}", visible)
    return found


def statement(name: str) -> str:
    """The text of one statement."""
    return statements()[name]

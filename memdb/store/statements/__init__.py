"""The SQL of memdb by name: each file holds statements headed by `-- name: …`.

Comments that fill a line are left out: a connection keeps prepared statements of at most 16 KiB of text only.
`{visible_scope}` stands for the one condition by which a scope row is seen, whatever is read. `{…}` of
another name stands for what one of two files says under `-- fragment: …`: `*.native.fragments` for a
connection on which memdb0 searches, the other one for vec0 and FTS5 alone. Both find the same.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_FRAGMENT = re.compile(r"^-- fragment: (\w+)$", re.MULTILINE)
_PLACE = re.compile(r"\{([a-z]\w*)\}")


def statements(native: bool = False) -> dict[str, str]:
    """All statements by name, for memdb0 or without it. Names are unique over all files."""
    return {name: statement(name, native) for name in _texts()}


@cache
def _texts() -> dict[str, str]:
    """The statements as they stand in their files."""
    found: dict[str, str] = {}
    for path in sorted(_FOLDER.glob("*.sql")):
        for name, text in _sections(_HEAD, path):
            if name in found:
                raise ValueError(f"statement {name} stands twice")
            found[name] = text
    return found


@cache
def fragments(native: bool = False) -> dict[str, str]:
    """What stands for `{name}` in a statement."""
    found = {"visible_scope": (_FOLDER / "visible_scope.fragment").read_text(encoding="utf-8").strip()}
    for path in sorted(_FOLDER.glob("*.fragments")):
        if path.name.endswith(".native.fragments") == native:
            for name, text in _sections(_FRAGMENT, path):
                found[name] = _filled(_COMMENT.sub("", text).strip(), found)
    return found


def statement(name: str, native: object = False) -> str:
    """The text of one statement; `native`: whether memdb0 searches on the connection that is to run it."""
    return _statement(name, bool(native))


@cache
def _statement(name: str, native: bool) -> str:
    text = _COMMENT.sub("", _texts()[name]).strip().removesuffix(";")
    return _filled(text, fragments(native)) if "{" in text else text


def _sections(head: re.Pattern[str], path: Path) -> list[tuple[str, str]]:
    parts = head.split(path.read_text(encoding="utf-8"))
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _filled(text: str, parts: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: parts[place[1]], text)

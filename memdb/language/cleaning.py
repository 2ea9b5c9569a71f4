"""Text as it may be stored, and as it may stand on one line of a prompt."""

from __future__ import annotations


def storable(text: str) -> str:
    """`text` as SQLite holds it: lone surrogates become U+FFFD, NUL (where C ends a string) U+2400."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\u2400")


def cleaned(text: str | None) -> str:
    """Text on one line, without control characters, so that no message can pose as another line."""
    visible = "".join(c if c.isprintable() else " " for c in storable(text or ""))
    return " ".join(visible.split())

"""Text from a memory as it may be shown: it was written by anybody, and a terminal obeys what it reads."""

from __future__ import annotations

import codecs
import json
import re
import sys
from typing import Final, TextIO

import msgspec

# A string sequence ends at the next control character, so that no input makes the search quadratic.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC: title, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# What Unicode calls default ignorable, with the annotation marks: it hides text, splits a word unseen or
# shows text in another order than it has. Both joiners, U+200C and U+200D, stay: Persian and emoji need them.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HARMFUL: Final = re.compile(f"[\x00-\x08\x0e-\x1f\x7f-\x9f{_INVISIBLE}]")
_ESCAPED: Final = re.compile(f"[\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def block(text: str) -> str:
    r"""`text` without what a terminal would obey; line ends of every kind are `\n`."""
    if text.isascii() and text.isprintable():
        return text
    visible = _HARMFUL.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))
    return _SURROGATE.sub("\ufffd", visible)


def line(text: object) -> str:
    """The same on one line."""
    return re.sub(r"[\n\t]+", " ", block(str(text)))


def as_json(value: object, *, indent: int | None = 2) -> str:
    r"""JSON of records: harmful characters as `\u` escapes, and all but ASCII where stdout is not UTF-8."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=not is_utf8(sys.stdout), indent=indent)
    return _ESCAPED.sub(_escape, text)


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream can show any text."""
    return codecs.lookup(stream.encoding or "ascii").name.startswith("utf")


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]

"""A backbone's JSON reply, `reasoning_path` and `answer`, whole or while it is being written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from memdb.errors import ModelError
from memdb.language.patterns import lazy
from memdb.models.ports import Completion, valid_unicode

_ANSWER: Final = lazy(r'"answer"\s*:\s*"')
_OPENING: Final = lazy(r"\{")
_OBJECT_BEGINS: Final = lazy(r"\s*(?:```\w{0,12}\s*)?\{")
_HEX: Final = lazy(r"[0-9a-fA-F]{4}")
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNSHOWN: Final = lazy("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOST_STARTS: Final = 64  # braces that are tried from the end


class Reply(NamedTuple):
    """What a backbone answered, and by which reason."""

    answer: str
    reasoning_path: str


def read_reply(completion: Completion) -> Reply:
    """The last JSON object with an answer; of a reply that has none, the whole text is the answer (A8).

    An answer that is null is empty, one that is a list its items. Of a reply that was cut off, the answer is
    as much as was written of it. Raises ModelError for one that was cut off before its answer began.
    """
    found = _last_object(completion.text)
    if found is not None:
        return found
    written = AnswerText()
    text = written.feed(completion.text)
    if written.begun:
        return Reply(shown(text), "")
    if completion.finish == "length" and _OBJECT_BEGINS.match(completion.text):
        hint = "take a model that keeps to the format, or one with a larger context"
        raise ModelError("the model's reply was cut off before its answer began", hint=hint)
    return Reply(shown(completion.text), "")


def shown(text: str) -> str:
    """A model's text without control characters, lines apart: it may repeat what a stranger wrote."""
    return _UNSHOWN.sub("", valid_unicode(text)).strip()


def _last_object(text: str) -> Reply | None:
    decoder = json.JSONDecoder()
    starts = [match.start() for match in _OPENING.finditer(text)]
    last, end = None, 0
    for start in starts[-_MOST_STARTS:]:
        if start < end:  # inside an object that was read
            continue
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and (answer := _as_text(found.get("answer", {}))) is not None:
            last = Reply(answer, _as_text(found.get("reasoning_path")) or "")
    return last


def _as_text(value: object) -> str | None:
    """A value as one text; None for an object."""
    match value:
        case None:
            return ""
        case str():
            return shown(value)
        case int() | float():
            return str(value)
        case list():
            parts = [_as_text(one) for one in value]
            return ", ".join(part for part in parts if part)
        case _:
            return None


class AnswerText:
    """The string `answer` of a JSON object, decoded piece by piece as the object is written."""

    def __init__(self) -> None:
        self._left = ""
        self._high = ""  # the first half of a surrogate pair
        self.begun = False
        self._ended = False

    def feed(self, piece: str) -> str:
        """The part of the answer that `piece` completes."""
        if self._ended:
            return ""
        self._left += piece
        if not self.begun:
            opening = _ANSWER.search(self._left)
            if opening is None:
                return ""
            self.begun, self._left = True, self._left[opening.end() :]
        return self._decoded()

    def _decoded(self) -> str:
        text, at, out = self._left, 0, list[str]()
        while at < len(text):
            if text[at] == '"':
                out.append(self._paired(""))
                self._ended = True
                break
            if text[at] != "\\":
                out.append(self._paired(text[at]))
                at += 1
                continue
            length = 6 if text[at + 1 : at + 2] == "u" else 2
            if at + length > len(text):
                break
            out.append(self._escaped(text[at + 1 : at + length]))
            at += length
        self._left = text[at:]
        return "".join(out)

    def _escaped(self, code: str) -> str:
        if code[0] != "u":
            return self._paired(_ESCAPES.get(code, code))
        return self._paired(chr(int(code[1:], 16)) if _HEX.fullmatch(code[1:]) else "\ufffd")

    def _paired(self, unit: str) -> str:
        """The character after a first half of a pair that may wait; a half alone is U+FFFD."""
        waiting, self._high = self._high, unit if "\ud800" <= unit < "\udc00" else ""
        return valid_unicode(waiting + ("" if self._high else unit))


def telling(on_answer: Callable[[str], None]) -> Callable[[str], None]:
    """What a backbone is to tell its text to, so that `on_answer` is told the answer in it alone."""
    written = AnswerText()

    def on_text(piece: str) -> None:
        if text := _UNSHOWN.sub("", written.feed(piece)):
            on_answer(text)

    return on_text

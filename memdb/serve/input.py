"""Messages out of JSON: a document, which is taken whole or not at all, or JSON Lines, one message a line. Or
out of a numbered list of facts, which is taken like a document.

Every message is checked here, where its place in the input is known.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from memdb.construct.admit import admit, name
from memdb.errors import InputError, MessageError
from memdb.importers.numbered import numbered_facts
from memdb.records import Message
from memdb.serve.streams import reason

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
HEAD_BYTES: Final = 4_096  # of an input, with a NUL in which it is no text
MAX_LINE_CHARS: Final = 16_000_000  # of JSON Lines: the longest content and caption, most of it escaped
LINES_SUFFIXES: Final = (".jsonl", ".ndjson")
MESSAGE_FIELDS: Final = Message.__struct_fields__
SHAPES: Final = 'give an array of messages, {"session": …, "messages": […]}, {"sessions": […]} or JSON Lines'

_NUMBERED: Final = re.compile(r"\s*\d{1,18}[.)]\s")  # the start of a fact, not of JSON
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
_GOES_ON: Final = ("{", "[", ",", ":")  # ends of a line after which a JSON document has more
_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}


class Given(NamedTuple):
    """A message that can be stored, and the session it names."""

    session: str | None
    message: Message


class Refused(NamedTuple):
    """A part of an input that cannot be used: `whole` when nothing of the input was."""

    where: str
    reason: str
    hint: str
    whole: bool


class Input:
    """An open input. `size` is in bytes, None when nobody knows."""

    def __init__(
        self,
        name: str,
        raw: BinaryIO,
        *,
        size: int | None = None,
        ignore_unknown: bool = False,
        form: str = "json",
    ) -> None:
        self.name = name
        self.size = size
        self._raw = raw
        self._text = _decoded(name, raw)
        self._ignore_unknown = ignore_unknown
        self._form = form

    def position(self) -> int:
        """How many bytes have been read, 0 when nobody knows the size."""
        return 0 if self.size is None else self._raw.tell()

    def items(self) -> Iterator[Given | Refused]:
        """What the input holds, in order."""
        if self._form == "facts":
            yield from self._facts()
            return
        number, head = self._first_line()
        if _is_document(self.name, head):
            yield from self._document("\n" * (number - 1) + head + self._text.read())
        elif head:
            yield from self._lines(number, head)

    def _facts(self) -> Iterator[Given | Refused]:
        try:
            given = [self._fact(message) for message in numbered_facts(self._text_lines())]
        except InputError as error:
            yield Refused(self.name, error.message, error.hint, whole=True)
        else:
            yield from given

    def _text_lines(self) -> Iterator[str]:
        number = 0
        while line := self._text.readline(MAX_LINE_CHARS + 1):
            number += 1
            try:
                self._complete(line)
                _require_utf8(line)
            except InputError as error:
                raise InputError(f"line {number}: {error.message}", hint=error.hint) from error
            yield line

    def _fact(self, message: Message) -> Given:
        try:
            admit([message])
        except MessageError as error:
            reason = error.message.removeprefix(f"message {error.position}: ")
            raise InputError(f"{message.id}: {reason}", hint=error.hint) from error
        return Given(None, message)

    def detach(self) -> None:
        """Leave the bytes' stream open for whoever owns it."""
        self._text.detach()

    def _first_line(self) -> tuple[int, str]:
        """The first line that is not blank, with its number; an empty one at the end."""
        number = 1
        while (head := self._text.readline(MAX_LINE_CHARS + 1)) and not head.strip():
            number += 1
        return number, head

    def _document(self, text: str) -> Iterator[Given | Refused]:
        try:
            given = [self._checked(*found) for found in _flat(_parse(text))]
        except InputError as error:
            yield Refused(self.name, error.message, error.hint, whole=True)
        else:
            yield from given

    def _lines(self, number: int, line: str) -> Iterator[Given | Refused]:
        while line:
            try:
                if line.strip():
                    yield self._checked("", None, _parse(self._complete(line)))
            except InputError as error:
                yield Refused(f"{self.name}: line {number}", error.message, error.hint, whole=False)
            number += 1
            line = self._text.readline(MAX_LINE_CHARS + 1)

    def _complete(self, line: str) -> str:
        """The line, read to its end. Raises `InputError` for one too long to be a message."""
        if len(line) <= MAX_LINE_CHARS:
            return line
        while line and not line.endswith("\n"):
            line = self._text.readline(MAX_LINE_CHARS)
        raise InputError(f"is longer than {MAX_LINE_CHARS:,} characters")

    def _checked(self, place: str, session: object, found: object) -> Given:
        try:
            return self._given(session, found)
        except InputError as error:
            reason = error.message
            if isinstance(error, MessageError):
                reason = reason.removeprefix(f"message {error.position}: ")
            raise InputError(f"{place}: {reason}" if place else reason, hint=error.hint) from error

    def _given(self, session: object, found: object) -> Given:
        if not isinstance(found, dict):
            raise InputError("is not a message", hint='a message is {"speaker": …, "content": …}')
        self._refuse_unknown(found.keys() - {*MESSAGE_FIELDS, "session"})
        fields: dict[str, Any] = {field: found.get(field) for field in MESSAGE_FIELDS}
        message = Message(**fields)
        admit([message])
        named: Any = found.get("session", session)
        return Given(name(named, "session"), message)

    def _refuse_unknown(self, unknown: set[str]) -> None:
        if unknown and not self._ignore_unknown:
            raise InputError(
                f"unknown field {min(unknown)!r}",
                hint=f"the fields are {', '.join(MESSAGE_FIELDS)}; --ignore-unknown leaves others out",
            )


@contextmanager
def opened(path: str, *, ignore_unknown: bool, form: str = "json") -> Iterator[Input]:
    """An input by its path, `-` for standard input. Raises `InputError` when it cannot be opened."""
    if path == STDIN:
        with readable(STDIN_NAME, hint="pipe a JSON file in, or name one"):
            given = Input(STDIN_NAME, sys.stdin.buffer, ignore_unknown=ignore_unknown, form=form)
            try:
                yield given
            finally:
                given.detach()
        return
    with readable(path, hint="give a JSON file, or - for standard input"), Path(path).open("rb") as raw:
        size = os.fstat(raw.fileno()).st_size or None
        yield Input(path, raw, size=size, ignore_unknown=ignore_unknown, form=form)


@contextmanager
def readable(name: str, *, hint: str) -> Iterator[None]:
    """Within, an input that the operating system does not let be opened or read raises `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: {reason(error)}", hint=hint) from error


def _decoded(name: str, raw: BinaryIO) -> io.TextIOWrapper:
    """UTF-8, or UTF-16 with a mark. Bytes that are not UTF-8 stay apart: their line is refused.

    Raises `InputError` for what is no text at all, such as a memory file.
    """
    reader = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
    head = reader.peek(HEAD_BYTES)[:HEAD_BYTES]
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise InputError(f"{name}: is not text", hint="give JSON, saved as UTF-8")
    errors = "replace" if encoding == "utf-16" else "surrogateescape"
    return io.TextIOWrapper(reader, encoding=encoding, errors=errors, newline="\n")


def _is_document(name: str, head: str) -> bool:
    """Whether an input that begins with this line is one JSON document, rather than JSON Lines."""
    start = head.lstrip()[:1]
    if name.lower().endswith(LINES_SUFFIXES) or start not in ("[", "{"):
        return False
    if start == "[" or len(head) > MAX_LINE_CHARS:
        return True
    try:
        found = _parse(head)
    except InputError:
        return head.rstrip().endswith(_GOES_ON)
    return isinstance(found, dict) and not found.keys().isdisjoint({"messages", "sessions"})


def _require_utf8(text: str) -> None:
    if _NOT_UTF8.search(text):
        raise InputError("is not UTF-8", hint="save it as UTF-8")


def _parse(text: str) -> object:
    _require_utf8(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = (
            f"line {error.lineno}, column {error.colno}" if "\n" in text.rstrip() else f"column {error.colno}"
        )
        hint = "for a numbered list of facts say --format facts" if _NUMBERED.match(text) else ""
        raise InputError(f"is not JSON: {error.msg.removesuffix(' at')} at {place}", hint=hint) from error
    except RecursionError as error:
        raise InputError("is not JSON that can be read: it is nested too deep") from error
    except ValueError as error:  # Python's bound on the digits of a whole number
        raise InputError("is not JSON that can be read: a number in it has too many digits") from error


def _flat(document: object) -> Iterator[tuple[str, object, object]]:
    """Every message of a document, as (where it is, the session around it, what was found)."""
    match document:
        case {"sessions": list(sessions)}:
            for index, session in enumerate(sessions):
                yield from _session(f"$.sessions[{index}]", session)
        case {"messages": _}:
            yield from _session("$", document)
        case list(items):
            for index, item in enumerate(items):
                if isinstance(item, dict) and "messages" in item:
                    yield from _session(f"$[{index}]", item)
                else:
                    yield f"$[{index}]", None, item
        case _:
            raise InputError("holds no messages", hint=SHAPES)


def _session(place: str, session: object) -> Iterator[tuple[str, object, object]]:
    if not isinstance(session, dict) or not isinstance(session.get("messages"), list):
        raise InputError(f"{place}: is not a session", hint=SHAPES)
    for index, message in enumerate(session["messages"]):
        yield f"{place}.messages[{index}]", session.get("session"), message

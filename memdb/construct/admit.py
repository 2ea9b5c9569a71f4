"""What may enter a memory: each message is checked before anything is planned or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from memdb import errors, settings
from memdb.language.cleaning import storable
from memdb.language.clock import parse_instant
from memdb.records import Instant, Message, Scope

EVERYONE = "*"


class Admitted(NamedTuple):
    """A message that can be stored, with its clock reading parsed."""

    message: Message
    instant: Instant | None


def admit(messages: Iterable[Message], first: int = 0) -> list[Admitted]:
    """Check every message of a batch whose first message is at position `first` of what was given.

    Raises `MessageError` naming the position and the field of the first one that cannot be stored.
    """
    return [_admit_one(message, position) for position, message in enumerate(messages, first)]


def batches(messages: Iterable[Message]) -> Iterator[Sequence[Message]]:
    """A list or tuple whole; any other iterable, a stream, by ADD_BATCH_MESSAGES. Raises `InputError`."""
    if isinstance(messages, Message | str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise errors.InputError(
            f"add takes several messages, not a {type(messages).__name__}", hint="give a list of Message"
        )
    if isinstance(messages, Sequence):
        if messages:
            yield messages
        return
    stream = iter(messages)
    while batch := list(islice(stream, settings.ADD_BATCH_MESSAGES)):
        yield batch


def scope_of(given: Scope | str) -> Scope | None:
    """A scope from what the caller gave, None for everyone. Raises `ScopeError`."""
    if isinstance(given, str):
        return None if given == EVERYONE else Scope(user=name(given, "scope"))
    if not isinstance(given, Scope):
        raise errors.ScopeError(
            f"a scope is not a {type(given).__name__}", hint="give a memdb.Scope or a user's name"
        )
    return Scope(name(given.user, "user"), name(given.agent, "agent"), name(given.run, "run"))


def within(own: Scope | None, scope: Scope | None) -> Scope | None:
    """The scope, if a memory whose own one is `own` may see it. Raises `ScopeError`."""
    if own is None or own == Scope():
        return scope
    if scope is not None and all(
        mine is None or mine == asked for mine, asked in zip(_parts(own), _parts(scope), strict=True)
    ):
        return scope
    raise errors.ScopeError(
        "the scope is outside the memory's own", hint="open the memory with a wider scope"
    )


def _parts(scope: Scope) -> tuple[str | None, str | None, str | None]:
    return scope.user, scope.agent, scope.run


def name(value: str | None, what: str) -> str | None:
    """A name (session, source, scope part) as it can be stored. Raises `InputError`."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise errors.InputError(
            f"{what} must be a text that is not empty", hint=f"leave {what} out, or name it"
        )
    if len(value) > settings.MAX_NAME_CHARS:
        raise errors.InputError(
            f"{what} is longer than {settings.MAX_NAME_CHARS} characters", hint="shorten it"
        )
    if storable(value) != value:
        raise errors.InputError(f"{what} holds a NUL or half a surrogate pair", hint="give another name")
    return value


def _admit_one(message: Message, position: int) -> Admitted:
    if not isinstance(message, Message):
        raise errors.MessageError(
            f"is a {type(message).__name__}", position=position, hint="give memdb.Message objects"
        )
    if not isinstance(message.content, str):
        raise errors.MessageError("content is not a text", position=position, hint="give content as str")
    if len(message.content) > settings.MAX_CONTENT_CHARS:
        raise errors.MessageError(
            f"content has {len(message.content):,} characters, over {settings.MAX_CONTENT_CHARS:,}",
            position=position,
            hint="split it into several messages",
        )
    texts = {"speaker": message.speaker, "id": message.id, "role": message.role, "location": message.location}
    for field, value in texts.items():
        _check_name(field, value, position)
    if not isinstance(message.image_caption, str | None):
        raise errors.MessageError("image_caption is not a text", position=position, hint="give a str or None")
    if len(message.image_caption or "") > settings.MAX_CONTENT_CHARS:
        raise errors.MessageError(
            f"image_caption has over {settings.MAX_CONTENT_CHARS:,} characters",
            position=position,
            hint="shorten it",
        )
    if message.id is not None and storable(message.id) != message.id:
        raise errors.MessageError(
            "id holds a NUL or half a surrogate pair", position=position, hint="give another id"
        )
    return Admitted(_stored_form(message), _instant(message, position))


def _check_name(field: str, value: str | None, position: int) -> None:
    if value is None and field != "speaker":
        return
    if not isinstance(value, str) or (not value and field in ("speaker", "id")):
        raise errors.MessageError(
            f"{field} is missing or not a text", position=position, hint=f"name the {field}"
        )
    if len(value) > settings.MAX_NAME_CHARS:
        raise errors.MessageError(
            f"{field} is longer than {settings.MAX_NAME_CHARS:,} characters",
            position=position,
            hint="shorten it",
        )


def _stored_form(message: Message) -> Message:
    return Message(
        speaker=storable(message.speaker),
        content=storable(message.content),
        said_at=message.said_at,
        id=message.id and storable(message.id),
        role=message.role and storable(message.role),
        image_caption=message.image_caption and storable(message.image_caption),
        location=message.location and storable(message.location),
    )


def _instant(message: Message, position: int) -> Instant | None:
    if message.said_at is None:
        return None
    try:
        return parse_instant(message.said_at)
    except errors.TimeError as error:
        raise errors.MessageError(f"said_at: {error.message}", position=position, hint=error.hint) from error


def named(source: str, session: str) -> tuple[str, str]:
    """The source and the session's name as they are stored. Raises InputError."""
    if not isinstance(source, str) or not isinstance(session, str):
        raise errors.InputError("session and source are texts", hint="give a str")
    return name(source or None, "source") or "", name(session, "session") or ""

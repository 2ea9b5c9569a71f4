"""Every error memdb raises.

MemdbError
├── InputError            what the caller gave cannot be used
│   ├── MessageError      a message: which one, which field
│   ├── TimeError         a clock reading or a date
│   └── ScopeError        a scope that is missing, or wider than the memory's own
├── FileError             the memory file
│   ├── CannotOpen        no such file, no permission, no such folder
│   ├── NotAMemory        a file, but not one of ours
│   ├── NewerFormat       made by a later memdb
│   ├── Damaged           fails SQLite's checks or ours
│   ├── ReadOnly          a write to a memory opened for reading
│   ├── Locked            another process is writing; trying again can help
│   ├── StorageFailed     disk full, I/O error: nothing of the write was kept
│   └── Closed            the memory was closed
└── ModelError            an encoder, a reranker, a backbone
    ├── ModelNotFound     no files under that name
    ├── ModelDamaged      the files are not those the card names
    └── ModelUnavailable  cannot be reached, or refuses to serve; trying again can help
"""

from __future__ import annotations


class MemdbWarning(UserWarning):
    """Something the caller should know of, that did not stop memdb."""


class MemdbError(Exception):
    """Something memdb could not do: what happened, what to do next, and whether trying again can help."""

    def __init__(self, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(MemdbError):
    """What the caller gave cannot be used."""


class MessageError(InputError):
    """A message cannot be stored; `position` counts from 0 in the list that was given."""

    def __init__(self, message: str, *, position: int, hint: str = "") -> None:
        super().__init__(f"message {position}: {message}", hint=hint)
        self.position = position


class TimeError(InputError):
    """A text is not a clock reading memdb knows."""


class ScopeError(InputError):
    """A scope is missing, ambiguous, or wider than the memory's own."""


class FileError(MemdbError):
    """The memory file cannot be used as asked."""


class CannotOpen(FileError):
    """The file cannot be opened or created at this path."""


class NotAMemory(FileError):
    """The file is not a memory file."""


class NewerFormat(FileError):
    """The file was made by a later version of memdb."""


class Damaged(FileError):
    """The file fails an integrity check."""


class ReadOnly(FileError):
    """The memory was opened for reading."""


class Locked(FileError):
    """Another process holds the write lock longer than the busy timeout."""


class StorageFailed(FileError):
    """The operating system refused a read or a write; nothing of the operation was kept."""


class Closed(FileError):
    """The memory was closed."""


class ModelError(MemdbError):
    """A model cannot be loaded or run."""


class ModelNotFound(ModelError):
    """No model files under that name."""


class ModelDamaged(ModelError):
    """A model file is not the one its card names."""


class ModelUnavailable(ModelError):
    """A model cannot be reached, or refuses to serve."""

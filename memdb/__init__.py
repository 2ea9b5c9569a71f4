"""Long-term memory for assistants in one SQLite file.

    with memdb.open("ana.memdb") as memory:
        memory.add([memdb.Message("Ana", "I went to the hospital yesterday.", "2026-01-20T09:12+01:00")])
        for evidence in memory.recall("When was Ana at the hospital?"):
            print(evidence.rank, evidence.text, evidence.source)

What needs SQLite or numpy is loaded at its first use, so that `memdb --help` starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from memdb.errors import (
    CannotOpen,
    Damaged,
    FileError,
    InputError,
    Locked,
    MemdbError,
    MessageError,
    ModelError,
    ReadOnly,
    ScopeError,
)
from memdb.records import (
    Added,
    Answer,
    Built,
    Evidence,
    Interval,
    Message,
    Scope,
    Trace,
    Unit,
    Verification,
    Window,
    WorkingMemory,
)
from memdb.version import __version__

if TYPE_CHECKING:
    from memdb.activate.retrieve import CHANNELS
    from memdb.memory import Memory
    from memdb.models.registry import load_backbone
    from memdb.opening import open

__all__ = [
    "Added",
    "Answer",
    "Built",
    "CHANNELS",
    "CannotOpen",
    "Damaged",
    "Evidence",
    "FileError",
    "InputError",
    "Interval",
    "Locked",
    "MemdbError",
    "Memory",
    "Message",
    "MessageError",
    "ModelError",
    "ReadOnly",
    "Scope",
    "ScopeError",
    "Trace",
    "Unit",
    "Verification",
    "Window",
    "WorkingMemory",
    "__version__",
    "load_backbone",
    "open",
]

_LATE = {
    "CHANNELS": "memdb.activate.retrieve",
    "Memory": "memdb.memory",
    "load_backbone": "memdb.models.registry",
    "open": "memdb.opening",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'memdb' has no attribute {name!r}")
    value: object = getattr(import_module(_LATE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

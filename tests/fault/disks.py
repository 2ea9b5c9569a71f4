"""Disks that fail: SQLite VFSs in Python over the real one.

`FailingDisk` refuses the n-th write, sync, truncation or deletion. `ForgetfulDisk` remembers what was not
synced, so that a power loss after any operation can be played: unsynced writes are kept, lost, or torn at 512
bytes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

TORN_BYTES = 512


class FailingDisk(apsw.VFS):
    """Counts changes of files and fails the one numbered `fail_at`; if `for_good`, all after it too.

    A sync that does not fail does nothing: what counts here is what the operating system was given.
    """

    def __init__(self, name: str, error: type[apsw.Error], for_good: bool) -> None:
        super().__init__(name, "")
        self.error = error
        self.fail_at = 0
        self.for_good = for_good
        self.changes = 0

    def arm(self, fail_at: int) -> None:
        """Fail that change, counted from now; 0 for none."""
        self.changes, self.fail_at = 0, fail_at

    @property
    def failed(self) -> bool:
        """Whether the armed failure happened."""
        return 0 < self.fail_at <= self.changes

    def change(self, what: str) -> None:
        self.changes += 1
        if self.fail_at and (self.changes == self.fail_at or (self.for_good and self.failed)):
            raise self.error(f"the disk refused a {what}")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FailingFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self.change("deletion")
        super().xDelete(name, sync)


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.change("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.disk.change("sync")

    def xTruncate(self, size: int) -> None:
        self.disk.change("truncation")
        super().xTruncate(size)


class ForgetfulDisk(apsw.VFS):
    """Keeps of each file what is durable and what was only written, and calls `after` with each change."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, "")
        self.folder = folder
        self.durable: dict[str, bytes] = {}
        self.pending: dict[str, list[tuple[int, bytes | None]]] = {}
        self.after: Any = lambda: None

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _ForgetfulFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self.durable.pop(os.path.basename(name), None)
        self.pending.pop(os.path.basename(name), None)

    def states(self, seed: int) -> Iterator[dict[str, bytes]]:
        """What the disk may hold after a power loss now: nothing, all, and some of what was not synced."""
        dice = random.Random(seed)
        for chance in (0.0, 1.0, 0.5):
            yield {
                name: _played(self.durable.get(name, b""), pending, dice, chance)
                for name, pending in self.pending.items()
            }


def _played(
    content: bytes, pending: list[tuple[int, bytes | None]], dice: random.Random, chance: float
) -> bytes:
    bytes_ = bytearray(content)
    for offset, data in pending:
        if data is None:
            if dice.random() < chance:
                del bytes_[offset:]
            continue
        for start in range(0, len(data), TORN_BYTES):
            if dice.random() < chance:
                _write(bytes_, offset + start, data[start : start + TORN_BYTES])
    return bytes(bytes_)


def _write(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(b"\0" * (offset - len(content)))
    content[offset : offset + len(data)] = data


class _ForgetfulFile(apsw.VFSFile):
    def __init__(self, disk: ForgetfulDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.key = os.path.basename(path) if path else ""
        if self.key:
            disk.durable.setdefault(self.key, b"")
            disk.pending.setdefault(self.key, [])

    def _changed(self, offset: int, data: bytes | None) -> None:
        if self.key:
            self.disk.pending[self.key].append((offset, data))
            self.disk.after()

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._changed(offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._changed(size, None)

    def xSync(self, flags: int) -> None:
        if self.key:
            pending = self.disk.pending[self.key]
            self.disk.durable[self.key] = _played(self.disk.durable[self.key], pending, random.Random(0), 1.0)
            pending.clear()

"""An assistant that remembers, a line at a time: each user sees their own memory, all in one file.

    python examples/assistant.py notes.memdb ana

A line that ends with a question mark is answered from the memory, every other line is remembered.
"""

from __future__ import annotations

import sys
from datetime import datetime

import memdb


def main(path: str, user: str) -> None:
    """Talk until the input ends."""
    with memdb.open(path, scope=memdb.Scope(user=user)) as memory:
        for line in map(str.strip, sys.stdin):
            now = datetime.now().astimezone()
            if line.endswith("?"):
                for evidence in memory.recall(line, k=3, at=now):
                    print(f"{evidence.rank}. {evidence.said_at}: {evidence.text}")
            elif line:
                memory.add(
                    [memdb.Message(speaker=user, content=line, said_at=now)], session=f"{now:%Y-%m-%d}"
                )
                print("I will remember that.")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Give a memory a few months of chat, ask it questions, and check that the right message comes first.

Run it with `make demo`, or `python examples/demo.py` where memdb is installed. Exits with 1 if one does not.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

import memdb

HERE = Path(__file__).parent


def read(name: str) -> Any:
    """A JSON file beside this program."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def fill(memory: memdb.Memory) -> memdb.Added:
    """Add every session of the chat; the last thing added."""
    added = memdb.Added(session="", ids=())
    for session in read("ana.json")["sessions"]:
        messages = [memdb.Message(**message) for message in session["messages"]]
        added = memory.add(messages, session=session["session"])
    return added


def ask(memory: memdb.Memory, question: str, expected: list[str], out: TextIO) -> bool:
    """Ask, print the best evidence, and say whether it is one of the expected messages."""
    found = memory.recall(question, k=3)
    first = found[0].source[0].id if len(found) else None
    right = first in expected
    print(f"\n{question}", file=out)
    for evidence in found:
        days = ", ".join(f"{time.start} to {time.end}" for time in evidence.fact_time)
        about = f"   (about {days})" if days else ""
        mark = ("ok" if right else "WRONG") if evidence.rank == 1 else ""
        said = str(evidence.said_at)[:10]
        print(f"{mark:>6} {evidence.rank}. {said} {evidence.speaker}: {evidence.text}{about}", file=out)
    if not right:
        print(f"       expected {', '.join(expected)}, found {first}", file=out)
    return right


def main() -> int:
    """Run the demonstration; the exit code."""
    if isinstance(sys.stdout, TextIO) or hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, memdb.open(Path(folder) / "ana.memdb") as memory:
        opened = time.perf_counter()
        fill(memory)
        added = time.perf_counter()
        questions = read("questions.json")
        right = [ask(memory, one["question"], one["expected"], sys.stdout) for one in questions]
        asked = time.perf_counter()
        messages = sum(session.messages for session in memory.sessions())
    print(f"\n{sum(right)} of {len(right)} questions found the right message first.")
    print(
        f"Opened in {opened - start:.2f} s, added {messages} messages in {added - opened:.2f} s, "
        f"asked in {(asked - added) / len(right) * 1000:.0f} ms each."
    )
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())

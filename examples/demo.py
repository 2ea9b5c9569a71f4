"""Give a memory a few months of chat, ask it questions, and check that the right message comes first.

Run it with `make demo`, or `python examples/demo.py` where memdb is installed. With `make demo LLM=FILE` a
local language model answers too (`pip install 'memdb-engine[llm]'`). Exits with 1 if a message does not
come first.
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
ANSWERED = ("When was Ana at the hospital?", "Who is Ana's favourite player now?", "What is Ana's shoe size?")


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


def answer(memory: memdb.Memory, question: str, out: TextIO) -> None:
    """Print an answer and the messages it rests on."""
    told = memory.ask(question)
    print(f"\n{question}\n    {told.text}", file=out)
    for citation in told.citations:
        for message in citation.source:
            print(
                f"    {citation.label}: {str(message.said_at)[:10]} {message.speaker}: {message.content}",
                file=out,
            )


def main(llm: str | None = None) -> int:
    """Run the demonstration; the exit code."""
    if isinstance(sys.stdout, TextIO) or hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, memdb.open(file := Path(folder) / "ana.memdb") as memory:
        opened = time.perf_counter()
        fill(memory)
        added = time.perf_counter()
        questions = read("questions.json")
        right = [ask(memory, one["question"], one["expected"], sys.stdout) for one in questions]
        asked = time.perf_counter()
        messages = sum(session.messages for session in memory.sessions())
        print("\nAnswered without a language model:")
        for question in ANSWERED:
            answer(memory, question, sys.stdout)
        if llm is not None:
            backbone = memdb.load_backbone(llm)
            print(f"\nAnswered by {backbone.name}:")
            with memdb.open(file, backbone=backbone) as memory_with_model:
                answer(memory_with_model, ANSWERED[0], sys.stdout)
            backbone.close()
    print(f"\n{sum(right)} of {len(right)} questions found the right message first.")
    print(
        f"Opened in {opened - start:.2f} s, added {messages} messages in {added - opened:.2f} s, "
        f"asked in {(asked - added) / len(right) * 1000:.0f} ms each."
    )
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

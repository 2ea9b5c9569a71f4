"""`python -m benchmarks.speed add --data DIR`: what adding costs, on the messages of LoCoMo."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from ..quality.data import find_files
from ..quality.locomo import PATTERN, load
from . import add


def main() -> None:
    """Read the options, measure, print one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("name", choices=["add"])
    parser.add_argument("--data", type=Path, help="folder with LoCoMo conversations (default: MEMDB_DATA)")
    parser.add_argument("--messages", type=int, default=100_000)
    chosen = parser.parse_args()
    conversations = load(find_files("locomo", PATTERN, chosen.data))
    texts = [
        (m.speaker, m.content) for c in conversations for session in c.sessions for m in session.messages
    ]
    print(msgspec.json.format(msgspec.json.encode(add.measure(texts, chosen.messages))).decode())


if __name__ == "__main__":
    main()

"""A build by a real language model, killed again and again, ends in the rows of one that was not.

`MEMDB_GGUF` names the model's file; SmolLM2-135M-Instruct is small enough. `MEMDB_KILLS` says how often (3).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memdb
from memdb.records import Message
from tests.scripted import everything

MODEL = os.environ.get("MEMDB_GGUF", "")
KILLS = int(os.environ.get("MEMDB_KILLS", "3"))
LINES = [
    ("Ana", "I moved to Rome last month, and I work at the harbour museum now."),
    ("Ben", "Lovely! Is your dog with you?"),
    ("Ana", "Yes, Salt is here. He is a beagle, and he is four years old."),
    ("Ben", "My sister Clara lives in Rome too. She teaches chemistry."),
    ("Ana", "Then let us meet. I like the market in Testaccio."),
    ("Ben", "I am coming on 3 May with two friends from work."),
    ("Ana", "I have a spare room, and my favourite bakery is next door."),
    ("Ben", "I am allergic to nuts, do not forget it."),
    ("Ana", "I bought a red bicycle yesterday."),
    ("Ben", "I sold mine and took up swimming."),
]


def command(path: Path) -> list[str]:
    return [sys.executable, "-m", "memdb", "build", str(path), "--llm", MODEL, "--threads", "1"]


@pytest.mark.skipif(not MODEL, reason="MEMDB_GGUF names no model")
def test_a_build_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken.memdb", tmp_path / "broken.memdb"
    with memdb.open(unbroken) as memory:
        said = [Message(who, text, f"2023-04-{n:02d}", str(n)) for n, (who, text) in enumerate(LINES, 1)]
        memory.add(said, session="talk")
        windows = len(memory.windows())
    shutil.copy(unbroken, broken)
    begun = time.monotonic()
    assert subprocess.run(command(unbroken), check=False).returncode in (0, 4)
    window_s = (time.monotonic() - begun) / windows
    chance, kills = random.Random(20), 0
    while kills < KILLS:
        process = subprocess.Popen(command(broken))
        try:
            process.wait(chance.uniform(0.2, 1.6) * window_s)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert subprocess.run(command(broken), check=False).returncode in (0, 4)
    assert kills > 0
    assert everything(broken) == everything(unbroken)
    with memdb.open(broken) as memory:
        assert memory.verify().ok
        assert {window.state for window in memory.windows()} <= {"done", "failed"}

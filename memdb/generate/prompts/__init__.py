"""What language models are prompted with, each text in a file: the system's part, a line `---`, the user's.

They follow appendix F1 of QGMem in our own words. `$name` stands for a value; values are data and are never
filled in again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from memdb.records import Prompt

_RULE = "\n---\n"


@cache
def prompt(name: str) -> Prompt:
    """A prompt by the name of its file."""
    text = (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8")
    system, _, user = text.partition(_RULE)
    return Prompt(system.strip(), user.strip())

"""From the start of a process to the first piece of evidence, against importing what it cannot do without.

Each is a process of its own, in turns. Traps: files come from the operating system's cache, as do Python's
compiled modules; wall time on a shared machine wavers, so CPU seconds of the child are told beside it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import memdb

from .measured import OURS, Found, Held, Measured, Setting, middle

SIZE: Final = 100_000  # of the target
MOST: Final = 1.5
QUESTION: Final = "What did they say about the market?"
IMPORTS: Final = "Python + onnxruntime"
_RUNTIME: Final = "import onnxruntime"
_EVIDENCE: Final = (
    "import sys, memdb\n"
    "with memdb.open(sys.argv[1], read_only=True) as memory:\n"
    "    print(memory.recall(sys.argv[2], 5{more}).evidence[0].text)"
)
PROGRAMS: Final = {
    IMPORTS: _RUNTIME,
    OURS: _EVIDENCE.replace("{more}", ", rerank_depth=0"),
    f"{OURS}, reranked": _EVIDENCE.replace("{more}", ""),
    "import memdb": "import memdb",
}


class Cost(NamedTuple):
    """Milliseconds of a process."""

    wall: float
    cpu: float


def cold(setting: Setting) -> Found:
    """The row: at the target's size if it is among those asked for, else at the largest below."""
    size = max([one for one in setting.sizes if one <= SIZE] or setting.sizes[:1])
    path = setting.files.path(size)
    costs: dict[str, list[Cost]] = {name: [] for name in PROGRAMS}
    for number in range(-1, setting.rounds // 2 + 1):
        for name, program in PROGRAMS.items():
            cost = run(program, path, setting.files.folder / "pycache")
            if number >= 0:  # the first round warms the caches
                costs[name].append(cost)
    measured = [
        Measured(row="cold", contender=name, figure=f"{kind} ms", value=middle(map(at, found)), size=size)
        for name, found in costs.items()
        for kind, at in (("wall", lambda cost: cost.wall), ("CPU", lambda cost: cost.cpu))
    ]
    told = {(one.contender, one.figure): one.value for one in measured}
    held = [
        Held(
            row="cold", what=f"times {IMPORTS}, {figure}", target=MOST, at_least=False, size=size,
            value=middle([told[OURS, figure] / told[IMPORTS, figure]]),
        )
        for figure in ("wall ms", "CPU ms")
    ]  # fmt: skip
    return Found(measured, held)


def run(program: str, path: Path, compiled: Path) -> Cost:
    """One process that runs a program, with compiled modules in a folder. Raises CalledProcessError when it
    fails.
    """
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", program, str(path), QUESTION]
    folder = Path(memdb.__file__).parents[1]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Cost(1_000 * seconds, 1_000 * used)

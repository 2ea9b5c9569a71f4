"""What work costs in a file four times as large: counted in statements, which a shared machine cannot blur.

Looking one row up by its key counts as a statement of vec0, so that reading a whole index shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.records import Message

SMALL = 300  # messages; the large file has four times as many
Work = Callable[[memdb.Memory], object]


class Costs(dict[str, tuple[int, int]]):
    """By operation, statements that it ran in the small file and in the large one."""

    def growth(self, name: str) -> float:
        small, large = self[name]
        return large / small


def said(first: int, end: int) -> list[Message]:
    forms = (
        "I live in Town{0}.",
        "I bought red bike number {0} in Oslo.",
        "My sister Mia{0} visited the museum.",
        "Do you like film {0}?",
    )
    days = [f"2024-01-{number:02}" for number in range(1, 29)]
    return [Message(f"P{n % 7}", forms[n % 4].format(n % 50), days[n % 28]) for n in range(first, end)]


OPERATIONS: dict[str, Work] = {
    "recall": lambda memory: memory.recall("Where does P3 live in Oslo?", rerank_depth=0),
    "labels": lambda memory: memory.recall("Mia3 in Oslo", channels=["unit_attribute"], rerank_depth=0),
    "trace": lambda memory: memory.trace("P3 lives in"),
    "sessions": lambda memory: memory.sessions(),
    "about": lambda memory: memory.about(),
    "build": lambda memory: memory.build(),
    "rebuild_traces": lambda memory: memory.rebuild_traces(),
    "rebuild_segments": lambda memory: memory.rebuild_segments(),
    "verify": lambda memory: memory.verify(),
}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Costs:
    ran: Counter[str] = Counter()

    def count(event: dict[str, Any]) -> None:
        if not event["sql"].startswith("INSERT INTO segment_link"):  # how many are alike, the texts decide
            ran[event["sql"]] += 1

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, count)

    found: dict[str, list[int]] = {name: [] for name in OPERATIONS}
    apsw.connection_hooks.append(watch)
    try:
        for messages in (SMALL, 4 * SMALL):
            path: Path = tmp_path_factory.mktemp("scale") / "a.memdb"
            with memdb.open(path, encoder=HashEncoder(64)) as memory:
                for start in range(0, messages, 25):
                    memory.add(said(start, start + 25), session=f"s{start}")
                for name, work in OPERATIONS.items():
                    ran.clear()
                    work(memory)
                    found[name].append(ran.total())
    finally:
        apsw.connection_hooks.remove(watch)
    return Costs({name: (small, large) for name, (small, large) in found.items()})


@pytest.mark.parametrize("name", ["labels", "trace", "sessions", "about", "build"])
def test_it_runs_as_many_statements_in_every_file(costs: Costs, name: str) -> None:
    assert costs.growth(name) <= 1.1, costs[name]


@pytest.mark.parametrize("name", ["recall", "rebuild_traces", "rebuild_segments", "verify"])
def test_it_grows_no_faster_than_the_file(costs: Costs, name: str) -> None:
    assert costs.growth(name) <= 4.5, costs[name]

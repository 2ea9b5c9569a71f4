"""Units are taken out of every table and index; labels only when nobody carries them."""

from __future__ import annotations

from pathlib import Path

import memdb
from memdb.construct.traces import Tracing
from memdb.models.fakes import HashEncoder
from memdb.records import Message
from memdb.store import erase, staging
from tests.scripted import everything

SAID = [
    Message("Ana", "I moved to Porto in May 2021.", "2024-01-01"),
    Message("Ana", "I moved to Rome yesterday.", "2024-01-02"),
]


def ids(memory: memdb.Memory, fact: str) -> list[int]:
    with memory._database.reader() as connection:
        return [n for (n,) in connection.execute("SELECT unit_id FROM unit WHERE fact_text LIKE ?", (fact,))]


def test_units_vanish_everywhere_and_others_stay(memory: memdb.Memory, path: Path) -> None:
    memory.add(SAID)
    before = everything(path)
    [gone] = ids(memory, "%Porto%")
    [kept] = ids(memory, "%Rome%")
    with memory._database.atomic() as connection:
        tracing = Tracing(connection, 1)
        tracing.remove([gone])
        tracing.flush()
        labels = erase.erase_units(connection, [gone])
        names = dict(connection.execute("SELECT label_id, name FROM label"))
        assert {"Porto", "Ana"} <= {names[label] for label in labels}
        erase.erase_labels(connection, labels)
    after = everything(path)
    at = {"unit_terms": 1, "unit_label": 1}
    for table in ("unit", "unit_terms", "unit_vector", "triple_vector", "unit_label", "unit_interval"):
        rows = [row for row in before[table] if row[at.get(table, 0)] != gone]
        assert after[table] == rows, table
        assert rows, table
        assert rows != before[table], table
    left = {row[2] for row in after["label"]}
    assert "Ana" in left
    assert "Porto" not in left
    assert {row[0] for row in after["label_vector"]} == {row[0] for row in after["label"]}
    assert after["trace"] == after["trace_unit"] == []
    assert after["message"] == before["message"]
    assert after["message_terms"] == before["message_terms"]
    assert ids(memory, "%") == [kept]
    assert [p.check for p in memory.verify().problems] == ["units"], "rules would make the unit again"


def test_what_is_staged_for_units_and_labels_goes_with_them(memory: memdb.Memory, path: Path) -> None:
    memory.add(SAID)
    [gone], [kept] = ids(memory, "%Porto%"), ids(memory, "%Rome%")
    with memory._database.atomic() as connection:
        assert staging.begin(connection, HashEncoder(8))
        labels = [label for (label,) in connection.execute("SELECT label_id FROM label")]
        units: list[tuple[staging.Kind, int]] = [
            ("unit", gone), ("triple", gone), ("unit", kept), ("triple", kept), ("message", gone),
        ]  # fmt: skip
        staging.put(connection, [(kind, row, b"x") for kind, row in units])
        staging.put(connection, [("label", label, b"x") for label in labels])
        tracing = Tracing(connection, 1)
        tracing.remove([gone])
        tracing.flush()
        erase.erase_labels(connection, erase.erase_units(connection, [gone]))
        left = set(connection.execute("SELECT kind, row_id FROM staged_vector"))
        names = {("label", label) for (label,) in connection.execute("SELECT label_id FROM label")}
        assert 0 < len(names) < len(labels)
        assert left == {("unit", kept), ("triple", kept), ("message", gone), *names}


def test_nothing_is_erased_for_nothing(memory: memdb.Memory, path: Path) -> None:
    memory.add(SAID)
    before = everything(path)
    with memory._database.atomic() as connection:
        assert erase.erase_units(connection, []) == []
        every = [label for (label,) in connection.execute("SELECT label_id FROM label")]
        erase.erase_labels(connection, every)
        erase.erase_labels(connection, [])
    assert everything(path) == before


def test_many_are_erased_at_once(memory: memdb.Memory, path: Path) -> None:
    memory.add(SAID * 100)
    every = ids(memory, "%")
    assert len(every) == 200
    with memory._database.atomic() as connection:
        tracing = Tracing(connection, 1)
        tracing.remove(every)
        tracing.flush()
        erase.erase_labels(connection, erase.erase_units(connection, every))
    after = everything(path)
    for table in (
        "unit",
        "unit_terms",
        "unit_vector",
        "triple_vector",
        "unit_label",
        "label",
        "label_vector",
    ):
        assert after[table] == [], table

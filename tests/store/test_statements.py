"""Every statement compiles against a fresh file; the plans of the hot ones are pinned.

After a wanted change of a plan, write them anew:
MEMDB_WRITE_PLAN=1 pytest tests/store/test_statements.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import apsw
import pytest

import memdb
from memdb.store.extensions import native as found_native
from memdb.store.statements import fragments, statement, statements

HOT = ("hybrid", "chain_starts", "hops", "history")
# What an append asks of segments, and what finds those whose messages are in none.
SEGMENTING = (
    "last_segment",
    "message_codes_from",
    "change_segment",
    "link_ids",
    "join_groups",
    "segment_message_codes",
    "segments_waiting",
    "to_segment",
)
# What goes through a table page by page.
PAGED = ("untraced_units", "messages_to_embed", "units_to_embed", "labels_to_embed")
SOURCES = Path(memdb.__file__).parent


def bindings(sql: str) -> dict[str, None] | tuple[None, ...]:
    bare = re.sub(r"--.*|'[^']*'", "", sql)
    names = re.findall(r":([a-z_]\w*)", bare)
    return dict.fromkeys(names) if names else (None,) * bare.count("?")


def test_statements_are_found() -> None:
    assert len(statements()) > 40
    assert statement("hybrid").startswith("WITH")


def test_both_ways_to_search_fill_the_same_places() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.sql"))
    places = {name for name in fragments() if f"{{{name}}}" in text}
    assert places == fragments().keys()
    assert places <= fragments(native=True).keys()


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", sorted(statements()))
def test_every_statement_compiles(memory: memdb.Memory, name: str, native: bool) -> None:
    if native and statement(name) == statement(name, native):
        return
    with memory._database.writer_setup() as connection:
        require(connection, native)
        if "temp." in statement(name):
            connection.execute(statement("open_message_term_instances"))
            connection.execute(statement("open_unit_term_instances"))
        if "staged_vector" in statement(name) and not name.startswith(("create", "has")):
            connection.execute(statement("create_staged_vector"))
        if "_terms_length" in statement(name) and not name.startswith(("create", "has")):
            connection.execute(statement("create_term_lengths"))
        sql = statement(name, native)
        assert list(connection.execute(f"EXPLAIN {sql}", bindings(sql)))


def require(connection: apsw.Connection, native: bool) -> None:
    if native and not found_native(connection):
        pytest.skip(str(found_native(connection)))


@pytest.mark.parametrize("name", sorted(statements()))
def test_every_statement_is_used(name: str) -> None:
    used = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    made = name.startswith("check_") or name.endswith("_codes")
    assert f'"{name}"' in used or (made and name.removeprefix("check_").removesuffix("_codes") in used)


def plan(connection: apsw.Connection, name: str, native: bool = False) -> str:
    depth = {0: -1}
    lines = []
    sql = statement(name, native)
    for node, parent, _, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings(sql)):
        depth[node] = depth[parent] + 1
        lines.append("  " * depth[node] + re.sub(r"0:\w*\}\S*", "0:…", str(detail)))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "native"), [*((name, False) for name in HOT), ("hybrid", True)])
def test_the_plan_of_a_hot_statement(memory: memdb.Memory, name: str, native: bool) -> None:
    kept = Path(__file__).with_name(f"{name}{'_native' * native}_plan.txt")
    with memory._database.reader() as connection:
        require(connection, native)
        found = plan(connection, name, native)
    if os.environ.get("MEMDB_WRITE_PLAN"):
        kept.write_text(found, encoding="utf-8")
    assert found == kept.read_text(encoding="utf-8"), "see the head of this file"
    for table in ("message", "unit", "scope", "label", "unit_interval", "unit_label", "trace_unit"):
        scans = [line for line in found.splitlines() if re.search(rf"SCAN {table}( USING|$)", line)]
        assert table == "scope" or not scans, "no table of rows is scanned"


@pytest.mark.parametrize("name", [*SEGMENTING, "history"])
def test_an_append_and_a_history_look_up_what_they_need(memory: memdb.Memory, name: str) -> None:
    """However long the history is: no table that grows with it is read from end to end."""
    with memory._database.writer_setup() as connection:
        lines = [line.strip() for line in plan(connection, name).splitlines()]
    scanned = [line for line in lines if re.match(r"SCAN (message|segment|segment_link|other)\b", line)]
    assert scanned == []
    assert any(line.startswith(("SEARCH", "SCAN session")) for line in lines)


@pytest.mark.parametrize("name", PAGED)
def test_a_page_costs_what_is_on_it(memory: memdb.Memory, name: str) -> None:
    """Each begins where the last one ended, and nothing is read from end to end for it, nor sorted."""
    with memory._database.writer_setup() as connection:
        connection.execute(statement("create_staged_vector"))
        lines = [line.strip() for line in plan(connection, name).splitlines()]
    assert re.match(r"SEARCH (unit|message|label) USING INTEGER PRIMARY KEY \(rowid>\?\)", lines[0])
    assert not [line for line in lines if line.startswith(("SCAN", "LIST SUBQUERY", "USE TEMP B-TREE"))]


@pytest.mark.parametrize("native", [False, True])
def test_what_is_bound_does_not_compile_a_statement_again(memory: memdb.Memory, native: bool) -> None:
    compiled = 0

    def watch(*_: object) -> int:
        nonlocal compiled
        compiled += 1
        return apsw.SQLITE_OK

    with memory._database.reader() as connection:
        require(connection, native)
        connection.authorizer = watch
        sql = statement("hybrid", native)
        connection.execute(sql, bindings(sql)).fetchall()
        before = compiled
        for channel in ("message_lexical", "unit_attribute"):
            values = {**dict.fromkeys(re.findall(r":([a-z_]\w*)", sql)), channel: 0, "everyone": 1, "k": 3}
            connection.execute(sql, values).fetchall()
        connection.authorizer = None
    assert 0 < before == compiled

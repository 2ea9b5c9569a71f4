"""The file proves itself: what can be derived again is derived again and compared."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import apsw
import numpy as np

from memdb import errors, settings
from memdb.language.clock import parse_instant
from memdb.language.terms import fold
from memdb.records import Problem, Unit, Verification
from memdb.store import codes, lengths, rows, schema, segment_checks, staging, traces
from memdb.store.extensions import native
from memdb.store.segment_checks import Starts
from memdb.store.statements import statement


class Derivation(Protocol):
    """A session derived again from its messages; the one that writes is `construct.derive`."""

    def message_terms(self, position: int) -> dict[str, str]:
        """The terms of a message, by field."""
        ...

    def units(self, position: int) -> list[tuple[Unit, dict[str, str]]]:
        """The units of a message, each with its terms by field."""
        ...

    def unit_terms(self, unit: Unit) -> dict[str, str]:
        """The terms of a unit, whoever made it, by field."""
        ...


Derive: TypeAlias = Callable[[list[rows.StoredMessage]], Derivation]
# Relation text and trajectory of a trace, from its members.
TraceTexts: TypeAlias = Callable[[list[traces.Member]], tuple[str, str]]

_COUNTED = [
    "scopes",
    "sessions",
    "messages",
    "windows",
    "units",
    "intervals",
    "labels",
    "traces",
    "segments",
    "message_vectors",
    "unit_vectors",
    "label_vectors",
    "triple_vectors",
]
_CHECKS = [
    "message_positions",
    "message_terms",
    "unit_terms",
    "message_vectors",
    "unit_vectors",
    "label_vectors",
    "triple_vectors",
    "labels_used",
    "unit_spans",
    "unit_windows",
    "speakers",
    "traces",
    "trace_members",
    "trace_order",
]
_MOST_OF_ONE_KIND = 20  # problems of one check that are listed


def verify(
    connection: apsw.Connection, path: Path, derive: Derive, trace_texts: TraceTexts, starts: Starts
) -> Verification:
    """SQLite's integrity, the schema, foreign keys, then every table and index against its origin."""
    problems: list[Problem] = []
    for check, found in _all_checks(connection, derive, trace_texts, starts):
        details = list(islice(_until_unreadable(found), _MOST_OF_ONE_KIND + 1))
        if len(details) > _MOST_OF_ONE_KIND:
            details[-1] = "and more"
        problems += [Problem(check, detail) for detail in details]
    found_counts: dict[str, int] = {}
    warnings: tuple[str, ...] = ()
    try:
        found_counts, warnings = counts(connection), tuple(_warnings(connection, path))
    except (apsw.Error, ValueError) as error:
        problems.append(Problem("counts", f"cannot be read: {error}"))
    search = str(native(connection))
    return Verification(counts=found_counts, problems=tuple(problems), warnings=warnings, search=search)


def _until_unreadable(found: Iterable[str]) -> Iterator[str]:
    """What a check finds; if the file cannot be read on the way, that is what it found."""
    try:
        yield from found
    except (apsw.Error, errors.Damaged, ValueError, ArithmeticError, LookupError) as error:
        yield f"cannot be read: {error}"


def counts(connection: apsw.Connection) -> dict[str, int]:
    """Rows of each kind in the whole file."""
    return dict(zip(_COUNTED, connection.execute(statement("count_rows")).fetchone() or (), strict=True))


def _all_checks(
    connection: apsw.Connection, derive: Derive, trace_texts: TraceTexts, starts: Starts
) -> Iterator[tuple[str, Iterable[str]]]:
    yield "integrity", (line for line in _lines(connection, "PRAGMA integrity_check") if line != "ok")
    yield "schema", iter(schema.foreign_objects(connection))
    yield "foreign_keys", _missing_parents(connection)
    for check in _CHECKS:
        yield check, _lines(connection, statement(f"check_{check}"))
    yield "windows", _wrong_windows(connection)
    yield "message_terms", _wrong_message_terms(connection, derive)
    yield "term_lengths", lengths.wrong(connection)
    yield "units", _wrong_units(connection, derive)
    yield "clocks", _wrong_clocks(connection)
    yield "labels", _wrong_labels(connection)
    yield "names", _unreadable_names(connection)
    yield "vectors", _wrong_vectors(connection)
    yield "vector_codes", codes.wrong(connection)
    yield "staged_vectors", staging.wrong(connection)
    yield "segments", segment_checks.wrong(connection, starts)
    yield "trace_texts", _wrong_trace_texts(connection, trace_texts)


def _lines(connection: apsw.Connection, sql: str) -> Iterator[str]:
    for (line,) in connection.execute(sql):
        yield str(line)


def _missing_parents(connection: apsw.Connection) -> Iterator[str]:
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} row {row} refers to a missing {parent}"


def _wrong_windows(connection: apsw.Connection) -> Iterator[str]:
    """Windows of a session that are not those of its length (QGMem appendix A1)."""
    step = settings.WINDOW_MESSAGES - settings.WINDOW_OVERLAP
    row: Any
    for row in connection.execute(statement("session_ids")):
        session_id, length = row
        count = 0 if length == 0 else max(0, length - 1 - settings.WINDOW_OVERLAP) // step + 1
        expected = [
            (
                n,
                n * step,
                min(n * step + settings.WINDOW_MESSAGES, length),
                n * step + bool(n) * settings.WINDOW_OVERLAP,
            )
            for n in range(count)
        ]
        found = list(connection.execute(statement("session_windows"), (session_id,)))
        if found != expected:
            yield f"the windows of session {session_id} do not cover its {length} messages"


def _sessions(connection: apsw.Connection) -> Iterator[tuple[int, list[rows.StoredMessage]]]:
    row: Any
    for row in connection.execute(statement("session_ids")):
        yield row[0], rows.session_tail(connection, row[0], 0)


def _wrong_message_terms(connection: apsw.Connection, derive: Derive) -> Iterator[str]:
    """Messages indexed by other terms than their text has."""
    marks, mark = (
        _indexed(connection, "open_message_term_instances", "message_term_instances"),
        _marker(connection),
    )
    for _, session in _sessions(connection):
        derivation = derive(session)
        for stored in session:
            if marks.get(stored.message_id, 0) != mark(derivation.message_terms(stored.position)):
                yield f"{stored.message_id} is indexed by other terms than its text has"


def _wrong_units(connection: apsw.Connection, derive: Derive) -> Iterator[str]:
    """Units of this version's rules that the rules do not make, and any that are indexed by other terms."""
    marks, mark = _indexed(connection, "open_unit_term_instances", "unit_term_instances"), _marker(connection)
    for session_id, session in _sessions(connection):
        derivation = derive(session)
        for position, found in rows.claims_by_message(connection, session_id):
            expected = derivation.units(position)
            if [claim for _, claim in found] != [rows.claim(unit) for unit, _ in expected]:
                yield f"those of message {session[position].message_id} are not those its text gives"
                continue
            for (unit_id, _), (_, terms) in zip(found, expected, strict=True):
                if marks.get(unit_id, 0) != mark(terms):
                    yield f"{unit_id} is indexed by other terms than its text has"
        for unit_id, unit in rows.other_units(connection, session_id):
            if marks.get(unit_id, 0) != mark(derivation.unit_terms(unit)):
                yield f"{unit_id} is indexed by other terms than its text has"


def _wrong_clocks(connection: apsw.Connection) -> Iterator[str]:
    """Messages whose day, moment or serial number is not what their clock reading says."""
    for _, session in _sessions(connection):
        for stored in session:
            try:
                right = stored.instant is None or parse_instant(stored.instant.text) == stored.instant
            except errors.TimeError:
                right = False
            if not right:
                yield f"message {stored.message_id} was not said when its clock reading says"


def _wrong_labels(connection: apsw.Connection) -> Iterator[str]:
    row: Any
    for row in connection.execute(statement("all_labels")):
        if fold(row[1]) != row[2]:
            yield f"{row[0]} is folded in another way than its name"


def _unreadable_names(connection: apsw.Connection) -> Iterator[str]:
    """Names of sessions and scopes: reading them is the check."""
    for _ in connection.execute(statement("all_names")):
        yield from ()


def _indexed(connection: apsw.Connection, opened: str, instances: str) -> dict[int, int]:
    """The sum of the marks of all terms of each row of an FTS5 table, modulo 2^32."""
    connection.execute(statement(opened))
    indexed: dict[int, int] = {}
    row: Any
    for row in connection.execute(statement(instances)):
        indexed[row[1]] = (indexed.get(row[1], 0) + _mark(row[0], row[2])) & 0xFFFFFFFF
    return indexed


def _marker(connection: apsw.Connection) -> Callable[[dict[str, str]], int]:
    """The same sum over terms by field."""
    tokenize = _tokenizer(connection)

    def mark(fields: dict[str, str]) -> int:
        return (
            sum(_mark(term, field) for field, text in fields.items() for term in tokenize(text)) & 0xFFFFFFFF
        )

    return mark


def _mark(term: str, field: str) -> int:
    return zlib.crc32(f"{field}:{term}".encode())


def _tokenizer(connection: apsw.Connection) -> Callable[[str], Iterable[str]]:
    options = ["unicode61", "remove_diacritics", "2", "categories", "L* M* N* Co"]
    porter = connection.fts5_tokenizer("porter", options)

    def tokenize(text: str) -> Iterable[str]:
        found = porter(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
        return (str(term) for group in found for term in group)

    return tokenize


def _wrong_vectors(connection: apsw.Connection) -> Iterator[str]:
    """Vectors that no encoder can have made: of a length far from 1."""
    scale = float(connection.execute("SELECT value FROM meta WHERE key = 'vector_scale'").get)
    for table in ("message_vector", "unit_vector", "label_vector", "triple_vector"):
        for row, code in connection.execute(statement(f"{table}_codes")):
            length = float(np.linalg.norm(np.frombuffer(code, dtype=np.int8).astype(np.float32))) / scale
            if not 0.8 < length < 1.1:
                yield f"{table} {row} has length {length:.2f}"


def _wrong_trace_texts(connection: apsw.Connection, trace_texts: TraceTexts) -> Iterator[str]:
    """Traces that do not tell what their members say. What a language model told is not derived again."""
    row: Any
    for row in connection.execute(statement("traces")):
        trace_id, *told, dirty, made_by = row
        members = traces.members(connection, traces=[trace_id])
        right = trace_texts(members) if members else tuple(told)
        by_rules = made_by == "rules" or made_by.startswith("rules/")
        if dirty or tuple(told)[: 1 + by_rules] != right[: 1 + by_rules]:
            yield f"{trace_id} ({told[0]}) tells something else than its {len(members)} members"


def _warnings(connection: apsw.Connection, path: Path) -> Iterator[str]:
    messages, units, labels = connection.execute(statement("missing_vectors")).fetchone() or (0, 0, 0)
    if messages or units or labels:
        yield f"{messages} messages, {units} units and {labels} labels have no vector: words alone find them"
    if staged_by := staging.staged_by(connection):
        made = staging.counts(connection).staged
        yield f"{made} vectors by the encoder {staged_by[:8]} wait for the rest: reembed goes on"
    if connection.execute(statement("to_segment"), {"after": -1, "most": 1}).get is not None:
        yield "messages are in no segment: update_segments puts those that have vectors into some"
    failed = connection.execute(statement("failed_windows")).get
    if failed:
        yield f"a model failed at {failed} windows: they keep their units; build with retry tries again"
    mode = connection.execute("PRAGMA journal_mode").get
    if mode == "wal" and _on_network(path):
        yield "the file uses a write-ahead log on a network file system: copy it only with backup"
    if mode != "wal":
        yield f"the journal mode is {mode}: readers wait while somebody writes"


def _on_network(path: Path) -> bool:
    """Whether the file lies on a network or synced file system, as far as the mount table tells."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = fields[1].encode().decode("unicode_escape") if len(fields) > 2 else ""
        if point and path.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind.startswith(("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.rclone", "ceph", "glusterfs"))

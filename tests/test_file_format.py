"""The numbered sentences of docs/file_format.md, held one by one."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

import memdb
from memdb import Message, Scope
from memdb.construct.build import made_by
from memdb.construct.windows import windows
from memdb.generate.prompts import prompt
from memdb.models.fakes import HashEncoder
from memdb.records import Reembedded
from memdb.store import schema
from memdb.store.connection import load_vectors
from tests import segmented
from tests.encoders import Turned
from tests.scripted import PROMPTS, TALK, everything, facts, reader, saying

ROOT = Path(__file__).parents[1]
SENTENCE = re.compile(r"F-\d{3}")
ENCODER = HashEncoder(64)
MESSAGES = [
    Message("Ana", "I went to Oslo yesterday. Do you like caf\u00e9s?", "2024-03-10T23:30-08:00", id="a"),
    Message("Ben", "I love \u6d77\u5e95\u635e \x00 and \ud800.", "2024-03-11T08:00", id="b"),
    Message("Ana", "I moved to Rome in May 2021.", "2024-03-12"),
    Message("Ben", "I bought the blue bicycle.", "serial-7"),
    Message("Ana", "My sister lives in Lisbon.", None),
    *[Message("Ben", f"I planted tree number {n} in the garden.", f"2024-04-{n:02}") for n in range(1, 8)],
]


def test_every_sentence_is_cited_and_every_citation_stands() -> None:
    stated = SENTENCE.findall((ROOT / "docs" / "file_format.md").read_text(encoding="utf-8"))
    assert len(stated) == len(set(stated))
    cited = {
        number
        for path in (ROOT / "tests").rglob("*.py")
        for number in SENTENCE.findall(path.read_text(encoding="utf-8"))
    }
    assert cited == set(stated)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.memdb"
    with memdb.open(path, encoder=ENCODER) as memory:
        memory.add(MESSAGES[:3], session="one")
        memory.add(MESSAGES[3:], session="one")
        memory.add(MESSAGES[:2], session="two", source="chat")
    with memdb.open(path, encoder=ENCODER, scope=Scope(user="ana", run="r1")) as memory:
        memory.add(MESSAGES[:2], session="one")
    return path


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    yield connection
    connection.close()


def test_one_file(path: Path) -> None:
    """[F-001]"""
    assert [p.name for p in path.parent.iterdir()] == ["m.memdb"]
    assert path.read_bytes()[:15] == b"SQLite format 3"


def test_marks(raw: apsw.Connection) -> None:
    """[F-002] [F-003]"""
    assert raw.pragma("application_id") == 1835363684 == int.from_bytes(b"memd")
    assert raw.pragma("user_version") == 1 == schema.FORMAT


@pytest.mark.parametrize(
    "extra",
    [
        "CREATE TABLE extra (x)",
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TRIGGER extra AFTER INSERT ON session BEGIN DELETE FROM message; END",
        "DROP INDEX label_folded",
        "ALTER TABLE scope ADD COLUMN extra TEXT",
    ],
)
def test_nothing_else_in_the_schema(path: Path, extra: str) -> None:
    """[F-004]"""
    connection = apsw.Connection(str(path))
    connection.execute(extra)
    connection.close()
    with pytest.raises(memdb.Damaged, match="no memory has"):
        memdb.open(path, encoder=ENCODER)


def test_strict_tables(raw: apsw.Connection) -> None:
    """[F-005]"""
    tables = list(
        raw.execute("SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND schema = 'main'")
    )
    shadows = re.compile(r"sqlite_|(?:message|unit|triple|label|segment)_vector_")
    assert not [name for name, strict in tables if not strict and not shadows.match(name)]
    assert len(tables) > 12


def test_meta(raw: apsw.Connection) -> None:
    """[F-006]"""
    meta = dict(raw.execute("SELECT key, value FROM meta"))
    assert meta["memdb_version"] == memdb.__version__
    assert (meta["encoder_name"], meta["encoder_sha256"]) == (ENCODER.name, ENCODER.sha256)
    assert meta["encoder_dimension"] == 64
    assert json.loads(meta["settings"])["window_messages"] == 6


def test_newer_format_is_refused_and_kept(path: Path) -> None:
    """[F-007]"""
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 2)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(memdb.FileError, match="format 2"):
        memdb.open(path, encoder=ENCODER)
    assert path.read_bytes() == before


def _older(path: Path, monkeypatch: pytest.MonkeyPatch, *, broken: bool = False) -> None:
    """Pretend that `path` is of the format before, which had no index on labels."""

    def add_the_index(connection: apsw.Connection) -> None:
        connection.execute("CREATE INDEX label_folded ON label (axis, folded)")
        if broken:
            raise apsw.FullError("no space left")

    monkeypatch.setattr(schema, "MIGRATIONS", {0: add_the_index})
    connection = apsw.Connection(str(path))
    connection.execute("DROP INDEX label_folded; PRAGMA user_version = 0")
    connection.close()


def test_older_format_is_copied_and_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[F-008]"""
    _older(path, monkeypatch)
    with pytest.raises(memdb.FileError, match="format 0"):
        memdb.open(path, encoder=ENCODER, read_only=True)
    old = path.read_bytes()
    with memdb.open(path, encoder=ENCODER) as memory:
        assert memory.verify().ok
    connection = apsw.Connection(str(path.with_name("m.memdb.format-0")), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.pragma("user_version") == 0
    assert path.read_bytes() != old


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[F-008]"""
    _older(path, monkeypatch, broken=True)
    with pytest.raises(memdb.FileError, match="disk is full"):
        memdb.open(path, encoder=ENCODER)
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == 0
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'label_folded'").get == 0


def test_scopes_and_sessions(raw: apsw.Connection) -> None:
    """[F-010] [F-011]"""
    assert list(raw.execute("SELECT user, agent, run FROM scope")) == [
        (None, None, None),
        ("ana", None, "r1"),
    ]
    with pytest.raises(apsw.ConstraintError):
        raw.execute("INSERT INTO scope (user, run) VALUES ('ana', 'r1')")
    with pytest.raises(apsw.ConstraintError):
        raw.execute("INSERT INTO session (scope_id, name) VALUES (1, 'one')")
    for table in ("message", "unit"):
        wrong = (
            f"SELECT count(*) FROM {table} JOIN session USING (session_id)"
            f" WHERE {table}.scope_id <> session.scope_id"
        )
        assert raw.execute(wrong).get == 0


def test_speakers(raw: apsw.Connection) -> None:
    """[F-012]"""
    found = set(raw.execute("SELECT scope_id, name, messages FROM speaker"))
    assert found == {(1, "Ana", 4), (1, "Ben", 10), (2, "Ana", 1), (2, "Ben", 1)}


def test_positions_and_ids(raw: apsw.Connection) -> None:
    """[F-020] [F-021]"""
    for (session_id,) in raw.execute("SELECT session_id FROM session").fetchall():
        positions = [
            p
            for (p,) in raw.execute(
                "SELECT position FROM message WHERE session_id = ? ORDER BY 1", (session_id,)
            )
        ]
        assert positions == list(range(len(positions)))
    ids = [
        i for (i,) in raw.execute("SELECT external_id FROM message WHERE session_id = 1 ORDER BY position")
    ]
    assert ids[:3] == ["a", "b", None]
    with pytest.raises(apsw.ConstraintError):
        raw.execute("UPDATE message SET external_id = 'a' WHERE session_id = 1 AND position = 4")


def test_texts(raw: apsw.Connection) -> None:
    """[F-022]"""
    content = raw.execute("SELECT content FROM message WHERE session_id = 1 AND position = 1").get
    assert content == "I love \u6d77\u5e95\u635e \u2400 and \ufffd."


def test_clocks(raw: apsw.Connection) -> None:
    """[F-023] [F-024] [F-025]"""
    rows = raw.execute(
        "SELECT said_text, said_day, said_utc_us, said_offset_min, said_serial, said_key FROM message"
        " WHERE session_id = 1 ORDER BY position LIMIT 5"
    ).fetchall()
    day = 86_400_000_000
    assert rows[0] == ("2024-03-10T23:30-08:00", 19792, 19793 * day + 27_000_000_000, -480, None, rows[0][2])
    assert rows[1] == ("2024-03-11T08:00", 19793, 19793 * day + 28_800_000_000, None, None, rows[1][2])
    assert rows[2] == ("2024-03-12", 19794, 19794 * day, None, None, 19794 * day)
    assert rows[3] == ("serial-7", None, None, None, 7, 7 + 2**62)
    assert rows[4] == (None, None, None, None, None, None)


def test_unit_spans_and_windows(raw: apsw.Connection) -> None:
    """[F-030] [F-031] [F-032]"""
    found = raw.execute(
        "SELECT first_position, end_position, new_position FROM window WHERE session_id = 1"
    ).fetchall()
    assert found == [(w.start, w.end, w.first_new) for w in windows(len(MESSAGES))]
    units = raw.execute(
        "SELECT first_position, last_position, position, unit.session_id, message.session_id, window_no,"
        " number FROM unit JOIN message USING (message_id)"
    ).fetchall()
    assert units
    for first, last, position, unit_session, message_session, window_no, _ in units:
        assert first <= position <= last
        assert unit_session == message_session
        assert window_no == max(0, (last - 2) // 4)
    numbers: dict[tuple[int, int], list[int]] = {}
    for *_, session, _, window_no, number in units:
        numbers.setdefault((session, window_no), []).append(number)
    assert all(sorted(found) == list(range(len(found))) for found in numbers.values())


def test_units_do_not_depend_on_the_portions_they_were_added_in(tmp_path: Path) -> None:
    """[F-035]"""
    talk = [
        Message("Ana", "You should visit me in Rome, you will love it.", "2024-01-01"),
        Message("Ben", "I told you that I moved to Oslo last week.", "2024-01-02"),
        Message("Ana", "Where do you work now?", "2024-01-03"),
        Message("Ben", "At the harbour.", "2024-01-03"),
    ]
    found = []
    for portion in (1, 3, 4):
        with memdb.open(tmp_path / f"{portion}.memdb", encoder=ENCODER) as memory:
            for start in range(0, len(talk), portion):
                memory.add(talk[start : start + portion])
            assert memory.verify().ok
            with memory._database.reader() as connection:
                found.append(connection.execute("SELECT fact_text, last_position FROM unit").fetchall())
    assert found[0] == found[1] == found[2]
    assert len(found[0]) >= 3


@pytest.mark.parametrize(
    "forged",
    [
        "UPDATE unit SET fact_text = 'Ana confessed.' WHERE unit_id = 1",
        "UPDATE unit SET object = 'murder' WHERE object IS NOT NULL",
        "UPDATE unit_interval SET start_day = start_day - 1",
        "UPDATE label SET folded = 'xyz' WHERE label_id = 1",
        "DELETE FROM unit_interval",
        "UPDATE message SET said_day = said_day + 1 WHERE said_day IS NOT NULL",
    ],
)
def test_what_is_forged_is_found(path: Path, forged: str) -> None:
    """[F-023] [F-033] [F-034] [F-035]"""
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    connection.execute(forged)
    connection.close()
    with memdb.open(path, encoder=ENCODER) as memory:
        assert not memory.verify().ok


def test_intervals(raw: apsw.Connection) -> None:
    """[F-033]"""
    found = dict.fromkeys(
        raw.execute(
            "SELECT fact_text, start_day, end_day, granularity FROM unit JOIN unit_interval USING (unit_id)"
        )
    )
    assert [f for f in found if "Oslo" in f[0]] == [
        (next(f[0] for f in found if "Oslo" in f[0]), 19791, 19791, "day")
    ]
    rome = next(f for f in found if "Rome" in f[0])
    assert rome[1:] == (18748, 18778, "month")
    assert not [f for f in found if "bicycle" in f[0] or "Lisbon" in f[0]]


def test_labels(raw: apsw.Connection) -> None:
    """[F-034]"""
    labels = raw.execute("SELECT axis, name, folded FROM label").fetchall()
    assert len({(axis, name) for axis, name, _ in labels}) == len(labels)
    assert ("entity", "Ana", "ana") in labels
    assert (
        raw.execute("SELECT count(*) FROM label WHERE label_id NOT IN (SELECT label_id FROM unit_label)").get
        == 0
    )


def test_terms(raw: apsw.Connection) -> None:
    """[F-040] [F-041]"""
    for table, origin, fields in (
        ("message_terms", "message", {"own", "question", "prompt", "context", "after"}),
        ("unit_terms", "unit", {"fact", "labels"}),
    ):
        rows = {r for (r,) in raw.execute(f"SELECT rowid FROM {table}")}
        assert rows == {r for (r,) in raw.execute(f"SELECT {origin}_id FROM {origin}")}
        columns = {c for (c,) in raw.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        assert columns == fields
        assert set(raw.execute(f"SELECT * FROM {table}").fetchall()) == {(None,) * len(fields)}
    raw.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, message_terms, row)")
    vocabulary = {term for term, _, _ in raw.execute("SELECT * FROM temp.v")}
    assert {"cafe", "oslo", "\u6d77", "\u5e95", "\u635e", "\u6d77\u5e95", "\u5e95\u635e"} <= vocabulary
    assert not {"caf\u00e9", "Oslo", "\u6d77\u5e95\u635e"} & vocabulary


def test_vectors(raw: apsw.Connection) -> None:
    """[F-042] [F-043] [F-044]"""
    scale = raw.execute("SELECT value FROM meta WHERE key = 'vector_scale'").get
    assert scale == pytest.approx(127 * math.sqrt(64) / 4.5)
    code = raw.execute(
        "SELECT own FROM message_vector JOIN message USING (message_id) WHERE content LIKE '%Lisbon%'"
    ).get
    vector = ENCODER.encode(["Ana: My sister lives in Lisbon."])[0]
    assert (np.frombuffer(code, np.int8) == np.clip(np.rint(vector * scale), -127, 127)).all()
    for table, origin in (("message_vector", "message"), ("unit_vector", "unit"), ("label_vector", "label")):
        assert (
            raw.execute(f"SELECT count(*) FROM {table}").get
            == raw.execute(f"SELECT count(*) FROM {origin}").get
        )
    wrong = (
        "SELECT count(*) FROM message_vector AS v JOIN message AS m USING (message_id)"
        " WHERE v.scope_id <> m.scope_id OR v.said_key <> ifnull(m.said_key, 9223372036854775807)"
    )
    assert raw.execute(wrong).get == 0
    assert raw.execute("SELECT count(*) FROM message_vector WHERE said_key = 9223372036854775807").get == 1


def test_re_embedding_stages_what_it_makes_and_switches_at_once(path: Path) -> None:
    """[F-004] [F-006] [F-043] [F-046] [F-047] [F-063]"""
    encoder = Turned(64)
    before = everything(path)
    with pytest.warns(memdb.errors.MemdbWarning):
        memory = memdb.open(path, encoder=encoder, scope="*")
    with memory:
        memory.add([Message("Zoe", "I live in Lima.")], scope=Scope("zoe"))
        added = everything(path)
        assert added["message_vector"] == before["message_vector"]
        with pytest.raises(KeyboardInterrupt):
            memory.reembed(progress=_interrupt_at(30))
        halfway = everything(path)
        assert {name for name in halfway if halfway[name] != added[name]} == {"meta", "tables"}
        assert dict(halfway["meta"])["staged_encoder_sha256"] == encoder.sha256
        connection = apsw.Connection(str(path))
        staged = connection.execute("SELECT kind, row_id, code FROM staged_vector").fetchall()
        assert {kind for kind, _, _ in staged} < {"message", "unit", "triple", "label"}
        units = {row_id for kind, row_id, _ in staged if kind == "unit"}
        for unit_id, subject in connection.execute("SELECT unit_id, subject FROM unit"):
            assert ((("triple", unit_id) in {row[:2] for row in staged}) == (unit_id in units)) or not subject
        connection.close()
        scale = 127 * math.sqrt(64) / 4.5
        vector = encoder.encode(["Ana: My sister lives in Lisbon."])[0]
        code = np.clip(np.rint(vector * scale), -127, 127).astype(np.int8).tobytes()
        assert code in {code for _, _, code in staged}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("memdb.store.staging.clear", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                memory.reembed()
        after = everything(path)
        assert "staged_encoder_sha256" not in dict(after["meta"])
        assert "staged_vector" in dict(after["tables"])
        changed = {key for key, value in after["meta"] if dict(before["meta"]).get(key) != value}
        assert changed == {"encoder_name", "encoder_sha256", "traced_unit_id"}
        assert len(after["message_vector"]) == len(before["message_vector"]) + 1
        assert not set(after["message_vector"]) & set(before["message_vector"])
        assert memory.verify().problems == ()
        memory.reembed()
    assert everything(path)["tables"] == before["tables"]


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


def _interrupt_at(vectors: int) -> Callable[[Reembedded], None]:
    return lambda done: _interrupt(done) if done.done >= vectors else None


def test_traces_and_segments_are_checked(raw: apsw.Connection, path: Path) -> None:
    """[F-050] [F-051]"""
    raw.execute("INSERT INTO trace VALUES (99, 1, 'Ana | lives in', 'x', 'made up', 0)")
    lone = raw.execute(
        "SELECT min(unit_id) FROM unit"
        " WHERE subject IS NOT NULL AND unit_id NOT IN (SELECT unit_id FROM trace_unit)"
    ).get
    raw.execute("INSERT INTO trace_unit VALUES (99, 0, ?, 1)", (lone,))
    with pytest.raises(apsw.ConstraintError):
        raw.execute("INSERT INTO trace_unit VALUES (99, 1, ?, 0)", (lone,))
    raw.execute("UPDATE segment SET closed = 0")
    raw.close()
    with memdb.open(path, encoder=ENCODER) as memory:
        checks = {problem.check for problem in memory.verify().problems}
    assert checks == {"traces", "segments", "trace_texts"}


def test_segments(tmp_path: Path) -> None:
    """[F-051] [F-056] [F-057] [F-058] [F-059]"""
    path = tmp_path / "segments.memdb"
    with memdb.open(path, encoder=ENCODER) as memory:
        for session in ("s", "t"):
            words = ["rain rain river", "rain river", "oven bread", "oven", "piano", "rain", "rain river"]
            memory.add([Message("Ana", text) for text in words], session=session)
        made = memory.about().settings
    rule, tau1, tau2 = (made[key] for key in ("segment_rule", "segment_threshold", "link_threshold"))
    found, right = segmented.held(path), segmented.expected(path, rule, tau1, tau2)
    assert found == right
    assert len(found.links) > 2
    assert segmented.wrong_means(path) == []
    codes = segmented.means(path)
    assert {name for name, code in codes.items() if code} == {n for n, span in found.spans.items() if span[2]}
    raw = segmented.opened(path)
    raw.execute("INSERT OR REPLACE INTO meta VALUES ('segments_waiting', '[1]')")
    raw.close()
    with memdb.open(path, encoder=ENCODER) as memory:
        assert {problem.check for problem in memory.verify().problems} == {"segments"}, "it has a vector"


def test_triple_vectors(raw: apsw.Connection) -> None:
    """[F-045]"""
    found = raw.execute(
        "SELECT unit_id, subject, predicate, object, triple, unit.scope_id, triple_vector.scope_id"
        " FROM unit JOIN triple_vector USING (unit_id)"
    ).fetchall()
    expected = raw.execute(
        "SELECT unit_id FROM unit WHERE subject IS NOT NULL AND unit_id IN (SELECT unit_id FROM unit_vector)"
    )
    assert {row[0] for row in found} == {unit_id for (unit_id,) in expected}
    assert len(found) > 10
    scale = raw.execute("SELECT value FROM meta WHERE key = 'vector_scale'").get
    for _, subject, predicate, value, code, scope_id, beside in found:
        vector = ENCODER.encode([f"{subject} {predicate} {value}."])[0]
        assert (np.frombuffer(code, np.int8) == np.clip(np.rint(vector * scale), -127, 127)).all()
        assert scope_id == beside


def test_traces(raw: apsw.Connection) -> None:
    """[F-050] [F-052] [F-053] [F-054]"""
    found = raw.execute(
        "SELECT trace_id, trace.scope_id, relation_text, trajectory, dirty, trace_unit.number, current,"
        " unit.scope_id, subject, predicate, fact_text, said_text, said_key, unit.session_id, first_position"
        " FROM trace JOIN trace_unit USING (trace_id) JOIN unit USING (unit_id)"
        " JOIN message USING (message_id)"
        " ORDER BY trace_id, trace_unit.number"
    ).fetchall()
    traces = [list(group) for _, group in itertools.groupby(found, key=lambda row: row[0])]
    assert len(traces) >= 2
    for members in traces:
        _, scope_id, relation, trajectory, dirty, *_ = members[0]
        assert not dirty
        assert [row[5] for row in members] == list(range(len(members)))
        assert [row[6] for row in members] == [0] * (len(members) - 1) + [1]
        assert {row[7] for row in members} == {scope_id}
        assert relation in {f"{row[8]} | {row[9]}" for row in members}
        assert trajectory.endswith(f"Latest: {members[-1][10]}")
        assert trajectory.startswith(f"[{members[0][11]}] {members[0][10]}")
        keys = [(math.inf if row[12] is None else row[12], row[13], row[14]) for row in members]
        assert keys == sorted(keys)


def test_an_add_is_one_transaction(path: Path) -> None:
    """[F-060]"""
    before = path.read_bytes()
    with memdb.open(path, encoder=ENCODER) as memory:
        counts = memory.about().counts
        bad = [Message("Ana", "I have a cat."), Message("Ana", "I have a dog.", "the day after")]
        with pytest.raises(memdb.MessageError, match="message 1: said_at"):
            memory.add(bad, session="one")
        assert memory.about().counts == counts
    assert path.read_bytes() == before


def test_commits_are_synchronous(path: Path) -> None:
    """[F-061]"""
    with memdb.open(path, encoder=ENCODER) as memory, memory._database.writer_setup() as connection:
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"


MADE_BY = re.compile(r"rules-\d+|.+ prompts [0-9a-f]{8}", re.DOTALL)
WINDOW = "SELECT state, made_by, attempts, error IS NOT NULL FROM window ORDER BY session_id, window_no"


def test_states_of_windows_and_who_made_them(tmp_path: Path) -> None:
    """[F-036] [F-037] [F-038] [F-039]"""
    path = tmp_path / "built.memdb"
    rules, model = "rules-3", f"scripted prompts {PROMPTS_DIGEST}"

    def rows() -> list[tuple[str, str, int, int]]:
        connection = apsw.Connection(str(path))
        found: list[tuple[str, str, int, int]] = connection.execute(WINDOW).fetchall()
        connection.close()
        assert all(MADE_BY.fullmatch(made_by) for _, made_by, _, _ in found)
        return found

    with memdb.open(path, encoder=ENCODER) as memory:
        memory.add(TALK[:8], session="s")
        assert rows() == [("rules", rules, 0, 0)] * 2
        with pytest.warns(memdb.errors.MemdbWarning):
            memory.build(saying("no"))
        assert rows() == [("failed", rules, 1, 1)] * 2
        assert {(one.stage, one.reason) for w in memory.windows() for one in w.rejections} == {
            ("units", "bad_json")
        }
        memory.build(reader(), retry=True)
        assert rows() == [("done", model, 2, 0)] * 2
        assert not [one for w in memory.windows() for one in w.rejections]
        memory.add(TALK[8:9], session="s")
        assert rows() == [("done", model, 2, 0), ("pending", model, 0, 0)]
        assert [text for text in facts(path) if "cat" in text] == ["Ana's cat is called Pepper8."]
        with pytest.warns(memdb.errors.MemdbWarning):
            memory.build(saying("no", name="other"), redo=True)
        assert rows() == [("failed", model, 3, 1), ("failed", model, 1, 1)]
        memory.build(redo=True)
        assert rows() == [("rules", rules, 4, 0), ("rules", rules, 2, 0)]
        assert memory.verify().problems == ()


PROMPTS_DIGEST = made_by(reader(), *PROMPTS)[-8:]


def test_reasons_of_rejections(tmp_path: Path) -> None:
    """[F-039]"""
    text = (ROOT / "docs" / "file_format.md").read_text(encoding="utf-8")
    stated = re.search(r"\[F-039\](.*?)\n\* ", text, re.DOTALL)
    assert stated is not None
    reasons = set(re.findall(r"`([a-z_]+)`", stated[1])) - {"units", "indexes", "rejection"}
    source = (ROOT / "memdb" / "construct" / "extract.py").read_text(encoding="utf-8")
    code = set(re.findall(r'"((?:bad|missing|overlap|too)_\w+|empty|dup|unsupported|cut)"', source))
    assert reasons == code
    documented = memdb.records.Rejection.__doc__ or ""
    assert reasons == set(re.findall(r"`([a-z_]+)`", documented)) - {"stage"}


def test_who_told_a_trace(tmp_path: Path) -> None:
    """[F-054] [F-055]"""
    path = tmp_path / "told.memdb"

    def rows() -> set[str]:
        return {row[4] for row in everything(path)["trace"]}

    with memdb.open(path, encoder=ENCODER) as memory:
        memory.add(TALK[:6], session="s")
        assert rows() == {"rules"}
        told = made_by(reader(), prompt("trajectory"))
        memory.build(reader())
        assert rows() == {told}
        memory.build(saying('{"trajectory": "Zoe came."}', name="liar"))
        assert rows() == {"rules/" + made_by(reader(name="liar"), prompt("trajectory"))}
        assert all("Latest: " in row[3] for row in everything(path)["trace"])
        memory.add([Message("Ana", "I moved to Vienna.", "2024-05-01")], session="t")
        memory.build(reader(), session="t")
        assert told in rows()
        assert memory.verify().problems == ()


def test_a_window_is_one_transaction(tmp_path: Path) -> None:
    """[F-062]"""
    path = tmp_path / "stopped.memdb"
    seen: list[str] = []
    with memdb.open(path, encoder=ENCODER) as memory:
        memory.add(TALK[:8], session="s")
        writer = memory._database._writer
        assert writer is not None
        writer.set_exec_trace(lambda cursor, sql, bindings: seen.append(sql.split()[0]) is None)
        memory.build(reader())
        writer.set_exec_trace(None)
    changes = [word for word in seen if word in ("BEGIN", "COMMIT", "INSERT", "DELETE", "UPDATE")]
    windows_written = "".join(f"{word[0]}" for word in changes).split("C")[:2]
    assert len(windows_written) == 2
    assert all(part.startswith("B") and part.count("B") == 1 for part in windows_written)
    assert seen.count("COMMIT") == 2 + 2, "two windows, two traces"

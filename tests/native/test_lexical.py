"""term_top: the very rows, order and scores of FTS5, whatever the table went through."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb import Message
from tests.native.terms import (
    COLUMNS,
    TOKENIZE,
    Asked,
    answers_as_fts5,
    by_fts5,
    by_term_top,
    connect,
    make,
    ran,
    reads,
    require_native,
)

WORDS = [
    *("cat", "cats", "dog", "running", "ran", "a", "the", "e9", "42", "naïve", "naive", "ñandú", "über"),
    *("猫", "犬", "猫が", "が好", "東京", "ไทย", "ภาษา", "한국", "국어", "Привет", "мир", "שלום", "مرحبا"),
    *("🐈", "\ue000", "x" * 300, "İstanbul", "ﬁsh", "don't", 'quo"te', "two words", "c++", "", "!!!"),
]
words = st.integers(0, len(WORDS) * 3).map(lambda n: WORDS[n % len(WORDS) if n < len(WORDS) else n % 5])
texts = st.lists(words, max_size=12).map(" ".join)
rows = st.tuples(texts, texts, texts)
ids = st.integers(1, 40) | st.sampled_from([0, 5_000, 8_191, 8_192, 16_384, 2**31, 2**40])
asked = st.builds(
    Asked,
    terms=st.lists(st.sampled_from([*WORDS, "nowhere", "nul\0byte", "w" * 40_000]), min_size=1, max_size=6),
    weights=st.none()
    | st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0, 2.5, 1e-9, -1.0]), min_size=1, max_size=4),
    columns=st.none() | st.lists(st.sampled_from(["own", "question", "prompt"]), min_size=1, max_size=3),
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), ids, rows),
        st.tuples(st.just("drop"), ids),
        st.tuples(
            st.sampled_from(["optimize", "merge", "commit", "roll back", "begin", "integrity"]), st.just(0)
        ),
        st.tuples(st.just("ask"), asked),
    ),
    max_size=40,
)
CONTENTLESS = f"own, question, prompt, content = '', contentless_delete = 1, {TOKENIZE}"
KINDS = {
    "ours": CONTENTLESS,
    "with its text": f"own, question, prompt, {TOKENIZE}",
    "with prefixes": f"own, question, prompt, prefix = '1 2', {TOKENIZE}",
    "without lengths": f"own, question, prompt, columnsize = 0, {TOKENIZE}",
    "without positions": f"own, question, prompt, detail = column, {TOKENIZE}",
    "without columns": f"own, question, prompt, detail = none, {TOKENIZE}",
    "plain words": "own, question, prompt",
    "trigrams": "own, question, prompt, tokenize = 'trigram'",
}


def change(connection: apsw.Connection, kind: str, *what: Any) -> None:
    match kind:
        case "put":
            row_id, (own, question, prompt) = what
            connection.execute(
                "INSERT OR REPLACE INTO t (rowid, own, question, prompt) VALUES (?, ?, ?, ?)",
                (row_id, own, question, prompt),
            )
        case "drop":
            connection.execute("DELETE FROM t WHERE rowid = ?", (what[0],))
        case "optimize":
            connection.execute("INSERT INTO t(t) VALUES ('optimize')")
        case "merge":
            connection.execute("INSERT INTO t(t, rank) VALUES ('merge', 16)")
        case "integrity":
            connection.execute("INSERT INTO t(t) VALUES ('integrity-check')")
        case "begin" if not connection.in_transaction:
            connection.execute("BEGIN")
        case "commit" if connection.in_transaction:
            connection.execute("COMMIT")
        case "roll back" if connection.in_transaction:
            connection.execute("ROLLBACK")
        case "ask":
            assert answers_as_fts5(connection, what[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("secure", [False, True])
@settings(max_examples=25, deadline=None)
@given(changes=changes, last=st.lists(asked, min_size=1, max_size=4))
def test_answers_are_those_of_fts5(
    kind: str, secure: bool, changes: list[tuple[Any, ...]], last: list[Asked]
) -> None:
    connection = connect()
    make(connection, KINDS[kind])
    connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', 64), ('automerge', 2), ('crisismerge', 3)")
    connection.execute("INSERT INTO t(t, rank) VALUES ('secure-delete', ?)", (secure,))
    for one in changes:
        change(connection, *one)
    for question in last:
        assert answers_as_fts5(connection, question)
    connection.close()


def zipf(random_: random.Random, most: int) -> str:
    return f"w{int(most ** random_.random())}"


def fill(connection: apsw.Connection, count: int, columns: int = 5, most: int = 2_000) -> None:
    """Rows 1, 2, … of words w1, w2, …, the first ones in most rows."""
    random_ = random.Random(count)
    names = ", ".join(COLUMNS[:columns])
    sql = f"INSERT INTO t (rowid, {names}) VALUES (?{', ?' * columns})"
    with connection:
        for row in range(1, count + 1):
            fields = [
                " ".join(zipf(random_, most) for _ in range(random_.randrange(6))) for _ in range(columns)
            ]
            connection.execute(sql, (row, f"always {fields[0]}", *fields[1:]))


QUESTIONS = [
    Asked(["always"]),
    Asked(["w1", "w2", "w3"]),
    Asked(["w1999", "w7", "always", "w50"], [1.0, 0.5, 0.4, 0.2, 0.3]),
    Asked(["w7", "w7", "nothing"], [1.0, 0.0], COLUMNS[:4]),
    Asked(["w3", "w400"], [0.1, 0.1, 0.1, 0.1, 0.1], ["after", "question"]),
]


@pytest.fixture(scope="module")
def large() -> Iterator[apsw.Connection]:
    """A word in 60,000 rows: doclist indexes, several segments, rows that were replaced and deleted."""
    connection = connect()
    make(connection)
    connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', 200), ('deletemerge', 0)")
    fill(connection, 60_000)
    random_ = random.Random(5)
    with connection:
        for _ in range(3_000):
            row = random_.randrange(1, 60_001)
            if random_.random() < 0.5:
                connection.execute("DELETE FROM t WHERE rowid = ?", (row,))
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO t (rowid, own, question, prompt, context, after)"
                    " VALUES (?, ?, 'w1', '', '', ?)",
                    (row, f"again w{row}", "w3 " * random_.randrange(200)),
                )
    yield connection
    connection.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_doclists_that_span_many_leaves(large: apsw.Connection, question: Asked) -> None:
    indexes = large.execute("SELECT count(*) FROM t_data WHERE id >> 36 & 1").get
    assert indexes > 1, "there are doclist indexes"
    assert reads(large, question)
    assert answers_as_fts5(large, question)


def test_the_first_hits_do_not_wait_for_the_last(large: apsw.Connection) -> None:
    """Those that are pulled later come after those that were pulled before, to the last one."""
    every = by_fts5(large, QUESTIONS[2])
    assert len(every) > 50_000
    for most in (1, 255, 256, 257, 2_303, 2_304, 2_305, 30_000):
        assert by_term_top(large, QUESTIONS[2], most) == every[:most]


def test_rows_of_a_transaction_are_found_before_it_ends() -> None:
    connection = connect()
    make(connection)
    fill(connection, 50)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t (rowid, own) VALUES (77, 'w1 fresh')")
    assert [row for row, _ in by_term_top(connection, Asked(["fresh"]))] == [77]
    assert reads(connection, Asked(["fresh"]))
    connection.execute("SAVEPOINT inner; DELETE FROM t WHERE rowid = 77; DELETE FROM t WHERE rowid = 3")
    assert answers_as_fts5(connection, Asked(["fresh", "w1"]))
    connection.execute("ROLLBACK TO inner")
    assert answers_as_fts5(connection, Asked(["fresh", "w1"]))
    connection.execute("ROLLBACK")
    assert by_term_top(connection, Asked(["fresh"])) == []


def test_a_statement_that_writes_can_ask() -> None:
    """No savepoint can be opened then: FTS5 answers, since it alone knows what was not flushed."""
    connection = connect()
    make(connection)
    connection.execute("CREATE TABLE kept (id INTEGER, score REAL)")
    connection.execute("BEGIN; INSERT INTO t (rowid, own) VALUES (5, 'cat'), (6, 'dog'), (7, 'cat cat')")
    connection.execute("INSERT INTO kept SELECT id, score FROM term_top('t', '[\"cat\"]')")
    assert connection.execute("SELECT id, score FROM kept").fetchall() == by_fts5(connection, Asked(["cat"]))


def test_two_connections_see_their_own_states(tmp_path: Any) -> None:
    writer, reader = connect(tmp_path / "f"), connect(tmp_path / "f")
    writer.execute("PRAGMA journal_mode = WAL")
    make(writer)
    fill(writer, 30)
    assert answers_as_fts5(reader, Asked(["w1"]))
    reader.execute("BEGIN")
    before = by_term_top(reader, Asked(["w1"]))
    writer.execute("DELETE FROM t WHERE rowid < 20")
    assert by_term_top(reader, Asked(["w1"])) == before
    reader.execute("COMMIT")
    assert by_term_top(reader, Asked(["w1"])) == by_fts5(writer, Asked(["w1"])) != before


def test_a_table_made_anew_is_read_by_its_new_tokenizer() -> None:
    connection = connect()
    make(connection)
    connection.execute("INSERT INTO t (rowid, own) VALUES (1, 'cats')")
    assert [row for row, _ in by_term_top(connection, Asked(["cat"]))] == [1]
    connection.execute("DROP TABLE t")
    make(connection, "own, tokenize = 'unicode61'")
    connection.execute("INSERT INTO t (rowid, own) VALUES (1, 'cats')")
    assert by_term_top(connection, Asked(["cat"])) == []
    assert answers_as_fts5(connection, Asked(["cats"]))


def test_many_tables_are_asked_by_turns() -> None:
    connection = connect()
    names = [f"t {n}\"'" for n in range(12)]
    for n, name in enumerate(names):
        make(connection, "own", name.replace('"', '""'))
        connection.execute(
            f'INSERT INTO "{name.replace(chr(34), chr(34) * 2)}" (rowid, own) VALUES (?, ?)', (n, "cat")
        )
    for n, name in enumerate([*names, *names]):
        found = connection.execute("SELECT id FROM term_top(?, '[\"cat\"]')", (name,)).fetchall()
        assert found == [(n % 12,)]


@pytest.mark.parametrize(
    "question",
    [Asked(["cat"], [-1.0]), Asked(["two words"]), Asked(["two-words", "cat"]), Asked(["nul\0byte"])],
    ids=str,
)
def test_what_is_not_read_here_fts5_answers(question: Asked) -> None:
    connection = connect()
    make(connection)
    connection.execute("INSERT INTO t (rowid, own) VALUES (1, 'two words'), (2, 'cat nul byte')")
    assert not reads(connection, question)
    assert by_term_top(connection, question)
    assert answers_as_fts5(connection, question)


@pytest.mark.parametrize("row", [-1, -(2**63), 2**62 + 1, 2**63 - 1])
def test_rows_far_from_all_others(row: int) -> None:
    connection = connect()
    make(connection)
    connection.execute("INSERT INTO t (rowid, own) VALUES (1, 'cat'), (2, 'dog'), (?, 'cat')", (row,))
    assert answers_as_fts5(connection, Asked(["cat", "dog"]))


@pytest.mark.parametrize("far", [1 << 40, (1 << 62) + 9, (1 << 63) - 99])
def test_rows_far_from_those_on_the_leaf_before(far: int) -> None:
    """The first row of a leaf is told in full: one is near enough on each side of a leaf's end."""
    for near in range(300, 322):
        with connect() as connection:
            make(connection, "own, content = '', contentless_delete = 1")
            connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', 64)")
            for row in (*range(1, near), *range(far, far + 40)):
                connection.execute("INSERT INTO t (rowid, own) VALUES (?, 'cat')", (row,))
        assert answers_as_fts5(connection, Asked(["cat"]))


def test_without_terms_nothing_is_found() -> None:
    connection = connect()
    make(connection)
    assert answers_as_fts5(connection, Asked(["cat"]))
    connection.execute("INSERT INTO t (rowid, own) VALUES (1, 'cat')")
    for terms in ("[]", '["", "!"]', None):
        assert connection.execute("SELECT * FROM term_top('t', ?)", (terms,)).fetchall() == []


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM term_top", "needs an index and terms"),
        ("SELECT * FROM term_top('t')", "needs an index and terms"),
        ("SELECT * FROM term_top('t', '[\"cat\"')", "malformed JSON"),
        ("SELECT * FROM term_top('t', '[\"cat\"]', '[')", "malformed JSON"),
        ("SELECT * FROM term_top('t', '[\"cat\"]', NULL, '[\"nowhere\"]')", "no such column: nowhere"),
        ("SELECT * FROM term_top('none', '[\"cat\"]')", "no such table"),
        ("SELECT * FROM term_top('plain', '[\"cat\"]')", "no such column|unable to use function"),
    ],
)
def test_what_cannot_be_asked_is_refused(sql: str, reason: str) -> None:
    connection = connect()
    make(connection)
    connection.execute("CREATE TABLE plain (own); INSERT INTO plain VALUES ('cat')")
    with pytest.raises(apsw.SQLError, match=reason):
        connection.execute(sql).fetchall()


def test_a_file_cannot_make_its_views_ask() -> None:
    connection = connect()
    make(connection)
    connection.execute("CREATE VIEW v AS SELECT * FROM term_top('t', '[\"cat\"]')")
    with pytest.raises(apsw.SQLError, match="unsafe use"):
        connection.execute("SELECT * FROM v").fetchall()


def test_the_order_is_not_sorted_again() -> None:
    connection = connect()
    make(connection)
    sql = "EXPLAIN QUERY PLAN SELECT id FROM term_top('t', '[]') ORDER BY "
    for order in ("score DESC", "score DESC, id"):
        assert "B-TREE" not in str(connection.execute(sql + order).fetchall())
    for order in ("score", "score DESC, id DESC", "id"):
        assert "B-TREE" in str(connection.execute(sql + order).fetchall())


def test_lengths_are_taken_from_the_table_beside(memory: memdb.Memory) -> None:
    """Where its stamp fits, FTS5's own records are not read; where it does not, answers stay right."""
    texts = [f"Ana walked {'far ' * (n % 7)}to Oslo with dog number {n}" for n in range(300)]
    memory.add([Message("Ana", text, f"2024-03-{n % 28 + 1:02}") for n, text in enumerate(texts)])
    question = Asked(["dog", "far", "oslo"], [1.0, 0.5])
    with memory._database.writer_setup() as connection:
        require_native(connection)
        assert not [sql for sql in ran(connection, question, "message_terms") if "sz FROM main" in sql]
        assert answers_as_fts5(connection, question, "message_terms")
        connection.execute("BEGIN")
        put = "INSERT OR REPLACE INTO message_terms (rowid, own, after) VALUES (?, ?, '')"
        connection.execute(put, (7, "dog " * 50))
        assert [sql for sql in ran(connection, question, "message_terms") if "sz FROM main" in sql]
        assert answers_as_fts5(connection, question, "message_terms")
        connection.execute("ROLLBACK")
        for damage in ("zeroblob(4016)", "x''", "zeroblob(3)", "randomblob(4016)"):
            connection.execute(
                f"SAVEPOINT s; UPDATE message_terms_length SET lengths = {damage} WHERE block = 0"
            )
            assert len(by_term_top(connection, question, name="message_terms")) == 300
            connection.execute("ROLLBACK TO s; RELEASE s")
        assert answers_as_fts5(connection, question, "message_terms")

"""term_top where words are in most rows: the answers of FTS5, though most of what it reads is passed over."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.terms import Asked, answers_as_fts5, by_fts5, by_term_top, connect, make, ran

NAMES = ("own", "question", "prompt")
TABLE = f"{', '.join(NAMES)}, content = '', contentless_delete = 1"
# Words in about so many of a hundred rows; those from half of the rows on have the least weight there is.
SHARES = {"the": 97, "of": 80, "half": 50, "near": 48, "often": 30, "some": 12, "rare": 4, "once": 1}
shares = st.fixed_dictionaries(
    {word: st.sampled_from([share // 2, share, min(100, share * 2)]) for word, share in SHARES.items()}
)
# Weights that are nearly the same part scores by less than what the most common words add.
asked = st.builds(
    Asked,
    terms=st.lists(st.sampled_from([*SHARES, "nowhere"]), min_size=1, max_size=9),
    weights=st.sampled_from([None, (1.0, 1.0000003, 1.0000001)])
    | st.lists(st.sampled_from([0.0, 0.2, 1.0, 1.0000005, 3.0]), min_size=3, max_size=3),
    columns=st.sampled_from([None, None, NAMES[:1], NAMES[:2], NAMES[1:]]),
)


def fill(connection: apsw.Connection, of: dict[str, int], count: int, seed: int, padded: int) -> None:
    """Rows 1 to `count`, some of them deleted or replaced after, filled up to `padded` words.

    Where all are of one length, there are very many equal scores, and common words alone make a difference.
    """
    dice = random.Random(seed)
    step = dice.choice((1, 1, 3, 50))
    rows = [*range(1, count + 1), *dice.sample(range(1, count + 1), count // 10)]
    many = dice.choice(((1,), (1, 1, 1, 2), (1, 1, 1, 70)))
    put = "INSERT OR REPLACE INTO t (rowid, own, question, prompt) VALUES (?, ?, ?, ?)"
    for batch in range(0, len(rows), count // 4):
        with connection:
            for number in rows[batch : batch + count // 4]:
                fields: list[list[str]] = [[], [], []]
                for word, share in of.items():
                    if dice.random() * 100 < share:
                        fields[int(3 * dice.random() ** 4)] += [word] * dice.choice(many)
                fields[0] += ["else"] * (padded - sum(map(len, fields)))
                connection.execute(put, (number * step, *map(" ".join, fields)))
    with connection:
        for number in dice.sample(range(1, count + 1), dice.choice((0, count // 20))):
            connection.execute("DELETE FROM t WHERE rowid = ?", (number * step,))


@settings(max_examples=30, deadline=None)
@given(
    of=shares,
    count=st.sampled_from([150, 400, 1_200]),
    seed=st.integers(0, 10**6),
    padded=st.sampled_from([0, 12, 12, 20]),
    page=st.sampled_from([40, 64, 500, 4050]),
    questions=st.lists(asked, min_size=1, max_size=4),
)
def test_words_in_most_rows_are_ranked_as_by_fts5(
    of: dict[str, int], count: int, seed: int, padded: int, page: int, questions: list[Asked]
) -> None:
    with connect() as connection:
        make(connection, TABLE)
        connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', ?), ('automerge', 0)", (page,))
    fill(connection, of, count, seed, padded)
    for question in questions:
        assert answers_as_fts5(connection, question)
        every = by_fts5(connection, question)
        for most in (1, 20, 127, 128, 129, 200):
            assert by_term_top(connection, question, most) == every[:most]
    connection.close()


REMEMBERED = Asked(["the", "of", "often", "some"], [1.0, 0.5, 0.2])


def filled(path: Path) -> apsw.Connection:
    """A connection to a file of 400 rows in several segments; "the" and "of" are in most of them."""
    connection = connect(path)
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE numbers (value INTEGER)")
    with connection:
        connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(500)])
    make(connection, TABLE)
    connection.execute("INSERT INTO t(t, rank) VALUES ('pgsz', 64), ('automerge', 0)")
    fill(connection, SHARES, 400, 7, 12)
    return connection


def is_right(connection: apsw.Connection) -> bool:
    """Whether the best hundred are those of FTS5, asked twice."""
    expected = by_fts5(connection, REMEMBERED, 100)
    return all(by_term_top(connection, REMEMBERED, 100) == expected for _ in range(2))


def test_common_words_are_not_read_again(tmp_path: Path) -> None:
    """Only the leaves that the best rows are on are, and where the words begin is not looked up."""
    with closing(filled(tmp_path / "f")) as connection:
        first, second = (ran(connection, REMEMBERED) for _ in range(2))
        looked_up = [sum("pgno FROM" in sql for sql in statements) for statements in (first, second)]
        assert looked_up[1] == looked_up[0] // 2
        assert is_right(connection)


def test_what_is_remembered_of_words_ends_when_rows_change(tmp_path: Path) -> None:
    """By this connection or another one, for good or not."""
    with closing(filled(tmp_path / "f")) as writer, closing(connect(tmp_path / "f")) as reader:
        for change in (
            "DELETE FROM t WHERE rowid IN (SELECT rowid FROM t WHERE t MATCH 'the' LIMIT 150)",
            "INSERT INTO t(t) VALUES ('optimize')",
            "INSERT INTO t (rowid, own) SELECT 90000 + value, 'some else' FROM numbers",
            "INSERT INTO t (rowid, own) SELECT 99000 + value, 'the of some often' FROM numbers",
        ):
            assert is_right(writer)
            assert is_right(reader)
            for ending in ("ROLLBACK", "COMMIT"):
                writer.execute("BEGIN")
                writer.execute(change)
                assert is_right(writer)
                writer.execute("SAVEPOINT s; DELETE FROM t WHERE rowid % 2")
                assert is_right(writer)
                writer.execute("ROLLBACK TO s; RELEASE s")
                assert is_right(reader)
                writer.execute(ending)
                assert is_right(writer)
                assert is_right(reader)
        writer.execute("DROP TABLE t")
        make(writer, TABLE)
        fill(writer, SHARES, 300, 8, 12)
        assert is_right(writer)
        assert is_right(reader)

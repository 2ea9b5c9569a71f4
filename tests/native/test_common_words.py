"""term_top where words are in most rows: the answers of FTS5, though most of what it reads is passed over."""

from __future__ import annotations

import random

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.terms import Asked, answers_as_fts5, by_fts5, by_term_top, connect, make

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

"""match_scores and match_top: the rows that meet a question best, the nearest ones first."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.vectors import Codes, Table, clustered, nearest, uniform

Hit = tuple[int, int, float, float]  # number, id, score, weight

ids = st.integers(-3, 60)
scores = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.9000000001, 0.9000000004, 1.0])
weights = st.sampled_from([1.0, 0.5, 1 / 3])
hits = st.lists(st.tuples(st.integers(-2, 3), ids, scores, weights), max_size=120)


def _matches(table: Table, some: Sequence[Hit]) -> bytes | None:
    """What match_scores says of rows that come in this order."""
    row: Any = table.connection.execute(
        "SELECT match_scores(value ->> 0, value ->> 1, value ->> 2, value ->> 3) FROM json_each(?)",
        (_json(some),),
    ).get
    return row


def _json(some: Sequence[Hit]) -> str:
    return (
        "[" + ",".join(f"[{number},{one},{score!r},{weight!r}]" for number, one, score, weight in some) + "]"
    )


def _sums(some: Sequence[Hit]) -> dict[int, float]:
    best: dict[tuple[int, int], float] = {}
    for number, one, score, weight in some:
        best[one, number] = max(score * weight, best.get((one, number), -1.0))
    sums: dict[int, float] = {}
    for (one, _), value in sorted(best.items()):
        sums[one] = sums.get(one, 0.0) + value
    return sums


def _top(table: Table, query: Codes | None, k: int, matches: bytes | None) -> list[tuple[int, float, float]]:
    """The best k as a statement puts them in order."""
    found: Any = table.connection.execute(
        "SELECT id, score, distance FROM match_top('t', ?, ?, ?)"
        " ORDER BY round(score, 9) DESC, distance, id LIMIT ?",
        (None if query is None else query.tobytes(), k, matches, k),
    )
    return list(found)


def _expected(
    table: Table, query: Codes | None, k: int, sums: dict[int, float]
) -> list[tuple[int, float, float]]:
    near: dict[int, float | None] = {}
    if query is not None:
        held = {one: row.code for one, row in table.rows.items() if one in sums}
        near = dict(nearest(held, query, len(held)))
    rows = []
    for one, score in sums.items():
        distance = near.get(one)
        rows.append((one, score, 2.0 if distance is None else min(2.0, distance)))
    return sorted(rows, key=lambda row: (-round(row[1], 9), row[2], row[0]))[:k]


@pytest.fixture(scope="module")
def table() -> Table:
    made = Table(16, chunk_size=8)
    codes = clustered(np.random.default_rng(3), 50, 16, around=3)
    codes[9], codes[20:24] = 0, codes[19]  # one without length, some alike
    made.fill(codes)
    for gone in (5, 30, 31):
        made.drop(gone)
    return made


@given(some=hits)
def test_of_the_scores_for_one_number_the_best_counts_and_they_add_up(table: Table, some: list[Hit]) -> None:
    told = _matches(table, some)
    sums = _sums(some)
    assert (told is None) == (not some)
    found = list(struct.iter_unpack("=qd", told or b""))
    assert [one for one, _ in found] == sorted(sums)
    assert [score for _, score in found] == pytest.approx([sums[one] for one in sorted(sums)])


@given(some=hits, k=st.sampled_from([1, 2, 7, 30, 500]), seed=st.integers(0, 5))
@settings(max_examples=300)
def test_the_best_are_found_and_of_equal_ones_the_nearest(
    table: Table, some: list[Hit], k: int, seed: int
) -> None:
    query = uniform(np.random.default_rng(seed), (16,))
    for asked in (query, table.rows[20].code, None):
        assert _top(table, asked, k, _matches(table, some)) == _expected(table, asked, k, _sums(some))


def test_very_many_that_tie_are_searched_chunk_by_chunk() -> None:
    """More ids than are worth looking up: those of every other row, some of them gone."""
    rng = np.random.default_rng(8)
    table = Table(24, chunk_size=64)
    table.fill(clustered(rng, 3_000, 24))
    for gone in range(40, 400, 6):
        table.drop(gone)
    query = table.rows[11].code
    some: list[Hit] = [(0, one, 1.0, 1.0) for one in range(1, 3_100, 2)] + [(1, 77, 0.5, 1.0)]
    assert _top(table, query, 100, _matches(table, some)) == _expected(table, query, 100, _sums(some))
    backwards = list(reversed(some))
    assert _matches(table, backwards) == _matches(table, some)


def test_nothing_is_found_without_matches_or_for_none(table: Table) -> None:
    query = table.rows[20].code
    assert _top(table, query, 5, None) == []
    assert _top(table, query, 0, _matches(table, [(0, 1, 1.0, 1.0)])) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("t", bytes(16), 5, b"1234"), "no value of match_scores"),
        (("t", bytes(16), 5, "text"), "no value of match_scores"),
        (("t", bytes(16), 5, struct.pack("=qdqd", 4, 1.0, 4, 1.0)), "not in order"),
        (("t", bytes(16), -1, struct.pack("=qd", 4, 1.0)), "k is out of range"),
        (("t", bytes(16), 1 << 40, struct.pack("=qd", 4, 1.0)), "k is out of range"),
        (("t", bytes(15), 5, struct.pack("=qd", 4, 1.0)), "components"),
        (("none", bytes(16), 5, struct.pack("=qd", 4, 1.0)), "there is no such table"),
        ((None, bytes(16), 5, struct.pack("=qd", 4, 1.0)), "which table"),
    ],
)
def test_what_cannot_be_is_an_error(table: Table, arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(apsw.SQLError, match=says):
        table.connection.execute("SELECT id FROM match_top(?, ?, ?, ?)", arguments).fetchall()


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), 1e300, -1e300])
def test_scores_that_are_no_share_are_put_in_order_too(table: Table, score: float) -> None:
    """A blob may be made by hand."""
    blob = struct.pack("=qdqdqd", 1, 0.5, 2, score, 3, 0.25)
    found: Any = table.connection.execute("SELECT id FROM match_top('t', ?, 2, ?)", (bytes(range(16)), blob))
    assert {one for (one,) in found} <= {1, 2, 3}

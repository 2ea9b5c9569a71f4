"""What a model replied: repaired once, cut off where it was cut off, or refused with the reason."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.construct import replies
from memdb.construct.replies import Candidates, Indexes, Time, Told, interval
from memdb.language.cleaning import cleaned
from memdb.models.ports import Completion
from memdb.models.replies import Spent, read
from memdb.records import Interval
from tests import strategies
from tests.scripted import listed, unit

ONE = unit("M1", "M2", "Ana lives in Porto.", "Ana", "lives in", "Porto")
TWO = unit("M2", "M2", 'Ben said: "}]{[\\".', "Ben", "said", "}]")


@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```  \n",
        "  ```json-lines\n{}```",
        "Here you are:\n{}\nDid that help?",
        "Sure!\n```json\n{}\n```\n",
        "\ufeff{}",
    ],
)
def test_a_reply_is_repaired_once(wrapped: str) -> None:
    found, lost = read(wrapped.replace("{}", listed(ONE, TWO)), Candidates)
    assert [one.fact_text for one in found.memory_units] == [ONE["fact_text"], TWO["fact_text"]]
    assert found.memory_units[0].triple.object == "Porto"
    assert lost == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no JSON object"),
        ("nothing to say", "no JSON object"),
        ("[]", "no JSON object"),
        ("}{", "truncated"),
        ("{", "truncated"),
        ("{}", "missing required field `memory_units`"),
        ('{"memory_units": {}}', "Expected `array`"),
        ('{"memory_units": [{"start_turn": 1}]}', "Expected `str`"),
        (listed({**ONE, "triple": None}), "Expected `object`"),
        (listed({**ONE, "triple": {"subject": "Ana", "predicate": "x"}}), "missing required field `object`"),
        ('{"memory_units": []} {"memory_units": []}', "trailing"),
        (r'{"memory_units": [], "x": "\ud800 and more"}', "JSON is malformed"),
        ('{"memory_units": [], "x": ' + "[" * 9_000 + "]" * 9_000 + "}", "recursion"),
        ('{"memory_units": [], "x": ' + '{"a":' * 9_000 + "1" + "}" * 9_000 + "}", "recursion"),
    ],
)
@pytest.mark.parametrize("cut_off", [False, True])
def test_what_is_no_reply_says_why(text: str, told: str, cut_off: bool) -> None:
    if cut_off and told == "trailing":
        assert read(text, Candidates, cut_off=True)[0].memory_units == ()
        return
    with pytest.raises(ValueError, match=told):
        read(text, Candidates, cut_off=cut_off)


def test_more_than_was_asked_for_is_left_out() -> None:
    found, _ = read(json.dumps({"why": [1, {}], "memory_units": [{**ONE, "sure": True}]}), Candidates)
    assert found.memory_units[0].start_turn == "M1"


def test_indexes_may_be_left_out() -> None:
    found, _ = read(listed({"memory_unit_id": "U1"}), Indexes)
    assert (found.memory_units[0].entities, found.memory_units[0].time) == ((), ())


def test_a_reply_that_was_cut_off_keeps_its_whole_units() -> None:
    text = listed(ONE, TWO, ONE)
    found, lost = read(text[:-20], Candidates, cut_off=True)
    assert [one.fact_text for one in found.memory_units] == [ONE["fact_text"], TWO["fact_text"]]
    assert lost.startswith(', {"start_turn": "M1"')
    with pytest.raises(ValueError, match="truncated"):
        read(text[:-20], Candidates)
    with pytest.raises(ValueError, match="truncated"):
        read(text[:30], Candidates, cut_off=True)


def test_a_whole_reply_that_ends_at_the_limit_lost_nothing() -> None:
    found, lost = read(listed(ONE, TWO) + "  ", Candidates, cut_off=True)
    assert (len(found.memory_units), lost) == (2, "")


@given(
    st.lists(
        st.sampled_from([ONE, TWO, {**ONE, "fact_text": '\\"{é'}, {**ONE, "fact_text": "}\\"}]), max_size=4
    ),
    st.data(),
)
def test_any_beginning_of_a_reply_has_the_units_it_has_whole(
    units: list[object], data: st.DataObject
) -> None:
    text = json.dumps({"memory_units": units}, ensure_ascii=data.draw(st.booleans()))
    whole = read(text, Candidates)[0].memory_units
    end = data.draw(st.integers(0, len(text)))
    begun = text[:end].count('"start_turn"')
    try:
        found, lost = read(text[:end], Candidates, cut_off=True)
    except ValueError:
        assert begun <= 1, "there is a whole unit before the last one that was begun"
        return
    assert found.memory_units == whole[: len(found.memory_units)]
    assert begun - 1 <= len(found.memory_units) <= begun
    assert text[:end].endswith(lost)


@given(st.one_of(strategies.text, st.text(alphabet='{}[]",:\\ aé\ud800\x00`\n', max_size=80)), st.booleans())
def test_any_text_is_read_or_refused(text: str, cut_off: bool) -> None:
    try:
        found, _ = read(text, Told, cut_off=cut_off)
    except ValueError:
        return
    assert isinstance(found.trajectory, str)


# --- Times (QGMem section III-A1): hand-computed


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2023-05-07", "2023-05-07", ("2023-05-07", "2023-05-07")),
        ("2023", "2023", ("2023-01-01", "2023-12-31")),
        ("2023-02", "2023-02", ("2023-02-01", "2023-02-28")),
        ("2024-02", "2024-02", ("2024-02-01", "2024-02-29")),
        ("2023-12", "2024", ("2023-12-01", "2024-12-31")),
        (" 2023-05-07 ", "2023-06", ("2023-05-07", "2023-06-30")),
        ("2024", "2023-12", None),
        ("2023-02-29", "2023-03-01", None),
        ("2023-13", "2023-13", None),
        ("0000", "0000", None),
        ("2023-5-7", "2023-05-07", None),
        ("2023-05-07T10:00", "2023-05-07", None),
        ("last year", "2023", None),
        ("", "", None),
    ],
)
def test_a_time_is_a_closed_range_of_days(start: str, end: str, days: tuple[str, str] | None) -> None:
    found = interval(Time(start, end, "month"))
    if days is None:
        assert found is None
    else:
        assert found == Interval(*map(dt.date.fromisoformat, days), "month")


@pytest.mark.parametrize("granularity", ["decade", "", "Day", "days"])
def test_a_granularity_is_one_of_four(granularity: str) -> None:
    assert interval(Time("2023", "2023", granularity)) is None


# --- Schemas and texts


def test_schemas_hold_a_model_to_the_ids_it_was_shown() -> None:
    units = json.dumps(replies.units_schema(["M5", "M6"]))
    assert units.count('"enum": ["M5", "M6"]') == 2
    assert units.count('"additionalProperties": false') == 3
    assert '"maxItems": 16' in units
    indexes = json.dumps(replies.indexes_schema(["U1", "U2", "U3"]))
    assert indexes.count('"enum": ["U1", "U2", "U3"]') == 1
    assert '"maxItems": 3' in indexes
    assert '"enum": ["day", "week", "month", "year"]' in indexes
    assert replies.trajectory_schema()["required"] == ["trajectory"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, ""),
        ("  a\r\n\tb  ", "a b"),
        ("a\x00b", "a␀b"),
        ("a\x1b[31mb", "a [31mb"),
        ("a\u2028b\u2029c\x85d\x0be\x0cf", "a b c d e f"),
        ("a\u202eb\u200bc", "a b c"),
        ("\ud800", "\ufffd"),
        ("海底捞 🙂 é", "海底捞 🙂 é"),
    ],
)
def test_cleaned_text_is_one_line(text: str | None, line: str) -> None:
    assert cleaned(text) == line


@given(st.one_of(st.text(), strategies.text))
def test_cleaned_text_stays_clean(text: str) -> None:
    line = cleaned(text)
    assert line == cleaned(line)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


def test_spent_adds_up() -> None:
    reply = Completion(text="", finish="stop", prompt_tokens=5, completion_tokens=2, cached_tokens=3)
    assert Spent().plus(reply).plus(reply) == Spent(prompt=10, cached=6, completion=4)

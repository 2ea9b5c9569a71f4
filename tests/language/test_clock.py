from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import errors
from memdb.language.clock import anchor_day, parse_instant
from memdb.records import Instant

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def utc_us(*parts: int) -> int:
    return (dt.datetime(*parts, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)  # type: ignore[misc,arg-type]


# reading, day in the speaker's calendar, the instant in UTC, minutes of offset
READINGS = [
    ("2023-05-07", "2023-05-07", (2023, 5, 7), None),
    ("2023-05-07T10:11", "2023-05-07", (2023, 5, 7, 10, 11), None),
    ("2023-05-07 10:11:12", "2023-05-07", (2023, 5, 7, 10, 11, 12), None),
    ("2023-05-07T10:11:12.5", "2023-05-07", (2023, 5, 7, 10, 11, 12, 500000), None),
    ("2023-05-07T10:11:12,123456789", "2023-05-07", (2023, 5, 7, 10, 11, 12, 123456), None),
    ("2023-05-07T10:11:12Z", "2023-05-07", (2023, 5, 7, 10, 11, 12), 0),
    ("2023-05-07t10:11z", "2023-05-07", (2023, 5, 7, 10, 11), 0),
    ("2023-05-07T10:11+01:00", "2023-05-07", (2023, 5, 7, 9, 11), 60),
    ("2023-05-07T10:11 +0530", "2023-05-07", (2023, 5, 7, 4, 41), 330),
    ("2023-05-07T10:11-08", "2023-05-07", (2023, 5, 7, 18, 11), -480),
    ("2024-03-10T23:30-08:00", "2024-03-10", (2024, 3, 11, 7, 30), -480),
    ("2024-01-01T00:30+09:00", "2024-01-01", (2023, 12, 31, 15, 30), 540),
    ("2024-02-29", "2024-02-29", (2024, 2, 29), None),
    ("1:56 pm on 8 May, 2023", "2023-05-08", (2023, 5, 8, 13, 56), None),
    ("12:05 am on 1 January, 2024", "2024-01-01", (2024, 1, 1, 0, 5), None),
    ("12:05 pm on 1 January, 2024", "2024-01-01", (2024, 1, 1, 12, 5), None),
    ("2023/04/10 (Mon) 23:07", "2023-04-10", (2023, 4, 10, 23, 7), None),
    ("2023/04/10 23:07", "2023-04-10", (2023, 4, 10, 23, 7), None),
    ("2023/4/1", "2023-04-01", (2023, 4, 1), None),
    ("8 May 2023", "2023-05-08", (2023, 5, 8), None),
    ("8th May 2023", "2023-05-08", (2023, 5, 8), None),
    ("08-May-2023", "2023-05-08", (2023, 5, 8), None),
    ("May 8, 2023", "2023-05-08", (2023, 5, 8), None),
    ("May 8th, 2023", "2023-05-08", (2023, 5, 8), None),
    ("Sept. 8, 2023", "2023-09-08", (2023, 9, 8), None),
    ("March-15-2024", "2024-03-15", (2024, 3, 15), None),
    ("Monday, 8 May 2023", "2023-05-08", (2023, 5, 8), None),
    ("May 8, 2023 1:56 PM", "2023-05-08", (2023, 5, 8, 13, 56), None),
    ("8 May 2023, 13:56", "2023-05-08", (2023, 5, 8, 13, 56), None),
    ("  2023-05-07 ", "2023-05-07", (2023, 5, 7), None),
    ("0001-01-01T00:00+10:00", "0001-01-01", None, 600),
    ("9999-12-31T23:59-10:00", "9999-12-31", None, -600),
]

NOT_READINGS = [
    "",
    " ",
    "yesterday",
    "now",
    "2023",
    "2023-05",
    "23-05-07",
    "5/7/2023",
    "07.05.2023",
    "2023-13-01",
    "2023-02-29",
    "2023-00-10",
    "0000-01-01",
    "2023-05-07T25:00",
    "2023-05-07T10:61",
    "2023-05-07T10:11+25:00",
    "2023-05-07T10:11+01:75",
    "2023-05-07Tnoon",
    "2023-05-07 and more",
    "2023-05/07",
    "8 Mai 2023",
    "8 Maybe 2023",
    "32 May 2023",
    "13:00 pm on 8 May, 2023",
    "0:10 am on 8 May, 2023",
    "٢٠٢٣-٠٥-٠٧",
    "serial",
    "serial-",
    "serial--1",
    "serial-1.5",
    "serial-x",
    "Serial-1",
    "serial-9007199254740993",
    "serial-" + "9" * 60,
    "2" * 100_000,
    "\x00",
    "\ud800",
]


@pytest.mark.parametrize(("text", "day", "utc", "offset_min"), READINGS)
def test_readings(text: str, day: str, utc: tuple[int, ...] | None, offset_min: int | None) -> None:
    instant = parse_instant(text)
    assert instant.text == text
    assert anchor_day(instant) == dt.date.fromisoformat(day)
    assert instant.offset_min == offset_min
    assert instant.serial is None
    if utc is not None:
        assert instant.utc_us == utc_us(*utc)


@pytest.mark.parametrize("text", NOT_READINGS)
def test_anything_else_is_an_error_that_says_what_to_do(text: str) -> None:
    with pytest.raises(errors.TimeError) as caught:
        parse_instant(text)
    assert "ISO 8601" in caught.value.hint or "at most" in caught.value.hint
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("number", [0, 1, 42, 2**53])
def test_serial_numbers(number: int) -> None:
    assert parse_instant(f"serial-{number}") == Instant(text=f"serial-{number}", serial=number)


@pytest.mark.parametrize("thing", [3, 3.5, None, True, b"2023-05-07", ("2023-05-07",)])
def test_things_that_are_no_moments(thing: object) -> None:
    with pytest.raises(errors.TimeError):
        parse_instant(thing)  # type: ignore[arg-type]


def test_a_date_and_a_naive_datetime() -> None:
    assert parse_instant(dt.date(2023, 5, 7)) == parse_instant("2023-05-07")
    moment = dt.datetime(2023, 5, 7, 10, 11, 12, 13)
    assert parse_instant(moment) == parse_instant("2023-05-07T10:11:12.000013")


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_a_datetime_reads_as_its_iso_form(moment: dt.datetime) -> None:
    instant = parse_instant(moment)
    assert instant.text == moment.isoformat()
    assert anchor_day(instant) == moment.date()
    offset = moment.utcoffset()
    if offset is not None and offset.seconds % 60 == 0:
        assert instant == parse_instant(moment.isoformat())


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_utc_is_what_the_standard_library_says(moment: dt.datetime, offset_min: int) -> None:
    aware = moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=offset_min)))
    assert parse_instant(aware).utc_us == (aware - EPOCH) // dt.timedelta(microseconds=1)
    assert parse_instant(aware.isoformat()) == parse_instant(aware)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        instant = parse_instant(text)
    except errors.TimeError:
        return
    assert instant.text == text
    assert (instant.day is None) == (instant.serial is not None)


@pytest.fixture(params=["Pacific/Kiritimati", "America/Los_Angeles"])
def machine_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("machine_zone")
@pytest.mark.parametrize(("text", "day", "utc", "offset_min"), READINGS[:12])
def test_the_machine_zone_changes_nothing(
    text: str, day: str, utc: tuple[int, ...], offset_min: int | None
) -> None:
    test_readings(text, day, utc, offset_min)


def test_no_anchor_without_a_day() -> None:
    assert anchor_day(None) is None
    assert anchor_day(parse_instant("serial-3")) is None

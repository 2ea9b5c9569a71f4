"""Reading LoCoMo: clocks, repaired evidence, captions, and files that are something else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality import locomo
from benchmarks.quality.data import DATA_VARIABLE, find_files, first_questions, sha256
from benchmarks.quality.errors import DataMalformed, DataMissing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56"),
        ("12:05 am on 1 June, 2023", "2023-06-01T00:05"),
        ("12:00 pm on 31 December, 2022", "2022-12-31T12:00"),
        ("9:30 AM on 29 february, 2024", "2024-02-29T09:30"),
    ],
)
def test_clock(text: str, expected: str) -> None:
    assert locomo.clock(text) == expected


@pytest.mark.parametrize("text", ["", "8 May, 2023", "1:56 pm on 8 Mai, 2023", "1:56 pm on 31 June, 2023"])
def test_other_clocks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"clock|day"):
        locomo.clock(text)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D9:1 D4:4 D4:6"], ("D9:1", "D4:4", "D4:6")),
        (["D:11:26"], ("D11:26",)),
        (["D", "D1:20"], ("D1:20",)),
        (["D30:05"], ("D30:5",)),
        (["D4:4", "D4:4"], ("D4:4",)),
        (["D99:1"], ()),
        ([], ()),
    ],
)
def test_repair(evidence: list[str], expected: tuple[str, ...]) -> None:
    known = ["D8:6", "D9:17", "D9:1", "D4:4", "D4:6", "D11:26", "D1:20", "D30:5"]
    assert locomo.repair(evidence, known) == expected


def test_load(folder: Path) -> None:
    first, second = locomo.load(find_files("locomo", locomo.PATTERN, folder))
    assert [session.name for session in first.sessions] == ["session_1", "session_2", "session_10"]
    assert len(first.messages) == 6
    assert first.messages[2].image_caption == "a parrot on a piano"
    assert (first.messages[2].id, first.messages[2].said_at) == ("D1:3", "2023-05-08T13:56")
    assert [question.gold for question in first.questions] == [
        *(("D1:1", "D1:3"), ("D2:1",), ("D2:1", "D2:2"), (), ("D1:1",))
    ]
    assert [question.answer for question in first.questions][1:3] == ["2023", "Porto"]
    assert first.questions[0].asked_at == "2023-06-02T10:00"
    assert second.questions[0].number == 0


def test_found_in_the_folder_above_the_folder_and_as_a_file(folder: Path) -> None:
    file = folder / "locomo" / "locomo-sample.json"
    for place in (folder, folder / "locomo", file):
        assert find_files("locomo", locomo.PATTERN, place) == [file]


def test_found_through_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    assert len(find_files("locomo", locomo.PATTERN, None)) == 1


def test_missing_data_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataMissing) as caught:
        find_files("locomo", locomo.PATTERN, tmp_path)
    assert str(tmp_path / "locomo" / locomo.PATTERN) in str(caught.value)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(DataMissing, match=r"--data DIR or set MEMDB_DATA"):
        find_files("locomo", locomo.PATTERN, None)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '[{"sample_id": "a", "conversation": {}, "qa": [{"question": "q"}]}]', '[{"qa": []}]'],
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataMalformed, match=r"locomo\.json"):
        locomo.load([file])


@pytest.mark.parametrize(
    ("key", "value", "detail"),
    [
        ("session_1_date_time", "yesterday", "yesterday"),
        ("session_1", [{"speaker": "Ines"}], "dia_id"),
        ("session_12", [], "session_12 has no clock"),
    ],
)
def test_malformed_conversations_are_named(
    tmp_path: Path, samples: list[dict[str, Any]], key: str, value: object, detail: str
) -> None:
    samples[0]["conversation"][key] = value
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(samples), encoding="utf-8")
    with pytest.raises(DataMalformed, match=f"conv-a: .*{detail}"):
        locomo.load([file])


def test_the_same_conversation_twice_is_refused(folder: Path) -> None:
    file = folder / "locomo" / "locomo-sample.json"
    with pytest.raises(DataMalformed, match="conv-a was read before"):
        locomo.load([file, file])


def test_sha256_is_of_the_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"ab")
    (tmp_path / "b").write_bytes(b"c")
    assert sha256([tmp_path / "a", tmp_path / "b"]).startswith("ba7816bf")  # of "abc"


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [5, 1]), (3, [3]), (5, [5]), (6, [5, 1]), (99, [5, 1])]
)
def test_first_questions(folder: Path, limit: int | None, expected: list[int]) -> None:
    conversations = locomo.load(find_files("locomo", locomo.PATTERN, folder))
    assert [len(one.questions) for one in first_questions(conversations, limit)] == expected


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no data")
def test_real_data() -> None:
    try:
        files = find_files("locomo", locomo.PATTERN, None)
    except DataMissing as error:
        pytest.skip(str(error))
    conversations = locomo.load(files)
    questions = [question for one in conversations for question in one.questions]
    scored = sum(bool(question.gold) for question in questions)
    assert (len(questions), scored) in {(999, 997), (1986, 1981)}  # five conversations, or all ten

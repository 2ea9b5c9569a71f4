"""`memdb history` and `memdb calibrate`: raw history in words and in JSON, thresholds found anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

import memdb
from memdb import Message
from memdb.models.fakes import HashEncoder
from memdb.records import Calibrated

Cli = Callable[..., Result]
TREES = ("a pear tree", "a plum tree", "an apple tree", "a cherry tree")
SAID = [
    Message(
        "Ana", f"I planted {TREES[n % 4]} number {n} in the orchard.", f"2024-03-{n % 28 + 1:02}", f"m{n}"
    )
    for n, day in enumerate(f"2024-03-{n % 28 + 1:02}" for n in range(120))
]


@pytest.fixture
def orchard(tmp_path: Path) -> Path:
    path = tmp_path / "orchard.memdb"
    with memdb.open(path, encoder=HashEncoder()) as memory:
        memory.add(SAID, session="spring")
        memory.add([Message("Ben", "\x1b[31mRed\x1b[0m apples?", id="b")], session="autumn")
    return path


def test_history_is_told_oldest_first_with_ranks(cli: Cli, orchard: Path) -> None:
    result = cli("history", orchard, "plum tree number 5", "-k", 3)
    assert result.exit_code == 0
    assert "    1 Ana: I planted a plum tree number 5 in the orchard." in result.stdout
    assert "messages, about" in result.stdout
    ids = [line for line in result.stdout.splitlines() if " number " in line]
    numbers = [int(line.split(" number ")[1].split()[0]) for line in ids]
    assert len(numbers) >= 3
    assert numbers == sorted(numbers), "a session's messages have the order of its days"


def test_history_in_json_keeps_to_its_budget(cli: Cli, orchard: Path) -> None:
    result = cli("history", orchard, "-", "--budget", 60, "--json", stdin="plum tree number 5")
    found = msgspec.json.decode(result.stdout)
    assert found["truncated"]
    assert 0 < found["tokens"] <= 60
    said = [one["message"]["id"] for segment in found["segments"] for one in segment["utterances"]]
    assert "m5" in said


def test_what_was_said_cannot_paint_the_terminal(cli: Cli, orchard: Path) -> None:
    assert "\x1b" not in cli("history", orchard, "Red apples", "-k", 2).stdout


def test_nothing_is_found_in_an_empty_file(cli: Cli, tmp_path: Path) -> None:
    with memdb.open(tmp_path / "empty.memdb", encoder=HashEncoder()):
        pass
    result = cli("history", tmp_path / "empty.memdb", "plum")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing found" in result.stderr


def test_calibrate_changes_the_thresholds_of_the_file(cli: Cli, orchard: Path) -> None:
    found = msgspec.json.decode(cli("calibrate", orchard, "--tokens", 900, "--json").stdout, type=Calibrated)
    with memdb.open(orchard, encoder=HashEncoder()) as memory:
        settings = memory.about().settings
        assert settings["segment_threshold"] == found.threshold
        assert settings["link_threshold"] == found.link_threshold
        assert memory.verify().ok
    assert found.messages == 121
    again = cli("calibrate", orchard, "--tokens", 900).stdout
    assert again.startswith(f"segments end below {found.threshold:.2f} and are linked from ")


def test_a_file_with_few_messages_cannot_be_calibrated(cli: Cli, tmp_path: Path) -> None:
    with memdb.open(tmp_path / "small.memdb", encoder=HashEncoder()) as memory:
        memory.add(SAID[:5])
    result = cli("calibrate", tmp_path / "small.memdb")
    assert result.exit_code == 2
    assert "too few to calibrate" in result.stderr


@pytest.mark.parametrize("method", ["qgmem", "defermem", "both"])
def test_ask_answers_by_every_method(cli: Cli, orchard: Path, method: str) -> None:
    result = cli("ask", orchard, "Which tree is number 5?", "--method", method, "--json")
    answer = msgspec.json.decode(result.stdout)
    assert answer["method"] == method
    assert any(one["source"][0]["id"] == "m5" for one in answer["evidence"])

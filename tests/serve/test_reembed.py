"""`memdb reembed`: vectors of another encoder, a bar, and what was done in words and in JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from rich.console import Console

import memdb
from memdb import settings
from memdb.models.fakes import HashEncoder
from memdb.records import Reembedded
from memdb.serve import reembedding, render
from tests.encoders import Watched, wrong_vectors

Cli = Callable[..., Result]


@pytest.fixture
def other(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `--encoder` names; the file was made with `HashEncoder()`, which goes without a name."""
    encoder: list[Any] = [HashEncoder(32)]
    monkeypatch.setattr("memdb.opening.load_encoder", lambda name: encoder[0] if name else HashEncoder())
    return encoder


def test_a_file_becomes_one_of_another_encoder(cli: Cli, file: Path, other: list[Any]) -> None:
    vectors = len(wrong_vectors(file, other[0]))
    assert "words alone" in cli("recall", file, "parrot", "--encoder", "b").stderr
    result = cli("reembed", file, "--encoder", "b")
    assert (result.exit_code, result.stderr) == (0, ""), "it does not warn of what it is there for"
    assert result.stdout == f"made {vectors} vectors with hash-32; those of hash-64 are gone\n"
    assert wrong_vectors(file, other[0]) == []
    assert cli("reembed", file, "--encoder", "b").stdout == "nothing to do: every vector is of hash-32\n"
    assert cli("recall", file, "parrot", "--encoder", "b").stderr == ""
    found = cli("recall", file, "parrot")
    assert found.exit_code == 0
    assert "call reembed(), or memdb reembed FILE" in found.stderr
    assert cli("verify", file).exit_code == 0
    assert "hash-32" in cli("show", file).stdout
    assert cli("reembed", file).stdout == f"made {vectors} vectors with hash-64; those of hash-32 are gone\n"


def test_messages_that_were_added_without_vectors(cli: Cli, file: Path, other: list[Any], lines: Any) -> None:
    more = lines([{"speaker": "Zoe", "content": "Rain.", "id": "z"}])
    assert "adding without vectors" in cli("add", file, "--encoder", "b", stdin=more).stderr
    assert cli("reembed", file).stdout.startswith("made 1 vector with hash-64\n")


def test_in_json(cli: Cli, file: Path, other: list[Any]) -> None:
    result = cli("reembed", file, "--encoder", "b", "--json")
    done = msgspec.json.decode(result.stdout, type=Reembedded)
    assert done.done == done.made == done.vectors > 0
    assert set(json.loads(result.stdout)) == set(Reembedded.__struct_fields__)


def test_interrupted_it_says_that_it_goes_on(
    cli: Cli, file: Path, other: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REEMBED_BATCH_ROWS", 2)
    left = iter(range(2))

    def interrupt(texts: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    other[0] = Watched(32, interrupt)
    result = cli("reembed", file, "--encoder", "b")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "memdb: interrupted; hint: what was made is kept: called again, it goes on\n"
    assert "wait for the rest: reembed goes on" in cli("verify", file).stdout
    other[0] = HashEncoder(32)
    told = cli("reembed", file, "--encoder", "b").stdout
    assert " of before were kept; those of hash-64 are gone\n" in told
    assert wrong_vectors(file, other[0]) == []


def test_everyones_vectors(cli: Cli, file: Path, other: list[Any], chat: Path) -> None:
    cli("add", file, chat, "--user", "ben")
    assert cli("reembed", file, "--encoder", "b").exit_code == 0
    assert wrong_vectors(file, other[0]) == []


def test_a_file_that_is_not_there_is_not_made(cli: Cli, tmp_path: Path) -> None:
    assert cli("reembed", tmp_path / "typo.memdb").exit_code == 1
    assert list(tmp_path.iterdir()) == []
    assert cli("reembed").exit_code == 2


def test_a_strangers_name_of_an_encoder_is_shown_without_its_control_characters(
    cli: Cli, file: Path, other: list[Any]
) -> None:
    with memdb.open(file, encoder=HashEncoder()) as memory, memory._database.atomic() as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'encoder_name'", ("\x1b[2J[red]a\nb",))
    result = cli("reembed", file, "--encoder", "b")
    assert result.stdout.endswith("those of [red]a b are gone\n")
    assert "\x1b" not in result.stdout + result.stderr


def test_a_bar_on_a_terminal() -> None:
    shown = io.StringIO()
    with reembedding.progress(Console(force_terminal=True, width=120, file=shown)) as tell:
        tell(Reembedded(encoder="b", vectors=9_000, done=17, made=10))
        tell(Reembedded(encoder="b", vectors=9_000, done=8_123, made=10))
    assert "8123/9000" in shown.getvalue()


def test_elsewhere_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with reembedding.progress(render.console()) as tell:
        tell(Reembedded(encoder="b", vectors=3, done=1))
    assert capsys.readouterr().out.strip() == ""

"""`memdb build` and `memdb show --windows`, with a model that reads its prompt."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from rich.console import Console

import memdb
from memdb.errors import ModelUnavailable
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.records import Built, Message, Scope
from memdb.serve import building, render
from tests.scripted import TALK, everything, listed, reader, saying, unit

Cli = Callable[..., Result]
WINDOWS = 3


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A memory of 11 messages, and of one more session."""
    path = tmp_path / "talk.memdb"
    with memdb.open(path, encoder=HashEncoder()) as memory:
        memory.add(TALK[:11], session="s")
        memory.add(TALK[:2], session="t", source="chat")
    return path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `--llm` loads: the backbone put first, and after it how it was asked for."""
    found: list[Any] = [reader()]

    def load(spec: str, **options: Any) -> ScriptedBackbone:
        found.append((spec, options))
        loaded: ScriptedBackbone = found[0]
        return loaded

    monkeypatch.setattr("memdb.models.registry.load_backbone", load)
    return found


def test_a_build_in_words(cli: Cli, talk: Path, model: list[Any]) -> None:
    result = cli("build", talk, "--llm", "m.gguf", "--session", "s")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "built 3 windows of 3: 11 facts"
    assert lines[1] == "told 2 of 2 traces"
    assert re.fullmatch(r"[\d,]+ tokens read \(0 of them cached\), [\d,]+ written", lines[2])
    assert len(lines) == 3
    assert model[1:] == [("m.gguf", {"base_url": None, "threads": None, "context_tokens": None})]
    with pytest.raises(memdb.errors.ModelError, match="closed"):
        model[0].complete(model[0].calls[0].turns, max_tokens=5)


def test_nothing_is_left_to_build(cli: Cli, talk: Path, model: list[Any]) -> None:
    cli("build", talk, "--llm", "m.gguf")
    model[0] = reader()
    assert cli("build", talk, "--llm", "m.gguf").stdout == "nothing to build\n"
    assert model[0].calls == []


def test_every_option_reaches_the_model_and_the_build(
    cli: Cli, talk: Path, model: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        memdb.Memory, "build", lambda *args, **options: seen.append((args[1:], options)) or Built()
    )
    cli(
        "build", talk, "--llm", "openai:x", "--base-url", "http://a", "--threads", 2, "--context", 600,
        "--session", "t", "--source", "chat", "--retry", "--redo",
    )  # fmt: skip
    assert model[1:] == [("openai:x", {"base_url": "http://a", "threads": 2, "context_tokens": 600})]
    [((backbone,), options)] = seen
    assert backbone is model[0]
    assert callable(options.pop("progress"))
    assert options == {"session": "t", "source": "chat", "retry": True, "redo": True}


def test_a_build_in_json(cli: Cli, talk: Path, model: list[Any]) -> None:
    result = cli("build", talk, "--llm", "m.gguf", "--json")
    built = msgspec.json.decode(result.stdout, type=Built)
    assert (built.windows, built.done, built.units) == (4, 4, 13)
    assert set(json.loads(result.stdout)) == set(Built.__struct_fields__)
    assert result.exit_code == 0


def test_windows_that_failed_are_exit_code_4(cli: Cli, talk: Path, model: list[Any]) -> None:
    for options in ([], ["--retry"]):
        model[0] = saying("no JSON")
        result = cli("build", talk, "--llm", "m.gguf", *options)
        assert result.exit_code == 4
        assert result.stdout.splitlines()[:2] == ["built 0 windows of 4: 0 facts", "refused: 8 bad_json"]
        assert "warning: the model's answers for 4 windows cannot be used" in result.stderr
    model[0] = saying("no JSON")
    result = cli("build", talk, "--llm", "m.gguf")
    assert result.stdout == "nothing to build; 4 windows failed before: --retry\n", "no window is asked again"
    assert result.exit_code == 4, "a build that left windows undone is no success, however often it runs"
    model[0] = reader()
    assert cli("build", talk, "--llm", "m.gguf", "--retry").stdout.startswith(
        "built 4 windows of 4: 13 facts\n"
    )


def test_redo_is_for_windows_of_another_model(cli: Cli, talk: Path, model: list[Any]) -> None:
    cli("build", talk, "--llm", "m.gguf")
    model[0] = reader(name="other")
    assert "built 0 windows of 0" in cli("build", talk, "--llm", "m.gguf").stdout, "traces alone are told"
    model[0] = reader(name="other")
    assert cli("build", talk, "--llm", "m.gguf", "--redo").stdout.startswith("built 4 windows of 4")
    assert cli("build", talk, "--redo").stdout == "built 4 windows of 4: 26 facts\n"
    assert cli("verify", talk).exit_code == 0


def test_without_a_model_rules_have_nothing_to_do(cli: Cli, talk: Path) -> None:
    before = everything(talk)
    assert cli("build", talk).stdout == "nothing to build\n"
    assert everything(talk) == before


def test_a_model_that_cannot_be_reached_is_exit_code_1(cli: Cli, talk: Path, model: list[Any]) -> None:
    answers: list[Any] = [listed(), ModelUnavailable("the endpoint is gone", hint="start it")]
    model[0] = ScriptedBackbone(answers)
    result = cli("build", talk, "--llm", "openai:x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the endpoint is gone" in result.stderr
    assert "start it" in result.stderr
    shown = cli("show", talk, "--windows").stdout
    assert shown.count("done: 0 facts, made by scripted") == 1, "what was done until then stays"
    assert shown.count("rules: ") == 3


@pytest.mark.parametrize(
    "args",
    [
        ["--llm", "nothing.such"],
        ["--llm", "openai:"],
    ],
)
def test_a_model_that_is_not_there_is_exit_code_1(cli: Cli, talk: Path, args: list[str]) -> None:
    result = cli("build", talk, *args)
    assert result.exit_code == 1
    assert "no backbone" in result.stderr


@pytest.mark.parametrize(
    "args",
    [["--threads", "0"], ["--context", "10"], ["--context", "x"], ["--what"], ["--everyone", "--user", "ana"],
     ["--session", ""]],
)  # fmt: skip
def test_bad_usage_is_exit_code_2(cli: Cli, talk: Path, args: list[str]) -> None:
    assert cli("build", talk, *args).exit_code == 2
    assert cli("build").exit_code == 2


def test_a_file_that_is_not_there_is_not_made(cli: Cli, tmp_path: Path, model: list[Any]) -> None:
    for command in (["build"], ["trace", "--update"]):
        path = tmp_path / "typo.memdb"
        result = cli(command[0], path, *command[1:], *(["Ana"] if command[0] == "trace" else []))
        assert result.exit_code == 1
        assert not path.exists()
    assert cli("build", path, "--llm", "m.gguf").exit_code == 1


def test_scopes(cli: Cli, talk: Path, model: list[Any]) -> None:
    for user in ("ana", "ben"):
        with memdb.open(talk, encoder=HashEncoder(), scope=Scope(user)) as memory:
            memory.add(TALK[:2], session="own")
    assert "of 1:" in cli("build", talk, "--llm", "m.gguf", "--user", "ana").stdout
    model[0] = reader()
    assert "of 4:" in cli("build", talk, "--llm", "m.gguf").stdout
    model[0] = reader()
    assert "of 1:" in cli("build", talk, "--llm", "m.gguf", "--everyone").stdout
    assert "own" not in cli("show", talk, "--windows").stdout
    assert cli("show", talk, "--windows", "--user", "ana").stdout.startswith("own 0  messages 1-2")
    assert cli("show", talk, "--windows", "--everyone").stdout.count("done: ") == 6


def test_windows_in_words_and_in_json(cli: Cli, talk: Path, model: list[Any]) -> None:
    model[0] = saying("no")
    cli("build", talk, "--llm", "m.gguf", "--session", "s")
    model[0] = saying("no")
    cli("build", talk, "--llm", "m.gguf", "--session", "s", "--retry")
    lines = cli("show", talk, "s", "--windows").stdout.splitlines()
    assert lines[:5] == [
        "s 0  messages 1-6, new from 1",
        "    failed: 12 facts, made by rules-3, 2 attempts",
        "    error: no JSON of the right shape: there is no JSON object in it",
        "    refused units, bad_json: there is no JSON object in it: no",
        "    refused units, bad_json: there is no JSON object in it: no",
    ]
    assert lines[5] == "s 1  messages 5-10, new from 7"
    found = json.loads(cli("show", talk, "--windows", "--json").stdout)
    assert [(one["session"], one["number"], one["state"]) for one in found] == [
        ("s", 0, "failed"), ("s", 1, "failed"), ("s", 2, "failed"), ("t", 0, "rules"),
    ]  # fmt: skip
    assert found[0]["rejections"][0]["reason"] == "bad_json"
    assert len(json.loads(cli("show", talk, "t", "--source", "chat", "--windows", "--json").stdout)) == 1


def test_hostile_text_is_shown_without_its_control_characters(cli: Cli, talk: Path, model: list[Any]) -> None:
    nasty = "\x1b[2J\x07\u202e[red]a\nb\r\x00"
    offered = unit("M1", nasty, nasty, nasty, nasty, nasty)
    model[0] = ScriptedBackbone(lambda turns, schema: listed(offered), name="evil\x1b[31m\nmodel")
    with memdb.open(talk, encoder=HashEncoder()) as memory:
        memory.add([Message("Ana", "Hello.")], session="x\x1b[2J\ny")
    result = cli("build", talk, "--llm", "m.gguf")
    assert result.exit_code == 4
    shown = cli("show", talk, "--windows", "--everyone")
    assert shown.exit_code == 0
    assert not [c for c in shown.stdout + result.stdout + result.stderr if c != "\n" and not c.isprintable()]
    assert "[red]a b" in shown.stdout
    assert len(shown.stdout.splitlines()) == 5 * 4, "a line cannot be forged"


# --- The bar


def test_a_bar_on_a_terminal_shows_windows_then_traces() -> None:
    shown = io.StringIO()
    out = Console(force_terminal=True, width=120, file=shown)
    with building.progress(out) as tell:
        tell(
            Built(
                windows=4, done=1, failed=1, rejected={"dup": 1_200}, prompt_tokens=3_000, cached_tokens=1_000
            )
        )
        tell(Built(windows=4, done=2, failed=1, passed=1, traces=5, told=2, completion_tokens=7))
        tell(Built(windows=4, done=4, traces=5, told=5))
        drawn = shown.getvalue()
    assert "traces" in drawn + shown.getvalue()
    assert "5/5" in shown.getvalue()


def test_elsewhere_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with building.progress(render.console()) as tell:
        tell(Built(windows=4, done=1))
    assert capsys.readouterr().out.strip() == ""


def test_what_was_passed_over_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    building.built(
        render.console(), Built(windows=3, done=1, units=1, passed=2, rejected={"dup": 1, "empty": 1_000})
    )
    assert capsys.readouterr().out.splitlines() == [
        "built 1 window of 3: 1 fact",
        "refused: 1 dup, 1,000 empty",
        "2 windows changed meanwhile: build again",
    ]


def test_a_strangers_file_is_shown_without_its_control_characters(cli: Cli, talk: Path) -> None:
    with memdb.open(talk, encoder=HashEncoder()) as memory, memory._database.atomic() as connection:
        evil = "\x1b[2Ja\nb"
        connection.execute("UPDATE window SET error = ?, made_by = ?, state = 'failed'", (evil, evil))
        connection.execute("INSERT INTO rejection VALUES (1, 1, 0, 'units', ?, ?)", (evil, evil))
    shown = cli("show", talk, "--windows").stdout
    assert not [c for c in shown if c != "\n" and not c.isprintable()]
    assert len(shown.splitlines()) == 4 * 3 + 1


@pytest.mark.parametrize(
    "args", [["--base-url", "http://127.0.0.1:9/v1"], ["--threads", "2"], ["--retry"], ["--context", "4096"]]
)
def test_what_is_for_a_model_is_not_ignored_without_one(cli: Cli, talk: Path, args: list[str]) -> None:
    result = cli("build", talk, *args)
    assert result.exit_code == 2
    assert "name one with --llm" in result.stderr


def test_a_model_that_empties_windows_is_told_of(cli: Cli, talk: Path, model: list[Any]) -> None:
    model[0] = saying('{"memory_units": []}')
    result = cli("build", talk, "--llm", "m.gguf")
    assert result.exit_code == 0
    assert "found nothing in 4 windows that had facts: build with redo" in result.stderr
    assert cli("build", talk, "--redo").stdout == "built 4 windows of 4: 26 facts\n"

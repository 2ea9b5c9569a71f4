"""`memdb ask`: the answer on stdout, with its sources, and nothing a terminal would obey."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memdb
from memdb.generate.check import NO_ANSWER
from memdb.models.fakes import HashEncoder, OverlapReranker, ScriptedBackbone
from memdb.records import Message

REPLY = json.dumps(
    {
        "reasoning_path": "MU1 and MU99",
        "answer": "Messi is the player. Zidane trains with \x1b[31mProfessor Quill\x1b]0;owned\x07.",
    }
)


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("memdb.opening.load_encoder", lambda spec: HashEncoder(64))
    monkeypatch.setattr("memdb.opening.late_reranker", lambda *_: OverlapReranker)
    path = tmp_path / "talk.memdb"
    with memdb.open(path) as memory:
        memory.add(
            [
                Message("Ana", "My favourite player is Messi now.", "2026-02-01", "m1"),
                Message("Ben", "\x1b]0;owned\x07The hives are blue.", "2026-02-02", "m2"),
            ]
        )
    return path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedBackbone]:
    made: list[ScriptedBackbone] = []

    def load(spec: str, **options: object) -> ScriptedBackbone:
        made.append(ScriptedBackbone([REPLY], name=spec))
        return made[-1]

    monkeypatch.setattr("memdb.models.registry.load_backbone", load)
    return made


def test_an_answer_without_a_model_and_its_source(cli, talk: Path) -> None:
    result = cli("ask", talk, "Who is Ana's favourite player?")
    assert result.exit_code == 0
    answer, source, *rest = result.stdout.splitlines()
    assert answer == "Messi"
    assert "Ana, 2026-02-01: My favourite player is Messi now.  [m1]" in source
    assert rest == []
    assert cli("ask", talk, "Who is Ana's favourite player?", "--no-sources").stdout == "Messi\n"


def test_an_answer_that_is_not_there_is_said_to_be_none(cli, talk: Path) -> None:
    result = cli("ask", talk, "What is the population of Uruguay?")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        f"{NO_ANSWER}\nthe memory does not seem to hold the answer (probability 0."
    )
    shown = json.loads(cli("ask", talk, "What is the population of Uruguay?", "--json").stdout)
    assert shown["abstained"] is True


def test_a_model_answers_and_what_it_made_up_is_marked(
    cli, talk: Path, model: list[ScriptedBackbone]
) -> None:
    result = cli("ask", talk, "Who is Ana's favourite player?", "--llm", "small.gguf")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    first, made_up, unknown, source = result.stdout.splitlines()
    assert first.startswith("Messi is")
    assert made_up.startswith("not in the evidence: Zidane trains with")
    assert unknown == "no such evidence: MU99"
    assert "MU1" in source
    (backbone,) = model
    assert len(backbone.calls) == 1
    with pytest.raises(memdb.ModelError, match="closed"):
        backbone.complete(backbone.calls[0].turns, max_tokens=1)


def test_the_whole_answer_as_json(cli, talk: Path, model: list[ScriptedBackbone]) -> None:
    shown = json.loads(cli("ask", talk, "favourite player?", "--llm", "small.gguf", "--json").stdout)
    assert shown["reasoning_path"] == "MU1 and MU99"
    assert shown["citations"][0]["source"][0]["id"] in ("m1", "m2")
    assert [sentence["supported"] for sentence in shown["sentences"]] == [True, False]
    assert shown["graph_mode"] == "text"


def test_the_question_may_come_from_standard_input(cli, talk: Path) -> None:
    assert cli("ask", talk, "-", stdin="Who is Ana's favourite player?").stdout.startswith("Messi\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--graph", "folder"],
        ["--text-only"],
        ["--base-url", "http://localhost:1"],
        ["--threads", "2"],
        ["--budget", "0"],
        ["-k", "0"],
        ["--at", "someday"],
    ],
)
def test_bad_usage_is_exit_code_2(cli, talk: Path, args: list[str]) -> None:
    result = cli("ask", talk, "player", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("memdb: ")


def test_a_distiller_is_loaded_for_history_and_refused_without(
    cli, talk: Path, model: list[ScriptedBackbone]
) -> None:
    asked = ("ask", talk, "Who is Ana's favourite player?", "--distiller", "small.gguf")
    result = cli(*asked)
    assert result.exit_code == 2
    assert "--distiller is for history: ask by --method defermem or both" in result.stderr
    assert model == []
    result = cli(*asked, "--method", "defermem")
    assert result.exit_code == 0
    (distiller,) = model
    assert (distiller.name, len(distiller.calls)) == ("small.gguf", 1)
    assert "useful_msg" in distiller.calls[0].turns[0].text

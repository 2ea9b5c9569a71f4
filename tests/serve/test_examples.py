from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
from pathlib import Path

import memdb

EXAMPLES = Path(memdb.__file__).parents[1] / "examples"


def test_the_chat_is_what_the_documentation_says():
    sessions = json.loads((EXAMPLES / "ana.json").read_text("utf-8"))["sessions"]
    messages = [memdb.Message(**message) for session in sessions for message in session["messages"]]
    assert len(sessions) == 5
    assert len({message.id for message in messages}) == len(messages) > 40
    said = [dt.datetime.fromisoformat(str(message.said_at)) for message in messages]
    assert said == sorted(said)
    assert {message.speaker for message in messages} == {"Ana", "Ben"}
    questions = json.loads((EXAMPLES / "questions.json").read_text("utf-8"))
    assert {id for one in questions for id in one["expected"]} <= {message.id for message in messages}


def test_the_demo_finds_every_message_first(finished):
    code = f"import runpy; runpy.run_path({str(EXAMPLES / 'demo.py')!r}, run_name='__main__')"
    status, out, err = finished(code=code)
    assert (status, err) == (0, ""), out
    assert "WRONG" not in out


def test_the_demo_fails_when_a_message_is_not_first(finished):
    code = f"""
import runpy
demo = runpy.run_path({str(EXAMPLES / "demo.py")!r})
read = demo["read"]
def wrong(name):
    found = read(name)
    return [{{"question": "LH-1172", "expected": ["2026-01-20-01"]}}] if name == "questions.json" else found
demo["main"].__globals__["read"] = wrong
raise SystemExit(demo["main"]())
"""
    status, out, _ = finished(code=code)
    assert status == 1
    assert "WRONG" in out
    assert "0 of 1 questions" in out


def test_the_assistant_keeps_users_apart(cli, tmp_path):
    path = tmp_path / "notes.memdb"

    def talk(user: str, text: str) -> str:
        command = [sys.executable, str(EXAMPLES / "assistant.py"), str(path), user]
        env = {"PYTHONPATH": str(EXAMPLES.parent), "PATH": ""}
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, env=env, timeout=60, check=True
        )
        assert done.stderr == ""
        return done.stdout

    assert talk("ana", "I like figs\n\nWhat do I like?\n").endswith("I like figs\n")
    assert talk("ben", "What do I like?\n") == ""
    assert json.loads(cli("show", path, "--user", "ana", "--json").stdout)["sessions"][0]["messages"] == 1
    assert io.StringIO(talk("ana", "figs?\n")).readline().startswith("1. ")

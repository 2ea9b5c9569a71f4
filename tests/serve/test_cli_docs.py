"""docs/cli.md holds the help of every command. `MEMDB_WRITE_DOCS=1 pytest tests/serve` fills it in."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import memdb
from memdb.serve.cli import commands

PAGE = Path(memdb.__file__).parents[1] / "docs" / "cli.md"
BLOCK = re.compile(r"<!-- help: memdb ?(\w*) -->\n(.*?)<!-- end -->", re.DOTALL)


def help_of(cli, command: str) -> str:
    shown: str = cli(*filter(None, [command]), "--help", terminal_width=100, max_content_width=100).stdout
    return shown.rstrip()


def test_every_command_is_on_the_page(cli):
    if os.environ.get("MEMDB_WRITE_DOCS"):

        def fill(found: re.Match[str]) -> str:
            return f"{found[0].splitlines()[0]}\n```text\n{help_of(cli, found[1])}\n```\n<!-- end -->"

        PAGE.write_text(BLOCK.sub(fill, PAGE.read_text("utf-8")), "utf-8")
    found = dict(BLOCK.findall(PAGE.read_text("utf-8")))
    assert list(found) == [
        "",
        "add",
        "build",
        "reembed",
        "recall",
        "ask",
        "context",
        "trace",
        "show",
        "verify",
        "history",
        "calibrate",
        "bench",
    ]
    assert set(found) == {"", *commands.commands}


@pytest.mark.parametrize("command", ["", *commands.commands])
def test_the_help_on_the_page_is_the_real_one(cli, command):
    found = dict(BLOCK.findall(PAGE.read_text("utf-8")))[command]
    assert found.replace("```text", "").replace("```", "").split() == help_of(cli, command).split()

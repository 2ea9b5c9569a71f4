"""The command in this process with a fake encoder, and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import memdb
from memdb.models.fakes import HashEncoder
from memdb.serve.cli import commands
from tests.serve.serve_chat import CHAT

ROOT = Path(memdb.__file__).parents[1]
FAKE = """
import memdb.opening
from memdb import settings
from memdb.models.fakes import HashEncoder
memdb.opening.load_encoder = lambda *_: HashEncoder()
settings.ADD_BATCH_MESSAGES = 4
"""
MOODS = ("NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED", "COLUMNS", "MEMDB_DATA")
RUN = "from memdb.serve.cli import main; main()"
# A job in the background of a shell script ignores SIGINT, and so would what the tests start.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in this process; the encoder is a fake one."""
    monkeypatch.setattr("memdb.opening.load_encoder", lambda *_: HashEncoder())

    def run(*args: object, stdin: str | bytes | None = None, **options: Any) -> Result:
        result = CliRunner().invoke(commands, [str(arg) for arg in args], input=stdin, **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the command as a process, its encoder a fake one and its batches of four messages."""

    def start(
        *args: object,
        env: Mapping[str, str] | None = None,
        code: str = FAKE + RUN,
        redirections: str = "",
        **options: Any,
    ) -> Any:
        clean = {key: value for key, value in os.environ.items() if key not in MOODS}
        clean |= {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8", **(env or {})}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-W", "error", "-c", INTERRUPTIBLE + code, *map(str, args)]
        if redirections:
            command = ["/bin/sh", "-c", f'exec "$0" "$@" {redirections}', *command]
        return subprocess.Popen(command, env=clean, **{**streams, **options})

    return start


@pytest.fixture
def finished(process: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command as a process to its end: exit code, stdout, stderr."""

    def run(
        *args: object, stdin: bytes = b"", encoding: str = "utf-8", **options: Any
    ) -> tuple[int, str, str]:
        started = process(*args, **options)
        out, err = started.communicate(stdin, timeout=60)
        return started.returncode, (out or b"").decode(encoding), err.decode(encoding)

    return run


@pytest.fixture
def lines() -> Callable[[Sequence[object]], str]:
    """JSON Lines of objects; a string stands for itself."""
    return lambda found: "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in found)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A JSON file with three messages."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path, cli: Callable[..., Result], chat: Path) -> Path:
    """A memory of these messages, in the session `pets`."""
    path = tmp_path / "ana.memdb"
    assert cli("add", path, chat, "--session", "pets").exit_code == 0
    return path

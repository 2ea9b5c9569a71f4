"""What only a real process shows: imports, streams, signals, encodings, terminals."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.version import __version__
from tests.serve.serve_chat import CHAT

RUN = "from memdb.serve.cli import main; main()"
HEAVY = ("apsw", "numpy", "onnxruntime", "tokenizers", "sqlite_vec", "rich", "matplotlib")
SHOW_IMPORTS = f"""
import atexit, sys
heavy = lambda: [name for name in {HEAVY!r} if name in sys.modules]
atexit.register(lambda: print("imported", heavy(), file=sys.stderr))
from memdb.serve.cli import main
main()
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of POSIX")


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"], ["add", "--help"], ["bench", "--help"]])
def test_help_imports_nothing_heavy(finished, args):
    status, out, err = finished(*args, code=SHOW_IMPORTS)
    assert (status, err) == (0, "imported []\n")
    assert out


def test_version_and_module(finished):
    assert finished("--version") == (0, f"memdb {__version__}\n", "")
    run = "import runpy, sys; sys.argv[0] = 'memdb'; runpy.run_module('memdb', run_name='__main__')"
    assert finished("--version", code=run) == (0, f"memdb {__version__}\n", "")


def test_no_command_is_bad_usage(finished):
    status, out, err = finished()
    assert (status, out) == (2, "")
    assert err.startswith("Usage: memdb")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["frob"], "memdb: No such command 'frob'; hint: memdb --help\n"),
        (["recall"], "memdb: Missing argument 'FILE'; hint: memdb recall --help\n"),
        (
            ["recall", "x", "y", "-k", "z"],
            "memdb: Invalid value for '-k': 'z' is not a valid integer; ",
        ),
    ],
)
def test_bad_usage_is_one_line(finished, args, told):
    status, out, err = finished(*args)
    assert (status, out) == (2, "")
    assert err.startswith(told)
    assert err.count("\n") == 1


def test_streams_and_exit_codes_of_a_whole_life(finished, tmp_path, lines):
    path = tmp_path / "ana.memdb"
    status, out, err = finished("add", path, stdin=lines([*CHAT, "oops"]).encode())
    assert (status, out.count("\n"), err) == (
        4,
        1,
        "memdb: <stdin>: line 4: is not JSON: Expecting value at column 1\n",
    )
    status, out, err = finished("recall", path, "parrot", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["evidence"][0]["source"][0]["id"] in ("a", "c")
    for args in (["show", path], ["show", path, "default"], ["verify", path], ["recall", path, "-"]):
        status, out, err = finished(*args, stdin=b"parrot")
        assert (status, err) == (0, "")
        assert out


def not_a_memory(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()


def folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize("made", [not_a_memory, foreign_database, folder, nothing])
@pytest.mark.parametrize("command", [["recall", "x"], ["show"], ["verify"]])
def test_a_file_that_cannot_be_used_is_one_line(finished, tmp_path, made, command):
    path = tmp_path / "ana.memdb"
    made(path)
    before = path.read_bytes() if path.is_file() else None
    status, out, err = finished(command[0], path, *command[1:])
    assert (status, out) == (1, "")
    assert err.startswith("memdb: ")
    assert "; hint: " in err
    assert err.count("\n") == 1
    assert (path.read_bytes() if path.is_file() else None) == before
    assert path.exists() == (made is not nothing)


@pytest.mark.parametrize(
    "args",
    [["-k", "0"], ["--at", "rubbish"], ["--as-of", "rubbish"], ["--channels", "smell"], ["--user", ""]],
)
def test_a_bad_question_is_bad_input(finished, file, args):
    status, out, err = finished("recall", file, "x", *args)
    assert (status, out) == (2, "")
    assert err.startswith("memdb: ")
    assert err.count("\n") == 1


def test_an_encoder_that_is_not_there(finished, tmp_path, lines):
    args = ["add", tmp_path / "m.memdb", "--encoder", "nonesuch"]
    status, out, err = finished(*args, code=RUN, stdin=lines(CHAT).encode())
    assert (status, out) == (1, "")
    assert err.startswith("memdb: no encoder 'nonesuch'; hint: ")


def test_the_embedded_encoder(finished, tmp_path, lines):
    assert finished("add", tmp_path / "m.memdb", code=RUN, stdin=lines(CHAT).encode())[0] == 0
    status, out, err = finished(
        "recall", tmp_path / "m.memdb", "Which bird does she have?", "-k", "1", code=RUN
    )
    assert (status, err) == (0, "")
    assert "parrot" in out


def test_another_encoder_warns_in_one_line_and_still_finds(finished, file):
    status, out, err = finished("recall", file, "parrot", code=RUN)
    assert status == 0
    assert "I adopted a parrot." in out
    assert err.startswith("memdb: warning: ")
    assert err.count("\n") == 1


def test_what_nobody_expected_shows_its_traceback(finished, file):
    broken = "import memdb.memory\nmemdb.memory.Memory.sessions = lambda *_, **__: 1 / 0\n"
    status, _, err = finished("show", file, code=broken + RUN)
    assert status == 1
    assert "Traceback" in err
    assert "ZeroDivisionError" in err


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_any_console_shows_any_text(finished, tmp_path, encoding):
    text = [{"speaker": "梅", "content": "海底捞 café 👩", "session": "서울"}]
    path = tmp_path / "m.memdb"
    env = {"PYTHONIOENCODING": encoding}
    assert finished("add", path, env=env, stdin=json.dumps(text).encode())[0] == 0
    shown = "海底捞 café 👩".encode(encoding, "replace").decode(encoding)
    for args in (["recall", path, "café"], ["show", path, "서울"]):
        status, out, err = finished(*args, env=env, encoding=encoding)
        assert (status, err) == (0, "")
        assert f"    {shown}" in out
    status, out, _ = finished("recall", path, "café", "--json", env=env, encoding=encoding)
    assert json.loads(out)["evidence"][0]["text"] == "海底捞 café 👩"
    status, _, err = finished("show", path, "没有", env=env, encoding=encoding)
    assert status == 2
    assert err.startswith("memdb: there is no session")


@posix
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_closed_pipe_is_quiet(process, finished, tmp_path, lines, option):
    path = tmp_path / "m.memdb"
    long = [{"speaker": "Ana", "content": "word " * 2_000} for _ in range(40)]
    assert finished("add", path, stdin=lines(long).encode())[0] == 0
    with process("show", path, "default", *option) as started:
        assert started.stdout.read(5)
        started.stdout.close()
        assert started.stderr.read() == b""
        assert started.wait(30) == 141


COMMANDS = {
    "recall": ["recall", "FILE", "parrot"],
    "recall as JSON": ["recall", "FILE", "parrot", "--json"],
    "show": ["show", "FILE"],
    "show a session": ["show", "FILE", "pets"],
    "show as JSON": ["show", "FILE", "--json"],
    "verify": ["verify", "FILE"],
    "verify as JSON": ["verify", "FILE", "--json"],
    "add": ["add", "NEW", "CHAT"],
    "add as JSON": ["add", "NEW", "CHAT", "--json"],
    "help": ["--help"],
    "help of a command": ["add", "--help"],
    "version": ["--version"],
}
FULL = "/dev/full"


@pytest.fixture
def redirected(finished, file, chat, tmp_path):
    """Runs the command with the redirections of a shell: exit code, stdout, stderr."""

    def run(redirections: str, *args: str, **options: Any) -> tuple[int, str, str]:
        if FULL in redirections and not Path(FULL).exists():
            pytest.skip(f"no {FULL}")
        places = {"FILE": file, "CHAT": chat, "NEW": tmp_path / "new.memdb"}
        return finished(*(places.get(arg, arg) for arg in args), redirections=redirections, **options)

    return run


@posix
@pytest.mark.parametrize(("to", "reason"), [(">&-", "is closed"), (f">{FULL}", "No space left on device")])
@pytest.mark.parametrize(
    ("command", "env"),
    [
        *((command, {}) for command in COMMANDS),
        *((command, {"PYTHONUNBUFFERED": "1"}) for command in ("recall", "add as JSON", "help")),
        *((command, {"PYTHONIOENCODING": "ascii"}) for command in ("recall", "version")),
    ],
)
def test_stdout_that_cannot_be_written_is_one_line(redirected, tmp_path, command, to, reason, env):
    told = f"memdb: <stdout>: {reason}; hint: send it to a file or program that takes it\n"
    assert redirected(to, *COMMANDS[command], env=env) == (1, "", told)
    assert (tmp_path / "new.memdb").exists() == command.startswith("add")


@posix
@pytest.mark.parametrize("args", [["add", "NEW"], ["add", "NEW", "-"], ["recall", "FILE", "-"]])
def test_a_closed_stdin_is_one_line(redirected, tmp_path, args):
    status, _, err = redirected("<&-", *args)
    assert status == 2
    assert err.startswith("memdb: <stdin>: is closed; hint: pipe ")
    assert err.count("\n") == 1
    assert not (tmp_path / "new.memdb").exists()


@posix
@pytest.mark.parametrize("to", ["2>&-", f"2>{FULL}", "2>&- <&-"])
@pytest.mark.parametrize(
    ("args", "status"), [(["show", "NEW"], 1), (["frob"], 2), ([], 2), (["add", "NEW", "FILE", "CHAT"], 2)]
)
def test_an_error_nobody_can_be_told_keeps_its_exit_code(redirected, args, status, to):
    assert redirected(to, *args)[::2] == (status, "")


@posix
def test_no_file_gets_the_number_of_a_closed_stream(redirected, finished, tmp_path):
    assert redirected("<&- >&- 2>&-", "add", "NEW", "CHAT") == (1, "", "")
    assert finished("show", tmp_path / "new.memdb", "default")[0] == 0
    assert finished("verify", tmp_path / "new.memdb")[0] == 0
    show_numbers = (
        "import os, sys; from memdb.serve.streams import guarded\n"
        "with guarded(): number = os.open(os.devnull, os.O_RDONLY)\n"
        "sys.exit(number)"
    )
    assert redirected("<&- >&- 2>&-", code=show_numbers)[0] >= 3


@posix
@pytest.mark.parametrize("args", [["--help"], ["--version"], ["recall", "--help"]])
def test_help_that_nobody_reads_is_quiet(finished, args):
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert finished(*args, stdout=theirs) == (141, "", "")
    finally:
        os.close(theirs)


@posix
def test_an_input_that_cannot_be_read_is_one_line(finished, tmp_path):
    path = Path("/proc/self/mem")
    if not path.exists():
        pytest.skip("no file that opens and cannot be read")
    status, _, err = finished("add", tmp_path / "m.memdb", path)
    hint = "give a JSON file, or - for standard input"
    assert (status, err) == (2, f"memdb: {path}: Input/output error; hint: {hint}\n")


@pytest.mark.parametrize("columns", ["0", "00", "1", "", "wide", "²"])
def test_no_width_hides_anything(finished, file, columns):
    for args in (["recall", file, "parrot"], ["show", file, "pets"], ["verify", file], ["show", "none"]):
        plainly = finished(*args)
        assert any(plainly[1:])
        assert finished(*args, env={"COLUMNS": columns}) == plainly


@posix
@pytest.mark.parametrize("columns", [0, 1, 4, 5])
def test_a_narrow_terminal_shows_every_word(process, file, columns):
    assert "parrot" in on_terminal(process, "show", file, "pets", columns=columns)


@posix
def test_interrupted_between_batches(process, finished, tmp_path, lines):
    path = tmp_path / "m.memdb"
    started = process("add", path)
    started.stdin.write(lines([{"speaker": "Ana", "content": f"number {i}"} for i in range(6)]).encode())
    started.stdin.flush()
    deadline = time.monotonic() + 30
    while not (path.exists() and finished("show", path, "default")[0] == 0):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, err) == (130, b"memdb: interrupted\n")
    assert out.startswith(b"stored 4 new messages")
    assert not Path(f"{path}-wal").exists()
    assert finished("verify", path)[0] == 0
    assert finished("show", path, "default")[1].count("number") == 4


SAY_READY = """
import sys
from memdb.serve.adding import Adding
run = Adding.run
def ready(*args, **options):
    print("ready", file=sys.stderr, flush=True)
    run(*args, **options)
Adding.run = ready
"""


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def _started_in(request):
    """The tests in the foreground, or in the background of a shell script, where SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@posix
@pytest.mark.usefixtures("_started_in")
def test_interrupted_before_anything_was_stored(process, tmp_path):
    started = process("add", tmp_path / "m.memdb", code=f"{SAY_READY}{RUN}")
    assert started.stderr.readline() == b"ready\n"
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (130, b"", b"memdb: interrupted\n")
    assert not (tmp_path / "m.memdb").exists()


@posix
def test_nobody_is_asked_to_type_json(process, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    with process("add", tmp_path / "m.memdb", stdin=theirs) as started:
        assert started.wait(30) == 2
        assert started.stderr.read().startswith(b"memdb: there is no INPUT: ")
    os.close(ours)
    os.close(theirs)


def on_terminal(process, *args, columns: int = 60, **env: str) -> str:
    """What the command writes to a terminal."""
    import pty

    ours, theirs = pty.openpty()
    options = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    started = process(*args, env={"TERM": "xterm-256color", "COLUMNS": str(columns), **env}, **options)
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 4096):
            seen += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert started.wait(30) == 0
    return seen.decode().replace("\r\n", "\n")


@posix
def test_a_terminal_gets_colours_and_wrapped_lines(process, finished, tmp_path):
    path = tmp_path / "m.memdb"
    message = {"speaker": "Ana", "content": "parrot " * 50 + "\x1b]0;owned\x07[red]x[/red]", "id": "i"}
    assert finished("add", path, stdin=json.dumps([message]).encode())[0] == 0
    coloured = on_terminal(process, "recall", path, "parrot")
    assert "\x1b[1;36mAna" in coloured
    assert "\x1b]" not in coloured
    plain = on_terminal(process, "show", path, "default", NO_COLOR="1")
    assert "\x1b[36m" not in plain
    assert "[red]x[/red]" in plain
    assert max(map(len, plain.splitlines())) <= 60
    assert all(one.startswith("    ") for one in plain.splitlines()[1:])


@posix
def test_progress_on_a_terminal_only(process, tmp_path, lines):
    (tmp_path / "in.jsonl").write_text(
        lines([{"speaker": "Ana", "content": f"number {i}"} for i in range(300)])
    )
    shown = on_terminal(process, "add", tmp_path / "m.memdb", tmp_path / "in.jsonl", columns=120)
    assert "messages" in shown
    assert "in.jsonl" in shown
    assert "stored 300 new messages" in shown


PEAK_MEMORY = """
import resource, sys
import memdb.memory
memdb.memory.Memory.add = lambda self, messages, **_: memdb.Added(session="s", ids=())
from memdb.serve.cli import main
try:
    main()
except SystemExit as ended:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
    raise
"""


@posix
def test_json_lines_need_no_more_memory_for_more_lines(finished, tmp_path):
    def peak_kib(count: int) -> int:
        path = tmp_path / "in.jsonl"
        with path.open("w") as file:
            for number in range(count):
                file.write(json.dumps({"speaker": "Ana", "content": f"{number} " + "x" * 2_000}) + "\n")
        status, _, err = finished("add", tmp_path / "m.memdb", path, code=PEAK_MEMORY)
        assert status == 0
        return int(err)

    assert peak_kib(20_000) < peak_kib(2_000) + 8_000


def test_memdb_is_the_package_under_test():
    assert Path(memdb.__file__).parent.name == "memdb"

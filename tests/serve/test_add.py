from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memdb
from memdb.models.fakes import HashEncoder
from memdb.records import Added
from memdb.serve import input as inputs
from tests.serve.serve_chat import CHAT


def session_texts(path: Path, session: str = "default") -> list[str]:
    with memdb.open(path, read_only=True, encoder=HashEncoder()) as memory:
        return [message.content for message in memory.messages(session)]


SHAPES = {
    "array": (CHAT, ["default"]),
    "session": ({"session": "s1", "messages": CHAT}, ["s1"]),
    "session without a name": ({"messages": CHAT}, ["default"]),
    "sessions": (
        {"sessions": [{"session": "s1", "messages": CHAT[:1]}, {"session": "s2", "messages": CHAT[1:]}]},
        ["s1", "s2"],
    ),
    "array of sessions": (
        [{"session": "s1", "messages": CHAT[:1]}, {"session": "s2", "messages": CHAT[1:]}],
        ["s1", "s2"],
    ),
    "messages that name sessions": ([{**CHAT[0], "session": "s1"}, *CHAT[1:]], ["s1", "default"]),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_json_is_read(cli, tmp_path, shape, indent):
    document, sessions = SHAPES[shape]
    (tmp_path / "in.json").write_text(json.dumps(document, indent=indent))
    result = cli("add", tmp_path / "m.memdb", tmp_path / "in.json", "--json")
    assert result.exit_code == 0, result.stderr
    added = [msgspec.json.decode(line, type=Added) for line in result.stdout.splitlines()]
    assert [one.session for one in added] == sessions
    assert sum(one.stored for one in added) == 3
    assert [id for one in added for id in one.ids] == ["a", "b", "c"]


def test_every_field_is_kept(cli, tmp_path):
    message = {"speaker": "Ana", "content": "x", "said_at": "2026-01-20", "id": "i", "role": "user",
               "image_caption": "a cat", "location": "Porto"}  # fmt: skip
    cli("add", tmp_path / "m.memdb", stdin=json.dumps([message]))
    shown = json.loads(cli("show", tmp_path / "m.memdb", "default", "--json").stdout)
    assert shown == [message]
    assert set(message) == set(inputs.MESSAGE_FIELDS)


def test_json_lines_from_standard_input(cli, tmp_path, lines):
    result = cli("add", tmp_path / "m.memdb", "-", stdin=lines(CHAT))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("stored 3 new messages in 1 session")
    assert session_texts(tmp_path / "m.memdb") == [one["content"] for one in CHAT]


def test_adding_again_stores_nothing_and_longer_stores_the_rest(cli, tmp_path, lines):
    path = tmp_path / "m.memdb"
    cli("add", path, stdin=lines(CHAT[:2]))
    result = cli("add", path, stdin=lines(CHAT))
    assert result.stdout.startswith("stored 1 new message in 1 session")
    assert "2 known already" in result.stdout
    result = cli("add", path, stdin=lines([{**CHAT[0], "content": "I sold it."}]))
    assert result.exit_code == 0
    assert "1 message known with other content, kept as it was: a" in result.stdout
    assert session_texts(path)[0] == "I adopted a parrot."


BAD_LINES = {
    "truncated": ('{"speaker": "Ana", "cont', "is not JSON"),
    "not an object": ("[1, 2]", "is not a message"),
    "no speaker": ({"content": "x"}, "speaker is missing"),
    "no content": ({"speaker": "Ana"}, "content is not a text"),
    "unknown field": ({"speaker": "Ana", "content": "x", "mood": "good"}, "unknown field 'mood'"),
    "time": ({"speaker": "Ana", "content": "x", "said_at": "soon"}, "said_at: 'soon' is not a clock reading"),
    "number as id": ({"speaker": "Ana", "content": "x", "id": 5}, "id is missing or not a text"),
    "session": ({"speaker": "Ana", "content": "x", "session": 5}, "session must be a text"),
    "caption": ({"speaker": "Ana", "content": "x", "image_caption": []}, "image_caption is not a text"),
    "deep": ("[" * 100_000, "is not JSON that can be read: it is nested too deep\n"),
    "deep objects": ('{"a":' * 100_000, "is not JSON that can be read: it is nested too deep\n"),
    "long number": (
        '{"speaker": ' + "1" * 5_000 + "}",
        "is not JSON that can be read: a number in it has too many digits\n",
    ),
    "just text": ("hello", "is not JSON"),
}


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_bad_line_is_named_and_loses_nothing_else(cli, tmp_path, lines, kind, at):
    bad, reason = BAD_LINES[kind]
    found = [*CHAT[: at - 1], bad, *CHAT[at - 1 :]]
    (tmp_path / "in.jsonl").write_text(lines(found))
    result = cli("add", tmp_path / "m.memdb", tmp_path / "in.jsonl")
    assert result.exit_code == 4
    assert result.stderr.startswith(f"memdb: {tmp_path}/in.jsonl: line {at}: {reason}")
    assert result.stderr.count("\n") == 1
    assert session_texts(tmp_path / "m.memdb") == [one["content"] for one in CHAT]


@pytest.mark.parametrize("kind", ["truncated", "unknown field", "just text"])
def test_a_bad_first_line_without_a_telling_name(cli, tmp_path, lines, kind):
    result = cli("add", tmp_path / "m.memdb", stdin=lines([BAD_LINES[kind][0], *CHAT]))
    assert result.exit_code == 4
    assert "<stdin>: line 1: " in result.stderr
    assert len(session_texts(tmp_path / "m.memdb")) == 3


def test_blank_lines_count_but_are_no_error(cli, tmp_path, lines):
    text = "\n\n" + lines(CHAT[:1]) + "\r\n \n" + lines(["oops"]) + lines(CHAT[1:]).rstrip("\n")
    result = cli("add", tmp_path / "m.memdb", stdin=text)
    assert result.exit_code == 4
    assert "line 6: is not JSON" in result.stderr
    assert len(session_texts(tmp_path / "m.memdb")) == 3


def test_a_line_without_end_is_refused_in_bounded_memory(cli, tmp_path, lines, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_LINE_CHARS", 200)
    long = {"speaker": "Ana", "content": "x" * 1_000}
    result = cli("add", tmp_path / "m.memdb", stdin=lines([CHAT[0], long, *CHAT[1:], "oops"]))
    assert result.exit_code == 4
    told = result.stderr.splitlines()
    assert told[0] == "memdb: <stdin>: line 2: is longer than 200 characters"
    assert told[1].startswith("memdb: <stdin>: line 5: is not JSON")
    assert len(told) == 2
    assert len(session_texts(tmp_path / "m.memdb")) == 3


def test_bytes_that_are_not_utf8_are_refused_with_their_line(cli, tmp_path, lines):
    bad = b'{"speaker": "Ana", "content": "caf\xe9"}\n'
    result = cli("add", tmp_path / "m.memdb", stdin=lines(CHAT[:1]).encode() + bad + lines(CHAT[1:]).encode())
    assert result.exit_code == 4
    assert "line 2: is not UTF-8" in result.stderr
    assert len(session_texts(tmp_path / "m.memdb")) == 3


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_understood(cli, tmp_path, encoding):
    text = json.dumps([{"speaker": "Ana", "content": "海底捞"}], ensure_ascii=False)
    data = text.encode(encoding)
    assert data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    assert cli("add", tmp_path / "m.memdb", stdin=data).exit_code == 0
    assert session_texts(tmp_path / "m.memdb") == ["海底捞"]


def test_half_a_surrogate_pair_is_stored_as_a_replacement(cli, tmp_path):
    assert (
        cli("add", tmp_path / "m.memdb", stdin='[{"speaker": "Ana", "content": "cut \\ud83d"}]').exit_code
        == 0
    )
    assert session_texts(tmp_path / "m.memdb")[0].startswith("cut \ufffd")


BAD_DOCUMENTS = {
    "unknown field": ([*CHAT[:2], {**CHAT[2], "mood": 1}], "$[2]: unknown field 'mood'"),
    "in a session": ({"sessions": [{"messages": CHAT}, {"messages": [{}]}]}, "$.sessions[1].messages[0]: "),
    "not a message": ([CHAT[0], 3], "$[1]: is not a message"),
    "not a session": ({"sessions": [CHAT[0]]}, "$.sessions[0]: is not a session"),
    "messages are not a list": ({"messages": {}}, "$: is not a session"),
    "session is a number": ({"session": 4, "messages": CHAT}, "$.messages[0]: session must be a text"),
    "empty name": ({"session": "", "messages": CHAT}, "$.messages[0]: session must be a text"),
    "time": ([{**CHAT[0], "said_at": 12}], "$[0]: said_at: "),
}


@pytest.mark.parametrize("kind", BAD_DOCUMENTS)
def test_a_bad_document_is_taken_not_at_all(cli, tmp_path, kind):
    document, reason = BAD_DOCUMENTS[kind]
    (tmp_path / "in.json").write_text(json.dumps(document, indent=1))
    result = cli("add", tmp_path / "m.memdb", tmp_path / "in.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"memdb: {tmp_path}/in.json: {reason}")
    assert not (tmp_path / "m.memdb").exists()


def test_a_document_that_is_not_json_says_where(cli, tmp_path):
    result = cli("add", tmp_path / "m.memdb", stdin='\n{\n "messages": [\n  nonsense\n ]}')
    assert result.exit_code == 2
    assert result.stderr == "memdb: <stdin>: is not JSON: Expecting value at line 4, column 3\n"


def test_an_object_without_messages_is_explained(cli, tmp_path):
    result = cli("add", tmp_path / "m.memdb", stdin='{\n"chats": []}')
    assert result.exit_code == 2
    assert "holds no messages; hint: give an array" in result.stderr


@pytest.mark.parametrize("deep", ["[" * 100_000, '[{"a":' * 100_000, '{"messages": [' * 100_000])
@pytest.mark.parametrize("first", ["[\n", '{\n"messages": '])
def test_a_document_nested_too_deep_is_refused_in_plain_words(cli, tmp_path, first, deep):
    (tmp_path / "in.json").write_text(first + deep)
    result = cli("add", tmp_path / "m.memdb", tmp_path / "in.json")
    told = f"memdb: {tmp_path}/in.json: is not JSON that can be read: it is nested too deep\n"
    assert (result.exit_code, result.stderr) == (2, told)


@pytest.mark.parametrize("field", [*inputs.MESSAGE_FIELDS, "session", "mood"])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a": ', "}")])
def test_no_depth_of_a_field_is_more_than_a_refusal(cli, tmp_path, field, begin, end):
    """What is read to the end may be deeper than what looks at it later can follow."""
    message = json.dumps({**CHAT[0], field: "HERE"})
    deep = [message.replace('"HERE"', f"{begin * depth}1{end * depth}") for depth in range(50, 1_100, 10)]
    result = cli("add", tmp_path / "m.memdb", stdin="".join(f"{one}\n" for one in deep))
    assert result.exit_code == 4
    assert "recursion" not in result.stderr
    assert max(map(len, result.stderr.splitlines())) < 250
    assert result.stderr.endswith(f"memdb: <stdin>: {len(deep) - 20} more lines refused\n")


@pytest.mark.parametrize("refused", [19, 20, 21, 22, 1_500])
def test_many_bad_lines_are_counted_for_each_input(cli, tmp_path, lines, refused):
    bad, other = tmp_path / "bad.jsonl", tmp_path / "other.jsonl"
    bad.write_text(lines([CHAT[0], *["oops"] * refused, *CHAT[1:]]))
    other.write_text("oops\n")
    result = cli("add", tmp_path / "m.memdb", bad, other)
    assert result.exit_code == 4
    told = [one.split(": is not JSON")[0] for one in result.stderr.splitlines()]
    more = {21: ["1 more line"], 22: ["2 more lines"], 1_500: ["1,480 more lines"]}.get(refused, [])
    assert told == [
        *(f"memdb: {bad}: line {number}" for number in range(2, 2 + min(refused, 20))),
        *(f"memdb: {bad}: {count} refused" for count in more),
        f"memdb: {other}: line 1",
    ]
    assert len(session_texts(tmp_path / "m.memdb")) == 3


NO_TEXT = {
    "a memory": lambda memory: memory.read_bytes(),
    "NUL at the start": lambda _: b"\0" + json.dumps(CHAT).encode(),
    "NUL at the end of the head": lambda _: b" " * 4_095 + b"\0\n" + json.dumps(CHAT).encode(),
    "UTF-16 without a mark": lambda _: json.dumps(CHAT).encode("utf-16-le"),
    "UTF-8 mark and NUL": lambda _: codecs.BOM_UTF8 + b"\0oops\n" * 30,
}


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("kind", NO_TEXT)
def test_an_input_that_is_no_text_is_one_line(cli, file, tmp_path, kind, piped):
    path = tmp_path / "in.jsonl"
    path.write_bytes(NO_TEXT[kind](file))
    before = file.read_bytes()
    result = cli("add", file, "-", stdin=path.read_bytes()) if piped else cli("add", file, path)
    told = f"memdb: {'<stdin>' if piped else path}: is not text; hint: give JSON, saved as UTF-8\n"
    assert (result.exit_code, result.stderr) == (2, told)
    assert file.read_bytes() == before


def test_unknown_fields_can_be_left_out(cli, tmp_path):
    result = cli("add", tmp_path / "m.memdb", "--ignore-unknown", stdin=json.dumps([{**CHAT[0], "mood": 1}]))
    assert result.exit_code == 0
    assert session_texts(tmp_path / "m.memdb") == [CHAT[0]["content"]]


def test_one_bad_input_does_not_lose_the_others(cli, tmp_path, chat):
    (tmp_path / "bad.json").write_text("[")
    result = cli("add", tmp_path / "m.memdb", tmp_path / "bad.json", tmp_path / "none.json", chat)
    assert result.exit_code == 2
    assert f"{tmp_path}/bad.json: is not JSON" in result.stderr
    assert f"{tmp_path}/none.json: No such file" in result.stderr
    assert len(session_texts(tmp_path / "m.memdb")) == 3


def test_nothing_to_store_makes_no_file(cli, tmp_path):
    for given in ("", "[]", "\n\n"):
        result = cli("add", tmp_path / "m.memdb", stdin=given)
        assert (result.exit_code, result.stdout) == (0, "stored 0 new messages\n")
    assert (
        msgspec.json.decode(cli("add", tmp_path / "m.memdb", "--json", stdin="[]").stdout, type=Added).ids
        == ()
    )
    assert not (tmp_path / "m.memdb").exists()


def test_many_lines_over_several_sessions_keep_their_order(cli, tmp_path, lines, monkeypatch):
    monkeypatch.setattr("memdb.settings.ADD_BATCH_MESSAGES", 7)
    found = [{"speaker": "Ana", "content": f"number {i}", "session": f"s{i % 3}"} for i in range(100)]
    result = cli("add", tmp_path / "m.memdb", "--json", stdin=lines(found))
    added = [msgspec.json.decode(line, type=Added) for line in result.stdout.splitlines()]
    assert [(one.session, one.stored) for one in added] == [("s0", 34), ("s1", 33), ("s2", 33)]
    assert added[0].ids == tuple(f"s0#{i}" for i in range(1, 35))
    assert session_texts(tmp_path / "m.memdb", "s1") == [f"number {i}" for i in range(1, 100, 3)]


def test_scope_and_source(cli, tmp_path, chat):
    path = tmp_path / "m.memdb"
    cli("add", path, chat, "--user", "ana", "--agent", "bot", "--run", "r1", "--source", "whatsapp")
    shown = json.loads(cli("show", path, "--everyone", "--json").stdout)
    assert shown["sessions"][0]["scope"] == {"user": "ana", "agent": "bot", "run": "r1"}
    assert shown["sessions"][0]["source"] == "whatsapp"


def test_what_was_stored_is_told_when_a_later_batch_fails(cli, tmp_path, lines, monkeypatch):
    monkeypatch.setattr("memdb.settings.ADD_BATCH_MESSAGES", 2)
    add = memdb.Memory.add

    def full(memory: Any, messages: list[memdb.Message], **options: Any) -> Added:
        if messages[0].id == "c":
            raise memdb.errors.StorageFailed("the disk is full", hint="free some space")
        return add(memory, messages, **options)

    monkeypatch.setattr(memdb.Memory, "add", full)
    result = cli("add", tmp_path / "m.memdb", stdin=lines(CHAT))
    assert result.exit_code == 1
    assert result.stdout.startswith("stored 2 new messages")
    assert result.stderr == "memdb: the disk is full; hint: free some space\n"


# --- Numbered lists of facts

LIST = "Here is a list of facts:\n4. Ana lives in Porto.\n1) Ben works\n   at Acme.\n"


def test_a_numbered_list_is_added(cli, tmp_path):
    (tmp_path / "facts.txt").write_text(LIST)
    for source, stdin in ((tmp_path / "facts.txt", None), ("-", LIST)):
        path = tmp_path / f"{len(str(source))}.memdb"
        result = cli("add", path, source, "--format", "facts", "--session", "list", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        shown = json.loads(cli("show", path, "list", "--json").stdout)
        assert [(one["id"], one["said_at"], one["content"]) for one in shown] == [
            ("fact-4", "serial-4", "Ana lives in Porto."),
            ("fact-1", "serial-1", "Ben works at Acme."),
        ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"1. a\n1. b\n", "line 2: the number 1 stands on line 1 already"),
        (b"nothing", "holds no numbered fact"),
        (b"1. a\n2. \xff\n", "line 2: is not UTF-8"),
        (b"1. a\n2. " + b"x" * 1_000_001, "fact-2: "),
    ],
)
def test_a_list_is_taken_whole_or_not_at_all(cli, tmp_path, text, told):
    (tmp_path / "facts.txt").write_bytes(text)
    result = cli("add", tmp_path / "m.memdb", tmp_path / "facts.txt", "--format", "facts")
    assert result.exit_code == 2
    assert told in result.stderr
    assert not (tmp_path / "m.memdb").exists()

"""The speed table end to end on small files: its rows, its targets, its results file and its picture."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import apsw
import msgspec
import numpy as np
import pytest

from benchmarks.speed import cold, results, run
from benchmarks.speed.encode import WAYS, Plain
from benchmarks.speed.files import Files
from benchmarks.speed.measured import Found, Held, Measured, Setting, exponent
from benchmarks.speed.report import growth
from memdb.activate.retrieve import SEARCHES
from memdb.models.fakes import HashEncoder
from memdb.models.registry import DEFAULT_ENCODER, find, load_encoder
from memdb.serve.benching import find_bench
from memdb.store.extensions import NATIVE_SWITCH


def test_hybrid_is_held_against_its_channels_at_each_size(setting: Setting) -> None:
    found = run.measure(setting, ["hybrid"])
    told = {(one.size, one.contender): one.value for one in found.measured if one.figure == "CPU ms"}
    for size in setting.sizes:
        assert told[size, "memdb"] == 1  # a tick of the clock
        assert told[size, "sum of channels alone"] == len(SEARCHES)
    assert [(one.size, one.value, one.reached) for one in found.held] == [(30, 0.2, True), (60, 0.2, True)]


def test_without_memdb0_the_statement_finds_the_same(setting: Setting, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.speed.asking.native", lambda connection: True)
    monkeypatch.setattr("benchmarks.speed.asking.LARGE", 60)
    found = run.measure(setting, ["hybrid"])
    same = [one.value for one in found.measured if one.figure.startswith("share of questions")]
    assert same == [1, 1]
    assert [(one.size, one.at_least, one.value) for one in found.held if "as fast" in one.what] == [
        (60, True, 1)
    ]
    assert NATIVE_SWITCH not in os.environ


def test_the_encoder_is_held_against_the_runtime_used_plainly(setting: Setting) -> None:
    found = run.measure(setting, ["encode"])
    assert [one.what for one in found.skipped] == ["on a graphics card", "the encoder"]
    real = msgspec.structs.replace(setting, encoder=load_encoder(threads=1))
    found = run.measure(real, ["encode"])
    told = {(one.contender, one.figure): one.value for one in found.measured}
    assert told["memdb", "share of padding"] < told["plain onnxruntime", "share of padding"]
    assert {contender for contender, _ in told} == {"memdb", "plain onnxruntime", *WAYS}
    assert all(told[way, "share of padding"] == told["memdb", "share of padding"] for way in WAYS)
    assert all(told[way, "texts/s"] > 0 for way in WAYS)
    assert [one.what for one in found.skipped] == ["on a graphics card"]


def test_plain_use_gives_the_same_vectors() -> None:
    encoder = load_encoder(threads=1)
    texts = ["A cat sat on the mat.", "No.", "Where did she go after the long walk by the river?"]
    plain = np.concatenate(Plain(find(DEFAULT_ENCODER), encoder.max_tokens, 1).encode(texts))
    np.testing.assert_allclose(plain, encoder.encode(texts), atol=0.05)


def test_recall_is_held_against_the_encoding_at_one_size(setting: Setting, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.speed.asking.RECALL_SIZE", 60)
    found = run.measure(setting, ["recall"])
    assert {one.contender for one in found.measured} == {"memdb", "encoder"}
    assert [(one.size, one.value, one.target) for one in found.held] == [(60, 1.0, 2.0)]


def test_no_question_is_put_to_the_encoder_twice(setting: Setting, monkeypatch) -> None:
    asked: list[str] = []
    real = HashEncoder.encode

    def encode(self, texts, *, kind="document"):
        if kind == "query":
            asked.extend(texts)
        return real(self, texts, kind=kind)

    monkeypatch.setattr(HashEncoder, "encode", encode)
    run.measure(setting, ["recall"])
    assert len(asked) > len(setting.sizes) * setting.rounds
    assert len(set(asked)) == len(asked)


def test_adding_is_held_against_the_encoder_and_the_raw_bytes(setting: Setting) -> None:
    found = run.measure(setting, ["add"])
    assert [(one.row, one.at_least) for one in found.held] == [("add", True)] * 2 + [("bytes", False)]
    assert {one.row for one in found.measured} == {"add", "bytes"}
    assert all(one.value > 0 for one in found.measured)


def test_no_file_is_made_for_rows_that_need_none(setting: Setting, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    setting = msgspec.structs.replace(setting, files=Files(folder, setting.encoder))
    run.measure(setting, ["encode", "add", "graph"])
    assert not [*folder.glob("*")]
    run.measure(setting, ["recall"])
    assert [*folder.glob("*")]


def test_a_row_without_its_module_is_not_built(setting: Setting, monkeypatch) -> None:
    monkeypatch.setitem(run.ROWS, "dense", ("no_such_module", "dense"))
    (skipped,) = run.measure(setting, ["dense"]).skipped
    assert (skipped.row, skipped.why) == ("dense", "not built")


def test_the_graph_token_needs_a_language_model(setting: Setting) -> None:
    (skipped,) = run.measure(setting, ["graph"]).skipped
    assert "--llm" in skipped.why


def test_a_run_prints_keeps_and_draws(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(run, "load_encoder", lambda **_: HashEncoder(32))
    asked = {"sizes": "60,30", "only": ("hybrid", "graph"), "limit": 2, "keep": tmp_path}
    out, picture = tmp_path / "r.sqlite", tmp_path / "p.svg"
    assert run.bench("speed", out=out, plot=picture, **asked) == 0
    told = capsys.readouterr().out
    assert "sum of channels alone" in told
    assert "not measured: graph" in told
    assert run.bench("speed", out=out, json=True, **asked) == 0
    report = json.loads(capsys.readouterr().out)
    assert {one["size"] for one in report["measured"]} == {30, 60}
    assert "messages in the file" in picture.read_text()
    connection = apsw.Connection(str(out))
    assert connection.execute("SELECT count(*) FROM run").get == 2
    kept = connection.execute("SELECT count(*) FROM measured WHERE run = 2").get
    assert kept == len(report["measured"])
    with pytest.raises(apsw.ConstraintError, match="only ever added"):
        connection.execute("DELETE FROM measured")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"only": ("speeed",)}, "no row 'speeed'"),
        ({"sizes": "x"}, "no number of messages"),
        ({"limit": 1}, "twice at least"),
        ({"ablate": True}, "--ablate says nothing"),
        ({"plot": Path("p.gif")}, "no picture format"),
    ],
)
def test_what_cannot_be_measured_is_told(asked, told: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(run, "load_encoder", lambda **_: HashEncoder(32))
    assert run.bench("speed", **{"out": tmp_path / "r.sqlite", "sizes": "1", **asked}) == 2
    assert told in capsys.readouterr().err


def test_another_database_is_no_results_file(tmp_path: Path, capsys) -> None:
    other = tmp_path / "o.sqlite"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    assert run.bench("speed", out=other) == 2
    assert "not a file of speed results" in capsys.readouterr().err


def test_a_process_is_timed_and_its_failure_is_told(tmp_path: Path) -> None:
    cost = cold.run("import sys; assert len(sys.argv) == 3", tmp_path, tmp_path)
    assert cost.wall > 0
    assert cost.cpu > 0
    with pytest.raises(subprocess.CalledProcessError):
        cold.run("raise SystemExit(1)", tmp_path, tmp_path)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exponents_are_fitted(power: float) -> None:
    sizes = [10, 100, 1_000]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)
    assert exponent(sizes[:1], [1.0]) is None


def test_growth_is_of_times_at_several_sizes() -> None:
    def one(size: int, value: float, figure: str = "CPU ms") -> Measured:
        return Measured(row="hybrid", contender="memdb", figure=figure, value=value, size=size)

    (found,) = growth([one(100, 8), one(10, 4), one(10, 1, "recall@100"), one(100, 1, "recall@100")])
    assert (found.sizes, found.values, found.exponent) == ([10, 100], [4, 8], 0.3)


def test_a_target_is_a_floor_or_a_ceiling() -> None:
    held = Held(row="add", what="share", value=0.9, target=0.9, at_least=True)
    assert held.reached
    assert not msgspec.structs.replace(held, value=0.89).reached
    assert not msgspec.structs.replace(held, value=0.91, at_least=False).reached


def test_rows_come_together() -> None:
    first, second = Found().without("a", "b", "c"), Found().without("d", "e", "f")
    first.extend(second)
    assert [one.row for one in first.skipped] == ["a", "d"]
    assert not second.measured


def test_the_command_finds_the_speed_benchmarks() -> None:
    assert find_bench(kind="speed").__module__.endswith("benchmarks.speed.run")


def test_libraries_that_are_not_there_have_no_version() -> None:
    assert list(results.versions(("apsw", "no-such-library"))) == ["apsw"]

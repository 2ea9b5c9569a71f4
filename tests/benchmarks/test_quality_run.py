"""The entry: a whole run over the sample, its tables, its picture, and requests that cannot be met."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import apsw
import msgspec
import pytest
from rich.console import Console

import memdb
from benchmarks.quality import columns, plot, report, retrievers, run
from benchmarks.quality.data import DATA_VARIABLE
from benchmarks.quality.errors import BenchmarkError, ChangedMeanwhile, LibraryMissing
from benchmarks.quality.report import Report
from memdb.models.fakes import HashEncoder


@pytest.fixture
def finished(folder: Path, tmp_path: Path, prepare: run.Prepare) -> Report:
    return run.measure("locomo", folder, prepare=prepare, out=tmp_path / "results.sqlite")


def test_a_run_is_reported_and_kept(finished: Report, tmp_path: Path) -> None:
    assert [row.retriever for row in finished.overall] == ["bm25", "bm25-stemmed", "oracle"]
    assert finished.baseline == "bm25-stemmed"
    facts = finished.facts
    assert (facts.conversations, facts.messages, facts.questions, facts.unscored) == (2, 8, 5, 1)
    connection = apsw.Connection(str(tmp_path / "results.sqlite"))
    assert connection.execute("SELECT count(*), count(DISTINCT retriever) FROM question").get == (15, 3)
    connection.close()


def test_limit_leaves_later_conversations_out(folder: Path, tmp_path: Path, prepare: run.Prepare) -> None:
    finished = run.measure("locomo", folder, prepare=prepare, out=tmp_path / "r", wanted=run.Wanted(limit=2))
    assert (finished.facts.conversations, finished.facts.questions) == (1, 2)
    assert finished.facts.options["limit"] == 2


def test_code_that_is_edited_meanwhile_keeps_nothing(
    folder: Path, tmp_path: Path, prepare: run.Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["a" * 64, "b" * 64])
    monkeypatch.setattr("benchmarks.quality.results.code_sha256", lambda: next(digests))
    with pytest.raises(ChangedMeanwhile, match="edited"):
        run.measure("locomo", folder, prepare=prepare, out=tmp_path / "r")
    connection = apsw.Connection(str(tmp_path / "r"))
    assert connection.execute("SELECT count(*) FROM run").get == 0
    connection.close()


def test_tables_fit_a_terminal(finished: Report) -> None:
    text = StringIO()
    console = Console(file=text, width=80)
    report.show(finished, run.BENCHMARKS["locomo"].categories, console)
    report.show_rest(finished, console)
    shown = text.getvalue()
    for part in ("oracle", "nDCG@10", "order-nDCG@10", "2 temporal", "100–100", "left out without gold: 1"):
        assert part in shown
    assert "…\n" not in shown


def test_json_is_the_report(finished: Report) -> None:
    assert msgspec.json.decode(report.to_json(finished), type=Report) == finished


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture(finished: Report, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"run.{suffix}"
    plot.draw(finished, run.BENCHMARKS["locomo"].categories, file)
    assert file.stat().st_size > 10_000


def test_pictures_that_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(BenchmarkError, match="no folder"):
        plot.check(tmp_path / "nowhere" / "run.png")
    with pytest.raises(BenchmarkError, match="no picture format"):
        plot.check(tmp_path / "run.doc")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LibraryMissing, match="matplotlib"):
        plot.check(tmp_path / "run.png")


def test_missing_data_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    assert run.bench("locomo", tmp_path, out=tmp_path / "r") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert str(tmp_path / "locomo") in told.err
    assert told.err.startswith("memdb: ")
    assert told.err.endswith(f"; hint: give the folder with --data DIR or set {DATA_VARIABLE}\n")
    assert told.err.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "sokrates"}, "no benchmark 'sokrates'"),
        ({"channels": ["smell"]}, "no channel smell"),
        ({"channels": [","]}, "no channel"),
        ({"limit": 0}, "leaves no question"),
        ({"plot": Path("nowhere/x.png")}, "no folder"),
        ({"out": Path("nowhere/r.sqlite")}, "nowhere/r.sqlite"),
    ],
)
def test_requests_that_cannot_be_met_are_2(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    told: str,
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    request = {"name": "locomo", "data": folder, "out": tmp_path / "r", **change}
    assert run.bench(**request) == 2  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("memdb: ")
    assert told in shown.err
    assert shown.err.count("\n") == 1


def test_columns() -> None:
    chosen = columns.columns(["message_lexical, message_dense"])
    assert list(chosen) == ["dense", "hybrid", "message_lexical+message_dense"]
    assert chosen["hybrid"] == columns.Column()
    assert set(chosen["dense"].channels or ()) == {name for name in memdb.CHANNELS if name.endswith("_dense")}


def test_a_caption_is_part_of_what_was_said() -> None:
    message = memdb.Message(speaker="Ines", content="Look!", image_caption="a parrot")
    assert retrievers.spoken(message) == "Ines: Look! [a parrot]"


def test_memory_files(folder: Path, tmp_path: Path) -> None:
    """memdb itself, with its embedded encoder, finds the baker; a kept file is used again."""
    keep, out = tmp_path / "kept", tmp_path / "results.sqlite"
    for _ in range(2):
        assert run.bench("locomo", folder, out=out, keep=keep, channels=["message_lexical"], limit=2) == 0
    assert [file.name for file in keep.glob("*.memdb")] == ["conv-a.memdb"]
    connection = apsw.Connection(str(out))
    found = list(connection.execute("SELECT retriever, ranks FROM question WHERE number = 1 ORDER BY run"))
    assert len(found) == 10
    assert {name for name, ranks in found if ranks == "[1]"} >= {"dense", "hybrid", "message_lexical"}
    models = connection.execute("SELECT models FROM run WHERE id = 1").get
    assert "memdb-encoder" in models
    assert "memdb-reranker" in models
    connection.close()


@pytest.mark.filterwarnings("ignore::memdb.errors.MemdbWarning")
def test_a_kept_file_of_another_encoder_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memdb.open(tmp_path / "conv-a.memdb", encoder=HashEncoder()).close()
    assert run.bench("locomo", folder, out=tmp_path / "r", keep=tmp_path, limit=2) == 2
    assert "made with another encoder" in capsys.readouterr().err

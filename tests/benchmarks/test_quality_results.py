"""The results file: what goes in comes out, and stays."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

import memdb
from benchmarks.quality import results
from benchmarks.quality.errors import BenchmarkError
from benchmarks.quality.evaluate import Outcome
from benchmarks.quality.results import Facts
from benchmarks.quality.scoring import Answered
from benchmarks.results_file import ResultsFile
from benchmarks.speed import results as speed_results

OUTCOME = Outcome(
    conversation="conv-a",
    number=2,
    category=1,
    retriever="bm25",
    gold=("D1:1", "D2:1"),
    ranks=(3, None),
    values={"recall@10": 0.5, "gold": 2},
    milliseconds=0.25,
)

ANSWERED = Answered(
    conversation="conv-a",
    number=2,
    category=1,
    answerer="text",
    wanted="Porto",
    text="In Porto",
    labels=("MU1", "F2"),
    judged=(1, 0),
    values={"score": 0.5},
    milliseconds=1200.5,
)


@pytest.fixture
def facts() -> Facts:
    return Facts(
        benchmark="locomo",
        started_at=results.now(),
        memdb_version=memdb.__version__,
        code_sha256=results.code_sha256(),
        settings=results.memdb_settings(),
        options={"limit": None},
        models={"fake": "0" * 64},
        data_sha256="1" * 64,
        machine=results.machine(),
        tokenizer="words between blanks",
        conversations=2,
        messages=8,
        questions=5,
        unscored=1,
        add_seconds=0.5,
        seconds=1.5,
    )


def rows(file: Path, table: str, *json: str) -> list[dict[str, object]]:
    """All rows of a table, the columns named in `json` decoded."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    found: list[dict[str, object]] = []
    cursor = connection.execute(f"SELECT * FROM {table}")
    for row in cursor:
        named = zip((name for name, *_ in cursor.description), row, strict=True)
        found.append({name: msgspec.json.decode(str(one)) if name in json else one for name, one in named})
    connection.close()
    return found


def test_round_trip(tmp_path: Path, facts: Facts) -> None:
    file = tmp_path / "results.sqlite"
    assert results.append(file, facts, [OUTCOME], [ANSWERED]) == 1
    (answer,) = rows(file, "answer", "labels", "judged", "values")
    assert answer.pop("run") == 1
    assert msgspec.convert(answer, Answered) == ANSWERED
    (run,) = rows(file, "run", "settings", "options", "models", "machine")
    (question,) = rows(file, "question", "gold", "ranks", "values")
    assert (run.pop("id"), question.pop("run")) == (1, 1)
    assert msgspec.convert(run, Facts) == facts
    assert msgspec.convert(question, Outcome) == OUTCOME


def test_runs_add_up(tmp_path: Path, facts: Facts) -> None:
    file = tmp_path / "results.sqlite"
    assert [results.append(file, facts, [OUTCOME]) for _ in range(3)] == [1, 2, 3]
    assert len(rows(file, "question")) == 3


def test_a_run_is_kept_whole_or_not_at_all(tmp_path: Path, facts: Facts) -> None:
    file = tmp_path / "results.sqlite"
    with pytest.raises(apsw.ConstraintError):
        results.append(file, facts, [OUTCOME, OUTCOME])
    assert rows(file, "run") == rows(file, "question") == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET seconds = 0",
        "DELETE FROM run",
        "UPDATE question SET ranks = '[]'",
        "DELETE FROM question",
        "UPDATE answer SET text = ''",
        "DELETE FROM answer",
    ],
)
def test_rows_are_only_ever_added(tmp_path: Path, facts: Facts, statement: str) -> None:
    file = tmp_path / "results.sqlite"
    results.append(file, facts, [OUTCOME], [ANSWERED])
    connection = apsw.Connection(str(file))
    with pytest.raises(apsw.ConstraintError, match="only ever added"):
        connection.execute(statement)
    connection.close()


def test_a_file_of_the_format_before_goes_on(tmp_path: Path, facts: Facts) -> None:
    file = tmp_path / "old.sqlite"
    results.append(file, facts, [OUTCOME])
    connection = apsw.Connection(str(file))
    connection.execute("DROP TABLE answer")
    connection.pragma("user_version", 1)
    connection.close()
    assert results.append(file, facts, [OUTCOME], [ANSWERED]) == 2
    assert [row["run"] for row in rows(file, "question")] == [1, 2]
    assert [row["run"] for row in rows(file, "answer")] == [2]


@pytest.mark.parametrize("kind", [results.FILE, speed_results.FILE])
@pytest.mark.parametrize(
    ("number", "format_"), [(0, 0), ("own", 0), ("own", 99), (results.FILE.application_id ^ 1, 1)]
)
def test_another_database_is_left_alone(
    tmp_path: Path, kind: ResultsFile, number: int | str, format_: int
) -> None:
    file = tmp_path / "other.sqlite"
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE mine (x)")
    connection.pragma("application_id", kind.application_id if number == "own" else number)
    connection.pragma("user_version", format_)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(BenchmarkError, match=f"not a file of {kind.what}"):
        kind.check(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("place", ["nowhere/results.sqlite", "text.txt"])
def test_what_cannot_be_opened_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "text.txt").write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(BenchmarkError, match=place):
        results.FILE.check(tmp_path / place)


def test_machine_and_settings_say_something() -> None:
    machine = results.machine()
    assert machine.cores >= 1
    assert all(getattr(machine, name) for name in machine.__struct_fields__)
    assert results.memdb_settings()["RRF_KAPPA"] == 60


def test_the_query_in_the_readme_runs(tmp_path: Path, facts: Facts) -> None:
    file = tmp_path / "results.sqlite"
    readme = Path(results.__file__).parent.parent / "README.md"
    query = readme.read_text(encoding="utf-8").partition("    SELECT")[2]
    hybrid = msgspec.structs.replace(OUTCOME, retriever="hybrid")
    results.append(file, facts, [hybrid])
    results.append(file, facts, [msgspec.structs.replace(hybrid, ranks=(1, 2))])
    connection = apsw.Connection(str(file))
    assert list(connection.execute("SELECT" + query)) == [("conv-a", 2, "[3,null]", "[1,2]")]
    connection.close()

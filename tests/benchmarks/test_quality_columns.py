"""memdb's columns: what each asks of `recall`, what a part less costs, and what more reranking brings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import memdb
from benchmarks.quality import plot, report, run
from benchmarks.quality.columns import ABLATIONS, Column, columns, depth_of, parse_depths
from benchmarks.quality.data import Conversation, Question
from benchmarks.quality.errors import BenchmarkError
from benchmarks.quality.report import Report
from benchmarks.quality.retrievers import BASELINES, DEPTH, Baseline, Prepared, Recall
from memdb.models.fakes import OverlapReranker
from memdb.models.ports import Reranker
from memdb.models.remembering import RememberingReranker
from memdb.records import Query


class Told(memdb.WorkingMemory, frozen=True, kw_only=True):
    answerable: float = 0.25


class FakeMemory:
    """Finds by BM25, remembers what it was asked, and finds nothing below a reranking depth of 20."""

    def __init__(self, conversation: Conversation) -> None:
        self._bm25 = Baseline(conversation, BASELINES["bm25"])
        self._messages = {str(message.id): message for message in conversation.messages}
        self.asked: list[dict[str, Any]] = []

    def recall(self, question: str, **keywords: Any) -> Told:
        self.asked.append({"question": question, **keywords})
        found = (
            self._bm25(Question(0, question, 1, ())).found if keywords.get("rerank_depth", 50) >= 20 else []
        )
        evidence = tuple(
            memdb.Evidence(
                rank=rank, score=0.0, text=piece.text, speaker="", session="",
                source=(self._messages[piece.ids[0]],),
            )
            for rank, piece in enumerate(found, 1)
        )  # fmt: skip
        return Told(query=Query(text=question), evidence=evidence)


def recall_of(memory: FakeMemory, column: Column) -> Recall:
    return Recall(cast("memdb.Memory", memory), column)


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMemory]:
    """Has the benchmarks ask a fake memory; gives the fakes by conversation."""
    fakes: dict[str, FakeMemory] = {}

    @contextmanager
    def in_memory_file(
        conversation: Conversation, chosen: Mapping[str, Column], *_: object, **__: object
    ) -> Iterator[Prepared]:
        memory = fakes[conversation.name] = FakeMemory(conversation)
        baseline = Baseline(conversation, BASELINES["bm25-stemmed"])
        recalls = {name: recall_of(memory, column) for name, column in chosen.items()}
        yield Prepared({"bm25-stemmed": baseline, **recalls})

    monkeypatch.setattr("benchmarks.quality.run.in_memory_file", in_memory_file)
    return fakes


def test_a_column_asks_for_what_it_names_and_leaves_the_rest_to_memdb(faked: object) -> None:
    conversation = Conversation("c", (), ())
    memory = FakeMemory(conversation)
    question = Question(0, "Where?", 1, (), asked_at="2023-05-08")
    plain = {"question": "Where?", "k": DEPTH, "at": "2023-05-08"}
    for column, more in (
        (Column(), {}),
        (Column(("hops",)), {"channels": ("hops",)}),
        (Column(rerank_depth=0), {"rerank_depth": 0}),
    ):
        assert recall_of(memory, column)(question).answerable == 0.25
        assert memory.asked.pop() == plain | more


def test_ablations() -> None:
    everything = set(memdb.CHANNELS)
    less = {name: everything - set(column.channels or everything) for name, column in ABLATIONS.items()}
    messages = {"message_lexical", "message_dense"}
    assert less == {
        "no reranker": set(),
        "no event attributes": {"unit_attribute"},
        "no hybrid": everything - {"message_dense", "unit_dense"},
        "no traces": {"traces"},
        "no units": {"unit_lexical", "unit_dense", "unit_attribute"},
        "messages only": everything - messages,
    }
    assert [name for name, column in ABLATIONS.items() if column.rerank_depth == 0] == ["no reranker"]


def test_columns_come_in_order() -> None:
    chosen = columns(["hops"], ablate=True, depths=(0, 20))
    assert list(chosen) == ["dense", "hybrid", "hops", *ABLATIONS, "rerank 0", "rerank 20"]
    assert chosen["rerank 20"] == Column(rerank_depth=20)
    assert [depth_of(name) for name in chosen if depth_of(name) is not None] == [0, 20]


def test_depths_are_numbers() -> None:
    assert parse_depths(None) == ()
    assert parse_depths(" 100,0, 20,20") == (0, 20, 100)
    for wrong in ("", ",", "ten", "-5", "1.5", "²"):
        with pytest.raises(BenchmarkError, match="no list of depths"):
            parse_depths(wrong)


@pytest.fixture
def finished(folder: Path, tmp_path: Path, faked: object, capsys: pytest.CaptureFixture[str]) -> Report:
    out = tmp_path / "r.sqlite"
    assert run.bench("locomo", folder, out=out, ablate=True, depths="0,20,50", json=True) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=Report)


def test_a_part_less_is_held_against_the_whole(finished: Report, tmp_path: Path) -> None:
    assert list(finished.ablation) == list(ABLATIONS)
    rows = {row.retriever: row for row in finished.overall}
    for name, change in finished.ablation.items():
        lost = rows[name].figures["nDCG@10"].value - rows["hybrid"].figures["nDCG@10"].value
        assert change["nDCG@10"].value == pytest.approx(lost)
    gone = finished.ablation["no reranker"]["R@10"]
    assert (gone.value, gone.low, gone.high) == (-rows["hybrid"].figures["R@10"].value, gone.low, gone.high)
    assert gone.low is not None
    same = finished.ablation["no traces"]["R@10"]
    assert (same.value, same.low, same.high) == (0, 0, 0), "paired: no difference has no interval"
    connection = apsw.Connection(str(tmp_path / "r.sqlite"))
    options = json.loads(connection.execute("SELECT options FROM run").get)
    connection.close()
    assert (options["ablate"], options["depths"]) == ("yes", "0,20,50")


def test_tables_of_ablations_depths_and_abstention(finished: Report) -> None:
    text = StringIO()
    console = Console(file=text, width=80)
    report.show(finished, run.BENCHMARKS["locomo"].categories, console)
    report.show_rest(finished, console)
    shown = text.getvalue()
    main, _, rest = shown.partition("a part less")
    for name in ABLATIONS:
        assert name not in main, "the main tables stay narrow"
        assert name in rest
    assert "Δ" in rest
    assert "s per question" in rest
    assert "AUROC" in rest
    assert "… " not in rest


def test_picture_of_depths(finished: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert [depth for depth, _ in report.depths(finished)] == [0, 20, 50]
    file = tmp_path / "depths.svg"
    plot.draw(finished, run.BENCHMARKS["locomo"].categories, file)
    assert file.stat().st_size > 5_000


@pytest.mark.parametrize("change", [{"depths": "ten"}, {"haystack": 5}])
def test_requests_that_cannot_be_met(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    assert run.bench("locomo", folder, out=tmp_path / "r", **change) == 2
    told = capsys.readouterr().err
    assert told.startswith("memdb: ")
    assert "; hint: " in told


class Counting(OverlapReranker):
    """Counts what it is asked."""

    read = 0

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        self.read += len(documents)
        return super().score(question, documents)


def test_a_remembering_reranker_says_what_the_real_one_says_and_asks_it_once() -> None:
    real = Counting()
    kept = RememberingReranker(real)
    assert isinstance(kept, Reranker)
    documents = ["a grey cat", "a dog", "a grey cat"]
    first = kept.score("Which cat?", documents)
    assert first.tolist() == OverlapReranker().score("Which cat?", documents).tolist()
    assert kept.score("Which cat?", documents[::-1]).tolist() == first[::-1].tolist()
    assert real.read == 2
    kept.score("Which dog?", documents)
    assert real.read == 4
    assert kept.score("Which?", []).shape == (0,)

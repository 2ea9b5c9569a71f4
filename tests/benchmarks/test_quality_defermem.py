"""DeferMem's protocol: candidate sets, what is distilled from them, where gold is lost, and the grid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import memdb
from benchmarks.quality import candidate_plot, candidates, evaluate, histories, plot, report, run
from benchmarks.quality.answering import Ask, Models, answerers
from benchmarks.quality.candidate_tables import show
from benchmarks.quality.data import Conversation, Question
from benchmarks.quality.histories import DENSE, HYBRID, Candidates, Cell, Cut, Cuts, Fitted, Sifted
from benchmarks.quality.report import Report
from benchmarks.quality.retrievers import Prepared
from memdb.generate.distill import Distillation, ModelDistiller
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.records import Distilled, History, Query, Segment, Utterance

from .test_quality_longmemeval import ORACLE


def words(text: str) -> int:
    return len(text.split())


def said(id: str, text: str = "three small words", rank: int | None = None) -> Utterance:
    message = memdb.Message(speaker="Ines", content=text, id=id)
    return Utterance(message=message, session="s", position=int(id[1:]), rank=rank)


def history(*segments: Sequence[str], truncated: bool = False) -> History:
    """Segments of messages of three words; the first of each was found."""
    made = tuple(
        Segment(utterances=tuple(said(id, rank=number if id == ids[0] else None) for id in ids))
        for number, ids in enumerate(segments, 1)
    )
    return History(query=Query(text="?"), segments=made, truncated=truncated)


def distilled(*ids: str, info: str = "it is so", faithful: bool = True, **more: Any) -> Distillation:
    told = tuple(Distilled(info=info, utterance=said(id), faithful=faithful) for id in ids)
    return Distillation(**{"evidence": told, "useful": tuple(one.utterance for one in told), **more})


TWO = Question(0, "Which two?", 1, ("m1", "m2"), answer="Both")
HALF = Question(1, "Which half?", 4, ("m3", "m9"), answer="That")
NO_GOLD = Question(2, "Would she?", 3, (), answer="Yes", sessions=("s",))
TEMPTING = Question(3, "Which horse?", 5, ("m4",), answerable=False)
NOTHING = Question(4, "Which boat?", 5, (), answerable=False)
CANDIDATES = history(("m1", "m2"), ("m3", "m4", "m5"))


def outcome(question: Question, sifted: Sifted, name: str = HYBRID, chat: str = "c") -> evaluate.Outcome:
    return candidates.sift(Conversation(chat, (), ()), question, (name, lambda _: sifted), words)


def figures(outcomes: Sequence[evaluate.Outcome]) -> dict[str, float]:
    (row,) = (one for one in candidates.summarise(outcomes, candidates.figures()) if one.group == "overall")
    return {name: one.value for name, one in row.figures.items()}


# --- candidate sets


def test_recall_by_hand() -> None:
    """Two of two, one of two, and a question without gold, which is left out of both recalls alone."""
    found = figures([outcome(one, Sifted(CANDIDATES)) for one in (TWO, HALF, NO_GOLD)])
    assert (found["Recall-01"], found["Recall"]) == (0.5, 0.75)
    assert (found["candidate tokens"], found["messages"], found["segments"]) == (15, 5, 2)


def test_with_questions_that_have_no_answer_and_without() -> None:
    miss = msgspec.structs.replace(TEMPTING, gold=("m9",))
    asked = [outcome(one, Sifted(CANDIDATES)) for one in (TWO, HALF, miss, NOTHING)]
    found = figures(asked)
    assert found["Recall-01"] == pytest.approx(1 / 3)
    assert found["Recall"] == pytest.approx(1.5 / 3)
    assert (found["Recall-01, answerable"], found["Recall, answerable"]) == (0.5, 0.75)


def test_share_truncated() -> None:
    cut = history(("m1",), truncated=True)
    assert figures([outcome(TWO, Sifted(one)) for one in (cut, CANDIDATES)])["truncated"] == 0.5
    assert figures([outcome(TWO, Sifted(cut))])["segments"] == 1


def test_ranks_are_those_of_the_entry() -> None:
    one = outcome(msgspec.structs.replace(TWO, gold=("m3", "m2", "m9")), Sifted(CANDIDATES))
    assert one.ranks == (2, None, None), "found second, came with its segment, not there"
    assert outcome(TWO, Sifted(History(query=Query(text="?")))).values["share"] == 0


# --- what is distilled


def values(question: Question, made: Distillation, of: History = CANDIDATES) -> dict[str, float]:
    return outcome(question, Sifted(of, made)).values


def test_values_of_a_distillation() -> None:
    assert values(TWO, distilled("m1", "m5", faithful=False)) == {
        "asked": 1, "nothing": 0, "entries": 2, "evidence_tokens": 6, "candidate_tokens": 15,
        "kept": 1, "kept_share": 0.5, "known_sources": 2, "asked_sources": 2, "faithful": 0,
        "empty_rightly": 0, "retrieval_miss": 0, "distillation_error": 1, "rest": 0,
        "valid": 1, "known_ids": 4, "named_ids": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("question", "told", "stage"),
    [
        (TWO, ("m1", "m2"), "rest"),
        (TWO, ("m1", "m2", "m5"), "rest"),
        (TWO, ("m1",), "distillation_error"),
        (TWO, (), "distillation_error"),
        (HALF, ("m3",), "retrieval_miss"),
        (HALF, (), "retrieval_miss"),
        (NO_GOLD, ("m1",), None),
        (TEMPTING, (), None),
        (TEMPTING, ("m4",), None),
    ],
)
def test_each_question_has_one_stage(question: Question, told: tuple[str, ...], stage: str | None) -> None:
    found = values(question, distilled(*told))
    stages = ("retrieval_miss", "distillation_error", "rest")
    assert [name for name in stages if found[name]] == ([stage] if stage else [])


def test_the_gold_of_a_question_without_an_answer_is_nothing() -> None:
    """Whatever turn tempts: telling of it is wrong, telling of nothing is right."""
    tempted, silent = values(TEMPTING, distilled("m4")), values(TEMPTING, distilled())
    assert (tempted["kept"], tempted["known_sources"], tempted["empty_rightly"]) == (0, 1, 0)
    assert (silent["known_sources"], silent["empty_rightly"], silent["asked"]) == (0, 1, 0)
    assert values(NO_GOLD, distilled("m1"))["known_sources"] == 0, "which are gold is not known"


def test_what_distillations_amount_to() -> None:
    made = [
        (TWO, distilled("m1", "m2", "m5")),
        (HALF, distilled("m3")),
        (TEMPTING, distilled("m4", faithful=False)),
        (NOTHING, distilled()),
    ]
    name = "hybrid, extractive"
    found = candidates.summed_up([outcome(one, Sifted(CANDIDATES, told), name) for one, told in made])
    (row,) = [row for row in found.distilled if row.group == "overall"]
    assert {name: round(one.value, 4) for name, one in row.figures.items()} == {
        "entries": 1.25,  # 3, 1, 1, 0
        "evidence tokens": 3.75,
        "compression": 4.0,  # four times 15 tokens by 15
        "useful precision": 0.6,  # m1, m2, m3 of five
        "precision, answerable": 0.75,  # of four
        "useful recall": 0.75,  # all, half
        "faithful": 0.8,
        "empty where nothing answers": 0.5,
        "retrieval miss": 0.5,
        "distillation error": 0.0,
        "rest": 0.5,
        "valid": 1.0,
        "ids valid": 1.0,
    }
    bins = {one: count for one, count in found.entries[name].items() if count}
    assert bins == {"0": 1, "1": 2, "3": 1}


@pytest.mark.parametrize(
    ("entries", "bin"), [(0, "0"), (5, "5"), (6, "6–10"), (10, "6–10"), (11, "11–20"), (21, "over 20")]
)
def test_bins_of_entries(entries: int, bin: str) -> None:
    one = outcome(TWO, Sifted(CANDIDATES, distilled(*["m1"] * entries)), "d")
    (counts,) = candidates.summed_up([one]).entries.values()
    assert [name for name, count in counts.items() if count] == [bin]


def test_replies_of_a_model() -> None:
    """One of four cannot be read; of the nine ids that the others name, one is not there, one comes twice."""
    unread = distilled(valid=False, rejected={"cut_off": 1})
    wrong = distilled("m1", rejected={"unknown_id": 1, "duplicate": 1, "untold": 3})
    blank = distilled("m2", useful=(said("m2"), said("m3")), rejected={"empty": 1, "unfaithful": 1})
    made = [unread, wrong, blank, distilled()]
    found = candidates.summed_up([outcome(TWO, Sifted(CANDIDATES, one), "d") for one in made])
    overall = found.distilled[0].figures
    assert overall["valid"].value == 0.75
    assert overall["ids valid"].value == pytest.approx((2 + 4) / (4 + 4))


ids = st.lists(st.sampled_from([f"m{number}" for number in range(1, 8)]), unique=True)


@given(gold=ids, found=ids, told=ids, answerable=st.booleans())
def test_shares_are_shares(gold: list[str], found: list[str], told: list[str], answerable: bool) -> None:
    question = Question(0, "?", 1, tuple(gold), answerable=answerable)
    of = history(found) if found else History(query=Query(text="?"))
    one = values(question, distilled(*(id for id in told if id in found)), of)
    assert one["retrieval_miss"] + one["distillation_error"] + one["rest"] == one["asked"]
    assert 0 <= one["kept"] <= one["asked_sources"] <= one["known_sources"] <= one["entries"]
    whole = candidates.candidate_values(of, question, words)
    assert one["kept_share"] <= whole["asked_share"] <= whole["share"] <= 1
    assert bool(whole["whole"]) == (bool(gold) and set(gold) <= set(found))


# --- how a memory is asked

MORE = (
    "My bicycle has a flat tyre.",
    "The pump is in the cellar.",
    "Did you see the comet on Friday?",
    "Only clouds over the harbour.",
    "Grandma sold her bakery.",
    "Who bakes the rye bread now?",
    "I failed my driving test.",
    "Parking again?",
)


class FakeMemory:
    """Gives the same candidates for everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def history(self, question: str, **keywords: Any) -> History:
        self.asked.append({"question": question, **keywords})
        return CANDIDATES

    def ask(self, question: str, **keywords: Any) -> memdb.Answer:
        self.asked.append({"question": question, **keywords})
        return memdb.Answer(text="Both")


class First:
    """Tells of the first message."""

    def __init__(self) -> None:
        self.times: list[str | None] = []

    def distil(self, of: History, question_time: str | None) -> Distillation:
        self.times.append(question_time)
        return distilled(str(of.utterances[0].message.id))

    def room(self, question: str, question_time: str | None) -> int:
        raise NotImplementedError

    def size(self, utterance: Utterance) -> int:
        raise NotImplementedError


def test_a_column_asks_for_its_entry_and_leaves_the_budget_to_memdb() -> None:
    memory, question = FakeMemory(), msgspec.structs.replace(TWO, asked_at="2023-05-08")
    real = cast("memdb.Memory", memory)
    assert Candidates(real, DENSE)(question) == Sifted(CANDIDATES)
    first = First()
    assert Candidates(real, HYBRID, first, budget_tokens=9)(question).distillation == distilled("m1")
    plain = {"question": "Which two?", "at": "2023-05-08"}
    assert memory.asked == [plain | {"entry": DENSE}, plain | {"entry": HYBRID, "budget_tokens": 9}]
    assert first.times == ["2023-05-08"]


def test_a_model_reads_the_candidates_that_fit_its_context(tmp_path: Path) -> None:
    reply = {"useful_msg": [{"msg_id": "m1"}], "distilled_info": [{"msg_id": "m1", "info": "The tyre."}]}
    backbone = ScriptedBackbone(lambda turns, schema: json.dumps(reply), context_tokens=1024)
    question = Question(0, "What of the bicycle tyre?", 1, (), asked_at="2023-05-08")
    with memdb.open(tmp_path / "m.memdb", encoder=HashEncoder()) as memory:
        memory.add([memdb.Message(speaker="Tom", content=f"{text} " * 6) for text in MORE])
        whole = Candidates(memory, HYBRID)(question).history
        distiller = ModelDistiller(backbone)
        of, made = Fitted(memory, HYBRID, distiller)(question)
    sizes = [distiller.size(one) for one in whole.utterances]
    left = distiller.room(question.text, question.asked_at)
    assert len(whole.utterances) == len(MORE)
    assert sum(sizes) > left, "all of them do not fit"
    assert 0 < sum(distiller.size(one) for one in of.utterances) <= left
    assert of.truncated
    assert made is not None
    assert [one.utterance for one in made.evidence] == [of.utterances[0]]


def test_methods_are_answerers_of_their_own() -> None:
    memory, told = FakeMemory(), FakeMemory()
    one, other = cast("memdb.Memory", memory), cast("memdb.Memory", told)
    assert list(answerers(one, None, Models())) == ["extractive"]
    named = answerers(one, other, Models(), ("qgmem", "defermem", "both"))
    assert list(named) == ["extractive", "defermem", "both", "text", "text, defermem", "text, both"]
    for name in ("both", "text, defermem"):
        named[name](TWO)
    assert [asked["method"] for asked in (*memory.asked, *told.asked)] == ["both", "defermem"]
    assert Ask(one, "text")(TWO).text == "Both"
    assert memory.asked[-1]["method"] == "qgmem"


# --- a run


def of_conversation(conversation: Conversation, first: int) -> History:
    """Two segments of a conversation: its first messages, and the second session from `first` on."""
    sessions = [
        Segment(
            utterances=tuple(
                Utterance(message=message, session=session.name, position=place, rank=None)
                for place, message in enumerate(session.messages)
            )
        )
        for session in conversation.sessions
    ]
    return History(query=Query(text="?"), segments=tuple(sessions[:first]))


@contextmanager
def prepared(conversation: Conversation) -> Iterator[Prepared]:
    """The dense entry has the first session, the hybrid one two; distilled is the first message."""
    less, more = of_conversation(conversation, 1), of_conversation(conversation, 2)
    told = Distillation(evidence=(Distilled(info="It is so.", utterance=more.utterances[0]),))

    def cuts() -> Cuts:
        for tau1, tau2 in ((0.2, 0.7), (0.2, 0.9), (0.4, 0.7), (0.4, 0.9)):
            of = less if tau2 > 0.8 else more
            sifts = {DENSE: lambda _: Sifted(less), HYBRID: lambda _, of=of: Sifted(of)}
            yield Cut(Cell(tau1, tau2), 4, sifts)

    yield Prepared(
        {},
        sifts={
            DENSE: lambda _: Sifted(less),
            HYBRID: lambda _: Sifted(more),
            "hybrid, extractive": lambda _: Sifted(more, told),
        },
        cuts=cuts,
    )


@pytest.fixture
def finished(folder: Path, tmp_path: Path) -> Report:
    wanted = run.Wanted(defermem=True, grid=True)
    return run.measure("locomo", folder, prepare=prepared, out=tmp_path / "r.sqlite", wanted=wanted)


def test_a_run_of_candidate_sets(finished: Report) -> None:
    rows = {row.retriever: row for row in finished.overall}
    assert list(rows) == [DENSE, HYBRID]
    # Gold of the sample: 2, 1, 2, 1 (tempting) and 1 turns. The first session alone has no turn of the two
    # about Porto.
    assert rows[DENSE].figures["Recall-01"].value == pytest.approx(3 / 5)
    assert rows[DENSE].figures["Recall, answerable"].value == pytest.approx(2 / 4)
    assert rows[HYBRID].figures["Recall"].value == 1
    assert finished.baseline == DENSE
    assert finished.gains[HYBRID]["Recall"].value == pytest.approx(2 / 5)
    assert rows[HYBRID].figures["Recall"].low is not None
    assert finished.sifting is not None
    (told,) = [row for row in finished.sifting.distilled if row.group == "overall"]
    assert (told.retriever, told.questions) == ("hybrid, extractive", 5)
    assert msgspec.json.decode(report.to_json(finished), type=Report) == finished


def test_the_grid_is_a_row_for_each_cell_and_entry(finished: Report) -> None:
    assert finished.sifting is not None
    rows = finished.sifting.grid
    assert [(row.entry, row.tau1, row.tau2) for row in rows[:3]] == [
        (DENSE, 0.2, 0.7), (HYBRID, 0.2, 0.7), (DENSE, 0.2, 0.9),
    ]  # fmt: skip
    assert len(rows) == 8
    recalls = {(row.entry, row.tau2): row.figures["Recall"].value for row in rows}
    assert recalls[HYBRID, 0.7] == 1
    assert recalls[HYBRID, 0.9] == pytest.approx(3 / 5)
    # four questions of a conversation of six messages, one of a conversation of two; four segments each
    assert rows[0].figures["messages per segment"].value == pytest.approx((4 * 6 + 2) / (4 * 4 + 4))


def test_names_of_cells() -> None:
    for cell in (Cell(0.4, 0.9), Cell(-1.0, 1e-7)):
        assert candidates.cell_of(candidates.cell_name(HYBRID, cell)) == (HYBRID, cell)
    assert candidates.cell_of("hybrid, extractive") is None


def shown(result: Report) -> str:
    text = StringIO()
    console = Console(file=text, width=80)
    show(result, run.BENCHMARKS[result.facts.benchmark].categories, console)
    report.show_rest(result, console)
    assert not re.search(r"…(?![+-])", text.getvalue()), "cut off; in an interval a sign follows"
    return text.getvalue()


def test_tables(finished: Report) -> None:
    text = shown(finished)
    for part in (
        "Recall-01 (a)",
        "where gold is lost",
        "6–10",
        "τ1",
        "this stands in for",
        "5 adversarial",
    ):
        assert part in text
    assert "tokens: contents" in text
    assert "τ1=" not in text, "the columns of the grid are in the grid's table alone"


def test_a_run_without_a_grid(folder: Path, tmp_path: Path) -> None:
    @contextmanager
    def plain(conversation: Conversation) -> Iterator[Prepared]:
        with prepared(conversation) as one:
            yield msgspec.structs.replace(one, cuts=histories.no_cuts)

    wanted = run.Wanted(defermem=True)
    found = run.measure("locomo", folder, prepare=plain, out=tmp_path / "r", wanted=wanted)
    assert found.sifting is not None
    assert found.sifting.grid == []
    assert "τ1" not in shown(found)


def test_gold_of_longmemeval_are_turns(tmp_path: Path) -> None:
    """All is a candidate, and nothing is told of: right for the question without an answer alone."""
    (tmp_path / "longmemeval.json").write_text(json.dumps(ORACLE), encoding="utf-8")

    @contextmanager
    def whole(conversation: Conversation) -> Iterator[Prepared]:
        of = of_conversation(conversation, len(conversation.sessions))
        yield Prepared({}, sifts={HYBRID: lambda _: Sifted(of), "told": lambda _: Sifted(of, distilled())})

    wanted = run.Wanted(defermem=True)
    found = run.measure("longmemeval", tmp_path, prepare=whole, out=tmp_path / "r", wanted=wanted)
    (row,) = found.overall
    assert (row.questions, row.figures["Recall-01"].value, found.resampled) == (4, 1.0, "questions")
    assert found.sifting is not None
    told = next(row for row in found.sifting.distilled if row.group == "overall")
    assert told.figures["empty where nothing answers"].value == 1
    assert told.figures["distillation error"].value == 1
    assert "useful precision" not in told.figures, "nothing is told of"
    assert "–" in shown(found)


@pytest.mark.parametrize("grid", [True, False])
def test_pictures(finished: Report, tmp_path: Path, grid: bool) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "candidates.svg"
    assert finished.sifting is not None
    sifting = finished.sifting if grid else msgspec.structs.replace(finished.sifting, grid=[])
    result = msgspec.structs.replace(finished, sifting=sifting)
    plot.draw(result, run.BENCHMARKS["locomo"].categories, file, candidate_plot.figure)
    assert file.stat().st_size > 8_000


def test_lines_of_the_grid(finished: Report) -> None:
    """One for each τ1 and recall, from the least τ2 to the greatest; the solid one is Recall."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    assert finished.sifting is not None
    figure = candidate_plot.figure(finished, {}, pyplot)
    dense, hybrid = (axes for axes in figure.axes)
    assert (dense.get_title(loc="left"), hybrid.get_title(loc="left")) == ("entry: dense", "entry: hybrid")
    lines = [one for one in hybrid.get_lines() if one.get_marker() == "o"]
    assert [one.get_linestyle() for one in lines] == ["-", "--"] * 2
    rows = [row for row in finished.sifting.grid if (row.entry, row.tau1) == (HYBRID, 0.2)]
    for line, name in zip(lines[:2], ("Recall", "Recall-01"), strict=True):
        assert list(line.get_xdata()) == [row.figures["candidate tokens"].value for row in rows]
        assert list(line.get_ydata()) == [100 * row.figures[name].value for row in rows]
    pyplot.close(figure)


def test_the_results_file_has_what_the_tables_are_made_of(finished: Report, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "r.sqlite"))
    options = json.loads(connection.execute("SELECT options FROM run").get)
    assert (options["defermem"], options["grid"]) == ("yes", "yes")
    kept = connection.execute(
        'SELECT conversation, number, category, retriever, gold, ranks, "values", milliseconds FROM question'
    )
    order = ("conversation", "number", "category", "retriever", "gold", "ranks", "values", "milliseconds")
    assert set(order) == set(evaluate.Outcome.__struct_fields__)
    again = [
        msgspec.convert(
            {
                name: json.loads(one) if name in ("gold", "ranks", "values") else one
                for name, one in zip(order, row, strict=True)
            },
            evaluate.Outcome,
        )
        for row in kept
    ]
    connection.close()
    assert len(again) == 5 * (3 + 8)
    made = candidates.summed_up(again)
    assert finished.sifting is not None
    assert made.entries == finished.sifting.entries
    assert {(row.entry, row.tau1, row.tau2): row.figures for row in made.grid} == {
        (row.entry, row.tau1, row.tau2): row.figures for row in finished.sifting.grid
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"grid": True}, "add --defermem"),
        ({"defermem": True, "ablate": True}, "columns of rankings"),
        ({"defermem": True, "depths": "0"}, "columns of rankings"),
        ({"defermem": True, "judge": "m.gguf"}, "--judge is for answers"),
        ({"llm": "m.gguf"}, "--llm is for answers"),
    ],
)
def test_requests_without_sense(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], told: str
) -> None:
    assert run.bench("locomo", folder, out=tmp_path / "r", **change) == 2
    assert told in capsys.readouterr().err


def test_memory_files(
    folder: Path, samples: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """memdb itself, where the history is small enough to be a candidate as a whole; the grid leaves its file
    as it was, and answers come from each method.
    """
    reply = {"useful_msg": [{"msg_id": "m3"}], "distilled_info": [{"msg_id": "m3", "info": "It is Pepper."}]}
    backbone = ScriptedBackbone(
        lambda turns, schema: json.dumps(
            reply if "useful_msg" in str(schema) else {"reasoning_path": "MU1", "answer": "Pepper"}
        )
    )
    monkeypatch.setattr("benchmarks.quality.answering.registry.load_backbone", lambda spec: backbone)
    monkeypatch.setattr("benchmarks.quality.history_files.CELLS", (Cell(-1.0, 0.9), Cell(1.0, 0.9)))
    session = samples[0]["conversation"]["session_1"]
    session += [
        {"speaker": "Tom", "dia_id": f"D1:{place}", "text": text} for place, text in enumerate(MORE, 4)
    ]
    (folder / "locomo" / "locomo-sample.json").write_text(json.dumps(samples), encoding="utf-8")
    out, keep = tmp_path / "results.sqlite", tmp_path / "kept"

    def once(**more: Any) -> bytes:
        assert run.bench("locomo", folder, limit=1, defermem=True, keep=keep, out=out, **more) == 0
        with memdb.open(keep / "conv-a.memdb") as memory:
            return msgspec.json.encode(memory.about().settings)

    assert once() == once(grid=True, llm="m.gguf", answers=True)
    connection = apsw.Connection(str(out))
    kept = connection.execute('SELECT retriever, "values" FROM question WHERE run = 2')
    found = {name: json.loads(values) for name, values in kept}
    answers = connection.execute("SELECT answerer, text FROM answer ORDER BY answerer")
    assert [name for name, _ in answers] == [
        "both", "defermem", "extractive", "text", "text, both", "text, defermem",
    ]  # fmt: skip
    connection.close()
    grid = {f"{entry} τ1={tau1} τ2=0.9" for entry in (DENSE, HYBRID) for tau1 in (-1, 1)}
    assert found.keys() == {DENSE, HYBRID, "dense, extractive", "hybrid, extractive", "hybrid, model", *grid}
    assert all(found[name]["whole"] == 1 for name in (DENSE, HYBRID))
    assert found[HYBRID]["messages"] == found[HYBRID]["all_messages"] == 6 + len(MORE)
    cut, whole = (found[candidates.cell_name(DENSE, Cell(tau1, 0.9))] for tau1 in (1.0, -1.0))
    assert cut["all_segments"] > whole["all_segments"] == 3, "the whole sessions"
    told = found["hybrid, model"]
    assert (told["entries"], told["valid"], told["kept"], told["distillation_error"]) == (1, 1, 1, 1)

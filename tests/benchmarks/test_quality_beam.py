"""BEAM: reading its chats and probing questions, sizes, and a whole run with the ratio to BM25."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace
from rich.console import Console

from benchmarks.quality import beam, figures, run
from benchmarks.quality.beam import day, load, said, sources
from benchmarks.quality.data import DATA_VARIABLE, Conversation, find_files
from benchmarks.quality.errors import DataMalformed, DataMissing
from benchmarks.quality.report import Report


def message(number: int, role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "id": number, "content": content, **more}


CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                message(0, "user", "I adopted a parrot called Pepper. ->-> 1,1", time_anchor="March-15-2024"),
                message(1, "assistant", "Pepper is a fine name. ->->  1,1"),
            ],
            [message(2, "user", "My rent is 700 euros. ->-> 1,N/A", index="1,2")],
        ],
        "time_anchor": None,
    },
    {
        "batch_number": 2,
        "turns": [
            [
                message(3, "user", "My rent went up to 750 euros. ->-> 2,1)", time_anchor="April-05-2024"),
                message(4, "assistant", "Do you want a budget? 750 ->-> 12 is a lot."),
                message(5, "user", "I sold my piano."),
            ]
        ],
        "time_anchor": None,
    },
]
PROBES: dict[str, list[dict[str, Any]]] = {
    "knowledge_update": [
        {
            "question": "What is my rent?",
            "answer": "750 euros",
            "source_chat_ids": {"original_info": [2], "updated_info": [3, 3]},
        }
    ],
    "abstention": [{"question": "Where was I born?", "ideal_response": "Nothing is said of it."}],
    "event_ordering": [
        {"question": "In which order did I tell of Pepper and my piano?", "source_chat_ids": [[0], 5, 99]}
    ],
    "preference_following": [{"question": "Which flat would I like?", "source_chat_ids": []}],
}


def written(folder: Path, chat: object = CHAT, probes: object = PROBES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    (folder / "probing_questions.json").write_text(json.dumps(probes), encoding="utf-8")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data folder with two chats of one size and one of another."""
    data = tmp_path / "data"
    for name in ("beam-100k/2", "beam-100k/10", "beam-500k/1"):
        written(data / name)
    return data


@pytest.fixture
def conversations(place: Path) -> list[Conversation]:
    return load(find_files("beam", beam.PATTERN, place))


def test_day() -> None:
    assert day("March-05-2024") == "2024-03-05"
    for wrong in ("", "05-March-2024", "Mars-05-2024", "February-30-2024"):
        with pytest.raises(ValueError, match=r"anchor|day"):
            day(wrong)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text ->-> 1,2", "text"),
        ("text? ->->  13,20\n", "text?"),
        ("text ->-> 1,N/A", "text"),
        ("text ->-> 1,2)", "text"),
        ("text ->-> 1,2 more", "text ->-> 1,2 more"),
        ("a -> b", "a -> b"),
    ],
)
def test_the_place_in_the_plan_was_not_said(content: str, expected: str) -> None:
    assert said(content) == expected


def test_sources_are_lists_in_lists_or_in_a_dict() -> None:
    assert list(sources({"first": [3, 1], "second": [[1], 2]})) == ["3", "1", "1", "2"]
    assert list(sources([4, [5]])) == ["4", "5"]
    assert list(sources(None)) == list(sources([])) == []
    with pytest.raises(ValueError, match="not a message id"):
        list(sources(["x"]))


def test_a_chat(conversations: list[Conversation]) -> None:
    one = conversations[0]
    assert [session.name for session in one.sessions] == ["batch-1", "batch-2"]
    assert [(told.id, told.said_at) for told in one.messages] == [
        *((str(n), "2024-03-15") for n in range(3)), *((str(n), "2024-04-05") for n in range(3, 6)),
    ]  # fmt: skip
    assert [told.content for told in one.messages][1:5] == [
        "Pepper is a fine name.", "My rent is 700 euros.", "My rent went up to 750 euros.",
        "Do you want a budget? 750 ->-> 12 is a lot.",
    ]  # fmt: skip
    assert (one.messages[1].speaker, one.messages[1].role) == ("assistant", "assistant")


def test_questions_in_the_order_of_abilities(conversations: list[Conversation]) -> None:
    asked = conversations[0].questions
    assert [(beam.CATEGORIES[one.category], one.gold) for one in asked] == [
        ("abstention", ()), ("event ordering", ("0", "5")), ("knowledge update", ("2", "3")),
        ("preference following", ()),
    ]  # fmt: skip
    assert [one.answerable for one in asked] == [False, True, True, True]
    assert [one.answer for one in asked] == ["Nothing is said of it.", "", "750 euros", ""]
    assert {one.asked_at for one in asked} == {"2024-04-05"}
    assert [one.number for one in asked] == [0, 1, 2, 3]


def test_found_as_one_chat_as_a_size_and_as_all(place: Path) -> None:
    def found(at: Path) -> list[tuple[str, str]]:
        return [(one.name, one.size) for one in load(find_files("beam", beam.PATTERN, at))]

    small = [("100k-2", "100k"), ("100k-10", "100k")]
    assert found(place) == [*small, ("500k-1", "500k")]
    assert found(place / "beam-100k") == small
    assert found(place / "beam-100k" / "10") == small[1:]
    with pytest.raises(DataMissing, match=r"chat\.json"):
        found(place / "beam-100k" / "10" / "nothing")


@pytest.mark.parametrize(
    ("chat", "probes", "told"),
    [
        ([{"turns": []}], PROBES, "batch_number"),
        (CHAT, {"riddles": []}, "no ability riddles"),
        (CHAT, {"abstention": [{}]}, "question"),
        (
            [{**CHAT[0], "turns": [[message(0, "user", "x", time_anchor="soon")]]}],
            PROBES,
            "time anchor: 'soon'",
        ),
        (CHAT, {"event_ordering": [{"question": "?", "source_chat_ids": "all"}]}, "not a message id: 'all'"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, chat: object, probes: object, told: str) -> None:
    folder = written(tmp_path / "beam-100k" / "1", chat, probes)
    with pytest.raises(DataMalformed, match=f"{folder}: .*{told}"):
        load(find_files("beam", beam.PATTERN, folder))


def test_a_chat_without_questions_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "1")
    (folder / "probing_questions.json").unlink()
    with pytest.raises(DataMalformed, match="No such file") as caught:
        load(find_files("beam", beam.PATTERN, folder))
    assert caught.value.hint == "a chat is a folder with chat.json and probing_questions.json"


def test_a_run(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    out = tmp_path / "r.sqlite"
    assert run.bench("beam", place, out=out) == 0
    shown = capsys.readouterr().out
    for part in (
        "beam (100k): messages found, 4 questions, %", "R@10 as a multiple of a baseline's",
        "by category: all@10, %",
        "3 event ordering", "target: 1.3 × bm25-stemmed by R@10; hybrid: ", "resamples of conversations",
        "not measured: 500k (4 questions)", "left out without gold: 4, 2 of them without an answer",
    ):  # fmt: skip
        assert part in " ".join(shown.split())
    connection = apsw.Connection(str(out))
    assert connection.execute("SELECT count(DISTINCT conversation) FROM question").get == 2
    sizes = json.loads(connection.execute("SELECT options FROM run").get)
    connection.close()
    assert (sizes["sizes"], sizes["measured"]) == (None, "100k")


@pytest.fixture
def finished(place: Path, tmp_path: Path, prepare: run.Prepare) -> Report:
    wanted = run.Wanted(sizes="100k,500k")
    return run.measure("beam", place, prepare=prepare, out=tmp_path / "r", wanted=wanted)


def test_ratios_are_paired(finished: Report, tmp_path: Path) -> None:
    rows = {row.retriever: row.figures["R@10"].value for row in finished.overall}
    reached = finished.ratios["bm25"]["oracle"]["R@10"]
    assert reached.value == pytest.approx(rows["oracle"] / rows["bm25"])
    assert reached.low == reached.high == pytest.approx(reached.value), "the chats are alike"
    assert set(finished.ratios) == {"bm25", "bm25-stemmed"}
    assert set(finished.ratios["bm25"]) == {"bm25-stemmed", "oracle"}


def test_there_is_no_ratio_to_nothing() -> None:
    values = dict.fromkeys(
        "recall@5 recall@10 recall@100 any@10 all@10 ndcg@10 gold covered relevant sufficient order_ndcg@10 "
        "context_tokens stale_first".split(), 1.0,
    )  # fmt: skip
    kept = figures.Outcome(
        conversation="a", number=0, category=1, retriever="r", gold=("x",), ranks=(1,), values=values,
        milliseconds=1.0,
    )  # fmt: skip
    poor = replace(kept, retriever="bm25", values=values | {"recall@10": 0.0, "all@10": 0.5})
    found = figures.ratios([kept, poor], "bm25")["r"]
    assert "R@10" not in found
    assert (found["all@10"].value, found["nDCG@10"].value, found["nDCG@10"].low) == (2.0, 1.0, None)


def test_tables_fit_a_terminal(finished: Report) -> None:
    text = StringIO()
    beam.show(replace(finished, milliseconds=dict.fromkeys(finished.milliseconds, 434.12)), beam.CATEGORIES,
              Console(file=text, width=80))  # fmt: skip
    assert "beam (100k) (500k): messages found, 6 questions" in text.getvalue()
    assert "… " not in text.getvalue()
    assert "target" not in text.getvalue(), "nobody reached it: there is no hybrid"


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no data")
def test_real_data() -> None:
    try:
        files = find_files("beam", beam.PATTERN, None)
    except DataMissing as error:
        pytest.skip(str(error))
    for one in load(files):
        assert not [told for told in one.messages if beam._PLAN.search(told.content)]
        assert len({told.id for told in one.messages}) == len(one.messages)
        assert all(told.said_at for told in one.messages)
        assert {question.answerable for question in one.questions if question.category == 1} == {False}
        unscored = [question for question in one.questions if question.answerable and not question.scored]
        assert len(unscored) <= 1

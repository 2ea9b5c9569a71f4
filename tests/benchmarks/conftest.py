"""A small history in LoCoMo's shape, written for these tests, retrievers that need no memory file, and
what the rows of the speed table are measured with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality.data import Conversation
from benchmarks.quality.retrievers import BASELINES, Baseline, Prepared, Reply
from benchmarks.quality.run import Prepare
from benchmarks.speed.files import Files
from benchmarks.speed.measured import Setting
from memdb.models.fakes import HashEncoder


def turn(dia_id: str, speaker: str, text: str, caption: str | None = None) -> dict[str, str]:
    picture = {} if caption is None else {"blip_caption": caption, "img_url": "x", "query": "y"}
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **picture}


def asked(question: str, category: int, evidence: list[str], **more: object) -> dict[str, Any]:
    return {"question": question, "category": category, "evidence": evidence, **more}


SAMPLES: list[dict[str, Any]] = [
    {
        "sample_id": "conv-a",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Tom",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                turn("D1:1", "Ines", "I adopted a grey parrot last week."),
                turn("D1:2", "Tom", "Lovely! What do you call it?"),
                turn("D1:3", "Ines", "Pepper. Look at this!", "a parrot on a piano"),
            ],
            "session_2_date_time": "12:05 am on 1 June, 2023",
            "session_2": [
                turn("D2:1", "Tom", "I start as a baker in Porto on Monday."),
                turn("D2:2", "Ines", "Porto! My sister studies medicine there."),
            ],
            "session_10_date_time": "10:00 AM on 2 June, 2023",
            "session_10": [turn("D10:1", "Tom", "The ovens are huge.")],
            "session_11_date_time": "10:00 am on 3 June, 2023",
        },
        "qa": [
            asked("What is the name of Ines' parrot?", 4, ["D1:1", "D1:3"], answer="Pepper"),
            asked("When does Tom start as a baker?", 2, ["D:2:1"], answer=2023),
            asked("Where do Tom and the sister of Ines live?", 1, ["D2:1; D02:02", "D"], answer="Porto"),
            asked("Would Tom own a cat?", 3, [], answer="Likely no; he never says"),
            asked("Which horse did Tom adopt?", 5, ["D1:1", "D9:9"], adversarial_answer="a grey one"),
        ],
        "event_summary": {"ignored": []},
    },
    {
        "sample_id": "conv-b",
        "conversation": {
            "speaker_a": "Uma",
            "speaker_b": "Vic",
            "session_1_date_time": "9:30 am on 12 December, 2022",
            "session_1": [
                turn("D1:1", "Uma", "My marathon is in April."),
                turn("D1:2", "Vic", "I only run for the bus."),
            ],
        },
        "qa": [asked("When is the marathon of Uma?", 2, ["D1:1"], answer="April 2023")],
    },
]


@pytest.fixture
def samples() -> list[dict[str, Any]]:
    copied: list[dict[str, Any]] = json.loads(json.dumps(SAMPLES))
    return copied


@pytest.fixture
def folder(tmp_path: Path, samples: list[dict[str, Any]]) -> Path:
    """A data folder as a user would have it: `DATA/locomo/locomo-sample.json`."""
    place = tmp_path / "data" / "locomo"
    place.mkdir(parents=True)
    (place / "locomo-sample.json").write_text(json.dumps(samples), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def prepare() -> Prepare:
    """Baselines and a retriever called `oracle` that finds the gold and nothing else."""

    @contextmanager
    def prepared(conversation: Conversation) -> Iterator[Prepared]:
        pieces = Baseline(conversation, BASELINES["bm25"])
        known = {piece.ids[0]: piece for piece in pieces.pieces}
        yield Prepared(
            {
                **{name: Baseline(conversation, variant) for name, variant in BASELINES.items()},
                "oracle": lambda question: Reply([known[one] for one in question.gold]),
            },
            add_seconds=0.5,
            models={"fake": "0" * 64},
        )

    return prepared


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """Two small files to measure with, and a clock of which a tick is a millisecond."""
    encoder = HashEncoder(32)
    ticks = count()
    return Setting(
        files=Files(tmp_path / "kept", encoder), encoder=encoder, sizes=(30, 60), rounds=2, messages=60,
        clock=lambda: next(ticks) / 1_000,
    )  # fmt: skip

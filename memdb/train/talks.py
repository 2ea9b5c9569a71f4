"""Conversations with questions and the messages that answer them, from permissively licensed data.

* `own`: written for memdb, Apache-2.0 (`memdb/train/talks/*.json`).
* `friendsqa`: FriendsQA (Yang and Choi 2019), Apache-2.0: questions over scenes of a television series.
* `longmemeval`: evidence turns of LongMemEval (Wu et al. 2025), MIT, of questions that no benchmark run of
  ours asks.
* `cri`: a chat of one persona with an assistant over 289 days, MIT; it has no questions of its own.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from memdb.records import Message

OWN: Final = Path(__file__).parent / "talks"
SCENES_PER_TALK: Final = 12  # scenes of one memory: some 250 utterances, so that a question has rivals
HELD_OUT: Final = ("glacier", "museum")  # of our own: never trained on

Kind = Literal["single", "time", "multi", "open", "unanswerable"]


class Question(msgspec.Struct, frozen=True):
    """A question and the ids of the messages that answer it: none if nothing does, and `near` ones tempt."""

    text: str
    kind: Kind
    evidence: tuple[str, ...]
    answer: str = ""
    near: tuple[str, ...] = ()


class Sitting(msgspec.Struct, frozen=True):
    """One session of a talk. Ids are unique in the talk."""

    name: str
    messages: tuple[Message, ...]


class Talk(msgspec.Struct, frozen=True):
    """A history that becomes one memory, with its questions; it is asked at the time of the last message."""

    name: str
    sittings: tuple[Sitting, ...]
    questions: tuple[Question, ...]

    @property
    def messages(self) -> list[Message]:
        """All of them in order."""
        return [message for sitting in self.sittings for message in sitting.messages]

    @property
    def asked_at(self) -> str:
        """The clock its questions are asked by."""
        return str(self.messages[-1].said_at)


def own(folder: Path = OWN) -> list[Talk]:
    """The talks written for memdb."""
    return [read(file) for file in sorted(folder.glob("*.json"))]


def read(file: Path) -> Talk:
    """One of them."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    sittings = tuple(
        Sitting(
            one["name"],
            tuple(
                Message(
                    said["speaker"],
                    said["text"],
                    one["said_at"],
                    id=said["id"],
                    image_caption=said.get("image_caption"),
                )
                for said in one["messages"]
            ),
        )
        for one in raw["sessions"]
    )
    return Talk(raw["name"], sittings, msgspec.convert(raw["questions"], tuple[Question, ...]))


def friendsqa(folder: Path) -> list[Talk]:
    """Scenes in the order of the series, SCENES_PER_TALK in a talk, each its own session on its own day."""
    scenes = [
        scene
        for file in sorted(folder.glob("friendsqa_*.json"))
        for scene in json.loads(file.read_text())["data"]
    ]
    scenes.sort(key=lambda scene: str(scene["title"]))
    chunks = [scenes[start : start + SCENES_PER_TALK] for start in range(0, len(scenes), SCENES_PER_TALK)]
    return [_episode(f"friendsqa-{number}", chunk) for number, chunk in enumerate(chunks)]


def _episode(name: str, scenes: Sequence[dict[str, Any]]) -> Talk:
    sittings: list[Sitting] = []
    questions: list[Question] = []
    for number, scene in enumerate(scenes):
        (part,) = scene["paragraphs"]
        title, day = scene["title"], dt.date(2021, 1, 4) + dt.timedelta(days=9 * number)
        messages = tuple(
            Message(
                " and ".join(_first_name(who) for who in said["speakers"]),
                _joined(said["utterance"]),
                f"{day.isoformat()}T19:00",
                id=f"{title}:{said['uid']}",
            )
            for said in part["utterances:"]
            if said["utterance"].strip()
        )
        sittings.append(Sitting(title, messages))
        known = {message.id for message in messages}
        for asked in part["qas"]:
            ids = (f"{title}:{answer['utterance_id']}" for answer in asked["answers"])
            evidence = tuple(dict.fromkeys(one for one in ids if one in known))
            kind: Kind = "time" if asked["question"].lower().startswith("when") else "single"
            if evidence:
                answer = _joined(asked["answers"][0].get("answer_text", ""))
                questions.append(Question(_joined(asked["question"]), kind, evidence, answer))
    return Talk(name, tuple(sittings), tuple(questions))


def _first_name(speaker: str) -> str:
    return {"#NOTE#": "Scene", "#ALL#": "All"}.get(speaker, speaker.split()[0])


def _joined(text: str) -> str:
    """Text that was taken apart into tokens, put together: `do n't you ?` is `don't you?`."""
    text = re.sub(r"\b(gon|wan|got|gim|lem) (na|ta|me)\b", r"\1\2", text)
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m))\b", r"\1", text, flags=re.IGNORECASE)
    text = re.sub(r" ([.,!?;:%)\]]|\.\.\.)", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", text).strip()


def longmemeval(file: Path, questions_per_talk: int = 68) -> list[Talk]:
    """Evidence turns of several questions in one talk, each session under its own date."""
    asked = [one for one in json.loads(file.read_text()) if one["evidence_turn_ids"]]
    return [
        _haystack(f"longmemeval-{start // questions_per_talk}", asked[start : start + questions_per_talk])
        for start in range(0, len(asked), questions_per_talk)
    ]


def _haystack(name: str, asked: Sequence[dict[str, Any]]) -> Talk:
    sittings: list[tuple[str, Sitting]] = []
    questions: list[Question] = []
    for one in asked:
        ids = iter(one["evidence_turn_ids"])
        for number, session in enumerate(one["evidence_sessions"]):
            said_at = _clock(session["date"])
            messages = tuple(
                Message(turn["role"], turn["content"], said_at, id=f"{one['question_id']}:{next(ids)}")
                for turn in session["turns"]
            )
            sittings.append((said_at, Sitting(f"{one['question_id']}:{number}", messages)))
        evidence = tuple(f"{one['question_id']}:{turn}" for turn in one["evidence_turn_ids"])
        kind: Kind = "multi" if len(evidence) > 1 else "single"
        questions.append(Question(one["question"], kind, evidence, str(one.get("answer", ""))))
    sittings.sort(key=lambda dated: dated[0])
    return Talk(name, tuple(sitting for _, sitting in sittings), tuple(questions))


def _clock(text: str) -> str:
    day, _, clock = text.split()
    return f"{day.replace('/', '-')}T{clock}"


def cri(file: Path, sessions_per_talk: int = 60) -> list[Talk]:
    """The chat in pieces of some 500 messages; the persona is called by his name, the assistant Nora."""
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    sessions: dict[str, list[Message]] = {}
    for line in lines:
        who = "Marcus" if line["role"] == "user" else "Nora"
        message = Message(who, line["content"], line["timestamp"][:16], id=str(line["message_id"]))
        sessions.setdefault(line["session_id"], []).append(message)
    sittings = [Sitting(name, tuple(messages)) for name, messages in sessions.items()]
    return [
        Talk(f"cri-{start // sessions_per_talk}", tuple(sittings[start : start + sessions_per_talk]), ())
        for start in range(0, len(sittings), sessions_per_talk)
    ]


def training(data: Path) -> Iterator[Talk]:
    """All talks that may be trained on.

    `data` holds `friendsqa/`, `longmemeval-evidence-train.json` and `cri/`.
    """
    yield from (talk for talk in own() if talk.name not in HELD_OUT)
    yield from friendsqa(data / "friendsqa")
    yield from longmemeval(data / "longmemeval-evidence-train.json")
    yield from cri(data / "cri" / "conversations.jsonl")


def held_out() -> list[Talk]:
    """Our own talks that are kept for validation and calibration."""
    return [talk for talk in own() if talk.name in HELD_OUT]

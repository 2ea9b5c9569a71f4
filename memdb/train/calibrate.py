"""Fit the calibration of a reranker: the logistic regression of `activate/answerable.py`.

It is fitted on talks that the reranker was not trained on. Of each question with an answer three instances
are made: as it is (answerable), with its evidence taken away (not answerable), and, where it asks about one
of two speakers, about the other one instead (not answerable: hardly ever have both done the same). Questions
that were written to have no answer come on top, and questions of other talks, of which nobody spoke. Both
classes weigh the same, so the probability is that of a memory of which nothing is known beforehand.

    python -m memdb.train.calibrate --reranker FOLDER --out FILE
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import memdb
from memdb import settings
from memdb.activate.answerable import BIAS, signs
from memdb.activate.parse import parse_question
from memdb.activate.perspective import asked_of
from memdb.activate.recall import Wish, candidates
from memdb.activate.rerank import relevances
from memdb.activate.retrieve import Candidate
from memdb.language.clock import parse_instant
from memdb.memory import Memory
from memdb.models.ports import Encoder, Reranker
from memdb.models.registry import load_reranker
from memdb.train.metrics import auroc
from memdb.train.talks import Question, Talk, held_out

RIDGE: Final = 0.5  # strength of the pull of every weight to nothing
NEWTON_STEPS: Final = 50
FOREIGN_STEP: Final = 2


class Instance(NamedTuple):
    """The signs of one question, and whether it can be answered."""

    talk: str
    signs: Mapping[str, float]
    answerable: bool


def instances(
    talks: Iterable[Talk], reranker: Reranker, encoder: Encoder | None = None
) -> Iterator[Instance]:
    """Every question of the talks in its three forms, and those of other talks; a memory for each talk."""
    talks = list(talks)
    for talk in talks:
        with (
            tempfile.TemporaryDirectory() as folder,
            memdb.open(Path(folder) / "talk.memdb", encoder=encoder) as memory,
        ):
            for sitting in talk.sittings:
                memory.add(sitting.messages, session=sitting.name)
            memory.update_traces()
            for question in talk.questions:
                yield from _of_question(memory, talk, question, reranker)
            for text in foreign(talk, talks):
                yield from _instance(memory, talk, text, reranker, False, ())


def foreign(talk: Talk, talks: Sequence[Talk]) -> list[str]:
    """Questions of the other talks, FOREIGN_STEP apart, about this talk's speakers: of that nobody spoke."""
    ours = list(dict.fromkeys(message.speaker for message in talk.messages))
    asked = []
    for other in talks:
        theirs = list(dict.fromkeys(message.speaker for message in other.messages))
        if other.name != talk.name and len(theirs) == len(ours):
            names = dict(zip(theirs, ours, strict=True))
            pattern = re.compile(rf"\b({'|'.join(map(re.escape, theirs))})\b")
            texts = [question.text for question in other.questions[::FOREIGN_STEP]]
            asked += [pattern.sub(lambda found: names[found[1]], text) for text in texts]  # noqa: B023
    return asked


def _of_question(memory: Memory, talk: Talk, question: Question, reranker: Reranker) -> Iterator[Instance]:
    has_answer = bool(question.evidence)
    yield from _instance(memory, talk, question.text, reranker, has_answer, ())
    if has_answer:
        yield from _instance(memory, talk, question.text, reranker, False, question.evidence)
        other = about_the_other(question.text, talk)
        if other is not None and question.kind in ("single", "time"):
            yield from _instance(memory, talk, other, reranker, False, ())


def about_the_other(question: str, talk: Talk) -> str | None:
    """The question about the other one of two speakers; None unless it names exactly one of them."""
    speakers = list(dict.fromkeys(message.speaker for message in talk.messages))
    named = [name for name in speakers if re.search(rf"\b{re.escape(name)}\b", question)]
    if len(speakers) != 2 or len(named) != 1:
        return None
    (other,) = set(speakers) - set(named)
    return re.sub(rf"\b{re.escape(named[0])}\b", other, question)


def _instance(
    memory: Memory, talk: Talk, text: str, reranker: Reranker, answerable: bool, without: Sequence[str]
) -> Iterator[Instance]:
    query = parse_question(text, parse_instant(talk.asked_at))
    wish = Wish(settings.RERANK_DEPTH, None, before=settings.RERANK_BEFORE)
    found = [one for one in candidates(memory.reader, query, wish) if not _is_of(one, without)]
    if found:
        scores = relevances(reranker, text, found, ())
        speakers = tuple(dict.fromkeys(message.speaker for message in talk.messages))
        yield Instance(talk.name, signs(query, found, scores, asked_of(text, speakers)), answerable)


def _is_of(candidate: Candidate, ids: Sequence[str]) -> bool:
    return any(message.id in ids for message in candidate.evidence.source)


def fit(made: Sequence[Instance]) -> dict[str, float]:
    """The weights of the signs and the bias: Newton's method on the ridge-penalised likelihood."""
    names = sorted(made[0].signs)
    x = np.array([[*(one.signs[name] for name in names), 1.0] for one in made])
    y = np.array([one.answerable for one in made], float)
    share = y.mean()
    weight = np.where(y > 0, 0.5 / share, 0.5 / (1 - share))
    penalty = np.diag([RIDGE] * len(names) + [0.0])
    beta: NDArray[np.float64] = np.zeros(len(names) + 1)
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-(x @ beta)))
        gradient = x.T @ (weight * (y - p)) - penalty @ beta
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + penalty
        beta = beta + np.linalg.solve(curvature, gradient)
    return dict(zip([*names, BIAS], (round(float(value), 4) for value in beta), strict=True))


def across_talks(made: Sequence[Instance]) -> float:
    """AUROC of each talk by weights that were fitted on the others, averaged."""
    talks = list(dict.fromkeys(one.talk for one in made))
    found = []
    for talk in talks:
        weights = fit([one for one in made if one.talk != talk])
        told = [one for one in made if one.talk == talk]
        scores = [
            sum(value * weights[name] for name, value in one.signs.items()) + weights[BIAS] for one in told
        ]
        found.append(auroc(scores, [one.answerable for one in told]))
    return sum(found) / len(found)


def main() -> None:
    """Read the command line, fit, write FILE as `memdb.models.export --metrics` reads it."""
    parser = argparse.ArgumentParser(description="Fit the calibration of a reranker.")
    parser.add_argument("--reranker", required=True, help="folder or name of the reranker")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    made = list(instances(held_out(), load_reranker(args.reranker)))
    told = {
        "calibration": fit(made),
        "answerable": {
            "instances": len(made),
            "answerable": sum(one.answerable for one in made),
            "auroc_across_talks": round(across_talks(made), 4),
        },
    }
    args.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Answer metrics of LoCoMo, LongMemEval, FactConsolidation and BEAM, as pure functions."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from .bm25 import stemmer

_PUNCTUATION = str.maketrans("", "", string.punctuation)


# --- LoCoMo: token F1


def _words(text: str) -> list[str]:
    bare = text.replace(",", "").lower().translate(_PUNCTUATION)
    return re.sub(r"\b(a|an|the|and)\b", " ", bare).split()


def _overlap(prediction: str, gold: str) -> float:
    """F1 of the multisets of Porter stems."""
    stem = stemmer("porter")
    said, wanted = (Counter(map(stem, _words(text))) for text in (prediction, gold))
    common = (said & wanted).total()
    if not common:
        return 0.0
    precision, recall = common / said.total(), common / wanted.total()
    return 2 * precision * recall / (precision + recall)


def locomo_f1(prediction: str, gold: str | int, category: int) -> float:
    """LoCoMo's official score of one answer, by category 1 to 5.

    1: mean over the comma-separated parts of the gold of the best F1 with a part of the prediction.
    2, 3, 4: F1 (3: gold up to its first `;`). 5: 1 iff the prediction says that there is nothing to say.
    """
    wanted = str(gold)
    match category:
        case 1:
            parts = [part.strip() for part in prediction.split(",")]
            each = [max(_overlap(part, one.strip()) for part in parts) for one in wanted.split(",")]
            return sum(each) / len(each)
        case 2 | 4:
            return _overlap(prediction, wanted)
        case 3:
            return _overlap(prediction, wanted.split(";")[0].strip())
        case 5:
            said = prediction.lower()
            return float("no information available" in said or "not mentioned" in said)
        case _:
            raise ValueError(f"LoCoMo has categories 1 to 5, not {category}")


# --- LongMemEval: the judge's label


def longmemeval_label(reply: str) -> bool:
    """The official reading of the judge's reply."""
    return "yes" in reply.lower()


# --- FactConsolidation: substring exact match


def _plain(text: str) -> str:
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def substring_match(prediction: str, accepted: Sequence[str]) -> float:
    """SubEM: 1 if an accepted answer is part of the output, or of what follows `Answer:` in it.

    A substring, not a word: `York` matches `New Yorker`.
    """
    _, marker, tail = prediction.rpartition("Answer:")
    outputs = [_plain(prediction)] + ([_plain(tail)] if marker else [])
    return float(any(_plain(answer) in output for answer in accepted for output in outputs))


# --- BEAM: nuggets and the order of events

BeamMode = Literal["paper", "official"]
BEAM_ABILITIES = (
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "information_extraction",
    "instruction_following",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "summarization",
    "temporal_reasoning",
)


def nugget_score(judged: Sequence[float], ability: str, *, mode: BeamMode = "paper") -> float:
    """Mean of one question's nuggets, each judged 0, 0.5 or 1.

    `official` keeps the official code's truncation: 0.5 counts 0 except in event ordering.
    """
    if mode == "official" and ability != "event_ordering":
        judged = [math.floor(one) for one in judged]
    return sum(judged) / len(judged)


def beam_overall(abilities: Mapping[str, float]) -> float:
    """Mean of the ten abilities, event ordering given as its normalised τ; same scale in and out."""
    missing = sorted(set(BEAM_ABILITIES) - set(abilities))
    if missing:
        raise ValueError(f"no score for {', '.join(missing)}")
    return sum(abilities[name] for name in BEAM_ABILITIES) / len(BEAM_ABILITIES)


class EventOrder(NamedTuple):
    """τ_b in [-1, 1] (NaN where undefined), its normalised form in [0, 1], and F1 of the events named."""

    tau_b: float
    tau_norm: float
    f1: float


def event_lines(answer: str) -> list[str]:
    """The lines of an answer without list markers; empty ones dropped."""
    bare = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip() for line in answer.splitlines())
    return [line for line in bare if line]


def align_events(
    lines: Sequence[str], reference: Sequence[str], same: Callable[[str, str], bool]
) -> list[str]:
    """Each line replaced by the first unused reference event that `same` accepts, else kept."""
    free = list(reference)
    aligned = []
    for line in lines:
        match = next((event for event in free if same(line, event)), None)
        if match is not None:
            free.remove(match)
        aligned.append(line if match is None else match)
    return aligned


def event_order(reference: Sequence[str], answer: Sequence[str]) -> EventOrder:
    """BEAM's score of an order of events; `answer` is already aligned with the reference.

    Ranks are positions in each list; what a list lacks gets the rank after the union of both. Where τ_b is
    undefined (a single event, an empty answer) `tau_norm` is 1 for equal lists and 0 otherwise.
    """
    union = list(dict.fromkeys([*reference, *answer]))
    tau = _tau_b(*([_rank(event, one, len(union)) for event in union] for one in (reference, answer)))
    hits = len(set(reference) & set(answer))
    f1 = 2 * hits / (len(reference) + len(answer)) if hits else 0.0
    norm = float(list(reference) == list(answer)) if math.isnan(tau) else (tau + 1) / 2
    return EventOrder(tau, norm, f1)


def _rank(event: str, events: Sequence[str], union: int) -> int:
    return events.index(event) + 1 if event in events else union + 1


def _tau_b(left: Sequence[int], right: Sequence[int]) -> float:
    """Kendall's τ with the correction for ties; NaN if one side is all ties."""
    pairs = [(i, j) for j in range(len(left)) for i in range(j)]
    signs = [(_sign(left[i] - left[j]), _sign(right[i] - right[j])) for i, j in pairs]
    untied = math.prod(sum(sign[side] != 0 for sign in signs) for side in (0, 1))
    return sum(a * b for a, b in signs) / math.sqrt(untied) if untied else math.nan


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)

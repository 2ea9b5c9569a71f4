"""τ1 and τ2 for the encoder of a file, from its own conversations and without labels (DeferMem section 4.3).

Both mean something for one encoder only. Messages of the file stand for questions: the ones nearest to
each are expanded to their segments, for a grid of thresholds, and the tokens of what comes of it are counted.
τ1 is the least, so that segments are as long as the wanted number of tokens allows; τ2 is the least that
holds to it and links no more than a tenth of all segments into one group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.construct.segments import ATTENTIVE, Rule, attention_of, boundaries
from memdb.errors import InputError
from memdb.models.ports import AttentionScorer
from memdb.records import Calibrated
from memdb.store import rows, segments
from memdb.store.connection import Database

TAU1: Final = tuple(round(0.02 * number, 2) for number in range(5, 48))
TAU2: Final = tuple(round(0.02 * number, 2) for number in range(30, 50))
LARGEST_GROUP: Final = 0.1  # share of the segments that may be linked into one group [B4.3]
LEAST_MESSAGES: Final = 100

Count = Callable[[str], int]


class _Sample(NamedTuple):
    """Messages of sessions: unit vectors [n, d], tokens [n], where sessions begin, attention [n]."""

    vectors: NDArray[np.float32]
    tokens: NDArray[np.int64]
    starts: list[int]
    attention: list[float]


def calibrate(
    database: Database, scorer: AttentionScorer | None, rule: Rule, count: Count, k: int, target_tokens: int
) -> Calibrated:
    """The thresholds under which `k` messages and all that comes with them have about `target_tokens` tokens.

    Raises InputError for a file with too few messages that have a vector.
    """
    sample = _sample(database, scorer if rule in ATTENTIVE else None, count)
    if len(sample.tokens) < LEAST_MESSAGES:
        raise InputError(
            f"{len(sample.tokens)} messages with vectors are too few to calibrate with",
            hint=f"add at least {LEAST_MESSAGES}, or reembed where vectors are missing",
        )
    near = _nearest(sample, k)
    tau1 = _first([(one, _tokens(sample, near, _begins(sample, one, rule))) for one in TAU1], target_tokens)
    begins = _begins(sample, tau1, rule)
    cosines = _between(sample, begins)
    found = [(one, _tokens(sample, near, begins, cosines >= one), _largest(cosines >= one)) for one in TAU2]
    most = max(LARGEST_GROUP, 1 / len(cosines))  # a segment alone is a group of its own
    tau2 = _first([(one, told if large <= most else np.inf) for one, told, large in found], target_tokens)
    tokens, largest = next((told, large) for one, told, large in found if one == tau2)
    return Calibrated(
        threshold=tau1, link_threshold=tau2, messages=len(sample.tokens), segments=int(begins.sum()),
        tokens=round(float(tokens)), largest_group=round(largest, 3),
    )  # fmt: skip


def _first(tried: Sequence[tuple[float, float]], target_tokens: int) -> float:
    """The first threshold that keeps to the wanted number of tokens, else the last."""
    return next((one for one, told in tried if told <= target_tokens), tried[-1][0])


def _sample(database: Database, scorer: AttentionScorer | None, count: Count) -> _Sample:
    """Sessions from the first on, until there are CALIBRATION_MESSAGES."""
    codes, tokens, starts, attention = list[bytes](), list[int](), list[int](), list[float]()
    with database.reader() as connection:
        for session_id in rows.session_ids(connection):
            room = settings.CALIBRATION_MESSAGES - len(codes)
            told = rows.session_tail(connection, session_id, 0)[:room]
            found = segments.codes_from(connection, session_id, 0)[:room]
            if not told or any(code is None for code in found):
                continue
            starts.append(len(codes))
            codes += [code for code in found if code is not None]
            tokens += [count(one.message.text) for one in told]
            if scorer is not None:
                heed = attention_of([one.message for one in told], 0, scorer.attention)
                attention += [-np.inf, *heed.values()]
    vectors = np.stack([np.frombuffer(code, np.int8) for code in codes]).astype(np.float32) if codes else None
    unit = np.zeros((0, 1), np.float32)
    if vectors is not None:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return _Sample(unit, np.array(tokens, np.int64), starts, attention)


def _nearest(sample: _Sample, k: int) -> list[NDArray[np.int64]]:
    """For CALIBRATION_QUESTIONS messages, evenly spread, the k nearest others."""
    count = len(sample.tokens)
    asked = np.unique(np.linspace(0, count - 1, settings.CALIBRATION_QUESTIONS).astype(int))
    cosines = sample.vectors[asked] @ sample.vectors.T
    cosines[np.arange(len(asked)), asked] = -np.inf
    return [np.argsort(-line, kind="stable")[:k] for line in cosines]


def _begins(sample: _Sample, tau1: float, rule: Rule) -> NDArray[np.bool_]:
    """[n]: whether a segment begins with a message."""
    begins = np.ones(len(sample.tokens), bool)
    ends = [*sample.starts[1:], len(sample.tokens)]
    for start, end in zip(sample.starts, ends, strict=True):
        cosines = (sample.vectors[start + 1 : end] * sample.vectors[start : end - 1]).sum(axis=1)
        heed = sample.attention[start + 1 : end]
        kind: Rule = "valley" if rule in ATTENTIVE and len(heed) < end - start - 1 else rule
        begins[start + 1 : end] = boundaries(cosines.tolist(), heed, tau1, kind, closed=False)
    return begins


def _between(sample: _Sample, begins: NDArray[np.bool_]) -> NDArray[np.float32]:
    """[m, m]: cosines of the segments' means."""
    sums = np.add.reduceat(sample.vectors, np.flatnonzero(begins), axis=0)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    cosines: NDArray[np.float32] = means @ means.T
    return cosines


def _tokens(
    sample: _Sample,
    near: Sequence[NDArray[np.int64]],
    begins: NDArray[np.bool_],
    linked: NDArray[np.bool_] | None = None,
) -> float:
    """Mean tokens of what a question's nearest messages are expanded to."""
    segment = np.cumsum(begins) - 1
    sizes = np.add.reduceat(sample.tokens, np.flatnonzero(begins))
    told = []
    for some in near:
        chosen = np.zeros(len(sizes), bool)
        chosen[segment[some]] = True
        if linked is not None:
            chosen = chosen | linked[chosen].any(axis=0)
        told.append(int(sizes[chosen].sum()))
    return float(np.mean(told))


def _largest(linked: NDArray[np.bool_]) -> float:
    """The share of the segments that the largest link group holds."""
    group = np.arange(len(linked))
    while True:  # every segment takes the least group of those it is linked to, until nothing changes
        least = np.where(linked, group, len(group)).min(axis=1)
        least = np.minimum(least, group)
        least = least[least]
        if (least == group).all():
            return float(np.bincount(group).max() / len(group))
        group = least

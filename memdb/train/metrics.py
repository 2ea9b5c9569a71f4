"""Figures of a ranking, for validation while training."""

from __future__ import annotations

import math
from collections.abc import Sequence


def ndcg(relevant: Sequence[bool], count: int, k: int = 10) -> float:
    """nDCG@k with binary relevance, `count` relevant in all (Järvelin and Kekäläinen 2002)."""
    found = sum(1 / math.log2(place + 2) for place, one in enumerate(relevant[:k]) if one)
    return found / sum(1 / math.log2(place + 2) for place in range(min(k, count)))


def auroc(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """The share of pairs of a positive and a negative in which the positive scores higher; a tie is half."""
    above = [score for score, one in zip(scores, positive, strict=True) if one]
    below = [score for score, one in zip(scores, positive, strict=True) if not one]
    won = sum((a > b) + (a == b) / 2 for a in above for b in below)
    return won / (len(above) * len(below))


def wilson(successes: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    share, square = successes / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = z * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return middle - reach, middle + reach

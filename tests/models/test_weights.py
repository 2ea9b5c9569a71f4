"""Golden values of the shipped encoder, wide enough for any processor, too narrow for another model."""

from __future__ import annotations

import numpy as np
import pytest

from memdb.models.registry import load_encoder

GOLDEN: dict[str, list[float]] = {
    "I went to the hospital yesterday.": [0.0297, 0.0215, -0.0147, -0.0004, 0.0058, -0.0421, 0.0108, 0.0636],
    "Melanie: We bought a cat.": [-0.008, 0.0628, 0.0524, 0.0208, -0.0683, 0.0193, 0.1357, 0.0344],
    "When was Ana at the hospital?": [-0.0047, 0.0761, -0.0293, 0.0581, 0.0042, 0.0683, 0.1036, 0.0571],
    "猫が好きです": [-0.0129, 0.037, 0.033, 0.0752, -0.084, 0.0739, 0.1393, 0.0042],
}
COSINES: list[tuple[str, str, float]] = [
    ("I went to the hospital yesterday.", "When was Ana at the hospital?", 0.5147),
    ("I went to the hospital yesterday.", "Melanie: We bought a cat.", 0.2216),
    ("Which pet did Melanie get?", "Melanie: We bought a cat.", 0.6704),
    ("She moved from Lyon to Berlin in 2023.", "Where does she live now?", 0.5008),
]
TOLERANCE = 1.5e-2


@pytest.mark.parametrize("text", GOLDEN)
def test_first_components(text: str) -> None:
    (vector,) = load_encoder(threads=1).encode([text])
    assert np.abs(vector[:8] - GOLDEN[text]).max() < TOLERANCE


def test_cosines() -> None:
    encoder = load_encoder(threads=1)
    left, right = (encoder.encode([pair[side] for pair in COSINES]) for side in (0, 1))
    expected = [pair[2] for pair in COSINES]
    assert np.abs((left * right).sum(axis=1) - expected).max() < 2 * TOLERANCE

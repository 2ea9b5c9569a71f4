"""Golden values of the shipped encoder, wide enough for any processor, too narrow for another model."""

from __future__ import annotations

import numpy as np
import pytest

from memdb.models.registry import load_encoder

GOLDEN: dict[str, list[float]] = {
    "I went to the hospital yesterday.": [0.0341, -0.0001, -0.0038, 0.0211, 0.0353, -0.059, -0.0047, 0.0807],
    "Melanie: We bought a cat.": [0.0055, 0.0631, 0.0568, 0.041, -0.0811, 0.0059, 0.1274, 0.0185],
    "When was Ana at the hospital?": [-0.0016, 0.0424, -0.0231, 0.065, -0.0144, 0.0603, 0.0783, 0.0439],
    "猫が好きです": [-0.0011, 0.0468, 0.0304, 0.0759, -0.0884, 0.0766, 0.1309, -0.0127],
}
COSINES: list[tuple[str, str, float]] = [
    ("I went to the hospital yesterday.", "When was Ana at the hospital?", 0.4281),
    ("I went to the hospital yesterday.", "Melanie: We bought a cat.", 0.1901),
    ("Which pet did Melanie get?", "Melanie: We bought a cat.", 0.6522),
    ("She moved from Lyon to Berlin in 2023.", "Where does she live now?", 0.5225),
]
TOLERANCE = 1e-2


@pytest.mark.parametrize("text", GOLDEN)
def test_first_components(text: str) -> None:
    (vector,) = load_encoder(threads=1).encode([text])
    assert np.abs(vector[:8] - GOLDEN[text]).max() < TOLERANCE


def test_cosines() -> None:
    encoder = load_encoder(threads=1)
    left, right = (encoder.encode([pair[side] for pair in COSINES]) for side in (0, 1))
    expected = [pair[2] for pair in COSINES]
    assert np.abs((left * right).sum(axis=1) - expected).max() < 2 * TOLERANCE

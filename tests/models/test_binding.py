"""Runs whose inputs and outputs are bound, against runs that are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memdb.errors import ModelError
from memdb.models import registry
from memdb.models.onnx import CUDA, PROVIDERS, Session
from memdb.models.registry import WEIGHTS, load_encoder

MODEL = WEIGHTS / registry.DEFAULT_ENCODER / "model.onnx"
TEXTS = ["", "No.", "A cat sat on the mat.", "Where did she go after the long walk by the river?", "x" * 3000]


def test_bound_runs_give_the_same_vectors() -> None:
    plain, bound = load_encoder(threads=1, bound=False), load_encoder(threads=1, bound=True)
    for texts in (TEXTS, TEXTS[:1], TEXTS[::-1]):
        np.testing.assert_array_equal(bound.encode(texts), plain.encode(texts))


def feed(length: int) -> dict[str, np.ndarray]:
    """Two rows of `length` tokens, not contiguous in memory."""
    ids = np.arange(100, 100 + 2 * length, dtype=np.int64).reshape(length, 2).T
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def test_bound_runs_of_other_shapes_overlap() -> None:
    session = Session(MODEL, name="embedded", threads=1, bound=True)
    lengths = [3, 17, 5, 40, 4, 9] * 3
    alone = {
        n: Session(MODEL, name="embedded", threads=1).run(session.outputs[0], feed(n)) for n in set(lengths)
    }
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda n: session.run(session.outputs[0], feed(n)), lengths)
        for length, values in zip(lengths, made, strict=True):
            np.testing.assert_array_equal(values, alone[length])


def test_what_a_bound_run_gave_stays_as_it_was() -> None:
    session = Session(MODEL, name="embedded", threads=1, bound=True)
    first = session.run(session.outputs[0], feed(6))
    kept = first.copy()
    session.run(session.outputs[0], feed(6) | {"input_ids": np.full((2, 6), 7, np.int64)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    "broken", [{"input_ids": np.zeros((2, 6), np.float32)}, {"input_ids": np.full((2, 6), 10**9, np.int64)}]
)
def test_what_the_graph_does_not_take_is_told(bound: bool, broken: dict[str, np.ndarray]) -> None:
    session = Session(MODEL, name="embedded", threads=1, bound=bound)
    with pytest.raises(ModelError, match="the model embedded failed"):
        session.run(session.outputs[0], feed(6) | broken)


def test_runs_are_bound_where_a_graphics_card_runs_them() -> None:
    session = Session(MODEL, name="embedded", threads=1)
    assert session.bound == (session.provider == CUDA)


def test_a_graphics_card_gives_what_a_processor_gives() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if CUDA not in onnxruntime.get_available_providers():
        pytest.skip("the runtime installed here has no CUDA provider")
    on_card = Session(MODEL, name="embedded", providers=PROVIDERS)
    if on_card.provider != CUDA:
        pytest.skip("there is no graphics card that the runtime can use")
    processor = Session(MODEL, name="embedded", providers=PROVIDERS[1:])
    name = processor.outputs[0]
    np.testing.assert_allclose(on_card.run(name, feed(9)), processor.run(name, feed(9)), atol=0.05)

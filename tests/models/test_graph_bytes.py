"""Models whose weights stay in their file: the same tensors, the same values; damage is let through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.models import onnx as runtime
from memdb.models.graph_bytes import MAPPED_FROM, Outline, outline
from memdb.models.registry import DEFAULT_ENCODER, DEFAULT_RERANKER, WEIGHTS

FEED = {"input_ids": np.array([[101, 2054, 3006, 102]]), "attention_mask": np.ones((1, 4), np.int64)}


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("onnx", reason="onnx is not installed")


def _model(library: Any, tensors: list[Any]) -> Any:
    names = [tensor.name for tensor in tensors]
    nodes = [library.helper.make_node("Identity", [name], [f"{name}.out"], name=name) for name in names]
    graph = library.helper.make_graph(nodes, "some", [], [], tensors)
    return library.helper.make_model(graph, producer_name="someone", ir_version=9)


def test_large_tensors_of_bytes_are_left_in_the_file(library: Any, tmp_path: Path) -> None:
    make = library.numpy_helper.from_array
    tensors = [
        make(np.arange(MAPPED_FROM, dtype=np.uint8), "large"),
        make(np.arange(9, dtype=np.uint8), "small"),
        make(np.zeros(MAPPED_FROM, np.float32), "floats"),
        make(np.arange(2 * MAPPED_FROM).astype(np.int8).reshape(2, -1), "signed"),
    ]
    whole, file = _model(library, tensors), tmp_path / "ä.onnx"
    file.write_bytes(whole.SerializeToString())
    made = outline(file)
    assert (made.producer, made.left_out) == ("someone", 2)
    assert len(file.read_bytes()) - len(made.content) > 3 * MAPPED_FROM - 1_000
    parsed = library.ModelProto.FromString(made.content)
    external = [tensor.name for tensor in parsed.graph.initializer if tensor.data_location]
    assert external == ["large", "signed"]
    library.external_data_helper.load_external_data_for_model(parsed, str(tmp_path))
    for tensor in parsed.graph.initializer:
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    for tensor in whole.graph.initializer:
        tensor.ClearField("data_location")
    assert parsed == whole


@pytest.mark.parametrize("name", [DEFAULT_ENCODER, DEFAULT_RERANKER])
def test_our_models_are_left_in_their_files_and_say_the_same(name: str, monkeypatch: Any) -> None:
    file = WEIGHTS / name / "model.onnx"
    assert outline(file).left_out > 20
    assert len(outline(file).content) < file.stat().st_size / 10
    session = runtime.Session(file, name=name, threads=1)
    monkeypatch.setattr(runtime, "outline", lambda file: Outline(file.read_bytes()))
    plain = runtime.Session(file, name=name, threads=1)
    output = session.outputs[0]
    assert np.abs(session.run(output, FEED) - plain.run(output, FEED)).max() < 1e-5


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"no model", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
)
def test_what_is_no_model_comes_back_as_it_is(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert outline(tmp_path / "model.onnx") == Outline(content)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_model_is_left_to_the_runtime(data: Any, tmp_path_factory: Any, library: Any) -> None:
    tensor = library.numpy_helper.from_array(np.arange(MAPPED_FROM, dtype=np.uint8), "large")
    whole = _model(library, [tensor]).SerializeToString()
    at = data.draw(st.one_of(st.integers(0, 80), st.integers(0, len(whole) - 1)), "at")
    cut = data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))), "cut")
    bits = data.draw(st.integers(1, 255), "bits")
    changed = bytearray(whole)
    changed[at] ^= bits
    file = tmp_path_factory.mktemp("damaged") / "model.onnx"
    file.write_bytes(changed[:cut])
    made = outline(file)
    assert len(made.content) <= cut + 200
    if not made.left_out:
        assert made.content == bytes(changed[:cut])

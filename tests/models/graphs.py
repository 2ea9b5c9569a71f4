"""Graph encoders small enough to make in every test run, and graphs to give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.models.card import GraphCard, sha256_of
from memdb.models.export_graph import tensor_shapes, write_graph_card
from memdb.models.graph_shape import GraphShape

Graph = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]

SMALL = GraphShape(dimension=8, layers=3, heads=2, projector_hidden=6, width=5)
SHAPES = {
    "paper": SMALL,
    "layer": msgspec.structs.replace(SMALL, norm="layer", activation="gelu"),
    "row": msgspec.structs.replace(SMALL, row_rms=0.25),
    "one": msgspec.structs.replace(SMALL, layers=1, heads=4),
}
ABOUT: dict[str, Any] = {
    "name": "tiny-graph",
    "licence": "Apache-2.0",
    "source": "random numbers",
    "encoder": "hash-8",
    "encoder_sha256": "e" * 64,
    "backbone": "tiny",
    "backbone_sha256": "b" * 64,
    "metrics": {"loss": 0.5},
    "made": {"seed": 7, "data": {"graphs.json": "0" * 64}},
}


def random_graph(seed: int, nodes: int, edges: int, dimension: int = SMALL.dimension) -> Graph:
    """Among its edges may be self loops and parallel ones; nodes may have none."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((nodes, dimension), np.float32),
        rng.integers(0, nodes, (2, edges)),
        rng.standard_normal((edges, dimension), np.float32),
    )


def random_tensors(shape: GraphShape, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Nothing left at 0 or 1, BatchNorm's statistics included."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, size in tensor_shapes(shape).items():
        value = rng.uniform(0.1, 0.9, size).astype(np.float32)
        tensors[name] = value - np.float32(0.5) if len(size) > 1 else value
    return tensors


def write_checkpoint(folder: Path, shape: GraphShape = SMALL, **about: Any) -> Path:
    """A folder as training writes it, with random weights."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(random_tensors(shape), folder / "model.safetensors")
    files = {"model.safetensors": sha256_of(folder / "model.safetensors")}
    card = GraphCard(files=files, model="model.safetensors", shape=shape, **(ABOUT | about))
    write_graph_card(card, folder)
    return folder

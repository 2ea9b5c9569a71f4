"""A trained graph encoder without torch: the graph that `export_graph.py` writes, on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged
from memdb.models.described import DescribedGraphEncoder
from memdb.models.onnx import PROVIDERS, Session
from memdb.models.ports import require_graph

INPUTS = {"nodes", "edges", "relations"}
OUTPUT = "row"


class OnnxGraphEncoder(DescribedGraphEncoder):
    """`nodes`, `edges` and `relations` in, `row` out; a `ports.GraphEncoder`.

    `providers`, `threads` and what is raised: see `onnx.Session`; ModelDamaged for a graph that takes or
    gives anything else.
    """

    def __init__(
        self,
        model_file: Path,
        *,
        name: str,
        sha256: str,
        encoder_sha256: str,
        backbone_sha256: str,
        dimension: int,
        width: int,
        providers: Sequence[str] = PROVIDERS,
        threads: int | None = 1,
    ) -> None:
        super().__init__(
            name,
            sha256,
            encoder_sha256=encoder_sha256,
            backbone_sha256=backbone_sha256,
            dimension=dimension,
            width=width,
        )
        self._session = Session(model_file, name=name, providers=providers, threads=threads)
        if self._session.inputs != INPUTS or self._session.outputs != [OUTPUT]:
            raise ModelDamaged(f"{model_file} is no graph encoder: it takes {sorted(self._session.inputs)}")
        vector = np.zeros((1, dimension), np.float32)
        self.row(vector, np.zeros((2, 1), np.int64), vector)  # a graph of other sizes fails here, not later

    def row(
        self, nodes: NDArray[np.float32], edges: NDArray[np.int64], relations: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See `ports.GraphEncoder`."""
        require_graph(nodes, edges, relations, self._dimension)
        feed: dict[str, NDArray[Any]] = {"nodes": nodes, "edges": edges, "relations": relations}
        return self._whole(self._session.run(OUTPUT, feed))

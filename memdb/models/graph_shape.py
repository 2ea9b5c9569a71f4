"""The sizes of a graph encoder and its projector: what code, card and checkpoint agree on."""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class GraphShape(msgspec.Struct, frozen=True, kw_only=True):
    """A relation-aware encoder and its projector (QGMem equations 6 and 7, table V).

    `layers` layers of `dimension` components in `heads` heads, all but the last followed by `norm` and ReLU;
    then the mean over the nodes, and `dimension` → `projector_hidden` → `width` with `activation` between the
    two. With `row_rms` the projector is followed by a LayerNorm whose gain starts there: at the root mean
    square of the backbone's embedding rows, so that a graph's row is as large as a token's from the start.

    Raises ValueError for sizes below 1, heads that do not divide the dimension, a `row_rms` not above 0.
    """

    dimension: int
    layers: int
    heads: int
    projector_hidden: int
    width: int
    norm: Literal["batch", "layer"] = "batch"
    activation: Literal["sigmoid", "gelu"] = "sigmoid"
    row_rms: float | None = None

    def __post_init__(self) -> None:
        if min(self.dimension, self.layers, self.heads, self.projector_hidden, self.width) < 1:
            raise ValueError("every size of a graph encoder is at least 1")
        if self.dimension % self.heads:
            raise ValueError(f"{self.heads} heads do not divide {self.dimension} components")
        if self.row_rms is not None and not 0 < self.row_rms < float("inf"):
            raise ValueError(f"row_rms is a finite number above 0, not {self.row_rms}")


# QGMem table V, for Qwen3-8B and Llama-3.1-8B: 21,780,992 parameters.
FULL_SIZE: Final = GraphShape(dimension=768, layers=4, heads=4, projector_hidden=2048, width=4096)
# For the embedded encoder and SmolLM2-135M-Instruct, whose embedding rows have this root mean square:
# 1,972,160 parameters, 1,152 of them the LayerNorm's.
CPU_SIZE: Final = GraphShape(
    dimension=384, layers=2, heads=4, projector_hidden=512, width=576, row_rms=0.1356
)

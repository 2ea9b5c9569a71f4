"""The rows that need a language model or a graphics card: measured where there is one, else skipped."""

from __future__ import annotations

import tempfile
from pathlib import Path

from memdb.models.registry import load_backbone, load_graph_encoder

from . import graph_token
from .measured import OURS, Found, Held, Measured, Setting


def graph(setting: Setting) -> Found:
    """The graph token, against the prompt without it."""
    if setting.graph_model is None:
        return Found().without("graph", "the graph token", "no language model: name a GGUF file with --llm")
    backbone = load_backbone(setting.graph_model, threads=setting.threads)
    try:
        reader = graph_token.reading_rows(backbone)
        with tempfile.TemporaryDirectory() as folder:
            if setting.graph is None:
                width = reader.embedding_width
                made = graph_token.untrained(setting.encoder.dimension, width, Path(folder))
            else:
                made = load_graph_encoder(setting.graph)
            result = graph_token.measure(reader, setting.encoder, made, setting.rounds)
    finally:
        backbone.close()
    figures = {"prompt": result.prompt_seconds, OURS: result.prompt_seconds * result.ratio}
    return Found(
        [Measured(row="graph", contender=n, figure="seconds", value=v) for n, v in figures.items()],
        [
            Held(
                row="graph", what="times the prompt without it", value=result.ratio,
                target=result.target, at_least=False,
            )
        ],
    )  # fmt: skip

"""From a path to an open memory, with the models it is read and answered with."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from memdb import errors, settings
from memdb.construct.admit import scope_of
from memdb.construct.vectors import Vectors, vectors_of_another
from memdb.memory import Memory
from memdb.models.ports import AttentionScorer, Backbone, EmbeddingBackbone, Encoder, GraphEncoder, Reranker
from memdb.models.registry import late_reranker, load_compressor, load_encoder, load_graph_encoder
from memdb.records import Scope
from memdb.store import schema
from memdb.store.connection import Database

if TYPE_CHECKING:
    from memdb.generate.distill import Distiller


def open(
    path: str | bytes | os.PathLike[str],
    *,
    scope: Scope | str | None = None,
    read_only: bool = False,
    create: bool = True,
    encoder: Encoder | str | Path | None = None,
    backbone: Backbone | None = None,
    reranker: Reranker | str | Path | None = None,
    graph_encoder: GraphEncoder | str | Path | None = None,
    distiller: Distiller | Backbone | str | Path | None = None,
    attention: AttentionScorer | str | Path | None = None,
    busy_timeout_ms: int = settings.BUSY_TIMEOUT_MS,
) -> Memory:
    """Open a memory file, and make it if there is none.

    `scope` says whose memory is written and read: a `Scope`, a user's name, or `"*"` for reading everyone's;
    without one, only what belongs to nobody in particular is seen. `encoder` is an encoder, or the name or
    folder of one; by default the embedded one. A file made by another encoder keeps its vectors and is
    searched by words alone, until `reembed`. `backbone` is the language model that builds memory
    (`memdb.load_backbone`); it is the caller's to close. `reranker` is a reranker, or the name or folder of
    one (`load_reranker`); by default the embedded one. "late-interaction" compares with the encoder's token
    vectors, "linear" weighs the channels' scores. `graph_encoder`, or the name or folder of one, makes the
    graph token that the backbone reads in front of the text (`Memory.ask`). `distiller` tells what of the raw
    history helps (`Memory.ask` by "defermem"): a language model that was trained for it; the folder or GGUF
    file of one, which is closed with the memory; or a `memdb.generate.distill.Distiller`. By default rules
    do. `attention` tells how much a message heeds the one before it, for the rules of segments that ask
    (`Memory.rebuild_segments`): LLMLingua-2 in a folder, or a `memdb.models.ports.AttentionScorer`; by
    default the encoder does, if it can.

    Raises `CannotOpen`, `NotAMemory`, `NewerFormat`, `Damaged`, `ReadOnly`, `Locked`, `ModelNotFound`,
    `ModelDamaged`, `InputError` for a graph encoder that was not trained for the backbone and the encoder.
    """
    chosen = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    own = Scope() if scope is None else scope_of(scope)
    late = late_reranker(reranker, chosen)
    graphs = _graph_encoder(graph_encoder, backbone, chosen)
    heed = _scorer(attention)
    with ExitStack() as held:
        told = None if distiller is None else _distiller(distiller, held)
        database = Database(path, read_only=read_only, create=create, busy_timeout_ms=busy_timeout_ms)
        held.callback(database.close)
        made = schema.prepare(database, schema.made_by(chosen))
        usable = (chosen.sha256, chosen.dimension) == (made.encoder_sha256, made.encoder_dimension)
        if not usable:
            told_of = vectors_of_another(database.path, made, chosen)
            warnings.warn(told_of, errors.MemdbWarning, stacklevel=2)
        closing = held.pop_all()
    vectors = Vectors(chosen, usable=usable, scorer=heed)
    return Memory(database, vectors, own, backbone, late, graphs, told, closing.close)


def _distiller(given: Distiller | Backbone | str | Path, held: ExitStack) -> Distiller | None:
    """The distiller; one that is named here is closed with `held`."""
    from memdb.generate.distiller import OwnDistiller, as_distiller

    told = as_distiller(given)
    if isinstance(told, OwnDistiller) and told is not given:
        held.callback(told.close)
    return told


def _scorer(given: AttentionScorer | str | Path | None) -> AttentionScorer | None:
    if given is None or isinstance(given, AttentionScorer):
        return given
    found = load_compressor(given)
    if not isinstance(found, AttentionScorer):
        hint = "export it with memdb.models.export, which writes into its card where it attends"
        raise errors.InputError(f"{found.name} does not tell its attention", hint=hint)
    return found


def _graph_encoder(
    given: GraphEncoder | str | Path | None, backbone: Backbone | None, encoder: Encoder
) -> GraphEncoder | None:
    """The graph encoder, made for these two: a row of another embedding space is noise to a backbone."""
    if given is None:
        return None
    if not isinstance(backbone, EmbeddingBackbone):
        hint = "open the memory with a GGUF model as backbone, or without a graph encoder"
        raise errors.InputError(
            "a graph token is for a backbone that reads rows of its embedding space", hint=hint
        )
    made = given if isinstance(given, GraphEncoder) else load_graph_encoder(given)
    if (made.backbone_sha256, made.width) != (backbone.sha256, backbone.embedding_width):
        raise errors.InputError(
            f"the graph encoder {made.name} was trained for the backbone {made.backbone_sha256[:8]}, "
            f"not for {backbone.name} ({backbone.sha256[:8]})",
            hint="train one for this backbone, or leave it out",
        )
    if (made.encoder_sha256, made.dimension) != (encoder.sha256, encoder.dimension):
        raise errors.InputError(
            f"the graph encoder {made.name} reads vectors of the encoder {made.encoder_sha256[:8]}, "
            f"not of {encoder.name} ({encoder.sha256[:8]})",
            hint="open the memory with that encoder, or without a graph encoder",
        )
    return made

"""From a name or a folder to a loaded model. Nothing is fetched unless the caller writes `hub:`, and nothing
leaves this machine unless the caller writes `openai:`.

What a folder has to hold: see `memdb.models.card`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from memdb import settings
from memdb.errors import InputError, ModelNotFound
from memdb.models.attention import AttendingEncoder
from memdb.models.card import (
    CardKind,
    CompressorCard,
    EncoderCard,
    GraphCard,
    RerankerCard,
    kind_of,
    read_card_of,
)
from memdb.models.onnx import PROVIDERS, OnnxEncoder, OnnxReranker, begin_loading
from memdb.models.ports import Backbone, Compressor, Encoder, GraphEncoder, Reranker

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT_ENCODER = "memdb-encoder-v1"
DEFAULT_RERANKER = "memdb-reranker-v1"
HUB = "hub:"
OPENAI = "openai:"
GGUF = ".gguf"
SAFETENSORS = ".safetensors"
LATE_INTERACTION = "late-interaction"
LINEAR = "linear"
STOPWORD = "stopword"
HUB_FILES = [
    "*.json",
    "model.onnx",
    "model.onnx_data",
    "onnx/model.onnx",
    "onnx/model.onnx_data",
    "1_Pooling/config.json",
    "model.gguf",
]


def registered() -> list[str]:
    """Names of the encoders that come with memdb."""
    return _come_with("encoder")


def registered_rerankers() -> list[str]:
    """Names of the rerankers that come with memdb."""
    return _come_with("reranker")


def registered_graph_encoders() -> list[str]:
    """Names of the graph encoders that come with memdb."""
    return _come_with("graph")


def load_encoder(
    spec: str | Path | None = None, *, threads: int | None = None, bound: bool | None = None
) -> Encoder:
    """The encoder that `spec` names: None for the embedded one, a name, a folder, `hub:org/name`.

    `threads` are those of one run, None for one per core. `bound` runs bind their inputs and outputs to the
    device; None: where a graphics card runs it.

    It is a `ports.AttentionScorer` too where its card tells where it attends.
    Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its card names,
    InputError for a model of another kind.
    """
    folder = find(DEFAULT_ENCODER if spec is None else spec)
    begin_loading()
    card = read_card_of(folder, EncoderCard)
    given: dict[str, Any] = {
        "name": card.name,
        "sha256": card.sha256,
        "dimension": card.dimension,
        "max_tokens": card.max_tokens,
        "pooling": card.pooling,
        "query_prefix": card.query_prefix,
        "document_prefix": card.document_prefix,
        "providers": card.providers or PROVIDERS,
        "threads": threads,
        "bound": bound,
    }
    if card.attention is None:
        return OnnxEncoder(folder / card.model, folder / card.tokenizer, **given)
    return AttendingEncoder(folder / card.model, folder / card.tokenizer, shape=card.attention, **given)


def load_reranker(spec: str | Path | None = None, *, threads: int | None = None) -> Reranker:
    """The reranker that `spec` names: None for the embedded one, a name, a folder, `hub:org/name`, or the
    path of a Qwen3-Reranker's `.gguf` file.

    Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its card names,
    InputError for a model of another kind, and what the reranker raises when it cannot be made.
    """
    from memdb.models.qwen3 import Qwen3LlamaReranker, Qwen3OnnxReranker

    if spec is not None and str(spec).endswith(GGUF):
        return Qwen3LlamaReranker(spec, threads=threads)
    folder = find(DEFAULT_RERANKER if spec is None else spec, kind="reranker")
    card = read_card_of(folder, RerankerCard)
    given: dict[str, Any] = {
        "name": card.name,
        "sha256": card.sha256,
        "max_tokens": card.max_tokens,
        "fields": card.fields,
        "providers": card.providers or PROVIDERS,
        "threads": threads,
    }
    model, tokenizer = folder / card.model, folder / card.tokenizer
    if card.reads == "qwen3":
        return Qwen3OnnxReranker(model, tokenizer, **given)
    return OnnxReranker(model, tokenizer, calibration=card.calibration, **given)


def load_graph_encoder(spec: str | Path, *, threads: int | None = 1) -> GraphEncoder:
    """The graph encoder that `spec` names: a name, a folder, `hub:org/name`.

    Its graphs are so small that a second thread costs more than it gives. Whether it is of an encoder and a
    backbone at hand, its `encoder_sha256` and `backbone_sha256` say.
    Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its card names, or
    not of the card's sizes, InputError for a model of another kind and for one that was not exported.
    """
    from memdb.models.graph_encoder import OnnxGraphEncoder

    folder = find(spec, kind="graph")
    card = read_card_of(folder, GraphCard)
    if card.model.endswith(SAFETENSORS):
        hint = "export it: python -m memdb.models.export_graph"
        raise InputError(
            f"{folder} holds what training wrote, not a graph that runs without torch", hint=hint
        )
    return OnnxGraphEncoder(
        folder / card.model,
        name=card.name,
        sha256=card.sha256,
        encoder_sha256=card.encoder_sha256,
        backbone_sha256=card.backbone_sha256,
        dimension=card.shape.dimension,
        width=card.shape.width,
        providers=card.providers or PROVIDERS,
        threads=threads,
    )


def load_compressor(
    spec: str | Path = STOPWORD, *, rate: float = settings.COMPRESSION_RATE, threads: int | None = None
) -> Compressor:
    """The compressor that `spec` names: "stopword", or LLMLingua-2 in a folder or at `hub:org/name`, which
    keeps the share `rate` of the words; it is a `ports.AttentionScorer` too where its card tells where it
    attends.

    Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its card names,
    InputError for a model of another kind and for a rate that is none.
    """
    if spec == STOPWORD:
        from memdb.language.compress import StopWordCompressor

        return StopWordCompressor()
    from memdb.models.lingua import AttendingLingua, Lingua

    folder = find(spec, kind="compressor")
    card = read_card_of(folder, CompressorCard)
    given: dict[str, Any] = {
        "name": card.name,
        "sha256": card.sha256,
        "rate": rate,
        "max_tokens": card.max_tokens,
        "providers": card.providers or PROVIDERS,
        "threads": threads,
    }
    if card.attention is None:
        return Lingua(folder / card.model, folder / card.tokenizer, **given)
    return AttendingLingua(folder / card.model, folder / card.tokenizer, shape=card.attention, **given)


def load_backbone(
    spec: str | Path,
    *,
    base_url: str | None = None,
    threads: int | None = None,
    context_tokens: int | None = None,
) -> Backbone:
    """The backbone that `spec` names: the path of a `.gguf` file, or `openai:MODEL`, at `base_url` if given.

    `threads` are for models in this process. Without `context_tokens` the backbone's own default holds.
    Raises ModelNotFound for anything else, and what the backbone raises when it cannot be made.
    """
    name = str(spec)
    if name.startswith(OPENAI) and name != OPENAI:
        from memdb.models.openai import OpenAIBackbone

        if threads is not None:
            raise InputError(f"{name} does not run in this process and has no threads")
        room = settings.API_CONTEXT_TOKENS if context_tokens is None else context_tokens
        return OpenAIBackbone(name.removeprefix(OPENAI), base_url=base_url, context_tokens=room)
    if not name.endswith(GGUF):
        hint = f"give the path of a .gguf file, or {OPENAI}MODEL for an OpenAI-compatible endpoint"
        raise ModelNotFound(f"no backbone {name!r}", hint=hint)
    if base_url is not None:
        raise InputError(f"{name} runs in this process and has no base_url", hint=f"give {OPENAI}MODEL")
    from memdb.models.llama import LlamaBackbone

    return LlamaBackbone(name, context_tokens=context_tokens, threads=threads)


def as_backbone(given: object) -> Backbone:
    """A backbone as it is, or the one a text or a path names. Raises InputError for anything else."""
    if isinstance(given, str | Path):
        return load_backbone(given)
    if not isinstance(given, Backbone):
        hint = f"give what load_backbone returns, the path of a GGUF file, or {OPENAI}MODEL"
        raise InputError(f"a {type(given).__name__} is no backbone", hint=hint)
    return given


def as_reranker(given: object) -> Reranker:
    """A reranker as it is, or the one a text or a path names. Raises InputError for anything else."""
    if isinstance(given, str | Path):
        return load_reranker(given)
    if not isinstance(given, Reranker):
        hint = "give what load_reranker returns, the name of a reranker, or a folder"
        raise InputError(f"a {type(given).__name__} is no reranker", hint=hint)
    return given


def late_reranker(given: object, encoder: Encoder) -> Callable[[], Reranker | None]:
    """What gives a memory its reranker at the first question, and the same one from then on.

    `given` is None for the embedded one, which all memories of a process share, "late-interaction" for one
    over the encoder, "linear" for none, or what `as_reranker` takes, which is loaded at once.
    """
    if given is None:
        return _embedded_reranker
    if given == LATE_INTERACTION:
        from memdb.models.late_interaction import LateInteractionReranker

        late = LateInteractionReranker(encoder)
        return lambda: late
    chosen = None if given == LINEAR else as_reranker(given)
    return lambda: chosen


@cache
def _embedded_reranker() -> Reranker:
    return load_reranker()


def find(spec: str | Path, *, kind: CardKind = "encoder") -> Path:
    """The folder of a model, `kind` being what was asked for. Only `hub:` touches the network."""
    if isinstance(spec, str) and spec == Path(spec).name and (WEIGHTS / spec / "card.json").is_file():
        return WEIGHTS / spec
    if isinstance(spec, str) and spec.startswith(HUB):
        return _fetch(spec.removeprefix(HUB))
    if not Path(spec).is_dir():
        gguf = ["the path of a .gguf file"] if kind in ("reranker", "distiller") else []
        rules = [STOPWORD] if kind == "compressor" else []
        known = ["a folder", "hub:org/name", *gguf, *rules, *_come_with(kind)]
        called = "graph encoder" if kind == "graph" else kind
        raise ModelNotFound(f"no {called} {str(spec)!r}", hint=f"give {', '.join(known[:-1])} or {known[-1]}")
    return Path(spec)


def _come_with(kind: CardKind) -> list[str]:
    folders = (card.parent for card in WEIGHTS.glob("*/card.json"))
    return sorted(folder.name for folder in folders if kind_of(folder) == kind)


def _fetch(repository: str) -> Path:
    """Download a repository of the Hugging Face hub, or find it in its cache."""
    try:
        import huggingface_hub
    except ImportError as error:
        message = f"fetching {repository} needs the package huggingface-hub"
        raise ModelNotFound(message, hint="pip install 'memdb-engine[hub]'") from error
    try:
        return Path(huggingface_hub.snapshot_download(repository, allow_patterns=HUB_FILES))
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as error:
        message = f"{repository} could not be fetched: {error}"
        raise ModelNotFound(message, hint="check the name and the network", retryable=True) from error

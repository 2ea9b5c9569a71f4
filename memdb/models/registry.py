"""From a name or a folder to a loaded model. Nothing is fetched unless the caller writes `hub:`, and nothing
leaves this machine unless the caller writes `openai:`.

The folder of an encoder is either ours, with a `card.json` that names its files and their digests, or as on
Hugging Face: `model.onnx` or `onnx/model.onnx`, `tokenizer.json`, `config.json`, perhaps
`1_Pooling/config.json`, `sentence_bert_config.json` and `config_sentence_transformers.json`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models.onnx import PROVIDERS, OnnxEncoder
from memdb.models.ports import Backbone, Encoder

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT_ENCODER = "all-minilm-l6-v2"
HUB = "hub:"
OPENAI = "openai:"
HUB_FILES = ["*.json", "model.onnx", "onnx/model.onnx", "1_Pooling/config.json"]
MAX_TOKENS = 256  # of a folder that does not say

T = TypeVar("T")


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What `card.json` says of a model; `files` maps paths in the folder to SHA-256 digests."""

    name: str
    files: dict[str, str]
    dimension: int
    max_tokens: int = MAX_TOKENS
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    document_prefix: str = ""
    licence: str = ""
    source: str = ""
    model: str = "model.onnx"
    tokenizer: str = "tokenizer.json"
    providers: list[str] = msgspec.field(default_factory=list)  # that have its operators; empty: all
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    made: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if missing := {self.model, self.tokenizer} - set(self.files):
            raise ValueError(f"no digest of {', '.join(sorted(missing))}")
        if self.dimension < 1 or self.max_tokens < 1:
            raise ValueError("dimension and max_tokens are at least 1")


def registered() -> list[str]:
    """Names of the encoders that come with memdb."""
    return sorted(card.parent.name for card in WEIGHTS.glob("*/card.json"))


def load_encoder(spec: str | Path | None = None, *, threads: int | None = None) -> Encoder:
    """The encoder that `spec` names: None for the embedded one, a name, a folder, `hub:org/name`.

    Raises ModelNotFound when nothing is there, ModelDamaged when a file is not the one its card names.
    """
    folder = find(DEFAULT_ENCODER if spec is None else spec)
    card = read_card(folder)
    return OnnxEncoder(
        folder / card.model,
        folder / card.tokenizer,
        name=card.name,
        sha256=card.files[card.model],
        dimension=card.dimension,
        max_tokens=card.max_tokens,
        pooling=card.pooling,
        query_prefix=card.query_prefix,
        document_prefix=card.document_prefix,
        providers=card.providers or PROVIDERS,
        threads=threads,
    )


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
    if not name.endswith(".gguf"):
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


def find(spec: str | Path) -> Path:
    """The folder of a model. Only `hub:` touches the network."""
    if isinstance(spec, str) and spec in registered():
        return WEIGHTS / spec
    if isinstance(spec, str) and spec.startswith(HUB):
        return _fetch(spec.removeprefix(HUB))
    if not Path(spec).is_dir():
        known = ", ".join(registered())
        hint = f"give a folder, hub:org/name, or one of: {known}"
        raise ModelNotFound(f"no encoder {str(spec)!r}", hint=hint)
    return Path(spec)


def read_card(folder: Path) -> Card:
    """The folder's card, its files checked; for a folder without one, a card made from what else is there."""
    if not (folder / "card.json").is_file():
        return _describe(folder)
    card = _read(folder / "card.json", Card)
    for path, expected in card.files.items():
        file = folder / path
        if not file.is_file():
            raise ModelNotFound(f"the model {card.name} lacks its file {path}", hint="install it again")
        if sha256_of(file) != expected:
            raise ModelDamaged(f"{path} of the model {card.name} is not the file its card names")
    return card


def sha256_of(file: Path) -> str:
    """Hex digest of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _describe(folder: Path) -> Card:
    """The card of a Hugging Face style folder, digests computed."""
    model = next((path for path in ("model.onnx", "onnx/model.onnx") if (folder / path).is_file()), None)
    if model is None or not (folder / "tokenizer.json").is_file():
        raise ModelNotFound(
            f"{folder} holds no encoder",
            hint="it needs a card.json, or a model.onnx (or onnx/model.onnx) and a tokenizer.json",
        )
    config = _read(folder / "config.json", dict[str, Any])
    prompts = _settings(folder / "config_sentence_transformers.json").get("prompts") or {}
    pooling = _settings(folder / "1_Pooling" / "config.json")
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS
    described = {
        "name": folder.resolve().name,
        "files": {path: sha256_of(folder / path) for path in (model, "tokenizer.json")},
        "dimension": config.get("hidden_size"),
        "max_tokens": length,
        "pooling": _pooling(folder, pooling),
        "query_prefix": prompts.get("query", ""),
        "document_prefix": prompts.get("document", prompts.get("passage", "")),
        "model": model,
    }
    try:
        return msgspec.convert(described, Card)
    except msgspec.ValidationError as error:
        raise ModelDamaged(f"the settings in {folder} do not describe an encoder: {error}") from error


def _pooling(folder: Path, settings: dict[str, Any]) -> str:
    """mean unless the folder says cls; a way of pooling that is neither would give wrong vectors silently."""
    chosen = {key for key, value in settings.items() if key.startswith("pooling_mode_") and value is True}
    if chosen <= {"pooling_mode_mean_tokens"}:
        return "mean"
    if chosen == {"pooling_mode_cls_token"}:
        return "cls"
    hint = "memdb pools by mean or by cls token"
    raise ModelError(f"{folder} pools by {', '.join(sorted(chosen))}", hint=hint)


def _settings(file: Path) -> dict[str, Any]:
    return _read(file, dict[str, Any]) if file.is_file() else {}


def _read(file: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError as error:
        raise ModelNotFound(f"{file.parent} has no {file.name}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelDamaged(f"{file} cannot be read: {error}") from error


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

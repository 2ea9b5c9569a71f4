"""What a model's folder says of it: `card.json`, or the files as on Hugging Face.

On Hugging Face an encoder has `model.onnx` or `onnx/model.onnx`, `tokenizer.json`, `config.json`, perhaps
`1_Pooling/config.json`, `sentence_bert_config.json` and `config_sentence_transformers.json`; a reranker has
the first three and perhaps `tokenizer_config.json`; a compressor the first three. Which of them it is,
`architectures` in `config.json` says. A graph encoder and a distiller always have a card.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models.graph_shape import GraphShape
from memdb.models.ports import FIELDS, Field

MAX_TOKENS = 256  # of an encoder's folder that does not say
CLASSIFIER = "ForSequenceClassification"  # ends the architecture of a cross-encoder
TOKEN_CLASSIFIER = "ForTokenClassification"  # of a compressor
DECODER = "Qwen3ForCausalLM"  # of a Qwen3-Reranker; of a Qwen3-Embedding too, which says how it pools
GRAPHS = ("model.onnx", "onnx/model.onnx")
BESIDE = ("_data", ".data")  # what the file beside a graph that holds its weights is called

CardKind = Literal["encoder", "reranker", "graph", "compressor", "distiller"]
HEX_DIGEST = re.compile("[0-9a-f]{64}")

T = TypeVar("T")


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of every model; `files` maps paths in the folder to SHA-256 digests.

    `made` says how it was made: `seed`, `data` (what it was trained on), the command, versions.
    """

    name: str
    files: dict[str, str]
    licence: str = ""
    source: str = ""
    model: str = "model.onnx"
    providers: list[str] = msgspec.field(default_factory=list)  # that have its operators; empty: all
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    made: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if missing := self.needs - set(self.files):
            raise ValueError(f"no digest of {', '.join(sorted(missing))}")

    @property
    def needs(self) -> set[str]:
        """The files without which the model cannot run."""
        return {self.model}

    @property
    def sha256(self) -> str:
        """The digest of the graph, and of the file beside it where that holds the weights."""
        beside = [self.files[path] for path in (f"{self.model}{end}" for end in BESIDE) if path in self.files]
        if not beside:
            return self.files[self.model]
        return hashlib.sha256(" ".join([self.files[self.model], *beside]).encode()).hexdigest()


class TextCard(Card, frozen=True, kw_only=True):
    """Of a model that reads text."""

    max_tokens: int = MAX_TOKENS
    tokenizer: str = "tokenizer.json"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tokens < 1:
            raise ValueError("max_tokens is at least 1")

    @property
    def needs(self) -> set[str]:
        """See `Card`."""
        return {self.model, self.tokenizer}


class AttentionShape(msgspec.Struct, frozen=True, kw_only=True):
    """Where in its graph a model attends: the queries and keys of some layers, float32 [n, t, hidden_size],
    as `heads` heads side by side.

    `layers` names the two values of each layer, the deepest last; `text_tokens` of each text are read.
    """

    heads: int
    layers: list[tuple[str, str]]
    text_tokens: int = settings.ATTENTION_TEXT_TOKENS

    def __post_init__(self) -> None:
        if min(self.heads, self.text_tokens, len(self.layers)) < 1:
            raise ValueError("attention has at least one head, one layer and one token of a text")


class EncoderCard(TextCard, frozen=True, kw_only=True):
    """An encoder's."""

    dimension: int
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    document_prefix: str = ""
    attention: AttentionShape | None = None  # None: it is no ports.AttentionScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension < 1:
            raise ValueError("dimension is at least 1")


class RerankerCard(TextCard, frozen=True, kw_only=True):
    """A reranker's. `reads` is "pair" for a cross-encoder, "qwen3" for a model that answers yes or no."""

    fields: tuple[Field, ...]
    reads: Literal["pair", "qwen3"] = "pair"
    calibration: dict[str, float] = msgspec.field(default_factory=dict)  # see ports.Calibrated

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fields or len(set(self.fields)) < len(self.fields):
            raise ValueError("fields are one or more, each once")


class CompressorCard(TextCard, frozen=True, kw_only=True):
    """A compressor's: it tells for each token of a text whether to keep it (LLMLingua-2).

    Its graph gives logits [n, t, 2], of dropping and of keeping.
    """

    max_tokens: int = settings.CHUNK_TOKENS
    attention: AttentionShape | None = None  # None: it is no ports.AttentionScorer


class GraphCard(Card, frozen=True, kw_only=True):
    """A graph encoder's: it reads the vectors of one encoder and writes rows for one backbone.

    `model` is `model.safetensors` in the folder that training writes, `model.onnx` in the one that is served.
    """

    encoder: str
    encoder_sha256: str
    backbone: str
    backbone_sha256: str
    shape: GraphShape

    def __post_init__(self) -> None:
        super().__post_init__()
        for part, digest in (("encoder", self.encoder_sha256), ("backbone", self.backbone_sha256)):
            if not HEX_DIGEST.fullmatch(digest):
                raise ValueError(f"{part}_sha256 is 64 hex digits, not {digest!r}")


class DistillerCard(Card, frozen=True, kw_only=True):
    """A distiller's: a language model that was trained to distil (DeferMem section 3.3).

    `base` is what the language model was before, `base_sha256` the digest of its file; `prompt` names the one
    that it was trained on.
    """

    base: str
    base_sha256: str
    prompt: str
    model: str = "model.gguf"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not HEX_DIGEST.fullmatch(self.base_sha256):
            raise ValueError(f"base_sha256 is 64 hex digits, not {self.base_sha256!r}")


AnyCard = EncoderCard | RerankerCard | GraphCard | CompressorCard | DistillerCard
CARDS: Final[dict[CardKind, type[AnyCard]]] = {
    "encoder": EncoderCard,
    "reranker": RerankerCard,
    "graph": GraphCard,
    "compressor": CompressorCard,
    "distiller": DistillerCard,
}
CALLED: Final = {
    EncoderCard: "an encoder",
    RerankerCard: "a reranker",
    GraphCard: "a graph encoder",
    CompressorCard: "a compressor",
    DistillerCard: "a distiller",
}
LOADED_BY: Final = {
    EncoderCard: "load_encoder",
    RerankerCard: "load_reranker",
    GraphCard: "load_graph_encoder",
    CompressorCard: "load_compressor",
    DistillerCard: "load_distiller",
}


C = TypeVar("C", EncoderCard, RerankerCard, GraphCard, CompressorCard, DistillerCard)


class _Kind(msgspec.Struct):
    kind: CardKind = "encoder"


def kind_of(folder: Path) -> CardKind:
    """What the card in a folder is of."""
    return _read(folder / "card.json", _Kind).kind


def read_card_of(folder: Path, kind: type[C]) -> C:
    """The folder's card, of that kind. Raises InputError for another kind, and what `read_card` raises."""
    card = read_card(folder)
    if not isinstance(card, kind):
        message = f"{card.name} is {CALLED[type(card)]}, not {CALLED[kind]}"
        raise InputError(message, hint=f"give it to {LOADED_BY[type(card)]}")
    return card


def read_card(folder: Path) -> AnyCard:
    """The folder's card, its files checked; for a folder without one, a card made from what else is there.

    Raises ModelNotFound where a file is missing, ModelDamaged where one is not what the card says, or cannot
    be read, ModelError for a model that memdb cannot run.
    """
    if not (folder / "card.json").is_file():
        return _describe(folder)
    card: AnyCard = _read(folder / "card.json", CARDS[kind_of(folder)])
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


def _describe(folder: Path) -> EncoderCard | RerankerCard | CompressorCard:
    """The card of a Hugging Face style folder, digests computed."""
    model = next((path for path in GRAPHS if (folder / path).is_file()), None)
    if model is None or not (folder / "tokenizer.json").is_file():
        raise ModelNotFound(
            f"{folder} holds no model",
            hint="it needs a card.json, or a model.onnx (or onnx/model.onnx) and a tokenizer.json",
        )
    config = _read(folder / "config.json", dict[str, Any])
    files = [path for path in (model, *(f"{model}{end}" for end in BESIDE)) if (folder / path).is_file()]
    described: dict[str, Any] = {
        "name": folder.resolve().name,
        "files": {path: sha256_of(folder / path) for path in (*files, "tokenizer.json")},
        "model": model,
    }
    kind: type[EncoderCard | RerankerCard | CompressorCard] = EncoderCard
    if _architecture(config).endswith(TOKEN_CLASSIFIER):
        kind = CompressorCard
        described["max_tokens"] = _longest_chunk(folder, config)
    elif (reads := _reads(folder, config)) is None:
        described |= _encoder(folder, config)
    else:
        kind = RerankerCard
        described |= {"reads": reads, "fields": FIELDS, "max_tokens": _longest_pair(folder, config, reads)}
    try:
        return msgspec.convert(described, kind)
    except msgspec.ValidationError as error:
        raise ModelDamaged(f"the settings in {folder} do not describe a model: {error}") from error


def _reads(folder: Path, config: dict[str, Any]) -> Literal["pair", "qwen3"] | None:
    """How a reranker reads, None for an encoder."""
    architecture = _architecture(config)
    if architecture == DECODER and not (folder / "1_Pooling").is_dir():
        return "qwen3"
    if not architecture.endswith(CLASSIFIER):
        return None
    if architecture.startswith("Qwen3"):
        hint = "export the original, with the logits of its vocabulary"
        raise ModelError(f"{folder} holds a Qwen3 whose head was cut down to one unit", hint=hint)
    if (labels := _labels(config)) != 1:
        raise ModelError(f"{folder} tells {labels} classes apart: a reranker gives one score")
    return "pair"


def _architecture(config: dict[str, Any]) -> str:
    named = config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def _labels(config: dict[str, Any]) -> int:
    """Classes that a classifier tells apart; 2 where nothing is said."""
    return int(config.get("num_labels", len(config.get("id2label") or (0, 1))))


def _longest_chunk(folder: Path, config: dict[str, Any]) -> int:
    """Tokens that a compressor reads at once. Raises ModelError where it does not tell two classes apart."""
    if (labels := _labels(config)) != 2:
        raise ModelError(f"{folder} tells {labels} classes apart: a compressor drops a token or keeps it")
    places = config.get("max_position_embeddings")
    return min(settings.CHUNK_TOKENS, places) if isinstance(places, int) else settings.CHUNK_TOKENS


def _longest_pair(folder: Path, config: dict[str, Any], reads: str) -> int:
    """Tokens of a question and a document, as far as both the model and memdb go."""
    said = [
        _settings(folder / "tokenizer_config.json").get("model_max_length"),
        config.get("max_position_embeddings"),
    ]
    bound = settings.PAIR_TOKENS if reads == "pair" else settings.YES_NO_TOKENS
    return min([bound, *(int(most) for most in said if isinstance(most, int | float) and most >= 1)])


def _encoder(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    prompts = _settings(folder / "config_sentence_transformers.json").get("prompts") or {}
    length = _settings(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS
    return {
        "dimension": config.get("hidden_size"),
        "max_tokens": length,
        "pooling": _pooling(folder, _settings(folder / "1_Pooling" / "config.json")),
        "query_prefix": prompts.get("query", ""),
        "document_prefix": prompts.get("document", prompts.get("passage", "")),
    }


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

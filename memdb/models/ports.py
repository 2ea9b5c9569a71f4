"""What memdb asks of a neural model. Every implementation passes `tests/conformance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError, ModelError

Kind = Literal["document", "query"]
# The parts of a rerank document, in their order (QGMem section III-B2).
Field = Literal["fact", "source", "entities", "locations", "fact_time", "utterance_time", "state_trajectory"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)

OnText = Callable[[str], None]

ROLES = ("system", "user", "assistant")
MAX_ROOT_REFS = 16  # from one root `$ref` to the next


@runtime_checkable
class Encoder(Protocol):
    """Texts in, unit vectors out. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What the model is called; a file records it to know its own vectors."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the model file: two encoders with one digest give one vector space."""
        ...

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that count, special tokens included; the rest is cut off."""
        ...

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """float32 [len(texts), dimension]: one finite row of L2 norm 1 per text, in the order given.

        Every str is legal: empty, with NUL bytes, with lone surrogates, of any length. A row depends on its
        text and `kind` alone, not on its neighbours. No texts give shape [0, dimension].
        Raises ModelError when the model cannot run, InputError when `texts` is one str or holds non-strings.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """A question and documents in, a score each out. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the model file."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a question and a document together that count; the rest of the document is cut off."""
        ...

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts of a rerank document that the model is to read (QGMem section III-B2)."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, template and special tokens left out."""
        ...

    def document_tokens(self, question: str) -> int:
        """Tokens that the question, templates and prompts leave for a document."""
        ...

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """float32 [len(documents)]: finite log-odds that each document helps to answer, in the order given.

        Every str is legal: empty, with NUL bytes, with lone surrogates, of any length. A score depends on
        the question and its document alone, not on the other documents. No documents give shape [0].
        Raises ModelError when the model cannot run, InputError when `documents` is one str, or anything is
        not a str.
        """
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A reranker whose scores are log-odds that mean the same for every question."""

    @property
    def calibration(self) -> Mapping[str, float]:
        """Weights of the logistic regression by which `activate/answerable.py` tells whether any candidate
        answers; empty where the best score itself says so.
        """
        ...


@runtime_checkable
class AttentionScorer(Protocol):
    """Pairs of adjacent messages in, how much the second attends to the first out (DeferMem section 3.2,
    appendix B.1). Safe to share between threads.
    """

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the model file; a file records it: other scores give other segments."""
        ...

    def attention(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """float32 [len(pairs)]: how much the tokens of each pair's second text attend to those of its first,
        from 0 to 1, in the order given; 0 where a text is empty.

        Every str is legal: empty, with NUL bytes, with lone surrogates, of any length. A score depends on
        its two texts alone, to the last bit. No pairs give shape [0].
        Raises ModelError when the model cannot run, InputError for anything but pairs of str.
        """
        ...


@runtime_checkable
class Compressor(Protocol):
    """A text in, the words of it that matter out: what the index of raw messages is made of (DeferMem section
    3.2). Safe to share between threads.
    """

    @property
    def name(self) -> str:
        """Everything that decides what is kept: one name gives one text. A file records it."""
        ...

    def __call__(self, text: str) -> str:
        """Some of the text's words in their order, those with a digit or a capital letter at the front among
        them; the text as it is where nothing would be left.

        Every str is legal: see `Encoder.encode`. Raises ModelError when a model cannot run, InputError for
        what is no str.
        """
        ...


def require_texts(texts: Sequence[str]) -> None:
    """Raises InputError for one str, the commonest slip, and for anything in the list that is no str."""
    if isinstance(texts, str):
        raise InputError("encode() takes a list of texts, not one text", hint="write encode([text])")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {position} is a {type(text).__name__}, not a str")


def require_documents(question: str, documents: Sequence[str]) -> None:
    """Raises InputError for what no reranker can score: see `Reranker.score`."""
    if not isinstance(question, str):
        raise InputError(f"the question is a {type(question).__name__}, not a str")
    if isinstance(documents, str):
        raise InputError("score() takes a list of documents, not one text", hint="write score(q, [document])")
    for position, document in enumerate(documents):
        if not isinstance(document, str):
            raise InputError(f"document {position} is a {type(document).__name__}, not a str")


def require_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Raises InputError for what no scorer can read: see `AttentionScorer.attention`."""
    for position, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or [isinstance(text, str) for text in pair] != [True, True]:
            hint = "write attention([(first, second)])"
            raise InputError(f"pair {position} is not two str in a tuple", hint=hint)


def require_finite(scores: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The scores as they are. Raises ModelError where one is no number, or infinite."""
    if not np.isfinite(scores).all():
        raise ModelError(f"the model {name} gave a score that is no finite number")
    return scores


def valid_unicode(text: str) -> str:
    """The text with every lone surrogate replaced by U+FFFD: what UTF-8 can carry."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Turn(msgspec.Struct, frozen=True):
    """One turn of a prompt. `text` is data: nothing in it is ever read as a control token."""

    role: Literal["system", "user", "assistant"]
    text: str


class SoftToken(NamedTuple):
    """A row of a model's embedding space that stands in a prompt, where no text stands for it.

    `row` is float32 [embedding_width]; `at` are the characters of turn `turn` that come before it (QGMem
    section III-C3: directly before the serialised memory).
    """

    row: NDArray[np.float32]
    turn: int
    at: int


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a backbone wrote, and what it cost.

    `finish` is "length" when the text was cut off at the token limit. `cached_tokens` are those of
    `prompt_tokens` that did not have to be read again.
    """

    text: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int


@runtime_checkable
class Backbone(Protocol):
    """A language model: turns in, text out. Safe to share between threads; `close` may be called twice."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def identity(self) -> str:
        """Name and, where the weights are at hand, the first 8 hex digits of their sha256; a file records it
        to say who wrote a part of it.
        """
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens of a prompt and its completion together."""
        ...

    @property
    def parallel(self) -> int:
        """Calls that may usefully run at the same time."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, template tokens left out; an upper estimate where the tokenizer is not known."""
        ...

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
    ) -> Completion:
        """The model's answer to `turns`, at temperature 0: the same turns give the same text.

        `on_text` is told the text piece by piece as it is written, whole characters only; what it raises
        ends the writing and is raised here. It may not ask this backbone anything.

        With `schema` (JSON Schema) the text is a JSON document of that shape as far as the model was not cut
        off, where the backbone can constrain it; what it cannot constrain, the caller has to check anyway.
        Every str is legal as a turn's text.
        A text that was cut off ends with a whole character.
        Raises InputError for no turns, a last turn that is not the user's, max_tokens below 1, a schema the
        backbone cannot follow, or a prompt that does not leave room for max_tokens; ModelUnavailable when the
        model cannot be reached or refuses to serve; ModelError when it cannot run, or was closed.
        """
        ...

    def close(self) -> None:
        """Give back what the model holds."""
        ...


@runtime_checkable
class EmbeddingBackbone(Backbone, Protocol):
    """A backbone that also reads rows of its embedding space, not only tokens."""

    @property
    def sha256(self) -> str:
        """Hex digest of the model file: soft tokens are made for one model."""
        ...

    @property
    def embedding_width(self) -> int:
        """Components of a row of the embedding space."""
        ...

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
        soft: SoftToken | None = None,
    ) -> Completion:
        """See `Backbone.complete`. The text of the soft token's turn is tokenised in two halves, before it
        and after it.

        Raises InputError also for a soft token of another width, with a component that is no finite number,
        or at a place the turns do not have.
        """
        ...


@runtime_checkable
class GraphEncoder(Protocol):
    """A graph in, one row of a backbone's embedding space out: relation-aware layers, mean pooling and the
    projector (QGMem equations 6 and 7). Safe to share between threads.
    """

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the model file."""
        ...

    @property
    def encoder_sha256(self) -> str:
        """Of the encoder whose vectors nodes and relations have to be."""
        ...

    @property
    def backbone_sha256(self) -> str:
        """Of the backbone in whose embedding space the row is."""
        ...

    @property
    def dimension(self) -> int:
        """Components of the vector of a node or a relation."""
        ...

    @property
    def width(self) -> int:
        """Components of the row."""
        ...

    def row(
        self, nodes: NDArray[np.float32], edges: NDArray[np.int64], relations: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """float32 [width] of a graph: `nodes` [n, dimension], `edges` [2, e] source over target, `relations`
        [e, dimension] of the edges, in their order. The order of the edges does not matter.

        Raises InputError for other shapes or types, no nodes, an edge that leads nowhere, a component that is
        no finite number; ModelError when the model cannot run or gives what is no finite number.
        """
        ...


def require_graph(
    nodes: NDArray[np.float32], edges: NDArray[np.int64], relations: NDArray[np.float32], dimension: int
) -> None:
    """Raises InputError for what no graph encoder can read: see `GraphEncoder.row`."""
    for name, vectors in (("nodes", nodes), ("relations", relations)):
        if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float32:
            raise InputError(f"{name} are a float32 array, not a {_called(vectors)}")
        if vectors.ndim != 2 or vectors.shape[1] != dimension:
            hint = "the vectors have to be those of the encoder it was trained with"
            raise InputError(f"{name} are {list(vectors.shape)}, not [any, {dimension}]", hint=hint)
        if not np.isfinite(vectors).all():
            raise InputError(f"a vector of the {name} has a component that is no finite number")
    if not isinstance(edges, np.ndarray) or edges.dtype != np.int64:
        raise InputError(f"edges are an int64 array, not a {_called(edges)}")
    if edges.shape != (2, len(relations)):
        raise InputError(f"edges are {list(edges.shape)}, not [2, {len(relations)}], one for each relation")
    if not len(nodes):
        raise InputError("a graph has at least one node", hint="an empty graph gets no soft token")
    if edges.size and not 0 <= edges.min() <= edges.max() < len(nodes):
        raise InputError(f"an edge leads to a node that is not one of the {len(nodes)}")


def _called(given: object) -> str:
    return f"{given.dtype} array" if isinstance(given, np.ndarray) else type(given).__name__


def require_turns(turns: Sequence[Turn], max_tokens: int) -> None:
    """Raises InputError for what no backbone can answer: see `Backbone.complete`."""
    for position, turn in enumerate(turns):
        if not isinstance(turn, Turn):
            raise InputError(f"turn {position} is a {type(turn).__name__}, not a Turn")
        if turn.role not in ROLES or not isinstance(turn.text, str):
            raise InputError(f"turn {position} has no text, or a role other than {', '.join(ROLES)}")
    if not turns or turns[-1].role != "user":
        raise InputError("a backbone answers a user's turn: the last of the turns has to be one")
    if max_tokens < 1:
        raise InputError(f"a backbone cannot write {max_tokens} tokens", hint="max_tokens is at least 1")


def require_place(turns: Sequence[Turn], turn: int, at: int) -> None:
    """Raises InputError for a place of a soft token that the turns do not have."""
    if not isinstance(turn, int) or not isinstance(at, int) or not 0 <= turn < len(turns):
        raise InputError(f"a soft token stands in one of {len(turns)} turns, counted from 0, not in {turn!r}")
    if not 0 <= at <= len(turns[turn].text):
        length = len(turns[turn].text)
        raise InputError(f"a soft token stands after 0 to {length} characters of turn {turn}, not {at}")


def require_soft(turns: Sequence[Turn], soft: SoftToken, width: int) -> None:
    """Raises InputError for what is no soft token of these turns: see `EmbeddingBackbone.complete`."""
    if not isinstance(soft, SoftToken):
        raise InputError(f"a {type(soft).__name__} is no SoftToken")
    require_place(turns, soft.turn, soft.at)
    row = soft.row
    if not isinstance(row, np.ndarray) or row.dtype != np.float32 or row.shape != (width,):
        given = f"{row.dtype} {list(row.shape)}" if isinstance(row, np.ndarray) else type(row).__name__
        hint = "the graph encoder has to be one that was trained for this backbone"
        raise InputError(f"a soft token of this model is float32 [{width}], not {given}", hint=hint)
    if not np.isfinite(row).all():
        raise InputError("a component of the soft token is no finite number")


def require_room(prompt_tokens: int, max_tokens: int, context_tokens: int) -> None:
    """Raises InputError for a prompt that does not leave room for max_tokens."""
    if prompt_tokens + max_tokens > context_tokens:
        message = (
            f"a prompt of {prompt_tokens} tokens and {max_tokens} to write exceed the {context_tokens} tokens"
            " of the model's context"
        )
        raise InputError(message, hint="shorten the prompt, ask for less, or give more context_tokens")


def rooted(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema with a `$ref` at its root written out: neither grammars nor endpoints take one there.

    Raises InputError for a root `$ref` that leads nowhere, in a circle, or outside the schema.
    """
    document, root = dict(schema), schema
    for _ in range(MAX_ROOT_REFS):
        if "$ref" not in root:
            kept = {key: value for key, value in schema.items() if key in ("$defs", "definitions")}
            return {**root, **kept}
        root = follow(document, root["$ref"])
    raise InputError("the schema's root refers to itself")


def follow(document: Mapping[str, object], reference: object) -> Mapping[str, object]:
    """The part of a schema that `reference`, `#/…`, names. Raises InputError where nothing is."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise InputError(f"the schema refers to {reference!r}, which is not inside it")
    part: object = document
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, Mapping) or name not in part:
            raise InputError(f"the schema refers to {reference!r}, which it does not define")
        part = part[name]
    if not isinstance(part, Mapping):
        raise InputError(f"the schema refers to {reference!r}, which is no schema")
    return part

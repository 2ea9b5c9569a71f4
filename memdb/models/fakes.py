"""Deterministic stand-ins for models: no weights, no state, the same contract. For tests, docs and demos."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memdb.errors import InputError, ModelError
from memdb.models.described import DescribedGraphEncoder, DescribedReranker, Named
from memdb.models.ports import (
    FIELDS,
    Completion,
    Field,
    Kind,
    OnText,
    SoftToken,
    Turn,
    follow,
    require_documents,
    require_graph,
    require_pairs,
    require_room,
    require_soft,
    require_texts,
    require_turns,
    rooted,
)

Schema = Mapping[str, Any]
Answer = str | Completion | Exception
Script = Callable[[Sequence[Turn], Mapping[str, object] | None], Answer]

WORD = re.compile(r"\w+")
TOKEN = re.compile(r"\w+|[^\w\s]")
SLICE_TEXTS = 4096  # texts summed at once: bounds the memory of one call
MAX_SCHEMA_DEPTH = 32  # of a document that has to be nested
GRAM_WEIGHT = 0.5  # of all character trigrams of a word together, against the word itself


class HashEncoder:
    """Bags of hashed words and character trigrams, a `ports.Encoder`: texts that share words are near.

    The direction of a word is read from the bits of its BLAKE2 digest, +1 or -1 per component.
    """

    def __init__(self, dimension: int = 64) -> None:
        if not 1 <= dimension <= 512:
            raise InputError(f"a hashed vector has 1 to 512 components, not {dimension}")
        self._dimension = dimension

    @property
    def name(self) -> str:
        """See `ports.Encoder`."""
        return f"hash-{self._dimension}"

    @property
    def sha256(self) -> str:
        """See `ports.Encoder`."""
        return hashlib.sha256(f"memdb hash encoder 1, {self._dimension}".encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """See `ports.Encoder`."""
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """See `ports.Encoder`."""
        return 256

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """See `ports.Encoder`."""
        require_texts(texts)
        starts = range(0, len(texts), SLICE_TEXTS)
        slices = [self._sum(texts[start : start + SLICE_TEXTS]) for start in starts]
        vectors = np.concatenate([np.zeros((0, self._dimension), np.float32), *slices])
        vectors[~vectors.any(axis=1), 0] = 1  # no word, or words that cancel out
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _sum(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [len(texts), dimension], not normalised; a text without words is a zero row."""
        bags = [WORD.findall(text.casefold())[: self.max_tokens] for text in texts]
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(word, len(numbers)) for bag in bags for word in bag]
        total = np.zeros((len(texts), self._dimension), np.float32)
        if flat:
            counts = np.array([len(bag) for bag in bags])
            filled = counts > 0
            starts = (np.cumsum(counts) - counts)[filled]
            total[filled] = np.add.reduceat(self._words(list(numbers))[flat], starts, axis=0)
        return total

    def _words(self, words: list[str]) -> NDArray[np.float32]:
        """float32 [len(words), dimension]"""
        framed = [f"<{word[:40]}>" for word in words]
        grams = [[word[at : at + 3] for at in range(len(word) - 2)] for word in framed]
        counts = np.array([len(group) for group in grams])
        distinct: dict[str, int] = {}
        flat = [distinct.setdefault(gram, len(distinct)) for group in grams for gram in group]
        sums = np.add.reduceat(self._signs(list(distinct))[flat], np.cumsum(counts) - counts, axis=0)
        whole = self._signs([f" {word}" for word in words])
        shares = (GRAM_WEIGHT / np.sqrt(counts)).astype(np.float32)
        directions: NDArray[np.float32] = whole + sums * shares[:, None]
        return directions

    def _signs(self, texts: list[str]) -> NDArray[np.float32]:
        """+1 or -1, float32 [len(texts), dimension]"""
        size = -(-self._dimension // 8)
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        digests = b"".join([hashlib.blake2b(data, digest_size=size).digest() for data in raw])
        bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(len(texts), size), axis=1)
        return bits[:, : self._dimension].astype(np.float32) * 2 - 1


class OverlapAttention(Named):
    """The share of a second text's distinct words that its first has too, a `ports.AttentionScorer`."""

    def __init__(self) -> None:
        super().__init__("overlap-attention", hashlib.sha256(b"memdb overlap attention 1").hexdigest())

    def attention(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """See `ports.AttentionScorer`."""
        require_pairs(pairs)
        words = [[set(WORD.findall(text.casefold())) for text in pair] for pair in pairs]
        return np.array([len(one & two) / max(len(two), 1) for one, two in words], np.float32)


class OverlapReranker(DescribedReranker):
    """Log-odds of a question's words being said in a document, a `ports.Reranker`.

    Of n distinct words with m of them in the document: log((m + 1/2) / (n - m + 1/2)).
    """

    def __init__(self, fields: Sequence[Field] = FIELDS) -> None:
        digest = hashlib.sha256(b"memdb overlap reranker 1").hexdigest()
        super().__init__("overlap", digest, 256, fields)

    @property
    def calibration(self) -> Mapping[str, float]:
        """See `ports.Calibrated`."""
        return {}

    def count_tokens(self, text: str) -> int:
        """See `ports.Reranker`. A token is a word, or one character that is neither in a word nor a space."""
        return sum(1 for _ in TOKEN.finditer(text))

    def document_tokens(self, question: str) -> int:
        """See `ports.Reranker`."""
        return self.max_tokens - len(self._tokens(question, self.max_tokens // 2))

    def score(self, question: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """See `ports.Reranker`."""
        require_documents(question, documents)
        asked = self._tokens(question, self.max_tokens // 2)
        room = self.document_tokens(question)
        wanted = {token for token in asked if WORD.match(token)}
        said = [len(wanted.intersection(self._tokens(document, room))) for document in documents]
        found = np.array(said, np.float32)
        odds: NDArray[np.float32] = np.log((found + 0.5) / (len(wanted) - found + 0.5))
        return odds

    def _tokens(self, text: str, most: int) -> list[str]:
        return [match.group().casefold() for match in islice(TOKEN.finditer(text), most)]


class HashGraphEncoder(DescribedGraphEncoder):
    """A row of +1 and -1 read from the digest of a graph's nodes and edges, a `ports.GraphEncoder`.

    Two graphs have one row only when they are one, but for the order of nodes and edges.
    """

    def __init__(
        self,
        dimension: int = 64,
        width: int = 64,
        *,
        encoder_sha256: str | None = None,
        backbone_sha256: str = "0" * 64,
    ) -> None:
        if dimension < 1 or width < 1:
            raise InputError(f"a graph encoder of {dimension} and {width} components reads or writes nothing")
        digest = hashlib.sha256(f"memdb hash graph encoder 1, {dimension}, {width}".encode()).hexdigest()
        encoder = HashEncoder(dimension).sha256 if encoder_sha256 is None else encoder_sha256
        super().__init__(
            f"hash-graph-{dimension}-{width}",
            digest,
            encoder_sha256=encoder,
            backbone_sha256=backbone_sha256,
            dimension=dimension,
            width=width,
        )

    def row(
        self, nodes: NDArray[np.float32], edges: NDArray[np.int64], relations: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See `ports.GraphEncoder`."""
        require_graph(nodes, edges, relations, self._dimension)
        known = [hashlib.sha256(node.tobytes()).digest() for node in nodes]
        paths = [
            known[source] + known[target] + hashlib.sha256(relation.tobytes()).digest()
            for source, target, relation in zip(*edges, relations, strict=True)
        ]
        whole = b"".join([*sorted(known), *sorted(paths)])
        bits = np.unpackbits(np.frombuffer(hashlib.shake_256(whole).digest(-(-self._width // 8)), np.uint8))
        return self._whole(bits[: self._width].astype(np.float32) * 2 - 1)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a `ScriptedBackbone` was asked; `soft` is for a `ScriptedEmbeddingBackbone` alone."""

    turns: tuple[Turn, ...]
    max_tokens: int
    schema: Mapping[str, object] | None
    soft: SoftToken | None = None


class ScriptedBackbone:
    """A `ports.Backbone` that says what it was told to: a list of answers, used up in order, or a function.

    An answer that is an exception is raised. A str longer than max_tokens words is cut there. With no script
    a schema is answered by its smallest document, anything else by an empty text. A token is a word, or one
    character that is neither in a word nor a space; a text is told token by token. `calls` are all that
    reached it, in order.
    """

    def __init__(
        self,
        script: Sequence[Answer] | Script | None = None,
        *,
        name: str = "scripted",
        context_tokens: int = 8192,
        parallel: int = 1,
    ) -> None:
        self._function = script if callable(script) else None
        self._answers: Iterator[Answer] | None = None
        if script is not None and not callable(script):
            self._answers = iter(list(script))
        self._name, self._context_tokens, self._parallel = name, context_tokens, parallel
        self._lock = Lock()
        self._closed = False
        self.calls: list[Call] = []

    @property
    def name(self) -> str:
        """See `ports.Backbone`."""
        return self._name

    @property
    def identity(self) -> str:
        """See `ports.Backbone`."""
        return self._name

    @property
    def context_tokens(self) -> int:
        """See `ports.Backbone`."""
        return self._context_tokens

    @property
    def parallel(self) -> int:
        """See `ports.Backbone`."""
        return self._parallel

    def count_tokens(self, text: str) -> int:
        """See `ports.Backbone`."""
        return sum(1 for _ in TOKEN.finditer(text))

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
    ) -> Completion:
        """See `ports.Backbone`. Raises ModelError when the list of answers is used up."""
        require_turns(turns, max_tokens)
        return self._complete(Call(turns=tuple(turns), max_tokens=max_tokens, schema=schema), on_text)

    def _complete(self, call: Call, on_text: OnText | None) -> Completion:
        prompt_tokens = sum(self.count_tokens(turn.text) for turn in call.turns) + (call.soft is not None)
        require_room(prompt_tokens, call.max_tokens, self._context_tokens)
        answer = self._answer(call)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            ends = [match.end() for match in TOKEN.finditer(answer)]
            cut = len(ends) > call.max_tokens
            answer = Completion(
                text=answer[: ends[call.max_tokens - 1]] if cut else answer,
                finish="length" if cut else "stop",
                prompt_tokens=prompt_tokens,
                completion_tokens=min(len(ends), call.max_tokens),
            )
        if on_text is not None:
            for piece in _pieces(answer.text):
                on_text(piece)
        return answer

    def close(self) -> None:
        """See `ports.Backbone`."""
        self._closed = True

    def _answer(self, call: Call) -> Answer:
        with self._lock:
            if self._closed:
                raise ModelError(f"the backbone {self._name} was closed")
            self.calls.append(call)
            if self._answers is not None:
                used_up = ModelError(f"the script holds no answer to call {len(self.calls)}")
                return next(self._answers, used_up)
        if self._function is not None:
            return self._function(call.turns, call.schema)
        return "" if call.schema is None else smallest(call.schema)


class ScriptedEmbeddingBackbone(ScriptedBackbone):
    """A `ScriptedBackbone` that takes soft tokens of `embedding_width` components too, and counts each as one
    token; a `ports.EmbeddingBackbone`.
    """

    def __init__(
        self,
        script: Sequence[Answer] | Script | None = None,
        *,
        embedding_width: int = 16,
        name: str = "scripted",
        context_tokens: int = 8192,
        parallel: int = 1,
    ) -> None:
        super().__init__(script, name=name, context_tokens=context_tokens, parallel=parallel)
        self._width = embedding_width

    @property
    def sha256(self) -> str:
        """See `ports.EmbeddingBackbone`."""
        return hashlib.sha256(f"memdb scripted backbone 1, {self._name}, {self._width}".encode()).hexdigest()

    @property
    def embedding_width(self) -> int:
        """See `ports.EmbeddingBackbone`."""
        return self._width

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
        soft: SoftToken | None = None,
    ) -> Completion:
        """See `ports.EmbeddingBackbone`. Raises ModelError when the list of answers is used up."""
        require_turns(turns, max_tokens)
        if soft is not None:
            require_soft(turns, soft, self._width)
        call = Call(turns=tuple(turns), max_tokens=max_tokens, schema=schema, soft=soft)
        return self._complete(call, on_text)


def _pieces(text: str) -> Iterator[str]:
    """The text in parts that end with a token; the last with what follows it."""
    ends = [match.end() for match in TOKEN.finditer(text)][:-1]
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        if start < end:
            yield text[start:end]


def smallest(schema: Mapping[str, object]) -> str:
    """A JSON document as small as the schema allows: the first of its choices, no optional property.

    Patterns, formats, `not` and conditions are not looked at. Raises InputError for a schema without an end.
    """
    return msgspec.json.encode(_smallest(rooted(schema), rooted(schema), 0)).decode()


def _smallest(schema: Schema, document: Schema, depth: int) -> object:
    if depth > MAX_SCHEMA_DEPTH:
        raise InputError("the schema's smallest document has no end")
    if "$ref" in schema:
        return _smallest(follow(document, schema["$ref"]), document, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return _smallest(_shallowest(choices), document, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "null")
    return _of_type(kind[0] if isinstance(kind, list) else kind, schema, document, depth)


def _shallowest(choices: list[Schema]) -> Schema:
    """The first choice that holds no further schema, else the first: recursion ends there."""
    inner = ("$ref", "properties", "items", "anyOf", "oneOf")
    return next((choice for choice in choices if not any(key in choice for key in inner)), choices[0])


def _of_type(kind: object, schema: Schema, document: Schema, depth: int) -> object:
    match kind:
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", [])
            return {name: _smallest(properties.get(name, {}), document, depth + 1) for name in required}
        case "array":
            items = schema.get("items", {})
            return [_smallest(items, document, depth + 1) for _ in range(schema.get("minItems", 0))]
        case "string":
            return "a" * schema.get("minLength", 0)
        case "integer" | "number":
            return _least(schema)
        case "boolean":
            return False
        case _:
            return None


def _least(schema: Schema) -> object:
    """0 where the bounds allow it, else the bound nearest to it."""
    low = schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else schema.get("minimum", 0)
    high = schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else schema.get("maximum", 0)
    return low if low > 0 else min(high, 0)

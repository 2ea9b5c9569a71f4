"""What the fakes promise beyond their contracts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memdb.errors import InputError, ModelError, ModelUnavailable
from memdb.models import fakes
from memdb.models.fakes import (
    Answer,
    HashEncoder,
    OverlapReranker,
    ScriptedBackbone,
    ScriptedEmbeddingBackbone,
    smallest,
)
from memdb.models.ports import Completion, SoftToken, Turn

PINNED = [-0.3745, 0.2239, -0.5591, 0.2779, 0.451, -0.1474, -0.4264, 0.1136]


def test_texts_without_words_share_one_fixed_vector() -> None:
    expected = np.eye(1, 64, dtype=np.float32)[0]
    for text in ("", "  ", "?!", "\0"):
        assert np.array_equal(HashEncoder().encode([text])[0], expected)


def test_case_does_not_count_and_order_does_not_either() -> None:
    one, two = HashEncoder().encode(["The Cat sat", "sat the cat"])
    assert np.abs(one - two).max() < 1e-6


def test_shared_words_and_shared_letters_are_near() -> None:
    hospital, hospitals, cat = HashEncoder(512).encode(["hospital", "hospitals", "a grey cat"])
    assert hospital @ hospitals > 0.15
    assert abs(hospital @ cat) < 0.15


def test_vectors_are_pinned() -> None:
    """Files made with it in one release are read in the next."""
    (vector,) = HashEncoder(8).encode(["I went to the hospital"])
    assert np.abs(vector - PINNED).max() < 1e-4
    assert HashEncoder(64).sha256 != HashEncoder(65).sha256


def test_log_odds_grow_with_the_words_that_are_said() -> None:
    none, one, both = OverlapReranker().score("Which cat?", ["a dog", "A CAT", "which cat? Cat cat"])
    assert [round(float(score), 4) for score in (none, one, both)] == [-1.6094, 0.0, 1.6094]


def test_a_question_without_words_tells_documents_not_apart() -> None:
    assert OverlapReranker().score("?!", ["a cat", ""]).tolist() == [0, 0]


def test_words_beyond_the_limit_are_not_read() -> None:
    reranker = OverlapReranker(fields=["source"])
    assert reranker.fields == ("source",)
    kept, cut = reranker.score("cat", ["x " * 254 + "cat", "x " * 255 + "cat"])
    assert kept > 0 > cut
    assert reranker.score("x " * 128 + "cat", ["cat"])[0] < 0


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word{number} and {number % 7}" if number % 5 else "" for number in range(50)]
    whole = HashEncoder().encode(texts)
    monkeypatch.setattr(fakes, "SLICE_TEXTS", 7)
    assert np.array_equal(HashEncoder().encode(texts), whole)


@pytest.mark.parametrize("dimension", [0, -1, 513])
def test_dimensions_it_cannot_give_are_refused(dimension: int) -> None:
    with pytest.raises(InputError):
        HashEncoder(dimension)


ASK = [Turn("user", "Where does Ana live?")]


def test_a_list_of_answers_is_used_up_in_order() -> None:
    ready = Completion(text="Bergen", finish="length", prompt_tokens=9, cached_tokens=4, completion_tokens=1)
    backbone = ScriptedBackbone(["Oslo", ready, ModelUnavailable("busy", retryable=True)])
    assert backbone.complete(ASK, max_tokens=5) == Completion(
        text="Oslo", finish="stop", prompt_tokens=5, completion_tokens=1
    )
    assert backbone.complete(ASK, max_tokens=5) is ready
    with pytest.raises(ModelUnavailable, match="busy"):
        backbone.complete(ASK, max_tokens=5)
    with pytest.raises(ModelError, match="no answer to call 4"):
        backbone.complete(ASK, max_tokens=5)


def test_a_function_sees_the_turns_and_the_schema() -> None:
    def script(turns: Sequence[Turn], schema: Mapping[str, object] | None) -> Answer:
        return ValueError("no schema") if schema is None else turns[-1].text.upper()

    backbone = ScriptedBackbone(script, name="loud", parallel=3)
    assert backbone.complete(ASK, max_tokens=5, schema={}).text == "WHERE DOES ANA LIVE?"
    with pytest.raises(ValueError, match="no schema"):
        backbone.complete(ASK, max_tokens=5)
    assert (backbone.name, backbone.identity, backbone.parallel) == ("loud", "loud", 3)


def test_calls_are_recorded_refused_ones_are_not() -> None:
    backbone = ScriptedBackbone()
    backbone.complete(ASK, max_tokens=5, schema={"type": "null"})
    with pytest.raises(InputError):
        backbone.complete([], max_tokens=5)
    assert backbone.calls == [fakes.Call(turns=tuple(ASK), max_tokens=5, schema={"type": "null"})]


def test_a_long_answer_is_cut_at_a_token() -> None:
    answer = ScriptedBackbone(["one, two three"]).complete(ASK, max_tokens=3)
    assert (answer.text, answer.finish, answer.completion_tokens) == ("one, two", "length", 3)


def test_without_a_script_it_says_nothing() -> None:
    answer = ScriptedBackbone().complete(ASK, max_tokens=1)
    assert (answer.text, answer.finish, answer.completion_tokens) == ("", "stop", 0)


def test_threads_get_each_answer_once() -> None:
    backbone = ScriptedBackbone([str(number) for number in range(200)], parallel=8)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: backbone.complete(ASK, max_tokens=1).text, range(200)))
    assert sorted(texts, key=int) == [str(number) for number in range(200)]
    assert len(backbone.calls) == 200


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"type": "null"}, None),
        ({}, None),
        ({"type": "string", "minLength": 2}, "aa"),
        ({"type": "string"}, ""),
        ({"type": "boolean"}, False),
        ({"type": "integer"}, 0),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3, "maximum": 9}, 4),
        ({"type": "number", "maximum": -2.5}, -2.5),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": ["string", "null"]}, ""),
        ({"const": [1]}, [1]),
        ({"enum": ["b", "a"]}, "b"),
        ({"type": "array", "items": {"type": "boolean"}}, []),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "$defs": {"A": {"type": "string"}}}, None),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ""),
        ({"properties": {"a": {"type": "string"}, "b": {"enum": [1]}}, "required": ["b"]}, {"b": 1}),
        ({"type": "object"}, {}),
        ({"$ref": "#/$defs/A~1b", "$defs": {"A/b": {"type": "boolean"}}}, False),
    ],
    ids=str,
)
def test_the_smallest_document(schema: dict[str, object], document: object) -> None:
    assert json.loads(smallest(schema)) == document
    assert ScriptedBackbone().complete(ASK, max_tokens=20, schema=schema).text == smallest(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": 7}},
        {"properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "#/nowhere"}}, "required": ["a"]},
    ],
    ids=str,
)
def test_a_schema_without_an_end_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"refers|end"):
        smallest(schema)


def test_a_text_is_told_token_by_token() -> None:
    told: list[str] = []
    backbone = ScriptedBackbone([" one, two\n", "one, two three", "", "  ", "\ud83d\ude00"])
    texts = [backbone.complete(ASK, max_tokens=3, on_text=told.append).text for _ in range(5)]
    assert texts == [" one, two\n", "one, two", "", "  ", "\ud83d\ude00"]
    assert told == [" one", ",", " two\n", "one", ",", " two", "  ", "\ud83d", "\ude00"]
    ready = Completion(text="as it is", finish="stop", prompt_tokens=1, completion_tokens=1)
    assert ScriptedBackbone([ready]).complete(ASK, max_tokens=1, on_text=told.append) is ready
    assert "".join(told[-3:]) == "as it is"


def test_soft_tokens_are_kept_with_the_calls_and_counted() -> None:
    backbone = ScriptedEmbeddingBackbone(["a", "b"], embedding_width=4, context_tokens=20)
    soft = SoftToken(np.ones(4, np.float32), 0, 2)
    with_it = backbone.complete(ASK, max_tokens=1, soft=soft)
    without = backbone.complete(ASK, max_tokens=1)
    assert with_it.prompt_tokens == without.prompt_tokens + 1
    assert backbone.calls[0].soft is soft
    assert backbone.calls[1].soft is None
    with pytest.raises(InputError, match="context"):
        backbone.complete(ASK, max_tokens=20 - without.prompt_tokens, soft=soft)
    with pytest.raises(InputError, match=r"float32 \[4\], not float32 \[3\]") as caught:
        backbone.complete(ASK, max_tokens=1, soft=SoftToken(np.ones(3, np.float32), 0, 0))
    assert "trained for this backbone" in caught.value.hint
    assert len(backbone.calls) == 2
    other = ScriptedEmbeddingBackbone(embedding_width=5)
    assert (backbone.embedding_width, other.embedding_width) == (4, 5)
    assert backbone.sha256 != other.sha256

"""The contract of `ports.Backbone`, over every backbone that ships."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import InputError, ModelError
from memdb.models.fakes import ScriptedBackbone, ScriptedEmbeddingBackbone, smallest
from memdb.models.ports import Backbone, EmbeddingBackbone, SoftToken, Turn
from memdb.models.registry import load_backbone
from tests.conformance.test_encoder import ODD
from tests.endpoint import Reply, said, serving, written
from tests.models import tiny_llama

pytestmark = pytest.mark.loopback

ASK = [Turn("system", "You answer in few words."), Turn("user", "Where does Ana live? She lives in Oslo.")]
SCHEMA: dict[str, object] = {
    "$ref": "#/$defs/Home",
    "$defs": {
        "Home": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 12},
                "sure": {"type": "boolean"},
                "kind": {"enum": ["flat", "house"]},
            },
            "required": ["city", "sure", "kind"],
            "additionalProperties": False,
        }
    },
}
CONTEXT_TOKENS = 1024
SHARED = {"llama": "llama", "tiny-llama": "tiny_llama_backbone"}  # fixtures: loading takes most of the time


def echo(body: dict[str, Any]) -> Reply:
    """What a model of one trick says: the schema's smallest document, else the words of the last turn."""
    asked = body["messages"][-1]["content"]
    text = asked
    if form := body.get("response_format"):
        text = smallest(form["json_schema"]["schema"])
    words = text.split(" ")
    cut = len(words) > body["max_tokens"]
    kept = " ".join(words[: body["max_tokens"]])
    if body.get("stream"):
        pieces = [kept[at : at + 3] for at in range(0, len(kept), 3)]
        return written(*pieces, finish="length" if cut else "stop", prompt_tokens=7, completion_tokens=1)
    return said(kept, "length" if cut else "stop", prompt_tokens=7, completion_tokens=1)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving(echo) as server:
        yield server.url


def scripted(kind: type[ScriptedBackbone]) -> ScriptedBackbone:
    def say(turns: Sequence[Turn], schema: Mapping[str, object] | None) -> str:
        return smallest(schema) if schema else turns[-1].text

    return kind(say, context_tokens=CONTEXT_TOKENS)


@pytest.fixture(params=["scripted", "scripted-embedding", "openai", "llama", "tiny-llama"])
def backbone(request: pytest.FixtureRequest) -> Iterator[Backbone]:
    made: Backbone
    if request.param == "scripted":
        made = scripted(ScriptedBackbone)
    elif request.param == "scripted-embedding":
        made = scripted(ScriptedEmbeddingBackbone)
    elif request.param == "openai":
        pytest.importorskip("openai", reason="openai is not installed")
        url = request.getfixturevalue("endpoint")
        made = load_backbone("openai:echo", base_url=url, context_tokens=CONTEXT_TOKENS)
    else:
        made = request.getfixturevalue(SHARED[request.param])
        yield made
        return
    yield made
    made.close()


@pytest.fixture
def embedding_backbone(backbone: Backbone) -> EmbeddingBackbone:
    if not isinstance(backbone, EmbeddingBackbone):
        pytest.skip("it reads no rows")
    return backbone


@pytest.fixture(scope="module")
def llama() -> Iterator[Backbone]:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    if not (path := os.environ.get("MEMDB_GGUF")):
        pytest.skip("MEMDB_GGUF names no model file")
    with_model = load_backbone(path, threads=1, context_tokens=CONTEXT_TOKENS)
    yield with_model
    with_model.close()


@pytest.fixture(scope="module")
def tiny_llama_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("llama_cpp", "gguf"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return tiny_llama.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def tiny_llama_backbone(tiny_llama_file: Path) -> Iterator[Backbone]:
    made = load_backbone(tiny_llama_file, threads=1, context_tokens=CONTEXT_TOKENS)
    yield made
    made.close()


def test_it_is_a_backbone_and_says_what_it_is(backbone: Backbone) -> None:
    assert isinstance(backbone, Backbone)
    assert backbone.name
    assert backbone.name in backbone.identity
    assert backbone.context_tokens == CONTEXT_TOKENS
    assert backbone.parallel >= 1


def test_it_answers_and_counts(backbone: Backbone) -> None:
    answer = backbone.complete(ASK, max_tokens=16)
    assert answer.finish in ("stop", "length")
    assert answer.prompt_tokens >= 1
    assert 0 <= answer.cached_tokens <= answer.prompt_tokens
    assert 0 <= answer.completion_tokens <= 16


def test_the_same_turns_give_the_same_text(backbone: Backbone) -> None:
    first = backbone.complete(ASK, max_tokens=12)
    backbone.complete([Turn("user", "Something else.")], max_tokens=2)
    again = backbone.complete(ASK, max_tokens=12)
    assert (again.text, again.finish) == (first.text, first.finish)


def test_a_schema_shapes_the_text(backbone: Backbone) -> None:
    answer = backbone.complete(ASK, max_tokens=100, schema=SCHEMA)
    assert answer.finish == "stop"
    document = json.loads(answer.text)
    assert set(document) == {"city", "sure", "kind"}
    assert isinstance(document["city"], str)
    assert len(document["city"]) <= 12
    assert document["sure"] in (True, False)
    assert document["kind"] in ("flat", "house")


def test_a_cut_text_says_so(backbone: Backbone) -> None:
    turns = [Turn("user", "Repeat after me: one two three four five six seven eight nine ten eleven twelve")]
    answer = backbone.complete(turns, max_tokens=2)
    assert answer.finish == "length"
    assert answer.completion_tokens <= 2


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_any_str_is_a_legal_text(backbone: Backbone, text: str) -> None:
    turns = [Turn("system", text[:300]), Turn("user", text[:300])]
    answer = backbone.complete(turns, max_tokens=1)
    assert answer.text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass") == answer.text
    assert backbone.count_tokens(text) >= 0


def test_an_assistants_turn_may_stand_between(backbone: Backbone) -> None:
    turns = [*ASK, Turn("assistant", "Oslo."), Turn("user", "And Ben?")]
    assert backbone.complete(turns, max_tokens=1).prompt_tokens > 0


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [Turn("system", "only this")],
        [Turn("user", "hello"), Turn("assistant", "hello")],
        ["hello"],
        [Turn("user", None)],  # type: ignore[arg-type]
        [Turn("tool", "hello")],  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_what_no_backbone_can_answer_is_refused(backbone: Backbone, turns: list[Turn]) -> None:
    with pytest.raises(InputError):
        backbone.complete(turns, max_tokens=4)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_writing_nothing_is_refused(backbone: Backbone, max_tokens: int) -> None:
    with pytest.raises(InputError, match="max_tokens"):
        backbone.complete(ASK, max_tokens=max_tokens)


@pytest.mark.parametrize(("text", "max_tokens"), [("word, " * CONTEXT_TOKENS, 1), ("hello", CONTEXT_TOKENS)])
def test_a_prompt_without_room_is_refused(backbone: Backbone, text: str, max_tokens: int) -> None:
    with pytest.raises(InputError, match="context"):
        backbone.complete([Turn("user", text)], max_tokens=max_tokens)
    assert backbone.complete(ASK, max_tokens=1).prompt_tokens > 0


@pytest.mark.parametrize("reference", ["#/$defs/Missing", "https://example.org/schema", 7])
def test_a_schema_that_leads_nowhere_is_refused(backbone: Backbone, reference: object) -> None:
    with pytest.raises(InputError, match="refers"):
        backbone.complete(ASK, max_tokens=4, schema={"$ref": reference})


def test_threads_share_it(backbone: Backbone) -> None:
    lists = [[Turn("user", f"Say {word} twice.")] for word in ("cat", "dog", "tree", "house")]
    serial = [backbone.complete(turns, max_tokens=3).text for turns in lists]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda turns: backbone.complete(turns, max_tokens=3).text, lists))
    assert threaded == serial


# --- Told as it is written


@pytest.mark.parametrize("max_tokens", [1, 2, 12])
def test_the_pieces_that_are_told_are_the_text(backbone: Backbone, max_tokens: int) -> None:
    turns = [Turn("user", "Repeat after me: one two three four five six seven eight, ñ 猫 😀")]
    told: list[str] = []
    answer = backbone.complete(turns, max_tokens=max_tokens, on_text=told.append)
    assert "".join(told) == answer.text
    assert "" not in told
    assert all(isinstance(text, str) for text in told)
    silent = backbone.complete(turns, max_tokens=max_tokens)
    assert (silent.text, silent.finish) == (answer.text, answer.finish)
    assert (silent.prompt_tokens, silent.completion_tokens) == (
        answer.prompt_tokens,
        answer.completion_tokens,
    )


def test_a_schema_holds_for_a_text_that_is_told(backbone: Backbone) -> None:
    told: list[str] = []
    answer = backbone.complete(ASK, max_tokens=100, schema=SCHEMA, on_text=told.append)
    assert "".join(told) == answer.text == backbone.complete(ASK, max_tokens=100, schema=SCHEMA).text


@pytest.mark.parametrize("after", [1, 2])
def test_what_is_raised_while_told_ends_the_writing(backbone: Backbone, after: int) -> None:
    """The very exception, and no piece after it; the next answer is what it would have been."""
    expected = backbone.complete(ASK, max_tokens=12).text
    told: list[str] = []
    stop = KeyError("enough")

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == after:
            raise stop

    with pytest.raises(KeyError) as caught:
        backbone.complete(ASK, max_tokens=12, on_text=tell)
    assert caught.value is stop
    assert len(told) == after
    assert expected.startswith("".join(told))
    assert backbone.complete(ASK, max_tokens=12).text == expected


def test_nothing_is_told_of_what_was_refused(backbone: Backbone) -> None:
    told: list[str] = []
    with pytest.raises(InputError):
        backbone.complete(ASK, max_tokens=CONTEXT_TOKENS, on_text=told.append)
    assert told == []


# --- Soft tokens


def soft_row(backbone: EmbeddingBackbone, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.15, backbone.embedding_width).astype(np.float32)


def test_a_soft_token_may_stand_anywhere(embedding_backbone: EmbeddingBackbone) -> None:
    row = soft_row(embedding_backbone)
    assert len(embedding_backbone.sha256) == 64
    plain = embedding_backbone.complete(ASK, max_tokens=2)
    for turn, at in ((0, 0), (1, 0), (1, 9), (1, len(ASK[1].text))):
        soft = SoftToken(row, turn, at)
        answer = embedding_backbone.complete(ASK, max_tokens=2, soft=soft)
        again = embedding_backbone.complete(ASK, max_tokens=2, soft=soft)
        assert answer.prompt_tokens > plain.prompt_tokens
        assert (again.text, again.finish) == (answer.text, answer.finish)
    assert embedding_backbone.complete(ASK, max_tokens=2).text == plain.text


def test_a_schema_holds_after_a_soft_token(embedding_backbone: EmbeddingBackbone) -> None:
    told: list[str] = []
    soft = SoftToken(soft_row(embedding_backbone), 1, 21)
    answer = embedding_backbone.complete(ASK, max_tokens=100, schema=SCHEMA, soft=soft, on_text=told.append)
    assert set(json.loads(answer.text)) == {"city", "sure", "kind"}
    assert "".join(told) == answer.text


def bad_rows(width: int) -> dict[str, object]:
    row = np.zeros(width, np.float32)
    return {
        "wide": np.zeros(width + 1, np.float32),
        "narrow": np.zeros(width - 1, np.float32),
        "empty": np.zeros(0, np.float32),
        "matrix": row[None],
        "float64": row.astype(np.float64),
        "float16": row.astype(np.float16),
        "other end first": row.astype(">f4"),
        "list": [0.0] * width,
        "none": None,
        **{str(value): np.full(width, value, np.float32) for value in (np.nan, np.inf, -np.inf)},
        "last": np.where(np.arange(width) == width - 1, np.nan, row).astype(np.float32),
    }


@pytest.mark.parametrize("name", bad_rows(4))
def test_what_is_no_row_of_the_model_is_refused(embedding_backbone: EmbeddingBackbone, name: str) -> None:
    row: Any = bad_rows(embedding_backbone.embedding_width)[name]
    with pytest.raises(InputError):
        embedding_backbone.complete(ASK, max_tokens=2, soft=SoftToken(row, 1, 0))


@pytest.mark.parametrize(
    ("turn", "at"), [(-1, 0), (2, 0), (0, -1), (1, len(ASK[1].text) + 1), (1.0, 0), (1, 0.0), (None, None)]
)
def test_a_place_the_turns_do_not_have_is_refused(
    embedding_backbone: EmbeddingBackbone, turn: Any, at: Any
) -> None:
    with pytest.raises(InputError, match="soft token"):
        embedding_backbone.complete(ASK, max_tokens=2, soft=SoftToken(soft_row(embedding_backbone), turn, at))


def test_a_soft_token_is_one(embedding_backbone: EmbeddingBackbone) -> None:
    row: Any = soft_row(embedding_backbone)
    for other in (row, (row, 1, 0), 7):
        with pytest.raises(InputError, match="SoftToken"):
            embedding_backbone.complete(ASK, max_tokens=2, soft=other)


def test_closing_twice_is_fine_and_then_it_answers_no_more(
    request: pytest.FixtureRequest, backbone: Backbone
) -> None:
    if request.node.callspec.params["backbone"] in SHARED:
        pytest.skip("the module shares it: tests/models/test_llama.py closes one of its own")
    backbone.close()
    backbone.close()
    with pytest.raises(ModelError, match="closed"):
        backbone.complete(ASK, max_tokens=4)

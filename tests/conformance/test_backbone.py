"""The contract of `ports.Backbone`, over every backbone that ships."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memdb.errors import InputError, ModelError
from memdb.models.fakes import ScriptedBackbone, smallest
from memdb.models.ports import Backbone, Turn
from memdb.models.registry import load_backbone
from tests.conformance.test_encoder import ODD
from tests.endpoint import Reply, said, serving

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


def echo(body: dict[str, Any]) -> Reply:
    """What a model of one trick says: the schema's smallest document, else the words of the last turn."""
    asked = body["messages"][-1]["content"]
    text = asked
    if form := body.get("response_format"):
        text = smallest(form["json_schema"]["schema"])
    words = text.split(" ")
    cut = len(words) > body["max_tokens"]
    kept = " ".join(words[: body["max_tokens"]])
    return said(kept, "length" if cut else "stop", prompt_tokens=7, completion_tokens=1)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving(echo) as server:
        yield server.url


@pytest.fixture(params=["scripted", "openai", "llama"])
def backbone(request: pytest.FixtureRequest) -> Iterator[Backbone]:
    made: Backbone
    if request.param == "scripted":
        made = ScriptedBackbone(
            lambda turns, schema: smallest(schema) if schema else turns[-1].text,
            context_tokens=CONTEXT_TOKENS,
        )
    elif request.param == "openai":
        pytest.importorskip("openai", reason="openai is not installed")
        url = request.getfixturevalue("endpoint")
        made = load_backbone("openai:echo", base_url=url, context_tokens=CONTEXT_TOKENS)
    else:
        made = request.getfixturevalue("llama")
        yield made
        return
    yield made
    made.close()


@pytest.fixture(scope="module")
def llama() -> Iterator[Backbone]:
    """One for the module: loading and reading again would take most of the time."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    if not (path := os.environ.get("MEMDB_GGUF")):
        pytest.skip("MEMDB_GGUF names no model file")
    with_model = load_backbone(path, threads=1, context_tokens=CONTEXT_TOKENS)
    yield with_model
    with_model.close()


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


def test_closing_twice_is_fine_and_then_it_answers_no_more(
    request: pytest.FixtureRequest, backbone: Backbone
) -> None:
    if request.node.callspec.params["backbone"] == "llama":
        pytest.skip("the module shares it: tests/models/test_llama.py closes one of its own")
    backbone.close()
    backbone.close()
    with pytest.raises(ModelError, match="closed"):
        backbone.complete(ASK, max_tokens=4)

"""The distiller's action: what is valid, and what is not (DeferMem appendix C.3.1)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import settings
from memdb.generate.action import Action, action_schema, action_text, is_json, parse_action
from memdb.models.fakes import smallest


def written(useful: object, evidence: object) -> str:
    return json.dumps({"useful_msg": useful, "distilled_info": evidence})


def test_the_shape_of_the_paper_is_read() -> None:
    text = written([{"msg_id": "m1"}, {"msg_id": "m3"}], [{"msg_id": "m1", "info": "Ana rows."}])
    assert parse_action(text) == Action(("m1", "m3"), (("m1", "Ana rows."),))
    assert parse_action(f"\n {text} \n") == parse_action(text)


def test_nothing_useful_is_two_empty_lists() -> None:
    assert parse_action(written([], [])) == Action((), ())


def test_unknown_and_repeated_ids_are_kept_for_the_rewards_to_judge() -> None:
    twice = [{"msg_id": "m9"}, {"msg_id": "m9"}]
    told = [{"msg_id": "m9", "info": "a"}, {"msg_id": "m9", "info": "b"}]
    assert parse_action(written(twice, told)) == Action(("m9", "m9"), (("m9", "a"), ("m9", "b")))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps({"useful_msg": []}), id="a key is missing"),
        pytest.param(json.dumps({"useful_msg": [], "distilled_info": [], "reason": ""}), id="a key too many"),
        pytest.param(written({}, []), id="no list"),
        pytest.param(written(["m1"], []), id="ids alone"),
        pytest.param(written([{"msg_id": "m1", "info": "x"}], []), id="an item with a key too many"),
        pytest.param(written([], [{"msg_id": "m1"}]), id="an item with a key missing"),
        pytest.param(written([{"msg_id": 1}], []), id="a number for an id"),
        pytest.param(written([], [{"msg_id": "m1", "info": None}]), id="null"),
        pytest.param(written([], [{"msg_id": "m1", "info": ""}]), id="an empty text"),
        pytest.param(written([{"msg_id": ""}], []), id="an empty id"),
        pytest.param(written([{"msg_id": "<id>"}], []), id="the placeholder of an id"),
        pytest.param(written([], [{"msg_id": "m1", "info": " <text> "}]), id="the placeholder of a text"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="nothing"),
    ],
)
def test_what_is_json_and_not_valid(text: str) -> None:
    assert is_json(text)
    assert parse_action(text) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(written([], [])[:-1], id="cut off"),
        pytest.param(f"```json\n{written([], [])}\n```", id="fences"),
        pytest.param(f"Here it is: {written([], [])}", id="something before"),
        pytest.param(written([], []) * 2, id="two"),
        pytest.param('{"useful_msg": [], "useful_msg": [], "distilled_info": []}', id="a key twice"),
        pytest.param('{"useful_msg": NaN, "distilled_info": []}', id="no number"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param("1" * 10_000, id="a number too long"),
    ],
)
def test_what_is_no_json(text: str) -> None:
    assert not is_json(text)
    assert parse_action(text) is None


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    parse_action(text)


_IDS = st.text(min_size=1).filter(lambda text: text.strip() not in ("<id>", "<text>"))


@given(st.lists(_IDS), st.lists(st.tuples(_IDS, _IDS)))
def test_every_action_survives_writing(useful: list[str], evidence: list[tuple[str, str]]) -> None:
    text = written([{"msg_id": id} for id in useful], [{"msg_id": id, "info": info} for id, info in evidence])
    action = Action(tuple(useful), tuple(evidence))
    assert parse_action(text) == parse_action(action_text(action)) == action


def test_the_schema_names_the_ids_and_the_keys_in_order() -> None:
    schema = action_schema(["m1", "m2"], 10)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["useful_msg", "distilled_info"] == schema["required"]
    assert [one["maxItems"] for one in properties.values()] == [2, 2]
    told = properties["distilled_info"]["items"]["properties"]
    assert told["msg_id"] == {"type": "string", "enum": ["m1", "m2"]}
    assert told["info"] == {"type": "string", "minLength": 1, "maxLength": settings.MAX_INFO_CHARS}
    assert parse_action(smallest(schema)) == Action((), ())


@pytest.mark.parametrize(("ids", "most", "items"), [(3, 10, 3), (2_000, 10, 10)])
def test_no_more_is_chosen_than_there_is_or_may_be(ids: int, most: int, items: int) -> None:
    properties = action_schema([f"m{number}" for number in range(ids)], most)["properties"]
    assert isinstance(properties, dict)
    assert {one["maxItems"] for one in properties.values()} == {items}

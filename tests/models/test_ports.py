"""What every implementation of a port shares."""

from __future__ import annotations

import pytest

from memdb.errors import InputError
from memdb.models.ports import Turn, follow, require_room, require_turns, rooted, valid_unicode


def test_surrogates_are_paired_or_replaced() -> None:
    assert valid_unicode("a\ud83d\ude00b") == "a😀b"
    assert valid_unicode("a\ud83db\udfff") == "a\ufffdb\ufffd"
    assert valid_unicode("plain") == "plain"


def test_a_root_is_written_out_with_its_definitions() -> None:
    definitions = {"A": {"$ref": "#/$defs/B"}, "B": {"type": "object", "title": "B"}}
    root = rooted({"$ref": "#/$defs/A", "$defs": definitions})
    assert root == {"type": "object", "title": "B", "$defs": definitions}
    plain: dict[str, object] = {"type": "string", "definitions": {}}
    assert rooted(plain) == plain


def test_a_reference_is_followed_through_escapes() -> None:
    assert follow({"a/b": {"~": {"type": "null"}}}, "#/a~1b/~0") == {"type": "null"}


@pytest.mark.parametrize("reference", ["#/a/b", "#/a", "#/c", "a", "", None, ["#/a"]], ids=str)
def test_a_reference_that_leads_nowhere_is_refused(reference: object) -> None:
    with pytest.raises(InputError, match="refers to"):
        follow({"a": "text"}, reference)


def test_room_is_what_the_context_leaves() -> None:
    require_room(90, 10, 100)
    with pytest.raises(InputError, match="91 tokens and 10"):
        require_room(91, 10, 100)


def test_turns_that_can_be_answered_pass() -> None:
    require_turns([Turn("system", ""), Turn("assistant", "a"), Turn("user", "")], 1)
    with pytest.raises(InputError, match="turn 1 is a str"):
        require_turns([Turn("user", "a"), "b"], 1)  # type: ignore[list-item]

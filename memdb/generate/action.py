"""The distiller's structured action o = (U, Z): its schema, and the strict reading of it (DeferMem appendix
C.1 and C.3.1).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from memdb import settings

USEFUL: Final = "useful_msg"
EVIDENCE: Final = "distilled_info"
_ID: Final = "msg_id"
_INFO: Final = "info"
_PLACEHOLDERS: Final = ("<id>", "<text>")


class Action(NamedTuple):
    """What a distiller wrote, as it stands: ids that do not exist and repeated ones too, since rewards judge
    them. `useful` is U, the ids that were chosen; `evidence` is Z, pairs of id and information.
    """

    useful: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]


def action_schema(ids: Sequence[str], most: int) -> dict[str, object]:
    """The JSON schema of an action over the messages `ids`, of which at most `most` are chosen; a backbone
    held to it can name no other.
    """
    id = {"type": "string", "enum": list(ids)}
    info = {"type": "string", "minLength": 1, "maxLength": settings.MAX_INFO_CHARS}
    lists = {USEFUL: _object({_ID: id}), EVIDENCE: _object({_ID: id, _INFO: info})}
    return _object(
        {
            key: {"type": "array", "items": item, "maxItems": min(len(ids), most)}
            for key, item in lists.items()
        }
    )


def _object(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def parse_action(text: str) -> Action | None:
    """The action in a reply, None for one that is not valid.

    Valid is one JSON object and nothing around it, with exactly the two keys, both lists; their items are
    exactly `{msg_id}` and `{msg_id, info}`, of strings that are neither empty nor the placeholders `<id>` and
    `<text>`.
    """
    document = _document(text)
    if not _is_object(document, (USEFUL, EVIDENCE)):
        return None
    useful = _rows(document[USEFUL], (_ID,))
    evidence = _rows(document[EVIDENCE], (_ID, _INFO))
    if useful is None or evidence is None:
        return None
    return Action(tuple(id for (id,) in useful), tuple((id, info) for id, info in evidence))


def action_text(action: Action) -> str:
    """An action as a distiller writes it: `parse_action` reads it again. Blanks stand as in the prompt."""
    document = {
        USEFUL: [{_ID: id} for id in action.useful],
        EVIDENCE: [{_ID: id, _INFO: info} for id, info in action.evidence],
    }
    return json.dumps(document, ensure_ascii=False)


def is_json(text: str) -> bool:
    """Whether a reply is a JSON document at all: the first half of the reward r0."""
    return _document(text) is not _NO_DOCUMENT


_NO_DOCUMENT: Final = object()


def _document(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refused)
    except (ValueError, RecursionError):
        return _NO_DOCUMENT


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a key that stands twice: which of them holds would be a guess."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _rows(items: object, keys: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """The strings of each item; None where one is not as it has to be."""
    if not isinstance(items, list) or not all(_is_object(item, keys) for item in items):
        return None
    rows = [tuple(item[key] for key in keys) for item in items]
    return rows if all(_is_said(value) for row in rows for value in row) else None


def _is_object(value: object, keys: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and value.keys() == set(keys)


def _is_said(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.strip() not in _PLACEHOLDERS

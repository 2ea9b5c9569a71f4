"""What a backbone is asked for a distillation, the same in training and in use (DeferMem appendix C.3.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from string import Template
from typing import Final, Literal, NamedTuple, get_args

from memdb import settings
from memdb.activate.working_memory import CLOSING, OPENING, quoted
from memdb.errors import InputError
from memdb.generate.answer_prompt import NO_TIME
from memdb.generate.prompts import prompt
from memdb.models.ports import Backbone, Turn
from memdb.records import History, Message, Query, Utterance

Count = Callable[[str], int]
Style = Literal["distill", "distill_brief"]  # what the file of the prompt is called
STYLES: Final[tuple[Style, ...]] = get_args(Style)
_LONGEST_ID: Final = "m99999"


class Asked(NamedTuple):
    """The turns of the prompt, and the messages that its compact ids, m1, m2, …, stand for."""

    turns: list[Turn]
    messages: dict[str, Utterance]


def distill_turns(history: History, question_time: str | None, style: Style = "distill") -> Asked:
    """The prompt for a history, quoted as data, a message on each line: its segments as JSON, in the brief
    style as lines of text with a blank line between segments.
    """
    ids = compact_ids(history)
    lines = iter(rendered(one, id, style) for id, one in ids.items())
    segments = [[next(lines) for _ in segment.utterances] for segment in history.segments]
    told = prompt(style)
    filled = Template(told.user).substitute(
        history=_as_json(segments) if style == "distill" else "\n\n".join(map("\n".join, segments)),
        question=quoted(history.query.text),
        question_time=quoted(question_time) or NO_TIME,
    )
    return Asked([Turn("system", told.system), Turn("user", filled)], ids)


def compact_ids(history: History) -> dict[str, Utterance]:
    """What the ids of a prompt, m1, m2, …, stand for, in the order of time."""
    return {f"m{number}": one for number, one in enumerate(history.utterances, 1)}


def _as_json(segments: Sequence[Sequence[str]]) -> str:
    arrays = ("[\n" + ",\n".join(lines) + "\n]" for lines in segments)
    return "\n".join([OPENING, "[", ",\n".join(arrays), "]", CLOSING])


def rendered(utterance: Utterance, id: str, style: Style = "distill") -> str:
    """A message as one line of the prompt: what of it costs tokens."""
    message = utterance.message
    if style == "distill_brief":
        clock = quoted(clock_text(message))
        head = f"{id} {quoted(message.speaker)}{clock and f', {clock}'}: {quoted(message.content)}"
        more = (("image", message.image_caption), ("location", message.location))
        # A small model copies best what comes after what it looks for: the id stands there too.
        return (
            head + "".join(f" [{name}: {quoted(said)}]" for name, said in more if quoted(said)) + f" [{id}]"
        )
    fields = {
        "msg_id": id,
        "speaker": quoted(message.speaker),
        "content": quoted(message.content),
        "image": quoted(message.image_caption),
        "timestamp": quoted(clock_text(message)),
        "location": quoted(message.location),
    }
    kept = {key: value for key, value in fields.items() if value or key == "content"}
    return json.dumps(kept, ensure_ascii=False)


def clock_text(message: Message) -> str:
    """When a message was said, as it was given; empty for an unknown time."""
    said_at = message.said_at
    if said_at is None or isinstance(said_at, str):
        return said_at or ""
    return said_at.isoformat()


def message_tokens(utterance: Utterance, count: Count, style: Style = "distill") -> int:
    """An upper bound of what a message costs in the prompt: its line, and a segment's brackets."""
    return count(f"[\n{rendered(utterance, _LONGEST_ID, style)}\n],\n")


def reply_tokens(backbone: Backbone) -> int:
    """Tokens that the reply may have."""
    return min(settings.DISTILL_TOKENS, backbone.context_tokens // 3)


def most_told(backbone: Backbone) -> int:
    """Messages that a reply has room for: more may not be chosen, so that no reply is cut off."""
    return max(1, reply_tokens(backbone) // settings.DISTILLED_TOKENS)


def room(
    backbone: Backbone, question: str, question_time: str | None = None, style: Style = "distill"
) -> int:
    """Tokens that the context leaves for the messages of a history, each of `message_tokens`.

    Raises InputError where the question leaves none.
    """
    asked = distill_turns(History(query=Query(text=question)), question_time, style)
    left = backbone.context_tokens - reply_tokens(backbone) - _tokens(asked.turns, backbone.count_tokens)
    if left < 1:
        hint = "ask a shorter question, or take a model with a larger context"
        raise InputError(
            f"the question leaves no room for a history in {backbone.context_tokens} tokens", hint=hint
        )
    return left


def require_fits(asked: Asked, backbone: Backbone) -> None:
    """Raises InputError for a prompt that does not leave room for its reply."""
    prompt_tokens = _tokens(asked.turns, backbone.count_tokens)
    room = backbone.context_tokens - reply_tokens(backbone)
    if prompt_tokens > room:
        hint = "give the candidate expansion a smaller budget, or take a model with a larger context"
        raise InputError(
            f"a history of {len(asked.messages)} messages makes a prompt of {prompt_tokens} tokens, and"
            f" there is room for {room}",
            hint=hint,
        )


def _tokens(turns: list[Turn], count: Count) -> int:
    return sum(count(turn.text) for turn in turns) + settings.TEMPLATE_TOKENS

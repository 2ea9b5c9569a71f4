"""The distiller (DeferMem section 3.3): from raw history and a question to the messages that help, and what
each of them says, told so that it can be understood alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from memdb import settings
from memdb.activate.working_memory import CLOSING, OPENING, estimated_tokens, quoted
from memdb.generate.action import Action, action_schema, parse_action
from memdb.generate.choose import Bounds, chosen
from memdb.generate.distill_prompt import (
    Style,
    clock_text,
    distill_turns,
    message_tokens,
    most_told,
    reply_tokens,
    require_fits,
    room,
)
from memdb.generate.faithful import faithful
from memdb.generate.rewrite import statement
from memdb.language.cleaning import cleaned
from memdb.language.terms import document_terms
from memdb.models.ports import Backbone, Completion, Reranker
from memdb.records import Distilled, History, Segment, Tokens, Utterance

# Why something of a reply was not used; "unfaithful", "unselected" and "untold" are used all the same.
CUT_OFF: Final = "cut_off"
INVALID: Final = "invalid"
UNKNOWN_ID: Final = "unknown_id"
DUPLICATE: Final = "duplicate"
EMPTY: Final = "empty"
UNFAITHFUL: Final = "unfaithful"
UNSELECTED: Final = "unselected"
UNTOLD: Final = "untold"


class Distillation(msgspec.Struct, frozen=True, kw_only=True):
    """What was distilled from a history, both parts in the order of time.

    `useful` are the messages that were chosen, U of the action, and `evidence` what they say, Z. `valid`
    says that the reply was as the schema has it; of one that was not, nothing is used. `rejected` counts what
    was wrong: the whole reply `cut_off` or `invalid`; an entry of an `unknown_id`, the second of one id
    (`duplicate`), or without a word (`empty`), all of which are dropped; and what is kept: `unfaithful`
    evidence, evidence of a message that was not chosen (`unselected`), a chosen one without (`untold`).
    """

    evidence: tuple[Distilled, ...] = ()
    useful: tuple[Utterance, ...] = ()
    rejected: dict[str, int] = {}
    valid: bool = True
    tokens: Tokens = Tokens()


@runtime_checkable
class Distiller(Protocol):
    """A history in, what helps to answer its question out."""

    def distil(self, history: History, question_time: str | None) -> Distillation:
        """What of the history helps to answer its question, which is asked at `question_time`.

        Raises InputError for a history that the distiller has no room for, and what its models raise.
        """
        ...

    def room(self, question: str, question_time: str | None) -> int:
        """Tokens that a history may have, each message of its `size`. Raises InputError for no room."""
        ...

    def size(self, utterance: Utterance) -> int:
        """Tokens of a message, at most."""
        ...


class ExtractiveDistiller:
    """A `Distiller` without a language model: the messages that a reranker finds helpful, rewritten by rules.

    At most `most` messages are chosen, of a relevance of at least `least`, and of at most `within` less than
    the best: see `choose.relevance`. Without a reranker the words that a message shares with the question
    stand in. All evidence is faithful.
    """

    def __init__(
        self,
        reranker: Reranker | None,
        most: int = settings.MOST_USEFUL,
        least: float = settings.LEAST_USEFUL,
        within: float = settings.USEFUL_WITHIN,
    ) -> None:
        self._reranker, self._bounds = reranker, Bounds(most, least, within)

    def distil(self, history: History, question_time: str | None) -> Distillation:
        """See `Distiller`. The question's time is not looked at: nothing is dated anew."""
        useful = chosen(history, self._reranker, self._bounds)
        evidence, told = list[Distilled](), list[Utterance]()
        for one, segment in _with_segments(history, useful):
            info = statement(one, segment, speakers_in(history, one), history.query.text)
            if info:
                evidence.append(Distilled(info=info, utterance=one))
                told.append(one)
        empty = len(useful) - len(told)
        rejected = {EMPTY: empty} if empty else {}
        return Distillation(evidence=tuple(evidence), useful=tuple(told), rejected=rejected)

    def room(self, question: str, question_time: str | None) -> int:
        """See `Distiller`: there is no model to be short of room."""
        return settings.HISTORY_TOKENS

    def size(self, utterance: Utterance) -> int:
        """See `Distiller`."""
        return estimated_tokens(utterance.message.text)


class ModelDistiller:
    """A `Distiller` that asks a language model, held to the schema where the backbone can be.

    `style` is the prompt that the model is asked by: the one it was trained on.
    """

    def __init__(self, backbone: Backbone, style: Style = "distill") -> None:
        self._backbone, self.style = backbone, style

    def distil(self, history: History, question_time: str | None) -> Distillation:
        """See `Distiller`. Of a history without a message nothing is asked."""
        asked = distill_turns(history, question_time, self.style)
        if not asked.messages:
            return Distillation()
        require_fits(asked, self._backbone)
        reply = self._backbone.complete(
            asked.turns,
            max_tokens=reply_tokens(self._backbone),
            schema=action_schema(list(asked.messages), most_told(self._backbone)),
        )
        return from_reply(reply, history, asked.messages)

    def room(self, question: str, question_time: str | None) -> int:
        """See `Distiller`."""
        return room(self._backbone, question, question_time, self.style)

    def size(self, utterance: Utterance) -> int:
        """See `Distiller`."""
        return message_tokens(utterance, self._backbone.count_tokens, self.style)


def from_reply(reply: Completion, history: History, messages: dict[str, Utterance]) -> Distillation:
    """What a backbone's reply says; `messages` are what its ids stand for, in the order of time."""
    tokens = Tokens(
        prompt=reply.prompt_tokens, cached=reply.cached_tokens, completion=reply.completion_tokens
    )
    action = parse_action(reply.text)
    if action is None:
        reason = CUT_OFF if reply.finish == "length" else INVALID
        return Distillation(valid=False, rejected={reason: 1}, tokens=tokens)
    return msgspec.structs.replace(from_action(action, history, messages), tokens=tokens)


def from_action(action: Action, history: History, messages: dict[str, Utterance]) -> Distillation:
    """What of an action is used, and why the rest is not; `messages` as in `from_reply`."""
    rejected = Counter[str]()
    useful = _known(((id, "") for id in action.useful), messages, rejected)
    told = _known(action.evidence, messages, rejected)
    rejected[UNSELECTED] = len(told.keys() - useful.keys())
    rejected[UNTOLD] = len(useful.keys() - told.keys())
    by_id = dict(zip(messages, _segments(history), strict=True))
    evidence: list[Distilled] = []
    for id, one in messages.items():
        if id not in told:
            continue
        info = cleaned(told[id])
        if not document_terms(info):
            rejected[EMPTY] += 1
            continue
        kept = faithful(info, one, by_id[id], speakers_in(history, one))
        rejected[UNFAITHFUL] += not kept
        evidence.append(Distilled(info=info, utterance=one, faithful=kept))
    return Distillation(
        evidence=tuple(evidence),
        useful=tuple(one for id, one in messages.items() if id in useful),
        rejected={reason: count for reason, count in rejected.items() if count},
    )


def _known(
    entries: Iterable[tuple[str, str]], messages: dict[str, Utterance], rejected: Counter[str]
) -> dict[str, str]:
    """The first entry of each message."""
    found: dict[str, str] = {}
    for id, info in entries:
        if id not in messages:
            rejected[UNKNOWN_ID] += 1
        elif id in found:
            rejected[DUPLICATE] += 1
        else:
            found[id] = info
    return found


def _segments(history: History) -> list[Segment]:
    """The segment of each message."""
    return [segment for segment in history.segments for _ in segment.utterances]


def _with_segments(history: History, useful: Iterable[int]) -> list[tuple[Utterance, Segment]]:
    """The messages of these numbers in the order of time, and their segments."""
    messages, segments = history.utterances, _segments(history)
    return [(messages[number], segments[number]) for number in sorted(useful)]


def speakers_in(history: History, utterance: Utterance) -> tuple[str, ...]:
    """Who speaks in the session of a message, as far as the history shows it."""
    return tuple(
        dict.fromkeys(
            one.message.speaker
            for one in history.utterances
            if (one.source, one.session) == (utterance.source, utterance.session)
        )
    )


def assembled(distillation: Distillation) -> list[dict[str, Any]]:
    """The evidence as it goes to an answer: `info`, `speaker`, and `timestamp` where it is known, in the
    order of time and without ids (DeferMem appendix D.2.2).
    """
    items: list[dict[str, Any]] = []
    for one in distillation.evidence:
        item = {"info": quoted(one.info), "speaker": quoted(one.utterance.message.speaker)}
        said_at = quoted(clock_text(one.utterance.message))
        items.append(item | ({"timestamp": said_at} if said_at else {}))
    return items


def evidence_text(distillation: Distillation) -> str:
    """The evidence as text for a prompt: JSON, an item on each line, quoted as data."""
    items = ",\n".join(json.dumps(item, ensure_ascii=False) for item in assembled(distillation))
    return "\n".join([OPENING, f"[\n{items}\n]" if items else "[]", CLOSING])

"""A judge that is a language model behind the backbone port (DeferMem appendix C.3.2 to C.3.4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from string import Template
from typing import Any, Final, Literal, TypeVar

import msgspec

from memdb import settings
from memdb.activate.working_memory import CLOSING, OPENING, quoted, serialised
from memdb.construct.resolve import cast_of
from memdb.errors import InputError, ModelError
from memdb.generate.answer_prompt import ANSWER_SCHEMA, NO_TIME, answer_turns
from memdb.generate.check import NO_ANSWER
from memdb.generate.defermem import as_memory
from memdb.generate.distill import evidence_text, speakers_in
from memdb.generate.distill_prompt import clock_text
from memdb.generate.prompts import prompt
from memdb.generate.reply import read_reply
from memdb.models.ports import Backbone, Completion, Turn
from memdb.models.replies import read
from memdb.records import Utterance
from memdb.train.instances import Instance
from memdb.train.judge import Entry, Judged, KeepingJudge, distillation, segment_of

FAIL_TYPES: Final = (
    "SUBJECT_MISMATCH",
    "VOICE_INCONSISTENCY",
    "INFO_NOT_SELF_CONTAINED",
    "UNSUPPORTED",
    "TEMPORAL_ERROR",
)
_AGAIN: Final = "Your last answer could not be used: {error}. Answer again, with JSON of that shape alone."
T = TypeVar("T")


class _Result(msgspec.Struct, frozen=True):
    msg_id: str
    verdict: Literal["PASS", "FAIL"]


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...]


class _Verdict(msgspec.Struct, frozen=True):
    generated_answer_is_correct_or_wrong: Literal["CORRECT", "WRONG"]
    the_information_is_failure_source: Literal["YES", "NO"]


class ModelJudge(KeepingJudge):
    """A `Judge` that asks a language model: once for all entries of an action, and for the answer twice, to
    write it from the evidence alone and to judge it.

    What cannot be read is asked for again, settings.JUDGE_TRIES times in all, then everything it was about
    has failed. `counts` has the `calls`, the replies that were `malformed`, and the judgements `given_up`.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self._backbone = backbone

    def judge_entries(self, instance: Instance, used: tuple[Entry, ...]) -> tuple[bool, ...]:
        """See `KeepingJudge`."""
        ids = [id for id, _ in used]

        def passed(reply: Completion) -> tuple[bool, ...]:
            results, _ = read(reply.text, _Results)
            verdicts = {one.msg_id: one.verdict == "PASS" for one in results.results}
            if sorted(one.msg_id for one in results.results) != sorted(ids):
                raise ValueError("there has to be one result for each msg_id given")
            return tuple(verdicts[id] for id in ids)

        pieces = ",\n".join(json.dumps(piece, ensure_ascii=False) for piece in _pieces(instance, used))
        told = prompt("judge_entries")
        user = Template(told.user).substitute(pieces="\n".join([OPENING, f"[\n{pieces}\n]", CLOSING]))
        turns = [Turn("system", told.system), Turn("user", user)]
        tokens = settings.JUDGE_ENTRY_TOKENS * len(used)
        return self._ask(turns, _results_schema(ids), tokens, passed) or (False,) * len(used)

    def judge_answer(self, instance: Instance, used: tuple[Entry, ...]) -> Judged:
        """See `KeepingJudge`."""
        answer = self._answered(instance, used)
        if answer is None:
            return Judged()

        def judged(reply: Completion) -> Judged:
            found, _ = read(reply.text, _Verdict)
            return Judged(
                correct=found.generated_answer_is_correct_or_wrong == "CORRECT",
                information_failed=found.the_information_is_failure_source == "YES",
            )

        told = prompt("judge_answer")
        user = Template(told.user).substitute(
            question=_data(instance.history.query.text),
            question_time=quoted(instance.question_time) or NO_TIME,
            reference=_data(instance.answer),
            information=evidence_text(distillation(instance, used)),
            answer=_data(answer),
        )
        turns = [Turn("system", told.system), Turn("user", user)]
        return self._ask(turns, _ANSWER_SCHEMA, settings.JUDGE_ANSWER_TOKENS, judged) or Judged()

    def _answered(self, instance: Instance, used: tuple[Entry, ...]) -> str | None:
        """The answer from the entries alone, as `Memory.ask` puts the question; None for no readable one."""
        question, time = instance.history.query.text, instance.question_time
        memory = as_memory(instance.history.query, distillation(instance, used).evidence, by_rank=False)
        count = self._backbone.count_tokens
        empty, _ = answer_turns(question, time, "")
        spent = sum(count(turn.text) for turn in empty) + settings.ANSWER_TOKENS + settings.TEMPLATE_TOKENS
        told = serialised(memory, self._backbone.context_tokens - spent, count)
        if not told.text:
            hint = "take a judge with a larger context"
            raise InputError(f"the judge {self._backbone.name} has no room for the evidence", hint=hint)
        turns, _ = answer_turns(question, time, told.text)
        return self._ask(turns, ANSWER_SCHEMA, settings.ANSWER_TOKENS, _answer)

    def _ask(
        self,
        turns: Sequence[Turn],
        schema: dict[str, Any],
        tokens: int,
        understand: Callable[[Completion], T],
    ) -> T | None:
        """What a reply says; None if none of the tries can be understood."""
        asked = list(turns)
        for _ in range(settings.JUDGE_TRIES):
            self.count("calls")
            reply = self._backbone.complete(asked, max_tokens=tokens, schema=schema)
            try:
                return understand(reply)
            except ValueError as error:
                self.count("malformed")
                again = _AGAIN.format(error=quoted(str(error))[: settings.JUDGE_REASON_CHARS])
                # The same turns would give the same text.
                asked = [*turns[:-1], Turn("user", f"{turns[-1].text}\n\n{again}")]
        self.count("given_up")
        return None


def _answer(reply: Completion) -> str:
    """The answer in a reply; that there is none where it is empty. Raises ValueError for no answer."""
    try:
        return read_reply(reply).answer or NO_ANSWER
    except ModelError as error:
        raise ValueError(error.message) from error


def _data(text: str) -> str:
    """Text of others on one line, as a JSON string: no line of it can pose as a part of the prompt."""
    return json.dumps(quoted(text), ensure_ascii=False)


def _pieces(instance: Instance, used: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """The entries with their messages and what was said before, quoted as data."""
    return [{"msg_id": id, "info": quoted(info), **_context(instance, id)} for id, info in used]


def _context(instance: Instance, id: str) -> dict[str, Any]:
    said = instance.ids[id]
    earlier = [
        one
        for one in segment_of(instance, id).utterances
        if one.session == said.session and one.position < said.position
    ]
    message = said.message
    speakers = tuple(speakers_in(instance.history, said))
    counterpart = cast_of(message.speaker, message.role, speakers).counterpart
    shown = {
        "speaker": quoted(message.speaker),
        "spoken_to": quoted(counterpart),
        "content": quoted(message.content),
        "image": quoted(message.image_caption),
        "timestamp": quoted(clock_text(message)),
        "location": quoted(message.location),
        "before": [_line(one) for one in earlier[-settings.JUDGE_CONTEXT_MESSAGES :]],
    }
    return {"message": {key: value for key, value in shown.items() if value}}


def _line(utterance: Utterance) -> str:
    message = utterance.message
    image = f" [image: {quoted(message.image_caption)}]" if message.image_caption else ""
    return f"{quoted(message.speaker)}: {quoted(message.content)}{image}"


def _results_schema(ids: Sequence[str]) -> dict[str, Any]:
    result = _object(
        msg_id={"type": "string", "enum": list(ids)},
        verdict={"type": "string", "enum": ["PASS", "FAIL"]},
        fail_types={
            "type": "array",
            "items": {"type": "string", "enum": list(FAIL_TYPES)},
            "maxItems": len(FAIL_TYPES),
        },
        reason_in_a_sentence=_REASON,
    )
    return _object(results={"type": "array", "items": result, "minItems": len(ids), "maxItems": len(ids)})


def _object(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_REASON: Final = {"type": "string", "maxLength": settings.JUDGE_REASON_CHARS}
_YES_NO: Final = {"type": "string", "enum": ["YES", "NO"]}
_ANSWER_SCHEMA: Final = _object(
    generated_answer_is_correct_or_wrong={"type": "string", "enum": ["CORRECT", "WRONG"]},
    the_information_is_failure_source=_YES_NO,
    the_llm_is_failure_source=_YES_NO,
    reason_in_a_sentence=_REASON,
)

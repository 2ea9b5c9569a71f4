"""The anchor of a group: one action that earns every reward, made offline (DeferMem appendix C.2).

A strong teacher writes it from the question, the reference answer and the gold messages; without one, rules
do. What does not earn every reward is no anchor.
"""

from __future__ import annotations

from string import Template

from memdb import settings
from memdb.activate.working_memory import CLOSING, OPENING, quoted
from memdb.generate.action import Action, action_schema, action_text, parse_action
from memdb.generate.distill import speakers_in
from memdb.generate.distill_prompt import Asked, distill_turns, reply_tokens, require_fits
from memdb.generate.prompts import prompt
from memdb.generate.rewrite import statement
from memdb.models.ports import Backbone, Turn
from memdb.train.instances import Instance
from memdb.train.judge import Judge, segment_of
from memdb.train.judge_by_model import ModelJudge
from memdb.train.judge_by_rules import RuleJudge
from memdb.train.rewards import FULL, rewards


def anchor(instance: Instance, judge: Judge | None = None) -> str | None:
    """The gold messages told by rules, as a distiller would write them; None if that does not earn every
    reward. Without a judge, rules judge. Raises what the judge raises.
    """
    return _kept(by_rules(instance), instance, judge or RuleJudge())


def by_rules(instance: Instance) -> Action:
    """The gold messages in the order of time, each rewritten by `generate.rewrite`."""
    gold = _in_time(instance)
    return Action(gold, tuple((id, _told(instance, id)) for id in gold))


def _told(instance: Instance, id: str) -> str:
    """What a message says in at most settings.MAX_INFO_CHARS, its picture included."""
    said, segment, question = instance.ids[id], segment_of(instance, id), instance.history.query.text
    speakers, most = speakers_in(instance.history, said), settings.MAX_INFO_CHARS
    told = statement(said, segment, speakers, question, most)
    if (over := len(told) - most) > 0:
        told = statement(said, segment, speakers, question, most - over)
    return told


def teacher_anchor(instance: Instance, backbone: Backbone, judge: Judge | None = None) -> str | None:
    """The gold messages told by a language model; None if that does not earn every reward. Without a judge,
    the same model judges. Where nothing answers, it is not asked.

    Raises InputError for a prompt that does not fit, and what the backbone and the judge raise.
    """
    judge = judge or ModelJudge(backbone)
    gold = _in_time(instance)
    if not gold:
        return _kept(Action((), ()), instance, judge)
    asked = _teacher_turns(instance, gold)
    require_fits(asked, backbone)
    reply = backbone.complete(
        asked.turns, max_tokens=reply_tokens(backbone), schema=action_schema(gold, len(gold))
    )
    action = parse_action(reply.text)
    if action is None:
        return None
    at = {id: place for place, id in enumerate(asked.messages)}
    evidence = sorted(action.evidence, key=lambda entry: at.get(entry[0], len(at)))
    useful = sorted(action.useful, key=lambda id: at.get(id, len(at)))
    return _kept(Action(tuple(useful), tuple(evidence)), instance, judge)


def _teacher_turns(instance: Instance, gold: tuple[str, ...]) -> Asked:
    """The distiller's own prompt, with the answer and what helps."""
    asked, told = distill_turns(instance.history, instance.question_time), prompt("teacher")
    system, user = asked.turns
    more = Template(told.user).substitute(
        gold=", ".join(gold), answer="\n".join([OPENING, quoted(instance.answer), CLOSING])
    )
    turns = [Turn("system", f"{system.text}\n\n{told.system}"), Turn("user", f"{user.text}\n\n{more}")]
    return asked._replace(turns=turns)


def _in_time(instance: Instance) -> tuple[str, ...]:
    return tuple(id for id in instance.ids if id in instance.gold)


def _kept(action: Action, instance: Instance, judge: Judge) -> str | None:
    text = action_text(action)
    if any(len(info) > settings.MAX_INFO_CHARS for _, info in action.evidence):
        return None  # no distiller that is held to the schema could write it
    return text if sum(rewards(text, instance, judge)) == FULL else None

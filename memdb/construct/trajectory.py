"""The trajectory of a trace by a language model (QGMem section III-A2, appendix F1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from string import Template
from typing import NamedTuple

from memdb import settings
from memdb.construct import replies
from memdb.construct.support import Support, denies
from memdb.construct.traces import point, relation_text
from memdb.language.cleaning import cleaned
from memdb.language.terms import fold
from memdb.models.ports import Backbone, Turn
from memdb.models.replies import Spent, read
from memdb.records import Prompt
from memdb.store.traces import Member


class Told(NamedTuple):
    """What the model tells of a trace, None where it cannot be used, and what it cost."""

    relation_text: str
    trajectory: str | None
    spent: Spent


def tell(backbone: Backbone, prompt: Prompt, members: Sequence[Member]) -> Told:
    """The trajectory of members in memory order, the newest TRACE_STATES_TOLD of them.

    It is used if its names and numbers are the members' own, and the latest state's value is told.
    """
    recent = list(members[-settings.TRACE_STATES_TOLD :])
    relation = relation_text([point(member) for member in members]) if members else ""
    tokens = min(settings.TRAJECTORY_TOKENS, backbone.context_tokens // 3)
    room = backbone.context_tokens - tokens - settings.ASK_AGAIN_TOKENS - backbone.count_tokens(prompt.system)
    user = Template(prompt.user).substitute(relation_text=cleaned(relation), members=_json(recent))
    while len(recent) > 2 and backbone.count_tokens(user) > room:
        recent = recent[len(recent) // 2 :]
        user = Template(prompt.user).substitute(relation_text=cleaned(relation), members=_json(recent))
    if not recent or backbone.count_tokens(user) > room:
        return Told(relation, None, Spent())
    turns = [Turn("system", prompt.system), Turn("user", user)]
    reply = backbone.complete(turns, max_tokens=tokens, schema=replies.trajectory_schema())
    spent = Spent().plus(reply)
    try:
        told, _ = read(reply.text, replies.Told)
    except ValueError:
        return Told(relation, None, spent)
    text = cleaned(told.trajectory)
    return Told(relation, text if supported(text, recent) else None, spent)


def supported(text: str, members: Sequence[Member]) -> bool:
    """Whether a trajectory is the members' own: it names nothing they do not, says little else, denies only
    what they deny, and tells the value that holds now, after those that held before.
    """
    known, told = Support(), Support()
    for member in members:
        known.say(f"{member.fact_text} {member.subject} {member.predicate} {member.object}")
        known.say(member.said_text or "")
    told.say(text)
    current, low = fold(members[-1].object), fold(text)
    earlier = {fold(member.object) for member in members} - {current}
    last = max((low.rfind(value) for value in earlier if value not in current), default=-1)
    return (
        0 < len(text) <= settings.MAX_TRAJECTORY_CHARS
        and not known.lacking_names(text)
        and known.share(text) >= settings.TRAJECTORY_SUPPORT
        and not told.lacking(members[-1].object)
        and (last < 0 or low.rfind(current) > last)
        and not (denies(text) and not any(denies(member.fact_text) for member in members))
    )


def _json(members: Sequence[Member]) -> str:
    shown = [
        {
            "memory_unit_id": f"U{number}",
            "memory_time": member.said_text or "unknown",
            "fact_text": cleaned(member.fact_text),
            "triple": {
                "subject": cleaned(member.subject),
                "predicate": cleaned(member.predicate),
                "object": cleaned(member.object),
            },
        }
        for number, member in enumerate(members, 1)
    ]
    return json.dumps(shown, ensure_ascii=False, indent=1)

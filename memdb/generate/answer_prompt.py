"""What a backbone is asked for an answer, the same in training and in use (QGMem appendix F1)."""

from __future__ import annotations

from string import Template
from typing import Final

from memdb.generate.prompts import prompt
from memdb.language.cleaning import cleaned
from memdb.models.ports import Turn

_MEMORY: Final = "$memory"
NO_TIME: Final = "not known"
ANSWER_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "reasoning_path": {"type": "string", "maxLength": 200},  # leaves room for an answer
        "answer": {"type": "string", "maxLength": 400},
    },
    "required": ["reasoning_path", "answer"],
    "additionalProperties": False,
}


def answer_turns(question: str, question_time: str | None, memory: str) -> tuple[list[Turn], tuple[int, int]]:
    """The turns of the prompt, and the turn and character before which a graph token stands: the first of the
    serialised memory.
    """
    told = prompt("answer")
    before, _, after = told.user.partition(_MEMORY)
    asked = Template(after).substitute(question=cleaned(question), question_time=question_time or NO_TIME)
    turns = [Turn("system", told.system), Turn("user", before + memory + asked)]
    return turns, (1, len(before))

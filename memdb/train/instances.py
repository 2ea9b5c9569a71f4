"""What a distiller is trained on: a question, its candidate set, and what is known to answer it."""

from __future__ import annotations

import msgspec

from memdb.generate.distill_prompt import compact_ids
from memdb.records import History, Utterance


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its candidate set, and what a distiller should make of it (DeferMem section 3.3).

    `case` is the conversation it is asked of. `gold` are the compact ids, m1, m2, … as `ids` has them, of the
    messages that help, in the order of time; none where the question cannot be answered, and then `answer`
    is empty.
    """

    case: str
    history: History
    question_time: str | None
    gold: tuple[str, ...]
    answer: str

    @property
    def ids(self) -> dict[str, Utterance]:
        """The messages that the compact ids of the prompt stand for."""
        return compact_ids(self.history)

"""What a message gives, as a function of the session up to it.

So adding messages in any portions gives the same file, and `verify` can derive it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memdb import settings
from memdb.construct import rules, views
from memdb.construct.admit import Admitted
from memdb.language.terms import document_terms
from memdb.records import Unit
from memdb.store.rows import StoredMessage

TAIL = settings.WINDOW_MESSAGES  # messages before a message that it is understood with
EARLY = 64  # first messages of a session whose speakers are remembered throughout it


def speakers_of(session: Iterable[Admitted], known: Sequence[str] = ()) -> list[str]:
    """Who speaks, in order of first appearance, after those already `known`."""
    return list(dict.fromkeys([*known, *(admitted.message.speaker for admitted in session)]))


def units(near: Sequence[Admitted], early: Sequence[str], position: int) -> list[Unit]:
    """The units of the last of `near`, with at most `TAIL` messages before it, consecutive in a session.

    `early` are the speakers among the first `EARLY` messages, as far as they come before it; `position` is
    its place in the session, from which positions of units are counted. Who has not spoken yet is not known.
    """
    found = rules.extract(
        [admitted.message for admitted in near],
        [admitted.instant for admitted in near],
        len(near) - 1,
        speakers_of(near, early),
    )
    return [_moved(unit, position - len(near) + 1) for unit in found]


def message_terms(near: Sequence[Admitted], index: int) -> dict[str, str]:
    """The terms by which `near[index]` is indexed, by field; `near` holds its neighbours."""
    fields = views.fields([admitted.message for admitted in near], index, near[index].instant)
    return {field: document_terms(text) for field, text in fields.items()}


def unit_terms(unit: Unit, near: Sequence[Admitted], position: int) -> dict[str, str]:
    """The terms by which a unit is indexed, by field; the last of `near` is at `position` in the session."""
    first = position - len(near) + 1
    spoke = [admitted.message.speaker for admitted in near[unit.first - first : unit.last - first + 1]]
    labels = views.unit_labels_text(unit, spoke)
    return {"fact": document_terms(unit.fact_text), "labels": document_terms(labels)}


class Derivation:
    """Derives a stored session again, message by message, for `verify`."""

    def __init__(self, session: Sequence[StoredMessage]) -> None:
        self._session = [Admitted(one.message, one.instant) for one in session]

    def message_terms(self, position: int) -> dict[str, str]:
        """The terms of the message at `position`, by field."""
        first = max(0, position - TAIL)
        return message_terms(self._session[first : position + TAIL], position - first)

    def units(self, position: int) -> list[tuple[Unit, dict[str, str]]]:
        """The units of the message at `position`, each with its terms by field."""
        near = self._session[max(0, position - TAIL) : position + 1]
        early = speakers_of(self._session[: min(position, EARLY)])
        return [(unit, unit_terms(unit, near, position)) for unit in units(near, early, position)]

    def unit_terms(self, unit: Unit) -> dict[str, str]:
        """The terms of a unit, whoever made it, by field."""
        return unit_terms(unit, self._session[unit.first : unit.last + 1], unit.last)


def _moved(unit: Unit, offset: int) -> Unit:
    """The unit with positions in the session in place of positions in the list it was extracted from."""
    return Unit(
        fact_text=unit.fact_text, triple=unit.triple, entities=unit.entities, locations=unit.locations,
        fact_time=unit.fact_time, first=unit.first + offset, last=unit.last + offset,
    )  # fmt: skip

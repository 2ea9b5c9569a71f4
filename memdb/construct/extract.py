"""Units by a language model, in two stages: the claims of a window, then what they are found by (QGMem
appendix F1).

What the model says is checked against the messages it cites; what a check refuses is reported with its
reason and never written. A reply that is no JSON is asked for once more, then the window is given up.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Sequence
from string import Template
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from memdb import settings
from memdb.construct import replies
from memdb.construct.admit import Admitted
from memdb.construct.derive import speakers_of
from memdb.construct.replies import Candidate, Candidates, Indexes, Indexing
from memdb.construct.support import Support, support_of
from memdb.language.cleaning import cleaned
from memdb.language.terms import document_terms, fold
from memdb.models.ports import Backbone, Completion, Turn
from memdb.models.replies import Spent, read
from memdb.records import Interval, Prompt, Rejection, Triple, Unit

NEW: Final = "NEW_IN_THIS_WINDOW"
OVERLAP: Final = "OVERLAP_FROM_PREVIOUS_WINDOW"
_SHORTENED: Final = " […]"
Stage: TypeAlias = Literal["units", "indexes"]
T = TypeVar("T")


class Prompts(NamedTuple):
    """What the model is told at each stage."""

    units: Prompt
    indexes: Prompt


class Stretch(NamedTuple):
    """A window with its messages: `messages[0]` is at position `first` of the session, new from `new` on.

    `before` are messages directly before them, `opening` those the session begins with.
    """

    session: str
    first: int
    new: int
    messages: Sequence[Admitted]
    before: Sequence[Admitted]
    opening: Sequence[Admitted]

    @property
    def participants(self) -> list[str]:
        """Who speaks in the session, as far as it is known."""
        return speakers_of([*self.opening, *self.before, *self.messages])


class Extraction(NamedTuple):
    """What became of a window: its units, what was refused, the cost; `error` when it was given up."""

    units: list[Unit]
    rejected: list[Rejection]
    spent: Spent
    error: str | None = None


class _GivenUp(Exception):
    """A reply could not be read, and neither could the second one."""


def extract(backbone: Backbone, prompts: Prompts, stretch: Stretch) -> Extraction:
    """The units of a window. Raises what the backbone raises when it cannot run at all."""
    dialogue = _Dialogue(backbone, stretch)
    try:
        candidates = dialogue.candidates(prompts.units)
        accepted = _accepted(candidates, stretch, dialogue.rejected)
        if candidates and not accepted:
            raise _GivenUp(f"none of the {len(candidates)} units that were offered could be used")
        units = dialogue.indexed(prompts.indexes, accepted)
    except _GivenUp as error:
        return Extraction([], dialogue.rejected, dialogue.spent, str(error))
    return Extraction(units, dialogue.rejected, dialogue.spent)


def _accepted(
    candidates: Sequence[Candidate], stretch: Stretch, rejected: list[Rejection]
) -> list[tuple[Unit, Support]]:
    """The candidates that pass every check, each with its support."""
    accepted: list[tuple[Unit, Support]] = []
    seen: set[tuple[str, int, int]] = set()
    for candidate in candidates:
        unit = _unit(candidate, stretch)
        if isinstance(unit, str):
            rejected.append(_rejection("units", unit, candidate.fact_text, candidate))
            continue
        key = (unit.fact_text.casefold(), unit.first, unit.last)
        support = _support(unit, stretch)
        lacking = _lacking(unit, support)
        if key in seen:
            rejected.append(_rejection("units", "dup", unit.fact_text))
        elif lacking:
            told = f"{unit.fact_text} (not said: {', '.join(lacking)})"
            rejected.append(_rejection("units", "unsupported", told))
        elif unit.triple is not None and support.turns_round(unit.fact_text, unit.triple):
            rejected.append(_rejection("units", "unsupported", f"{unit.fact_text} (said otherwise)"))
        else:
            accepted.append((unit, support))
        seen.add(key)
    return accepted


def _unit(candidate: Candidate, stretch: Stretch) -> Unit | str:
    """A candidate with positions for ids, or the reason code why not."""
    end = stretch.first + len(stretch.messages)
    first, last = position_of(candidate.start_turn), position_of(candidate.end_turn)
    if first is None or last is None or not stretch.first <= first < end or not stretch.first <= last < end:
        return "bad_id"
    if first > last:
        return "bad_order"
    if last < stretch.new:
        return "overlap_only"
    parts = [cleaned(part) for part in msgspec.structs.astuple(candidate.triple)]
    fact = cleaned(candidate.fact_text)
    if not document_terms(fact) or not all(map(document_terms, parts)) or fold(parts[0]) == fold(parts[2]):
        return "empty"
    if len(fact) > settings.MAX_FACT_CHARS or max(map(len, parts)) > settings.MAX_PART_CHARS:
        return "too_long"
    return Unit(fact_text=fact, triple=Triple(*parts), first=first, last=last)


def turn_id(position: int) -> str:
    """What a message is called in a prompt: its place in the session, counted from 1.

    Not the caller's id: that is untrusted text, and often long.
    """
    return f"M{position + 1}"


def position_of(id: str) -> int | None:
    """The position of a message by what a prompt calls it."""
    number = id.strip().strip("[]").removeprefix("M")
    return int(number) - 1 if number.isascii() and number.isdigit() and len(number) < 12 else None


def _support(unit: Unit, stretch: Stretch) -> Support:
    cited = stretch.messages[unit.first - stretch.first : unit.last - stretch.first + 1]
    return support_of(cited, stretch.participants)


def _lacking(unit: Unit, support: Support) -> list[str]:
    """What a unit says that its messages do not, if that is too much: any word of holder and value, any name
    or number of its text, or more than a share of all its words.
    """
    assert unit.triple is not None
    words = support.lacking(unit.triple.subject) + support.lacking(unit.triple.object)
    words += support.lacking_names(unit.fact_text) + support.lacking_names(unit.triple.predicate)
    if support.share(unit.triple.predicate) < 1 - settings.LEAST_SUPPORT and _wordy(unit.triple.predicate):
        words += support.lacking(unit.triple.predicate)
    if support.share(unit.fact_text) < settings.LEAST_SUPPORT:
        words += support.lacking(unit.fact_text)
    return list(dict.fromkeys(words))


def _wordy(predicate: str) -> bool:
    """Whether a predicate says more than which slot is meant."""
    return len(document_terms(predicate).split()) > settings.PREDICATE_WORDS


class _Dialogue:
    """The questions put to a backbone about one window, with their cost and what was refused on the way."""

    def __init__(self, backbone: Backbone, stretch: Stretch) -> None:
        self._backbone = backbone
        self._stretch = stretch
        self._reply_tokens = min(settings.REPLY_TOKENS, backbone.context_tokens // 3)
        self.rejected: list[Rejection] = []
        self.spent = Spent()

    def candidates(self, prompt: Prompt) -> Sequence[Candidate]:
        """Stage 1: what the model takes for units."""
        lines = _shortened(self._render, self._fits(prompt), self._longest())
        if lines.cut is not None:
            told = f"messages were shown to the model up to {lines.cut} characters"
            self.rejected.append(Rejection("units", "cut", told))
        turns = self._turns(prompt, annotated_memory_content=lines.text)
        ids = [turn_id(self._stretch.first + n) for n in range(len(self._stretch.messages))]
        offered = self._ask("units", turns, replies.units_schema(ids), Candidates).memory_units
        if (more := len(offered) - settings.MAX_WINDOW_UNITS) > 0:
            self.rejected.append(
                Rejection("units", "cut", f"{more} units beyond {settings.MAX_WINDOW_UNITS}")
            )
        return offered[: settings.MAX_WINDOW_UNITS]

    def indexed(self, prompt: Prompt, accepted: Sequence[tuple[Unit, Support]]) -> list[Unit]:
        """Stage 2: the units with their entities, locations and times, all in one question."""
        if not accepted:
            return []
        units = [unit for unit, _ in accepted]
        lines = _shortened(
            lambda most: _units_json(units, self._stretch, most), self._fits(prompt), self._longest()
        )
        if lines.cut is not None:
            told = f"evidence was shown to the model up to {lines.cut} characters a message"
            self.rejected.append(Rejection("indexes", "cut", told))
        turns = self._turns(prompt, memory_units=lines.text)
        names = [f"U{number}" for number in range(1, len(units) + 1)]
        found = self._ask("indexes", turns, replies.indexes_schema(names), Indexes)
        by_id: dict[str, Indexing] = {}
        for one in found.memory_units:
            if one.memory_unit_id not in names or one.memory_unit_id in by_id:
                self.rejected.append(_rejection("indexes", "bad_id", one.memory_unit_id))
            else:
                by_id[one.memory_unit_id] = one
        return [
            self._with_indexes(name, unit, support, by_id.get(name))
            for name, (unit, support) in zip(names, accepted, strict=True)
        ]

    def _with_indexes(self, name: str, unit: Unit, support: Support, found: Indexing | None) -> Unit:
        if found is None:
            self.rejected.append(_rejection("indexes", "missing_id", f"{name}: {unit.fact_text}"))
            return unit
        times: dict[tuple[dt.date, dt.date], Interval] = {}  # a unit has the same days once
        for time in found.time:
            interval = replies.interval(time)
            if interval is None:
                self.rejected.append(_rejection("indexes", "bad_time", f"{time.start} to {time.end}"))
            elif not support.allows_time(interval):
                told = f"{time.start} to {time.end} for «{unit.fact_text}»"
                self.rejected.append(_rejection("indexes", "unsupported", told))
            else:
                times.setdefault((interval.start, interval.end), interval)
        return msgspec.structs.replace(
            unit,
            entities=self._labels(found.entities, unit, support),
            locations=self._labels(found.locations, unit, support),
            fact_time=tuple(times.values()),
        )

    def _labels(self, names: Sequence[str], unit: Unit, support: Support) -> tuple[str, ...]:
        """Names as they are stored: without repetitions, and none that nobody said."""
        kept: dict[str, str] = {}
        for name in map(cleaned, names):
            if not name or name.casefold() in kept or len(name) > settings.MAX_LABEL_CHARS:
                continue
            if lacking := support.lacking(name):
                told = f"{name} (not said: {', '.join(lacking)}) for «{unit.fact_text}»"
                self.rejected.append(_rejection("indexes", "unsupported", told))
            else:
                kept[name.casefold()] = name
        return tuple(kept.values())[: settings.MAX_UNIT_LABELS]

    def _ask(self, stage: Stage, turns: list[Turn], schema: dict[str, object], shape: type[T]) -> T:
        """The model's answer as a record; asked again once, with the parse error, when it is none."""
        error = ""
        for _ in range(settings.REPLY_TRIES):
            reply = self._complete(turns, schema)
            try:
                found, lost = read(reply.text, shape, cut_off=reply.finish == "length")
            except ValueError as unread:
                error = str(unread)
                self.rejected.append(_rejection(stage, "bad_json", f"{error}: {reply.text}"))
                turns = [*turns[:2], *_again(reply.text, error, self._backbone)]
            else:
                if lost:
                    self.rejected.append(_rejection(stage, "cut", f"the reply ends in {lost}"))
                return found
        raise _GivenUp(f"no JSON of the right shape: {error}")

    def _complete(self, turns: list[Turn], schema: dict[str, object]) -> Completion:
        reply = self._backbone.complete(turns, max_tokens=self._reply_tokens, schema=schema)
        self.spent = self.spent.plus(reply)
        return reply

    def _turns(self, prompt: Prompt, **values: str) -> list[Turn]:
        stretch = self._stretch
        end = stretch.first + len(stretch.messages) - 1
        instant = stretch.messages[-1].instant
        user = Template(prompt.user).substitute(
            session_id=cleaned(stretch.session)[: settings.MAX_LABEL_CHARS],
            start_turn=turn_id(stretch.first),
            end_turn=turn_id(end),
            utterance_time=cleaned(instant.text) if instant else "unknown",
            **values,
        )
        return [Turn("system", prompt.system), Turn("user", user)]

    def _render(self, most: int) -> str:
        stretch = self._stretch
        lines = []
        for position, (message, instant) in enumerate(stretch.messages, stretch.first):
            flag = NEW if position >= stretch.new else OVERLAP
            said = cleaned(instant.text) if instant else "unknown"
            text = message_text(message.content, message.image_caption, most)
            lines.append(f"{flag} [{turn_id(position)}] time: {said} {cleaned(message.speaker)}: {text}")
        return "\n".join(lines)

    def _fits(self, prompt: Prompt) -> Callable[[str], bool]:
        """Whether a text leaves room for the reply, and for asking again."""
        count = self._backbone.count_tokens
        empty = self._turns(prompt, annotated_memory_content="", memory_units="")
        told = sum(count(turn.text) for turn in empty)
        room = self._backbone.context_tokens - self._reply_tokens - settings.ASK_AGAIN_TOKENS - told
        return lambda text: count(text) <= room

    def _longest(self) -> int:
        return max(
            len(message_text(message.content, message.image_caption, sys.maxsize))
            for message, _ in self._stretch.messages
        )


class _Shown(NamedTuple):
    """A text for the model; `cut` says to how many characters its messages had to be shortened."""

    text: str
    cut: int | None


def _shortened(render: Callable[[int], str], fits: Callable[[str], bool], longest: int) -> _Shown:
    """The rendering with the longest messages that fits."""
    if fits(text := render(longest)):
        return _Shown(text, None)
    low, high = settings.LEAST_SHOWN_CHARS, longest
    if not fits(render(low)):
        raise _GivenUp("the model's context has no room for this window")
    while high - low > settings.LEAST_SHOWN_CHARS:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(render(middle)) else (low, middle)
    return _Shown(render(low), low)


def message_text(content: str, caption: str | None, most: int) -> str:
    """A message on one line, of at most `most` characters: `text [image: caption]`."""
    text = cleaned(content)
    text = f"{text} [image: {cleaned(caption)}]".strip() if caption else text
    return text if len(text) <= most else text[: max(0, most - len(_SHORTENED))] + _SHORTENED


def _units_json(units: Sequence[Unit], stretch: Stretch, most: int) -> str:
    """The accepted units as stage 2 reads them."""
    shown = []
    for number, unit in enumerate(units, 1):
        cited = stretch.messages[unit.first - stretch.first : unit.last - stretch.first + 1]
        instant = cited[-1].instant
        lines = [f"{cleaned(m.speaker)}: {message_text(m.content, m.image_caption, most)}" for m, _ in cited]
        shown.append(
            {
                "memory_unit_id": f"U{number}",
                "utterance_time": cleaned(instant.text) if instant else "unknown",
                "fact_text": unit.fact_text,
                "evidence_text": "\n".join(lines),
            }
        )
    return json.dumps(shown, ensure_ascii=False, indent=1)


def _again(reply: str, error: str, backbone: Backbone) -> list[Turn]:
    """What follows a reply that could not be read: of its beginning no more than there is room for."""
    most = settings.SHOWN_REPLY_CHARS
    while backbone.count_tokens(shown := message_text(reply, None, most)) > settings.ASK_AGAIN_TOKENS // 2:
        most //= 2
    shown = shown or "{}"
    ask = f"That could not be read: {error}. Answer again, with JSON of the asked shape alone."
    return [Turn("assistant", shown), Turn("user", ask)]


def _rejection(stage: Stage, reason: str, told: str, candidate: Candidate | None = None) -> Rejection:
    if candidate is not None:
        told = f"{told} [{candidate.start_turn} to {candidate.end_turn}]"
    return Rejection(stage, reason, cleaned(told)[: settings.MAX_DETAIL_CHARS])

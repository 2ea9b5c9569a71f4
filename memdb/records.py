"""The nouns of memdb, in the order in which data flows: immutable, and JSON through msgspec."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

Granularity: TypeAlias = Literal["day", "week", "month", "year"]
Axis: TypeAlias = Literal["entity", "location", "subject", "predicate"]
Moment: TypeAlias = str | dt.datetime | dt.date


class Scope(msgspec.Struct, frozen=True):
    """Whose memory: a part left `None` is unnamed when writing and matches anything when reading."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation, as it was said (QGMem section III-A, DeferMem section 3.1).

    `id` is the caller's and unique in its session; `said_at` is an ISO 8601 date or date-time, a `datetime`,
    or `serial-N` for sources that only number their messages.
    """

    speaker: str
    content: str
    said_at: Moment | None = None
    id: str | None = None
    role: str | None = None
    image_caption: str | None = None
    location: str | None = None

    @property
    def text(self) -> str:
        """What it says, with the caption of its image: an attached image enters as text."""
        return f"{self.content} [image: {self.image_caption}]" if self.image_caption else self.content


class Instant(msgspec.Struct, frozen=True, kw_only=True):
    """A speaker's clock reading: a calendar day with an order inside all clock readings, or a serial number.

    `day` counts from 1970-01-01 in the speaker's own calendar, `utc_us` are microseconds since
    1970-01-01T00:00Z (a reading without a zone counts as UTC), `offset_min` is the zone's offset if one was
    given. A serial number has only `serial`.
    """

    text: str
    day: int | None = None
    utc_us: int | None = None
    offset_min: int | None = None
    serial: int | None = None


class Interval(msgspec.Struct, frozen=True):
    """A closed range of days with the granularity in which it was said (QGMem section III-A1).

    `start` and `end` are `YYYY-MM-DD` days, both included.
    """

    start: dt.date
    end: dt.date
    granularity: Granularity


class Triple(msgspec.Struct, frozen=True):
    """The one structured fact of a unit, (subject, predicate, object)."""

    subject: str
    predicate: str
    object: str


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic claim with its indexes and its evidence (QGMem equation 1).

    `first` and `last` are the positions in the session of the first and last message the claim rests on,
    `source_ids` the ids of all of them, the most direct first (empty until it is stored). `current`
    says whether it states what holds now: False when a later unit of its trace replaced it, which only units
    of slots that have one value are; None when it is in no trace, or holds beside later ones. `trace_id` is
    the trace it is in.
    """

    fact_text: str
    triple: Triple | None = None
    entities: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    fact_time: tuple[Interval, ...] = ()
    first: int
    last: int
    id: str = ""
    source_ids: tuple[str, ...] = ()
    said_at: str | None = None
    current: bool | None = None
    trace_id: str | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """How one relation changed, and what holds now (QGMem equation 3).

    `relation_text` is "holder | slot", `trajectory` the history in one line, `states` are the claims, oldest
    first, each with its `source_ids` and `said_at`; `current`, the last of them, holds now, or held at the
    time that was asked for. Where no slot has one value, as in events that read alike, the others hold too.
    """

    id: str
    relation_text: str
    trajectory: str
    states: tuple[Unit, ...]
    current: Unit


class TimeConstraint(msgspec.Struct, frozen=True):
    """Days that a question asks about: when the fact happened, or when it was talked about."""

    kind: Literal["fact", "utterance"]
    interval: Interval


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question and the constraints parsed from it (QGMem section III-B1)."""

    text: str
    entities: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    times: tuple[TimeConstraint, ...] = ()


class ChannelHit(msgspec.Struct, frozen=True):
    """Where one channel placed an evidence: its rank from 1, and the channel's own score."""

    rank: int
    score: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence for a question.

    `score` is what it is ranked by, and means something only beside those of the same question. `text` is
    what was said, `facts` the claims found in it (best first), `source` the very messages it rests on, the
    most direct first, `said_at` and `fact_time` the two times, `channels` the place each channel gave it, and
    `reranker` among them the one the reranker gave it. `superseded` says that something claimed here was
    replaced by a later claim. What was said again in the same words is in `source` too. `neighbours` are the
    messages around it, if they were asked for.
    """

    rank: int
    score: float
    text: str
    speaker: str
    session: str
    source: tuple[Message, ...]
    said_at: str | None = None
    fact_time: tuple[Interval, ...] = ()
    facts: tuple[Unit, ...] = ()
    channels: dict[str, ChannelHit] = {}
    superseded: bool = False
    neighbours: tuple[Message, ...] = ()


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What a question activated: the parsed question, the evidence, best first, and the traces that facts of
    it are in.

    `answerable` is the probability that the memory holds the answer; None where no reranker model was asked.
    """

    query: Query
    evidence: tuple[Evidence, ...] = ()
    traces: tuple[Trace, ...] = ()
    answerable: float | None = None

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.evidence)

    def __len__(self) -> int:
        return len(self.evidence)

    def __getitem__(self, index: int) -> Evidence:
        return self.evidence[index]


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the raw history at its place: `position` in the session `session` of `source`.

    `rank` is the place, from 1, at which a question found it, None where it came with its segment.
    """

    message: Message
    session: str
    position: int
    source: str = ""
    rank: int | None = None


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Adjacent messages of one session with coherent content (DeferMem section 3.2), oldest first.

    `linked` says that no message of it was found: it came by its link to a segment with one. `cut` says that
    messages were left out for the budget.
    """

    utterances: tuple[Utterance, ...]
    linked: bool = False
    cut: bool = False


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate set of a question: raw history, segments in the order of time (DeferMem section 3.2).

    `tokens` are those of its messages' content. `truncated` says that segments or messages were left out for
    the budget.
    """

    query: Query
    segments: tuple[Segment, ...] = ()
    tokens: int = 0
    truncated: bool = False

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """All messages, segment by segment."""
        return tuple(one for segment in self.segments for one in segment.utterances)


class Distilled(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of distilled evidence: what a message says, told so that it can be understood alone.

    `faithful` says that every word of content in `info` comes from the message or from earlier ones of its
    segment.
    """

    info: str
    utterance: Utterance
    faithful: bool = True


class LocalGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The triples of a working memory as a directed graph (QGMem equation 5).

    `nodes` are labels of subjects and objects as they were first met, in that order. Edge i leads from node
    `sources[i]` to node `targets[i]`, and `relations[i]` is its predicate.
    """

    nodes: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    relations: tuple[str, ...] = ()


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A label that an answer names, `MU1` or `F1`, and the messages that the piece of evidence rests on."""

    label: str
    rank: int
    source: tuple[Message, ...]


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of an answer; `supported` says whether the evidence says what it says."""

    text: str
    supported: bool


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a backbone: of the prompt, those of them that did not have to be read again, and written."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a question, and what it rests on.

    `text` is never empty: where `abstained`, it says that the memory holds no answer. `reasoning_path` is
    what the backbone gave as its reason, empty without one. `citations` are the labels it names that exist,
    `unknown_labels` those that do not. `sentences` are those of `text`. `confidence` is the probability that
    the memory holds the answer, less where a part of the text is not supported. `graph_mode` is "token" when
    the backbone read a graph token, "text" when it read the text alone, "none" when it was not asked: then
    the text is a span of what was said. `timings` are seconds by step, `tokens` the backbone's.
    """

    text: str
    evidence: tuple[Evidence, ...] = ()
    reasoning_path: str = ""
    citations: tuple[Citation, ...] = ()
    unknown_labels: tuple[str, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    abstained: bool = False
    confidence: float = 0.0
    method: Literal["qgmem", "defermem", "both"] = "qgmem"
    graph_mode: Literal["token", "text", "none"] = "none"
    timings: dict[str, float] = {}
    tokens: Tokens = Tokens()


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What one `add` did.

    `ids` are the ids of the given messages in order; `stored` were new; `known` were there already;
    `conflicts` are the ids that were there with other content, which stays as it was.
    """

    session: str
    ids: tuple[str, ...]
    stored: int = 0
    known: int = 0
    units: int = 0
    conflicts: tuple[str, ...] = ()


class Prompt(msgspec.Struct, frozen=True):
    """What a language model is told: the system's part, and the user's with `$name` for values."""

    system: str
    user: str


class Rejection(msgspec.Struct, frozen=True):
    """What a check of construction refused: `stage` of QGMem appendix F1, reason code, and what it was.

    Reasons at "units": `bad_json`, `bad_id`, `bad_order`, `overlap_only`, `empty`, `too_long`, `dup`,
    `unsupported`; at "indexes": `bad_json`, `bad_id`, `missing_id`, `bad_time`, `unsupported`. `cut` is no
    refusal: a text or a reply was longer than there is room for, and what it was cut to was used.
    """

    stage: Literal["units", "indexes"]
    reason: str
    detail: str | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One window of construction work (QGMem appendix A1) and how it went.

    Its messages are the positions `first` to `end` (excluded) of the session, new from `new` on. `state` is
    "rules" or "done" when its units were made by rules or by the model `made_by`, "pending" when messages
    came since, "failed" when the model's answer could not be used: then its units are those of `made_by`.
    """

    session: str
    number: int
    first: int
    end: int
    new: int
    state: Literal["pending", "rules", "done", "failed"]
    made_by: str | None
    attempts: int
    error: str | None
    units: int
    rejections: tuple[Rejection, ...] = ()


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What a build did, or has done so far.

    Of `windows` to be built, `done` have new units, `failed` kept those they had, `passed` were changed by
    somebody else meanwhile; `units` were made, `rejected` counts the refused by reason. `emptied` are windows
    that had units and of which the model made none; `failed_before` those that failed earlier and wait for
    `retry`. Of `traces` to be told the model was asked for `told`, and `trajectories` could be used. The
    tokens are the model's.
    """

    windows: int = 0
    done: int = 0
    failed: int = 0
    passed: int = 0
    emptied: int = 0
    failed_before: int = 0
    units: int = 0
    rejected: dict[str, int] = {}
    traces: int = 0
    told: int = 0
    trajectories: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


class Reembedded(msgspec.Struct, frozen=True, kw_only=True):
    """What a `reembed` did, or has done so far.

    Of `vectors` that the file is to get from `encoder`, `done` are made: `made` by this call, the others by
    one that was stopped. `replaced` is the encoder whose vectors they take the place of; None when the file's
    vectors are of `encoder` already, and only what had none gets one.
    """

    encoder: str
    replaced: str | None = None
    vectors: int = 0
    done: int = 0
    made: int = 0


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of segments and links for the encoder of a file, and what they were found with.

    `threshold` is τ1, `link_threshold` τ2 (DeferMem section 4.3). `messages` make `segments` segments; what a
    message finds and is expanded to has `tokens` tokens on average, and the largest link group holds
    `largest_group` of all segments.
    """

    threshold: float
    link_threshold: float
    messages: int
    segments: int
    tokens: int
    largest_group: float


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in the file: how many messages, the first and the last clock reading, whose it is."""

    name: str
    source: str
    messages: int
    first_said: str | None
    last_said: str | None
    scope: Scope


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What made a file, the settings that shaped it, and how many rows it holds."""

    format: int
    memdb_version: str
    encoder_name: str
    encoder_sha256: str
    encoder_dimension: int
    settings: dict[str, float | int | str]
    counts: dict[str, int]


class Problem(msgspec.Struct, frozen=True):
    """One thing `verify` found wrong: the check's name, and what differs."""

    check: str
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` re-derived and compared: row counts, problems (none in a sound file), warnings.

    `search` says what searches the file here: "memdb0 1 (avx2)", or "sqlite-vec and FTS5" and why.
    """

    counts: dict[str, int]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    search: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

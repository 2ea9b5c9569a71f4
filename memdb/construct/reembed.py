"""All vectors anew, by another encoder: staged batch by batch in short transactions, then put to use at once.

Until then the file answers as before. What was staged is on disk, so a re-embedding that was killed goes on
where it was; rows that were added or replaced meanwhile are found by looking again before the switch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Final, TypeAlias

import msgspec

from memdb import errors, settings
from memdb.construct import segments, traces, views
from memdb.construct.traces import triple_text
from memdb.construct.vectors import Overtaken
from memdb.models.ports import AttentionScorer, Encoder
from memdb.records import Message, Reembedded
from memdb.store import codes, indexes, schema, staging
from memdb.store.connection import Connection, Database
from memdb.store.staging import Kind, Source

Progress: TypeAlias = Callable[[Reembedded], None]
Texts: TypeAlias = Mapping[int, Mapping[Kind, str]]  # what is encoded of a row, by its id

_SOURCES: Final[tuple[Source, ...]] = ("message", "unit", "label")
_TRIES: Final = 4  # looks for what is left before nobody may write while the last of it is encoded
_LOOKED_UP: Final = 8_192  # ids of rows looked up at once


def reembed(
    database: Database,
    encoder: Encoder,
    progress: Progress | None = None,
    scorer: AttentionScorer | None = None,
) -> Reembedded:
    """Make the file's vectors those of `encoder`; `progress` is told after each batch.

    Raises `Locked` where another encoder's re-embedding was begun meanwhile, and what the encoder raises:
    what was staged until then stays.
    """
    tally = _Tally(database, encoder, progress)
    while not _is_done(database, encoder):
        with contextlib.suppress(Overtaken):  # by a process with the same encoder: then see what is left
            _make_all(database, encoder, tally)
            break
    cleared = False
    while not cleared:
        with database.atomic() as connection:
            cleared = staging.clear(connection)
    with database.atomic() as connection:
        codes.repair(connection)
    segments.update(database, encoder, scorer)
    return tally.end()


class _Tally:
    """What a re-embedding has done so far."""

    def __init__(self, database: Database, encoder: Encoder, progress: Progress | None) -> None:
        self._database = database
        self._encoder = encoder
        self._progress = progress or (lambda done: None)
        with database.reader() as connection:
            before = schema.read_made(connection, database.path)
            same = schema.has_vectors_of(connection, encoder)
        self.done = Reembedded(encoder=encoder.name, replaced=None if same else before.encoder_name)

    def look(self) -> None:
        """Count again what there is to do."""
        with self._database.reader() as connection:
            found = staging.counts(connection)
            same = schema.has_vectors_of(connection, self._encoder)
        self._tell(vectors=found.wanted - (found.present if same else 0), done=found.staged)

    def count(self, vectors: int) -> None:
        """Add vectors that were made."""
        done = self.done.done + vectors
        self._tell(vectors=max(done, self.done.vectors), done=done, made=self.done.made + vectors)

    def end(self) -> Reembedded:
        """All is done."""
        self._tell(done=self.done.vectors)
        return self.done

    def _tell(self, **counts: int) -> None:
        before, self.done = self.done, msgspec.structs.replace(self.done, **counts)
        if self.done != before:
            self._progress(self.done)


def _is_done(database: Database, encoder: Encoder) -> bool:
    with database.reader() as connection:
        found = staging.counts(connection)
        return schema.has_vectors_of(connection, encoder) and found.present >= found.wanted


def _make_all(database: Database, encoder: Encoder, tally: _Tally) -> None:
    """Stage what there is to embed, and put it to use. Raises what `_require` raises."""
    ready = False
    while not ready:
        with database.atomic() as connection:
            ready = staging.begin(connection, encoder)
    for tries in count(1):
        tally.look()
        for source in _SOURCES:
            for ids in _batches(database, encoder, source):
                tally.count(_stage(database, encoder, source, ids))
        if _finish(database, encoder, last=tries >= _TRIES):
            return


def _batches(database: Database, encoder: Encoder, source: Source) -> Iterator[list[int]]:
    """The rows of a source that are to be embedded, REEMBED_BATCH_ROWS at a time.

    Those that are added after the last look are for another time: else somebody who keeps adding keeps it
    from ending.
    """
    after, ids = 0, [0] * _LOOKED_UP
    while len(ids) == _LOOKED_UP:
        with database.reader() as connection:
            _require(connection, encoder)
            of_another = not schema.has_vectors_of(connection, encoder)
            ids = staging.to_embed(connection, source, after, _LOOKED_UP, of_another=of_another)
        after = ids[-1] if ids else after
        for start in range(0, len(ids), settings.REEMBED_BATCH_ROWS):
            yield ids[start : start + settings.REEMBED_BATCH_ROWS]


def _stage(database: Database, encoder: Encoder, source: Source, ids: Sequence[int]) -> int:
    """Stage the vectors of some rows, but of those that were changed while they were encoded; how many."""
    with database.reader() as connection:
        texts = _texts(connection, source, ids)
    coded = _encoded(encoder, texts)
    with database.atomic() as connection:
        _require(connection, encoder)
        now = _texts(connection, source, ids)
        rows = [row for row_id, row in coded.items() if texts[row_id] == now.get(row_id)]
        staging.put(connection, chain.from_iterable(rows))
    return sum(map(len, rows))


def _texts(connection: Connection, source: Source, ids: Sequence[int]) -> Texts:
    """What is encoded of rows, as far as they are there."""
    if source == "message":
        return {one.message_id: {"message": _message_text(one)} for one in staging.said(connection, ids)}
    if source == "label":
        return {label_id: {"label": name} for label_id, name in staging.named(connection, ids)}
    texts: dict[int, dict[Kind, str]] = {}
    for unit_id, fact_text, triple in staging.claimed(connection, ids):
        texts[unit_id] = {"unit": fact_text}
        if triple is not None:
            texts[unit_id]["triple"] = triple_text(triple)
    return texts


def _message_text(said: staging.Said) -> str:
    own = Message(said.speaker, said.content, image_caption=said.image_caption)
    before = [] if said.before is None else [Message("", said.before)]
    return views.dense_text([*before, own], len(before))


def _encoded(encoder: Encoder, texts: Texts) -> dict[int, list[tuple[Kind, int, bytes]]]:
    """The rows of the staging table, by id; what reads alike is encoded once."""
    distinct = list(dict.fromkeys(text for kinds in texts.values() for text in kinds.values()))
    found = indexes.code(encoder.encode(distinct), indexes.vector_scale(encoder.dimension))
    codes = {text: code.tobytes() for text, code in zip(distinct, found, strict=True)}
    return {
        row_id: [(kind, row_id, codes[text]) for kind, text in kinds.items()]
        for row_id, kinds in texts.items()
    }


def _finish(database: Database, encoder: Encoder, *, last: bool) -> bool:
    """Put what is staged to use, in one transaction; False if there are rows it knows nothing of.

    At `last` a batch of them is encoded while nobody may write, so that others who keep adding do not keep
    it from ending.
    """
    with database.atomic() as connection:
        _require(connection, encoder)
        most, of_another = settings.REEMBED_BATCH_ROWS, not schema.has_vectors_of(connection, encoder)
        for source in _SOURCES:
            left = staging.to_embed(connection, source, 0, most + 1, of_another=of_another)
            if left and (not last or len(left) > most):
                return False
            if not left:
                continue
            coded = _encoded(encoder, _texts(connection, source, left))
            staging.put(connection, chain.from_iterable(coded.values()))
        staging.switch(connection, encoder)
        traces.name_anew(connection)
    return True


def _require(connection: Connection, encoder: Encoder) -> None:
    """Raise Overtaken when another process has put what was staged to use, `Locked` when one has begun to
    re-embed with another encoder.
    """
    staged_by = staging.staged_by(connection)
    if staged_by is None and schema.has_vectors_of(connection, encoder):
        raise Overtaken(encoder.name)
    if staged_by != encoder.sha256:
        raise errors.Locked(
            f"the file is being re-embedded with another encoder than {encoder.name}",
            hint="what was made with this one is given up; let one of them finish",
        )

"""Memory files of any size, made fast: what `corpus` draws, through memdb's own store, in large transactions.

Traps: the claims are no rules' but say so (`made_by`), no message is in a segment, and no claim in a trace:
both would take longer to make than all the rest, and what is measured with these files asks for neither.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from memdb.construct import derive
from memdb.construct.admit import Admitted
from memdb.construct.pipeline import SessionRow
from memdb.construct.windows import window_of
from memdb.errors import InputError
from memdb.language.clock import parse_instant
from memdb.models.ports import Encoder
from memdb.records import Axis, Scope
from memdb.settings import WINDOW_MESSAGES, WINDOW_OVERLAP
from memdb.store import derived, indexes, rows, schema, traces, windows
from memdb.store.connection import Connection, Database

from .corpus import BLOCK, Corpus, Session

MADE_BY: Final = "model synthetic prompts 00000000"
VERSION: Final = 1  # of what is written: counts up when it changes, so that no older file is taken for it
_STEP: Final = WINDOW_MESSAGES - WINDOW_OVERLAP


def parse_sizes(text: str) -> list[int]:
    """`10k,1m` as numbers of messages. Raises InputError for what is none."""
    sizes = []
    for part in filter(None, text.lower().replace(" ", "").split(",")):
        digits, factor = part.rstrip("km"), 1_000 ** (part.endswith("k") + 2 * part.endswith("m"))
        if not digits.isdecimal() or int(digits) < 1 or len(part) > len(digits) + 1:
            raise InputError(f"{part!r} is no number of messages", hint="give some like 10k,100k,1m")
        sizes.append(int(digits) * factor)
    return sizes


class Writer:
    """Writes sessions into one file; each label gets its vector when it first comes up."""

    def __init__(self, database: Database, corpus: Corpus) -> None:
        self._database, self._corpus = database, corpus
        self._scale = indexes.vector_scale(corpus.dimension)
        self._labels: dict[tuple[Axis, str], int] = {}
        self._rng = np.random.default_rng((corpus.seed, 1 << 32))

    def write(self, sessions: list[Session]) -> None:
        """All of them in one transaction."""
        with self._database.atomic() as connection:
            scope_id = rows.put_scope(connection, Scope())
            speakers = Counter(one.speaker for session in sessions for one in session.messages)
            rows.count_speakers(connection, scope_id, speakers)
            for session in sessions:
                self._session(connection, scope_id, session)

    def _session(self, connection: Connection, scope_id: int, session: Session) -> None:
        session_id = rows.put_session(connection, scope_id, "", session.name)
        admitted = [Admitted(one, parse_instant(one.said_at or "")) for one in session.messages]
        codes = self._codes(session.message_vectors)
        placed: dict[int, tuple[int, int]] = {}
        for position, (message, instant) in enumerate(admitted):
            message_id = rows.put_message(connection, scope_id, session_id, position, message, instant)
            low = max(0, position - derive.TAIL)
            terms = derive.message_terms(admitted[low : position + derive.TAIL], position - low)
            indexes.put_message_terms(connection, message_id, terms)
            key = rows.said_key(instant)
            indexes.put_message_vector(connection, message_id, scope_id, key, codes[position])
            placed[position] = message_id, key
        self._windows(connection, session_id, len(admitted))
        self._units(connection, SessionRow(session_id, scope_id, placed), session, admitted)

    def _windows(self, connection: Connection, session_id: int, length: int) -> None:
        for number in range(window_of(length - 1) + 1):
            first = number * _STEP
            bounds = first, min(first + WINDOW_MESSAGES, length), first + WINDOW_OVERLAP * bool(number)
            windows.put_window(connection, session_id, number, bounds)
            work = windows.Work(session_id, number, *bounds, "rules", None, 0, 0, "")
            windows.finish(connection, work, MADE_BY, is_model=True)

    def _units(
        self, connection: Connection, row: SessionRow, session: Session, admitted: list[Admitted]
    ) -> None:
        facts, triples = self._codes(session.fact_vectors), self._codes(session.triple_vectors)
        scope_id = row.scope_id
        for position, unit in enumerate(session.units):
            message_id, key = row.messages[position]
            window = window_of(position)
            unit_id = rows.put_unit(connection, scope_id, row.session_id, window, message_id, unit)
            near = admitted[max(0, position - derive.TAIL) : position + 1]
            indexes.put_unit_terms(connection, unit_id, derive.unit_terms(unit, near, position))
            indexes.put_unit_vector(connection, unit_id, scope_id, key, facts[position])
            traces.put_triple_vector(connection, unit_id, scope_id, triples[position])
            for label in rows.unit_labels(unit):
                rows.put_unit_label(connection, self._label(connection, label), unit_id)

    def _label(self, connection: Connection, label: tuple[Axis, str]) -> int:
        known = self._labels.get(label)
        if known is None:
            known, _ = rows.put_label(connection, *label)
            self._labels[label] = known
            (code,) = self._codes(self._corpus.vectors(self._rng, 1))
            indexes.put_label_vector(connection, known, label[0], code)
        return known

    def _codes(self, vectors: NDArray[np.float32]) -> list[bytes]:
        return [code.tobytes() for code in indexes.code(vectors, self._scale)]


def make(path: Path, size: int, corpus: Corpus, encoder: Encoder) -> None:
    """A new file of `size` messages, and as many claims, that opens with `encoder`."""
    database = Database(path)
    try:
        schema.prepare(database, schema.made_by(encoder))
        writer = Writer(database, corpus)
        blocks = range(-(-size // BLOCK))
        for number in track(blocks, f"{size:,} messages", disable=not sys.stderr.isatty()):
            writer.write(shortened(corpus.block(number), size - number * BLOCK))
        derived.complete(database)
    finally:
        database.close()


def shortened(sessions: list[Session], most: int) -> list[Session]:
    """The first sessions of at most so many messages, the last one cut to what is left."""
    kept = []
    for session in sessions:
        if most <= 0:
            break
        kept.append(session.first(most))
        most -= len(session.messages)
    return kept


class Files:
    """Files by size in a folder: what is there is used, with what this version keeps besides; what is not is
    made.
    """

    def __init__(self, folder: Path, encoder: Encoder, seed: int = 0) -> None:
        self.folder, self.encoder, self.seed = folder, encoder, seed
        self._corpus: Corpus | None = None
        self._complete: set[Path] = set()

    @property
    def corpus(self) -> Corpus:
        """What they are drawn from; made at its first use, since it encodes sentences."""
        self._corpus = self._corpus or Corpus(self.encoder, self.seed)
        return self._corpus

    def path(self, size: int) -> Path:
        """The file of `size` messages."""
        name = f"speed-{VERSION}-{self.encoder.sha256[:8]}-{self.seed}-{size}.memdb"
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            for end in ("", "-wal", "-shm"):
                part.with_name(part.name + end).unlink(missing_ok=True)
            make(part, size, self.corpus, self.encoder)
            part.rename(path)
        elif path not in self._complete:
            with closing(Database(path)) as database:
                derived.complete(database)
        self._complete.add(path)
        return path

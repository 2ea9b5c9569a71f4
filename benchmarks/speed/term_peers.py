"""Other ways to the best rows by words: tantivy and bm25s, over the terms of a file's messages.

Each is given one text for a message, the terms of all its fields: as many postings as memdb's index has. Both
know one field and BM25 of their own, so their order is not ours. tantivy stems, as memdb's index does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from memdb import Message
from memdb.construct import derive
from memdb.construct.admit import Admitted
from memdb.language.clock import parse_instant
from memdb.store.connection import Database

Search = Callable[[Sequence[str], int], int]  # terms and k -> how many were found
BM25S_MOST: Final = 100_000  # messages; of a million it needs an hour and more memory than most machines have
_HEAP: Final = 256 << 20
_MESSAGES: Final = "SELECT session_id, speaker, content, said_text FROM message ORDER BY session_id, position"


def indexed_texts(path: Path) -> Iterator[str]:
    """The terms that each message of a file is indexed by, all fields in one text."""
    with closing(Database(path, read_only=True)) as database, database.reader() as connection:
        rows: Any = connection.execute(_MESSAGES)
        for _, session in groupby(rows, key=lambda row: row[0]):
            admitted = [
                Admitted(Message(speaker, content, said), None if said is None else parse_instant(said))
                for _, speaker, content, said in session
            ]
            for position in range(len(admitted)):
                low = max(0, position - derive.TAIL)
                fields = derive.message_terms(admitted[low : position + derive.TAIL], position - low)
                yield " ".join(fields.values())


def tantivy(texts: Iterable[str], size: int) -> Search:
    """An index in memory, written by one thread, which may skip rows that cannot be among the best."""
    library: Any = importlib.import_module("tantivy")
    schema = library.SchemaBuilder().add_text_field("body", stored=False, tokenizer_name="en_stem").build()
    index = library.Index(schema)
    writer = index.writer(_HEAP, 1)
    for text in texts:
        writer.add_document(library.Document(body=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(terms: Sequence[str], k: int) -> int:
        query = index.parse_query(" ".join(f'"{term}"' for term in terms), ["body"])
        return len(searcher.search(query, k, count=False).hits)

    return search


def bm25s(texts: Iterable[str], size: int) -> Search:
    """Scores made beforehand. Raises ValueError where making them takes too long."""
    if size > BM25S_MOST:
        raise ValueError(f"its index is made for at most {BM25S_MOST:,} messages")
    library: Any = importlib.import_module("bm25s")
    index = library.BM25(method="lucene", k1=1.2, b=0.75)
    index.index([text.split() for text in texts], show_progress=False)

    def search(terms: Sequence[str], k: int) -> int:
        ids, _ = index.retrieve([list(terms)], k=min(k, size), show_progress=False, n_threads=0)
        return len(ids[0])

    return search


# By the name of the module that has to be installed.
PEERS: Final[dict[str, Callable[[Iterable[str], int], Search]]] = {"tantivy": tantivy, "bm25s": bm25s}

"""What searches are faster with and a file of an earlier version lacks: codes of vectors, lengths of rows.

Each write brings both up to date with what it changes, and codes a few chunks more; here it is done at once.
"""

from __future__ import annotations

from memdb.store import codes, lengths
from memdb.store.connection import Database


def complete(database: Database) -> None:
    """Make what is missing, in transactions of bounded length. Nothing is found differently for it."""
    with database.reader() as connection:
        if not codes.lacking(connection) and not lengths.lacking(connection):
            return
    more = True
    while more:
        with database.atomic() as connection:
            more = codes.keep(connection)
    with database.atomic() as connection:
        lengths.complete(connection)

"""Taking rows out of the file: out of their table and out of everything that was made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from memdb.store import codes, lengths, staging
from memdb.store.statements import statement


def erase_units(connection: apsw.Connection, units: Sequence[int]) -> list[int]:
    """Remove units that are in no trace, with their terms, vectors (staged ones too), intervals and labels.

    Returns the labels they carried: those that no unit carries afterwards are for `erase_labels`.
    """
    ids = json.dumps(list(units))
    rows = [(unit_id,) for unit_id in units]
    for name in ("delete_unit_terms", "delete_triple_vector"):
        connection.executemany(statement(name), rows)
    codes.delete(connection, "unit_vector", statement("delete_unit_vector"), units)
    for unit_id in units:
        lengths.changed(connection, "unit_terms", unit_id)
    staging.erase(connection, ("unit", "triple"), units)
    labels = [int(label_id) for (label_id,) in connection.execute(statement("labels_of_units"), (ids,))]
    for name in ("delete_unit_labels", "delete_unit_intervals", "delete_units"):
        connection.execute(statement(name), (ids,))
    return labels


def erase_labels(connection: apsw.Connection, labels: Sequence[int]) -> None:
    """Remove those of `labels` that no unit carries."""
    unused: Any = connection.execute(statement("unused_labels"), (json.dumps(list(labels)),)).fetchall()
    ids = [label_id for (label_id,) in unused]
    codes.delete(connection, "label_vector", statement("delete_label_vector"), ids)
    staging.erase(connection, ("label",), ids)
    connection.executemany(statement("delete_label"), unused)

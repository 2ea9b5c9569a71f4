"""A model that reads its prompt, talk it understands, and everything a file holds, row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from memdb.construct.admit import admit
from memdb.construct.extract import Prompts, Stretch
from memdb.generate.prompts import prompt
from memdb.models.fakes import ScriptedBackbone
from memdb.models.ports import Turn
from memdb.records import Message
from memdb.store.connection import load_vectors

Schema = Mapping[str, object] | None
PROMPTS = Prompts(prompt("units"), prompt("indexes"))
LINE = re.compile(r"^(NEW|OVERLAP)\w+ \[(M\d+)\] time: (\S+) (\w+): (.*)$", re.MULTILINE)
MOVED = re.compile(r"I moved to (\w+)( yesterday)?\.")
CITIES = "Porto Rome Oslo Lima Turin Paris Basel Cairo Delhi Kyoto Quito Seoul Tunis".split()
# What rules and the reader make of it differs: rules also see the cats.
TALK = [
    Message(
        "Ana" if number % 2 == 0 else "Ben",
        f"I moved to {city}{' yesterday' * (number % 3 == 0)}. My cat is called Pepper{number}.",
        f"2024-01-{number + 10:02}",
        id=f"m{number}",
    )
    for number, city in enumerate(CITIES)
]


def stage(schema: Schema) -> str:
    """Which question a schema belongs to: units, indexes or trajectory."""
    text = json.dumps(schema)
    return "trajectory" if '"trajectory"' in text else "indexes" if "memory_unit_id" in text else "units"


def first_id(turns: Sequence[Turn]) -> str:
    """The id of the first message of the window a prompt is about."""
    found = re.search(r"^Messages: (M\d+) to", turns[1].text, re.MULTILINE)
    assert found is not None
    return found[1]


def unit(start: str, end: str, fact: str, *triple: str) -> dict[str, Any]:
    """A unit as stage 1 gives it."""
    named = dict(zip(("subject", "predicate", "object"), triple, strict=True))
    return {"start_turn": start, "end_turn": end, "fact_text": fact, "triple": named}


def listed(*items: Mapping[str, Any]) -> str:
    """A reply of stage 1 or 2."""
    return json.dumps({"memory_units": items})


def reads(turns: Sequence[Turn], schema: Schema) -> str:
    """What a careful model says: who moved where, and when, if that is said."""
    if stage(schema) == "units":
        return listed(
            *(
                unit(id, id, f"{speaker} lives in {moved[1]}.", speaker, "lives in", moved[1])
                for flag, id, _, speaker, text in LINE.findall(turns[1].text)
                if flag == "NEW" and (moved := MOVED.search(text))
            )
        )
    shown = json.loads(
        turns[1].text.split("MEMORY_UNITS", 1)[1].partition(":\n")[2].partition("\n\nShape")[0]
    )
    if stage(schema) == "trajectory":
        return json.dumps({"trajectory": "First " + " Then ".join(one["fact_text"] for one in shown)})
    return listed(*(_indexes(one) for one in shown))


def _indexes(shown: Mapping[str, str]) -> dict[str, Any]:
    person, city = shown["fact_text"].rstrip(".").split(" lives in ")
    day = shown["utterance_time"][:8] + f"{int(shown['utterance_time'][8:]) - 1:02}"
    times = (
        [{"start": day, "end": day, "granularity": "day"}] if "yesterday" in shown["evidence_text"] else []
    )
    return {
        "memory_unit_id": shown["memory_unit_id"],
        "entities": [person],
        "locations": [city],
        "time": times,
    }


def reader(**options: Any) -> ScriptedBackbone:
    """A model that `reads`."""
    return ScriptedBackbone(reads, **options)


def saying(text: str, **options: Any) -> ScriptedBackbone:
    """A model that says one thing to every question."""
    return ScriptedBackbone(lambda turns, schema: text, **options)


def stretch_of(*said: Message, new: int = 0, first: int = 0, session: str = "s") -> Stretch:
    """A window over messages, new from the one at position `new` on."""
    return Stretch(session, first, new, admit(said), (), ())


TABLES = (
    "meta scope session message speaker window rejection unit unit_interval label unit_label trace trace_unit"
)
VECTORS = "message_vector unit_vector triple_vector label_vector"
SEGMENTS = "segment segment_link segment_vector"


def everything(path: Path) -> dict[str, list[Any]]:
    """Every row of a memory, ids included, with its terms and its vectors, and what tables there are."""
    connection = apsw.Connection(str(path))
    load_vectors(connection)
    found = {
        name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr)
        for name in f"{TABLES} {VECTORS} {SEGMENTS}".split()
    }
    found["tables"] = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    for name in ("message_terms", "unit_terms"):
        connection.execute(f"CREATE VIRTUAL TABLE temp.v_{name} USING fts5vocab(main, {name}, instance)")
        found[name] = sorted(connection.execute(f"SELECT * FROM temp.v_{name}"), key=repr)
    connection.close()
    return found


def differing(path: Path, expected: Mapping[str, list[Any]]) -> list[str]:
    """The tables in which a memory holds other rows than expected."""
    found = everything(path)
    return [name for name in expected if found[name] != expected[name]]


def facts(path: Path) -> list[str]:
    """The claims of a memory, in the order of its windows."""
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT fact_text FROM unit ORDER BY session_id, window_no, number").fetchall()
    connection.close()
    return [text for (text,) in found]

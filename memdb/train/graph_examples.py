"""x"""
from __future__ import annotations
import json
import msgspec
from memdb.records import LocalGraph
class Example(msgspec.Struct, frozen=True, kw_only=True):
    case: str
    question: str
    memory: str
    graph: LocalGraph
    target: str
    question_time: str | None = None
def target(reasoning_path: str, answer: str) -> str:
    return json.dumps({"reasoning_path": reasoning_path, "answer": answer}, ensure_ascii=False)

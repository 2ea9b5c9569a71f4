"""Patterns are compiled at their first use, and every one of them can be."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from memdb.language import patterns
from memdb.language.patterns import lazy


def _all_lazy() -> Iterator[tuple[str, object]]:
    for room in ("language", "construct", "activate", "generate"):
        package = importlib.import_module(f"memdb.{room}")
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if found.name == "memdb.generate.graph_token":  # needs torch
                continue
            for name, value in vars(importlib.import_module(found.name)).items():
                if isinstance(value, patterns._Lazy):
                    yield f"{found.name}.{name}", value


def test_every_pattern_of_memdb_compiles() -> None:
    found = dict(_all_lazy())
    assert len(found) > 80
    for name, pattern in found.items():
        assert isinstance(pattern.pattern, str), name  # type: ignore[attr-defined]


def test_a_pattern_does_what_the_compiled_one_does() -> None:
    one, other = lazy(r"(?P<word>b\w*)", re.IGNORECASE), re.compile(r"(?P<word>b\w*)", re.IGNORECASE)
    text = "A Bee, a bat; a cat"
    assert one.search(text)["word"] == other.search(text)["word"]  # type: ignore[index]
    assert one.findall(text) == other.findall(text)
    assert one.sub("x", text) == other.sub("x", text)
    assert one.split(text) == other.split(text)
    assert one.match(text, 2, 4)[0] == "Be"  # type: ignore[index]
    assert one.groupindex == other.groupindex


def test_a_pattern_is_compiled_once_and_only_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile
    monkeypatch.setattr(patterns.re, "compile", lambda *given: compiled.append(given[0]) or real(*given))
    pattern = lazy("ab+")
    assert compiled == []
    assert pattern.search("abb") is not None
    assert pattern.fullmatch("a") is None
    assert compiled == ["ab+"]


def test_a_wrong_pattern_is_told_at_its_first_use() -> None:
    pattern = lazy("(")
    with pytest.raises(re.error):
        pattern.search("")

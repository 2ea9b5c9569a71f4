from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

import memdb
from memdb.errors import InputError
from memdb.serve.benching import find_bench


def test_options_reach_the_benchmark(cli, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "memdb.serve.benching.find_bench", lambda: lambda *args, **more: seen.append((args, more)) or 0
    )
    options = [
        "--out",
        "o.sqlite",
        "--plot",
        "p.png",
        "--limit",
        "5",
        "--keep",
        "k",
        "--json",
        "--sizes",
        "6k",
        "--ablate",
        "--depths",
        "0,20",
        "--haystack",
        "48",
        "--answers",
        "--llm",
        "m.gguf",
        "--graph",
        "g",
        "--judge",
        "openai:j",
        "--judgings",
        "3",
        "--defermem",
        "--grid",
    ]
    channels = ["--channels", "unit_dense", "--channels", "message_dense,message_lexical"]
    assert cli("bench", "locomo", "--data", "d", *options, *channels).exit_code == 0
    expected = {
        "out": Path("o.sqlite"),
        "plot": Path("p.png"),
        "limit": 5,
        "keep": Path("k"),
        "json": True,
        "sizes": "6k",
        "ablate": True,
        "depths": "0,20",
        "haystack": 48,
        "answers": True,
        "llm": "m.gguf",
        "graph": "g",
        "judge": "openai:j",
        "judgings": 3,
        "defermem": True,
        "grid": True,
        "channels": ("unit_dense", "message_dense,message_lexical"),
    }
    assert seen == [(("locomo", Path("d")), expected)]


def test_its_status_is_the_exit_code_and_data_has_a_default(cli, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "memdb.serve.benching.find_bench", lambda: lambda name, data, **_: seen.append(data) or 2
    )
    monkeypatch.setenv("MEMDB_DATA", "from-the-environment")
    assert cli("bench", "locomo").exit_code == 2
    assert seen == [Path("from-the-environment")]


def test_no_width_hides_its_tables(cli, monkeypatch):
    monkeypatch.setattr(
        "memdb.serve.benching.find_bench", lambda: lambda *_, **__: Console().print("a table") or 0
    )
    monkeypatch.setenv("COLUMNS", "0")
    assert cli("bench", "locomo").stdout == "a table\n"


def test_the_real_one_says_what_is_missing(finished, tmp_path):
    status, out, err = finished("bench", "locomo", "--data", tmp_path, cwd=tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("memdb: no data for locomo: ")
    assert "; hint: " in err
    assert not list(tmp_path.iterdir())


def test_it_is_found_beside_the_package_whatever_else_has_its_name(finished, tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from memdb.serve.benching import find_bench\nprint(sys.modules[find_bench().__module__].__file__)"
    )
    status, out, err = finished(code=code)
    assert (status, err) == (0, "")
    assert Path(out.strip()).samefile(Path(memdb.__file__).parents[1] / "benchmarks" / "quality" / "run.py")


def test_it_is_found_where_the_checkout_is_not_on_the_path(finished):
    code = (
        "import sys, memdb.serve.benching as benching\n"
        "root = str(benching.PACKAGE.parent)\n"
        "sys.path[:] = [entry for entry in sys.path if entry not in ('', root)]\n"
        "print(benching.find_bench().__name__)"
    )
    assert finished(code=code, cwd="/") == (0, "bench\n", "")


def test_it_is_found_inside_an_installed_package(tmp_path, monkeypatch):
    for folder in ("benchmarks", "benchmarks/quality"):
        (tmp_path / "memdb" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "memdb" / folder / "__init__.py").touch()
    (tmp_path / "memdb/benchmarks/quality/run.py").write_text("def bench(*_, **__):\n    return 42\n")
    monkeypatch.setattr(memdb, "__path__", [str(tmp_path / "memdb"), *memdb.__path__])
    try:
        assert find_bench(tmp_path / "memdb")() == 42
    finally:
        for name in [name for name in sys.modules if name.startswith("memdb.benchmarks")]:
            del sys.modules[name]


def test_without_benchmarks(tmp_path):
    with pytest.raises(InputError, match="the benchmarks are not installed"):
        find_bench(tmp_path / "memdb")


def test_speed_takes_rows_and_the_others_do_not(cli, monkeypatch):
    seen = []

    def found(kind="quality"):
        return lambda name, data, **more: seen.append((kind, name, more.get("only"))) or 0

    monkeypatch.setattr("memdb.serve.benching.find_bench", found)
    assert cli("bench", "speed", "--only", "hybrid", "--only", "cold").exit_code == 0
    assert cli("bench", "encode").exit_code == 0
    assert cli("bench", "locomo").exit_code == 0
    assert seen == [
        ("speed", "speed", ("hybrid", "cold")),
        ("speed", "encode", ()),
        ("quality", "locomo", None),
    ]
    refused = cli("bench", "locomo", "--only", "cold")
    assert refused.exit_code != 0
    assert len(seen) == 3

"""Architecture and house rules, read from the source: layers, fences, numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "memdb"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))

# A room may import the rooms below it. Rooms on one line are strangers to each other.
LEVELS = [
    {"errors", "version"},
    {"records", "settings"},
    {"language"},
    {"store", "models"},
    {"construct", "activate"},
    {"generate"},
    {"upkeep"},
    {"memory"},
    {"opening"},
    {"train", "importers"},
    {"serve"},
    {"__main__"},
]
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}

# Only these files may import these libraries.
FENCES = {
    "apsw": ("store/",),
    "sqlite_vec": (),
    "onnxruntime": ("models/onnx.py",),
    "tokenizers": ("models/onnx.py", "train/"),
    "llama_cpp": ("models/llama",),
    "gguf": ("models/gguf_file.py", "train/backbone.py"),
    "jinja2": ("models/chat_template.py",),
    "torch": ("generate/graph_token.py", "models/export.py", "train/"),
    "transformers": ("train/",),
    "peft": ("train/",),
    "trl": ("train/distillpo_trl.py",),
    "torch_geometric": ("generate/graph_token.py", "train/"),
    "openai": ("models/openai.py",),
    "httpx2": ("models/openai.py", "models/endpoint.py"),
    "huggingface_hub": ("models/registry.py",),
    "click": ("serve/",),
    "rich": ("serve/", "train/"),
    "pickle": (),
    "sqlite3": (),
}
# Libraries that cost much to load, or that the core must do without: never imported by loading a module.
LATE = {
    "onnxruntime",
    "tokenizers",
    "torch",
    "torch_geometric",
    "transformers",
    "peft",
    "trl",
    "llama_cpp",
    "gguf",
    "jinja2",
    "openai",
    "httpx2",
    "huggingface_hub",
    "dateparser",
}
# Files that may load them all the same, because no other file loads these when it is loaded.
REFERENCE = {
    "generate/graph_token.py": {"torch", "torch_geometric"},
    "train/distillpo_trl.py": {"torch", "trl"},
}


def _imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Imported modules, and whether loading the file imports them."""
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node not in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node not in late
            yield from ((f"{node.module}.{alias.name}", node not in late) for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_imports_go_down_only(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    room = _room(path)
    for module, _ in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        parts = module.split(".")
        if parts[0] != "memdb" or len(parts) < 2 or parts[1] not in LEVEL:
            continue
        below = parts[1]
        assert below == room or LEVEL[below] < LEVEL[room], f"{room} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_libraries_stay_behind_their_fences(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    for module, at_load in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        library = module.split(".")[0]
        if library in FENCES:
            assert any(place.startswith(allowed) for allowed in FENCES[library]), f"{place} imports {library}"
        late = LATE - REFERENCE.get(place, set())
        assert not (at_load and library in late), f"{place} imports {library} when it is loaded"


@pytest.mark.parametrize("path", SOURCES + BENCHMARKS, ids=_ids)
def test_no_module_loads_what_loads_torch(path: Path) -> None:
    names = {".".join(("memdb", *Path(place).with_suffix("").parts)) for place in REFERENCE}
    for module, at_load in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (at_load and module in names), f"{path.name} imports {module} when it is loaded"


def test_modules_import_each_other_without_cycles() -> None:
    graph = {}
    for path in SOURCES:
        name = ".".join(("memdb", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        graph[name] = {
            module for module, at_load in _imports(ast.parse(path.read_text(encoding="utf-8"))) if at_load
        }
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for module in graph[name]:
                if module in graph and module != name:
                    walk(module, (*above, name))
            done.add(name)

    for name in graph:
        if name != "memdb":
            walk(name, ())


_SQL = re.compile(
    r"^\s*(?:SELECT\s|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(?:VIRTUAL\s+)?TABLE|PRAGMA\s)"
)


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_sql_stands_in_the_store_only(path: Path) -> None:
    if _room(path) == "store":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not _SQL.match(node.value), f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", SOURCES + BENCHMARKS, ids=_ids)
def test_house_numbers(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 500, "a file has at most 500 lines"
    assert not [n for n, line in enumerate(lines, 1) if len(line) > 110], "a line has at most 110 characters"
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} has more than 60 lines"


def test_most_functions_are_short() -> None:
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert lengths[int(len(lengths) * 0.9)] <= 31


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_no_blanket_except_outside_serve_no_eval_no_unpickling(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler) and _room(path) != "serve":
            names = (
                {inner.id for inner in ast.walk(node.type) if isinstance(inner, ast.Name)}
                if node.type
                else set()
            )
            blanket = node.type is None or names & {"Exception", "BaseException"}
            assert not blanket or _reraises(node), f"{path.name}:{node.lineno} swallows"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec", "compile", "__import__"}


def _reraises(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_no_room_is_called_after_nothing() -> None:
    refused = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in refused]


def test_tests_are_as_long_as_the_code() -> None:
    def lines(paths: list[Path]) -> int:
        return sum(
            bool(line.strip()) for path in paths for line in path.read_text(encoding="utf-8").splitlines()
        )

    assert lines(TESTS) >= lines(SOURCES)


_ELSEWHERE = re.compile(r"(^|[^a-z.])/(w[o]rk|f[a]rm)/|/t[m]p/[a-z]|\.\./s[h]ared|index-u[r]l")


def test_the_repository_names_no_machine() -> None:
    kept = [
        p
        for folder in ("memdb", "tests", "benchmarks", "docs", "examples")
        for p in (ROOT / folder).rglob("*")
    ]
    for path in [*kept, *ROOT.glob("*.md"), ROOT / "schema.sql", ROOT / "pyproject.toml"]:
        if path.suffix in {".py", ".md", ".sql", ".toml", ".json"} and path.is_file():
            assert not _ELSEWHERE.search(path.read_text(encoding="utf-8")), path

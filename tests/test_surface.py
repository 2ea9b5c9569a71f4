"""The public door: what `import memdb` gives, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import memdb
from memdb import errors, records

DOCS = Path(__file__).parents[1] / "docs"


def test_all_is_sorted_complete_and_about_twenty() -> None:
    assert memdb.__all__ == sorted(memdb.__all__)
    assert all(hasattr(memdb, name) for name in memdb.__all__)
    assert len(memdb.__all__) <= 27


def test_names_that_outside_programs_rely_on() -> None:
    message = inspect.signature(memdb.Message).parameters
    assert list(message) == ["speaker", "content", "said_at", "id", "role", "image_caption", "location"]
    opened = inspect.signature(memdb.open).parameters
    assert next(iter(opened)) == "path"
    assert {"scope", "read_only"} <= set(opened)
    recall = inspect.signature(memdb.Memory.recall).parameters
    assert list(recall)[1:3] == ["question", "k"]
    assert {"at", "as_of", "scope"} <= set(recall)
    assert recall["k"].default == 10
    assert "session" in inspect.signature(memdb.Memory.add).parameters
    assert {"rank", "score", "text", "source", "said_at", "fact_time", "speaker", "channels"} <= set(
        records.Evidence.__struct_fields__
    )


def test_the_drawn_error_tree_is_the_real_one() -> None:
    drawn = {
        word for line in (errors.__doc__ or "").splitlines() for word in line.replace("│", " ").split()[:3]
    }
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.MemdbError):
            assert name in drawn, f"{name} is not drawn"
            assert kind.__doc__


def test_every_public_name_is_documented() -> None:
    text = (DOCS / "tour.md").read_text(encoding="utf-8") + (DOCS / "errors.md").read_text(encoding="utf-8")
    assert not [name for name in memdb.__all__ if name not in text and not name.startswith("__")]


def _modules_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_neither_sqlite_nor_numpy_nor_a_model() -> None:
    loaded = _modules_after("import memdb")
    assert not {"apsw", "numpy", "onnxruntime", "tokenizers", "torch", "click", "rich"} & loaded


def test_opening_add_and_recall_load_no_torch() -> None:
    code = (
        "import memdb, tempfile, os\n"
        "path = os.path.join(tempfile.mkdtemp(), 'm.memdb')\n"
        "with memdb.open(path) as m:\n"
        "    m.add([memdb.Message('Ana', 'I live in Oslo.')])\n"
        "    assert m.recall('Where do I live?')[0].text == 'I live in Oslo.'"
    )
    loaded = _modules_after(code)
    assert "onnxruntime" in loaded
    assert (
        not {"torch", "torch_geometric", "transformers", "llama_cpp", "huggingface_hub", "sqlite3"} & loaded
    )

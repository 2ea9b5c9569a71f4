"""The kernels against the plainest sums, on this processor and, under emulation, on one with NEON.

qemu-user knows no AVX-512: those kernels are compared where the processor has the instructions.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def _headers(folder: Path) -> Path:
    """SQLite's two headers alone: a cross compiler must not see the others beside them."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is not installed")
    include = "#include <sqlite3ext.h>"
    command = ["cc", "-M", "-xc", "-"]
    told = subprocess.run(command, input=include, text=True, capture_output=True, check=False)
    if told.returncode != 0:
        pytest.skip("there is no sqlite3ext.h")
    for name in re.findall(r"\S+/sqlite3(?:ext)?\.h", told.stdout):
        shutil.copy(name, folder)
    return folder


def _compared(compiler: str, folder: Path, *emulator: str) -> list[str]:
    """The kernels that were compared and found right."""
    program = folder / "kernels"
    flags = ["-std=c11", "-O2", "-static", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    sources = [str(ROOT / "tests/native/kernels.c"), str(ROOT / "native/kernel.c")]
    includes = [f"-I{ROOT / 'native'}", f"-I{_headers(folder)}"]
    subprocess.run([compiler, *flags, *includes, *sources, "-o", str(program)], check=True)
    done = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    *names, count, _ = done.stdout.split()
    assert int(count) > 100_000
    return names


@pytest.mark.skipif(platform.system() != "Linux", reason="it is written for Linux")
def test_the_kernels_of_this_processor(tmp_path: Path) -> None:
    names = _compared("cc", tmp_path)
    assert names[0] == "scalar"
    if platform.machine() == "x86_64" and re.search(r"\bavx2\b", Path("/proc/cpuinfo").read_text("utf-8")):
        assert "avx2" in names
    if platform.machine() == "aarch64":
        assert names == ["scalar", "neon"]


@pytest.mark.skipif(shutil.which(CROSS) is None, reason=f"{CROSS} is not installed")
@pytest.mark.skipif(shutil.which(EMULATOR) is None, reason=f"{EMULATOR} is not installed")
def test_neon_under_emulation(tmp_path: Path) -> None:
    assert _compared(CROSS, tmp_path, EMULATOR) == ["scalar", "neon"]

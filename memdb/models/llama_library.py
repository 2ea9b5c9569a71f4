"""llama.cpp itself: loaded late, its output collected."""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from typing import Any, NoReturn

from memdb.errors import ModelError, ModelNotFound

Native = Any  # a pointer of llama.cpp

native_errors: deque[str] = deque(maxlen=4)  # llama.cpp's last ones: its functions return no reason

_log = logging.getLogger(__name__)
_callback: Native = None  # llama.cpp holds it, so it must not be collected


def library() -> Any:
    """llama_cpp, its output collected. Raises ModelNotFound where it is not installed."""
    global _callback  # noqa: PLW0603 - the callback is the process's, as is llama.cpp's log
    try:
        import llama_cpp
    except ImportError as error:
        hint = "pip install 'memdb-engine[llm]'"
        raise ModelNotFound("a GGUF model needs the package llama-cpp-python", hint=hint) from error
    if _callback is None:
        _callback = llama_cpp.llama_log_callback(_listen)
        llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def _listen(level: int, text: bytes, data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    _log.debug("%s", line)
    if level == 3:  # GGML_LOG_LEVEL_ERROR
        native_errors.append(line)


def fail(message: str, hint: str = "", kind: type[ModelError] = ModelError) -> NoReturn:
    """Raise with what llama.cpp logged about it."""
    said = "; ".join(native_errors)
    native_errors.clear()
    raise kind(f"{message}: {said}" if said else message, hint=hint)

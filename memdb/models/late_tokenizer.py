"""A tokenizer that is loaded when it is first needed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from memdb.errors import ModelDamaged

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class LateTokenizer:
    """The tokenizer in a `tokenizer.json`. Safe to share between threads.

    Its file may say to truncate and pad: here it pads nothing and cuts texts at `cut_at` tokens, if told.
    """

    def __init__(self, file: Path, cut_at: int | None = None) -> None:
        self._file, self._cut_at = file, cut_at
        self._lock = Lock()
        self._made: Tokenizer | None = None

    @property
    def loaded(self) -> bool:
        """Whether it was needed."""
        return self._made is not None

    def begin(self) -> None:
        """Load it; what goes wrong is raised by `get`."""
        with suppress(ModelDamaged, ImportError):
            self.get()

    def get(self) -> Tokenizer:
        """The tokenizer. Raises ModelDamaged where the file holds none."""
        with self._lock:
            self._made = self._made or self._load()
            return self._made

    def _load(self) -> Tokenizer:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(self._file))
        except Exception as error:
            if type(error) is Exception:  # the library has no class of its own
                raise ModelDamaged(f"{self._file} is not a tokenizer: {error}") from error
            raise
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self._cut_at is not None:
            tokenizer.enable_truncation(self._cut_at)
        return tokenizer

"""What an encoder has done, counted, and the vectors it keeps. Safe to share between threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock

import msgspec
import numpy as np
from numpy.typing import NDArray


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an encoder: `texts` that were asked for, of which some were `repeated` in one call or
    `remembered` from another; `runs` of the model, and the `tokens` and `padding` that these read.
    """

    texts: int = 0
    repeated: int = 0
    remembered: int = 0
    runs: int = 0
    tokens: int = 0
    padding: int = 0

    @property
    def padding_share(self) -> float:
        """Of all that the model read."""
        return self.padding / max(1, self.tokens + self.padding)

    def since(self, before: Encoded) -> Encoded:
        """What was counted after another state."""
        now, then = msgspec.structs.astuple(self), msgspec.structs.astuple(before)
        counts = (one - other for one, other in zip(now, then, strict=True))
        return Encoded(**dict(zip(self.__struct_fields__, counts, strict=True)))


class Tally:
    """Counts up."""

    def __init__(self) -> None:
        self._counts = Encoded()
        self._lock = Lock()

    @property
    def counts(self) -> Encoded:
        """All so far."""
        return self._counts

    def add(self, **more: int) -> None:
        """Add to the counts of these names."""
        with self._lock:
            changed = {name: getattr(self._counts, name) + count for name, count in more.items()}
            self._counts = msgspec.structs.replace(self._counts, **changed)


class Remembered:
    """The vectors of the texts that were asked for last, `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = Lock()

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Those of `texts` that are kept."""
        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
            for text in found:
                self._kept.move_to_end(text)
            return found

    def keep(self, pairs: Iterable[tuple[str, NDArray[np.float32]]]) -> None:
        """Keep copies of vectors [dimension] by their texts, and forget the oldest beyond the most."""
        with self._lock:
            for text, vector in pairs:
                self._kept[text] = vector.copy()
                self._kept.move_to_end(text)
                if len(self._kept) > self._most:
                    self._kept.popitem(last=False)

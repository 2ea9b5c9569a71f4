"""memdb's columns of a table: which channels each uses, and how much it reranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

import memdb

from .errors import BenchmarkError

DENSE: Final = "dense"
HYBRID: Final = "hybrid"  # the whole system
_DEPTH_PREFIX: Final = "rerank "


class Column(msgspec.Struct, frozen=True):
    """What a column asks of `Memory.recall`; None leaves it to memdb. A `rerank_depth` of 0: no reranker."""

    channels: tuple[str, ...] | None = None
    rerank_depth: int | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of `recall` that are not left to memdb."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


def _but(*left_out: str) -> Column:
    return Column(tuple(name for name in memdb.CHANNELS if name not in left_out))


DENSE_CHANNELS: Final = tuple(name for name in memdb.CHANNELS if name.endswith("_dense"))
MESSAGE_CHANNELS: Final = tuple(name for name in memdb.CHANNELS if name.startswith("message_"))
UNIT_CHANNELS: Final = tuple(name for name in memdb.CHANNELS if name.startswith("unit_"))
# The whole system less one part each (QGMem section IV-C), and messages alone.
ABLATIONS: Final[Mapping[str, Column]] = {
    "no reranker": Column(rerank_depth=0),
    "no event attributes": _but("unit_attribute"),
    "no hybrid": Column(DENSE_CHANNELS),
    "no traces": _but("traces"),
    "no units": _but(*UNIT_CHANNELS),
    "messages only": Column(MESSAGE_CHANNELS),
}


def columns(
    extra: Sequence[str] = (), *, ablate: bool = False, depths: Sequence[int] = ()
) -> dict[str, Column]:
    """memdb's columns by name: dense, hybrid, one per `extra`, the ablations, one per reranking depth.

    An extra column is a comma-separated list of channels, or of channels to do without, each after a minus.
    Raises BenchmarkError for an unknown name.
    """
    chosen = {DENSE: Column(DENSE_CHANNELS, rerank_depth=0), HYBRID: Column()}
    for text in extra:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        without = bool(names) and all(name.startswith("-") for name in names)
        listed = [name.removeprefix("-") for name in names] if without else names
        unknown = [name for name in listed if name not in memdb.CHANNELS]
        if unknown or not names:
            raise BenchmarkError(
                f"no channel {', '.join(unknown or [repr(text)])}",
                hint=f"channels: {', '.join(memdb.CHANNELS)}",
            )
        chosen[HYBRID + "".join(names) if without else "+".join(names)] = (
            _but(*listed) if without else Column(names)
        )
    if ablate:
        chosen |= ABLATIONS
    return chosen | {depth_name(depth): Column(rerank_depth=depth) for depth in depths}


def depth_name(depth: int) -> str:
    """The name of the column that reranks so many candidates."""
    return f"{_DEPTH_PREFIX}{depth}"


def depth_of(name: str) -> int | None:
    """How many candidates the column of that name reranks; None if it is not one of those."""
    return int(name.removeprefix(_DEPTH_PREFIX)) if name.startswith(_DEPTH_PREFIX) else None


def parse_depths(text: str | None) -> tuple[int, ...]:
    """Reranking depths from `0,20,50`, ascending, each once. Raises BenchmarkError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise BenchmarkError(f"--depths {text!r} is no list of depths", hint="for example 0,20,50,100")
    return tuple(sorted({int(part) for part in parts}))

"""Arguments of a drafted workload file: what they hold, and where that comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

GUESSED = "guessed"
#: Bytes of an element by its dtype.
ITEM_BYTES = {
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
} | {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Row:
    """One argument as a workload file has it: a scalar, an array or a struct."""

    name: str
    dtype: str = "float32"
    value: int | float | None = None
    shape: tuple[int, ...] = ()
    fill: str = ""
    high: int | None = None
    members: tuple[Row, ...] = ()
    texture: Mapping[str, Any] | None = None
    tiles: Mapping[str, Any] | None = None
    source: str = GUESSED
    """Where the values come from: `line 57`, or that they are guessed."""

    @property
    def is_guessed(self) -> bool:
        """Whether the value, or the size of the array, is not in the source."""
        return self.source.startswith(GUESSED)

    @property
    def pairs(self) -> dict[str, Any]:
        """Keys and values of the row."""
        if self.shape:
            step = {"step": 8} if self.fill == "arange" else {}
            high = {} if self.high is None else {"high": self.high}
            texture = {} if self.texture is None else {"texture": dict(self.texture)}
            tiles = {} if self.tiles is None else {"tiles": dict(self.tiles)}
            first = {"dtype": self.dtype, "shape": list(self.shape), "fill": self.fill}
            return {**first, **high, **step, **texture, **tiles}
        return {"dtype": self.dtype, "value": self.value}


def grown(row: Row, least_bytes: int) -> Row:
    """An array of at least so many bytes, or a struct with such; anything else as it is."""
    if row.members:
        return replace(row, members=tuple(grown(each, least_bytes) for each in row.members))
    one = math.prod(row.shape[1:]) * ITEM_BYTES[row.dtype]
    count = -(-least_bytes // one)
    if not row.shape or count <= row.shape[0]:
        return row
    return replace(row, shape=(count, *row.shape[1:]), source=f"{GUESSED}: so much is accessed")


def leaves(row: Row) -> Iterator[Row]:
    """The row itself, or what is in its members."""
    if not row.members:
        yield row
    for member in row.members:
        yield from leaves(member)

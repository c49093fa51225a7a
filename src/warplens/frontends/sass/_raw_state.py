"""Raw records as the injected library writes them, and what compiled code reads from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: How a record gives its addresses, as in injection/record.h.
PAYLOAD_NONE, PAYLOAD_EVEN, PAYLOAD_LISTED = range(3)
#: A record that was never written: the end of what there is.
KIND_HOLE = 255
KIND_LOCAL = 5
MOST_KIND = 63


class RecordLimits(NamedTuple):
    """What a valid record of a launch does not exceed."""

    warps_per_block: int
    blocks: int
    code_bytes: int


class BlockRecords(NamedTuple):
    """The records of each block: how many, the first unit, and the unit after the last."""

    records: Any
    first: Any
    last: Any


class Blocks(NamedTuple):
    """Consecutive blocks, and the units among which their records lie."""

    first: int
    size: int
    warps_per_block: int
    begin: int
    end: int


class Accesses(NamedTuple):
    """Executed accesses of some warps."""

    unit: Any
    """The unit of each access's record; -1 if no lane took part."""
    static: Any
    end: Any
    """Where the accesses of each warp end."""


class LocalMemory(NamedTuple):
    """How local memory is laid out in the trace."""

    is_local: Any
    access_bytes: Any
    """Per static instruction."""
    base: int
    first_warp: int
    low: int
    span: int


class Addresses(NamedTuple):
    """The addresses of accesses, as in a WarpGroup."""

    base: Any
    stride: Any
    lanes: Any
    lane_end: Any


def new_addresses(accesses: int, recorded: int, warps: int) -> Addresses:
    return Addresses(
        base=np.zeros(accesses, dtype=np.int64),
        stride=np.zeros(accesses, dtype=np.int64),
        lanes=np.empty(32 * recorded, dtype=np.int64),
        lane_end=np.zeros(warps, dtype=np.int64),
    )

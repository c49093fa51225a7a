"""Bank conflicts of shared memory: how long each access of a trace holds the banks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES
from ..trace import CLASS_NAMES, StaticTable, WarpGroup


def shared_accesses(static: StaticTable) -> NDArray[np.bool_]:
    """Which static instructions access shared memory."""
    by_class = np.array(
        [INSTRUCTION_CLASSES[name].kind == "shared" and name != "load_constant" for name in CLASS_NAMES]
    )
    return by_class[static.class_id] & (static.access_bytes > 0)


def conflict_degrees(group: WarpGroup, static: StaticTable) -> tuple[Any, Any]:
    """(Where the accesses of each warp begin, cycles that each shared access holds the banks)."""
    from ._bank_kernels import shared_degrees

    offsets = np.zeros(len(group) + 1, dtype=np.int64)
    degrees = np.zeros(len(group.base), dtype=np.int64)
    count = shared_degrees(
        group.start,
        group.static,
        group.mask,
        group.access_start,
        group.base,
        group.stride,
        group.lane_start,
        group.lanes,
        shared_accesses(static),
        static.access_bytes,
        offsets,
        degrees,
    )
    return offsets, degrees[:count]

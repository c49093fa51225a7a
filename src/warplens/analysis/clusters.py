"""Clusters of thread blocks: which accesses reach the shared memory of another block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..frontends.ptx.spaces import SHARED_WINDOW
from ..traces import SHARED_BITS, StaticTable, WarpGroup
from ..traces.rewrite import lane_addresses
from .banks import shared_accesses

#: Bits of a block's number in an address.
_NUMBER_BITS = 5


def remote_share(group: WarpGroup, static: StaticTable) -> NDArray[np.float64]:
    """Of each static instruction: the share of its executions that reach shared memory of another block."""
    lanes = lane_addresses(group, static, shared_accesses(static))
    offset = lanes.address - np.uint64(SHARED_WINDOW)  # wraps below it
    far = (offset >> np.uint64(SHARED_BITS) > 0) & (offset >> np.uint64(SHARED_BITS + _NUMBER_BITS) == 0)
    instruction = group.static[lanes.instruction]
    remote = np.bincount(lanes.owner, far, len(instruction)) > 0
    executed = np.bincount(instruction, minlength=len(static))
    return np.bincount(instruction, remote, len(static)) / np.maximum(executed, 1)

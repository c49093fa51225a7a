"""Accesses to shared memory, as they are and as rules would have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..traces.rewrite import LaneAddresses
from .scene import Scene

WORD_BYTES = 4
#: Any address but 0, which would mean no access; it begins a row of banks.
BASE = 1024


def conflict_free(lanes: LaneAddresses, width: NDArray[Any]) -> LaneAddresses:
    """The distinct words of each access side by side; `width` is what a lane of each accesses, at least a word."""
    each = width.astype(np.int64)[lanes.owner]
    return lanes.moved((BASE + lanes.ranks(each) * each).astype(np.uint64))


def mean_by_instruction(scene: Scene, row: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
    """The mean of values of accesses, by their rows in the static table; 0 where there are none."""
    counts = np.bincount(row, minlength=len(scene.static))
    return np.bincount(row, values, len(scene.static)) / np.maximum(counts, 1)


def places(groups: NDArray[Any]) -> NDArray[np.int64]:
    """For each entry, how many of its group come before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.arange(len(order)) - first
    return found

"""Copies in shared memory: a block accesses each element of an array once, and its copy the other times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, SPACES, StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, keep_executions, lane_addresses, with_addresses, with_rows
from .patterns import pattern_of
from .scene import Scene
from .sharing import WORD_BYTES, conflict_free, places


def arrays_of(scene: Scene, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number for each array that some instructions access, by where they were seen; -1 for others."""
    found = np.full(len(scene.static), -1)
    some = np.flatnonzero(chosen & (scene.executions > 0) & (scene.static.access_bytes > 0)).tolist()
    ranges = {index: pattern_of(scene, index) for index in some}
    number, reaches = -1, -1
    for index, seen in sorted(ranges.items(), key=lambda item: item[1].low):
        number += seen.low > reaches
        reaches = max(reaches, seen.high)
        found[index] = number
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class Shares:
    """What each thread block loads of each array: accesses and lanes by their share, and its distinct addresses."""

    of_access: NDArray[np.int64]
    accesses: NDArray[np.int64]
    lanes: NDArray[np.int64]
    distinct: NDArray[np.int64]
    #: Of all shares, in ascending order within each.
    address: NDArray[np.uint64]


def shares_of(group: WarpGroup, lanes: LaneAddresses, arrays: NDArray[np.int64]) -> Shares:
    """The blocks' shares of what some accesses load."""
    warp = np.searchsorted(group.start, lanes.instruction, side="right") - 1
    key = group.block[warp] * (arrays.max() + 1) + arrays[group.static[lanes.instruction]]
    names, of_access = np.unique(key, return_inverse=True)
    of_lane = of_access[lanes.owner]
    order = np.lexsort((lanes.address, of_lane))
    share, address = of_lane[order], lanes.address[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (share[1:] != share[:-1]) | (address[1:] != address[:-1])
    return Shares(
        of_access,
        np.bincount(of_access, minlength=len(names)),
        np.bincount(of_lane, minlength=len(names)),
        np.bincount(share[new], minlength=len(names)),
        address[new],
    )


def reuse_of(scene: Scene, arrays: NDArray[np.int64]) -> Mapping[int, float]:
    """For each array, how many threads of a block load an element of it, on average."""
    found = {}
    for array in np.unique(arrays[arrays >= 0]).tolist():
        lanes = scene.addresses(arrays == array)
        if len(lanes.address):
            shares = shares_of(scene.sample, lanes, arrays)
            found[array] = float(shares.lanes.sum() / shares.distinct.sum())
    return found


def staged(scene: Scene, arrays: NDArray[np.int64], shared_class: str, serves: int = 1) -> Scene:
    """The scene where blocks access each element of some arrays once, and a copy in shared memory the other times.

    One access to the copy `serves` several.
    """
    rows = np.flatnonzero(arrays >= 0)
    longer = with_rows(scene.static, rows, class_id=CLASS_IDS[shared_class], space=SPACES.index("shared"))
    row_of = np.arange(len(scene.static))
    row_of[rows] = len(scene.static) + np.arange(len(rows))

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, static, arrays >= 0)
        if not len(lanes.address):
            return group
        shares = shares_of(group, lanes, arrays)
        rank = places(shares.of_access)
        loads = -(-shares.distinct * shares.accesses // np.maximum(shares.lanes, 1))
        mine, of = loads[shares.of_access], shares.accesses[shares.of_access]
        before = rank * mine // of
        from_memory = (rank + 1) * mine // of > before
        others = rank - before
        row = group.static[lanes.instruction]
        kept = from_memory | (others % serves == 0)
        beside = conflict_free(lanes, np.maximum(static.access_bytes[row], WORD_BYTES)).address
        first = (np.cumsum(shares.distinct) - shares.distinct)[shares.of_access]
        per_load = -(-shares.distinct // np.maximum(loads, 1))[shares.of_access]
        last = first + shares.distinct[shares.of_access] - 1
        place = (first + before * per_load)[lanes.owner] + lanes.lane
        inside = place <= last[lanes.owner]
        address = np.where(inside, shares.address[np.where(inside, place, 0)], 0)
        address = np.where(from_memory[lanes.owner], address, beside).astype(np.uint64)
        group = with_addresses(group, static, lanes.moved(address))
        which = group.static.copy()
        which[lanes.instruction] = np.where(from_memory, row, row_of[row])
        keep = np.ones(len(which), dtype=bool)
        keep[lanes.instruction] = kept
        return keep_executions(dataclasses.replace(group, static=which), longer, keep)

    return scene.with_trace(change, static=longer)

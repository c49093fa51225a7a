"""Copies in shared memory: a block accesses each element of an array once, and its copy the other times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, SPACES, StaticTable, WarpGroup
from ..traces.rewrite import (
    LaneAddresses,
    insert_executions,
    keep_executions,
    lane_addresses,
    with_addresses,
    with_rows,
)
from .patterns import from_memory, pattern_of
from .scene import Scene
from .sharing import WORD_BYTES, conflict_free, places

#: Atomics of a block on one address, from which on they meet there.
SHARED_BY = 2.0


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


def served_by_tiles(scene: Scene, chosen: NDArray[np.bool_], results: int) -> float:
    """How many loads a loaded value serves once a thread makes several results, in the best of their arrangements.

    Threads of a block that lie side by side, below each other or in a square become one: what several of them load,
    it loads once.
    """
    group, width = scene.sample, scene.trace.header.block[0]
    lanes = scene.addresses(chosen)
    warp = (np.searchsorted(group.start, lanes.instruction, side="right") - 1)[lanes.owner]
    in_first = group.block[warp] == group.block[warp[0]]
    thread, address = (32 * group.warp[warp] + lanes.lane)[in_first], lanes.address[in_first]
    y, x = np.divmod(thread, width)

    def loads(across: int, down: int) -> int:
        tile = y // down * width + x // across
        order = np.lexsort((address, tile))
        return 1 + int(((np.diff(address[order]) != 0) | (np.diff(tile[order]) != 0)).sum())

    return max(loads(1, 1) / loads(across, results // across) for across in (1, 2, results))


def with_several_results(scene: Scene, results: int) -> Scene:
    """The scene where threads make several results: loops share constants, addresses and branches among them."""
    shared = scene.kind("load_constant", "int32", "int32_mad", "uniform", "move", "control")
    shared &= scene.executions > scene.warps
    for index in np.flatnonzero(shared).tolist():
        shared[index] = not from_memory(scene, index)

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        warp = np.repeat(np.arange(len(group)), np.diff(group.start))
        turn = places(warp * len(static) + group.static)
        return keep_executions(group, static, ~shared[group.static] | (turn % results == 0))

    return scene.with_trace(change)


def staged(scene: Scene, arrays: NDArray[np.int64], shared_class: str, serves: float = 1.0) -> Scene:
    """The scene where blocks access each element of some arrays once, and a copy in shared memory the other times.

    One access to the copy `serves` several. A barrier stands before the copy is used, and one after.
    """
    rows = np.flatnonzero(arrays >= 0)
    longer = with_rows(scene.static, rows, class_id=CLASS_IDS[shared_class], space=SPACES.index("shared"))
    last = next(scene.trace.groups()).static[-1:].astype(np.int64)  # an exit, which has no registers
    longer = with_rows(longer, last, class_id=CLASS_IDS["barrier"], space=SPACES.index("none"), access_bytes=0)
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
        kept = from_memory | (np.floor(others / serves) > np.floor((others - 1) / serves))
        beside = conflict_free(_apart(lanes), np.maximum(static.access_bytes[row], WORD_BYTES)).address
        first = (np.cumsum(shares.distinct) - shares.distinct)[shares.of_access]
        per_load = -(-shares.distinct // np.maximum(loads, 1))[shares.of_access]
        last = first + shares.distinct[shares.of_access] - 1
        place = (first + before * per_load)[lanes.owner] + lanes.lane
        inside = place <= last[lanes.owner]
        address = np.where(inside, shares.address[np.where(inside, place, 0)], 0)
        address = np.where(from_memory[lanes.owner], address, beside)
        group = with_addresses(group, static, lanes.moved(address.astype(np.uint64)))
        which = group.static.copy()
        which[lanes.instruction] = np.where(from_memory, row, row_of[row])
        keep = np.ones(len(which), dtype=bool)
        keep[lanes.instruction] = kept
        kept_group = keep_executions(dataclasses.replace(group, static=which), longer, keep)
        return insert_executions(kept_group, _ends(kept_group), np.array([len(longer) - 1]))

    return scene.with_trace(change, static=longer)


def _apart(lanes: LaneAddresses) -> LaneAddresses:
    """Lanes without an address at places of their own: the L1 knows no lane that leaves its part to another."""
    beside = (WORD_BYTES * lanes.lane).astype(np.uint64)
    return lanes.moved(np.where(lanes.address == 0, beside, lanes.address))


def _ends(group: WarpGroup) -> NDArray[np.bool_]:
    """The first and the last instruction of every warp."""
    found = np.zeros(len(group.static), dtype=bool)
    some = np.diff(group.start) > 0
    found[group.start[:-1][some]] = found[group.start[1:][some] - 1] = True
    return found

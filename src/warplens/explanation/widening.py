"""Wider accesses: one that moves 16 bytes per lane in place of several."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, keep_executions, lane_addresses, with_addresses, with_rows
from .patterns import from_memory, pattern_of
from .scene import Scene
from .sharing import places

WIDEST_BYTES = 16
_WARP = 32


#: Instructions that are executed as often as accesses, by this part of it, are of their loop.
_SAME_LOOP = 0.1


def overhead_of(scene: Scene, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Address arithmetic, moves and branches that repeat with some accesses, and do not work on loaded values."""
    often = scene.executions[chosen].max()
    found = scene.kind("int32", "move", "control") & (np.abs(scene.executions - often) <= _SAME_LOOP * often)
    for index in np.flatnonzero(found).tolist():
        found[index] = not from_memory(scene, index)
    return found


def widened(scene: Scene, chosen: NDArray[np.bool_], overhead: NDArray[np.bool_]) -> Scene:
    """The scene where a warp's next executions of an access are one, as wide as can be.

    Instructions of the `overhead`, which repeat with them, repeat less often too.
    """
    rows = np.flatnonzero(chosen)
    longer = with_rows(scene.static, rows, access_bytes=WIDEST_BYTES)
    wide = np.arange(len(scene.static))
    wide[rows] = len(scene.static) + np.arange(len(rows))
    merged = np.ones(len(scene.static), dtype=np.int64)
    merged[rows] = WIDEST_BYTES // scene.static.access_bytes[rows]
    merged[overhead] = merged[rows].min()
    low = np.zeros(len(scene.static), dtype=np.int64)
    low[rows] = [pattern_of(scene, row).low for row in rows.tolist()]

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, static, chosen)
        warp = np.repeat(np.arange(len(group)), np.diff(group.start))
        key = warp * len(static) + group.static
        keep = places(key) % merged[group.static] == 0
        row = group.static[lanes.instruction]
        beside = (lanes.counts == _WARP) & (group.stride[lanes.access] == static.access_bytes[row])
        keep[lanes.instruction[~beside]] = True
        rank = places(np.where(beside, key[lanes.instruction], -1))
        first = beside & (rank % merged[row] == 0)
        keep[lanes.instruction[beside]] = first[beside]
        address = _joined(
            lanes, np.where(beside, key[lanes.instruction], -1), first, static.access_bytes[row], low[row]
        )
        group = with_addresses(group, static, lanes.moved(address))
        which = group.static.copy()
        which[lanes.instruction[first]] = wide[row[first]]
        return keep_executions(dataclasses.replace(group, static=which), longer, keep)

    return scene.with_trace(change, static=longer)


def _joined(
    lanes: LaneAddresses,
    key: NDArray[np.int64],
    first: NDArray[np.bool_],
    width: NDArray[np.uint16],
    low: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Addresses at which the `first` of some accesses moves the bytes of all, 16 per lane; 0 beyond the last.

    Where a warp steps over what others access meanwhile, each takes 16 bytes per lane side by side.
    """
    order = np.argsort(key, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    begins = lanes.address[np.minimum(lanes.start[:-1], len(lanes.address) - 1)].astype(np.int64)
    request = _WARP * width.astype(np.int64)
    several = WIDEST_BYTES // width.astype(np.int64)
    last = place + several - 1
    whole = last < len(order)
    last = order[np.where(whole, last, 0)]
    step = (begins[last] - begins) // np.maximum(several - 1, 1)
    whole &= (key[last] == key) & (step > request) & (begins + step * (several - 1) == begins[last])
    beside = begins + (several - 1) * ((begins - low) % np.maximum(step, 1))
    member, offset = np.divmod(WIDEST_BYTES * lanes.lane, request[lanes.owner])
    target = place[lanes.owner] + member
    inside = target < len(order)
    source = order[np.where(inside, target, 0)]
    known = inside & (key[source] == key[lanes.owner])
    moved = np.where(known, begins[source] + offset, 0)
    moved = np.where(whole[lanes.owner], beside[lanes.owner] + WIDEST_BYTES * lanes.lane, moved)
    return np.where(first[lanes.owner], moved, lanes.address.astype(np.int64)).astype(np.uint64)

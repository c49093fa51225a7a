"""Wider accesses: one that moves 16 bytes per lane in place of several."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, keep_executions, lane_addresses, with_addresses, with_rows
from .scene import Scene
from .sharing import places

WIDEST_BYTES = 16
_WARP = 32


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
        address = _joined(lanes, np.where(beside, key[lanes.instruction], -1), first, static.access_bytes[row])
        group = with_addresses(group, static, lanes.moved(address))
        which = group.static.copy()
        which[lanes.instruction[first]] = wide[row[first]]
        return keep_executions(dataclasses.replace(group, static=which), longer, keep)

    return scene.with_trace(change, static=longer)


def _joined(
    lanes: LaneAddresses, key: NDArray[np.int64], first: NDArray[np.bool_], width: NDArray[np.uint16]
) -> NDArray[np.uint64]:
    """Addresses at which the `first` of some accesses moves the bytes of all, 16 per lane; 0 beyond the last."""
    order = np.argsort(key, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    begins = lanes.address[np.minimum(lanes.start[:-1], len(lanes.address) - 1)]
    request = (_WARP * width.astype(np.int64))[lanes.owner]
    member, offset = np.divmod(WIDEST_BYTES * lanes.lane, request)
    target = place[lanes.owner] + member
    inside = target < len(order)
    source = order[np.where(inside, target, 0)]
    known = inside & (key[source] == key[lanes.owner])
    moved = np.where(known, begins[source] + offset.astype(np.uint64), 0)
    return np.where(first[lanes.owner], moved, lanes.address).astype(np.uint64)

"""Accesses to shared memory that hold its banks for several cycles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.banks import shared_accesses
from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import lane_addresses, with_addresses
from ..rule import Finding, Rule
from ..scene import Scene

BANKS_BYTES = 128
#: Any address but 0, which would mean no access; it begins a row of banks.
_BASE = 1024


def look(scene: Scene) -> Iterable[Finding]:
    ways, width = scene.conflict_ways, scene.static.access_bytes
    least = np.maximum(scene.lanes * width / BANKS_BYTES, 1.0)
    chosen = shared_accesses(scene.static) & ~scene.kind("atomic_shared") & (ways > 1.1 * least)
    if not chosen.any():
        return
    executed = scene.executions * chosen
    mean = float(executed @ ways / executed.sum())
    lost = float(executed @ (ways - least)) / float(scene.executions @ ways)

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, static, chosen)
        each = static.access_bytes[group.static[lanes.instruction]].astype(np.int64)[lanes.owner]
        beside = (_BASE + lanes.lane * each).astype(np.uint64)
        return with_addresses(group, static, lanes.moved(beside))

    yield Finding(
        text=(
            f"Bank conflicts in shared memory: {mean:.1f}-way on average, {ways[chosen].max():.0f}-way at worst; "
            f"they take {100 * lost:.0f} % of the cycles of its banks."
        ),
        removal=lambda seen: seen.with_trace(change),
        weights=executed * (ways - least),
    )


RULE = Rule(
    name="bank-conflicts",
    title="accesses to shared memory whose lanes meet in one bank",
    look=look,
    remedy=(
        "Pad rows of the tile by one element (tile[32][33]) or swizzle the index (column ^ row), so that the lanes "
        "of a warp reach 32 different banks."
    ),
    cost="Padding takes a little more shared memory; 16-byte accesses then need another alignment.",
)

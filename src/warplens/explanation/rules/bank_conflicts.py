"""Accesses to shared memory that hold its banks for several cycles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.banks import shared_accesses
from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import lane_addresses, with_addresses
from ..rule import Finding, InTriton, Rule
from ..scene import Scene
from ..sharing import WORD_BYTES, conflict_free, mean_by_instruction

BANKS_BYTES = 128
#: Ways over the fewest that the words of a request need, from which on they count as a conflict.
EXCESS = 1.1
#: Wide accesses, those of matrix instructions among them, need rows that stay aligned.
WIDE = (
    "Pad rows of the tile by {} bytes, which keeps them aligned, or swizzle the index (column ^ row) by as many, so "
    "that the lanes of a warp reach 32 different banks."
)


def look(scene: Scene) -> Iterable[Finding]:
    ways, width = scene.conflict_ways, np.maximum(scene.static.access_bytes, WORD_BYTES)
    chosen = shared_accesses(scene.static) & ~scene.kind("atomic_shared") & (ways > 1.0)
    if not chosen.any():
        return
    lanes = scene.addresses(chosen)
    row = scene.sample.static[lanes.instruction]
    words = (1 + lanes.most(lanes.ranks(width[row][lanes.owner]))) * width[row]
    least = mean_by_instruction(scene, row, np.maximum(np.ceil(words / BANKS_BYTES), 1.0))
    chosen &= ways > EXCESS * least
    if not chosen.any():
        return
    executed = scene.executions * chosen
    mean, fewest = (float(executed @ each / executed.sum()) for each in (ways, least))
    lost = float(executed @ (ways - least)) / float(scene.executions @ ways)

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        found = lane_addresses(group, static, chosen)
        return with_addresses(group, static, conflict_free(found, width[group.static[found.instruction]]))

    yield Finding(
        text=(
            f"Bank conflicts in shared memory: {mean:.1f}-way per request where {fewest:.1f} would do; "
            f"they take {100 * lost:.0f} % of the cycles of its banks."
        ),
        removal=lambda seen: seen.with_addresses(change),
        weights=executed * (ways - least),
        remedy=WIDE.format(width[chosen].max()) if width[chosen].max() > WORD_BYTES else "",
    )


RULE = Rule(
    name="bank-conflicts",
    title="accesses to shared memory whose lanes meet in one bank",
    look=look,
    remedy=(
        "Pad rows of the tile by one element (tile[32][33]) or swizzle the index (column ^ row), so that the lanes "
        "of a warp reach 32 different banks."
    ),
    cost="Padding takes a little more shared memory.",
    in_triton=InTriton(
        "Triton lays out shared memory itself: load an operand in the order in which tl.dot needs it in place "
        "of tl.trans, reduce along the block's last axis, or try other BLOCK sizes, num_warps and "
        "num_stages.",
        "Other sizes change occupancy and reuse.",
    ),
)

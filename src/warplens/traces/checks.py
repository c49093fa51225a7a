"""Whether the columns of a launch fit together, so that compiled code may follow their indices unchecked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._codes import IRREGULAR
from .block_set import BlockSet
from .machine_code import code_of
from .schema import LaunchHeader, StaticTable, WarpGroup

#: Bytes that a lane can access in one instruction, with room for wider ones than today's 32.
MOST_ACCESS_BYTES = 128


def problem_of_static(static: StaticTable) -> str | None:
    """What is wrong with a static table, or None."""
    widest = int(np.argmax(static.access_bytes)) if len(static) else 0
    if len(static) and static.access_bytes[widest] > MOST_ACCESS_BYTES:
        return (
            f"instruction {widest} ({static.opcode[widest]}) accesses {static.access_bytes[widest]} bytes per lane; "
            f"no more than {MOST_ACCESS_BYTES} are possible"
        )
    return None


def problem_of_spills(header: LaunchHeader, static: StaticTable) -> str | None:
    """Whether spills of the machine code in a header have no row, or None."""
    code = code_of(header)
    missing = [index for index, row in code.spills.items() if row >= len(static)] if code else []
    return f"machine_code: the spill {missing[0]} has no instruction" if missing else None


def problem_of(group: WarpGroup, static: StaticTable, header: LaunchHeader) -> str | None:
    """What is wrong with a group, or None."""
    warps = len(group.block)
    ends = (
        (group.start, len(group.static)),
        (group.access_start, len(group.base)),
        (group.lane_start, len(group.lanes)),
    )
    if len(group.warp) != warps or any(len(offsets) != warps + 1 for offsets, _ in ends):
        return "its columns have different numbers of warps"
    if len(group.mask) != len(group.static) or len(group.stride) != len(group.base):
        return "its columns have different lengths"
    for offsets, size in ends:
        if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
            return "the ranges of its warps do not fit its columns"
    if len(group.static) and group.static.max() >= len(static):
        return "it has instructions that the static table lacks"
    if warps and (group.block.min() < 0 or group.block.max() >= header.blocks):
        return "it has thread blocks outside the grid"
    if warps and (group.warp.min() < 0 or group.warp.max() >= -(-header.threads_per_block // 32)):
        return "it has warps outside their thread block"
    accessing = (static.access_bytes > 0)[group.static]
    if (_sums(accessing, group.start) != np.diff(group.access_start)).any():
        return "its accesses do not fit its instructions"
    irregular = group.stride == IRREGULAR
    lanes = np.zeros(len(irregular), dtype=np.int64)
    lanes[irregular] = _ones(group.mask[accessing][irregular])
    if (_sums(lanes, group.access_start) != np.diff(group.lane_start)).any():
        return "its addresses do not fit its active lanes"
    return None


def problem_of_blocks(group: WarpGroup, seen: BlockSet) -> str | None:
    """What is wrong with the order of warps, or None: those of a thread block are neighbours, in one group.

    `seen` are the blocks of groups before it, and of this one afterwards.
    """
    begins = np.diff(group.block, prepend=-1) != 0
    blocks = group.block[begins]
    gaps = np.flatnonzero(np.diff(blocks) != 1)
    for first, last in (
        zip(blocks[np.append(0, gaps + 1)], blocks[np.append(gaps, -1)], strict=True) if len(blocks) else ()
    ):
        if not seen.add(int(first), int(last)):
            return f"a thread block from {first} to {last} occurs twice, or its warps do not lie together"
    run = np.cumsum(begins)
    order = np.lexsort((group.warp, run))
    again = (np.diff(run[order]) == 0) & (np.diff(group.warp[order]) == 0)
    if again.any():
        row = order[int(np.argmax(again))]
        return f"warp {group.warp[row]} of thread block {group.block[row]} occurs twice"
    return None


def _sums(values: Any, offsets: Any) -> Any:
    """Sums of `values` between consecutive offsets."""
    return np.diff(np.append(0, np.cumsum(values, dtype=np.int64))[offsets])


def _ones(masks: Any) -> Any:
    """Bits that are set in each mask."""
    return np.unpackbits(np.ascontiguousarray(masks).view(np.uint8)).reshape(-1, 32).sum(axis=1)

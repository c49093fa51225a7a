"""How much room a trace takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warplens.traces import IRREGULAR, LaunchHeader, StaticInstruction, TraceWriter, WarpGroup, static_table

LOAD = StaticInstruction(0, "LDG.E", "load_global", "global", 4, (2,), (1,))


def test_lanes_that_repeat_take_little_room(tmp_path: Path) -> None:
    """Two half-warps that read rows of a tile: no even step, but each access is the last one moved on."""
    warps, accesses = 32, 600
    lanes = np.arange(32) % 16 * 4 + np.arange(32) // 16 * 184
    moved = (np.arange(accesses) % 15 * 4 + np.arange(accesses) // 15 * 184)[:, None] + lanes
    count = warps * accesses
    group = WarpGroup(
        block=np.zeros(warps, dtype=np.int64),
        warp=np.arange(warps, dtype=np.int32),
        start=np.arange(warps + 1) * accesses,
        static=np.zeros(count, dtype=np.uint32),
        mask=np.full(count, 2**32 - 1, dtype=np.uint32),
        access_start=np.arange(warps + 1) * accesses,
        base=np.zeros(count, dtype=np.uint64),
        stride=np.full(count, IRREGULAR, dtype=np.int64),
        lane_start=np.arange(warps + 1) * accesses * 32,
        lanes=np.tile(moved.ravel(), warps).astype(np.uint64),
    )
    header = LaunchHeader(kernel="k", grid=(1, 1, 1), block=(32 * warps, 1, 1))
    with TraceWriter(tmp_path / "t.wlt") as writer:
        writer.write(group)
        writer.end_launch(header, static_table([LOAD]))
    assert (tmp_path / "t.wlt").stat().st_size < group.lanes.nbytes / 100

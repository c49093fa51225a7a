"""Interval algorithm over every warp of a trace: warp instructions per second of CPU time of one core."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from run import Row

from warplens.analysis import _profile_kernels as kernels
from warplens.traces import StaticInstruction, static_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference import warps as oracle

WARPS = 2000
INSTRUCTIONS = 5_000_000
#: A loop body as compilers write it: two loads, address arithmetic, multiply-adds on four accumulators, a store.
ROWS = (
    StaticInstruction(0x00, "IMAD.WIDE", "int32", "none", 0, (2, 3), (0, 1, 8)),
    StaticInstruction(0x10, "LDG.E", "load_global", "global", 4, (4,), (2, 3)),
    StaticInstruction(0x20, "IADD3", "int32", "none", 0, (6,), (2, 0, 255)),
    StaticInstruction(0x30, "LDG.E", "load_global", "global", 4, (5,), (6, 3)),
    StaticInstruction(0x40, "FFMA", "fp32", "none", 0, (10,), (4, 5, 10)),
    StaticInstruction(0x50, "FFMA", "fp32", "none", 0, (11,), (4, 6, 11)),
    StaticInstruction(0x60, "FFMA", "fp32", "none", 0, (12,), (5, 5, 12)),
    StaticInstruction(0x70, "FFMA", "fp32", "none", 0, (13,), (4, 4, 13)),
    StaticInstruction(0x80, "IADD3", "int32", "none", 0, (0,), (0, 255, 255)),
    StaticInstruction(0x90, "ISETP", "int32", "none", 0, (), (0, 9)),
    StaticInstruction(0xA0, "STG.E", "store_global", "global", 4, (), (2, 3, 10)),
    StaticInstruction(0xB0, "BRA", "control", "none", 0, (), ()),
)
LATENCY = np.array([4.0, 287.5, 4.0, 150.25, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 0.0, 4.0])


def measure() -> list[Row]:
    table = static_table(ROWS)
    per_warp = INSTRUCTIONS // WARPS // len(ROWS) * len(ROWS)
    static = np.tile(np.arange(len(ROWS), dtype=np.uint32), WARPS * per_warp // len(ROWS))
    start = np.arange(WARPS + 1, dtype=np.int64) * per_warp
    instructions, stalls = np.empty(WARPS, dtype=np.int64), np.empty(WARPS)

    def run() -> None:
        kernels.warp_totals(
            start,
            static,
            LATENCY,
            table.destinations,
            table.destination_offsets,
            table.sources,
            table.source_offsets,
            1.0,
            instructions,
            stalls,
        )

    run()
    seconds = []
    for _ in range(5):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    rate = len(static) / min(seconds)

    warp = static[:per_warp].tolist()
    begin = time.process_time()
    oracle.intervals(warp, ROWS, LATENCY.tolist())
    slow = per_warp / (time.process_time() - begin)
    return [
        Row(
            "intervals of every warp",
            rate / 1e6,
            "M instructions/s",
            "plain Python (tests/reference/warps.py)",
            rate / slow,
            target=30.0,
        )
    ]

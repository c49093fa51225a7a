"""Runs kernels of memory.cu that measure uncoalesced accesses and the turnover of blocks."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .device import span_of
from .memory import LINE_BYTES, MIB, SCATTERED, MemoryBench

WORD_BYTES, LANES = 4, 32
#: Strides of lanes in words; numbers of lines for conflict-free patterns.
STRIDES = (0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 31, 32)
SPREADS = (2, 4, 8, 16, 32)
PASSES = 256
#: (Lanes that share a line, bytes between lanes), and the region of scattered accesses, which stays in L2.
SHARING = ((1, 4), (1, 0), (8, 4), (32, 4))
SCATTERED_BYTES, ROUNDS = 16 * MIB, 64
#: (Threads per block, blocks per SM), how long a block runs, and the number of waves.
BLOCKS = ((64, 1), (64, 8), (256, 1), (256, 8), (1024, 2))
BLOCK_CYCLES, WAVES = 4000, 12


def lane_offsets() -> dict[str, np.ndarray[Any, Any]]:
    """Offsets of the lanes in bytes, below 4 KiB, by the name of the pattern."""
    lanes = np.arange(LANES)
    found = {f"stride {stride}": lanes * stride * WORD_BYTES for stride in STRIDES}
    found |= {f"{lines} lines": lanes % lines * LINE_BYTES + lanes * WORD_BYTES for lines in SPREADS}
    return found


def measure_patterns(bench: MemoryBench) -> list[dict[str, Any]]:
    """Cycles per warp load that hits the L1, by the offsets of its lanes."""
    bench.report("patterns of loads that hit the L1")
    device = bench.device
    rows = []
    for name, offsets in lane_offsets().items():
        device.upload(bench.starts, offsets.astype(np.uint32))
        arguments: list[Any] = [ctypes.c_void_p(bench.buffer), ctypes.c_void_p(bench.starts), PASSES]
        loads = PASSES * 8 * 32
        values = [
            float(
                np.median(
                    span_of(device.recorded(bench.functions["read_l1_pattern"], device.sms, 1024, arguments)).cycles
                )
            )
            for _ in range(bench.repeats + 1)
        ]
        rows.append({"pattern": name, "offsets": offsets.tolist(), "cycles": [value / loads for value in values[1:]]})
    return rows


def measure_scattered(bench: MemoryBench) -> list[dict[str, Any]]:
    """Cycles per request, each to a different line in L2, with one SM active and with all."""
    bench.report("scattered loads and stores")
    device = bench.device
    device.fill(bench.buffer, SCATTERED_BYTES)
    rows = []
    for what in SCATTERED:
        function = bench.functions[f"scattered<{what}>"]
        for lanes, apart in SHARING:
            for sms in (1, device.sms):
                arguments: list[Any] = [ctypes.c_void_p(bench.buffer)]
                arguments += [ctypes.c_uint(SCATTERED_BYTES // LINE_BYTES - 1), ROUNDS, lanes, apart]
                requests = ROUNDS * 4 * 32 * LANES // lanes
                values = [
                    float(np.median(span_of(device.recorded(function, sms, 1024, arguments)).cycles)) / requests
                    for _ in range(bench.repeats + 1)
                ]
                rows.append(
                    {"what": what, "bytes": lanes * WORD_BYTES, "apart": apart, "sms": sms, "cycles": values[1:]}
                )
    return rows


def measure_blocks(bench: MemoryBench) -> list[dict[str, Any]]:
    """Cycles from the end of a block to the start of its successor: medians over an SM."""
    bench.report("from one block to the next")
    device = bench.device
    rows = []
    for threads, resident in BLOCKS:
        grid = device.sms * resident * WAVES
        shared = device.shared_memory_for(resident)
        gaps = []
        for _ in range(bench.repeats + 1):
            arguments = [BLOCK_CYCLES, BLOCK_CYCLES]
            records = device.recorded(bench.functions["short_blocks"], grid, threads, arguments, shared, count=grid)
            gaps.append(float(np.median(np.concatenate(turnarounds(records)))))
        rows.append({"threads": threads, "resident": resident, "cycles": gaps[1:]})
    return rows


def turnarounds(records: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """For each SM: cycles from each block's end to its successor's start, both sorted by time."""
    found = []
    for sm in np.unique(records["sm"]):
        mine = records[records["sm"] == sm]
        starts, ends = np.sort(mine["start_cycle"]), np.sort(mine["end_cycle"])
        first = int(np.searchsorted(starts, ends[0]))  # starts on the empty SM
        found.append(starts[first:] - ends[: len(starts) - first])
    return found

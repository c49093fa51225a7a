"""Measures on a GPU whether L1 hits and the replies of L1 misses share a port:

    python3 benchmarks/h200/measure_l1_turns.py > benchmarks/h200/l1_turns.csv

32 warps run on one SM. In each round a warp issues some loads that hit, with lanes at given offsets, and some loads
of scattered lines, with `lanes_per_line` lanes each. `cycles` are SM cycles per round of one warp, the least of three
runs.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

COUNTS = tuple((hits, misses) for hits in (0, 1, 2, 4) for misses in (0, 1, 2, 4) if hits + misses)
LANES = np.arange(32)
PATTERNS = {
    "conflict 32": 128 * LANES,
    "conflict 8": 32 * LANES,
    "none": 4 * LANES,
    "32 lines own banks": 132 * LANES,
}
SHARING, ROUNDS, REGION_BYTES = (1, 8, 32), 64, 16 << 20
SOURCE = """
template <int HITS, int MISSES>
__global__ void __launch_bounds__(1024, 1) mixed(Record *records, const char *small, const char *large,
                                                 unsigned int line_mask, const unsigned int *offsets, int rounds, int lanes) {
    unsigned int lane = threadIdx.x & 31;
    const char *at = small + offsets[lane];
    unsigned int groups = 32 / lanes;
    unsigned int worker = (threadIdx.x >> 5) * groups + lane / lanes;
    unsigned int workers = (blockDim.x >> 5) * groups;
    unsigned int sum = 0;
    for (int i = 0; i < 8; ++i) sum ^= load_words<CACHED, 1>(at + i * 4096);
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        unsigned int part[HITS + MISSES];
#pragma unroll
        for (int i = 0; i < MISSES; ++i) {
            unsigned int piece = ((unsigned int)(round * MISSES + i) * workers + worker) * 2654435761u;
            part[i] = load_words<CACHED, 1>(large + (piece & line_mask) * 128ull + 4 * lane);
        }
#pragma unroll
        for (int i = 0; i < HITS; ++i) part[MISSES + i] = load_words<CACHED, 1>(at + ((i + round) & 7) * 4096);
#pragma unroll
        for (int i = 0; i < HITS + MISSES; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}
"""  # noqa: E501


def main() -> None:
    device = Device()
    names = {count: "mixed<{},{}>".format(*count) for count in COUNTS}
    functions = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    small, large, offsets = (ctypes.c_void_p(device.allocate(size)) for size in (64 << 10, REGION_BYTES, 128))
    print("pattern,lanes_per_line,hits,misses,cycles")
    for pattern, values in PATTERNS.items():
        device.upload(offsets.value or 0, values.astype(np.uint32))
        for lanes in SHARING:
            for count, name in names.items():
                device.prefer_l1(functions[name])
                arguments = [small, large, ctypes.c_uint(REGION_BYTES // 128 - 1), offsets, ROUNDS, lanes]
                runs = [span_of(device.recorded(functions[name], 1, 1024, arguments)).cycles[0] for _ in range(3)]
                print(f"{pattern},{lanes},{count[0]},{count[1]},{min(runs) / ROUNDS / 32:.2f}", flush=True)


if __name__ == "__main__":
    main()

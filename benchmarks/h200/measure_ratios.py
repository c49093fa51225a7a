"""Measures on a GPU how fast DRAM is by how much of its traffic is written.

    python3 benchmarks/h200/measure_ratios.py > benchmarks/h200/ratios.csv

A thread block reads `reads` and writes `writes` rows of 4 KiB, 16 bytes a thread, each once, of arrays far larger
than the L2. `in_place` writes the rows that were read. `gigabytes_per_second` counts loads and stores; the best of
five runs.
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source

ROW_BYTES, TOTAL_BYTES = 4096, 3 << 30
SOURCE = r"""
template <int READS, int WRITES, int IN_PLACE>
__global__ void mix(const uint4 *from, uint4 *to) {
    uint4 sum = {1u, 2u, 3u, 4u};
    const uint4 *a = from + (size_t)blockIdx.x * READS * 256 + threadIdx.x;
    uint4 *b = IN_PLACE ? (uint4 *)a : to + (size_t)blockIdx.x * WRITES * 256 + threadIdx.x;
    uint4 part[READS ? READS : 1];
#pragma unroll
    for (int i = 0; i < READS; ++i) part[i] = a[i * 256];
#pragma unroll
    for (int i = 0; i < READS; ++i) sum.x ^= part[i].x, sum.y ^= part[i].y, sum.z ^= part[i].z, sum.w ^= part[i].w;
    if (WRITES == 0 && sum.x == 7) b[0] = sum;
#pragma unroll
    for (int i = 0; i < WRITES; ++i) sum.x += i, b[i * 256] = sum;
}
"""
RATIOS = [(8, 0), (8, 1), (8, 2), (8, 4), (4, 4), (1, 1), (4, 8), (2, 8), (1, 8), (0, 8), (0, 1)]


def main() -> None:
    device = Device()
    names = [f"mix<{r},{w},0>" for r, w in RATIOS] + [f"mix<{n},{n},1>" for n in (1, 4, 8)]
    functions = device.load(kernel_source("memory") + SOURCE, names)
    arrays = [ctypes.c_void_p(device.allocate(TOTAL_BYTES)) for _ in range(2)]
    print("reads,writes,in_place,microseconds,gigabytes_per_second")
    for name in names:
        reads, writes, in_place = map(int, name[4:-1].split(","))
        grid = TOTAL_BYTES // ROW_BYTES // (reads + writes)
        start = partial(device.launch, functions[name], grid, 256, arrays)
        seconds = min([device.timed(start) for _ in range(6)][1:])
        rate = grid * (reads + writes) * ROW_BYTES / seconds * 1e-9
        print(f"{reads},{writes},{in_place},{seconds * 1e6:.2f},{rate:.1f}", flush=True)


if __name__ == "__main__":
    main()

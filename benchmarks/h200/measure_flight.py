"""Measures on a GPU how many lines an SM has in flight, by the part of the L1 that shared memory leaves.

    python3 benchmarks/h200/measure_flight.py > benchmarks/h200/flight.csv

Warps load through the L1, four loads at a time before they wait: `scattered`, each lane a line of its own, or
`coalesced`, a warp a line. No line is still in the L1. The lines lie in the L2 (`l2`) or not (`dram`). A block of
`warps` warps on each of `sms` SMs reserves `shared_kib`. `cycles` are those of an SM for each line; the median of the
SMs and the least of three launches.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

L2_BYTES, DRAM_BYTES = 16 << 20, 1 << 30
SOURCE = r"""
template <int LANES>
__global__ void __launch_bounds__(1024, 1)
fly(Record *records, const char *base, unsigned line_mask, unsigned first, int rounds) {
    unsigned lane = threadIdx.x & 31, sum = 0, groups = 32 / LANES;
    unsigned worker = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * groups + lane / LANES;
    unsigned workers = (gridDim.x * blockDim.x >> 5) * groups;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        unsigned part[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned line = (first + (round * 4 + i) * workers + worker) * 2654435761u;
            part[i] = load_words<CACHED, 1>(base + (line & line_mask) * 128ull + 4 * lane);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum ^= part[i];
    }
    timer.stop(records, sum);
}
"""


def main() -> None:
    device = Device()
    names = {"scattered": "fly<1>", "coalesced": "fly<32>"}
    kernels = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    base = ctypes.c_void_p(device.allocate(DRAM_BYTES))
    first = 0
    print("pattern,level,sms,warps,shared_kib,cycles")
    for pattern, name in names.items():
        for level, size in (("l2", L2_BYTES), ("dram", DRAM_BYTES)):
            for sms in (1, device.sms):
                for warps in (4, 32):
                    lines_per_round = 4 * warps * (32 if pattern == "scattered" else 1)
                    rounds = max(1, min(200_000 // lines_per_round // (1 if sms == 1 else 4), 400))
                    for shared in (0, 8, 16, 32, 64, 100, 132, 164, 196, 227):
                        found = []
                        for _ in range(4):
                            arguments = [base, ctypes.c_uint(size // 128 - 1), ctypes.c_uint(first), rounds]
                            records = device.recorded(kernels[name], sms, 32 * warps, arguments, shared << 10)
                            found.append(float(np.median(span_of(records).cycles)))
                            first = (first + rounds * lines_per_round * sms) % (1 << 23)
                        cycles = min(found[1:]) / (rounds * lines_per_round)
                        print(f"{pattern},{level},{sms},{warps},{shared},{cycles:.4f}", flush=True)


if __name__ == "__main__":
    main()

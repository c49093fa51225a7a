"""Measures on a GPU what barriers cost where several thread blocks share an SM.

    python3 benchmarks/h200/measure_barriers.py > benchmarks/h200/barriers.csv

`blocks` blocks of `warps` warps on every SM pass `barriers` barriers in each turn of a loop, with `work` dependent
multiply-adds before each. `cycles` are those of an SM for a turn; the median of the SMs, the least of three launches.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

BARRIERS, WORK, ROUNDS = (1, 2), (0, 8, 32), 256
SOURCE = r"""
template <int BARRIERS, int WORK>
__global__ void __launch_bounds__(1024) wait(Record *records, int rounds) {
    float value = threadIdx.x;
    Timer timer;
    asm volatile("bar.sync 0;");
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < BARRIERS; ++i) {
#pragma unroll
            for (int k = 0; k < WORK; ++k) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(value));
            asm volatile("bar.sync 0;");
        }
    }
    timer.stop(records, (unsigned)value);
}
"""


def main() -> None:
    device = Device()
    names = {(b, w): f"wait<{b}, {w}>" for b, w in product(BARRIERS, WORK)}
    kernels = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    print("barriers,work,blocks,warps,cycles")
    for (barriers, work), name in names.items():
        for warps, blocks in product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32)):
            if warps * blocks > 64:
                continue
            runs = []
            for _ in range(4):
                records = device.recorded(kernels[name], device.sms * blocks, 32 * warps, [ROUNDS])
                runs.append(float(np.median(span_of(records).cycles)) / ROUNDS)
            print(f"{barriers},{work},{blocks},{warps},{min(runs[1:]):.2f}", flush=True)


if __name__ == "__main__":
    main()

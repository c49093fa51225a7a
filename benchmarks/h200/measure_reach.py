"""Measures on a GPU what loads cost that find no translation of their page.

    python3 benchmarks/h200/measure_reach.py > benchmarks/h200/reach.csv

A warp on each of `sms` SMs loads lines at random in `gibibytes`, `lanes` of them at a time, and waits for them.
`cycles` for each step; the median of the SMs and of five launches.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

STEPS = 256
SOURCE = r"""
extern "C" __global__ void
wander(Record *records, const char *base, unsigned long long lines, unsigned seed, int lanes) {
    unsigned long long state = (blockIdx.x * 32ull + threadIdx.x % lanes) * 0x9e3779b97f4a7c15ull + seed;
    unsigned value = 0;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int i = 0; i < STEPS; ++i) {
        state = (state + value) * 6364136223846793005ull + 1442695040888963407ull;
        unsigned long long line = __umul64hi(state, lines);
        value = load_words<PAST_L1, 1>(base + line * 128);
        value = __shfl_sync(~0u, value, 0) ^ value;
    }
    timer.stop(records, value);
}
""".replace("STEPS", str(STEPS))


def main() -> None:
    device = Device()
    kernel = device.load(kernel_source("memory") + SOURCE, ["wander"])["wander"]
    most = min(64, device.free_bytes() * 6 // 10 >> 30)
    base = ctypes.c_void_p(device.allocate(most << 30))
    print("gibibytes,sms,lanes,cycles")
    seed = 1
    for gibibytes in (1 / 64, 0.25, 1, 2, 4, 8, 16, 32, 64):
        if gibibytes > most:
            break
        for sms in (1, device.sms):
            for lanes in (1, 2, 4, 8, 16, 32):
                found = []
                for _ in range(5):
                    seed += 1
                    lines = ctypes.c_ulonglong(int(gibibytes * (1 << 30)) // 128)
                    records = device.recorded(kernel, sms, 32, [base, lines, ctypes.c_uint(seed), lanes])
                    found.append(float(np.median(span_of(records).cycles)) / STEPS)
                print(f"{gibibytes:g},{sms},{lanes},{np.median(found):.1f}", flush=True)


if __name__ == "__main__":
    main()

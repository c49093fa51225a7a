"""Measures on a GPU how fast its L2 adds, by the words at which lanes meet.

    python3 benchmarks/h200/measure_additions.py > benchmarks/h200/additions.csv

Every warp of every SM adds to `words` words that lie `spacing` words apart: each lane at random (`random`), or lane i
at word i modulo their number (`in order`). `cycles` of all SMs for a request of a warp; the median of three launches.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

THREADS, STEPS = 1024, 32
SOURCE = r"""
template <class T, bool RANDOM> __global__ void __launch_bounds__(1024, 1)
meet(Record *records, T *base, unsigned words, unsigned spacing) {
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int i = 0; i < STEPS; ++i) {
        state = state * 1664525u + 1013904223u;
        unsigned word = RANDOM ? __umulhi(state ^ state >> 15, words) : threadIdx.x % words;
        atomicAdd(base + word * spacing, (T)1);
    }
    __threadfence();
    timer.stop(records, state);
}
""".replace("STEPS", str(STEPS))


def main() -> None:
    device = Device()
    names = {
        (kind, order): f"meet<{kind}, {str(order == 'random').lower()}>"
        for kind in ("unsigned", "float")
        for order in ("random", "in order")
    }
    functions = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    base = ctypes.c_void_p(device.allocate(64 << 20))
    print("kind,order,words,spacing,cycles")
    for (kind, order), name in names.items():
        counts = [1 << n for n in range(6 if order == "in order" else 17)]
        for spacing in (1, 2, 8, 32):
            for words in counts:
                if words * spacing * 4 > 1 << 20:
                    continue
                found = []
                for _ in range(4):
                    arguments = [base, ctypes.c_uint(words), ctypes.c_uint(spacing)]
                    records = device.recorded(functions[name], device.sms, THREADS, arguments)
                    found.append(float(np.max(span_of(records).cycles)))
                requests = device.sms * THREADS // 32 * STEPS
                print(f"{kind},{order},{words},{spacing},{np.median(found[1:]) / requests:.4f}", flush=True)


if __name__ == "__main__":
    main()

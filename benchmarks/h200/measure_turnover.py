"""Measures on a GPU how long a thread block keeps its place on an SM, by how it ends, and how fast places are taken.

    python3 benchmarks/h200/measure_turnover.py > benchmarks/h200/turnover.csv

Blocks of `threads` threads, `resident` of them on an SM at a time (0: as many as fit), do what `kind` says:
`nothing`; `spin`, additions that wait for each other; `load`, a load from the L2 and the additions; `chain`, the
additions and a load that waits for them; and then, in kinds with `store`, a store of a word for each thread, side by
side or each to a line of its own. `cycles` are those of an SM for each of its blocks: the difference between launches
of 64 and of 512 for each SM, the least of six.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source

#: By name: (additions, loads before, loads after, bytes between the words that threads store; 0: none)
KINDS = {
    "nothing": (0, 0, 0, 0),
    "spin": (128, 0, 0, 0),
    "spin, store": (128, 0, 0, 4),
    "spin, scattered store": (128, 0, 0, 128),
    "load": (128, 1, 0, 0),
    "load, store": (128, 1, 0, 4),
    "chain": (128, 0, 1, 0),
    "chain, store": (128, 0, 1, 4),
}
FEW, MANY, CLOCK_HZ = 64, 512, 1.98e9
MASK = (16 << 20) - 1
SOURCE = r"""
template <int ADDITIONS, int BEFORE, int AFTER, int APART>
__global__ void turn(char *base, unsigned mask, float step) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    float value = thread;
    if (BEFORE) value += *(const volatile float *)(base + (thread * 4u & mask));
#pragma unroll
    for (int i = 0; i < ADDITIONS; ++i) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(value) : "f"(step));
    if (AFTER) value += *(const volatile float *)(base + ((thread * 4u + (value < 0.f ? 4u : 0u)) & mask));
    if (APART) *(volatile float *)(base + mask + 1 + (thread * (unsigned)APART & mask)) = value;
    else if (value < 0.f) *base = 1;
}
"""


def main() -> None:
    device = Device()
    names = {kind: "turn<{}, {}, {}, {}>".format(*numbers) for kind, numbers in KINDS.items()}
    kernels = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    base = ctypes.c_void_p(device.allocate(2 * (MASK + 1)))
    arguments = [base, ctypes.c_uint(MASK), ctypes.c_float(1.0)]

    def seconds(kind: str, blocks: int, threads: int, shared: int) -> float:
        def start() -> None:
            device.launch(kernels[names[kind]], blocks * device.sms, threads, arguments, shared)

        return min(device.timed(start) for _ in range(6))

    print("kind,threads,resident,cycles")
    for kind in KINDS:
        for threads in (32, 64, 128, 256, 512, 1024):
            for resident in (1, 2, 4, 0):
                if resident * threads > 2048:
                    continue
                shared = device.shared_memory_for(resident) if resident else 0
                spent = seconds(kind, MANY, threads, shared) - seconds(kind, FEW, threads, shared)
                print(f'"{kind}",{threads},{resident},{spent * CLOCK_HZ / (MANY - FEW):.1f}', flush=True)


if __name__ == "__main__":
    main()

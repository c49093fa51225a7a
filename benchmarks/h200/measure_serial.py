"""Measures on a GPU what lanes that meet cost: atomics with several lanes at a word, constant loads with several
indices, and generic loads.

    python3 benchmarks/h200/measure_serial.py > benchmarks/h200/serial.csv

`shared_adds` and `global_adds` have SHARE lanes at each word; warps are `between_warps` words (lines) apart, or all
at the same. `constants` read `distinct` words. `loads` are of shared memory by name (0) and generic (1), of global
memory by name (2) and generic (3). A second parameter of 1 makes each wait for the last. `cycles` are those of an SM
from the first start to the last end, the median of the SMs and the least of three launches.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

SOURCE = r"""
__constant__ float table[1024];

// SHARE lanes of a warp add to one word; the words of a warp lie side by side.
template <class T, int SHARE>
__global__ void __launch_bounds__(1024, 1) shared_adds(Record *records, int between_warps, int steps, T value) {
    extern __shared__ unsigned own[];
    T *words = (T *)own;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
    __syncthreads();
    T *mine = words + (threadIdx.x / 32 * between_warps + threadIdx.x % 32 / SHARE) % 4096;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) atomicAdd(mine, value);
    __syncthreads();
    timer.stop(records, (unsigned)words[threadIdx.x]);
}

template <class T, int SHARE>
__global__ void __launch_bounds__(1024, 1) global_adds(Record *records, T *base, int between_warps, unsigned mask, int steps, T value) {
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        unsigned line = between_warps ? ((step * gridDim.x * (blockDim.x / 32) + warp) * 2654435761u) & mask : 0;
        atomicAdd(base + line * 32 + threadIdx.x % 32 / SHARE, value);
    }
    __threadfence();
    timer.stop(records, 0);
}

// DISTINCT words of the table for the lanes of a warp.
template <int CHAIN>
__global__ void __launch_bounds__(1024, 1) constants(Record *records, int distinct, int steps, int zero) {
    int at = threadIdx.x % distinct;
    float sum = 0.0f;
    Timer timer;
    timer.start();
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
        float got = table[at];
        if (CHAIN) at += __float_as_int(got) & zero; else at += zero;
        sum += got;
    }
    timer.stop(records, (unsigned)sum + at);
}

// KIND 0: ld.shared, 1: ld (generic) of shared memory, 2: ld.global (L1), 3: ld (generic) of global memory.
template <int KIND, int CHAIN>
__global__ void __launch_bounds__(1024, 1) loads(Record *records, unsigned *global, int steps, unsigned zero) {
    extern __shared__ unsigned own[];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) own[i] = 0;
    __syncthreads();
    unsigned *place = (KIND < 2 ? own : global) + threadIdx.x % 32 * 1;
    unsigned long long address = (unsigned long long)place;
    unsigned shared = (unsigned)__cvta_generic_to_shared(own + threadIdx.x % 32);
    unsigned sum = 0;
    Timer timer;
    timer.start();
#pragma unroll 16
    for (int step = 0; step < steps; ++step) {
        unsigned got;
        if (KIND == 0) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(got) : "r"(shared));
        else if (KIND == 2) asm volatile("ld.global.u32 %0, [%1];" : "=r"(got) : "l"(address));
        else asm volatile("ld.u32 %0, [%1];" : "=r"(got) : "l"(address));
        if (CHAIN) { address += got; shared += got; }
        sum += got;
    }
    timer.stop(records, sum);
}
"""  # noqa: E501
SHARES, WARPS, STEPS, BUFFER_BYTES, SHARED_BYTES = (1, 2, 4, 8, 16, 32), (1, 4, 32), 256, 64 << 20, 4096 * 4
VALUES = {"unsigned": ctypes.c_uint(3), "float": ctypes.c_float(1.0)}


class Bench:
    """Runs kernels and prints a row for each."""

    def __init__(self) -> None:
        self.device = Device()
        adds = [f"{what}<{kind}, {n}>" for what in ("shared_adds", "global_adds") for kind in VALUES for n in SHARES]
        others = [f"constants<{chain}>" for chain in (0, 1)]
        others += [f"loads<{kind}, {chain}>" for kind in range(4) for chain in (0, 1)]
        self.kernels = self.device.load(kernel_source("memory") + SOURCE, [*adds, *others])
        self.buffer = self.device.allocate(BUFFER_BYTES)

    def row(self, name: str, sms: int, warps: int, steps: int, arguments: Sequence[Any], **key: int) -> None:
        cycles = []
        for _ in range(4):
            records = self.device.recorded(self.kernels[name], sms, 32 * warps, arguments, SHARED_BYTES)
            cycles.append(float(np.median(span_of(records).cycles)))
        between, distinct = key.get("between", ""), key.get("distinct", "")
        print(f'"{name}",{sms},{warps},{steps},{between},{distinct},{min(cycles[1:])}', flush=True)

    def adds(self, kind: str, share: int) -> None:
        value = VALUES[kind]
        for warps in WARPS:
            for between in (32, 0):
                self.row(f"shared_adds<{kind}, {share}>", 1, warps, STEPS, [between, STEPS, value], between=between)
        mask = ctypes.c_uint(BUFFER_BYTES // 2 // 128 - 1)
        for sms, warps in ((1, 1), (1, 32), (self.device.sms, 32)):
            for between in (1, 0):
                steps = 16 if sms > 1 and not between else STEPS
                arguments = [ctypes.c_void_p(self.buffer), between, mask, steps, value]
                self.row(f"global_adds<{kind}, {share}>", sms, warps, steps, arguments, between=between)


def main() -> None:
    bench, steps = Bench(), 1024
    print("kernel,sms,warps,steps,between_warps,distinct,cycles")
    for kind in VALUES:
        for share in SHARES:
            bench.adds(kind, share)
    for distinct in SHARES:
        for chain in (0, 1):
            for warps in WARPS:
                bench.row(f"constants<{chain}>", 1, warps, steps, [distinct, steps, 0], distinct=distinct)
    bench.device.fill(bench.buffer, BUFFER_BYTES)  # a chain goes on by what it loads: nothing
    for place in range(4):
        for chain in (0, 1):
            for warps in WARPS:
                arguments = [ctypes.c_void_p(bench.buffer), steps, ctypes.c_uint(0)]
                bench.row(f"loads<{place}, {chain}>", 1, warps, steps, arguments)


if __name__ == "__main__":
    main()

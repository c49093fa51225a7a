"""Measures on a GPU what stores cost that meet at few lines, or that write a part of their sectors.

    python3 benchmarks/h200/measure_stores.py > benchmarks/h200/stores.csv

`meet`: warps store one word per lane to a line of `lines`, side by side (`apart` 4 bytes), all lanes to one word (0),
or with a sector (32) or line (128) of its own for each lane. `cover`: each lane writes the first `bytes` of a sector
of its own, once, over `footprint` MiB. `cycles` are those of an SM from the first start to the last end, after a
fence; the median of the SMs and the least of three launches.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

STEPS, BUFFER_BYTES = 256, 2 << 30
SOURCE = r"""
__global__ void __launch_bounds__(1024, 1) meet(Record *records, char *base, unsigned lines, int apart, int steps) {
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    Timer timer;
    timer.start();
#pragma unroll 4
    for (int step = 0; step < steps; ++step) {
        unsigned line = (step * gridDim.x * (blockDim.x / 32) + warp) * 2654435761u % lines;
        *(volatile unsigned *)(base + (size_t)line * 128 + lane * apart) = step;
    }
    __threadfence();
    timer.stop(records, 0);
}

// BYTES of each sector, from byte `from` on.
template <int BYTES>
__global__ void __launch_bounds__(1024, 1) cover(Record *records, char *base, unsigned sectors, int from) {
    Timer timer;
    timer.start();
    for (unsigned s = blockIdx.x * blockDim.x + threadIdx.x; s < sectors; s += gridDim.x * blockDim.x) {
        char *at = base + (size_t)s * 32 + from;
        if (BYTES == 4) *(volatile unsigned *)at = s;
        else if (BYTES == 8) asm volatile("st.global.v2.u32 [%0], {%1, %1};" :: "l"(at), "r"(s) : "memory");
        else asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(at), "r"(s) : "memory");
        if (BYTES == 32) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(at + 16), "r"(s) : "memory");
    }
    __threadfence();
    timer.stop(records, 0);
}
"""


def main() -> None:
    device = Device()
    covers = {size: f"cover<{size}>" for size in (4, 8, 16, 32)}
    kernels = device.load(kernel_source("memory") + SOURCE, ["meet", *covers.values()])
    base = device.allocate(BUFFER_BYTES)
    pointer = ctypes.c_void_p(base)

    def row(name: str, sms: int, warps: int, arguments: list[object], described: str) -> None:
        cycles = []
        for _ in range(4):
            records = device.recorded(kernels[name], sms, 32 * warps, arguments)
            cycles.append(float(np.median(span_of(records).cycles)))
        print(f"{name},{sms},{warps},{described},{min(cycles[1:])}", flush=True)

    print("kernel,sms,warps,lines,apart,bytes,footprint,cycles")
    for sms, warps in ((1, 1), (1, 32), (device.sms, 8), (device.sms, 32)):
        for apart in (0, 4, 32, 128):
            for lines in (1, 2, 4, 8, 16, 64, 256, 1024, 16384, 262144):
                row("meet", sms, warps, [pointer, ctypes.c_uint(lines), apart, STEPS], f"{lines},{apart},4,")
    for size, name in covers.items():
        for mebibytes in (8, 32, 128, 512, 2048):
            sectors = ctypes.c_uint((mebibytes << 20) // 32)
            row(name, device.sms, 32, [pointer, sectors, 0], f",,{size},{mebibytes}")


if __name__ == "__main__":
    main()

"""Measures on a GPU how fast DRAM is where a kernel reads and writes.

    python3 benchmarks/h200/measure_mixes.py > benchmarks/h200/mixes.csv

One element of 8 bytes a thread, arrays of `megabytes` in all: `read` and `write` one array, `scale` one in place,
`copy` from one to another, `add` two into a third, `swap` the elements of two; `_blocks` with thread blocks of
8 x 8 x 4 elements. `gigabytes_per_second` counts every byte that the kernel loads or stores. The best of five runs;
launches take a few microseconds of it.
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source

SOURCE = """
#define I unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x
extern "C" __global__ void read(double *a, double *b, double *c) { I; if (__ldcg(a + i) == 1.5) b[i] = 1; }
extern "C" __global__ void write(double *a, double *b, double *c) { I; a[i] = 2; }
extern "C" __global__ void scale(double *a, double *b, double *c) { I; a[i] = 3 * a[i]; }
extern "C" __global__ void copy(double *a, double *b, double *c) { I; b[i] = a[i]; }
extern "C" __global__ void add(double *a, double *b, double *c) { I; c[i] = a[i] + b[i]; }
extern "C" __global__ void swap(double *a, double *b, double *c) { I; double t = a[i]; a[i] = b[i]; b[i] = t; }
extern "C" __global__ void swap_blocks(double *a, double *b, double *c) {
    // Blocks of 8 x 8 x 4 elements of a grid of 256 x 256 rows: a row of 8 elements is 64 bytes.
    unsigned x = threadIdx.x & 7, y = threadIdx.x >> 3 & 7, z = threadIdx.x >> 6;
    unsigned long long row = 256, plane = 256 * 256, at = blockIdx.x;
    unsigned long long i = (at / 1024 * 4 + z) * plane + (at / 32 % 32 * 8 + y) * row + at % 32 * 8 + x;
    double t = a[i]; a[i] = b[i]; b[i] = t;
}
extern "C" __global__ void copy_blocks(double *a, double *b, double *c) {
    unsigned x = threadIdx.x & 7, y = threadIdx.x >> 3 & 7, z = threadIdx.x >> 6;
    unsigned long long row = 256, plane = 256 * 256, at = blockIdx.x;
    unsigned long long i = (at / 1024 * 4 + z) * plane + (at / 32 % 32 * 8 + y) * row + at % 32 * 8 + x;
    b[i] = a[i];
}
"""
#: Arrays that a kernel touches, and times that it moves each of their bytes.
KERNELS = {
    "read": (1, 1),
    "write": (1, 1),
    "scale": (1, 2),
    "copy": (2, 2),
    "add": (3, 3),
    "swap": (2, 4),
    "copy_blocks": (2, 2),
    "swap_blocks": (2, 4),
}


def main() -> None:
    device = Device()
    functions = device.load(kernel_source("memory") + SOURCE, list(KERNELS))
    arrays = [device.allocate(1 << 30) for _ in range(3)]
    arguments = [ctypes.c_void_p(each) for each in arrays]
    print("kernel,megabytes,read_bytes_per_element,written_bytes_per_element,microseconds,gigabytes_per_second")
    for megabytes in (192, 512, 1024, 2048):
        for name, (touched, moves) in KERNELS.items():
            elements = (megabytes << 20) // touched // 8 // (1 << 20) * (1 << 20)
            if elements * 8 > 1 << 30:
                continue
            start = partial(device.launch, functions[name], elements // 256, 256, arguments)
            seconds = min([device.timed(start) for _ in range(6)][1:])
            written = 0 if name == "read" else 8 if name not in ("swap", "swap_blocks") else 16
            read = moves * 8 - written
            rate = elements * 8 * moves / seconds * 1e-9
            print(f"{name},{megabytes},{read},{written},{seconds * 1e6:.2f},{rate:.1f}", flush=True)


if __name__ == "__main__":
    main()

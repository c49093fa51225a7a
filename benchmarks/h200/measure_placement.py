"""Measures on a GPU which SM runs which thread block, and how many lines at a stride an L1 holds.

    python3 benchmarks/h200/measure_placement.py $OUT

`blocks.csv`: the SM of each block of a launch of `blocks` that all fit, `resident` on an SM. `strides.csv`: cycles of
a load in a pointer chase over `lines` lines that are `stride` bytes apart, once around before it is timed.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source

SOURCE = r"""
__global__ void placed(Record *records, int spin) {
    Timer timer;
    timer.start();
    while (clock64() - timer.start_cycle < spin) {}
    timer.stop(records, 0);
}
__global__ void ring(Record *records, const char *base, int lines, long long stride, int rounds) {
    const char *at = base;
    unsigned long long sum = 0;
    Timer timer;
    for (int round = 0; round <= rounds; ++round) {
        if (round == 1) timer.start();
#pragma unroll 1
        for (int i = 0; i < lines; ++i) {
            unsigned int got;
            asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(got) : "l"(base + (i + sum) * stride));
            sum += got;  // zero: the next address waits for it
        }
    }
    timer.stop(records, (unsigned)sum);
}
"""
STRIDES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536, 3456, 13824)
LINES = (16, 32, 64, 128, 256, 384, 512, 768, 1024, 1280, 1536, 1664, 1728, 1792, 2048)


def main() -> None:
    folder, device = Path(sys.argv[1]), Device()
    kernels = device.load(kernel_source("memory") + SOURCE, ["placed", "ring"])
    with (folder / "blocks.csv").open("w") as file:
        print("blocks,resident,block,sm", file=file)
        for resident, threads in ((1, 1024), (8, 256), (16, 128)):
            blocks = device.sms * min(resident, 2 * device.max_warps // (threads // 32))
            shared = device.shared_memory_for(resident) if resident == 1 else 0
            records = device.recorded(kernels["placed"], blocks, threads, [200000], shared)
            sms = np.asarray(records["sm"]).reshape(blocks, -1)[:, 0]
            for block, sm in enumerate(sms.tolist()):
                print(f"{blocks},{resident},{block},{sm}", file=file)
    base = device.allocate(256 << 20)
    device.prefer_l1(kernels["ring"])
    with (folder / "strides.csv").open("w") as file:
        print("stride,lines,cycles", file=file)
        for stride in STRIDES:
            for lines in LINES:
                if stride * lines > 256 << 20:
                    continue
                arguments = [ctypes.c_void_p(base), lines, ctypes.c_longlong(stride), 2]
                runs = [device.recorded(kernels["ring"], 1, 32, arguments) for _ in range(2)]
                cycles = min(int((run["end_cycle"] - run["start_cycle"])[0]) for run in runs) / (2 * lines)
                print(f"{stride},{lines},{cycles:.2f}", file=file, flush=True)


if __name__ == "__main__":
    main()

"""Measures how fast SMs read from the L2 when some of them read the same lines at about the same time.

    python3 benchmarks/h200/measure_sharing.py > benchmarks/h200/sharing.csv

Groups of `group` SMs read the same part of 16 MiB past their L1, each SM 4 MiB in all, with 32 warps. `near` groups
have SMs with neighbouring numbers, `far` ones SMs as far apart as possible. An SM starts `skew` cycles after the one
before it in its group. `cycles` are those of an SM; the median of the SMs and the least of three launches.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

TOTAL_BYTES, READ_BYTES = 16 << 20, 4 << 20
SOURCE = r"""
__global__ void __launch_bounds__(1024, 1)
share(Record *records, const char *base, unsigned part_bytes, int group, int groups, int near, int skew) {
    unsigned sm, warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    unsigned part = near ? sm / group : sm % groups, place = near ? sm % group : sm / groups;
    const char *from = base + (size_t)part * part_bytes + warp * 512 + lane * 16;
    long long begin = clock64();
    while (clock64() - begin < (long long)skew * place) {}
    __syncthreads();
    Timer timer;
    timer.start();
    unsigned at = 0;
    for (int done = 0; done < READ; done += 4 * 16384) {
        uint4 v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + at));
            at += 16384;
            if (at >= part_bytes) at = 0;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += v[i].x ^ v[i].w;
    }
    timer.stop(records, sum);
}
""".replace("READ", str(READ_BYTES))


def main() -> None:
    device = Device()
    kernels = device.load(kernel_source("memory") + SOURCE, ["share"])
    base = ctypes.c_void_p(device.allocate(2 * TOTAL_BYTES))
    print("group,order,skew,cycles,bytes_per_cycle_and_sm")
    for group in (1, 2, 4, 8, 16, 33, 66, 132):
        groups = -(-device.sms // group)
        part = TOTAL_BYTES // groups // 16384 * 16384
        for near in (1, 0) if 1 < group < device.sms else (1,):
            for skew in (0, 200, 1000, 5000, 20000) if group > 1 else (0,):
                arguments = [base, ctypes.c_uint(part), group, groups, near, skew]
                found = []
                for _ in range(4):
                    records = device.recorded(kernels["share"], device.sms, 1024, arguments)
                    found.append(float(np.median(span_of(records).cycles)))
                cycles = min(found[1:])
                order = "near" if near else "far"
                print(f"{group},{order},{skew},{cycles:.0f},{READ_BYTES / cycles:.2f}", flush=True)


if __name__ == "__main__":
    main()

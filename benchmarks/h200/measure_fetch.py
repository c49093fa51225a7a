"""Measures on a GPU how fast an SM fetches instructions: straight-line code of growing size, and short loops.

    python3 benchmarks/h200/measure_fetch.py > benchmarks/h200/fetch.csv

`straight`: a loop whose body is `instructions` independent FFMAs (16 bytes each). `loop`: a body of few instructions
and a taken branch. `warps` run on each of `sms` SMs; `cycles` is SM cycles per instruction of one warp. A cold run
times the first pass through the body, a warm one the passes after it. The least of three runs.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

STRAIGHT = (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768)
LOOPS = (8, 16, 24, 32, 48, 64, 128)
WARPS = (1, 4, 8, 16, 32)
#: Instructions of a warp in a warm run, roughly.
WORK = 1 << 17
FLUSH_BYTES = 256 << 20
SOURCE = """
#define STEP(x) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a));
template <int COUNT>
__global__ void __launch_bounds__(1024, 1) body(Record *records, int first, int rounds, float a) {
    float x0 = threadIdx.x, x1 = 1, x2 = 2, x3 = 3, x4 = 4, x5 = 5, x6 = 6, x7 = 7;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        if (round == first) timer.start();
#pragma unroll
        for (int i = 0; i < COUNT / 8; ++i) {
            STEP(x0) STEP(x1) STEP(x2) STEP(x3) STEP(x4) STEP(x5) STEP(x6) STEP(x7)
        }
    }
    timer.stop(records, __float_as_uint(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7));
}
"""


def main() -> None:
    device = Device()
    flush = device.allocate(FLUSH_BYTES)
    print("code,instructions,sms,warps,state,cycles")
    for count in sorted({*STRAIGHT, *LOOPS}):
        # A module of its own, so that the code of one size does not lie beside another's.
        (function,) = device.load(kernel_source("memory") + SOURCE, [f"body<{count}>"]).values()
        rounds = max(WORK // count, 3)
        for sms in (1, 132):
            for warps in WARPS:
                for state, first, passes in (("cold", 0, 1), ("warm", 1, rounds)):
                    runs = []
                    for _ in range(3):
                        device.fill(flush, FLUSH_BYTES)
                        device.synchronize()
                        arguments = [first, passes, ctypes.c_float(1.0)]
                        runs.append(float(max(span_of(device.recorded(function, sms, 32 * warps, arguments)).cycles)))
                    kind = "loop" if count in LOOPS else "straight"
                    cycles = min(runs) / count / (passes - first)
                    print(f"{kind},{count},{sms},{warps},{state},{cycles:.4f}", flush=True)


if __name__ == "__main__":
    main()

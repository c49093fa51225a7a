"""Measures on a GPU whether conversions and special functions run beside loads, or take their turns:

    python3 benchmarks/h200/measure_beside_loads.py > benchmarks/h200/beside_loads.csv

A warp's turn has `loads` loads of 4 or 16 bytes a lane (of shared memory, or of global memory that hits the L1) and
`steps` conversions, exponentials or additions. `cycles` are SM cycles of a turn of a warp, with 32 warps.
The least of three runs.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

#: PTX of a step, which adds to %0 what it makes of %1, and the type of the sum.
STEPS = {
    "f32 -> f64": ("double", "d", "{ .reg .f64 t; cvt.f64.f32 t, %1; add.f64 %0, %0, t; }"),
    "add.f64": ("double", "d", "add.f64 %0, %0, %0;"),
    "f32 -> s32": ("int", "r", "{ .reg .s32 t; cvt.rzi.s32.f32 t, %1; add.s32 %0, %0, t; }"),
    "ex2": ("float", "f", "{ .reg .f32 t; ex2.approx.ftz.f32 t, %1; add.f32 %0, %0, t; }"),
    "fma": ("float", "f", "fma.rn.f32 %0, %1, %1, %0;"),
}
SPACES = {
    "shared": ("unsigned at = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x)", "r", 128),
    "global": ("const float *at = data + threadIdx.x", "l", 32),
    "global 16 bytes": ("const float *at = data + 4 * threadIdx.x", "l", 128),
    "global at one address": ("const float *at = data", "l", 32),
    "global 16 bytes at one address": ("const float *at = data", "l", 32),
}
#: PTX of a load of a lane's word or four, which adds them to %0.
WORD = "{ .reg .f32 t; ld.SPACE.f32 t, [%1]; add.f32 %0, %0, t; }"
WORDS = (
    "{ .reg .f32 t, u, v, w; ld.SPACE.v4.f32 {t, u, v, w}, [%1]; add.f32 t, t, u; "
    "add.f32 v, v, w; add.f32 t, t, v; add.f32 %0, %0, t; }"
)
#: (Loads, steps) of a turn.
MIXES = ((4, 0), (0, 2), (4, 1), (4, 2), (4, 4), (2, 2))
ROUNDS, UNROLLED, WARPS, SHARED_BYTES = 64, 8, 32, 16384
#: Values change with every step and addresses with every turn, so that the assembler keeps all of them.
SOURCE = """
__device__ float data[16384];
extern "C" __global__ void __launch_bounds__(1024, 1) steps(Record *records, int rounds) {
    extern __shared__ float tile[];  // dynamic: functions are loaded for all of it
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) tile[i] = i;
    for (int i = threadIdx.x; i < 16384; i += blockDim.x) data[i] = i;
    __syncthreads();
    ADDRESS;
    float value = threadIdx.x, loaded[4] = {};
    TYPE sums[2] = {1, 2};
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i) {
#pragma unroll
            for (int k = 0; k < LOADS; ++k)
                asm volatile(LOAD : "+f"(loaded[k]) : POINTER(at + LINE * (i * LOADS + k)));
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
                asm volatile(STEP : "+" SUM(sums[k % 2]) : "f"(value));
                asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(value));
            }
        }
        at += round & 1 ? -1024 : 1024;
    }
    for (int k = 0; k < 4; ++k) value += loaded[k];
    timer.stop(records, (unsigned)(value + (float)(sums[0] + sums[1])));
}
"""


def source_of(space: str, loads: int, step: str, steps: int) -> str:
    address, pointer, line = SPACES[space]
    kind, constraint, ptx = STEPS[step]
    load = (WORDS if "16 bytes" in space else WORD).replace("SPACE", space.split()[0])
    defines = {
        "ADDRESS": address,
        "POINTER": f'"{pointer}"',
        "LOAD": f'"{load}"',
        "LINE": line,
        "LOADS": loads,
        "TYPE": kind,
        "SUM": f'"{constraint}"',
        "STEP": f'"{ptx}"',
        "STEPS": steps,
        "UNROLLED": UNROLLED,
    }
    return kernel_source("memory") + "".join(f"#define {key} {value}\n" for key, value in defines.items()) + SOURCE


def main() -> None:
    device = Device()
    print("loads_of,loads,step,steps,cycles")
    for space, step in itertools.product(SPACES, STEPS):
        for loads, steps in MIXES:
            (function,) = device.load(source_of(space, loads, step, steps), ["steps"]).values()
            runs = [
                float(span_of(device.recorded(function, 1, 32 * WARPS, [ROUNDS], SHARED_BYTES)).cycles[0])
                for _ in range(3)
            ]
            print(f"{space},{loads},{step},{steps},{min(runs) / (ROUNDS * UNROLLED * WARPS):.3f}", flush=True)


if __name__ == "__main__":
    main()

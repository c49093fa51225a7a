"""Measures on a GPU what conversions, divisions and 64-bit integer operations cost:

    python3 benchmarks/h200/measure_conversions.py > benchmarks/h200/conversions.csv

Each step is PTX that makes a new value from the last one; `latency` is its cycles in one chain of one warp,
`interval` SM cycles per step of a warp with 32 warps of 4 chains. The least of three runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

#: Type of the value, its register constraint, and the PTX of a step.
STEPS = {
    "f32 -> f64 -> f32": ("float", "f", "{ .reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t; }"),
    "f64 -> f32 -> f64": ("double", "d", "{ .reg .f32 t; cvt.rn.f32.f64 t, %0; cvt.f64.f32 %0, t; }"),
    "f64 -> s32 -> f64": ("double", "d", "{ .reg .s32 t; cvt.rzi.s32.f64 t, %0; cvt.rn.f64.s32 %0, t; }"),
    "f32 -> s32 -> f32": ("float", "f", "{ .reg .s32 t; cvt.rzi.s32.f32 t, %0; cvt.rn.f32.s32 %0, t; }"),
    "f32 -> s64 -> f32": ("float", "f", "{ .reg .s64 t; cvt.rzi.s64.f32 t, %0; cvt.rn.f32.s64 %0, t; }"),
    "f32 -> f16 -> f32": ("float", "f", "{ .reg .b16 t; cvt.rn.f16.f32 t, %0; cvt.f32.f16 %0, t; }"),
    "u8 -> f32 -> u8": ("unsigned", "r", "{ .reg .f32 t; cvt.rn.f32.u8 t, %0; cvt.rzi.u32.f32 %0, t; }"),
    "fma.rn.f32": ("float", "f", "fma.rn.f32 %0, %0, %0, %0;"),
    "fma.rn.f64": ("double", "d", "fma.rn.f64 %0, %0, %0, %0;"),
    "div.approx.f32": ("float", "f", "div.approx.f32 %0, 0f40490FDB, %0;"),
    "div.full.f32": ("float", "f", "div.full.f32 %0, 0f40490FDB, %0;"),
    "div.rn.f32": ("float", "f", "div.rn.f32 %0, 0f40490FDB, %0;"),
    "rcp.approx.f32": ("float", "f", "rcp.approx.f32 %0, %0;"),
    "rcp.rn.f32": ("float", "f", "rcp.rn.f32 %0, %0;"),
    "sqrt.approx.f32": ("float", "f", "sqrt.approx.f32 %0, %0;"),
    "sqrt.rn.f32": ("float", "f", "sqrt.rn.f32 %0, %0;"),
    "ex2.approx.f32": ("float", "f", "ex2.approx.f32 %0, %0;"),
    "sin.approx.f32": ("float", "f", "sin.approx.f32 %0, %0;"),
    "tanh.approx.f32": ("float", "f", "tanh.approx.f32 %0, %0;"),
    "div.rn.f64": ("double", "d", "div.rn.f64 %0, 0d400921FB54442D18, %0;"),
    "sqrt.rn.f64": ("double", "d", "sqrt.rn.f64 %0, %0;"),
    "div.u32": ("unsigned", "r", "{ div.u32 %0, 0xfffffff1, %0; or.b32 %0, %0, 3; }"),
    "div.s32": ("int", "r", "{ div.s32 %0, 0x7ffffff1, %0; or.b32 %0, %0, 3; }"),
    "rem.u32": ("unsigned", "r", "{ rem.u32 %0, 0xfffffff1, %0; or.b32 %0, %0, 3; }"),
    "div.u64": ("unsigned long long", "l", "{ div.u64 %0, 0xfffffffffffffff1, %0; or.b64 %0, %0, 3; }"),
    "mul.lo.u32": ("unsigned", "r", "mul.lo.u32 %0, %0, %0;"),
    "mul.hi.u32": ("unsigned", "r", "mul.hi.u32 %0, %0, %0;"),
    "mad.lo.u64": ("unsigned long long", "l", "mad.lo.u64 %0, %0, %0, %0;"),
    "add.u64": ("unsigned long long", "l", "add.u64 %0, %0, %0;"),
    "shl.b64": ("unsigned long long", "l", "{ shl.b64 %0, %0, 1; or.b64 %0, %0, 1; }"),
    "popc.b32": ("unsigned", "r", "popc.b32 %0, %0;"),
    "prmt.b32": ("unsigned", "r", "prmt.b32 %0, %0, %0, 0x4321;"),
    "dp4a.u32": ("unsigned", "r", "dp4a.u32.u32 %0, %0, %0, %0;"),
    "fma.rn.f16x2": ("unsigned", "r", "fma.rn.f16x2 %0, %0, %0, %0;"),
    "shfl.sync": ("unsigned", "r", "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;"),
}
ROUNDS, UNROLLED = 64, 16
SOURCE = """
template <int CHAINS>
__global__ void __launch_bounds__(1024, 1) steps(Record *records, int rounds) {
    TYPE value[CHAINS];
    for (int c = 0; c < CHAINS; ++c) value[c] = (TYPE)(threadIdx.x + c + 2);
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) asm volatile(STEP : CONSTRAINT(value[c]));
    TYPE sum = 0;
    for (int c = 0; c < CHAINS; ++c) sum += value[c];
    timer.stop(records, (unsigned)sum);
}
"""


def main() -> None:
    device = Device()
    print("step,latency,interval")
    for name, (kind, constraint, step) in STEPS.items():
        defines = {"TYPE": kind, "STEP": f'"{step}"', "CONSTRAINT": f'"+{constraint}"', "UNROLLED": UNROLLED}
        text = "".join(f"#define {key} {value}\n" for key, value in defines.items()) + SOURCE
        try:
            one, four = device.load(kernel_source("memory") + text, ["steps<1>", "steps<4>"]).values()
            found = []
            for function, warps, chains in ((one, 1, 1), (four, 32, 4)):
                runs = [
                    float(span_of(device.recorded(function, 1, 32 * warps, [ROUNDS])).cycles[0]) for _ in range(3)
                ]
                found.append(min(runs) / (ROUNDS * UNROLLED * chains * warps))
        except Exception as error:
            print(f"{name}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
            continue
        print(f"{name},{found[0]:.2f},{found[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()

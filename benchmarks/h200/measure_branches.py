"""Measures on a GPU what a loop takes beyond the stall counts of its instructions, and with how many warps.

    python3 benchmarks/h200/measure_branches.py > benchmarks/h200/branches.csv

`chain`: a loop of `count` dependent FFMAs. `apart`: of independent ones. `skip`: a uniform branch jumps over 32
instructions. `parted`: lanes take two sides. `called`: a function that is not inlined. `instructions` and `stalls`
are those of the loop in machine code, from its first instruction to the branch back (the sides of `skip` and `parted`
included). `cycles` are SM cycles of one iteration of all warps, the least of three launches.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, compile_cubin, kernel_source, span_of
from warplens.frontends.sass.build import find_tools
from warplens.frontends.sass.disassembly import SassInstruction, disassemble, parse_kernel

ROUNDS, WARPS = 4096, (1, 4, 8, 16, 32)
SOURCE = r"""
#define STEP(x) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a));
#define LOOP(BODY)                                                                        \
    float x0 = threadIdx.x, x1 = 1, x2 = 2, x3 = 3;                                       \
    Timer timer;                                                                          \
    timer.start();                                                                        \
    _Pragma("unroll 1") for (int round = 0; round < rounds; ++round) { BODY }             \
    timer.stop(records, __float_as_uint(x0 + x1 + x2 + x3));

template <int COUNT> __global__ void chain(Record *records, int rounds, float a, int never) {
    LOOP(_Pragma("unroll") for (int i = 0; i < COUNT; ++i) { STEP(x0) })
}
template <int COUNT> __global__ void apart(Record *records, int rounds, float a, int never) {
    LOOP(_Pragma("unroll") for (int i = 0; i < COUNT / 4; ++i) { STEP(x0) STEP(x1) STEP(x2) STEP(x3) })
}
template <int COUNT> __global__ void skip(Record *records, int rounds, float a, int never) {
    LOOP(_Pragma("unroll") for (int i = 0; i < COUNT / 4; ++i) { STEP(x0) STEP(x1) STEP(x2) STEP(x3) }
         if (round == never) { _Pragma("unroll") for (int i = 0; i < 32; ++i) { STEP(x1) } })
}
template <int COUNT> __global__ void parted(Record *records, int rounds, float a, int never) {
    bool left = threadIdx.x % 2;
    LOOP(if (left) { _Pragma("unroll") for (int i = 0; i < COUNT; ++i) { STEP(x0) } }
         else { _Pragma("unroll") for (int i = 0; i < COUNT; ++i) { STEP(x1) } })
}
__device__ __noinline__ float far_away(float x, float a) { STEP(x) STEP(x) STEP(x) STEP(x) return x; }
template <int COUNT> __global__ void called(Record *records, int rounds, float a, int never) {
    LOOP(_Pragma("unroll") for (int i = 0; i < COUNT; ++i) { x0 = far_away(x0, a); })
}
"""
NAMES = [f"{kind}<{count}>" for kind in ("chain", "apart") for count in (4, 8, 16, 32, 64, 128)]
NAMES += [f"{kind}<{count}>" for kind in ("skip", "parted") for count in (16, 64)] + ["called<1>", "called<4>"]


def loop_of(instructions: tuple[SassInstruction, ...]) -> tuple[int, int]:
    """(Instructions, stall cycles) of the first loop: from the target of a branch back to that branch."""
    for index, item in enumerate(instructions):
        if item.opcode.startswith("BRA") and item.targets and item.targets[0] < item.pc:
            loop = [each for each in instructions[: index + 1] if each.pc >= item.targets[0]]
            return len(loop), sum(max(each.control & 15, 1) for each in loop)
    raise SystemExit("a kernel has no loop")


def main() -> None:
    device, source = Device(), kernel_source("memory") + SOURCE
    cubin, lowered = compile_cubin(source, NAMES, device.architecture)
    kernels = device.load(source, NAMES)
    nvdisasm = find_tools().nvdisasm
    print("kernel,warps,instructions,stalls,cycles")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        for name in NAMES:
            text = disassemble(nvdisasm, Path(file.name), lowered[name])
            instructions, stalls = loop_of(parse_kernel(text, lowered[name]).instructions)
            for warps in WARPS:
                arguments = [ROUNDS, ctypes.c_float(1.0), -1]
                runs = [span_of(device.recorded(kernels[name], 1, 32 * warps, arguments)) for _ in range(3)]
                cycles = min(float(np.median(run.cycles)) for run in runs) / ROUNDS
                print(f"{name},{warps},{instructions},{stalls},{cycles:.3f}", flush=True)


if __name__ == "__main__":
    main()

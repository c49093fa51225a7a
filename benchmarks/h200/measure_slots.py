"""Measures on a GPU how warps of one scheduler get in one another's way when they want the same issue slot.

    python3 benchmarks/h200/measure_slots.py > benchmarks/h200/slots.csv

A loop of `instructions` arithmetic instructions with random dependences, on one SM, with `warps` on each scheduler.
`cycles` is the time of a pass: without interference it is the larger of that of one warp alone and of the issue
slots. `chain` depends on the last instruction, `fma` on one of the last `apart`, and `mixed` has special functions
and shifts among them. The least of three runs.
"""

from __future__ import annotations

import ctypes
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

WARPS = range(1, 9)
COUNT, ROUNDS, REGISTERS = 240, 64, 12
#: Each takes what its register holds, so that no result is dead.
FORMS = {
    "fma": 'asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(x[{to}]) : "f"(x[{of}]), "f"(a));',
    "sfu": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[{to}]));',
    "shift": 'asm volatile("shf.l.wrap.b32 %0, %1, %0, 7;" : "+r"(AS_BITS({to})) : "r"(AS_BITS({of})));',
}
KERNEL = """
#define AS_BITS(k) (*(unsigned *)&x[k])
extern "C" __global__ void __launch_bounds__(1024, 1) body(Record *records, int rounds, float a) {
    float x[%d];
#pragma unroll
    for (int i = 0; i < %d; ++i) x[i] = a + i;
    Timer timer;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        if (round == 1) {
            __syncthreads();
            timer.start();
        }
        %s
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < %d; ++i) sum += x[i];
    timer.stop(records, __float_as_uint(sum));
}
"""


def body(kind: str, apart: int, seed: int) -> str:
    """Each instruction takes the result of one of the last `apart`."""
    drawn = random.Random(seed)
    lines = []
    for k in range(COUNT):
        name = "fma" if kind != "mixed" else drawn.choices(("fma", "sfu", "shift"), (12, 1, 3))[0]
        back = 1 if kind == "chain" else drawn.randint(1, apart)
        lines.append(FORMS[name].replace("{to}", str(k % REGISTERS)).replace("{of}", str((k - back) % REGISTERS)))
    return "\n        ".join(lines)


def main() -> None:
    device = Device()
    print("kind,apart,seed,instructions,warps,cycles")
    cases = [("chain", 1, 0)]
    cases += [(kind, apart, seed) for kind in ("fma", "mixed") for apart in (2, 4, 8) for seed in (1, 2)]
    for kind, apart, seed in cases:
        source = KERNEL % (REGISTERS, REGISTERS, body(kind, apart, seed), REGISTERS)
        (function,) = device.load(kernel_source("memory") + source, ["body"]).values()
        for warps in WARPS:
            runs = [
                float(max(span_of(device.recorded(function, 1, 128 * warps, [ROUNDS, ctypes.c_float(0.5)])).cycles))
                for _ in range(3)
            ]
            print(f"{kind},{apart},{seed},{COUNT},{warps},{min(runs) / (ROUNDS - 1):.2f}", flush=True)


if __name__ == "__main__":
    main()

"""Measures on a GPU what keeps the data path of the L1 busy: wide loads that share words, shuffles, and bytes.

    python3 benchmarks/h200/measure_wide.py > benchmarks/h200/wide.csv

32 warps of one SM repeat an instruction. `cycles` is SM cycles per instruction of a warp. `shared` and `global` loads
(these hit in L1) of `bytes` per lane, with `words` the lanes that have an address of their own: `same` one for all,
`halves` one for each half of the warp, and so on, `parity` two, for even and odd lanes, `rows8` eight, repeated.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

#: Which of the consecutive elements each lane loads.
PATTERNS = {
    "same": "0",
    "halves": "lane / 16",
    "quarters": "lane / 8",
    "eighths": "lane / 4",
    "pairs": "lane / 2",
    "parity": "lane & 1",
    "rows8": "lane & 7",
    "rows16": "lane & 15",
    "each": "lane",
}
ROUNDS, UNROLLED = 512, 16
LOADS = {4: ("f32", 1), 8: ("v2.f32", 2), 16: ("v4.f32", 4)}
#: Bytes between one load and the next, in the same banks.
APART = 1024
KERNEL = """
extern "C" __global__ void __launch_bounds__(1024, 1) body(Record *records, char *memory, int rounds, int zero) {
    extern __shared__ char room[];
    int lane = threadIdx.x & 31;
    float sum0 = threadIdx.x, sum1 = threadIdx.x + zero;
    unsigned int at = (unsigned int)__cvta_generic_to_shared(room) + (PATTERN) * BYTES + zero;
    char *far = memory + (PATTERN) * BYTES + zero;
    Timer timer;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) ((int *)room)[i & 1023] = i;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        if (round == 1) {
            __syncthreads();
            timer.start();
        }
#pragma unroll
        for (int k = 0; k < UNROLLED; ++k) {
            STEP
        }
    }
    timer.stop(records, __float_as_uint(sum0 + sum1) + at);
}
"""


def load(space: str, size: int) -> str:
    """A load with an address of its own, and products that keep its words."""
    kind, count = LOADS[size]
    results = ", ".join(f"%{k}" for k in range(count))
    names = ", ".join(f"r{k}" for k in range(count))
    outputs = ", ".join(f'"=f"(r{k})' for k in range(count))
    where = f'"r"(at + k * {APART})' if space == "shared" else f'"l"(far + k * {APART})'
    kept = " ".join(f"sum{k // 2} += r{k} * r{min(k + 1, count - 1)};" for k in range(0, count, 2))
    space = "shared" if space == "shared" else "global.ca"
    results = "{" + results + "}" if count > 1 else results
    return f'float {names}; asm volatile("ld.{space}.{kind} {results}, [%{count}];" : {outputs} : {where}); {kept}'


def one_load(kind: str, where: str) -> str:
    return (
        f'unsigned int r; asm volatile("ld.global.ca.{kind} %0, [%1];" : "=r"(r) : "l"(memory + {where} + zero '
        f"+ k * {APART})); sum0 += __uint_as_float(r);"
    )


def one_store(kind: str, where: str) -> str:
    return f'asm volatile("st.global.{kind} [%0], %1;" :: "l"(memory + {where} + k * {APART} * 8 + zero), "r"(zero));'


SHUFFLE = """asm volatile("shfl.sync.down.b32 %0, %0, 1, 31, -1;" : "+f"(sum0));
            asm volatile("shfl.sync.down.b32 %0, %0, 1, 31, -1;" : "+f"(sum1));"""
SINGLE = {
    "two shuffles": SHUFFLE,
    "two shuffles and a load": SHUFFLE + load("shared", 4),
    "store byte 1 apart": one_store("u8", "threadIdx.x"),
    "store byte 3 apart": one_store("u8", "3 * threadIdx.x"),
    "store word": one_store("u32", "4 * threadIdx.x"),
    "load byte 1 apart": one_load("u8", "lane"),
    "load byte 3 apart": one_load("u8", "3 * lane"),
    "load byte 3 apart over a line": one_load("u8", "3 * lane + 64"),
    "load word": one_load("u32", "4 * lane"),
    "load word over a line": one_load("u32", "4 * lane + 64"),
}


def main() -> None:
    device = Device()
    memory = device.allocate(1 << 20)
    print("what,bytes,words,warps,cycles")
    cases = [(space, size, name) for space in ("shared", "global") for size in LOADS for name in PATTERNS]
    cases += [(name, 0, "each") for name in SINGLE]
    for what, size, words in cases:
        step = SINGLE[what] if what in SINGLE else load(what, size)
        source = KERNEL.replace("STEP", step).replace("PATTERN", PATTERNS[words]).replace("UNROLLED", str(UNROLLED))
        source = source.replace("BYTES", str(size or 4))
        (function,) = device.load(kernel_source("memory") + source, ["body"]).values()
        for warps in (4, 32):
            arguments = [ctypes.c_void_p(memory), ROUNDS, 0]
            runs = [
                float(max(span_of(device.recorded(function, 1, 32 * warps, arguments, 32768)).cycles))
                for _ in range(3)
            ]
            print(f"{what},{size},{words},{warps},{min(runs) / (ROUNDS - 1) / UNROLLED / warps:.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Measures the time of matrix products by shape and type: warps' (mma.sync) and warpgroups' (wgmma, sm_90a only).

    python3 benchmarks/h200/measure_rates.py > benchmarks/h200/rates.csv

Each warp adds products to one, two or four accumulators in turn. `cycles` are those between two products of one SM;
four times as many are those of one of its four parts. A kernel with few products is subtracted from one with many.
The row with the fewest warps and one chain shows the latency, the least of all rows the interval. mma.sync of fp8 is
left out: sm_90 has none, and the compiler makes a loop of what stands for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source, span_of

LENGTHS, ITERATIONS, REPEATS = (16, 48), 64, 3
WARPS, CHAINS = (4, 8, 16, 32), (1, 2, 4)
GROUP_WARPS, GROUP_COLUMNS = (4, 8, 12), (8, 64, 128, 256)

#: (Shape, types after the layouts, registers of A, B and C, letter of the registers of C, suffix) of mma.sync.
WARP_PRODUCTS = (
    ("m16n8k8", "f32.f16.f16.f32", 2, 1, 4, "f", ""),
    ("m16n8k8", "f16.f16.f16.f16", 2, 1, 2, "r", ""),
    ("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, "f", ""),
    ("m16n8k16", "f16.f16.f16.f16", 4, 2, 2, "r", ""),
    ("m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4, "f", ""),
    ("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, "f", ""),
    ("m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4, "f", ""),
    ("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, "f", ""),
    ("m8n8k16", "s32.s8.s8.s32", 1, 1, 2, "r", ""),
    ("m16n8k16", "s32.s8.s8.s32", 2, 1, 4, "r", ""),
    ("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, "r", ""),
    ("m16n8k64", "s32.s4.s4.s32", 4, 2, 4, "r", ""),  # a sequence of others on sm_90
    ("m16n8k256", "s32.b1.b1.s32", 4, 2, 4, "r", ".and.popc"),
    ("m8n8k4", "f64.f64.f64.f64", 1, 1, 2, "d", ""),
    ("m16n8k4", "f64.f64.f64.f64", 2, 1, 4, "d", ""),
    ("m16n8k8", "f64.f64.f64.f64", 4, 2, 4, "d", ""),
    ("m16n8k16", "f64.f64.f64.f64", 8, 4, 4, "d", ""),
)
#: (Depth, types, accumulators in a register, letter of its registers, what follows the predicate) of wgmma.
GROUP_PRODUCTS = (
    (16, "f32.f16.f16", 1, "f", ", 1, 1, 0, 0"),
    (16, "f16.f16.f16", 2, "r", ", 1, 1, 0, 0"),
    (16, "f32.bf16.bf16", 1, "f", ", 1, 1, 0, 0"),
    (8, "f32.tf32.tf32", 1, "f", ", 1, 1"),
    (32, "f32.e4m3.e4m3", 1, "f", ", 1, 1"),
    (32, "f16.e4m3.e4m3", 2, "r", ", 1, 1"),
    (32, "s32.s8.s8", 1, "r", ""),
)
C_TYPES = {"f": "float", "r": "unsigned int", "d": "double"}


@dataclass(frozen=True)
class Kernel:
    """One instruction in a loop: `length` of them an iteration on `chains` accumulators."""

    kind: str
    shape: str
    types: str
    chains: int
    length: int
    source: str

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.shape}_{self.types.replace('.', '_')}_{self.chains}_{self.length}"


def _numbered(first: int, count: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(count))


def warp_kernels() -> Iterator[Kernel]:
    for shape, types, of_a, of_b, of_c, letter, suffix in WARP_PRODUCTS:
        double = letter == "d"
        kind, other = C_TYPES[letter], "double" if double else "unsigned int"
        text = f"mma.sync.aligned.{shape}.row.col.{types}{suffix} {{{_numbered(0, of_c)}}}, "
        text += f"{{{_numbered(of_c, of_a)}}}, {{{_numbered(of_c + of_a, of_b)}}}, {{{_numbered(0, of_c)}}};"
        for chains in CHAINS:
            for length in LENGTHS:
                outputs = ", ".join(f'"+{letter}"(c[i % {chains}][{n}])' for n in range(of_c))
                letters = "d" if double else "r"
                inputs = ", ".join(f'"{letters}"({array}[{n}])' for array, count in (("a", of_a), ("b", of_b))
                                   for n in range(count))  # fmt: skip
                body = f"""
    {other} a[{of_a}], b[{of_b}];
    for (int n = 0; n < {of_a}; ++n) a[n] = operand * (n + 1) & 0x3c003c00;
    for (int n = 0; n < {of_b}; ++n) b[n] = operand * (n + 3) & 0x3c003c00;
    {kind} c[{chains}][{of_c}];
    for (int i = 0; i < {chains}; ++i) for (int n = 0; n < {of_c}; ++n) c[i][n] = 0;
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {{
#pragma unroll
        for (int i = 0; i < {length}; ++i) asm volatile("{text}" : {outputs} : {inputs});
    }}
    {kind} sum = 0;
    for (int i = 0; i < {chains}; ++i) for (int n = 0; n < {of_c}; ++n) sum += c[i][n];
    timer.stop(records, (unsigned int)sum);
"""
                yield Kernel("mma", shape, types, chains, length, body)


def group_kernels() -> Iterator[Kernel]:
    for depth, types, packed, letter, rest in GROUP_PRODUCTS:
        for columns in GROUP_COLUMNS:
            for a_in_registers in (False, True) if types == "f32.f16.f16" else (False,):
                yield from _group_kernel(depth, types, columns, columns // 2 // packed, letter, rest, a_in_registers)


def _group_kernel(
    depth: int, types: str, columns: int, count: int, letter: str, rest: str, a_in_registers: bool
) -> Iterator[Kernel]:
    rest = rest[:-3] if a_in_registers else rest
    left = f"{{{_numbered(count + 1, 4)}}}" if a_in_registers else f"%{count + 1}"
    values = ", ".join(f'"r"(a{n})' for n in range(4)) if a_in_registers else '"l"(a)'
    shape = f"m64n{columns}k{depth}"
    text = "{ .reg .pred add; setp.eq.u32 add, 0, 0; " + f"wgmma.mma_async.sync.aligned.{shape}.{types} "
    text += f"{{{_numbered(0, count)}}}, {left}, %{count}, add{rest}; }}"
    outputs = ", ".join(f'"+{letter}"(c[{n}])' for n in range(count))
    for length in LENGTHS:
        body = f"""
    extern __shared__ __align__(128) unsigned int words[];
    for (unsigned int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
    asm volatile("fence.proxy.async;" ::: "memory");
    unsigned long long layout = (8ull << 16) | (16ull << 32);
    unsigned long long a = layout | ((unsigned int)__cvta_generic_to_shared(words) >> 4), b = a + (2048 >> 4);
    unsigned int a0 = operand & 1, a1 = operand & 2, a2 = operand & 4, a3 = operand & 8;
    {C_TYPES[letter]} c[{count}];
    for (int n = 0; n < {count}; ++n) c[n] = 0;
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {{
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < {length}; ++i) asm volatile("{text}" : {outputs} : "l"(b), {values} : "memory");
        asm volatile("wgmma.commit_group.sync.aligned;\\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    {C_TYPES[letter]} sum = 0;
    for (int n = 0; n < {count}; ++n) sum += c[n];
    timer.stop(records, (unsigned int)sum + a0 + a1 + a2 + a3 + (unsigned int)a);
"""
        yield Kernel("wgmma_rs" if a_in_registers else "wgmma", shape, types, 1, length, body)


def source_of(kernels: list[Kernel]) -> str:
    head = "__global__ void __launch_bounds__({}, 1) {}(Record *records, int turns, unsigned int operand) {{"
    texts = (head.format(1024 if each.kind == "mma" else 384, each.name) + each.source + "}\n" for each in kernels)
    return kernel_source("instructions") + "".join(texts)


def main() -> None:
    device = Device()
    print("kind,shape,types,warps,chains,cycles", flush=True)
    for kernels, warps, features in ((list(warp_kernels()), WARPS, ""), (list(group_kernels()), GROUP_WARPS, "a")):
        loaded = device.load(source_of(kernels), [each.name for each in kernels], features)

        def cycles(name: str, count: int, loaded: dict = loaded) -> float:
            found = []
            for _ in range(REPEATS + 1):
                arguments = [ITERATIONS, ctypes.c_uint(0)]
                records = device.recorded(loaded[name], device.sms, 32 * count, arguments, 32768)
                found.append(float(np.median(span_of(records).cycles)))
            return min(found[1:]) / ITERATIONS

        for short, long in zip(kernels[::2], kernels[1::2], strict=True):
            for count in warps:
                taken = (cycles(long.name, count) - cycles(short.name, count)) / (LENGTHS[1] - LENGTHS[0])
                print(short.kind, short.shape, short.types, count, short.chains, f"{taken / count:.4g}", sep=",",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

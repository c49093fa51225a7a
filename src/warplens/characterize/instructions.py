"""Runs the kernels of instructions.cu: chains, mixes and barriers over occupancies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..machine.classes import PRODUCT_COLUMNS
from . import products
from .device import Device, kernel_source, span_of

#: Target length of a launch: long compared with the start of blocks, short enough for a run of minutes.
TARGET_CYCLES = 50_000
#: Mixes run longer: they have no second length to subtract the start-up time.
MIX_TARGET_CYCLES = 500_000
OPERAND = 1234567891

#: name -> (struct in instructions.cu, instructions an iteration in the short and the long kernel). The difference
#: of the two is free of the loop's own instructions. Divisions are long sequences, so few of them make a kernel.
OPERATIONS = {
    "int32_add": ("Add", (64, 192)),
    "int32_logic": ("Logic", (64, 192)),
    "int32_add_logic": ("AddThenLogic", (64, 192)),
    "int32_mad": ("Mad", (64, 192)),
    "fp32_fma": ("FmaF32", (64, 192)),
    "fp64_fma": ("FmaF64", (64, 192)),
    "fp16_fma2": ("FmaF16", (64, 192)),
    "sfu_ex2": ("Exponential", (64, 192)),
    "sfu_rsqrt": ("ReciprocalRoot", (64, 192)),
    "float_to_int": ("FloatToInt", (64, 192)),
    "int_to_float": ("IntToFloat", (64, 192)),
    "shuffle": ("Shuffle", (64, 192)),
    "load_shared": ("LoadShared", (64, 192)),
    "load_shared_16B": ("LoadSharedWide", (64, 192)),
    "store_shared": ("StoreShared", (64, 192)),
    "atomic_shared": ("AtomicShared", (64, 192)),
    "matrix_m16n8k16": ("Matrix", (64, 192)),
    "int32_div": ("DivideS32", (8, 24)),
    "fp32_div": ("DivideF32", (8, 24)),
    "fp64_div": ("DivideF64", (8, 24)),
}
CHAINS = (1, 2, 4)
OCCUPANCIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

#: Pairs of the instruction-mix kernel: β of the first, then one of the second.
MIXES = (
    ("fp32_fma", "sfu_ex2"),
    ("fp32_fma", "int32_add"),
    ("fp32_fma", "int32_logic"),
    ("fp32_fma", "int32_mad"),
    ("fp32_fma", "fp16_fma2"),
    ("fp32_fma", "fp64_fma"),
    ("fp32_fma", "load_shared"),
    ("fp32_fma", "float_to_int"),
    ("int32_add", "sfu_ex2"),
    ("int32_add", "fp16_fma2"),
    ("int32_add", "int32_mad"),
    ("int32_add", "int_to_float"),
    ("int32_add", "int32_logic"),
    ("int32_add", "load_shared"),
    ("int32_add", "fp64_fma"),
    ("fp16_fma2", "fp64_fma"),
    ("sfu_ex2", "float_to_int"),
)
BETAS = (1, 2, 4, 8, 16, 32)
MIX_LENGTH = 192
BARRIER_WARPS = (1, 2, 4, 8, 12, 16, 24, 32)
BARRIER_LENGTHS = (16, 48)


@dataclass(frozen=True)
class ResidentWarps:
    """Warps on one SM, and the blocks they belong to."""

    warps: int
    blocks: int

    @property
    def threads(self) -> int:
        return 32 * self.warps // self.blocks


def occupancies(device: Device) -> list[ResidentWarps]:
    """One block on each SM up to 32 warps, two beyond."""
    return [ResidentWarps(w, 1 if w <= 32 else 2) for w in OCCUPANCIES if w <= device.max_warps]


def mix_repeats(beta: int) -> int:
    """Repeats of a mix in one iteration."""
    return max(1, MIX_LENGTH // (beta + 1))


def chain_name(operation: str, chains: int, length: int) -> str:
    return f"chain<{OPERATIONS[operation][0]},{chains},{length}>"


def mix_name(first: str, second: str, beta: int) -> str:
    return f"mix<{OPERATIONS[first][0]},{OPERATIONS[second][0]},{beta},{mix_repeats(beta)}>"


def kernel_names() -> list[str]:
    """Every kernel of instructions.cu that is run."""
    names = [chain_name(op, k, n) for op, (_, lengths) in OPERATIONS.items() for k in CHAINS for n in lengths]
    names += [mix_name(first, second, beta) for first, second in MIXES for beta in BETAS]
    return names + [f"barriers<{n}>" for n in BARRIER_LENGTHS]


class InstructionBench:
    """Times kernels of instructions.cu on all SMs at once."""

    def __init__(self, device: Device, repeats: int) -> None:
        self.device = device
        self.repeats = repeats
        self._functions = device.load(kernel_source("instructions"), kernel_names())
        self.has_products = device.architecture == products.ARCHITECTURE
        if self.has_products:
            source = kernel_source("instructions") + products.source()
            self._functions |= device.load(source, products.kernel_names(), products.FEATURES)

    def function(self, name: str) -> Any:
        return self._functions[name]

    def cycles_per_iteration(self, name: str, occupancy: ResidentWarps, target: int = TARGET_CYCLES) -> list[float]:
        """Median over the SMs of the cycles of one iteration, once for each repeat."""
        shared = self.device.shared_memory_for(occupancy.blocks)
        function = self._functions[name]

        def run(iterations: int) -> float:
            arguments: list[Any] = [iterations, ctypes.c_uint(OPERAND)]
            grid = self.device.sms * occupancy.blocks
            records = self.device.recorded(function, grid, occupancy.threads, arguments, shared)
            return float(np.median(span_of(records).cycles))

        probe = max(run(4), 1.0)
        iterations = int(np.clip(4 * target / probe, 8, 8192))
        return [run(iterations) / iterations for _ in range(self.repeats)]


def measure_chains(bench: InstructionBench, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """λ and Λ: every operation × independent chains × occupancy, with a short and a long loop."""
    rows = []
    for operation, (_, lengths) in OPERATIONS.items():
        report(f"chains of {operation}")
        for chains in CHAINS:
            for occupancy in occupancies(bench.device):
                for length in lengths:
                    cycles = bench.cycles_per_iteration(chain_name(operation, chains, length), occupancy)
                    key = {"operation": operation, "chains": chains, "warps": occupancy.warps, "length": length}
                    rows.append({**key, "cycles": cycles})
    return rows


def measure_products(bench: InstructionBench, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """λ and Λ of a warpgroup's matrix products, rows as those of chains; none where the GPU has no such products."""
    rows: list[dict[str, Any]] = []
    if not bench.has_products:
        return rows
    report("matrix products of warpgroups")
    for columns in PRODUCT_COLUMNS:
        for warps in products.WARPS:
            for length in products.LENGTHS:
                cycles = bench.cycles_per_iteration(products.kernel_name(columns, length), ResidentWarps(warps, 1))
                key = {"operation": products.operation(columns), "chains": 1, "warps": warps, "length": length}
                rows.append({**key, "cycles": cycles})
    return rows


def measure_mixes(bench: InstructionBench, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Instruction mixes at full occupancy (Lemeire et al., section 4.2)."""
    rows = []
    occupancy = occupancies(bench.device)[-1]
    for first, second in MIXES:
        report(f"mix of {first} and {second}")
        for beta in BETAS:
            cycles = bench.cycles_per_iteration(mix_name(first, second, beta), occupancy, MIX_TARGET_CYCLES)
            key = {"first": first, "second": second, "beta": beta, "repeats": mix_repeats(beta)}
            rows.append({**key, "warps": occupancy.warps, "cycles": cycles})
    return rows


def measure_barriers(bench: InstructionBench) -> list[dict[str, Any]]:
    """Cycles of a loop of barriers, by the warps of the one block on each SM."""
    rows = []
    for warps in BARRIER_WARPS:
        for length in BARRIER_LENGTHS:
            cycles = bench.cycles_per_iteration(f"barriers<{length}>", ResidentWarps(warps, 1))
            rows.append({"warps": warps, "length": length, "cycles": cycles})
    return rows

"""Mapper g from profiler counters: λ and Λ of memory accesses by the rules of Lemeire et al., §6.3."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...analysis.banks import with_conflicts
from ...errors import MissingInputError
from ...machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming, Quantity, lineage

#: Bytes per lane of the accesses with which λ and Λ are measured (ld.global.s32).
BYTES_PER_LANE = 4


@dataclass(frozen=True)
class Lambdas:
    """λ and Λ of an access, cycles."""

    interval: Quantity
    latency: Quantity


def dram_ratio(dram_bytes: float, global_bytes: float) -> float:
    """R: bytes moved by DRAM for each byte that the kernel accesses in global memory. L §6.3"""
    return dram_bytes / global_bytes


def global_lambdas(ratio: float, dram: Lambdas, l2: Lambdas | None = None) -> Lambdas:
    """λ and Λ of global memory from R. L §6.3

    R < 1: the fraction 1 − R comes from L2. R > 1: DRAM moves more than the kernel
    accesses, and the surplus follows at DRAM's λ. Only R < 1 needs `l2`.
    """
    if ratio == 1:
        return dram
    if ratio > 1:
        return Lambdas(ratio * dram.interval, dram.latency + (ratio - 1) * dram.interval)  # L §6.3, R > 1
    if l2 is None:
        raise MissingInputError("λ and Λ of L2 are needed where DRAM moves less than the kernel accesses (R < 1)")
    return Lambdas(
        ratio * dram.interval + (1 - ratio) * l2.interval,  # L §6.3, R < 1
        ratio * dram.latency + (1 - ratio) * l2.latency,
    )


def l2_lambdas(gpu: Gpu, needed_by: str) -> Lambdas:
    """λ and Λ of a warp's access that hits L2: an SM's share of the NoC, and the L2 latency."""
    bandwidth = gpu.require("noc.bandwidth_bytes_per_s", needed_by)
    warp_bytes = BYTES_PER_LANE * gpu.warp_size
    interval = np.multiply(gpu.clock_hz * warp_bytes / bandwidth, gpu.sms)
    return Lambdas(interval, gpu.require("llc.latency_cycles", needed_by))


def timing_from_counters(
    gpu: Gpu, instruction_class: str, needed_by: str, *, ratio: float = 1.0, conflict_degree: float = 0.0
) -> InstructionTiming:
    """The machine's timing of a class, after the rule for its kind of memory; other classes keep theirs."""
    timing = gpu.timing(instruction_class, needed_by)
    if INSTRUCTION_CLASSES[instruction_class].kind == "memory":
        own = Lambdas(timing.interval_cycles, timing.latency_cycles)
        found = global_lambdas(ratio, own, l2_lambdas(gpu, needed_by) if ratio < 1 else None)
        return replace(timing, interval_cycles=found.interval, latency_cycles=found.latency)
    return with_conflicts(timing, conflict_degree) if "shared" in lineage(instruction_class) else timing

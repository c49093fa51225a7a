"""Sums over the instruction mix that the global-view models share (Lemeire's notation).

α = instruction count of one warp, λ = interval_cycles, Λ = latency_cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..analysis import InstructionMix
from ..machine import INSTRUCTION_CLASSES
from .base import Array, Case


@dataclass(frozen=True)
class PipelineLoad:
    """The load that one warp puts on the pipelines."""

    busy: dict[str, Array]
    """Σ α·λ per subsystem: cycles for which one warp occupies it."""
    latency_sum: dict[str, Array]
    """Σ α·Λ per kind of instruction (compute, memory): nothing overlaps."""
    interval_sum: dict[str, Array]
    """Σ α·λ per kind of instruction."""
    chain: dict[str, Array]
    """Σ over dependent instructions of Λ and independent ones of λ, per kind of instruction."""
    mix: InstructionMix

    @property
    def app_latency(self) -> Array:
        """Λ_app: cycles of one warp alone. Eq. (L-2)"""
        return self.chain["compute"] + self.chain["memory"]


def pipeline_load(case: Case) -> PipelineLoad:
    """The mix of the case's workload, timed on its machines. Kinds: memory, and compute for all else."""
    mix = case.facts.mix
    zero = np.zeros(case.size)
    busy: dict[str, Array] = {}
    latency_sum = {"compute": zero, "memory": zero}
    interval_sum = {"compute": zero, "memory": zero}
    chain = {"compute": zero, "memory": zero}
    for name, entry in mix.entries.items():
        timing = case.timing(name)
        latency, interval = case.array(timing.latency_cycles), case.array(timing.interval_cycles)
        kind = "memory" if INSTRUCTION_CLASSES[name].kind == "memory" else "compute"
        busy[timing.subsystem] = busy.get(timing.subsystem, zero) + entry.count * interval
        latency_sum[kind] = latency_sum[kind] + entry.count * latency
        interval_sum[kind] = interval_sum[kind] + entry.count * interval
        dependent = entry.count - entry.independent
        chain[kind] = chain[kind] + (dependent * latency + entry.independent * interval)  # Eq. (L-2)
    return PipelineLoad(busy, latency_sum, interval_sum, chain, mix)


def roof_warps_per_cycle(case: Case, load: PipelineLoad) -> Array:
    """Warps per cycle that the busiest subsystem or the issue limit lets through.

    Eq. (L-1) in warps: one bound per subsystem, and IL/α_total for the issue limit.
    """
    bounds = [1.0 / busy for busy in load.busy.values()]
    bounds.append(case.issue_rate / load.mix.total)
    return np.min(bounds, axis=0)

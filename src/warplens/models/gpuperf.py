"""GPUPerf (Sim et al., PPoPP 2012): MWP-CWP with instruction- and memory-level parallelism, caches and an SFU.

Computation and memory take their own time, each divided by the parallelism that hides it, and overlap as far as
there are warps. The benefits say how much shorter the launch is if one kind of parallelism is as large as the
machine allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..analysis import InstructionMix
from ..machine import lineage
from .base import Array, Aspect, Case, Model, Outcome, option
from .mwp_cwp import MemoryWarps, memory_warps
from .papers import GPUPERF
from .pipeline_load import pipeline_load


@dataclass(frozen=True)
class Time:
    """An SM's time: what computes in parallel, what is serial, and memory."""

    warps: Array
    """N"""
    parallel: Array
    serial: Array
    memory: Array
    memory_bound: NDArray[np.bool_]
    """CWP > MWP"""

    @property
    def overlap(self) -> Array:
        exposed = np.where(self.memory_bound, 0.0, 1.0)
        part = (self.warps - exposed) / self.warps  # Eq. (S-17)
        return np.minimum((self.parallel + self.serial) * part, self.memory)  # Eq. (S-16)

    @property
    def cycles(self) -> Array:
        return self.parallel + self.serial + self.memory - self.overlap  # Eqs. (S-1, S-2)


@dataclass(frozen=True)
class GpuPerf(Model):
    """Computation and memory, each hidden by its own parallelism, and what more of it would bring."""

    name = "gpuperf"
    title = "GPUPerf"
    paper = GPUPERF
    equations = "S-1 … S-17, S-A1 … S-A7"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.ILP, Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.ISSUE_LIMIT})

    sync_factor: float = option(0.0, "Γ of S-8, a machine's own number, which we do not have: 0 leaves barriers out")

    def evaluate(self, case: Case) -> Outcome:
        mix, N = case.facts.mix, case.W
        instructions = mix.total * case.array(case.residency.total_warps) / case.active_sms  # on an SM
        latency, interval = _latency(case, mix), _interval(case, mix)
        most = latency / interval  # Eq. (S-5)
        parallelism = np.minimum(
            _parallelism(case, mix, "compute", "shared", "barrier") * N, most
        )  # ITILP, Eq. (S-4)
        memory = memory_warps(case, mix) if mix.memory_count else None
        serial = instructions / mix.total * (_special(case, mix, interval) + self._barriers(mix, memory))  # Eq. (S-6)
        parallel = instructions * latency / parallelism  # Eq. (S-3)
        time = Time(N, parallel, serial, np.zeros(case.size), np.zeros(case.size, dtype=bool))
        terms = {"ITILP": parallelism, "ITILP_max": most}
        if memory is not None:
            time, more = _with_memory(case, mix, memory, time, mix.total * latency / parallelism)
            terms |= more
        ideal = {
            "B_itilp": replace(time, parallel=instructions * interval),
            "B_serial": replace(time, serial=0.0 * N),
            "B_memlp": replace(time, memory=terms.get("T_mem_min", time.memory)),
        }
        terms |= {
            "W_parallel": time.parallel,
            "W_serial": time.serial,
            "T_mem": time.memory,
            "T_overlap": time.overlap,
        }
        return Outcome(
            instructions_per_warp=mix.total,
            cycles=time.cycles,
            terms=terms | {name: np.maximum(time.cycles - each.cycles, 0.0) for name, each in ideal.items()},
            conditions=() if memory is None else memory.conditions,
        )

    def _barriers(self, mix: InstructionMix, memory: MemoryWarps | None) -> Array | float:
        """Cycles of a warp's barriers. Eqs. (S-7, S-8)"""
        if memory is None:
            return 0.0
        return mix.synchronizations * self.sync_factor * _dram_latency(memory) * mix.memory_count / mix.total


def _with_memory(
    case: Case, mix: InstructionMix, memory: MemoryWarps, time: Time, compute: Array
) -> tuple[Time, dict[str, Array]]:
    """The time with memory, and its terms; `compute` is one warp's computation. Eqs. (S-11 … S-15, S-A1 … S-A7)"""
    N, of_dram = case.W, _dram_latency(memory)
    amat = memory.latency  # Eq. (S-12): the caches' average, and the transactions of S-13
    at_peak = memory.peak_bandwidth_warps * of_dram / memory.latency  # Eqs. (S-A6, S-A7)
    mwp = np.minimum.reduce([of_dram * memory.transactions / memory.departure, at_peak, N])  # Eq. (S-A5)
    overlapping = _parallelism(case, mix, "memory")
    waiting = mix.memory_count * amat / overlapping  # Eq. (S-A4)
    cwp = np.minimum((waiting + compute) / compute, N)  # Eqs. (S-A1 … S-A3)
    hidden = np.minimum(np.maximum(1.0, cwp - 1.0), mwp)  # MWP_cp, Eq. (S-15)
    parallelism = np.minimum(overlapping * hidden, at_peak)  # ITMLP, Eq. (S-14)
    accesses = mix.memory_count * case.array(case.residency.total_warps) / case.active_sms
    found = replace(time, memory=accesses * amat / parallelism, memory_bound=cwp > mwp)  # Eq. (S-11)
    most = np.minimum(at_peak, 1e18)  # without a bandwidth, nothing but the overlap takes time
    terms = {"MWP": mwp, "CWP": cwp, "ITMLP": parallelism, "AMAT": amat, "T_mem_min": accesses * amat / most}
    return found, terms


def _dram_latency(memory: MemoryWarps) -> Array:
    """avg_DRAM_lat: latency of an access with all its transactions. Eq. (S-13)"""
    between = memory.departure / memory.transactions  # Δ
    return memory.dram_latency + (memory.transactions - 1.0) * between


def _latency(case: Case, mix: InstructionMix) -> Array:
    """avg_inst_lat: mean latency of the computation, or an issue slot where there is none."""
    if mix.compute_count == 0:
        return 1.0 / case.issue_rate
    return pipeline_load(case).latency_sum["compute"] / mix.compute_count


def _parallelism(case: Case, mix: InstructionMix, *kinds: str) -> Array:
    """ILP or MLP: instructions over those that wait for another."""
    found = [entry for _, entry in mix.of_kind(*kinds)]
    count = sum(entry.count for entry in found)
    waiting = count - sum((case.array(entry.independent) for entry in found), np.zeros(case.size))
    return count / np.maximum(waiting, 1.0) if count else np.ones(case.size)


def _interval(case: Case, mix: InstructionMix) -> Array:
    """warp_size / SIMD_width: cycles between two instructions, special functions apart, and no less than a slot."""
    slot = 1.0 / case.issue_rate
    usual = [item for item in mix.of_kind("compute", "shared", "barrier") if not _is_special(item[0])]
    count = sum(entry.count for _, entry in usual)
    busy = sum((entry.count * case.array(case.timing(name).interval_cycles) for name, entry in usual), 0.0 * slot)
    return np.maximum(slot, busy / count) if count else slot


def _is_special(name: str) -> bool:
    return "sfu" in lineage(name)


def _special(case: Case, mix: InstructionMix, interval: Array) -> Array:
    """O_SFU of one warp: special functions beyond what the SFU takes beside the other units. Eqs. (S-9, S-10)"""
    special = [item for item in mix.entries.items() if _is_special(item[0])]
    count = sum(entry.count for _, entry in special)
    if not count:
        return np.zeros(case.size)
    busy = sum(entry.count * case.array(case.timing(name).interval_cycles) for name, entry in special) / count
    beyond = np.clip(count / mix.total - interval / busy, 0.0, 1.0)
    return count * busy * beyond

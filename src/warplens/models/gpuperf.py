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
from .prediction import Condition

#: Classes whose results are what a program is for, as GPUPerf counts them; the rest of the computation only steers.
_FLOATING = frozenset({"fp32", "fp64", "fp16", "sfu", "tensor"})


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
    parallelism: str = option(
        "chain",
        "what of a warp waits: the longest chain, or each instruction that stops a warp which issues in order",
        ("chain", "in-order"),
    )

    def evaluate(self, case: Case) -> Outcome:
        mix = case.facts.mix
        time, terms, conditions = self._time(case, mix, self._ilp(case, mix))
        ideal = {
            "B_itilp": self._time(case, mix, case.array(np.inf))[0],
            "B_serial": replace(time, serial=0.0 * time.serial),
            "B_memlp": replace(time, memory=terms.get("T_mem_min", time.memory)),
            "B_coalesced": self._time(case, _coalesced(mix), self._ilp(case, mix))[0],
            "B_fp": self._time(case, _floating(mix), self._ilp(case, mix))[0],
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
            conditions=conditions,
        )

    def _time(
        self, case: Case, mix: InstructionMix, ilp: Array
    ) -> tuple[Time, dict[str, Array], tuple[Condition, ...]]:
        """The time of an SM, its terms, and what it rests on."""
        N = case.W
        instructions = mix.total * case.array(case.residency.total_warps) / case.active_sms  # on an SM
        latency, interval = _latency(case, mix), _interval(case, mix)
        most = latency / interval  # Eq. (S-5)
        parallelism = np.minimum(ilp * N, most)  # ITILP, Eq. (S-4)
        memory = memory_warps(case, mix) if mix.memory_count else None
        serial = instructions / mix.total * (_special(case, mix, interval) + self._barriers(mix, memory))  # Eq. (S-6)
        parallel = instructions * latency / parallelism  # Eq. (S-3)
        time = Time(N, parallel, serial, np.zeros(case.size), np.zeros(case.size, dtype=bool))
        terms = {"ITILP": parallelism, "ITILP_max": most}
        if memory is None:
            return time, terms, ()
        found, more = _with_memory(case, mix, memory, time, mix.total * latency / parallelism, self._mlp(case, mix))
        return found, terms | more, memory.conditions

    def _ilp(self, case: Case, mix: InstructionMix) -> Array:
        kinds = ("compute", "shared", "barrier")
        if self.parallelism == "in-order" and mix.waits is not None:
            return _in_order(case, mix, mix.waits.computation, *kinds)
        return _beside_the_chain(case, mix, *kinds)

    def _mlp(self, case: Case, mix: InstructionMix) -> Array:
        if self.parallelism == "in-order" and mix.waits is not None:
            return _in_order(case, mix, mix.waits.memory, "memory")
        return _beside_the_chain(case, mix, "memory")

    def _barriers(self, mix: InstructionMix, memory: MemoryWarps | None) -> Array | float:
        """Cycles of a warp's barriers. Eqs. (S-7, S-8)"""
        if memory is None:
            return 0.0
        return mix.synchronizations * self.sync_factor * _dram_latency(memory) * mix.memory_count / mix.total


def _with_memory(
    case: Case, mix: InstructionMix, memory: MemoryWarps, time: Time, compute: Array, overlapping: Array
) -> tuple[Time, dict[str, Array]]:
    """The time with memory, and its terms. Eqs. (S-11 … S-15, S-A1 … S-A7)

    `compute` is one warp's computation, `overlapping` its MLP.
    """
    N, of_dram = case.W, _dram_latency(memory)
    amat = memory.latency  # Eq. (S-12): the caches' average, and the transactions of S-13
    at_peak = memory.peak_bandwidth_warps * of_dram / memory.latency  # Eqs. (S-A6, S-A7)
    mwp = np.minimum.reduce([of_dram * memory.transactions / memory.departure, at_peak, N])  # Eq. (S-A5)
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
    computing = mix.of_kind("compute", "shared", "barrier")
    total = sum(
        (entry.count * case.array(case.timing(name).latency_cycles) for name, entry in computing), 0.0 * case.W
    )
    return total / mix.compute_count


def _beside_the_chain(case: Case, mix: InstructionMix, *kinds: str) -> Array:
    """ILP or MLP: instructions over those of the longest chain."""
    found = [entry for _, entry in mix.of_kind(*kinds)]
    count = sum(entry.count for entry in found)
    waiting = count - sum((case.array(entry.independent) for entry in found), np.zeros(case.size))
    return count / np.maximum(waiting, 1.0) if count else np.ones(case.size)


def _in_order(case: Case, mix: InstructionMix, waits: float, *kinds: str) -> Array:
    """ILP or MLP: instructions that a warp issues from one wait for them to the next."""
    count = sum(entry.count for _, entry in mix.of_kind(*kinds))
    return case.array(max(count / max(waits, 1.0), 1.0))


def _coalesced(mix: InstructionMix) -> InstructionMix:
    """The mix whose accesses take one transaction each."""
    entries = {name: replace(entry, uncoalesced=0.0) for name, entry in mix.entries.items()}
    return replace(mix, entries=entries, uncoalesced_transactions=None)


def _interval(case: Case, mix: InstructionMix) -> Array:
    """warp_size / SIMD_width: cycles between two instructions, special functions apart, and no less than a slot."""
    slot = 1.0 / case.issue_rate
    usual = [item for item in mix.of_kind("compute", "shared", "barrier") if not _is_special(item[0])]
    count = sum(entry.count for _, entry in usual)
    busy = sum((entry.count * case.array(case.timing(name).interval_cycles) for name, entry in usual), 0.0 * slot)
    return np.maximum(slot, busy / count) if count else slot


def _is_special(name: str) -> bool:
    return "sfu" in lineage(name)


def _floating(mix: InstructionMix) -> InstructionMix:
    """The mix that accesses memory and computes in floating point only; all of it where that leaves nothing."""
    memory = dict(mix.of_kind("memory"))
    entries = {
        name: entry
        for name, entry in mix.entries.items()
        if name in memory or not _FLOATING.isdisjoint(lineage(name))
    }
    return replace(mix, entries=entries) if entries else mix


def _special(case: Case, mix: InstructionMix, interval: Array) -> Array:
    """O_SFU of one warp: special functions beyond what the SFU takes beside the other units. Eqs. (S-9, S-10)"""
    special = [item for item in mix.entries.items() if _is_special(item[0])]
    count = sum(entry.count for _, entry in special)
    if not count:
        return np.zeros(case.size)
    busy = sum(entry.count * case.array(case.timing(name).interval_cycles) for name, entry in special) / count
    beyond = np.clip(count / mix.total - interval / busy, 0.0, 1.0)
    return count * busy * beyond

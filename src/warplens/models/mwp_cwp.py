"""MWP-CWP (Hong & Kim, ISCA 2009), and its restatement and correction by Lemeire et al. (§2.3, §5.1).

`mwp-cwp` follows Eqs. (H-5 … H-27) with the cases in the printed order; its
option `form="lemeire"` evaluates Eqs. (L-15 … L-28) instead, which start from
H-1, H-3 and H-4. `mwp-cwp-corrected` is that form with compute latencies
(Λ_app in L-28) and the largest of the three cases.

Deviations: Lemeire's machines give λ and Λ of memory instead of departure
delays; then Mem_L = Λ and the departure delay is λ. A machine that gives neither
gets an SM's share of the NoC (else DRAM) bandwidth, one transfer per
transaction, and a warning. The printed order of the cases can predict fewer
cycles than issue alone takes (Comp_cycles > Mem_cycles with H-23): that raises a
warning, and `-corrected` repairs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..analysis import InstructionMix
from .base import Array, Aspect, Case, Model, Outcome, option
from .papers import HONG_KIM, LEMEIRE
from .pipeline_load import PipelineLoad, pipeline_load
from .prediction import Condition


@dataclass(frozen=True)
class MemoryWarps:
    """How memory warps follow each other: the machine side of MWP."""

    latency_coalesced: Array
    latency_uncoalesced: Array
    latency: Array
    departure: Array
    peak_bandwidth_warps: Array
    dram_latency: Array
    """Unloaded latency of an access that no cache serves."""
    transactions: Array
    """Transactions of an access on average."""
    derived: bool

    @property
    def conditions(self) -> tuple[Condition, ...]:
        text = "the machine gives no departure delays; they are derived from its bandwidth"
        return (Condition(text),) if self.derived else ()

    @property
    def unlimited(self) -> Array:
        """MWP before it is capped by the number of warps."""
        return np.minimum(self.latency / self.departure, self.peak_bandwidth_warps)  # Eq. (H-16)


def memory_warps(case: Case, mix: InstructionMix) -> MemoryWarps:
    """Mem_L, Departure_delay and MWP_peak_BW of the workload's memory instructions."""
    gpu, needed_by = case.gpu, case.model_name
    names = [name for name, _ in mix.of_kind("memory")]
    scale = case.array(gpu.clock_ratio)
    weight_uncoal = mix.uncoalesced_count / mix.memory_count  # Eq. (H-13)
    weight_coal = 1.0 - weight_uncoal  # Eq. (H-14)
    if "mem" in gpu.instructions or any(name in gpu.instructions for name in names):
        latency = interval = np.zeros(case.size)
        for name, entry in mix.of_kind("memory"):
            timing, weight = case.timing(name), entry.count / mix.memory_count
            latency = latency + weight * case.array(timing.latency_cycles)
            interval = interval + weight * case.array(timing.interval_cycles)
        unlimited, one = case.array(np.inf), case.array(1.0)
        return MemoryWarps(latency, latency, latency, interval, unlimited, latency, one, False)
    derived = gpu.dram.departure_coalesced_cycles is None
    if derived:
        level = "noc" if gpu.noc.bandwidth_bytes_per_s is not None else "dram"
        coalesced = uncoalesced = case.array(gpu.service_cycles_now(level, needed_by)) * case.active_sms
    else:
        coalesced = case.require("dram.departure_coalesced_cycles") * scale
        uncoalesced = case.require("dram.departure_uncoalesced_cycles") * scale
    transactions = case.array(1.0)
    if mix.uncoalesced_transactions is not None:
        transactions = case.array(mix.uncoalesced_transactions)
    elif mix.uncoalesced_count:
        transactions = case.require("dram.uncoalesced_transactions")
    unloaded = case.array(case.facts.memory_latency_cycles(needed_by))
    latency_uncoal = unloaded + (transactions - 1.0) * uncoalesced  # Eq. (H-10)
    latency_coal = unloaded  # Eq. (H-11)
    latency = latency_uncoal * weight_uncoal + latency_coal * weight_coal  # Eq. (H-12)
    departure = uncoalesced * transactions * weight_uncoal + coalesced * weight_coal  # Eq. (H-15)
    bytes_per_warp = mix.bytes_per_request or case.require("l1.line_bytes")
    per_warp = case.array(gpu.clock_hz) * bytes_per_warp / latency  # Eq. (H-7)
    peak = case.require("dram.bandwidth_bytes_per_s") / (per_warp * case.active_sms)  # Eq. (H-6)
    return MemoryWarps(
        latency_coal,
        latency_uncoal,
        latency,
        departure,
        peak,
        case.array(gpu.memory_latency_cycles_now(needed_by)),
        1.0 + (transactions - 1.0) * weight_uncoal,
        derived,
    )


@dataclass(frozen=True)
class MwpCwp(Model):
    """Memory and computation warp parallelism decide which cost is exposed."""

    name = "mwp-cwp"
    title = "MWP-CWP"
    paper = HONG_KIM
    equations = "H-5 … H-27 (L-15 … L-28 with form=lemeire)"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.MEMORY_LATENCY, Aspect.BARRIERS, Aspect.ISSUE_LIMIT})

    form: str = option("hong-kim", "application-level equations, or Lemeire's restatement", ("hong-kim", "lemeire"))

    def evaluate(self, case: Case) -> Outcome:
        mix = case.facts.mix
        if mix.memory_count == 0:
            return self.without_memory(case, mix)
        memory = memory_warps(case, mix)
        outcome = self.lemeire_form if self.form == "lemeire" else self.hong_kim_form
        return outcome(case, mix, memory, memory.conditions)

    def without_memory(self, case: Case, mix: InstructionMix) -> Outcome:
        if self.form == "lemeire":
            compute = pipeline_load(case).interval_sum["compute"]  # Eq. (L-24)
        else:
            compute = _compute_interval(case, mix) * mix.total  # Eq. (H-19)
        return Outcome(
            instructions_per_warp=mix.total,
            cycles=compute * case.W * case.array(case.residency.runs),
            terms={"MWP": 0.0 * case.W, "CWP": np.ones(case.size), "Comp_cycles": compute},
        )

    def hong_kim_form(
        self, case: Case, mix: InstructionMix, memory: MemoryWarps, conditions: tuple[Condition, ...]
    ) -> Outcome:
        N, runs = case.W, case.array(case.residency.runs)  # Eqs. (H-20, H-21)
        mwp = np.minimum(memory.unlimited, N)  # Eqs. (H-5, H-16, H-17)
        # One issue slot for every instruction, memory instructions included.
        compute = _compute_interval(case, mix) * mix.total  # Eq. (H-19)
        coalesced = mix.memory_count - mix.uncoalesced_count
        waiting = (
            memory.latency_uncoalesced * mix.uncoalesced_count + memory.latency_coalesced * coalesced
        )  # Eq. (H-18)
        cwp_full = (waiting + compute) / compute  # Eq. (H-8)
        cwp = np.minimum(cwp_full, N)  # Eq. (H-9)
        period = compute / mix.memory_count  # Comp_p, Eq. (H-2)
        few_warps = waiting + compute + period * (mwp - 1.0)  # Eq. (H-22)
        memory_bound = waiting * N / mwp + period * (mwp - 1.0)  # Eq. (H-23)
        compute_bound = memory.latency + compute * N  # Eq. (H-24)
        is_few = (mwp == N) & (cwp == N)
        is_memory = ~is_few & ((cwp >= mwp) | (compute > waiting))
        cycles_app = np.where(is_few, few_warps, np.where(is_memory, memory_bound, compute_bound)) * runs
        synch = (
            memory.departure * (mwp - 1.0) * mix.synchronizations * case.array(case.residency.blocks_per_sm) * runs
        )  # Eq. (H-26)
        cycles = cycles_app + np.maximum(synch, 0.0)  # Eq. (H-27)
        return Outcome(
            instructions_per_warp=mix.total,
            cycles=cycles,
            terms={
                "MWP": mwp,
                "CWP": cwp,
                "MWP_without_BW": memory.latency / memory.departure,
                "MWP_peak_BW": memory.peak_bandwidth_warps,
                "CWP_full": cwp_full,
                "Mem_L": memory.latency,
                "Departure_delay": memory.departure,
                "Mem_cycles": waiting,
                "Comp_cycles": compute,
                "Rep": runs,
                "Exec_cycles_app": cycles_app,
                "Synch_cost": np.maximum(synch, 0.0),
                "equation": np.where(is_few, 22.0, np.where(is_memory, 23.0, 24.0)),
            },
            conditions=(
                *conditions,
                Condition(
                    "fewer cycles than issuing the instructions takes: Eq. (H-23) was chosen, as printed, although "
                    "computation dominates",
                    cycles_app < compute * N * runs * (1 - 1e-12),
                ),
            ),
        )

    def lemeire_form(
        self, case: Case, mix: InstructionMix, memory: MemoryWarps, conditions: tuple[Condition, ...]
    ) -> Outcome:
        W, load = case.W, pipeline_load(case)
        mwp = memory.unlimited  # Eq. (L-15)
        interval = memory.latency / mwp  # λ_mem
        compute = load.interval_sum["compute"]  # α_comp·λ_comp, Eq. (L-24)
        period = compute / mix.memory_count  # CI·λ_comp, Eq. (L-22)
        cwp = np.where(period > 0, memory.latency / period + 1.0, np.inf)  # Eq. (L-16)
        # L-26 assumes MWP < ω. The corrected model takes the largest case, so MWP is capped at ω (H-5).
        memory_bound = mix.memory_count * W * interval + period * np.minimum(mwp, W)  # Eq. (L-26)
        compute_bound = compute * W + memory.latency  # Eq. (L-27)
        few_warps = self.single_warp(load, memory, interval) + period * (W - 1.0)  # Eq. (L-28)
        is_few = np.minimum(mwp, cwp) >= W
        chosen = np.where(is_few, few_warps, np.where(cwp >= mwp, memory_bound, compute_bound))
        per_run = self.choose(chosen, few_warps, memory_bound, compute_bound)
        runs = case.array(case.residency.runs)
        synch = (
            memory.departure
            * np.maximum(np.minimum(mwp, W) - 1.0, 0.0)
            * mix.synchronizations
            * case.array(case.residency.blocks_per_sm)
        )  # Eq. (H-26)
        return Outcome(
            instructions_per_warp=mix.total,
            cycles=(per_run + synch) * runs,
            terms={"MWP": mwp, "CWP": cwp, "CPR": per_run + synch, "Rep": runs, "Synch_cost": synch * runs},
            conditions=conditions,
        )

    def single_warp(self, load: PipelineLoad, memory: MemoryWarps, interval: Array) -> Array:
        """Λ*_app: no compute latency, all memory latencies."""
        return load.mix.memory_count * memory.latency + load.interval_sum["compute"]

    def choose(self, chosen: Array, *cases: Array) -> Array:
        return chosen


def _compute_interval(case: Case, mix: InstructionMix) -> Array:
    """#Issue_cycles: cycles between two warp instructions on the compute pipeline, never below the issue limit."""
    slot = 1.0 / case.issue_rate
    if mix.compute_count == 0:
        return slot
    return np.maximum(slot, pipeline_load(case).interval_sum["compute"] / mix.compute_count)


@dataclass(frozen=True)
class CorrectedMwpCwp(MwpCwp):
    """Lemeire's form with compute latencies and the largest of the three cases."""

    name = "mwp-cwp-corrected"
    title = "MWP-CWP, corrected"
    paper = LEMEIRE
    equations = "L-15, L-16, L-26 … L-28 with Λ_app of L-2"
    aspects = frozenset({Aspect.ILP, Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.BARRIERS})

    form: str = option("lemeire", "the corrections are defined on Lemeire's restatement", ("lemeire",))

    def single_warp(self, load: PipelineLoad, memory: MemoryWarps, interval: Array) -> Array:
        """Λ_app of Eq. (L-2), with the latency and interval of memory warps (§5.1)."""
        free = sum((entry.independent for _, entry in load.mix.of_kind("memory")), 0.0)
        return load.chain["compute"] + (load.mix.memory_count - free) * memory.latency + free * interval

    def choose(self, chosen: Array, *cases: Array) -> Array:
        return np.maximum.reduce(cases)  # §5.1

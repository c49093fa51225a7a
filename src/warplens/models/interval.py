"""The machinery that GPUMech, MDM and their ablations share: an interval profile, timed and queued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..analysis import STALL_CAUSES, ProfileBatch
from ..machine import Gpu
from ..workload import Workload
from .base import Array, Aspect, Case, Model, Outcome, option
from .prediction import Condition

#: Machine policy -> the policy whose equations describe it best.
_GREEDY = ("gto", "oldest")
#: CPI categories of the representative warp.
WARP_CATEGORIES = ("BASE", *STALL_CAUSES)


@dataclass(frozen=True)
class IntervalModel(Model):
    """IPC = W·Σinstructions / (Σ C_i + S_i^MSHR + S_i^NoC + S_i^DRAM), Eq. (M-1) and, with its terms, Eq. (G-3)."""

    needs = "interval_profile"
    # G-4 sees which instructions wait for which, so independent ones shorten the stalls.
    aspects = frozenset(
        {
            Aspect.ILP,
            Aspect.COMPUTE_LATENCY,
            Aspect.MEMORY_LATENCY,
            Aspect.DIVERGENT_WARPS,
            Aspect.ISSUE_LIMIT,
            Aspect.SCHEDULER,
        }
    )
    categories: ClassVar[tuple[str, ...] | None] = WARP_CATEGORIES

    mshr_term: ClassVar[str] = "none"
    queue_term: ClassVar[str] = "none"
    fixed_policy: ClassVar[str] = ""

    policy: str | None = option(None, "scheduling equations; auto follows the machine", (None, "rr", "gto"))
    clamp: bool = option(True, "never predict more than the issue rate")
    compute_latency: bool = option(
        True, "intervals derived from a dependence graph stall on compute latencies too (Lemeire's do not)"
    )
    min_gap: float = option(1.0, "intervals derived from a dependence graph close at stalls of this many cycles")

    def policy_of(self, gpu: Gpu) -> str:
        """The equations used: optimistic, rr, rr-corrected or gto."""
        return self.fixed_policy or self.policy or ("gto" if gpu.scheduler in _GREEDY else "rr")

    def check(self, workload: Workload, gpu: Gpu) -> None:
        super().check(workload, gpu)
        if not workload.sends_requests:
            return  # nothing of the memory system is needed
        for path in self.memory_needs(gpu):
            gpu.require(path, f"model {self.name!r}")

    def memory_needs(self, gpu: Gpu) -> list[str]:
        """Machine parameters that the contention terms read."""
        paths = []
        if self.mshr_term != "none" or self.queue_term.startswith("mdm"):
            paths += ["l1.mshrs", "llc.latency_cycles", "dram.latency_cycles"]
        if self.queue_term != "none":
            paths += ["l1.line_bytes", "dram.bandwidth_bytes_per_s"]
        if self.queue_term not in ("none", "gpumech"):
            paths += ["noc.bandwidth_bytes_per_s"]
        return paths

    def evaluate(self, case: Case) -> Outcome:
        from . import _interval_kernels as kernels

        result = np.zeros((case.size, kernels.RESULT_COLUMNS))
        instructions = 0.0
        stalls = np.zeros((len(STALL_CAUSES), case.size))
        stall_cycles = np.zeros(case.size)
        switches = self._switches(case.gpu)
        machines = self._machines(case)
        for rows, profiles in case.workload.profile_batches(
            case.gpu, case.size, case.model_name, compute_latency=self.compute_latency, min_gap=self.min_gap
        ):
            of_machine = profiles.of_machine
            some = machines[rows]
            some[:, kernels.M_MISS_LATENCY] = _miss_latency(profiles, some)
            part = np.zeros((len(some), kernels.RESULT_COLUMNS))
            kernels.evaluate_batch(profiles.matrix, profiles.start, of_machine, some, *switches, part)
            result[rows] = part
            instructions = profiles.total_instructions
            stalls[:, rows] = profiles.stall_by_cause[of_machine].T
            stall_cycles[rows] = profiles.stall_cycles[of_machine]
        representative = instructions / case.issue_rate + stall_cycles
        sums = {
            "nonoverlapped": result[:, kernels.R_NONOVERLAPPED],
            "S_MSHR": result[:, kernels.R_MSHR],
            "S_NoC": result[:, kernels.R_NOC],
            "S_DRAM": result[:, kernels.R_DRAM],
        }
        return self._outcome(case, instructions, representative, stalls, sums, result)

    def _switches(self, gpu: Gpu) -> tuple[int, int, int, int]:
        from . import _interval_kernels as kernels

        policies = {
            "optimistic": kernels.OPTIMISTIC,
            "rr": kernels.ROUND_ROBIN,
            "rr-corrected": kernels.ROUND_ROBIN_CORRECTED,
            "gto": kernels.GREEDY_THEN_OLDEST,
        }
        mshr = {
            "none": kernels.NO_MSHR,
            "gpumech": kernels.GPUMECH_MSHR,
            "gpumech-with-queues": kernels.GPUMECH_MSHR_WITH_QUEUES,
            "mdm": kernels.MDM_MSHR,
        }
        queue = {
            "none": kernels.NO_QUEUE,
            "gpumech": kernels.GPUMECH_DRAM,
            "gpumech-with-noc": kernels.GPUMECH_NOC_AND_DRAM,
            "mdm": kernels.MDM_QUEUE,
            "mdm-cal2019": kernels.MDM_QUEUE_CAL2019,
        }
        rule = kernels.MSHR_CAPPED if self.request_rule == "mshr-capped" else kernels.ALL_REQUESTS
        return policies[self.policy_of(gpu)], mshr[self.mshr_term], queue[self.queue_term], rule

    @property
    def request_rule(self) -> str:
        return "l2-misses"

    def outstanding_limit(self, gpu: Gpu) -> str:
        """Path of the parameter that limits an SM's misses in flight."""
        return "l1.mshrs"

    def _machines(self, case: Case) -> Array:
        """One row of kernel parameters per machine; what a model does not use stays at a harmless 1 or 0."""
        from . import _interval_kernels as kernels

        gpu = case.gpu
        table = np.zeros((case.size, kernels.MACHINE_COLUMNS))
        table[:, kernels.M_WARPS] = case.W
        table[:, kernels.M_SMS] = case.active_sms
        table[:, kernels.M_ISSUE_RATE] = case.issue_rate
        limit = gpu.get(self.outstanding_limit(gpu))
        table[:, kernels.M_MSHRS] = 1.0 if limit is None else limit
        if gpu.llc.latency_cycles is not None:
            table[:, kernels.M_LLC_LATENCY] = gpu.llc.latency_cycles
        if gpu.dram.latency_cycles is not None:
            table[:, kernels.M_DRAM_LATENCY] = gpu.dram_latency_cycles_now(case.model_name)
        if gpu.l1.line_bytes is not None:
            for level, column in (("noc", kernels.M_NOC_SERVICE), ("dram", kernels.M_DRAM_SERVICE)):
                if gpu.get(f"{level}.bandwidth_bytes_per_s") is not None:
                    table[:, column] = gpu.service_cycles_now(level, case.model_name)
        return table

    def _outcome(
        self,
        case: Case,
        instructions: float,
        representative: Array,
        stalls: Array,
        sums: dict[str, Array],
        result: Array,
    ) -> Outcome:
        W, issue_rate = case.W, case.issue_rate
        multithreaded = representative + sums["nonoverlapped"] / issue_rate  # Σ C_i; Eq. (G-7) inverted
        contention = sums["S_MSHR"] + sums["S_NoC"] + sums["S_DRAM"]
        share = self.contention_share(W)
        raw_cpi = (multithreaded + share * contention) / (W * instructions)  # Eqs. (M-1), (G-3)
        cpi = np.maximum(raw_cpi, 1.0 / issue_rate) if self.clamp else raw_cpi
        stack = None
        if self.categories is not None:
            stack = self._stack(case, instructions, representative, stalls, multithreaded, cpi - raw_cpi)
            per_instruction = share / (W * instructions)
            extra = {"MSHR": "S_MSHR", "NOC": "S_NoC", "QUEUE": "S_DRAM"}
            stack |= {name: sums[term] * per_instruction for name, term in extra.items() if name in self.categories}
        return Outcome(
            instructions_per_warp=instructions,
            ipc_sm=1.0 / cpi,
            stack=stack,
            terms={
                "IPC_raw": case.active_sms / raw_cpi,
                "C": multithreaded,
                "nonoverlapped_insts": sums["nonoverlapped"],
                **self.terms(case, sums, result),
            },
            conditions=(
                Condition(
                    "the equations exceed the issue rate; the prediction is clamped to it"
                    if self.clamp
                    else "the equations exceed the issue rate",
                    raw_cpi < (1.0 / issue_rate) * (1 - 1e-12),
                ),
                *self._given_stalls(case),
                *self.extra_conditions(case, result),
            ),
        )

    def contention_share(self, W: Array) -> Array:
        """Contention delays are cycles of the core, which its W warps share (docs/conventions.md §4)."""
        return np.ones_like(W)

    def _stack(
        self,
        case: Case,
        instructions: float,
        representative: Array,
        stalls: Array,
        multithreaded: Array,
        unissued: Array,
    ) -> dict[str, Array]:
        """Categories of the representative warp, shrunk by CPI_mt / CPI_warp (GPUMech §VII).

        What the clamp adds is time in which the SM issues at its full rate: BASE.
        """
        shrink = multithreaded / representative / (case.W * instructions)
        stack = {"BASE": instructions / case.issue_rate * shrink + unissued}
        return stack | {cause: stalls[index] * shrink for index, cause in enumerate(STALL_CAUSES)}

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Array]:
        """The paper's quantities of this model."""
        return {}

    def extra_conditions(self, case: Case, result: Array) -> tuple[Condition, ...]:
        return ()

    @staticmethod
    def _given_stalls(case: Case) -> tuple[Condition, ...]:
        changed = [key for key in case.gpu.overrides if key == "clock" or key.endswith(".latency")]
        if case.workload.profile is None or not changed:
            return ()
        return (Condition(f"the profile's stall cycles are given and do not follow {', '.join(changed)}"),)


def _miss_latency(profiles: ProfileBatch, machines: Array) -> Array:
    """Average latency of an L1 miss on each machine: as given, or by the part of them that goes to DRAM."""
    from . import _interval_kernels as kernels

    given = profiles.average_miss_latency_cycles[profiles.of_machine]
    fraction = profiles.dram_fraction[profiles.of_machine]
    derived = machines[:, kernels.M_LLC_LATENCY] + fraction * machines[:, kernels.M_DRAM_LATENCY]
    return np.where(np.isnan(given), derived, given)

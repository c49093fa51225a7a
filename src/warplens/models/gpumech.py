"""GPUMech (Huang et al., MICRO 2014) and its ablations (Table II of the paper).

Misprints mended, as the authors confirmed through Volkov (2016): G-7 is an IPC,
G-15 a minimum, G-16 a maximum. Contention delays are cycles that all warps of a
core share (option `normalization` has the literal G-17). Requests of the MSHR
term are L1 read misses; those of the DRAM term are an option. Predictions are
clamped at the issue rate unless `clamp=false`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .base import Array, Aspect, Case, Model, Outcome, option
from .interval import WARP_CATEGORIES, IntervalModel
from .papers import GPUMECH, LEMEIRE
from .prediction import Condition

#: The Markov chain has a state per warp, and its table grows with their square.
_MOST_WARPS = 4096


@dataclass(frozen=True)
class NaiveInterval(IntervalModel):
    """Optimistic overlap: one warp's IPC times the number of warps."""

    name = "naive-interval"
    title = "Naive interval"
    paper = GPUMECH
    equations = "G-1"
    aspects = IntervalModel.aspects - {Aspect.SCHEDULER}
    categories = None
    fixed_policy = "optimistic"

    policy: str | None = option(None, "the optimistic overlap has no policy", (None,))


@dataclass(frozen=True)
class MarkovChain(Model):
    """Stationary state of a chain over the number of suspended warps (Chen & Aamodt 2009).

    p = stalls started per instruction, 1/M = wake-up probability per issue slot;
    IPC = issue rate · (1 - P(all suspended)).
    """

    name = "markov-chain"
    title = "Markov chain"
    paper = GPUMECH
    equations = "Table II, after Chen & Aamodt, HPCA 2009"
    needs = "interval_profile"
    aspects = NaiveInterval.aspects

    compute_latency: bool = option(
        True, "intervals derived from a dependence graph stall on compute latencies too (Lemeire's do not)"
    )
    min_gap: float = option(1.0, "intervals derived from a dependence graph close at stalls of this many cycles")

    def evaluate(self, case: Case) -> Outcome:
        from ._interval_kernels import all_suspended

        p, slots = np.zeros(case.size), np.zeros(case.size)
        instructions = 0.0
        for rows, profiles in case.workload.profile_batches(
            case.gpu, case.size, case.model_name, compute_latency=self.compute_latency, min_gap=self.min_gap
        ):
            started = profiles.stalls[profiles.of_machine]
            stall = profiles.stall_cycles[profiles.of_machine]
            instructions = profiles.total_instructions
            p[rows] = np.minimum(started / instructions, 1.0)
            slots[rows] = np.maximum(1.0, stall / np.maximum(started, 1.0) * case.issue_rate[rows])
        whole = np.maximum(np.floor(case.W), 1.0)
        if np.max(whole) > _MOST_WARPS:
            raise InputError(
                f"{case.model_name} follows at most {_MOST_WARPS} resident warps of an SM, not {np.max(whole):g}; "
                "lower launch.warps_per_sm"
            )
        keys, inverse = _distinct_rows(np.stack([whole, p, slots], axis=1))
        idle = np.array([all_suspended(int(w), probability, 1.0 / m) for w, probability, m in keys])[inverse]
        return Outcome(
            instructions_per_warp=instructions,
            ipc_sm=case.issue_rate * (1.0 - idle),
            terms={"p": p, "M": slots, "P_all_suspended": idle},
            conditions=(Condition("a fraction of a warp is left out of the chain", whole != case.W),),
        )


def _distinct_rows(table: Array) -> tuple[Array, NDArray[np.intp]]:
    """Distinct rows and where each row went; most sweeps leave all rows alike, which needs no sorting."""
    if np.all(table == table[0]):
        return table[:1], np.zeros(len(table), dtype=np.intp)
    keys, inverse = np.unique(table, axis=0, return_inverse=True)
    return keys, inverse.ravel()


@dataclass(frozen=True)
class MultiThreading(IntervalModel):
    """GPUMech's multithreading model alone (MT)."""

    name = "gpumech-mt"
    title = "GPUMech MT"
    paper = GPUMECH
    equations = "G-5 … G-16"


@dataclass(frozen=True)
class MultiThreadingMshr(IntervalModel):
    """Multithreading and MSHR contention (MT_MSHR)."""

    name = "gpumech-mt-mshr"
    title = "GPUMech MT_MSHR"
    paper = GPUMECH
    equations = "G-5 … G-20"
    mshr_term = "gpumech"
    categories: ClassVar[tuple[str, ...] | None] = (*WARP_CATEGORIES, "MSHR")

    normalization: str = option(
        "shared", "contention per core (shared by its warps), or G-17 as printed", ("shared", "literal")
    )

    def contention_share(self, W: Array) -> Array:
        return W if self.normalization == "literal" else np.ones_like(W)  # Eq. (G-17)

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
        from . import _interval_kernels as kernels

        return {
            "MSHR_delay": sums["S_MSHR"],
            "exp_queuing_delay": result[:, kernels.R_QUEUE_WAIT],
            "core_reqs": result[:, kernels.R_REQUESTS],
        }


@dataclass(frozen=True)
class GpuMech(MultiThreadingMshr):
    """Multithreading, MSHR and DRAM bandwidth contention (MT_MSHR_BAND)."""

    name = "gpumech"
    title = "GPUMech"
    equations = "G-3, G-5 … G-23"
    queue_term = "gpumech"
    categories: ClassVar[tuple[str, ...] | None] = (*WARP_CATEGORIES, "MSHR", "QUEUE")

    dram_requests: str = option(
        "l2-misses",
        "requests in the DRAM queue: all that miss L2, or reads capped by the MSHRs as the MDM authors do",
        ("l2-misses", "mshr-capped"),
    )

    @property
    def request_rule(self) -> str:
        return self.dram_requests

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
        from . import _interval_kernels as kernels

        return {
            **super().terms(case, sums, result),
            "Bandwidth_delay": sums["S_DRAM"],
            "rho": result[:, kernels.R_UTILISATION],
        }

    def extra_conditions(self, case: Case, result: Array) -> tuple[Condition, ...]:
        from . import _interval_kernels as kernels

        return (
            Condition(
                "DRAM demand exceeds its bandwidth (ρ ≥ 1); the queueing delay is the paper's cap",
                result[:, kernels.R_UTILISATION] >= 1.0,
            ),
        )


@dataclass(frozen=True)
class CorrectedRoundRobin(GpuMech):
    """GPUMech with Lemeire's round robin, which agrees with the paper's own Fig. 8."""

    name = "gpumech-rr-corrected"
    title = "GPUMech, RR corrected"
    paper = LEMEIRE
    equations = "L §2.5.1 in place of G-10, G-11; G-17 … G-23"
    aspects = GpuMech.aspects - {Aspect.SCHEDULER}
    fixed_policy = "rr-corrected"

    policy: str | None = option("rr", "the correction is one of round robin", ("rr",))

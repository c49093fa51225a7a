"""The Markov chain that GPUMech compares itself with (Table II): Chen & Aamodt, HPCA 2009."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..workload import Needs
from .base import Array, Aspect, Case, Model, Outcome, option
from .interval import OPTIONS, IntervalModel
from .papers import GPUMECH
from .prediction import Condition


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
    aspects = IntervalModel.aspects - {Aspect.SCHEDULER}

    compute_latency: bool = option(*OPTIONS["compute_latency"])
    min_gap: float = option(*OPTIONS["min_gap"])

    @property
    def requirements(self) -> Needs:
        return Needs(self.needs, min_gap=self.min_gap, compute_latency=self.compute_latency)

    def evaluate(self, case: Case) -> Outcome:
        from ._interval_kernels import all_suspended

        p, slots = np.zeros(case.size), np.zeros(case.size)
        instructions = 0.0
        for rows, profiles in case.facts.profiles:
            started = profiles.stalls[profiles.of_machine]
            stall = profiles.stall_cycles[profiles.of_machine]
            instructions = profiles.total_instructions
            p[rows] = np.minimum(started / instructions, 1.0)
            slots[rows] = np.maximum(1.0, stall / np.maximum(started, 1.0) * case.issue_rate[rows])
        whole = np.maximum(np.floor(case.W), 1.0)
        keys, inverse = _distinct_rows(np.stack([whole, p, slots], axis=1))
        idle = np.array([all_suspended(int(w), probability, 1.0 / m) for w, probability, m in keys])[inverse]
        return Outcome(
            instructions_per_warp=instructions,
            ipc_sm=case.issue_rate * (1.0 - idle),
            terms={"p": p, "M": slots, "P_all_suspended": idle},
            conditions=(Condition("the chain rounds the number of warps down", whole != case.W),),
        )


def _distinct_rows(table: Array) -> tuple[Array, NDArray[np.intp]]:
    """(distinct rows, index of each row among them). In most sweeps all rows are equal, which needs no sorting."""
    if np.all(table == table[0]):
        return table[:1], np.zeros(len(table), dtype=np.intp)
    keys, inverse = np.unique(table, axis=0, return_inverse=True)
    return keys, inverse.ravel()

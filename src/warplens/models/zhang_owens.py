"""Throughput model of Zhang & Owens (HPCA 2011), as Volkov's thesis restates it (2016, §7.1).

Micro-benchmarks give the throughput of each component alone, as a function of the resident warps. A kernel puts its
instructions on three components, and the slowest one counts: they overlap completely. Here λ and Λ of a class take
the place of the measured curves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Aspect, Case, Model, Outcome
from .papers import ZHANG_OWENS

#: Kinds of instruction on each component.
_COMPONENTS = {"instruction": ("compute", "barrier"), "shared": ("shared",), "global": ("memory",)}


@dataclass(frozen=True)
class ZhangOwens(Model):
    """The slowest of instruction pipeline, shared memory and global memory."""

    name = "zhang-owens"
    title = "Zhang & Owens"
    paper = ZHANG_OWENS
    equations = "Z-1, Z-2"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.ISSUE_LIMIT})

    def evaluate(self, case: Case) -> Outcome:
        mix = case.facts.mix
        times = {}
        for component, kinds in _COMPONENTS.items():
            cycles = np.zeros(case.size)
            for name, entry in mix.of_kind(*kinds):
                timing = case.timing(name)
                latency, interval = case.array(timing.latency_cycles), case.array(timing.interval_cycles)
                # Cycles per instruction: one over the throughput of W warps that do nothing else
                alone = np.maximum.reduce([latency / case.W, interval, 1.0 / case.issue_rate])  # Eq. (Z-1)
                cycles = cycles + entry.count * alone
            times[f"T_{component}"] = cycles
        slowest = np.maximum.reduce(list(times.values()))  # Eq. (Z-2)
        return Outcome(instructions_per_warp=mix.total, ipc_sm=mix.total / slowest, terms=times)

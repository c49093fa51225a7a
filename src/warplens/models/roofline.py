"""Roofline (Williams et al. 2009), restated per warp by Lemeire et al., Eq. (L-1).

Extended as docs/conventions.md §1 asks: any number of subsystems, and the issue limit as one
more roof. Roofline assumes that all latencies are hidden, so occupancy does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from .base import Aspect, Case, Model, Outcome
from .papers import LEMEIRE
from .pipeline_load import pipeline_load, roof_warps_per_cycle
from .prediction import Condition


@dataclass(frozen=True)
class Roofline(Model):
    """Throughput bound: the busiest pipeline or the issue limit."""

    name = "roofline"
    title = "Roofline"
    paper = LEMEIRE
    equations = "L-1"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.SUBSYSTEMS, Aspect.ISSUE_LIMIT})

    def evaluate(self, case: Case) -> Outcome:
        load = pipeline_load(case)
        mix = load.mix
        roof = roof_warps_per_cycle(case, load)
        terms = {"WPC_roof": roof, **{f"busy_{name}": busy for name, busy in load.busy.items()}}
        if mix.memory_count > 0:
            terms["CI"] = case.array(mix.compute_count / mix.memory_count)
        hidden = load.app_latency * roof
        return Outcome(
            instructions_per_warp=mix.total,
            ipc_sm=roof * mix.total,
            terms=terms,
            conditions=(
                Condition(
                    "Roofline assumes that all latencies are hidden; this occupancy cannot hide them", hidden > case.W
                ),
            ),
        )

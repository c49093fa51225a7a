"""Volkov's occupancy roofline (Volkov 2016), restated by Lemeire et al., Eqs. (L-2, L-3).

The contention function of Volkov's thesis is left out, as Lemeire does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Aspect, Case, Model, Outcome
from .papers import LEMEIRE
from .pipeline_load import pipeline_load, roof_warps_per_cycle


@dataclass(frozen=True)
class Volkov(Model):
    """Occupancy roofline: one warp's latency until the throughput roof is reached."""

    name = "volkov"
    title = "Volkov"
    paper = LEMEIRE
    equations = "L-2, L-3"
    needs = "instruction_mix"
    aspects = frozenset(
        {Aspect.ILP, Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.SUBSYSTEMS, Aspect.ISSUE_LIMIT}
    )

    def evaluate(self, case: Case) -> Outcome:
        load = pipeline_load(case)
        roof = roof_warps_per_cycle(case, load)
        warps_per_cycle = np.minimum(roof, case.W / load.app_latency)  # Eq. (L-3)
        return Outcome(
            instructions_per_warp=load.mix.total,
            ipc_sm=warps_per_cycle * load.mix.total,
            terms={
                "Lambda_app": load.app_latency,
                "WPC": warps_per_cycle,
                "WPC_roof": roof,
                "warps_to_saturate": load.app_latency * roof,
            },
        )

"""Transit (Li et al. 2015), restated by Lemeire et al., Eqs. (L-4 … L-14).

A warp is either computing or waiting for memory. The steady state is where the
supply of the memory roofline at k warps meets the demand of the compute
roofline at ω - k warps (L-8). Misprints mended: L-9 has its denominators
swapped and L-10 prints α_comp for Λ_comp. Instructions of one warp never
overlap (no ILP); all non-memory subsystems together form the compute side, and
the slowest of them is its roof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Array, Aspect, Case, Model, Outcome
from .papers import LEMEIRE
from .pipeline_load import pipeline_load
from .prediction import Condition


@dataclass(frozen=True)
class Transit(Model):
    """Balance of the compute and the memory occupancy rooflines."""

    name = "transit"
    title = "Transit"
    paper = LEMEIRE
    equations = "L-4 … L-14"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.SUBSYSTEMS})

    def evaluate(self, case: Case) -> Outcome:
        sides = sides_of(case)
        waiting, throughput = steady_state(
            case.W,
            compute_latency=sides.compute_latency,
            memory_latency=sides.memory_latency,
            compute_roof=sides.compute_roof,
            memory_roof=sides.memory_roof,
        )
        return Outcome(
            instructions_per_warp=sides.instructions,
            ipc_sm=throughput * sides.instructions,
            terms={"k": waiting, "x": case.W - waiting, "WPC": throughput},
            conditions=(
                (Condition("Transit has one compute side; the slowest of several pipelines bounds it"),)
                if sides.several
                else ()
            ),
        )


@dataclass(frozen=True)
class Sides:
    """α·Λ of the compute and the memory side for one warp, and their roofs in warps per cycle."""

    instructions: float
    compute_latency: Array
    memory_latency: Array
    compute_roof: Array
    memory_roof: Array
    several: bool
    """More than one pipeline computes."""


def sides_of(case: Case) -> Sides:
    """Both occupancy rooflines of a case."""
    load = pipeline_load(case)
    names = [name for name in load.busy if name != "memory"]
    compute_roof = np.min([1.0 / load.busy[name] for name in names], axis=0) if names else np.inf
    return Sides(
        load.mix.total,
        load.latency_sum["compute"],
        load.latency_sum["memory"],
        case.array(compute_roof),
        1.0 / load.interval_sum["memory"],
        len(names) > 1,
    )


def steady_state(
    warps: Array, *, compute_latency: Array, memory_latency: Array, compute_roof: Array, memory_roof: Array
) -> tuple[Array, Array]:
    """(k warps waiting for memory, warps per cycle) where f(k) = g(ω - k).

    Latencies are α·Λ of a side, roofs 1/(α·λ). Both curves are min(roof,
    warps/latency); the crossing lies on both slopes (L-11), on the memory roof,
    or on the compute roof. Where the roofs coincide any k between them fits;
    the largest is given.
    """
    both = warps * memory_latency / (memory_latency + compute_latency)  # Eq. (L-11)
    on_memory_roof = warps - compute_latency * memory_roof
    on_compute_roof = memory_latency * compute_roof
    slopes = warps / (memory_latency + compute_latency)  # Eqs. (L-12 … L-14)
    k = np.where(
        slopes <= np.minimum(memory_roof, compute_roof),
        both,
        np.where(memory_roof <= compute_roof, on_memory_roof, on_compute_roof),
    )
    # Warps that compute. ω - k would lose them to rounding where nearly all warps wait.
    x = np.where(
        slopes <= np.minimum(memory_roof, compute_roof),
        warps * compute_latency / (memory_latency + compute_latency),
        np.where(memory_roof <= compute_roof, compute_latency * memory_roof, warps - k),
    )
    supply = np.minimum(memory_roof, np.where(memory_latency > 0, k / memory_latency, np.inf))  # Eqs. (L-5, L-7)
    demand_side = np.minimum(
        compute_roof, np.where(compute_latency > 0, x / compute_latency, np.inf)
    )  # Eqs. (L-4, L-6)
    return k, np.minimum(supply, demand_side)  # Eq. (L-8): equal but for rounding

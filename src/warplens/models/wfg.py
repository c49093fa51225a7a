"""Work flow graph model (Baghsorkhi et al. 2010), restated by Lemeire et al., Eqs. (L-30 … L-42).

`wfg` is the original. `wfg-corrected` sets λ_instr_mem = 0 and replaces L-36 by
L-42 (Lemeire §2.4.3, 2.4.4). Equation L-30 already contains α_i, so L-31 does
not multiply by it again (as L-38 shows). WLP_effect, the warps that hide each
other's latencies, is ω unless given: the equation of the original is in no text
that we have, so `work_groups` gives its bounds, ω and the resident groups.
Barriers count in L-35 but take no cycles: the paper gives none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..analysis import FlowNode
from .base import Array, Aspect, Case, Model, Outcome, option
from .papers import LEMEIRE
from .prediction import Condition


@dataclass(frozen=True)
class WorkFlow(Model):
    """Cycles along the arcs of the flattened work flow graph."""

    name = "wfg"
    title = "WFG"
    paper = LEMEIRE
    equations = "L-30 … L-36"
    needs = "work_flow_graph"
    aspects = frozenset(
        {Aspect.ILP, Aspect.COMPUTE_LATENCY, Aspect.MEMORY_LATENCY, Aspect.BARRIERS, Aspect.DIVERGENT_WARPS}
    )
    corrected: ClassVar[bool] = False

    effective_warps: float = option(0.0, "WLP_effect: warps that hide each other's latencies; 0: by `work_groups`")
    work_groups: str = option(
        "asynchronous",
        "bounds of WLP_effect: warps of a group run on their own (all hide), or in step (one of each group hides)",
        ("asynchronous", "in-step"),
    )

    def evaluate(self, case: Case) -> Outcome:
        graph = case.facts.flow
        W = self._hiding_warps(case)
        zero = np.zeros(case.size)
        timings = [case.timing(node.instruction_class) for node in graph.nodes]
        intervals = [case.array(timing.interval_cycles) for timing in timings]
        latencies = [case.array(timing.latency_cycles) for timing in timings]
        memory_count = sum(node.count for node in graph.of_kind("memory"))
        barrier_count = sum(node.count for node in graph.of_kind("barrier"))
        compute_count = sum(node.count for node in graph.of_kind("compute"))

        compute_cycles = busy = zero
        for node, interval, latency in zip(graph.nodes, intervals, latencies, strict=True):
            if node.kind == "compute":
                compute_cycles = compute_cycles + _transition(node, interval, latency, W)
                busy = busy + node.count * interval
        # The memory instruction itself occupies the compute pipeline: λ_instr_mem = λ_comp (L §2.4.1).
        issue = zero if self.corrected or not compute_count else busy / compute_count
        compute_cycles = compute_cycles + issue * memory_count  # Eq. (L-31)
        hiding = compute_cycles / (memory_count + barrier_count + 1)  # NBC_avg, Eq. (L-35)

        cycles_per_warp = exposed_sum = preceding = alone = zero
        for node, interval, latency in zip(graph.nodes, intervals, latencies, strict=True):
            if node.kind == "compute":
                cycles_per_warp = cycles_per_warp + _transition(node, interval, latency, W)
                preceding = node.count * latency / (W * node.ilp)
                alone = alone + _transition(node, interval, latency, np.ones_like(W))
            elif node.kind == "memory":
                # Eq. (L-33), CYC_mem / α_mem being the interval of the access
                arc = issue + np.maximum(0.0, interval - compute_cycles / memory_count)
                exposed = self.exposed_latency(latency, W, hiding, preceding)
                cycles_per_warp = cycles_per_warp + node.count * (np.maximum(arc, exposed) if node.dependent else arc)
                exposed_sum = exposed_sum + node.count * np.maximum(0.0, exposed)
                alone = alone + (node.count * latency if node.dependent else zero)
        cycles_per_run = cycles_per_warp * case.W  # Eq. (L-39)
        return Outcome(
            instructions_per_warp=graph.total,
            ipc_sm=graph.total / cycles_per_warp,
            terms={
                "CPW": cycles_per_warp,
                "CPR": cycles_per_run,
                "CYC_comp": compute_cycles,
                "NBC_avg": hiding,
                "Lambda_exposed": exposed_sum,
            },
            conditions=(
                Condition(
                    "all warps together finish before one warp alone would, because compute cycles hide latency "
                    "twice (Lemeire §2.4.4)",
                    cycles_per_run < alone * (1 - 1e-12),
                ),
            ),
        )

    def exposed_latency(self, latency: Array, W: Array, hiding: Array, preceding: Array) -> Array:
        return latency - (W - 1.0) * hiding  # Eq. (L-36)

    def _hiding_warps(self, case: Case) -> Array:
        """WLP_effect"""
        if self.effective_warps > 0:
            return np.minimum(case.W, self.effective_warps)
        return case.W if self.work_groups == "asynchronous" else case.array(case.residency.blocks_per_sm)


def _transition(node: FlowNode, interval: Array, latency: Array, W: Array) -> Array:
    """Arc that leaves a compute block. Eq. (L-30)"""
    return node.count * np.maximum(interval, latency / (node.ilp * W))


@dataclass(frozen=True)
class CorrectedWorkFlow(WorkFlow):
    """WFG with Lemeire's two corrections."""

    name = "wfg-corrected"
    title = "WFG, corrected"
    equations = "L-30, L-33 … L-35, L-42"
    corrected: ClassVar[bool] = True

    def exposed_latency(self, latency: Array, W: Array, hiding: Array, preceding: Array) -> Array:
        overlap = (W - 1.0) / W * hiding - preceding
        return latency / W - np.maximum(0.0, overlap)  # Eq. (L-42)

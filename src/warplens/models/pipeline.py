"""The Pipeline model (Lemeire et al., §3–4): warps' dependence graphs simulated on abstract pipelines.

`warplens.simulators.pipeline` simulates; this module makes it a model.
Unlike the others it has waves and tails: the cycles of a launch are those of
the SM with the most groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..simulators.pipeline import (
    MOST_ISSUES,
    POLICIES,
    ClassTimes,
    PipelineOptions,
    PipelineSimulation,
    SmRun,
    SmShare,
)
from .base import Aspect, Case, Model, Outcome, option
from .papers import LEMEIRE
from .prediction import Condition


@dataclass(frozen=True)
class Pipeline(Model):
    """Event simulation of the warps of one SM on pipelines with throughput λ and latency Λ."""

    name = "pipeline"
    title = "Pipeline"
    paper = LEMEIRE
    equations = "L §3–4, §6.3"
    needs = "dependence_graph"
    aspects = frozenset(Aspect)

    policy: str | None = option(None, "scheduler; auto follows the machine", (None, *POLICIES))
    in_order: bool | None = option(
        None,
        "a warp issues in program order; auto: yes for a trace, no for a graph written by hand",
        (None, True, False),
    )
    issue_limit: bool = option(True, "at most schedulers × issue width instructions issue per cycle; false: no limit")
    warps: str = option(
        "representative",
        "warps of a trace: all like the representative one, or each as traced",
        ("representative", "all"),
    )
    dram_ratio: float | None = option(
        None,
        "R of §6.3, bytes of DRAM over bytes accessed; auto: from a trace, else the machine's λ and Λ",
        kind=float,
    )
    bank_conflicts: float | None = option(
        None, "D of §6.3, bank conflict degree of shared memory; auto: from a trace's addresses, else 0", kind=float
    )
    most_issues: float = option(
        MOST_ISSUES,
        "most instructions simulated per SM; of a longer launch a part is simulated and scaled up",
    )

    def evaluate(self, case: Case) -> Outcome:
        settings = PipelineOptions(
            self.policy,
            self.in_order,
            self.issue_limit,
            self.warps,
            self.dram_ratio,
            self.bank_conflicts,
            self.most_issues,
        )
        simulation = PipelineSimulation(case.facts, settings, case.model_name)
        names = list(simulation.timings)
        timings = list(simulation.timings.values())
        residency = case.residency
        table = np.stack(
            [
                case.array(value)
                for value in (
                    *(timing.interval_cycles for timing in timings),
                    *(timing.latency_cycles for timing in timings),
                    case.issue_rate,
                    residency.warps_per_sm,
                    residency.blocks_per_sm,
                    residency.warps_per_block,
                    residency.active_sms,
                    residency.total_warps,
                )
            ],
            axis=1,
        )
        # Machines that the simulation cannot tell apart share one run.
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        runs: list[SmRun] = []
        for row in distinct.tolist():
            intervals, latencies, rest = row[: len(names)], row[len(names) : 2 * len(names)], row[2 * len(names) :]
            times = {
                name: ClassTimes(interval, latency, str(timing.subsystem))
                for name, interval, latency, timing in zip(names, intervals, latencies, timings, strict=True)
            }
            runs.append(simulation.run(times, rest[0], SmShare(*rest[1:])))
        return self._outcome(case, simulation, runs, inverse.ravel())

    def _outcome(self, case: Case, simulation: PipelineSimulation, runs: list[SmRun], order: Any) -> Outcome:
        def column(values: list[float]) -> Any:
            return np.array(values, dtype=np.float64)[order]

        terms = {
            "WPC": column([each.warps_per_cycle for each in runs]),
            "CPR": column([each.execution.group_size * each.execution.concurrent for each in runs]),
            "overlap": column([each.run.overlap for each in runs]),
            "fill_issue": column([each.run.issue_fill for each in runs]),
        }
        terms["CPR"] = terms["CPR"] / terms["WPC"]
        for name in dict.fromkeys(name for each in runs for name in each.run.pipelines):
            used = [each.run.pipelines.get(name) for each in runs]
            terms[f"fill_{name}"] = column([0.0 if use is None else use.fill_rate for use in used])
        terms["simulated_waves"] = column([each.execution.waves for each in runs])
        terms["simulated_cycles"] = column([each.run.cycles for each in runs])
        conditions = [Condition(text) for text in simulation.warnings]
        for text in dict.fromkeys(text for each in runs for text in each.execution.warnings):
            conditions.append(Condition(text, np.array([text in each.execution.warnings for each in runs])[order]))
        return Outcome(
            instructions_per_warp=float(simulation.graphs.longest),
            cycles=column([each.cycles for each in runs]),
            terms=terms,
            conditions=tuple(conditions),
        )

"""Simulates a workload on a machine: mappers f and g, the share of one SM, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import WorkloadError
from ...machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming
from ...workload import Facts, Needs, Workload, analyse
from .core import ClassTimes, CoreRun, run_core
from .execution import SOME_WAVES, ExecutionConfig, bounded, execution_of
from .memory_rules import timing_from_counters
from .result import PipelineResult
from .warp_graphs import CLASS_NAMES, WarpGraphs, warp_graphs_of, warp_graphs_of_trace

if TYPE_CHECKING:
    from ...traces import LaunchTrace

#: Most simulated issues of one SM; of a longer launch a part is simulated.
MOST_ISSUES = 2e7
#: Most rows of an execution profile.
MOST_ROWS = 100_000

TWO_LEVEL = "the two-level policy is not simulated; loose round robin replaces it"


@dataclass(frozen=True)
class PipelineOptions:
    """The user's options; None follows the machine or the workload."""

    policy: str | None = None
    in_order: bool | None = None
    issue_limit: bool = True
    warps: str = "representative"
    dram_ratio: float | None = None
    bank_conflicts: float | None = None
    most_issues: float = MOST_ISSUES


@dataclass(frozen=True)
class SmShare:
    """The residents of a launch on one machine, as plain numbers (`Residency`)."""

    warps: float
    blocks_per_sm: float
    warps_per_block: float
    active_sms: float
    total_warps: float


@dataclass(frozen=True)
class SmRun:
    """The SM with the most groups: the `cycles` for its `warps`, and the simulated part."""

    run: CoreRun
    execution: ExecutionConfig
    cycles: float
    warps: float

    @property
    def warps_per_cycle(self) -> float:
        return self.warps / self.cycles if self.cycles else 0.0


@dataclass(frozen=True)
class PipelineSimulation:
    """The facts of a workload on a machine, or a batch of machines, ready to be simulated row by row."""

    facts: Facts
    settings: PipelineOptions
    needed_by: str

    @property
    def gpu(self) -> Gpu:
        return self.facts.gpu

    @property
    def policy(self) -> str:
        chosen = self.settings.policy or self.gpu.scheduler
        return "lrr" if chosen == "two-level" else str(chosen)

    @property
    def in_order(self) -> bool:
        """A recorded warp issues in program order; a graph written by hand has no order (§4.1)."""
        chosen = self.settings.in_order
        return self.facts.traced is not None if chosen is None else chosen

    @property
    def warnings(self) -> tuple[str, ...]:
        replaced = self.settings.policy is None and self.gpu.scheduler == "two-level"
        return (TWO_LEVEL,) if replaced else ()

    @cached_property
    def graphs(self) -> WarpGraphs:
        return warp_graphs_of([self.facts.graph])

    @cached_property
    def _graphs_by_sms(self) -> dict[int, tuple[WarpGraphs, float]]:
        return {}

    @property
    def _recorded(self) -> LaunchTrace | None:
        """The trace, if every warp gets its own graph."""
        return self.facts.workload.trace if self.settings.warps == "all" else None

    @cached_property
    def timings(self) -> dict[str, InstructionTiming]:
        """Mapper f and, for memory, g: λ, Λ and pipeline of every class (§3.1.3, §4.4)."""
        trace = self._recorded
        classes = self.graphs.classes if trace is None else [CLASS_NAMES[n] for n in np.unique(trace.static.class_id)]
        return {name: self._timing(name) for name in classes}

    def _timing(self, name: str) -> InstructionTiming:
        """λ and Λ by the given counter of the class's memory; without one, by the kernel's addresses."""
        ratio, degree = self.settings.dram_ratio, self.settings.bank_conflicts
        if (ratio if INSTRUCTION_CLASSES[name].kind == "memory" else degree) is None:
            return self.facts.timing(name, self.needed_by)
        counters = {"ratio": ratio, "conflict_degree": degree}
        given = {key: value for key, value in counters.items() if value is not None}
        return timing_from_counters(self.gpu, name, self.needed_by, **given)

    def run(self, times: Mapping[str, ClassTimes], issue_rate: float, share: SmShare, most_rows: int = 0) -> SmRun:
        """Simulate the SM with the most groups."""
        blocks = self.facts.workload.launch.blocks
        groups = None if blocks is None else ceil(blocks / share.active_sms - 1e-9)
        warps = share.warps if groups is None else groups * share.warps_per_block
        trace = self._recorded
        if trace is None:
            graphs = self.graphs
            execution = execution_of(share.warps, share.blocks_per_sm, share.warps_per_block, groups)
            execution = bounded(execution, graphs.longest, self.settings.most_issues)
            recorded = self.facts.total_instructions
            if recorded is not None:  # the representative warp differs from the average
                scale = recorded / (graphs.longest * share.total_warps)
                execution = replace(execution, scale=execution.scale * scale)
        else:
            graphs, execution = self._every_warp(trace, share)
        run = run_core(
            graphs,
            times,
            issue_rate if self.settings.issue_limit else None,
            execution,
            policy=self.policy,
            in_order=self.in_order,
            most_rows=most_rows,
        )
        return SmRun(run, execution, run.cycles * execution.scale, warps)

    def _every_warp(self, trace: LaunchTrace, share: SmShare) -> tuple[WarpGraphs, ExecutionConfig]:
        sms = round(share.active_sms)
        if sms not in self._graphs_by_sms:
            self._graphs_by_sms[sms] = warp_graphs_of_trace(trace, sms, self.settings.most_issues)
        graphs, scale = self._graphs_by_sms[sms]
        assert graphs.warp_graph is not None
        size = max(1, round(share.warps_per_block))
        if len(graphs.warp_graph) % size:
            raise WorkloadError(f"the trace does not hold all {size} warps of every block; use warps=representative")
        concurrent = max(1, floor(share.blocks_per_sm + 1e-9))
        warnings = (SOME_WAVES,) if scale > 1 else ()
        return graphs, ExecutionConfig(size, concurrent, len(graphs.warp_graph) // size, scale, None, warnings)


def simulate_pipeline(
    workload: Workload,
    gpu: Gpu,
    *,
    policy: str | None = None,
    in_order: bool | None = None,
    issue_limit: bool = True,
    warps: str = "representative",
    dram_ratio: float | None = None,
    bank_conflicts: float | None = None,
    most_issues: float = MOST_ISSUES,
    record: bool = False,
    most_rows: int = MOST_ROWS,
) -> PipelineResult:
    """The Pipeline model of one launch on one machine; `record=True` keeps the execution profile.

    `policy` is rr, lrr, gto or oldest (None: the machine's). `in_order=None`
    issues a recorded warp in program order and a graph written by hand in any order.
    `warps="all"` follows every warp of a trace's busiest SM instead of the
    representative one. `dram_ratio` (R) and `bank_conflicts` (D) apply the rules
    of §6.3 to the machine's own times; None takes both from the addresses of a trace.
    """
    settings = PipelineOptions(policy, in_order, issue_limit, warps, dram_ratio, bank_conflicts, most_issues)
    needed_by = "the pipeline simulator"
    facts = analyse(workload, gpu, Needs("dependence_graph"), needed_by)
    simulation = PipelineSimulation(facts, settings, needed_by)
    residency = facts.residency
    share = SmShare(
        *(
            float(value)
            for value in (
                residency.warps_per_sm,
                residency.blocks_per_sm,
                residency.warps_per_block,
                residency.active_sms,
                residency.total_warps,
            )
        )
    )
    times = {name: _times(timing) for name, timing in simulation.timings.items()}
    made = simulation.run(times, float(gpu.issue_rate), share, most_rows if record else 0)
    total = facts.total_instructions
    if total is None:
        total = simulation.graphs.longest * share.total_warps
    overrides: dict[str, Any] = dict(gpu.overrides) | dict(workload.launch_overrides)
    execution = made.execution
    return PipelineResult(
        kernel=workload.name,
        launch=workload.launch_index,
        gpu=gpu.name,
        overrides=overrides,
        cycles=made.cycles,
        seconds=made.cycles / float(gpu.clock_hz),
        ipc=total / made.cycles if made.cycles else 0.0,
        warps_per_sm=execution.group_size * execution.concurrent,
        group_size=execution.group_size,
        concurrent_groups=execution.concurrent,
        groups=execution.groups,
        instructions=made.run.issues,
        warps_per_cycle=made.warps_per_cycle,
        policy=simulation.policy,
        in_order=simulation.in_order,
        simulated_cycles=made.run.cycles,
        pipelines=made.run.pipelines,
        overlap=made.run.overlap,
        any_busy=made.run.any_busy,
        issue_fill=made.run.issue_fill,
        profile=made.run.profile,
        warnings=(*simulation.warnings, *execution.warnings, *residency.notes, *facts.notes),
    )


def _times(timing: InstructionTiming) -> ClassTimes:
    return ClassTimes(float(timing.interval_cycles), float(timing.latency_cycles), str(timing.subsystem))

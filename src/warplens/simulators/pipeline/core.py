"""One simulation: a program, its times and an execution configuration, run by the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError
from .execution import Execution
from .program import CLASS_NAMES, Program
from .result import IDLE_CAUSES, PipelineUse, Profile
from .ticks import Ticks, choose_ticks

#: Scheduling policies by the kernel's number.
POLICIES = ("rr", "lrr", "gto", "oldest")


@dataclass(frozen=True)
class Times:
    """λ, Λ (cycles) and pipeline of an instruction class on one machine."""

    interval: float
    latency: float
    pipeline: str


@dataclass(frozen=True, eq=False)
class CoreRun:
    """What the kernel counted. `cycles` are simulated ones."""

    cycles: float
    issues: int
    pipelines: Mapping[str, PipelineUse]
    overlap: float
    any_busy: float
    issue_fill: float
    ticks: Ticks
    profile: Profile | None


def run_core(
    program: Program,
    times: Mapping[str, Times],
    issue_rate: float | None,
    execution: Execution,
    *,
    policy: str,
    in_order: bool,
    most_rows: int = 0,
) -> CoreRun:
    """Simulates one core. `issue_rate` is the issue limit in instructions per cycle, None for no limit."""
    from . import _kernels

    if policy not in POLICIES:
        raise OptionError(f"scheduler: {policy!r} is not one of {', '.join(POLICIES)}")
    if execution.most_instructions is not None:
        program = program.first_instructions(execution.most_instructions)
    warp_graph = program.warp_graph
    if warp_graph is None:
        warp_graph = np.zeros(execution.warps, dtype=np.int64)
    gap = 0.0 if issue_rate is None else 1.0 / issue_rate
    used = {name: times[name] for name in program.classes}
    names = list(dict.fromkeys(each.pipeline for each in used.values()))
    ticks = choose_ticks(
        [gap, *(value for each in used.values() for value in (each.interval, each.latency))],
        _longest(program, used, gap, warp_graph),
    )
    instructions = program.instructions(
        {name: names.index(each.pipeline) for name, each in used.items()},
        {name: (ticks.of(each.interval), ticks.of(each.latency)) for name, each in used.items()},
    )
    busy = np.zeros(len(names), dtype=np.int64)
    idle = np.zeros((len(names), _kernels.CAUSES), dtype=np.int64)
    totals = np.zeros(_kernels.TOTALS, dtype=np.int64)
    lengths = np.diff(program.graph_start)
    issues = int(lengths[warp_graph].sum())
    resident = min(execution.concurrent, len(warp_graph) // execution.group_size)
    rows = np.zeros((min(most_rows, issues), _kernels.ROW_COLUMNS), dtype=np.int64)
    _kernels.simulate(
        instructions,
        program.feed_start,
        program.feeds,
        program.waits,
        program.graph_start,
        warp_graph,
        execution.group_size,
        ticks.of(gap),
        POLICIES.index(policy),
        in_order,
        _kernels.new_core(len(names), resident, execution.group_size, int(lengths.max(initial=0)), in_order),
        busy,
        idle,
        totals,
        rows,
    )
    total = int(totals[_kernels.T_TICKS])
    part = 1.0 / total if total else 0.0
    return CoreRun(
        cycles=ticks.cycles(total),
        issues=issues,
        pipelines={
            name: PipelineUse(
                ticks.cycles(int(busy[p])),
                {cause: ticks.cycles(int(idle[p, c])) for c, cause in enumerate(IDLE_CAUSES)},
                busy[p] * part,
            )
            for p, name in enumerate(names)
        },
        overlap=totals[_kernels.T_OVERLAP] * part,
        any_busy=totals[_kernels.T_ANY_BUSY] * part,
        issue_fill=issues * ticks.of(gap) * part,
        ticks=ticks,
        profile=_profile(rows, program, warp_graph, names, ticks, execution, issues) if most_rows else None,
    )


def _longest(program: Program, times: Mapping[str, Times], gap: float, warp_graph: NDArray[np.int64]) -> float:
    """No simulation takes longer than all instructions one after the other."""
    of_class = np.zeros(len(CLASS_NAMES))
    for name, each in times.items():
        of_class[CLASS_NAMES.index(name)] = gap + each.interval + each.latency
    sums = np.concatenate(([0.0], np.cumsum(of_class[program.class_id])))
    of_graph = np.diff(sums[program.graph_start])
    return float(of_graph[warp_graph].sum())


def _profile(
    rows: NDArray[np.int64],
    program: Program,
    warp_graph: NDArray[np.int64],
    names: list[str],
    ticks: Ticks,
    execution: Execution,
    issues: int,
) -> Profile:
    graphs = [program.names(graph) for graph in range(len(program.graph_start) - 1)]
    classes = tuple(
        graphs[warp_graph[warp]][i] for warp, i in zip(rows[:, 0].tolist(), rows[:, 1].tolist(), strict=True)
    )
    return Profile(
        pipelines=tuple(names),
        warp=rows[:, 0],
        instruction=rows[:, 1],
        instruction_class=classes,
        pipeline=rows[:, 2],
        start=rows[:, 3] / ticks.per_cycle,
        busy_until=rows[:, 4] / ticks.per_cycle,
        done=rows[:, 5] / ticks.per_cycle,
        waited_for=_waited_for(rows, program, warp_graph),
        group_size=execution.group_size,
        complete=len(rows) == issues,
    )


def _waited_for(rows: NDArray[np.int64], program: Program, warp_graph: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the producer whose Λ ends where an instruction starts, the last in program order; or -1."""
    found = np.full(len(rows), -1, dtype=np.int64)
    place = {(warp, item): row for row, (warp, item) in enumerate(rows[:, :2].tolist())}
    for row, (warp, item, _, start, _, end) in enumerate(rows.tolist()):
        position = program.graph_start[warp_graph[warp]] + item
        if end == start:
            continue
        for follower in program.feeds[program.feed_start[position] : program.feed_start[position + 1]].tolist():
            waiting = place.get((warp, follower), -1)
            if waiting >= 0 and rows[waiting, 3] == end and (found[waiting] < 0 or rows[found[waiting], 1] < item):
                found[waiting] = row
    return found

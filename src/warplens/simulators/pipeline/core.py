"""One simulation: graphs of warps, their times and an execution configuration, run by the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError
from .execution import ExecutionConfig
from .result import IDLE_CAUSES, PipelineUse, Profile
from .ticks import Ticks, choose_ticks
from .warp_graphs import CLASS_NAMES, WarpGraphs

#: Scheduling policies by the kernel's number.
POLICIES = ("rr", "lrr", "gto", "oldest")


@dataclass(frozen=True)
class ClassTimes:
    """λ, Λ (cycles) and pipeline of an instruction class on one machine."""

    interval: float
    latency: float
    pipeline: str


@dataclass(frozen=True, eq=False)
class CoreRun:
    """Counts of one simulation. `cycles` are the simulated cycles."""

    cycles: float
    issues: int
    pipelines: Mapping[str, PipelineUse]
    overlap: float
    any_busy: float
    issue_fill: float
    ticks: Ticks
    profile: Profile | None


def run_core(
    graphs: WarpGraphs,
    times: Mapping[str, ClassTimes],
    issue_rate: float | None,
    execution: ExecutionConfig,
    *,
    policy: str,
    in_order: bool,
    most_rows: int = 0,
) -> CoreRun:
    """Simulates one core. `issue_rate` is the issue limit in instructions per cycle, None for no limit."""
    from . import _kernels, _records

    if policy not in POLICIES:
        raise OptionError(f"scheduler: {policy!r} is not one of {', '.join(POLICIES)}")
    if execution.most_instructions is not None:
        graphs = graphs.first_instructions(execution.most_instructions)
    warp_graph = graphs.warp_graph
    if warp_graph is None:
        warp_graph = np.zeros(execution.warps, dtype=np.int64)
    gap = 0.0 if issue_rate is None else 1.0 / issue_rate
    used = {name: times[name] for name in graphs.classes}
    names = list(dict.fromkeys(each.pipeline for each in used.values()))
    ticks = choose_ticks(
        [gap, *(value for each in used.values() for value in (each.interval, each.latency))],
        _longest(graphs, used, gap, warp_graph),
    )
    instructions = graphs.instructions(
        {name: names.index(each.pipeline) for name, each in used.items()},
        {name: (ticks.of(each.interval), ticks.of(each.latency)) for name, each in used.items()},
    )
    lengths = np.diff(graphs.graph_start)
    issues = int(lengths[warp_graph].sum())
    rules = _records.Rules(execution.group_size, ticks.of(gap), POLICIES.index(policy), in_order)
    resident = min(execution.concurrent, len(warp_graph) // execution.group_size)
    core = _records.new_core(len(names), resident, rules, int(lengths.max(initial=0)), min(most_rows, issues))
    _kernels.simulate(
        _records.Graphs(instructions, graphs.feed_start, graphs.feeds, graphs.waits, graphs.graph_start, warp_graph),
        rules,
        core,
    )
    clock = core.clock[0]
    total = int(clock["now"])
    part = 1.0 / total if total else 0.0
    return CoreRun(
        cycles=ticks.cycles(total),
        issues=issues,
        pipelines={name: _use(core.pipelines[p], part, ticks) for p, name in enumerate(names)},
        overlap=clock["overlap"] * part,
        any_busy=clock["any_busy"] * part,
        issue_fill=issues * rules.issue_gap * part,
        ticks=ticks,
        profile=_profile(core.rows, graphs, warp_graph, names, ticks, execution, issues) if most_rows else None,
    )


def _use(pipeline: Any, part: float, ticks: Ticks) -> PipelineUse:
    return PipelineUse(
        ticks.cycles(int(pipeline["busy"])),
        {cause: ticks.cycles(int(pipeline[f"idle_{cause.replace(' ', '_')}"])) for cause in IDLE_CAUSES},
        pipeline["busy"] * part,
    )


def _longest(graphs: WarpGraphs, times: Mapping[str, ClassTimes], gap: float, warp_graph: NDArray[np.int64]) -> float:
    """Upper bound on the simulated time: all instructions in sequence."""
    of_class = np.zeros(len(CLASS_NAMES))
    for name, each in times.items():
        of_class[CLASS_NAMES.index(name)] = gap + each.interval + each.latency
    sums = np.concatenate(([0.0], np.cumsum(of_class[graphs.class_id])))
    of_graph = np.diff(sums[graphs.graph_start])
    return float(of_graph[warp_graph].sum())


def _profile(
    rows: NDArray[Any],
    graphs: WarpGraphs,
    warp_graph: NDArray[np.int64],
    names: list[str],
    ticks: Ticks,
    execution: ExecutionConfig,
    issues: int,
) -> Profile:
    classes = [graphs.names(graph) for graph in range(len(graphs.graph_start) - 1)]
    return Profile(
        pipelines=tuple(names),
        warp=rows["warp"].copy(),
        instruction=rows["instruction"].copy(),
        instruction_class=tuple(classes[warp_graph[warp]][i] for warp, i in rows[["warp", "instruction"]].tolist()),
        pipeline=rows["pipeline"].copy(),
        start=rows["start"] / ticks.per_cycle,
        busy_until=rows["busy_until"] / ticks.per_cycle,
        done=rows["done"] / ticks.per_cycle,
        waited_for=_waited_for(rows, graphs, warp_graph),
        group_size=execution.group_size,
        complete=len(rows) == issues,
    )


def _waited_for(rows: NDArray[Any], graphs: WarpGraphs, warp_graph: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per instruction: row of the producer whose Λ ends when it starts (the last in program order), or -1."""
    found = np.full(len(rows), -1, dtype=np.int64)
    place = {(warp, item): row for row, (warp, item) in enumerate(rows[["warp", "instruction"]].tolist())}
    starts, items = rows["start"], rows["instruction"]
    for row, (warp, item, _, start, _, done) in enumerate(rows.tolist()):
        position = graphs.graph_start[warp_graph[warp]] + item
        if done == start:
            continue
        for follower in graphs.feeds[graphs.feed_start[position] : graphs.feed_start[position + 1]].tolist():
            waiting = place.get((warp, follower), -1)
            if waiting >= 0 and starts[waiting] == done and (found[waiting] < 0 or items[found[waiting]] < item):
                found[waiting] = row
    return found

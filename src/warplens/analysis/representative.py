"""From a trace to the interval profile of its representative warp (GPUMech §III, §V)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, TraceError
from ..machine import Gpu
from ..traces import CLASS_NAMES, LaunchTrace, StaticTable
from . import CacheRun, MissProfile, compute_latencies
from .dependence import DependenceGraph, Instruction
from .intervals import STALL_CAUSES, IntervalProfile, ProfileBatch, default_causes

SELECTIONS = ("clustering", "max", "min")
#: Most passes of k-means; it converges after a few.
_MOST_PASSES = 100


@dataclass(frozen=True)
class WarpChoice:
    """What the choice of the representative warp depends on: the machine as named and the traced launch."""

    run: CacheRun
    level_latencies: tuple[float, ...]
    issue_rate: float
    selection: str


def latencies(
    static: StaticTable, misses: MissProfile, latency_of_class: Callable[[str], float], levels: Sequence[float]
) -> NDArray[np.float64]:
    """Latency of every static instruction: that of its class, or the average memory access time (AMAT).

    AMAT weights the latencies of L1, L2 and DRAM with the share of executions
    whose worst request each of them served (§V-B). `latency_of_class` gives 0
    for memory classes, and `levels` the three latencies.
    """
    from . import _cache_records as memory

    found = compute_latencies(static, latency_of_class)
    loads = np.isin(misses.kinds, (memory.LOAD, memory.ATOMIC))
    found[loads] = average_latency(misses.levels.T, levels)[loads]
    return found


def average_latency(levels: Any, latency: Any) -> Any:
    """Latencies of L1, L2 and DRAM weighted with the shares in `levels`, for one machine or many."""
    return levels[0] * latency[0] + levels[1] * latency[1] + levels[2] * latency[2]


def level_latencies(gpu: Gpu, needed_by: str) -> NDArray[np.float64]:
    """Unloaded latency of an L1 hit, an L2 hit and a DRAM access; a batch has one column per machine."""
    l1, llc = gpu.with_defaults.l1.latency_cycles, gpu.with_defaults.llc.latency_cycles
    every = np.broadcast_arrays(l1, llc, gpu.memory_latency_cycles_now(needed_by))
    return np.stack([np.asarray(each, dtype=np.float64) for each in every])


@dataclass(frozen=True, eq=False)
class Representative:
    """The warp that stands for all others, and how typical it is."""

    index: int
    instructions: NDArray[np.uint32]
    selection: str
    cluster_sizes: tuple[int, int]
    #: In feature space: distance of the warp from its cluster's centre, and mean distance of all warps from it.
    distance: float
    mean_distance: float
    warps: int
    mean_instructions: float
    #: Thread blocks and warp instructions that the trace holds.
    recorded_blocks: int
    recorded_instructions: float


def warp_features(
    trace: LaunchTrace, latency: NDArray[np.float64], issue_rate: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """(Features G-6 of every warp: performance and instructions over their means; instructions); thread blocks."""
    from . import _profile_kernels as _kernels

    counts, stalls, blocks = [], [], 0
    static = trace.static
    for group in trace.groups():
        instructions = np.empty(len(group), dtype=np.int64)
        stalled = np.empty(len(group))
        _kernels.warp_totals(
            group.start,
            group.static,
            latency,
            static.destinations,
            static.destination_offsets,
            static.sources,
            static.source_offsets,
            max(1.0, 1.0 / issue_rate),
            instructions,
            stalled,
        )
        counts.append(instructions)
        stalls.append(stalled)
        blocks += group.blocks
    instructions = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
    if not instructions.sum():
        raise TraceError(f"launch of {trace.header.kernel!r} has no instructions")
    stall = np.concatenate(stalls)
    performance = instructions / np.maximum(instructions / issue_rate + stall, 1e-300)  # Eq. (G-5)
    features = np.stack([performance / performance.mean(), instructions / instructions.mean()], axis=1)  # Eq. (G-6)
    return features, instructions, blocks


def select_warp(features: NDArray[np.float64], selection: str = "clustering") -> tuple[int, tuple[int, int], float]:
    """(warp, cluster sizes, its distance from the centre); equal features give equal results."""
    if selection not in SELECTIONS:
        raise OptionError(f"representative warp: {selection!r} is not one of {', '.join(SELECTIONS)}")
    if selection != "clustering":
        choose = np.argmax if selection == "max" else np.argmin
        return int(choose(features[:, 0])), (len(features), 0), 0.0
    distinct, first, counts = np.unique(features, axis=0, return_index=True, return_counts=True)
    labels = two_means(distinct, counts)
    sizes = (int(counts[labels == 0].sum()), int(counts[labels == 1].sum()))
    largest = labels == (0 if sizes[0] >= sizes[1] else 1)
    centre = np.average(distinct[largest], axis=0, weights=counts[largest])
    distances = np.linalg.norm(distinct[largest] - centre, axis=1)
    nearest = np.flatnonzero(distances <= distances.min() * (1 + 1e-12))
    return int(first[largest][nearest].min()), sizes, float(distances.min())


def two_means(points: NDArray[np.float64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """k-means with two clusters. It starts at the point farthest from the mean and at the one farthest from it."""
    mean = np.average(points, axis=0, weights=weights)
    one = points[np.argmax(((points - mean) ** 2).sum(axis=1))]
    two = points[np.argmax(((points - one) ** 2).sum(axis=1))]
    centres = np.stack([one, two])
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(_MOST_PASSES):
        squared = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        new_labels = np.argmin(squared, axis=1)
        if np.array_equal(new_labels, labels) and _ > 0:
            break
        labels = new_labels
        for cluster in (0, 1):
            if np.any(labels == cluster):
                members = labels == cluster
                centres[cluster] = np.average(points[members], axis=0, weights=weights[members])
    return labels


def representative_warp(
    trace: LaunchTrace, latency: NDArray[np.float64], issue_rate: float, selection: str = "clustering"
) -> Representative:
    """Choose the representative among the warps that execute anything, and fetch its instructions."""
    features, instructions, blocks = warp_features(trace, latency, issue_rate)
    running = np.flatnonzero(instructions)
    chosen, sizes, distance = select_warp(features[running], selection)
    index = int(running[chosen])
    seen = 0
    for group in trace.groups():
        if index < seen + len(group):
            w = index - seen
            executed = group.static[group.start[w] : group.start[w + 1]].copy()
            break
        seen += len(group)
    return Representative(
        index=index,
        instructions=executed,
        selection=selection,
        cluster_sizes=sizes,
        distance=distance,
        mean_distance=float(np.linalg.norm(features - features[index], axis=1).mean()),
        warps=len(features),
        mean_instructions=float(instructions.mean()),
        recorded_blocks=blocks,
        recorded_instructions=float(instructions.sum()),
    )


def profiles_of_warp(
    warp: Representative,
    static: StaticTable,
    latency: NDArray[np.float64],
    misses: MissProfile,
    issue_rate: NDArray[np.float64],
    *,
    min_gap: float = 1.0,
) -> ProfileBatch:
    """`profile_of_warp` for many machines at once: one row of `latency` and one `issue_rate` each."""
    from . import _cache_records as memory
    from . import _profile_kernels as _kernels

    is_read = np.isin(misses.kinds, (memory.LOAD, memory.ATOMIC))
    is_write = misses.kinds == memory.STORE
    leaving = misses.misses_per_execution
    missing = np.where(is_read, 1.0 - misses.levels[:, 0], 0.0) * (misses.executed > 0)
    writes = leaving * is_write + misses.writebacks_per_execution
    count = len(issue_rate)
    matrix = np.empty((count * (len(warp.instructions) + 1), 6))
    start = np.zeros(count + 1, dtype=np.int64)
    stall_cycles, stalls, by_cause = np.zeros(count), np.zeros(count), np.zeros((count, len(STALL_CAUSES)))
    used = _kernels.profiles(
        warp.instructions,
        latency,
        np.maximum(1.0, 1.0 / issue_rate),
        static.destinations,
        static.destination_offsets,
        static.sources,
        static.source_offsets,
        min_gap,
        np.stack([missing, leaving * is_read, writes, misses.dram_requests_per_execution], axis=1),
        misses.levels,
        is_read,
        matrix,
        start,
        stall_cycles,
        stalls,
        by_cause,
    )
    return ProfileBatch(
        matrix=matrix[:used].copy(),  # the copy frees the unused rows
        start=start,
        of_machine=np.arange(count),
        total_instructions=float(len(warp.instructions)),
        stall_cycles=stall_cycles,
        stalls=stalls,
        stall_by_cause=by_cause,
        average_miss_latency_cycles=np.full(count, np.nan),
        dram_fraction=np.full(count, _dram_share(misses, is_read)),
    )


def _dram_share(misses: MissProfile, is_read: NDArray[np.bool_]) -> float:
    """Part of the L1-missing loads that go to DRAM."""
    missed = (misses.executed * is_read) @ (1.0 - misses.levels[:, 0])
    from_dram = (misses.executed * is_read) @ misses.levels[:, 2]
    return float(from_dram / missed) if missed else 0.0


def profile_of_warp(
    warp: Representative,
    static: StaticTable,
    latency: NDArray[np.float64],
    misses: MissProfile,
    issue_rate: float,
    *,
    min_gap: float = 1.0,
) -> IntervalProfile:
    """Intervals of the representative warp, with average misses per memory instruction."""
    from . import _cache_records as memory

    end, stall, cause = _intervals_alone(warp, static, latency, issue_rate, min_gap)
    count = len(end)
    starts = np.concatenate(([0], end[:-1]))
    leaving = misses.misses_per_execution
    is_read = np.isin(misses.kinds, (memory.LOAD, memory.ATOMIC))
    is_write = misses.kinds == memory.STORE
    missing = np.where(is_read, 1.0 - misses.levels[:, 0], 0.0) * (misses.executed > 0)

    def per_interval(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.concatenate(([0.0], np.cumsum(values[warp.instructions])))
        return sums[end] - sums[starts]

    reads = per_interval(leaving * is_read)
    writes = per_interval(leaving * is_write + misses.writebacks_per_execution)
    beyond = per_interval(misses.dram_requests_per_execution)
    ratio = np.divide(beyond, reads + writes, out=np.zeros(count), where=reads + writes > 0)
    matrix = np.stack([end - starts, stall, per_interval(missing), reads, writes, np.clip(ratio, 0.0, 1.0)], axis=1)
    matrix = np.where(np.abs(matrix) < 1e-12, 0.0, matrix)  # remove cancellation errors of the running sums
    causes = np.tile(default_causes(0.0, 0.0), (count, 1))
    by_memory = (cause >= 0) & is_read[cause]
    causes[by_memory] = 0.0
    causes[by_memory, 1:] = misses.levels[cause[by_memory]]
    return IntervalProfile(matrix, causes, dram_instruction_fraction=_dram_share(misses, is_read))


def _intervals_alone(
    warp: Representative, static: StaticTable, latency: NDArray[np.float64], issue_rate: float, min_gap: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """(end, stall cycles, cause) of each interval of the warp alone; gaps of at least `min_gap` close one."""
    from . import _profile_kernels as _kernels

    n = len(warp.instructions)
    end, cause = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    stall = np.empty(n + 1)
    count = _kernels.warp_intervals(
        warp.instructions,
        latency,
        static.destinations,
        static.destination_offsets,
        static.sources,
        static.source_offsets,
        max(1.0, 1.0 / issue_rate),
        min_gap,
        end,
        stall,
        cause,
    )
    return end[:count], stall[:count], cause[:count]


def graph_of_warp(warp: Representative, static: StaticTable) -> DependenceGraph:
    """Def-use dependences between the instructions of the representative warp."""
    writer: dict[int, int] = {}
    rows: list[Instruction] = []
    sources = [static.sources_of(index) for index in range(len(static))]
    destinations = [static.destinations_of(index) for index in range(len(static))]
    for position, index in enumerate(warp.instructions.tolist()):
        depends = {writer[register] for register in sources[index] if register in writer}
        rows.append(Instruction(CLASS_NAMES[static.class_id[index]], tuple(sorted(depends))))
        for register in destinations[index]:
            if register < 255:
                writer[register] = position
    return DependenceGraph(tuple(rows))

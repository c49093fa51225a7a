"""What the warps of a launch ask of the network of resources, from blocks of a trace or an interval profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.block_samples import BlockSample
from ..machine import INSTRUCTION_CLASSES, Gpu

FLIT_BYTES = 32
#: Over the median of blocks, what the longest takes where they differ.
DIFFERENT = 1.1
#: The golden ratio's fraction: multiples of it spread evenly over the unit interval, however many there are.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class Demand:
    """Events of some thread blocks' warps, ready for `_network_kernels.solve`."""

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]
    kind: NDArray[np.int64]
    level: NDArray[np.int64]
    dependence: NDArray[np.int64]
    sets: NDArray[np.int64]
    events: NDArray[np.float64]
    units: NDArray[np.float64]
    order: NDArray[np.int64]
    traffic: NDArray[np.float64]
    instructions_per_warp: float
    busiest_bank: float = 1.0
    busiest_channel: float = 1.0
    has_sets: bool = False
    #: Of the cache simulation, where data that are on their way were counted.
    estimated_cycles: float = 0.0

    @property
    def stream(self) -> Any:
        """What the compiled network reads."""
        from ._warp_kernels import Stream

        return Stream(*(getattr(self, name) for name in Stream._fields))


def l1_sets(gpu: Gpu) -> int:
    """Sets in which ways wait for data; none where the L1 streams."""
    if gpu.l1.streaming or not np.all(gpu.l1.size_bytes):
        return 0
    return int(gpu.l1.size_bytes // (gpu.l1.line_bytes * (gpu.l1.ways or 1)))


# -- a trace -------------------------------------------------------------------------------


def demand_of_sample(
    sample: BlockSample,
    misses: MissProfile,
    recorded_blocks: float,
    instructions_per_block: float,
    repeats: float,
    gpu: Gpu,
    needed_by: str,
    without: str = "none",
) -> Demand:
    """The events of sampled blocks with what the caches did to their instructions; `without` one mechanism.

    The launch has `repeats` times as many blocks as were recorded.
    """
    from . import _access_kernels as k

    static, weight = sample.static, sample.weight
    access = np.isin(sample.kind, (k.LOAD, k.STORE, k.ATOMIC))
    level, left = draw_levels(sample, misses, arrivals=without != "arrivals")
    level[~access] = k.L1
    levels = misses.levels
    dram_part = np.maximum(levels[:, 2], 1e-300)[static]
    leaving_part = np.maximum(levels[:, 1] + levels[:, 2], 1e-300)[static]
    goes = (level == k.LLC) | (level == k.DRAM)
    leaving = np.where(goes, misses.misses_per_execution[static] / leaving_part, 0.0)
    lines = np.maximum(sample.lines, 1.0)
    is_load = sample.kind == k.LOAD
    early = early_writes(misses, gpu, repeats)
    packets = np.where(goes, misses.packets_per_execution[static] / leaving_part, 0.0)
    line_flits = float(gpu.l1.line_bytes) / FLIT_BYTES
    written = np.ceil(sample.access_bytes / lines / FLIT_BYTES)
    # A header travels with the data, unless the machine says how long a store takes besides them.
    headers = float(gpu.noc.store_cycles is None or without == "stores")
    write_flits = np.clip(written + headers, 1.0 + headers, max(line_flits, 1.0 + headers))
    per_cycle = float(gpu.l1.lines_per_cycle or 1.0)
    wavefronts = np.maximum(lines / per_cycle, sample.access_bytes / float(gpu.l1.line_bytes))
    if gpu.l1.banked and without != "conflicts":
        wavefronts = np.maximum(wavefronts, sample.bank_words)
    events = np.zeros((len(static), k.EVENT_COLUMNS))
    columns = {
        k.E_ISSUE: sample.instructions,
        k.E_GAP: sample.gap,
        k.E_TAIL: sample.tail,
        k.E_PORT: np.where(access, np.maximum(wavefronts, 1.0), 0.0),
        k.E_SHARED: sample.shared_cycles,
        k.E_FLITS_OUT: np.where(is_load, packets, packets * write_flits),
        k.E_FLITS_IN: np.where(is_load, leaving * float(gpu.transfer_bytes) / FLIT_BYTES, packets),
        k.E_REQUESTS: packets,
        k.E_DRAM_READS: np.where(level == k.DRAM, misses.per_execution("DRAM_READS")[static] / dram_part, 0.0),
        k.E_DRAM_WRITES: (misses.per_execution("DRAM_WRITES")[static] * access + leaving * ~is_load * early)
        * float(gpu.dram.write_factor or 1.0),
    }
    # Blocks that were not looked at may execute an instruction more or less often.
    own = np.bincount(static, weight, len(misses.kinds))
    scale = misses.executed * (sample.blocks / recorded_blocks) / np.maximum(own, 1e-300)
    scale = np.where((own > 0) & (misses.executed > 0), scale, 1.0)[static]
    if without == "write-backs":
        columns[k.E_DRAM_WRITES] = np.zeros(len(static))
    more = instructions_per_block / max(float((sample.instructions * weight).sum()) / sample.blocks, 1e-300)
    for column, values in columns.items():
        asked = column in (k.E_PORT, k.E_FLITS_OUT, k.E_FLITS_IN, k.E_REQUESTS, k.E_DRAM_READS, k.E_DRAM_WRITES)
        issued = column in (k.E_ISSUE, k.E_GAP, k.E_TAIL, k.E_SHARED)
        events[:, column] = values * weight * (scale if asked else more if issued else 1.0)
    _to_totals(events, sample, misses, recorded_blocks)
    events[:, k.E_WEIGHT] = weight
    events[:, k.E_LEFT] = left
    events[:, k.E_MISSES] = leaving if gpu.l1.streaming else packets
    if without != "crowds":
        events[:, k.E_BANK], events[:, k.E_CHANNEL] = crowds_of(misses)[:, static]
    sets = np.zeros(len(static), dtype=np.int64)
    count = l1_sets(gpu)
    if count:
        sets, most = sample.sets(count)
        events[:, k.E_SET_LINES] = most * np.minimum(leaving / lines, 1.0)
    return Demand(
        sample.block_start,
        sample.event_start,
        sample.kind,
        level,
        sample.dependence,
        sets,
        events,
        _units(sample, gpu, needed_by) * more,
        *_order(sample, events, levels, gpu, balanced=without == "imbalance"),
        float(more * (sample.instructions * weight).sum() / max(len(sample.event_start) - 1, 1)),
        1.0 if without == "banks" else misses.busiest_bank,
        1.0 if without == "banks" else misses.busiest_channel,
        count > 0,
        misses.estimated_cycles,
    )


def crowds_of(misses: MissProfile) -> Any:
    """Requests that a miss of each instruction finds ahead at its bank, and at its channel, more than at others."""
    from ..analysis import _cache_kernels as memory

    if misses.arrivals is None or misses.arrivals.shape[1] <= memory.A_CHANNEL:
        return np.zeros((2, len(misses.kinds)))
    sent = misses.misses_per_execution * misses.executed, misses.per_execution("DRAM_READS") * misses.executed
    ahead = misses.arrivals[:, memory.A_BANK], misses.arrivals[:, memory.A_CHANNEL]
    return np.maximum(np.stack(ahead) / np.maximum(np.stack(sent), 1.0), 0.0)


def _to_totals(events: Any, sample: BlockSample, misses: MissProfile, recorded_blocks: float) -> None:
    """Lets the events ask the network and DRAM for as much as the caches found.

    Instructions that no block looked at executes, and levels that were not drawn, are made up for by the others.
    """
    from . import _access_kernels as k

    part = sample.blocks / recorded_blocks
    packets = misses.packets_per_execution * misses.executed
    for kind in (k.LOAD, k.STORE, k.ATOMIC):
        mine = sample.kind == kind
        found = events[mine, k.E_REQUESTS].sum()
        if found > 0.0:
            ratio = part * packets[misses.kinds == kind].sum() / found
            events[np.ix_(mine, (k.E_FLITS_OUT, k.E_FLITS_IN, k.E_REQUESTS))] *= ratio
    found = events[:, k.E_DRAM_READS].sum()
    if found > 0.0:
        events[:, k.E_DRAM_READS] *= part * misses.per_execution("DRAM_READS") @ misses.executed / found


def early_writes(misses: MissProfile, gpu: Gpu, repeats: float) -> float:
    """Transfers to DRAM for each request of a store: of what the LLC could hold, but writes back before the end."""
    from . import _access_kernels as k

    if gpu.llc.dirty_bytes is None:
        return 0.0
    dirty = misses.dirty_left * misses.transfer_bytes * repeats
    stored = misses.misses_per_execution * misses.executed
    requests = stored[np.isin(misses.kinds, (k.STORE, k.ATOMIC))].sum()
    return misses.dirty_left * max(1.0 - float(gpu.llc.dirty_bytes) / max(dirty, 1e-300), 0.0) / max(requests, 1.0)


def _order(sample: BlockSample, events: Any, levels: Any, gpu: Gpu, *, balanced: bool) -> tuple[Any, Any]:
    """(Blocks in the order in which the slowest SM is given them, part of the SMs that move as much as each).

    Where blocks differ, some SM has one that takes longest; its others are as
    they come. What a block moves beyond the mean, the other SMs do not. Which one
    takes longest is decided once, on the machine as named, whatever is varied.
    """
    from . import _access_kernels as k

    named = gpu.original or gpu
    llc = named.llc.latency_cycles or 0.0
    latency = levels @ [named.l1.latency_cycles or 0.0, llc, llc + (named.dram.latency_cycles or 0.0)]
    alone = events[:, k.E_GAP] + np.where(sample.kind == k.LOAD, latency[sample.static], 0.0) * sample.weight
    moved = events[:, [k.E_FLITS_OUT, k.E_FLITS_IN, k.E_DRAM_READS, k.E_DRAM_WRITES]].sum(axis=1)

    def warps(values: Any) -> Any:
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return np.diff(sums[sample.event_start])

    starts = sample.block_start[:-1]
    longest = np.maximum.reduceat(warps(alone), starts)
    traffic = np.add.reduceat(warps(moved), starts)
    order = np.arange(sample.blocks)
    if not balanced and longest.max() > DIFFERENT * np.median(longest):
        order = np.roll(order, -int(np.argmax(longest)))
    mean = traffic.mean()
    return order, np.where(traffic > DIFFERENT * mean, mean / np.maximum(traffic, 1e-300), 1.0)


def spread(groups: Any) -> Any:
    """A point of the unit interval for each entry; those of one group are spread evenly, however many there are."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - first
    return ((rank + 0.5) * _GOLDEN) % 1.0


def draw_levels(sample: BlockSample, misses: MissProfile, *, arrivals: bool = True) -> tuple[Any, Any]:
    """(Level that serves each event, part of a miss that is left where its data are on their way).

    Executions of an instruction are spread over levels as the caches found.
    """
    from ..analysis import _cache_kernels as memory
    from . import _access_kernels as k

    static = sample.static
    levels = misses.levels
    mine = levels[static]
    point = spread(static)
    level = np.where(point < mine[:, 2], k.DRAM, np.where(point < mine[:, 2] + mine[:, 1], k.LLC, k.L1))
    left = np.zeros(len(static))
    if arrivals and misses.arrivals is not None:
        for of, count, sum_left, becomes in (
            (k.L1, memory.A_L1, memory.A_L1_LEFT, k.COMING),
            (k.LLC, memory.A_LLC, memory.A_LLC_LEFT, k.LLC),
        ):
            found = misses.arrivals[:, count]
            part = found / np.maximum(levels[:, of] * misses.executed, 1.0)
            mean = misses.arrivals[:, sum_left] / np.maximum(found, 1.0)
            here = np.flatnonzero(level == of)
            coming = here[spread(static[here]) < part[static[here]]]
            level[coming] = becomes
            left[coming] = mean[static[coming]]
    return level.astype(np.int64), left


def _units(sample: BlockSample, gpu: Gpu, needed_by: str) -> Any:
    """Cycles that each event's instructions hold each functional unit."""
    held: dict[str, Any] = {}
    for index, name in enumerate(sample.classes):
        kind = INSTRUCTION_CLASSES[name].kind
        if (
            kind == "memory"
            or (kind == "barrier" and "barrier" not in gpu.instructions)
            or (kind == "shared" and name != "load_constant")
        ):
            continue
        timing = gpu.timing(name, needed_by)
        cycles = sample.counts[:, index] * float(timing.interval_cycles) * sample.weight
        held[timing.subsystem] = held.get(timing.subsystem, 0.0) + cycles
    return np.stack(list(held.values()), axis=1) if held else np.zeros((len(sample.static), 1))

"""What the warps of a traced launch ask of the network: the events that the kernels follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.block_samples import BlockSample
from ..machine import INSTRUCTION_CLASSES, Gpu, Quantity
from . import _network_records as k

FLIT_BYTES = 32
#: Blocks differ where the longest takes this many times as long as their median.
DIFFERENT = 1.1
#: The golden ratio's fraction: any number of its multiples spread evenly over the unit interval.
_GOLDEN = 0.6180339887498949
#: Fields of an event that follow how often all blocks execute its instruction, and how many instructions they have.
_ASKED = ("port", "flits_out", "flits_in", "requests", "dram_reads", "dram_writes")
_ISSUED = ("issue", "gap", "tail", "shared")
_MOVED = ("flits_out", "flits_in", "dram_reads", "dram_writes")


@dataclass(frozen=True, eq=False)
class Demand:
    """Events of some thread blocks' warps, ready for `_network_kernels.solve`."""

    stream: k.Stream
    instructions_per_warp: float
    busiest_bank: float = 1.0
    busiest_channel: float = 1.0
    has_sets: bool = False
    #: Cycles that the cache simulation estimated, where it counted data on their way; else 0.
    estimated_cycles: float = 0.0


@dataclass(frozen=True)
class DemandConfig:
    """What decides a demand besides the caches. Fields hold one value, or one per machine of a batch."""

    line_bytes: Quantity
    transfer_bytes: Quantity
    lines_per_cycle: Quantity
    banked: bool
    streaming: bool
    sets: Quantity
    dirty_bytes: Quantity
    write_factor: Quantity
    #: A header travels with a store's data, unless the machine says how long a store takes besides them.
    store_headers: bool
    #: (Functional unit, cycles that it is held) of each instruction class.
    units: Mapping[str, tuple[str, Quantity]]
    #: Latencies of L1, LLC and DRAM of the machine as named, whatever is varied.
    named_latencies: tuple[float, float, float]

    @property
    def columns(self) -> list[Any]:
        """All values: machines of a batch that agree in them share a demand."""
        plain = [getattr(self, name) for name in vars(self) if name != "units"]
        return [*plain, *(cycles for _, cycles in self.units.values())]


def demand_config(gpu: Gpu, classes: Iterable[str], needed_by: str) -> DemandConfig:
    """The configuration of a machine or a batch, for a kernel that has instructions of some classes."""
    gpu, named = gpu.with_defaults, (gpu.original or gpu).with_defaults
    return DemandConfig(
        line_bytes=gpu.l1.line_bytes,
        transfer_bytes=gpu.transfer_bytes,
        lines_per_cycle=gpu.l1.lines_per_cycle,
        banked=gpu.l1.banked,
        streaming=gpu.l1.streaming,
        sets=l1_sets(gpu),
        dirty_bytes=gpu.llc.dirty_bytes,
        write_factor=gpu.dram.write_factor,
        store_headers=gpu.noc.store_cycles is None,
        units={name: unit for name in classes if (unit := _unit(gpu, name, needed_by)) is not None},
        named_latencies=(
            named.l1.latency_cycles,
            named.llc.latency_cycles,
            named.llc.latency_cycles + (named.dram.latency_cycles or 0.0),
        ),
    )


def _unit(gpu: Gpu, name: str, needed_by: str) -> tuple[str, Quantity] | None:
    """The functional unit of a class, and the cycles that an instruction holds it; the network times the others."""
    kind = INSTRUCTION_CLASSES[name].kind
    if (
        kind == "memory"
        or (kind == "barrier" and "barrier" not in gpu.instructions)
        or (kind == "shared" and name != "load_constant")
    ):
        return None
    timing = gpu.timing(name, needed_by)
    return timing.subsystem, timing.interval_cycles


def l1_sets(gpu: Gpu) -> Quantity:
    """Sets in which ways wait for data; none where the L1 streams."""
    if gpu.l1.streaming or not np.all(gpu.l1.size_bytes):
        return 0
    return np.floor_divide(gpu.l1.size_bytes, np.multiply(gpu.l1.line_bytes, gpu.with_defaults.l1.ways))


class LaunchSize(NamedTuple):
    """Blocks of a launch that were recorded, instructions of each, and launched blocks for each recorded one."""

    recorded_blocks: float
    instructions_per_block: float
    repeats: float


def demand_of_sample(
    sample: BlockSample, misses: MissProfile, size: LaunchSize, config: DemandConfig, without: str = "none"
) -> Demand:
    """The events of sampled blocks with what the caches did to their instructions; `without` one mechanism."""
    weight = sample.weight
    sampled_instructions = float((sample.instructions * weight).sum())
    more = size.instructions_per_block / max(sampled_instructions / sample.blocks, 1e-300)
    events = _events(sample, misses, size, config, more, without)
    order, traffic = _order(sample, events, misses.levels, config, balanced=without == "imbalance")
    return Demand(
        stream=k.Stream(
            block_start=sample.block_start,
            event_start=sample.event_start,
            events=events,
            units=_units(sample, config) * more,
            order=order,
            traffic=traffic,
        ),
        instructions_per_warp=float(
            more * (sample.instructions * weight).sum() / max(len(sample.event_start) - 1, 1)
        ),
        busiest_bank=1.0 if without == "banks" else misses.busiest_bank,
        busiest_channel=1.0 if without == "banks" else misses.busiest_channel,
        has_sets=bool(config.sets),
        estimated_cycles=misses.estimated_cycles,
    )


def _events(
    sample: BlockSample, misses: MissProfile, size: LaunchSize, config: DemandConfig, more: float, without: str
) -> NDArray[np.void]:
    """All executions that each event stands for; `more` instructions than sampled."""
    static, weight = sample.static, sample.weight
    access = np.isin(sample.kind, (k.LOAD, k.STORE, k.ATOMIC))
    level, left = draw_levels(sample, misses, arrivals=without != "arrivals")
    level[~access] = k.L1
    goes = (level == k.LLC) | (level == k.DRAM)
    leaving_part = np.maximum(misses.levels[:, 1] + misses.levels[:, 2], 1e-300)[static]
    leaving = np.where(goes, misses.misses_per_execution[static] / leaving_part, 0.0)
    packets = np.where(goes, misses.packets_per_execution[static] / leaving_part, 0.0)
    events = np.zeros(len(static), k.EVENT)
    events["kind"], events["level"], events["needs"] = sample.kind, level, sample.dependence
    events["weight"], events["left"] = weight, left
    events["issue"], events["gap"] = sample.instructions, sample.gap
    events["tail"], events["shared"] = sample.tail, sample.shared_cycles
    events["port"] = np.where(access, _wavefronts(sample, config, conflicts=without != "conflicts"), 0.0)
    events["requests"] = packets
    headers = config.store_headers or without == "stores"
    _put_traffic(events, sample, misses, config, size.repeats, leaving, packets, float(headers))
    if without == "write-backs":
        events["dram_writes"] = 0.0
    # Other blocks may execute an instruction more or less often than the sampled ones.
    own = np.bincount(static, weight, len(misses.kinds))
    scale = misses.executed * (sample.blocks / size.recorded_blocks) / np.maximum(own, 1e-300)
    scale = np.where((own > 0) & (misses.executed > 0), scale, 1.0)[static]
    for names, factor in ((_ASKED, scale), (_ISSUED, more)):
        for name in names:
            events[name] = events[name] * weight * factor
    _to_totals(events, sample, misses, size.recorded_blocks)
    events["misses"] = leaving if config.streaming else packets
    if without != "crowds":
        events["bank"], events["channel"] = crowds_of(misses)[:, static]
    if config.sets:
        events["set"], most = sample.sets(int(config.sets))
        events["set_lines"] = most * np.minimum(leaving / np.maximum(sample.lines, 1.0), 1.0)
    return events


def _wavefronts(sample: BlockSample, config: DemandConfig, *, conflicts: bool) -> Any:
    """Cycles of an access at the port of the L1: by its lines, its bytes and its bank conflicts."""
    lines = np.maximum(sample.lines, 1.0)
    found = np.maximum(lines / float(config.lines_per_cycle), sample.access_bytes / float(config.line_bytes))
    if config.banked and conflicts:
        found = np.maximum(found, sample.bank_words)
    return np.maximum(found, 1.0)


def _put_traffic(
    events: Any,
    sample: BlockSample,
    misses: MissProfile,
    config: DemandConfig,
    repeats: float,
    leaving: Any,
    packets: Any,
    headers: float,
) -> None:
    """Flits of the network and transfers of DRAM, of one execution."""
    static, is_load = sample.static, sample.kind == k.LOAD
    access = np.isin(sample.kind, (k.LOAD, k.STORE, k.ATOMIC))
    line_flits = float(config.line_bytes) / FLIT_BYTES
    written = np.ceil(sample.access_bytes / np.maximum(sample.lines, 1.0) / FLIT_BYTES)
    write_flits = np.clip(written + headers, 1.0 + headers, max(line_flits, 1.0 + headers))
    events["flits_out"] = np.where(is_load, packets, packets * write_flits)
    events["flits_in"] = np.where(is_load, leaving * float(config.transfer_bytes) / FLIT_BYTES, packets)
    dram_part = np.maximum(misses.levels[:, 2], 1e-300)[static]
    reads = misses.per_execution("dram_reads")[static] / dram_part
    events["dram_reads"] = np.where(events["level"] == k.DRAM, reads, 0.0)
    early = early_writes(misses, config, repeats)
    writes = misses.per_execution("dram_writes")[static] * access + leaving * ~is_load * early
    events["dram_writes"] = writes * float(config.write_factor)


def crowds_of(misses: MissProfile) -> Any:
    """Requests that a miss of each instruction finds ahead of it at its bank and channel, beyond the mean."""
    sent = misses.misses_per_execution * misses.executed, misses.per_execution("dram_reads") * misses.executed
    ahead = misses.arrival("bank_ahead"), misses.arrival("channel_ahead")
    return np.maximum(np.stack(ahead) / np.maximum(np.stack(sent), 1.0), 0.0)


def _to_totals(events: Any, sample: BlockSample, misses: MissProfile, recorded_blocks: float) -> None:
    """Let the events ask the network and DRAM for as much as the caches found.

    They make up for instructions that no sampled block executes, and for levels that were not drawn.
    """
    part = sample.blocks / recorded_blocks
    packets = misses.packets_per_execution * misses.executed
    for kind in (k.LOAD, k.STORE, k.ATOMIC):
        mine = sample.kind == kind
        found = events["requests"][mine].sum()
        if found > 0.0:
            ratio = part * packets[misses.kinds == kind].sum() / found
            for name in ("flits_out", "flits_in", "requests"):
                events[name][mine] *= ratio
    found = events["dram_reads"].sum()
    if found > 0.0:
        events["dram_reads"] *= part * misses.per_execution("dram_reads") @ misses.executed / found


def early_writes(misses: MissProfile, config: DemandConfig, repeats: float) -> float:
    """Transfers to DRAM per request of a store that the LLC could hold, but writes back before the launch ends."""
    if config.dirty_bytes is None:
        return 0.0
    dirty = misses.dirty_left * misses.transfer_bytes * repeats
    stored = misses.misses_per_execution * misses.executed
    requests = stored[np.isin(misses.kinds, (k.STORE, k.ATOMIC))].sum()
    return misses.dirty_left * max(1.0 - float(config.dirty_bytes) / max(dirty, 1e-300), 0.0) / max(requests, 1.0)


def _order(sample: BlockSample, events: Any, levels: Any, config: DemandConfig, *, balanced: bool) -> tuple[Any, Any]:
    """(Order in which the slowest SM gets its blocks, part of the SMs that move as much as each block).

    Where blocks differ, some SM has the one that takes longest; its others are
    as they come. What a block moves beyond the mean, the other SMs do not. Which
    one takes longest is decided once, on the machine as named, whatever is varied.
    """
    latency = levels @ list(config.named_latencies)
    alone = events["gap"] + np.where(sample.kind == k.LOAD, latency[sample.static], 0.0) * sample.weight
    moved = sum(events[name] for name in _MOVED)

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
    """A point of the unit interval for each entry; the points of a group spread evenly."""
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

    static = sample.static
    levels = misses.levels
    mine = levels[static]
    point = spread(static)
    level = np.where(point < mine[:, 2], k.DRAM, np.where(point < mine[:, 2] + mine[:, 1], k.LLC, k.L1))
    left = np.zeros(len(static))
    if arrivals:
        for of, name, becomes in ((k.L1, "l1", k.COMING), (k.LLC, "llc", k.LLC)):
            found = misses.arrival(name)
            part = found / np.maximum(levels[:, of] * misses.executed, 1.0)
            mean = misses.arrival(f"{name}_left") / np.maximum(found, 1.0)
            here = np.flatnonzero(level == of)
            coming = here[spread(static[here]) < part[static[here]]]
            level[coming] = becomes
            left[coming] = mean[static[coming]]
    return level.astype(np.int64), left


def _units(sample: BlockSample, config: DemandConfig) -> Any:
    """Cycles that each event's instructions hold each functional unit."""
    held: dict[str, Any] = {}
    for index, name in enumerate(sample.classes):
        if name in config.units:
            unit, interval = config.units[name]
            held[unit] = held.get(unit, 0.0) + sample.counts[:, index] * float(interval) * sample.weight
    return np.stack(list(held.values()), axis=1) if held else np.zeros((len(sample.static), 1))

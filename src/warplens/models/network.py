"""The demand of a traced launch: what each event of its warps asks of issue slots, units, network and DRAM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis._cache_records import GRANULES
from ..analysis.block_samples import CONSTANT_INDICES, FAR_FETCHED, FETCHED, FURTHER_READS, BlockSample
from ..machine import INSTRUCTION_CLASSES, Gpu, Quantity, lineage
from . import _network_records as k
from .served import crossed, crowds_of, draw_levels, from_dram, undrawn

FLIT_BYTES = 32
#: Blocks count as imbalanced if the longest takes this many times the median.
DIFFERENT = 1.1
#: A block is an exception from this ratio to all others.
EXCEPTION = 2.0
#: DRAM turns round for all writes if it reads at least one for so many (benchmarks/h200/ratios.csv).
WRITES_BY_READ = 8.0
#: Classes of instructions that take turns with loads.
SPECIAL = {"sfu", "conversion"}
#: Units that all partitions of an SM share; each has its own of the others.
WHOLE = {"barrier", "constant", "fetch", "memory", "shared"}
CLUSTER_BARRIER = "barrier_cluster"
#: A warp reserves all that it asks of each server until its next event. What warps of all schedulers ask of shared
#: memory comes in turn, so computation with shared loads is divided: into steps of so many cycles, at most so many.
#: Special functions and shared loads get in one another's way; those of a warp stay together.
STEP_CYCLES, MOST_STEPS = 256.0, 8
#: Event fields. `_ASKED` scale with the executions of the instruction in all blocks, `_ISSUED` with the instructions
#: of all blocks; `_MOVED` are traffic.
_ASKED = ("port", "turn", "flits_out", "flits_in", "requests", "dram_reads", "dram_writes")
_ISSUED = ("issue", "gap", "tail", "shared", "special")
_MOVED = ("flits_out", "flits_in", "dram_reads", "dram_writes")


@dataclass(frozen=True, eq=False)
class Demand:
    """Events of the sampled thread blocks, ready for `_network_kernels.solve`."""

    stream: k.Stream
    instructions_per_warp: float
    busiest_bank: float = 1.0
    busiest_channel: float = 1.0
    #: Share of the loaded sectors for which an SM nearby has a request under way.
    shared_loads: float = 0.0
    has_sets: bool = False
    #: Launch cycles that the cache simulation estimated; 0 unless it counted loads of data in flight.
    estimated_cycles: float = 0.0
    #: What the events were made of, where a trace was sampled.
    sample: BlockSample | None = None
    config: DemandConfig | None = None


@dataclass(frozen=True)
class DemandConfig:
    """What a demand depends on besides the caches. Fields hold one value, or one per machine of a batch."""

    line_bytes: Quantity
    transfer_bytes: Quantity
    fetch_bytes: Quantity
    lines_per_cycle: Quantity
    bytes_per_cycle: Quantity
    reply_cycles: Quantity
    banked: bool
    streaming: bool
    #: Places in the queue for misses that one takes at least.
    line_places: Quantity
    sets: Quantity
    hashed: bool
    dirty_bytes: Quantity
    miss_lookups: Quantity
    llc_spread_cycles: Quantity
    dram_spread_cycles: Quantity
    crossing_cycles: Quantity
    write_factor: Quantity
    #: Time to write a sector that is alone in its line, over the time to read as much.
    lone_write_factor: Quantity
    #: A store sends a header flit with its data, unless the machine gives `noc.store_cycles`.
    store_headers: bool
    #: Cycles of a warp for an instruction from beyond the first instruction cache, and from beyond the second.
    fetch_cycles: tuple[Quantity, ...]
    #: Cycles of a scheduler for each further register of a bank.
    register_conflict_cycles: Quantity
    #: Part of the time of a conversion or special function in which no load passes.
    special_share: Quantity
    #: Cycles of an SM between two instructions that issue.
    slot_cycles: Quantity
    #: (Functional unit, cycles that it is held) of each instruction class.
    units: Mapping[str, tuple[str, Quantity]]
    #: Latencies of L1, L2 and DRAM on the machine as named, before overrides.
    named_latencies: tuple[float, float, float]

    @property
    def columns(self) -> list[Any]:
        """All values; machines of a batch that agree in all of them share a demand."""
        plain = [getattr(self, name) for name in vars(self) if name not in ("units", "fetch_cycles")]
        return [*plain, *self.fetch_cycles, *(cycles for _, cycles in self.units.values())]


def demand_config(gpu: Gpu, classes: Iterable[str], needed_by: str) -> DemandConfig:
    """The configuration of a machine or a batch, for a kernel with instructions of these classes."""
    gpu, named = gpu.with_defaults, (gpu.original or gpu).with_defaults
    known = (name for name in classes if name in INSTRUCTION_CLASSES)
    units = {name: unit for name in known if (unit := _unit(gpu, name, needed_by)) is not None}
    if gpu.constant_index_cycles is not None:
        units[CONSTANT_INDICES] = "constant", gpu.constant_index_cycles
    if gpu.fetch_interval_cycles is not None:
        units |= dict.fromkeys((FETCHED, FAR_FETCHED), ("fetch", gpu.fetch_interval_cycles))
    return DemandConfig(
        line_bytes=gpu.l1.line_bytes,
        transfer_bytes=gpu.transfer_bytes,
        fetch_bytes=gpu.transfer_bytes if gpu.llc.fetch_bytes is None else gpu.llc.fetch_bytes,
        lines_per_cycle=gpu.l1.lines_per_cycle,
        bytes_per_cycle=gpu.l1.line_bytes if gpu.l1.bytes_per_cycle is None else gpu.l1.bytes_per_cycle,
        reply_cycles=gpu.l1.reply_cycles,
        banked=gpu.l1.banked,
        streaming=gpu.l1.streaming,
        line_places=line_places(gpu),
        sets=l1_sets(gpu),
        hashed=gpu.l1.hashed,
        dirty_bytes=gpu.llc.dirty_bytes,
        miss_lookups=gpu.noc.miss_lookups,
        llc_spread_cycles=gpu.llc.spread_cycles,
        dram_spread_cycles=gpu.dram.spread_cycles,
        crossing_cycles=gpu.llc.crossing_cycles,
        write_factor=gpu.dram.write_factor,
        lone_write_factor=gpu.dram.lone_write_factor,
        store_headers=gpu.noc.store_cycles is None,
        fetch_cycles=tuple(0.0 if each is None else each for each in (gpu.fetch_cycles, gpu.far_fetch_cycles)),
        register_conflict_cycles=0.0 if gpu.register_conflict_cycles is None else gpu.register_conflict_cycles,
        special_share=gpu.l1.special_share,
        slot_cycles=1.0 / np.multiply(gpu.schedulers, gpu.issue_width),
        units=units,
        named_latencies=(
            named.l1.latency_cycles,
            named.llc.latency_cycles,
            named.llc.latency_cycles + (named.dram.latency_cycles or 0.0),
        ),
    )


def _unit(gpu: Gpu, name: str, needed_by: str) -> tuple[str, Quantity] | None:
    """The functional unit of a class and the cycles that an instruction holds it; None if the network models both."""
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
    """L1 sets whose ways a miss reserves; 0 for a streaming L1."""
    if gpu.l1.streaming or not np.all(gpu.l1.size_bytes):
        return 0
    return np.floor_divide(gpu.l1.size_bytes, np.multiply(gpu.l1.line_bytes, gpu.with_defaults.l1.ways))


def line_places(gpu: Gpu) -> Quantity:
    """Places of the queue for misses that a line takes, where lines of a streaming L1 limit misses too; else 1."""
    if not gpu.l1.streaming or not gpu.l1.reserving or gpu.noc.queue_entries is None:
        return 1.0
    return np.multiply(gpu.noc.queue_entries, gpu.l1.line_bytes) / np.maximum(gpu.l1.size_bytes, gpu.l1.line_bytes)


class LaunchSize(NamedTuple):
    """Recorded blocks of a launch, warp instructions per block, and launched blocks per recorded block."""

    recorded_blocks: float
    instructions_per_block: float
    repeats: float


def demand_of_sample(
    sample: BlockSample, misses: MissProfile, size: LaunchSize, config: DemandConfig, without: str = "none"
) -> Demand:
    """The events of sampled blocks with the traffic that the caches found; `without` one mechanism."""
    size = size._replace(instructions_per_block=size.instructions_per_block * sample.expansion)
    counts = _counts(sample, size.instructions_per_block)
    instructions = float((sample.instructions * sample.weight * counts).sum())
    more = size.instructions_per_block / max(instructions / _blocks(sample, counts), 1e-300)
    events = _events(sample, misses, size, config, more, counts, without)
    units, divided, slower = _units(sample, config)
    order, traffic = _order(sample, events, misses.levels, config, balanced=without == "imbalance")
    return Demand(
        stream=k.Stream(
            block_start=sample.block_start,
            event_start=sample.event_start,
            events=events,
            units=units * more,
            order=order,
            traffic=traffic,
            divided=divided,
            slower=slower,
            await_start=sample.awaited.start,
            awaited=sample.awaited.pairs,
        ),
        instructions_per_warp=float(
            more * instructions / max(len(sample.event_start) - 1, 1) * sample.blocks / _blocks(sample, counts)
        )
        / sample.expansion,
        busiest_bank=1.0 if without == "banks" else misses.busiest_bank,
        busiest_channel=1.0 if without == "banks" else _busiest_channel(sample, misses, config, size.repeats),
        shared_loads=misses.shared_loads,
        has_sets=bool(config.sets),
        estimated_cycles=misses.estimated_cycles,
        sample=sample,
        config=config,
    )


def _counts(sample: BlockSample, instructions_per_block: float) -> NDArray[np.float64]:
    """For how much each event counts in sums over the blocks: 1, or less in a block that is an exception.

    A block with far more instructions than all others stands for few; the mean of the launch says for how few.
    """
    events = sample.event_start[sample.block_start]
    own = np.add.reduceat(sample.instructions * sample.weight, events[:-1])
    if len(own) < 2:
        return np.ones(len(sample.static))
    longest = int(np.argmax(own))
    others = np.delete(own, longest)
    if own[longest] <= EXCEPTION * others.max():
        return np.ones(len(sample.static))
    shares = np.ones(len(own))
    mean = others.mean()
    shares[longest] = np.clip(
        len(others) * (instructions_per_block - mean) / max(own[longest] - instructions_per_block, 1e-300), 0.0, 1.0
    )
    return np.repeat(shares, np.diff(events))


def _blocks(sample: BlockSample, counts: NDArray[np.float64]) -> float:
    """Sampled blocks, an exception by its count."""
    return float(counts[sample.event_start[sample.block_start[:-1]]].sum())


def _events(
    sample: BlockSample,
    misses: MissProfile,
    size: LaunchSize,
    config: DemandConfig,
    more: float,
    counts: NDArray[np.float64],
    without: str,
) -> NDArray[np.void]:
    """One record per event, for all executions it stands for; `more` scales sampled to recorded instructions."""
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
    events["weight"], events["left"], events["from_dram"] = weight, left, from_dram(misses)[static]
    events["clustered"] = (sample.kind == k.BARRIER) & (_counted(sample, CLUSTER_BARRIER) > 0)
    events["issue"] = sample.instructions + _counted(sample, FURTHER_READS) * float(config.register_conflict_cycles)
    events["gap"] = np.maximum(sample.gap, _fetch_cycles(sample, config))
    events["tail"], events["shared"] = sample.tail, sample.shared_cycles
    special = _special_cycles(sample, config)
    events["special"], events["turn"] = special * float(config.special_share), sample.kind == k.LOAD
    events["port"] = np.where(access, _wavefronts(sample, config, conflicts=without != "conflicts"), 0.0)
    replies = np.where(sample.kind == k.LOAD, np.maximum(packets - 1.0, 0.0), 0.0)
    events["requests"] = packets
    headers = config.store_headers or without == "stores"
    _put_traffic(events, sample, misses, config, size.repeats, leaving, packets, float(headers))
    events["spread"] = _spread(events, leaving, packets, config)
    found = (level == k.LLC) & (left == 0.0) & (sample.kind == k.LOAD)
    events["spread"] += np.where(found, crossed(misses)[static] * float(config.crossing_cycles), 0.0)
    by_level = np.where(level == k.DRAM, float(config.dram_spread_cycles), float(config.llc_spread_cycles))
    events["scatter"] = np.where(goes & (sample.kind == k.LOAD), by_level / np.log(2.0) * np.sqrt(weight), 0.0)
    if without == "write-backs":
        events["dram_writes"] = 0.0
    # Other blocks may execute an instruction more or less often than the sampled ones.
    own = np.bincount(static, weight * counts, len(misses.kinds))
    part = _blocks(sample, counts) / size.recorded_blocks
    drawn = (own > 0) & (misses.executed > 0)
    scale = np.where(drawn, misses.executed * part / np.where(drawn, own, 1.0) * undrawn(misses, drawn), 1.0)[static]
    for names, factor in ((_ASKED, scale), (_ISSUED, more)):
        for name in names:
            # Accesses of machine code are not as many as those of the PTX, whose executions are known.
            asked = more if name in ("port", "turn") and sample.machine_code else factor
            events[name] = events[name] * weight * asked
    events["port"] += replies * float(config.reply_cycles) * weight * scale
    _to_totals(events, sample, misses, part, counts)
    divided = (events["shared"] > 0.0) & (special == 0.0)
    events["steps"] = np.where(divided, np.clip(events["gap"] / STEP_CYCLES, 1, MOST_STEPS), 1)
    misses_llc = (level == k.DRAM) & (sample.kind == k.LOAD)
    events["lookups"] = np.where(misses_llc, events["requests"] * float(config.miss_lookups), 0.0)
    events["misses"] = leaving if config.streaming else packets
    reserved = np.where(sample.kind == k.LOAD, packets * float(config.line_places), 0.0)
    events["places"] = np.maximum(events["misses"], reserved)
    if without != "crowds":
        events["bank"], events["channel"] = crowds_of(misses)[:, static]
    if config.sets:
        events["set"], most = sample.sets(int(config.sets), hashed=bool(config.hashed))
        events["set_lines"] = most * np.minimum(leaving / np.maximum(sample.lines, 1.0), 1.0)
    return events


def _fetch_cycles(sample: BlockSample, config: DemandConfig) -> Any:
    """Cycles of a warp until it has fetched the instructions before each event."""
    names = (FETCHED, FAR_FETCHED)
    return sum(_counted(sample, name) * float(each) for name, each in zip(names, config.fetch_cycles, strict=True))


def _counted(sample: BlockSample, name: str) -> Any:
    """What the sample counts under a name before each event."""
    return sample.counts[:, sample.classes.index(name)] if name in sample.classes else np.zeros(len(sample.static))


def _special_cycles(sample: BlockSample, config: DemandConfig) -> Any:
    """Cycles of conversions and special functions before each event; for a part of them no load passes."""
    names = (name for name in config.units if name in INSTRUCTION_CLASSES and SPECIAL & set(lineage(name)))
    cycles = (_counted(sample, name) * float(config.units[name][1]) for name in names)
    return sum(cycles, np.zeros(len(sample.static)))


def _spread(events: Any, sectors: Any, lines: Any, config: DemandConfig) -> Any:
    """Cycles that the last line of a load takes longer than one alone. Lines that are read whole lie side by side."""
    apart = lines * lines / np.maximum(sectors, 1e-300)
    fetched = np.minimum(apart, events["dram_reads"] * float(config.transfer_bytes) / float(config.fetch_bytes))
    by_llc = np.log2(np.maximum(apart, 1.0)) * float(config.llc_spread_cycles)
    by_dram = np.log2(np.maximum(fetched, 1.0)) * float(config.dram_spread_cycles)
    cycles = np.where(events["level"] == k.DRAM, np.maximum(by_llc, by_dram), by_llc)
    return np.where(events["kind"] == k.LOAD, cycles, 0.0)


def _wavefronts(sample: BlockSample, config: DemandConfig, *, conflicts: bool) -> Any:
    """Cycles of an access at the L1 port: the largest of what its lines, bytes and bank conflicts take."""
    lines = np.maximum(sample.lines, 1.0)
    found = np.maximum(lines / float(config.lines_per_cycle), sample.access_bytes / float(config.bytes_per_cycle))
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
    """Set the NoC flits and DRAM transfers of one execution of each event."""
    static, is_load = sample.static, sample.kind == k.LOAD
    access = np.isin(sample.kind, (k.LOAD, k.STORE, k.ATOMIC))
    line_flits = float(config.line_bytes) / FLIT_BYTES
    sectors = leaving * float(config.transfer_bytes) / FLIT_BYTES
    written = np.ceil(sample.access_bytes / np.maximum(sample.lines, 1.0) / FLIT_BYTES)
    write_flits = packets * np.clip(written + headers, 1.0 + headers, max(line_flits, 1.0 + headers))
    if not headers:
        masks = packets * _partial(sample, misses, config)
        write_flits = np.where(sample.kind == k.STORE, sectors + masks, write_flits)
    events["flits_out"] = np.where(is_load, packets, write_flits)
    events["flits_in"] = np.where(is_load, sectors, packets)
    reads = misses.per_execution("dram_reads")[static] / np.maximum(misses.levels[:, 2], 1e-300)[static]
    events["dram_reads"] = np.where(events["level"] == k.DRAM, reads, 0.0)
    alone = _lone(sample, misses, config)
    early = early_writes(misses, config, repeats, alone)
    writes = misses.per_execution("dram_writes")[static] * access + leaving * ~is_load * early
    total = float((writes * sample.weight).sum())
    read = float((events["dram_reads"] * sample.weight).sum())
    mixed = min(read * WRITES_BY_READ / total, 1.0) if total > 0.0 else 0.0
    factor = 1.0 + (float(config.write_factor) - 1.0) * mixed
    events["dram_writes"] = writes * (factor + (float(config.lone_write_factor) - factor) * alone)


def _partial(sample: BlockSample, misses: MissProfile, config: DemandConfig) -> NDArray[np.bool_]:
    """Accesses that write a part of their sectors: each packet says in a flit of its own which bytes."""
    written = np.minimum(sample.access_bytes, sample.granules * float(config.line_bytes) / GRANULES)
    sectors = misses.per_execution("requests")[sample.static]
    return written < 0.999 * sectors * float(config.transfer_bytes)


def _to_totals(events: Any, sample: BlockSample, misses: MissProfile, part: float, counts: Any) -> None:
    """Scale the events so that their traffic sums to what the cache simulation counted.

    The sample is a `part` of the recorded blocks. It may lack instructions that only others execute, and levels that
    `draw_levels` did not draw.
    """
    packets = misses.packets_per_execution * misses.executed
    for kind in (k.LOAD, k.STORE, k.ATOMIC):
        mine = sample.kind == kind
        found = (events["requests"] * counts)[mine].sum()
        if found > 0.0:
            ratio = part * packets[misses.kinds == kind].sum() / found
            for name in ("flits_out", "flits_in", "requests"):
                events[name][mine] *= ratio
    found = (events["dram_reads"] * counts).sum()
    if found > 0.0:
        events["dram_reads"] *= part * misses.per_execution("dram_reads") @ misses.executed / found


def early_writes(misses: MissProfile, config: DemandConfig, repeats: float, alone: float = 0.0) -> float:
    """DRAM writes per store request for dirty data that fits in L2 but is written back before the launch ends.

    Lines are written back: a sector that is `alone` in its line counts as all of it.
    """
    if config.dirty_bytes is None:
        return 0.0
    dirty = misses.dirty_left * misses.transfer_bytes * repeats
    dirty *= 1.0 + (float(config.line_bytes) / misses.transfer_bytes - 1.0) * alone
    requests = _stored(misses, misses.misses_per_execution)
    return misses.dirty_left * max(1.0 - float(config.dirty_bytes) / max(dirty, 1e-300), 0.0) / max(requests, 1.0)


def _busiest_channel(sample: BlockSample, misses: MissProfile, config: DemandConfig, repeats: float) -> float:
    """Busiest over mean DRAM channel. What the simulation did not write yet is spread evenly."""
    early = early_writes(misses, config, repeats, _lone(sample, misses, config))
    early *= _stored(misses, misses.misses_per_execution)
    counted = float((misses.column("dram_reads") + misses.column("dram_writes")).sum())
    return 1.0 + (misses.busiest_channel - 1.0) * counted / max(counted + early, 1e-300)


def _lone(sample: BlockSample, misses: MissProfile, config: DemandConfig) -> float:
    """`lone_writes` where they matter to the machine."""
    return lone_writes(sample, misses) if float(config.lone_write_factor) > 1.0 else 0.0


def lone_writes(sample: BlockSample, misses: MissProfile) -> float:
    """Share of the written sectors that are alone in their line: stores to one of each line, and to each but once."""
    sectors, packets = (_stored(misses, each) for each in (misses.misses_per_execution, misses.packets_per_execution))
    written = misses.dirty_left + float(misses.per_execution("dram_writes") @ misses.executed)
    stores = np.repeat(np.isin(sample.kind, (k.STORE, k.ATOMIC)), np.diff(sample.line_start))
    lines = sample.line_id[stores]
    if not packets or not written or not len(lines):
        return 0.0
    of_line = sectors / packets * len(lines) / len(np.unique(lines))
    return float(np.clip(2.0 - of_line, 0.0, 1.0) * np.clip(2.0 - sectors / written, 0.0, 1.0))


def _stored(misses: MissProfile, each: Any) -> float:
    """The sum of a value of each execution over all stores and atomics."""
    return float((each * misses.executed)[np.isin(misses.kinds, (k.STORE, k.ATOMIC))].sum())


def _order(sample: BlockSample, events: Any, levels: Any, config: DemandConfig, *, balanced: bool) -> tuple[Any, Any]:
    """(Order in which the slowest SM gets its blocks, share of the SMs with as much traffic as each block).

    If blocks are imbalanced, the slowest SM starts with the longest block; the
    others follow in launch order. A block with more traffic than the mean runs on
    few SMs at a time. The longest block is chosen on the machine as named, so
    overrides do not change it.
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


def _units(sample: BlockSample, config: DemandConfig) -> tuple[Any, Any, Any]:
    """Cycles for which each event's instructions hold each functional unit; of each unit, whether partitions have
    their own, and whether it is slower than issue slots."""
    held: dict[str, Any] = {}
    slower: dict[str, bool] = {}
    for index, name in enumerate(sample.classes):
        if name in config.units:
            unit, interval = config.units[name]
            held[unit] = held.get(unit, 0.0) + sample.counts[:, index] * float(interval) * sample.weight
            slower[unit] = slower.get(unit, False) or float(interval) > 1.001 * float(config.slot_cycles)
    if not held:
        return np.zeros((len(sample.static), 1)), np.zeros(1, dtype=bool), np.zeros(1, dtype=bool)
    return (
        np.stack(list(held.values()), axis=1),
        np.array([unit not in WHOLE for unit in held]),
        np.array(list(slower.values())),
    )

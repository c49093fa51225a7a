"""What a GPU is to warplens: frozen dataclasses with a unit in every name.

Every numeric field may also hold a one-dimensional array: the object then
stands for a batch of machines that differ in those parameters, and models
evaluate all of them in one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import MissingInputError
from .classes import DEFAULT_SUBSYSTEM, INSTRUCTION_CLASSES, lineage
from .fields import Parameter, choice, count, describe, entries, flag, number, with_defaults
from .host import Host
from .power import Power
from .sources import Source

#: A number, or one number per machine of a batch.
Quantity = Any

SCHEDULERS = ("rr", "lrr", "gto", "oldest", "two-level")
WRITE_POLICIES = ("through", "back")
#: Hardware that simulations hold in arrays; any real GPU has far less.
MOST_SMS, MOST_WARPS = 16_384, 4096


class _WritePolicy:
    """What a cache does with stores; L1 and L2 have different defaults."""

    @property
    def writes_back(self) -> bool:
        return bool(with_defaults(self).write_policy == "back")

    @property
    def allocates_stores(self) -> bool:
        return bool(with_defaults(self).write_allocate)


@dataclass(frozen=True)
class L1Cache(_WritePolicy):
    """Data cache of one SM. `sector_bytes` is absent where whole lines are fetched."""

    size_bytes: Quantity = count("capacity of one SM's L1 data cache; 0: accesses go past it", minimum=0)
    ways: Quantity = entries("associativity", default=1)
    line_bytes: Quantity = count("line size")
    sector_bytes: Quantity = count("bytes fetched on a miss, if less than a line")
    hashed: Quantity = flag(
        "a hash of the address spreads lines over the sets; false: consecutive lines take turns", default=False
    )
    mshrs: Quantity = count("miss status holding registers of one L1")
    mshr_merges: Quantity = entries("misses to one line that one MSHR can hold", default=8)
    queue_entries: Quantity = entries("memory instructions of one SM that queue in order for its L1", default=8)
    lines_per_cycle: Quantity = number("lines of one instruction looked up per cycle", above=0.0, default=1.0)
    bytes_per_cycle: Quantity = number("bytes that hits bring to one SM per cycle; a line where absent", above=0.0)
    reply_cycles: Quantity = number(
        "cycles of the port that the reply for each further line of a load takes", minimum=0.0, default=0.0
    )
    banked: Quantity = flag(
        "32 banks like shared memory: a load takes a cycle per word of the busiest", default=False
    )
    latency_cycles: Quantity = number("load-to-use latency of a hit", minimum=0.0, default=0.0)
    special_share: Quantity = number(
        "part of the time of a conversion or special function in which no load passes; a load takes a cycle",
        minimum=0.0,
        most=1.0,
        default=0.0,
    )
    merge_lines: Quantity = count(
        "lines of stores that wait in an SM for the network; others to them merge", minimum=0, default=0, most=1 << 12
    )
    unified_bytes: Quantity = count(
        "storage of L1 and shared memory together, of which the L1 has what the shared memory of a launch leaves"
    )
    streaming: Quantity = flag("streaming L1: the NoC queue, not the MSHRs, limits misses in flight", default=False)
    reserving: Quantity = flag("misses of a streaming L1 take lines while in flight: they limit them", default=False)
    write_policy: Quantity = choice("write policy", WRITE_POLICIES, default="through")
    write_allocate: Quantity = flag("stores that miss enter the cache", default=False)


@dataclass(frozen=True)
class LastLevelCache(_WritePolicy):
    """The cache that all SMs share."""

    size_bytes: Quantity = count("capacity, all banks together")
    ways: Quantity = entries("associativity", default=1)
    line_bytes: Quantity = count("line size")
    banks: Quantity = entries("number of banks", default=1)
    hashed: Quantity = flag(
        "a hash of the address spreads lines over the banks; false: consecutive lines take turns", default=False
    )
    partitions: Quantity = entries(
        "parts, each of which keeps what its own SMs use; a line also has a home in one of them", default=1
    )
    crossing_cycles: Quantity = number(
        "what a hit takes longer whose data are in another part alone", minimum=0.0, default=0.0
    )
    mshrs: Quantity = entries("miss status holding registers of one bank", default=128)
    fetch_bytes: Quantity = count("bytes that a miss fetches from DRAM, if more than an L1 sector")
    dirty_bytes: Quantity = count("dirty bytes it holds before it writes back; if absent, its size")
    latency_cycles: Quantity = number("unloaded load-to-use latency of a hit, NoC included", minimum=0.0, default=0.0)
    spread_cycles: Quantity = number(
        "what the last line of a load takes longer each time their number doubles", minimum=0.0, default=0.0
    )
    write_policy: Quantity = choice("write policy", WRITE_POLICIES, default="back")
    write_allocate: Quantity = flag("stores that miss enter the cache", default=True)


@dataclass(frozen=True)
class Noc:
    """Network between the SMs and the last-level cache."""

    bandwidth_bytes_per_s: Quantity = number("payload bandwidth, all ports together", above=0.0)
    sm_bandwidth_bytes_per_s: Quantity = number("payload bandwidth of one SM's port", above=0.0)
    sm_request_cycles: Quantity = number(
        "fewest cycles between two requests of one SM, each for a line", minimum=0.0, default=0.0
    )
    write_bandwidth_bytes_per_s: Quantity = number(
        "payload bandwidth of stores, all ports together; if absent, that of loads", above=0.0
    )
    sm_write_bandwidth_bytes_per_s: Quantity = number(
        "payload bandwidth of one SM's stores; if absent, that of its loads", above=0.0
    )
    sm_store_cycles: Quantity = number(
        "fewest cycles between two stores of one SM, each to a line; if absent, as requests", minimum=0.0
    )
    sm_atomic_cycles: Quantity = number(
        "fewest cycles between two atomics of one SM, each of a line; if absent, as stores", minimum=0.0
    )
    request_cycles: Quantity = number(
        "fewest cycles between two requests of all SMs, each for a line", minimum=0.0, default=0.0
    )
    miss_lookups: Quantity = number(
        "lookups of LLC tags for a load that misses, beyond one", minimum=0.0, default=0.0
    )
    shared_reads: Quantity = number(
        "share of reads that go along with another's, of those of a line that an SM nearby has under way",
        minimum=0.0,
        most=1.0,
        default=0.0,
    )
    store_cycles: Quantity = number(
        "fewest cycles between two stores of all SMs, each to a line; if absent, as requests", minimum=0.0
    )
    atomic_cycles: Quantity = number(
        "fewest cycles between two atomics of all SMs, each of a line; if absent, as stores", minimum=0.0
    )
    atomic_lane_cycles: Quantity = number(
        "cycles, of all SMs, for each further lane of an atomic that has the word of another", minimum=0.0
    )
    atomic_word_cycles: Quantity = number(
        "fewest cycles between two integer atomics on one word, and between atomics in a slice of the LLC",
        minimum=0.0,
    )
    float_atomic_word_cycles: Quantity = number(
        "fewest cycles between two floating-point atomics on one word; if absent, as integer ones", minimum=0.0
    )
    queue_entries: Quantity = entries("requests that the queue of one SM holds")
    injection_entries: Quantity = entries("packets that wait at the port of one SM", default=64)
    latency_cycles: Quantity = number("latency of one traversal (part of llc.latency)", minimum=0.0)


@dataclass(frozen=True)
class Dram:
    """Memory behind the last-level cache."""

    bandwidth_bytes_per_s: Quantity = number("bandwidth, all channels together", above=0.0)
    latency_cycles: Quantity = number("unloaded latency beyond the L2 (from the SM if there is no L2)", minimum=0.0)
    spread_cycles: Quantity = number(
        "what the last line of a load takes longer each time their number doubles", minimum=0.0, default=0.0
    )
    write_factor: Quantity = number(
        "time to write a byte, mixed with reads, over that to read it", above=0.0, default=1.0
    )
    lone_write_factor: Quantity = number(
        "time to write a sector that is alone in its line, over the time to read as much", above=0.0, default=1.0
    )
    channels: Quantity = entries("number of channels; if absent, one per L2 bank")
    queue_entries: Quantity = entries("requests that wait at one channel", default=64)
    departure_coalesced_cycles: Quantity = number(
        "fewest cycles between two coalesced memory warps of an SM (Hong & Kim, Table 1)", above=0.0
    )
    departure_uncoalesced_cycles: Quantity = number(
        "fewest cycles between two transactions of an uncoalesced memory warp", above=0.0
    )
    uncoalesced_transactions: Quantity = number("transactions of one uncoalesced memory warp instruction")


@dataclass(frozen=True)
class Clocks:
    """Published core clocks; `clock_hz` is the one that predictions use."""

    base_hz: Quantity = number("clock that the maker guarantees", above=0.0)
    boost_hz: Quantity = number("highest clock of the data sheet", above=0.0)
    sustained_hz: Quantity = number("clock seen while FP32 multiply-adds keep all SMs busy", above=0.0)


@dataclass(frozen=True)
class OccupancyRules:
    """How registers and shared memory are allocated to thread blocks."""

    max_threads_per_block: Quantity = count("threads in a block")
    max_registers_per_thread: Quantity = count("registers a thread may use")
    registers_per_block: Quantity = count("registers a block may use")
    register_allocation: Quantity = choice("registers are rounded up per", ("warp", "block"), default="warp")
    register_unit: Quantity = count("registers are allocated in multiples of this", default=1)
    warp_granularity: Quantity = count("warps of a block round up to a multiple of this for registers", default=1)
    shared_memory_unit_bytes: Quantity = count("shared memory is allocated in multiples of this", default=1)
    shared_memory_reserved_bytes: Quantity = count("shared memory that is reserved per block", minimum=0, default=0)
    shared_memory_per_block_bytes: Quantity = count("shared memory a block may use")
    spare_shared_memory_bytes: Quantity = count(
        "up to this, an SM sets shared memory aside for twice the blocks that fit; if absent, for those that fit"
    )


@dataclass(frozen=True)
class InstructionTiming:
    """λ and Λ of an instruction class on one SM."""

    latency_cycles: Quantity = number("Λ: cycles until dependants may start", minimum=0.0)
    interval_cycles: Quantity = number("λ: cycles until the pipeline accepts the next warp instruction", minimum=0.0)
    subsystem: Quantity = field(default=None, metadata={"doc": "pipeline that executes it", "kind": str})


SECTIONS: dict[str, type] = {
    "clocks": Clocks,
    "l1": L1Cache,
    "llc": LastLevelCache,
    "noc": Noc,
    "dram": Dram,
    "occupancy": OccupancyRules,
    "power": Power,
    "host": Host,
}
#: Parameters without which nothing can be predicted.
REQUIRED = ("sms", "clock_hz", "schedulers", "issue_width", "scheduler", "warp_size", "max_warps")


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a batch of GPUs where fields hold arrays.

    Latencies are in core cycles at `nominal_clock_hz`. When the clock changes, the
    DRAM part keeps its seconds and bandwidths keep their bytes per second. Models
    therefore use the `*_now` quantities below, which follow `clock_hz`.
    """

    name: str
    description: str = ""
    compute_capability: Quantity = field(
        default=None,
        metadata={
            "doc": "NVIDIA's version of the SM, which decides its limits and what NVRTC compiles for",
            "kind": str,
        },
    )
    sms: Quantity = count("number of streaming multiprocessors", most=MOST_SMS)
    clock_hz: Quantity = number("core clock", above=0.0)
    schedulers: Quantity = count("warp schedulers of one SM", most=MOST_WARPS)
    issue_width: Quantity = number("warp instructions a scheduler issues per cycle", above=0.0)
    scheduler: Quantity = choice("warp scheduling policy", SCHEDULERS)
    warp_size: Quantity = count("threads of a warp", most=MOST_WARPS)
    max_warps: Quantity = count("warps resident on one SM", most=MOST_WARPS)
    max_blocks: Quantity = count("thread blocks resident on one SM", most=MOST_WARPS)
    registers: Quantity = count("32-bit registers of one SM")
    shared_memory_bytes: Quantity = count("shared memory of one SM", minimum=0)
    shared_memory_bytes_per_cycle: Quantity = number(
        "bytes that the 32 banks of one SM's shared memory give in a cycle", above=0.0, default=128.0
    )
    operand_collectors: Quantity = entries("operand collectors of one SM, for instructions of all kinds")
    operand_cycles: Quantity = number(
        "cycles from an issue to one that needs its result, beyond the latency of its unit or of shared memory",
        minimum=0.0,
        default=0.0,
    )
    launch_overhead_cycles: Quantity = number("time at the start and end of a launch when no warp runs", minimum=0.0)
    cold_start_cycles: Quantity = number("extra time of a launch with cold instruction caches and TLBs", minimum=0.0)
    block_start_cycles: Quantity = number(
        "cycles from the end of a thread block to the start of its successor", minimum=0.0, default=0.0
    )
    block_launch_cycles: Quantity = number("fewest cycles between the starts of two thread blocks", minimum=0.0)
    cluster_start_cycles: Quantity = number("the same as block_start_cycles, of blocks in clusters", minimum=0.0)
    cluster_launch_cycles: Quantity = number("the same as block_launch_cycles, of blocks in clusters", minimum=0.0)
    constant_index_cycles: Quantity = number(
        "cycles of an SM for each further index at which the lanes of a warp read constant memory", minimum=0.0
    )
    generic_latency_cycles: Quantity = number("latency that a generic load of shared memory adds", minimum=0.0)
    remote_latency_cycles: Quantity = number("latency that shared memory of another block adds", minimum=0.0)
    shuffle_latency_cycles: Quantity = number(
        "latency of a shuffle, which passes the port of shared memory as an access does", minimum=0.0
    )
    swap_lane_cycles: Quantity = number("turn of a compare-and-swap loop on shared memory", minimum=0.0)
    swap_word_cycles: Quantity = number("fewest cycles between turns of several warps at one word", minimum=0.0)
    swap_port_cycles: Quantity = number("cycles that a turn holds the port of shared memory", minimum=0.0)
    branch_cycles: Quantity = number("cycles of a warp from a branch to its next instruction", minimum=1.0)
    taken_branch_cycles: Quantity = number("cycles that this takes longer if the branch is taken", minimum=0.0)
    predicate_latency_cycles: Quantity = number("latency of a comparison that guards an instruction", minimum=0.0)
    code_cache_bytes: Quantity = count("instruction cache of one SM that feeds warps at full speed")
    far_code_cache_bytes: Quantity = count("instruction cache behind it")
    fetch_cycles: Quantity = number("cycles of a warp for each instruction from the cache behind", minimum=0.0)
    far_fetch_cycles: Quantity = number("cycles of a warp for each instruction from beyond both", minimum=0.0)
    fetch_interval_cycles: Quantity = number("cycles of an SM for an instruction from beyond the first", minimum=0.0)
    register_conflict_cycles: Quantity = number(
        "cycles of a scheduler for each further register that an instruction reads from a bank", minimum=0.0
    )
    clocks: Clocks = Clocks()
    l1: L1Cache = L1Cache()
    llc: LastLevelCache = LastLevelCache()
    noc: Noc = Noc()
    dram: Dram = Dram()
    occupancy: OccupancyRules = OccupancyRules()
    power: Power = Power()
    host: Host = Host()
    instructions: Mapping[str, InstructionTiming] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    nominal_clock_hz: float = 0.0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    #: The machine as named, if this one has overrides or is adapted to a launch.
    original: Gpu | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling (workers of a sweep): read-only views of dictionaries cannot be pickled."""
        return {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in vars(self).items()}

    # -- access ---------------------------------------------------------------

    def get(self, path: str) -> Quantity:
        """The value at a TOML path such as `l1.size_bytes`, or None."""
        head, _, rest = path.partition(".")
        if not rest:
            return getattr(self, head)
        if head == "instructions":
            name, _, leaf = rest.partition(".")
            timing = self.instructions.get(name)
            return None if timing is None else getattr(timing, leaf)
        return getattr(getattr(self, head), rest)

    @cached_property
    def given(self) -> Mapping[str, Any]:
        """All values that the machine gives, by path. Cached: a sweep derives many machines from one."""
        return MappingProxyType({path: value for path in parameters() if (value := self.get(path)) is not None})

    @cached_property
    def with_defaults(self) -> Gpu:
        """This machine with the schema's defaults where it gives no value."""
        sections = {name: with_defaults(getattr(self, name)) for name in SECTIONS}
        return dataclasses.replace(with_defaults(self), **sections)

    def require(self, path: str, needed_by: str) -> Quantity:
        """The value at `path`, or a `MissingInputError` that names the remedy."""
        value = self.get(path)
        if value is None:
            raise MissingInputError(
                f"{needed_by} needs {path}, which machine {self.name!r} does not give; "
                f"add it to the description or use --set {parameter(path).key}=VALUE"
            )
        return value

    # -- derived quantities ------------------------------------------------------

    @property
    def issue_rate(self) -> Quantity:
        """Warp instructions one SM issues per cycle."""
        return self.schedulers * self.issue_width

    @property
    def launch_cycles(self) -> Quantity:
        """Cycles of a launch in which no warp runs; 0 if the machine gives none."""
        parts = (self.launch_overhead_cycles, self.cold_start_cycles)
        return sum(part for part in parts if part is not None)

    @property
    def clock_ratio(self) -> Quantity:
        """Core clock over nominal clock: the factor on the cycles of a time that keeps its seconds."""
        return self.clock_hz / self.nominal_clock_hz

    @property
    def published_clocks(self) -> dict[str, Quantity]:
        names = ("boost", "sustained", "base")
        return {name: hz for name in names if (hz := getattr(self.clocks, f"{name}_hz")) is not None}

    @property
    def clock_name(self) -> str:
        """Which of several published clocks the core clock is: boost, sustained or base; empty where it is none."""
        named = [name for name, hz in self.published_clocks.items() if np.all(hz == self.clock_hz)]
        return named[0] if named and len(self.published_clocks) > 1 else ""

    @property
    def transfer_bytes(self) -> Quantity:
        """Bytes that one L1 miss moves: a sector, or a line in a cache without sectors."""
        return self.l1.line_bytes if self.l1.sector_bytes is None else self.l1.sector_bytes

    def service_cycles_now(self, level: str, needed_by: str) -> Quantity:
        """Core cycles that `level` (noc or dram) takes for one L1 miss, all ports together. Eq. (M-7, M-8)"""
        bandwidth = self.require(f"{level}.bandwidth_bytes_per_s", needed_by)
        if level == "noc" and self.noc.sm_bandwidth_bytes_per_s is not None:  # few SMs cannot use the whole bandwidth
            bandwidth = np.minimum(bandwidth, np.multiply(self.sms, self.noc.sm_bandwidth_bytes_per_s))
        self.require("l1.line_bytes", needed_by)
        return self.clock_hz * self.transfer_bytes / bandwidth

    def sm_port_bytes_per_s(self, bandwidth: Quantity, port: Quantity) -> Quantity:
        """Bandwidth of one SM's port: `port` if given, else the network's divided by min(L2 banks, SMs)."""
        if port is not None:
            return port
        return np.divide(bandwidth, np.minimum(self.with_defaults.llc.banks, self.sms))

    def dram_latency_cycles_now(self, needed_by: str) -> Quantity:
        """Latency of DRAM beyond the L2 at the current clock."""
        return self.require("dram.latency_cycles", needed_by) * self.clock_ratio

    def memory_latency_cycles_now(self, needed_by: str) -> Quantity:
        """Unloaded load-to-use latency of an access that goes to DRAM."""
        beyond = self.dram_latency_cycles_now(needed_by)
        return beyond if self.llc.latency_cycles is None else self.llc.latency_cycles + beyond

    def timing(self, instruction_class: str, needed_by: str = "the model") -> InstructionTiming:
        """λ, Λ and subsystem of a class, each from the class itself or its nearest ancestor with a value.

        A class worth several instructions of its parent takes as long as those in sequence; one worth a part of
        it holds its unit for as much less. A memory class
        without any timing gets the DRAM latency, and one SM's share of the DRAM bandwidth for a coalesced
        access, which moves a whole line even in a cache with sectors.
        """
        latency = self._inherited(instruction_class, "latency_cycles")
        interval = self._inherited(instruction_class, "interval_cycles")
        kind, several = INSTRUCTION_CLASSES[instruction_class].kind, INSTRUCTION_CLASSES[instruction_class].of_parent
        if several != 1 and latency is not None and interval is not None:
            if self.get(f"instructions.{instruction_class}.interval_cycles") is None:
                interval = several * interval
            if several > 1 and self.get(f"instructions.{instruction_class}.latency_cycles") is None:
                latency = latency + (1 - 1 / several) * interval
        if kind == "memory" and latency is None:
            latency = self.memory_latency_cycles_now(needed_by)
        if kind == "memory" and interval is None:
            service = self.service_cycles_now("dram", needed_by)
            interval = service * (self.l1.line_bytes / self.transfer_bytes) * self.sms
        if latency is None or interval is None:
            raise MissingInputError(
                f"{needed_by} needs the timing of {instruction_class!r}, and machine {self.name!r} gives it neither "
                f"for {' nor '.join(repr(name) for name in lineage(instruction_class))}; "
                f"use --set instructions.{instruction_class}.latency=… and .interval=…"
            )
        return InstructionTiming(latency, interval, self._subsystem(instruction_class))

    def _inherited(self, instruction_class: str, leaf: str) -> Quantity:
        """A time of the class or its nearest ancestor; memory times keep their seconds when the clock changes."""
        for name in lineage(instruction_class):
            value = self.get(f"instructions.{name}.{leaf}")
            if value is not None:
                return value * self.clock_ratio if INSTRUCTION_CLASSES[name].kind == "memory" else value
        return None

    def _subsystem(self, instruction_class: str) -> str:
        for name in lineage(instruction_class):
            if name in self.instructions:
                return self.instructions[name].subsystem or DEFAULT_SUBSYSTEM[INSTRUCTION_CLASSES[name].kind]
        return DEFAULT_SUBSYSTEM[INSTRUCTION_CLASSES[instruction_class].kind]

    def __repr__(self) -> str:
        changed = "".join(f", {key}={value!r}" for key, value in self.overrides.items())
        return f"<Gpu {self.name}{changed}>"


# -- the schema as data -----------------------------------------------------------


@cache
def parameters() -> Mapping[str, Parameter]:
    """All parameters by TOML path, `instructions.*` expanded for every class."""
    found = describe(Gpu, "")
    for section, owner in SECTIONS.items():
        found |= describe(owner, f"{section}.")
    for name in INSTRUCTION_CLASSES:
        found |= describe(InstructionTiming, f"instructions.{name}.")
    return found


@cache
def parameters_by_key() -> Mapping[str, Parameter]:
    """All parameters by the short key of `--set`; full TOML paths are understood too."""
    by_path = parameters()
    return {p.key: p for p in by_path.values()} | dict(by_path)


def parameter(path: str) -> Parameter:
    return parameters()[path]

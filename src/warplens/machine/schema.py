"""What a GPU is to warplens: frozen dataclasses with a unit in every name.

Every numeric field may also hold a one-dimensional array: the object then
stands for a batch of machines that differ in those parameters, and models
evaluate all of them in one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import MachineError, MissingInputError
from .classes import DEFAULT_SUBSYSTEM, INSTRUCTION_CLASSES, lineage

#: A number, or one number per machine of a batch.
Quantity = Any

SCHEDULERS = ("rr", "lrr", "gto", "oldest", "two-level")
WRITE_POLICIES = ("through", "back")

_SUFFIX_UNITS = {"_bytes_per_s": "bytes_per_s", "_bytes": "bytes", "_hz": "hz", "_cycles": "cycles"}
#: unit -> suffix of a field's name, the inverse of the above.
UNIT_SUFFIXES = {unit: suffix for suffix, unit in _SUFFIX_UNITS.items()}


@dataclass(frozen=True)
class Parameter:
    """One parameter of the schema: its place in TOML, its short key, and what it accepts."""

    path: str
    key: str
    unit: str | None
    kind: type
    doc: str
    minimum: float
    exclusive: bool
    choices: tuple[str, ...]


def _number(doc: str, *, above: float | None = None, minimum: float = 1.0, integer: bool = False) -> Any:
    """A numeric field; `above` makes the lower bound exclusive."""
    return field(
        default=None,
        metadata={
            "doc": doc,
            "kind": int if integer else float,
            "minimum": minimum if above is None else above,
            "exclusive": above is not None,
        },
    )


def _count(doc: str, *, minimum: float = 1.0) -> Any:
    return _number(doc, minimum=minimum, integer=True)


def _choice(doc: str, choices: tuple[str, ...]) -> Any:
    return field(default=None, metadata={"doc": doc, "kind": str, "choices": choices})


def _flag(doc: str) -> Any:
    return field(default=None, metadata={"doc": doc, "kind": bool})


@dataclass(frozen=True)
class L1Cache:
    """Data cache of one SM. `sector_bytes` is absent where whole lines are fetched."""

    size_bytes: Quantity = _count("capacity of one SM's L1 data cache")
    ways: Quantity = _count("associativity")
    line_bytes: Quantity = _count("line size")
    sector_bytes: Quantity = _count("bytes fetched on a miss, where less than a line")
    mshrs: Quantity = _count("miss status holding registers of one L1")
    mshr_merges: Quantity = _count("misses to one line that one MSHR can hold")
    queue_entries: Quantity = _count("memory instructions of one SM that wait in order for its L1")
    lines_per_cycle: Quantity = _number(
        "lines of one instruction that are looked up in a cycle; 1 where absent", above=0.0
    )
    banked: Quantity = _flag(
        "its words lie in 32 banks, as those of shared memory; a load takes a cycle for each word that one bank gives"
    )
    latency_cycles: Quantity = _number("load-to-use latency of a hit", minimum=0.0)
    streaming: Quantity = _flag("streaming L1: the NoC queue, not the MSHRs, limits misses in flight")
    write_policy: Quantity = _choice("write policy; `through` where absent", WRITE_POLICIES)
    write_allocate: Quantity = _flag("stores that miss enter the cache; `false` where absent")

    @property
    def writes_back(self) -> bool:
        return bool(self.write_policy == "back")

    @property
    def allocates_stores(self) -> bool:
        return bool(self.write_allocate)


@dataclass(frozen=True)
class LastLevelCache:
    """The cache that all SMs share."""

    size_bytes: Quantity = _count("capacity, all banks together")
    ways: Quantity = _count("associativity")
    line_bytes: Quantity = _count("line size")
    banks: Quantity = _count("number of banks")
    hashed: Quantity = _flag(
        "lines are spread over the banks by a hash of their address; `false`: one after the other"
    )
    mshrs: Quantity = _count("miss status holding registers of one bank")
    fetch_bytes: Quantity = _count("bytes that a miss brings in from DRAM, where more than a sector of the L1")
    dirty_bytes: Quantity = _count("written bytes that it holds before it writes back; its size where absent")
    latency_cycles: Quantity = _number("unloaded load-to-use latency of a hit, NoC included", minimum=0.0)
    write_policy: Quantity = _choice("write policy; `back` where absent", WRITE_POLICIES)
    write_allocate: Quantity = _flag("stores that miss enter the cache; `true` where absent")

    @property
    def writes_back(self) -> bool:
        return bool(self.write_policy != "through")

    @property
    def allocates_stores(self) -> bool:
        return self.write_allocate is None or bool(self.write_allocate)


@dataclass(frozen=True)
class Noc:
    """Network between the SMs and the last-level cache."""

    bandwidth_bytes_per_s: Quantity = _number("payload bandwidth, all ports together", above=0.0)
    sm_bandwidth_bytes_per_s: Quantity = _number("payload bandwidth of one SM's port", above=0.0)
    sm_request_cycles: Quantity = _number(
        "least distance between two requests of one SM, each for a line", minimum=0.0
    )
    write_bandwidth_bytes_per_s: Quantity = _number(
        "payload bandwidth of stores, all ports together; that of loads where absent", above=0.0
    )
    sm_write_bandwidth_bytes_per_s: Quantity = _number("payload bandwidth of one SM's stores, likewise", above=0.0)
    sm_store_cycles: Quantity = _number(
        "least distance between two stores of one SM, each to a line; that of requests where absent", minimum=0.0
    )
    sm_atomic_cycles: Quantity = _number(
        "least distance between two atomics of one SM, each of a line; that of stores where absent", minimum=0.0
    )
    request_cycles: Quantity = _number("least distance between two requests of all SMs, each for a line", minimum=0.0)
    store_cycles: Quantity = _number(
        "least distance between two stores of all SMs, each to a line; that of requests where absent", minimum=0.0
    )
    atomic_cycles: Quantity = _number(
        "least distance between two atomics of all SMs, each of a line; that of stores where absent", minimum=0.0
    )
    queue_entries: Quantity = _count("requests that the queue of one SM holds")
    injection_entries: Quantity = _count("packets that wait at the port of one SM")
    latency_cycles: Quantity = _number("latency of one traversal (part of the LLC latency)", minimum=0.0)


@dataclass(frozen=True)
class Dram:
    """Memory behind the last-level cache."""

    bandwidth_bytes_per_s: Quantity = _number("bandwidth, all channels together", above=0.0)
    latency_cycles: Quantity = _number(
        "unloaded latency beyond the last-level cache (from the SM where there is none)", minimum=0.0
    )
    write_factor: Quantity = _number("time of a byte written among reads over that of a byte read", above=0.0)
    channels: Quantity = _count("number of channels")
    queue_entries: Quantity = _count("requests that wait at one channel")
    departure_coalesced_cycles: Quantity = _number(
        "least distance between two coalesced memory warps of an SM (Hong & Kim, Table 1)", above=0.0
    )
    departure_uncoalesced_cycles: Quantity = _number(
        "least distance between two transactions of an uncoalesced memory warp", above=0.0
    )
    uncoalesced_transactions: Quantity = _number("transactions of one uncoalesced memory warp instruction")


@dataclass(frozen=True)
class OccupancyRules:
    """How registers and shared memory are handed out to thread blocks."""

    max_threads_per_block: Quantity = _count("threads in a block")
    max_registers_per_thread: Quantity = _count("registers a thread may use")
    registers_per_block: Quantity = _count("registers a block may use")
    register_allocation: Quantity = _choice("registers are rounded up per", ("warp", "block"))
    register_unit: Quantity = _count("registers are handed out in multiples of this")
    warp_granularity: Quantity = _count("warps of a block are rounded up to a multiple of this for registers")
    shared_memory_unit_bytes: Quantity = _count("shared memory is handed out in multiples of this")
    shared_memory_reserved_bytes: Quantity = _count("shared memory the system keeps in each block", minimum=0)
    shared_memory_per_block_bytes: Quantity = _count("shared memory a block may use")


@dataclass(frozen=True)
class InstructionTiming:
    """λ and Λ of an instruction class on one SM."""

    latency_cycles: Quantity = _number("Λ: cycles until dependants may start", minimum=0.0)
    interval_cycles: Quantity = _number("λ: cycles until the pipeline accepts the next warp instruction", minimum=0.0)
    subsystem: Quantity = field(default=None, metadata={"doc": "pipeline that executes it", "kind": str})


@dataclass(frozen=True)
class Source:
    """Where a number comes from: datasheet, paper, measured, derived, assumed, override or unstated."""

    kind: str
    text: str


SOURCE_KINDS = ("datasheet", "paper", "measured", "derived", "assumed", "override", "unstated")
SECTIONS: dict[str, type] = {
    "l1": L1Cache,
    "llc": LastLevelCache,
    "noc": Noc,
    "dram": Dram,
    "occupancy": OccupancyRules,
}
#: Parameters without which nothing can be predicted.
REQUIRED = ("sms", "clock_hz", "schedulers", "issue_width", "scheduler", "warp_size", "max_warps")


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a batch of GPUs where fields hold arrays.

    Latencies are in cycles of the core clock at `nominal_clock_hz`; when the
    clock is changed the part spent in DRAM keeps its seconds and bandwidths
    keep their bytes per second, so the `*_now` quantities below, which follow
    `clock_hz`, are what models use.
    """

    name: str
    description: str = ""
    sms: Quantity = _count("number of streaming multiprocessors")
    clock_hz: Quantity = _number("core clock", above=0.0)
    schedulers: Quantity = _count("warp schedulers of one SM")
    issue_width: Quantity = _number("warp instructions a scheduler issues per cycle", above=0.0)
    scheduler: Quantity = _choice("warp scheduling policy", SCHEDULERS)
    warp_size: Quantity = _count("threads of a warp")
    max_warps: Quantity = _count("warps resident on one SM")
    max_blocks: Quantity = _count("thread blocks resident on one SM")
    registers: Quantity = _count("32-bit registers of one SM")
    shared_memory_bytes: Quantity = _count("shared memory of one SM", minimum=0)
    operand_collectors: Quantity = _count("operand collectors of one SM, for instructions of all kinds")
    launch_overhead_cycles: Quantity = _number(
        "time of a launch in which no warp runs: its start and end", minimum=0.0
    )
    cold_start_cycles: Quantity = _number(
        "what a launch adds whose instructions and address translations no cache holds", minimum=0.0
    )
    block_start_cycles: Quantity = _number(
        "from the end of a thread block to the start of the next in its place", minimum=0.0
    )
    block_launch_cycles: Quantity = _number("least distance between the starts of two thread blocks", minimum=0.0)
    l1: L1Cache = L1Cache()
    llc: LastLevelCache = LastLevelCache()
    noc: Noc = Noc()
    dram: Dram = Dram()
    occupancy: OccupancyRules = OccupancyRules()
    instructions: Mapping[str, InstructionTiming] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    nominal_clock_hz: float = 0.0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    #: The machine as named, where this one has overrides.
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
        """All values that the machine gives, by their paths; many machines of a sweep are made of one."""
        return MappingProxyType({path: value for path in parameters() if (value := self.get(path)) is not None})

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
        """Time of a launch in which no warp runs; what a machine does not give takes none."""
        parts = (self.launch_overhead_cycles, self.cold_start_cycles)
        return sum(part for part in parts if part is not None)

    @property
    def clock_ratio(self) -> Quantity:
        """Core clock over nominal clock: what a time that keeps its seconds is multiplied with."""
        return self.clock_hz / self.nominal_clock_hz

    @property
    def transfer_bytes(self) -> Quantity:
        """Bytes that one L1 miss moves: a sector where there are sectors, else a line."""
        return self.l1.line_bytes if self.l1.sector_bytes is None else self.l1.sector_bytes

    def service_cycles_now(self, level: str, needed_by: str) -> Quantity:
        """Core cycles that `level` (noc or dram) takes for one L1 miss, all ports together. Eq. (M-7, M-8)"""
        bandwidth = self.require(f"{level}.bandwidth_bytes_per_s", needed_by)
        if level == "noc" and self.noc.sm_bandwidth_bytes_per_s is not None:  # few SMs cannot take all of it
            bandwidth = np.minimum(bandwidth, np.multiply(self.sms, self.noc.sm_bandwidth_bytes_per_s))
        self.require("l1.line_bytes", needed_by)
        return self.clock_hz * self.transfer_bytes / bandwidth

    def dram_latency_cycles_now(self, needed_by: str) -> Quantity:
        """Latency of DRAM beyond the LLC at the current clock."""
        return self.require("dram.latency_cycles", needed_by) * self.clock_ratio

    def memory_latency_cycles_now(self, needed_by: str) -> Quantity:
        """Unloaded load-to-use latency of an access that goes to DRAM."""
        beyond = self.dram_latency_cycles_now(needed_by)
        return beyond if self.llc.latency_cycles is None else self.llc.latency_cycles + beyond

    def timing(self, instruction_class: str, needed_by: str = "the model") -> InstructionTiming:
        """λ, Λ and subsystem of a class, each from the nearest ancestor that the machine gives it for.

        A class that stands for several instructions of its parent takes the time of as many, one behind the other.
        Memory classes that no ancestor describes get the DRAM latency and one
        SM's share of the DRAM bandwidth for a coalesced access, which moves a
        whole line even where there are sectors.
        """
        latency = self._inherited(instruction_class, "latency_cycles")
        interval = self._inherited(instruction_class, "interval_cycles")
        kind, several = INSTRUCTION_CLASSES[instruction_class].kind, INSTRUCTION_CLASSES[instruction_class].of_parent
        if several > 1 and latency is not None and interval is not None:
            if self.get(f"instructions.{instruction_class}.interval_cycles") is None:
                interval = several * interval
            if self.get(f"instructions.{instruction_class}.latency_cycles") is None:
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
        """A time of the class or its nearest ancestor; times of memory keep their seconds when the clock changes."""
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


def _describe(owner: type, prefix: str) -> dict[str, Parameter]:
    found = {}
    for item in dataclasses.fields(owner):
        if "kind" not in item.metadata:
            continue
        suffix = next((s for s in _SUFFIX_UNITS if item.name.endswith(s)), "")
        key = item.name.removesuffix(suffix or "_entries")
        found[prefix + item.name] = Parameter(
            path=prefix + item.name,
            key=prefix + key,
            unit=_SUFFIX_UNITS.get(suffix),
            kind=item.metadata["kind"],
            doc=item.metadata["doc"],
            minimum=item.metadata.get("minimum", 0.0),
            exclusive=item.metadata.get("exclusive", False),
            choices=item.metadata.get("choices", ()),
        )
    return found


@cache
def parameters() -> Mapping[str, Parameter]:
    """All parameters by TOML path, `instructions.*` expanded for every class."""
    found = _describe(Gpu, "")
    for section, owner in SECTIONS.items():
        found |= _describe(owner, f"{section}.")
    for name in INSTRUCTION_CLASSES:
        found |= _describe(InstructionTiming, f"instructions.{name}.")
    return found


@cache
def parameters_by_key() -> Mapping[str, Parameter]:
    """All parameters by the short key of `--set`; full TOML paths are understood too."""
    by_path = parameters()
    return {p.key: p for p in by_path.values()} | dict(by_path)


def parameter(path: str) -> Parameter:
    return parameters()[path]


def check_value(param: Parameter, value: Any) -> Any:
    """`value` as the schema stores it; ValueError says what is wrong with it."""
    if param.kind is bool:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{value!r} is not true or false")
        return bool(value)
    if param.kind is str:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text")
        if param.choices and value not in param.choices:
            raise ValueError(f"{value!r} is not one of {', '.join(param.choices)}")
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number | np.ndarray):
        raise ValueError(f"{value!r} is not a number")
    return _check_number(param, value)


def _check_number(param: Parameter, value: Any) -> Any:
    from ..units import LARGEST

    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{value!r} is too large (at most {LARGEST:g})")
    if np.asarray(value).dtype.kind not in "iuf":
        raise ValueError(f"{value!r} is not a number")
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim > 1 or numbers.size == 0:
        raise ValueError(f"an array of shape {numbers.shape} is not one-dimensional or is empty")
    if not np.all(np.isfinite(numbers)) or np.any(np.abs(numbers) > LARGEST):
        raise ValueError(f"{value!r} is not a finite number of at most {LARGEST:g}")
    if np.any(numbers <= param.minimum if param.exclusive else numbers < param.minimum):
        word = "above" if param.exclusive else "at least"
        raise ValueError(f"{value!r} must be {word} {param.minimum:g}")
    if param.kind is int and np.any(numbers != np.floor(numbers)):
        raise ValueError(f"{value!r} is not a whole number")
    if numbers.ndim == 0:
        return int(numbers) if param.kind is int else float(numbers)
    return numbers


def check_consistency(gpu: Gpu, where: Callable[[str], str] | None = None) -> None:
    """Relations between parameters; raises `MachineError` on the first that does not hold.

    `where` gives the place of a key, for machines that come from a file.
    """

    def fail(key: str, why: str) -> None:
        raise MachineError(f"{where(key) if where else f'machine {gpu.name!r}'}: {key}: {why}")

    for level, cache_ in (("l1", gpu.l1), ("llc", gpu.llc)):
        if cache_.size_bytes is not None and cache_.ways is not None and cache_.line_bytes is not None:
            way_bytes = np.multiply(cache_.ways, cache_.line_bytes)
            if np.any(np.remainder(cache_.size_bytes, way_bytes) != 0):
                fail(f"{level}.size_bytes", "must be a multiple of ways × line_bytes")
    if gpu.l1.sector_bytes is not None:
        if gpu.l1.line_bytes is None:
            fail("l1.sector_bytes", "needs l1.line_bytes")
        if np.any(np.remainder(gpu.l1.line_bytes, gpu.l1.sector_bytes) != 0):
            fail("l1.sector_bytes", "must divide l1.line_bytes")

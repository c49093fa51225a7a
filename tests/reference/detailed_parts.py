"""What the plain detailed simulator is made of: a machine, instructions, warps, caches, ports and queues."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warplens.traces import StaticInstruction

from .coalescer import kind_of, lines_touched
from .traces import Step

GRANULES = 32
UNKNOWN = float("inf")
#: Causes by how near a warp is to issuing: an empty slot goes to the nearest.
NEARNESS = {"IDLE": 0, "SYNC": 1, "DEP": 2, "MEMORY": 3, "UNIT": 4, "L1": 5, "MSHR": 5, "NOC": 5}


def used(lines: dict, number: int) -> None:
    """Now the most recently used of its set."""
    lines[number] = lines.pop(number)


@dataclass(frozen=True)
class Machine:
    """Times are in cycles; `timings` gives (pipeline, λ, Λ) of the compute classes."""

    sms: int
    schedulers: int
    policy: str
    issue_width: float
    blocks_per_sm: int
    timings: Mapping[str, tuple[str, float, float]]
    active_warps: int = 8
    lsu_queue: int = 8
    collectors: int | None = None
    operand_cycles: float = 0.0
    line_bytes: int = 128
    sectors: int = 1
    l1_sets: int = 1
    l1_ways: int = 1
    l1_hashed: bool = False
    l1_latency: float = 4.0
    mshrs: int = 4
    merges: int = 2
    streaming: bool = False
    shared_latency: float = 6.0
    noc_queue: int = 64
    sm_flit: float = 1.0
    bank_flit: float = 1.0
    banks: int = 1
    llc_sets: int = 1
    llc_ways: int = 1
    llc_latency: float = 40.0
    llc_mshrs: int = 4
    l1_write_back: bool = False
    l1_allocate: bool = False
    write_back: bool = True
    allocate: bool = True
    channels: int = 1
    dram_latency: float = 60.0
    dram_queue: int = 4
    service: float = 2.0

    @property
    def transfer_flits(self) -> float:
        return self.line_bytes / self.sectors / 32

    @property
    def hop(self) -> float:
        """What the ports leave of the way to the LLC and back."""
        in_ports = (1 + self.transfer_flits) * (self.sm_flit + self.bank_flit)
        return max((self.llc_latency - self.l1_latency - in_ports) / 2, 0.0)

    @property
    def shared_to_use(self) -> float:
        """Cycles from a service of shared memory, one of the cycles for operands, to the use of its result."""
        return self.shared_latency + max(self.operand_cycles - 1, 0.0)

    def sectors_of(self, granules: set[int]) -> set[int]:
        return {granule * self.sectors // GRANULES for granule in granules}

    def choose(self, can: list[Warp], last: int) -> Warp:
        """Which warp of a scheduler issues, after the one in slot `last`."""
        if self.policy in ("gto", "oldest"):
            greedy = [warp for warp in can if warp.slot == last and self.policy == "gto"]
            return greedy[0] if greedy else min(can, key=lambda warp: warp.age)
        return min(can, key=lambda warp: (warp.slot <= last, warp.slot))

    def granules_of(self, sectors: set[int]) -> set[int]:
        return {granule for granule in range(GRANULES) if granule * self.sectors // GRANULES in sectors}


@dataclass
class Instruction:
    number: int
    row: StaticInstruction
    kind: str
    lines: list[tuple[int, set[int]]] = field(default_factory=list)
    degree: int = 1

    @property
    def written(self) -> list[int]:
        return [register for register in self.row.destinations if register < 255]

    @property
    def needed(self) -> list[int]:
        return [register for register in (*self.row.sources, *self.row.destinations) if register < 255]


def instruction(step: Step, rows: Sequence[StaticInstruction], line_bytes: int) -> Instruction:
    row = rows[step.row]
    if row.instruction_class in ("shared", "load_shared", "store_shared", "atomic_shared") and row.access_bytes:
        words = {address // 4 + part for address in step.addresses for part in range(max(row.access_bytes // 4, 1))}
        return Instruction(
            step.row, row, "shared", degree=max(Counter(word % 32 for word in words).values(), default=1)
        )
    kind = kind_of(row)
    if kind in ("barrier", "nothing"):
        return Instruction(step.row, row, kind)
    return Instruction(step.row, row, kind, list(lines_touched(step.addresses, row.access_bytes, line_bytes).items()))


@dataclass(eq=False)
class Warp:
    program: list[Instruction]
    slot: int
    age: int
    block: BlockOnSm
    next: int = 0
    not_before: float = 0.0
    at_barrier: bool = False
    found_waiting: bool = False  # a scheduler saw that it needs data whose time is not known
    in_flight: int = 0
    ready: dict[int, float] = field(default_factory=dict)
    awaits: Pending | None = None

    @property
    def meets(self) -> bool:
        """Whether it waits for other warps, at a barrier or an mbarrier."""
        return self.at_barrier or self.awaits is not None

    @property
    def finished(self) -> bool:
        return self.next == len(self.program)

    def give(self, instruction: Instruction, when: float) -> None:
        self.ready.update(dict.fromkeys(instruction.written, when))
        self.found_waiting = False
        self.in_flight -= 1


@dataclass(eq=False)
class Pending:
    """A phase of an mbarrier, or a group: what has to happen until it is done, and when the last of it did."""

    left: int = 0
    ready: float = 0.0

    def part_done(self, when: float) -> None:
        self.left -= 1
        self.ready = max(self.ready, when)


@dataclass(eq=False)
class BlockOnSm:
    warps: list[Warp] = field(default_factory=list)


@dataclass(eq=False)
class Access:
    """A memory instruction on its way. `left`: lines that are not back, and one until all have gone in."""

    warp: Warp
    instruction: Instruction
    issued: float
    to_go: deque[tuple[int, set[int]]]
    left: int = 1
    ready: float = 0.0
    #: What became of it: 0 the L1, 1 the LLC, 2 DRAM served the worst of it; parts of others' misses that were left.
    worst: int = 0
    coming: float = 0.0
    llc_coming: float = 0.0
    completes: list[Pending] = field(default_factory=list)

    def part_back(self, when: float) -> None:
        self.left -= 1
        self.ready = max(self.ready, when)
        if self.left == 0:
            self.give(self.ready)

    def give(self, when: float) -> None:
        self.warp.give(self.instruction, when)
        for pending in self.completes:
            pending.part_done(when)


@dataclass(eq=False)
class InPipe:
    access: Access
    line: int
    granules: set[int]
    last: bool
    at: float


@dataclass(eq=False)
class Line:
    """Sectors fetched and granules written; in an L1 whether data are on their way, in the LLC when they come."""

    valid: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    reserved: bool = False
    fill: float = 0.0
    span: float = 0.0


@dataclass(eq=False)
class Mshr:
    sectors: set[int]
    waiting: list[Access]
    since: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Request:
    sm: Sm
    line: int
    granules: set[int]
    kind: str
    access: Access
    dirty: bool = False
    issued: float = 0.0
    noc_wait: float = 0.0
    bank_wait: float = 0.0
    dram_wait: float = 0.0
    dram: float = 0.0


class Port:
    """Serves in order, one at a time."""

    def __init__(self) -> None:
        self.free = 0.0

    def take(self, when: float, duration: float) -> float:
        begin = max(when, self.free)
        self.free = begin + duration
        return begin


class Queue:
    """Has room for a new entry when the one `size` before it has left."""

    def __init__(self, size: int) -> None:
        self.size, self.left_at = size, []

    def room_at(self) -> float:
        return self.left_at[-self.size] if len(self.left_at) >= self.size else 0.0


class Scheduler:
    def __init__(self) -> None:
        self.last, self.next_issue = -1, 0.0
        self.cause, self.ended = "", False  # what keeps its slot empty, and whether for a warp that has ended


class Sm:
    def __init__(self, machine: Machine) -> None:
        self.blocks: list[BlockOnSm | None] = [None] * machine.blocks_per_sm
        self.schedulers = [Scheduler() for _ in range(machine.schedulers)]
        self.lsu: deque[Access] = deque()
        self.lsu_free = 0.0
        self.pipe: deque[InPipe] = deque()
        self.l1: list[dict[int, Line]] = [{} for _ in range(machine.l1_sets)]  # least recently used first
        self.mshrs: dict[int, Mshr] = {}
        self.units: dict[str, float] = {}
        self.out, self.inward = Port(), Port()
        self.injection = Queue(machine.noc_queue)
        self.blocked = ""
        self.atomics = 0  # at the LLC

    def waits_for(self, issued: bool) -> str:
        """The total that a cycle counts in. Stores hold warps behind the one at the tags, or that end before them."""
        if self.mshrs or self.atomics:
            return "LOAD_CYCLES"
        at_tags = self.blocked if self.pipe and self.pipe[0].access.instruction.kind == "store" else ""
        held = any((s.cause == "MEMORY" and s.ended) or (at_tags and s.cause == at_tags) for s in self.schedulers)
        return "STORE_CYCLES" if held and not issued else "OTHER_CYCLES"

    def warps(self) -> list[Warp]:
        return sorted((w for block in self.blocks if block for w in block.warps), key=lambda warp: warp.slot)


class Bank:
    def __init__(self, machine: Machine) -> None:
        self.in_port, self.out_port, self.tags = Port(), Port(), Port()
        self.mshrs = Queue(machine.llc_mshrs)
        self.sets: list[dict[int, Line]] = [{} for _ in range(machine.llc_sets)]


class Channel:
    def __init__(self, machine: Machine) -> None:
        self.port, self.queue = Port(), Queue(machine.dram_queue)
        self.service = machine.service

    def take(self, when: float, transfers: int) -> tuple[float, float]:
        """(when the bank hands over, when the channel starts)."""
        handed = max(when, self.queue.room_at())
        starts = self.port.take(handed, transfers * self.service)
        self.queue.left_at.append(starts)
        return handed, starts

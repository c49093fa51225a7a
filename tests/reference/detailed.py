"""The detailed simulator cycle by cycle, every warp looked at in every cycle, with lists and dictionaries.

Order of work in a cycle: replies and requests that are due, thread blocks to
SMs, then SM by SM the L1, the load-store unit, the schedulers, barriers and exits.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from warplens.trace import StaticInstruction

from .coalescer import kind_of, lines_touched
from .traces import Block, Step

UNKNOWN = float("inf")
GRANULES = 32
#: Causes by how near a warp is to issuing: an empty slot goes to the nearest.
NEARNESS = {"IDLE": 0, "SYNC": 1, "DEP": 2, "MEMORY": 3, "UNIT": 4, "L1": 5, "MSHR": 5, "NOC": 5}


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
    line_bytes: int = 128
    sectors: int = 1
    l1_sets: int = 1
    l1_ways: int = 1
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
    write_back: bool = True
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

    def sectors_of(self, granules: set[int]) -> set[int]:
        return {granule * self.sectors // GRANULES for granule in granules}

    def granules_of(self, sectors: set[int]) -> set[int]:
        return {granule for granule in range(GRANULES) if granule * self.sectors // GRANULES in sectors}


@dataclass
class Instruction:
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
        return Instruction(row, "shared", degree=max(Counter(word % 32 for word in words).values(), default=1))
    kind = kind_of(row)
    if kind in ("barrier", "nothing"):
        return Instruction(row, kind)
    return Instruction(row, kind, list(lines_touched(step.addresses, row.access_bytes, line_bytes).items()))


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

    @property
    def finished(self) -> bool:
        return self.next == len(self.program)

    def give(self, instruction: Instruction, when: float) -> None:
        self.ready.update(dict.fromkeys(instruction.written, when))
        self.found_waiting = False
        self.in_flight -= 1


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

    def part_back(self, when: float) -> None:
        self.left -= 1
        self.ready = max(self.ready, when)
        if self.left == 0:
            self.warp.give(self.instruction, self.ready)


@dataclass(eq=False)
class InPipe:
    access: Access
    line: int
    granules: set[int]
    last: bool
    at: float


@dataclass(eq=False)
class L1Line:
    valid: set[int] = field(default_factory=set)
    reserved: bool = False


@dataclass(eq=False)
class LlcLine:
    fill: float
    valid: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Mshr:
    sectors: set[int]
    waiting: list[Access]


@dataclass(eq=False)
class Request:
    sm: Sm
    line: int
    granules: set[int]
    kind: str
    access: Access
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


class Sm:
    def __init__(self, machine: Machine) -> None:
        self.blocks: list[BlockOnSm | None] = [None] * machine.blocks_per_sm
        self.schedulers = [Scheduler() for _ in range(machine.schedulers)]
        self.lsu: deque[Access] = deque()
        self.lsu_free = 0.0
        self.pipe: deque[InPipe] = deque()
        self.l1: list[dict[int, L1Line]] = [{} for _ in range(machine.l1_sets)]  # least recently used first
        self.mshrs: dict[int, Mshr] = {}
        self.units: dict[str, float] = {}
        self.out, self.inward = Port(), Port()
        self.injection = Queue(machine.noc_queue)
        self.blocked = ""

    def warps(self) -> list[Warp]:
        return sorted((w for block in self.blocks if block for w in block.warps), key=lambda warp: warp.slot)


class Bank:
    def __init__(self, machine: Machine) -> None:
        self.in_port, self.out_port, self.tags = Port(), Port(), Port()
        self.mshrs = Queue(machine.llc_mshrs)
        self.sets: list[dict[int, LlcLine]] = [{} for _ in range(machine.llc_sets)]


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


def used(lines: dict, number: int) -> None:
    """Now the most recently used of its set."""
    lines[number] = lines.pop(number)


class Simulation:
    def __init__(self, rows: Sequence[StaticInstruction], blocks: Sequence[Block], machine: Machine) -> None:
        self.machine = machine
        self.to_do = deque(
            [[instruction(step, rows, machine.line_bytes) for step in warp] for warp in block] for block in blocks
        )
        self.warps_per_block = max(len(block) for block in blocks)
        self.sms = [Sm(machine) for _ in range(machine.sms)]
        self.banks = [Bank(machine) for _ in range(machine.banks)]
        self.channels = [Channel(machine) for _ in range(machine.channels)]
        self.events: list[tuple[float, int, Callable[[float, Request], None], Request]] = []
        self.numbers = itertools.count()
        self.ages = itertools.count()
        self.next_sm = 0
        self.writes_flying = 0
        self.totals: Counter[str] = Counter()

    def run(self, longest: int = 200_000) -> Counter[str]:
        blocks = len(self.to_do)
        for t in range(longest):
            while self.events and self.events[0][0] <= t:
                now, _, what, request = heapq.heappop(self.events)
                what(now, request)
            self.dispatch(t)
            for sm in self.sms:
                self.l1_stage(t, sm)
                self.lsu_stage(t, sm)
                for number in range(len(sm.schedulers)):
                    self.schedule(t, sm, number)
                self.barriers_and_exits(t, sm)
            if self.totals["BLOCKS"] == blocks:
                self.totals["CYCLES"] = t + 1
                return self.totals
        raise AssertionError("no end")

    def at(self, when: float, what: Callable[[float, Request], None], request: Request) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), what, request))

    # -- SM ---------------------------------------------------------------------

    def dispatch(self, t: int) -> None:
        first = self.next_sm
        for turn in range(len(self.sms)):
            number = (first + turn) % len(self.sms)
            sm = self.sms[number]
            if not self.to_do or None not in sm.blocks:
                continue
            place = sm.blocks.index(None)
            block = BlockOnSm()
            for index, program in enumerate(self.to_do.popleft()):
                slot = place * self.warps_per_block + index
                block.warps.append(Warp(program, slot, next(self.ages), block))
            sm.blocks[place] = block
            self.next_sm = (number + 1) % len(self.sms)

    def active_set(self, warps: list[Warp]) -> list[Warp]:
        if self.machine.policy != "two-level":
            return warps
        may = [warp for warp in warps if not (warp.finished or warp.at_barrier or warp.found_waiting)]
        return sorted(may, key=lambda warp: warp.age)[: self.machine.active_warps]

    def held_by(self, t: int, sm: Sm, warp: Warp) -> str:
        """What keeps a warp from issuing; empty if nothing does."""
        if warp.not_before > t:
            return "DEP"
        following = warp.program[warp.next]
        ready = max((warp.ready.get(register, 0.0) for register in following.needed), default=0.0)
        if ready == UNKNOWN:
            warp.found_waiting = True
            return "MEMORY"
        if ready > t:
            return "DEP"
        if following.kind == "nothing":
            unit = self.machine.timings[following.row.instruction_class][0]
            return "UNIT" if sm.units.get(unit, 0.0) >= t + 1 else ""
        if following.kind != "barrier" and len(sm.lsu) == self.machine.lsu_queue + 1:  # one is being served
            return sm.blocked or "L1"
        return ""

    def choose(self, can: list[Warp], last: int) -> Warp:
        if self.machine.policy in ("gto", "oldest"):
            greedy = [warp for warp in can if warp.slot == last and self.machine.policy == "gto"]
            return greedy[0] if greedy else min(can, key=lambda warp: warp.age)
        return min(can, key=lambda warp: (warp.slot <= last, warp.slot))

    def schedule(self, t: int, sm: Sm, number: int) -> None:
        scheduler, width = sm.schedulers[number], self.machine.issue_width
        slots = max(int(width), 1)
        if scheduler.next_issue > t:
            self.totals["BASE"] += slots
            return
        nearest, issued = "IDLE", 0
        for _ in range(slots):
            mine = [warp for warp in sm.warps() if warp.slot % len(sm.schedulers) == number]
            active = self.active_set(mine)
            can = []
            for warp in mine:
                if warp.finished:
                    cause = "MEMORY" if warp.in_flight else "IDLE"
                elif warp.at_barrier:
                    cause = "SYNC"
                elif warp.found_waiting:
                    cause = "MEMORY"
                elif warp not in active:
                    continue
                else:
                    cause = self.held_by(t, sm, warp)
                if not cause:
                    can.append(warp)
                elif NEARNESS[cause] > NEARNESS[nearest]:
                    nearest = cause
            if not can:
                break
            warp = self.choose(can, scheduler.last)
            self.issue(t, sm, warp)
            scheduler.last = warp.slot
            issued += 1
        if issued:
            scheduler.next_issue = t + max(round(1 / width), 1)
        self.totals["ISSUED"] += issued
        self.totals["BASE"] += issued
        self.totals[nearest] += slots - issued

    def issue(self, t: int, sm: Sm, warp: Warp) -> None:
        issued = warp.program[warp.next]
        warp.next += 1
        warp.not_before = t + 1
        if issued.kind == "barrier":
            warp.at_barrier = not warp.finished  # one that leaves counts as arrived
        elif issued.kind == "nothing":
            unit, interval, latency = self.machine.timings[issued.row.instruction_class]
            sm.units[unit] = max(sm.units.get(unit, 0.0), t) + interval
            warp.ready.update(dict.fromkeys(issued.written, t + latency))
        else:
            sm.lsu.append(Access(warp, issued, t, deque(issued.lines), ready=t + 1))
            warp.in_flight += 1
            if issued.kind != "store":
                warp.ready.update(dict.fromkeys(issued.written, UNKNOWN))

    def barriers_and_exits(self, t: int, sm: Sm) -> None:
        for place, block in enumerate(sm.blocks):
            if block is None:
                continue
            running = [warp for warp in block.warps if not warp.finished]
            if running and all(warp.at_barrier for warp in running):
                for warp in running:
                    warp.at_barrier = False
                    warp.not_before = t + 1
            if not running and not any(warp.in_flight for warp in block.warps):
                sm.blocks[place] = None
                self.totals["BLOCKS"] += 1

    # -- load-store unit and L1 -------------------------------------------------

    def lsu_stage(self, t: int, sm: Sm) -> None:
        if not sm.lsu or sm.lsu_free > t:
            return
        head = sm.lsu[0]
        kind = head.instruction.kind
        if kind == "shared":
            sm.lsu_free = t + head.instruction.degree
            head.warp.give(head.instruction, t + head.instruction.degree - 1 + self.machine.shared_latency)
        elif not head.instruction.lines:
            if kind == "store":
                head.warp.in_flight -= 1
            else:
                head.warp.give(head.instruction, t + self.machine.l1_latency)
        elif len(sm.pipe) < max(int(self.machine.l1_latency), 1):
            line, granules = head.to_go.popleft()
            head.left += 1
            sm.pipe.append(InPipe(head, line, granules, not head.to_go, t + self.machine.l1_latency))
        else:
            return
        if not head.to_go:
            sm.lsu.popleft()

    def l1_stage(self, t: int, sm: Sm) -> None:
        sm.blocked = ""
        if not sm.pipe or sm.pipe[0].at > t:
            return
        entry = sm.pipe[0]
        access = entry.access
        if access.instruction.kind == "load":
            sm.blocked = self.l1_load(t, sm, entry)
        else:
            sm.blocked = self.l1_write(t, sm, entry, access.instruction.kind)
        if sm.blocked:
            return
        sm.pipe.popleft()
        if not entry.last:
            return
        if access.instruction.kind == "store":
            access.warp.in_flight -= 1
        else:
            access.part_back(access.ready)  # the instruction itself

    def l1_set(self, sm: Sm, line: int) -> dict[int, L1Line]:
        return sm.l1[line % self.machine.l1_sets] if self.machine.l1_sets else {}

    def l1_load(self, t: int, sm: Sm, entry: InPipe) -> str:
        machine, line = self.machine, entry.line
        touched = machine.sectors_of(entry.granules)
        lines = self.l1_set(sm, line)
        missing = touched - lines[line].valid if line in lines else touched
        if not missing:
            entry.access.left -= 1
            entry.access.ready = max(entry.access.ready, t)
            used(lines, line)
        elif line in sm.mshrs:
            mshr = sm.mshrs[line]
            if not missing <= mshr.sectors or len(mshr.waiting) == machine.merges:
                return "MSHR"
            mshr.waiting.append(entry.access)
            if line in lines:
                used(lines, line)
        else:
            if len(sm.mshrs) == machine.mshrs:
                return "MSHR"
            if sm.injection.room_at() > t:
                return "NOC"
            if machine.l1_sets and not machine.streaming:
                if line not in lines and len(lines) == machine.l1_ways:
                    victims = [number for number, each in lines.items() if not each.reserved]
                    if not victims:
                        return "MSHR"
                    del lines[victims[0]]
                lines.setdefault(line, L1Line()).reserved = True
                used(lines, line)
            sm.mshrs[line] = Mshr(missing, [entry.access])
            self.totals["L1_MISSES"] += len(missing)
            self.totals["MISS_MSHR"] += t - entry.at
            self.inject(t, Request(sm, line, machine.granules_of(missing), "load", entry.access), 1)
        self.totals["L1_ACCESSES"] += len(touched)
        return ""

    def l1_write(self, t: int, sm: Sm, entry: InPipe, kind: str) -> str:
        machine, line = self.machine, entry.line
        if sm.injection.room_at() > t or self.writes_flying == 4 * machine.noc_queue * machine.sms:
            return "NOC"
        touched = machine.sectors_of(entry.granules)
        lines = self.l1_set(sm, line)
        held: set[int] = set()
        if line in lines and kind == "store":
            held = lines[line].valid
            used(lines, line)
        elif line in lines and not lines[line].reserved:
            del lines[line]
        self.totals["L1_ACCESSES"] += len(touched)
        self.totals["L1_MISSES"] += len(touched - held)
        self.writes_flying += 1
        entry.access.warp.in_flight += kind == "store"
        most = machine.line_bytes // 32
        pieces = {granule * most // GRANULES for granule in entry.granules}
        self.inject(t, Request(sm, line, entry.granules, kind, entry.access), min(len(pieces) + 1, max(most, 2)))
        return ""

    def filled(self, now: float, request: Request) -> None:
        sm = request.sm
        self.totals["RETURNED"] += 1
        if request.kind != "load":
            self.writes_flying -= 1
            if request.kind == "atomic":
                request.access.part_back(now)
            else:
                request.access.warp.in_flight -= 1
            return
        parts = (request.noc_wait, request.bank_wait, request.dram_wait, request.dram)
        for name, part in zip(("NOC", "LLC", "DRAM_QUEUE", "DRAM"), parts, strict=True):
            self.totals[f"MISS_{name}"] += part
        self.totals["MISS_COUNT"] += 1
        self.totals["MISS_PATH"] += now - request.issued - sum(parts)
        mshr = sm.mshrs.pop(request.line)
        lines = self.l1_set(sm, request.line)
        if self.machine.l1_sets:
            if request.line not in lines and len(lines) == self.machine.l1_ways:
                del lines[next(iter(lines))]
            line = lines.setdefault(request.line, L1Line())
            line.valid |= mshr.sectors
            line.reserved = False
        for access in mshr.waiting:
            access.part_back(now)

    # -- network, LLC and DRAM --------------------------------------------------

    def inject(self, t: int, request: Request, flits: int) -> None:
        machine, bank = self.machine, self.banks[request.line % self.machine.banks]
        request.issued = t
        begin = request.sm.out.take(t, flits * machine.sm_flit)
        request.sm.injection.left_at.append(request.sm.out.free)
        arrives = request.sm.out.free + machine.hop
        enters = bank.in_port.take(arrives, flits * machine.bank_flit)
        request.noc_wait = (begin - t) + (enters - arrives)
        self.totals["REQUESTS"] += 1
        self.at(bank.in_port.free, self.at_bank, request)

    def at_bank(self, now: float, request: Request) -> None:
        machine, line = self.machine, request.line
        number = line % machine.banks
        bank = self.banks[number]
        channel = self.channels[(line if machine.channels >= machine.banks else number) % machine.channels]
        lines = bank.sets[line // machine.banks % machine.llc_sets]
        asked = machine.sectors_of(request.granules)
        self.totals["LLC_ACCESSES"] += len(asked)
        begin = max(now, bank.tags.free)
        missed: set[int] = set()
        if line not in lines:
            missed = asked
            if len(lines) == machine.llc_ways:
                dirty = machine.sectors_of(lines.pop(next(iter(lines))).written)
                if dirty:
                    self.totals["DRAM_WRITES"] += len(dirty)
                    begin, _ = channel.take(begin, len(dirty))
            lines[line] = LlcLine(begin)
        used(lines, line)
        held = lines[line]
        ready = begin
        if request.kind != "store":
            missed = {
                sector
                for sector in asked - held.valid
                if not request.granules & machine.granules_of({sector}) <= held.written
            }
            if missed:
                handed, starts = channel.take(max(begin, bank.mshrs.room_at()), len(missed))
                begin = handed
                ready = held.fill = starts + machine.dram_latency
                bank.mshrs.left_at.append(ready)
                held.valid |= missed
                request.dram_wait, request.dram = starts - handed, machine.dram_latency
                self.totals["DRAM_READS"] += len(missed)
            else:
                ready = max(begin, held.fill)
                request.dram = ready - begin
        if request.kind != "load":
            if machine.write_back:
                held.written |= request.granules
            else:
                self.totals["DRAM_WRITES"] += len(asked)
                begin, _ = channel.take(begin, len(asked))
        self.totals["LLC_MISSES"] += len(missed)
        request.bank_wait = begin - now
        bank.tags.free = begin + 1
        self.at(ready, self.at_reply, request)

    def flits_back(self, request: Request) -> float:
        if request.kind != "load":
            return 1
        return self.machine.transfer_flits * len(self.machine.sectors_of(request.granules))

    def at_reply(self, now: float, request: Request) -> None:
        port = self.banks[request.line % self.machine.banks].out_port
        request.noc_wait += port.take(now, self.flits_back(request) * self.machine.bank_flit) - now
        self.at(port.free + self.machine.hop, self.at_sm, request)

    def at_sm(self, now: float, request: Request) -> None:
        port = request.sm.inward
        request.noc_wait += port.take(now, self.flits_back(request) * self.machine.sm_flit) - now
        self.at(port.free, self.filled, request)


def simulate(rows: Sequence[StaticInstruction], blocks: Sequence[Block], machine: Machine) -> Counter[str]:
    """Totals of a launch."""
    return Simulation(rows, blocks, machine).run()

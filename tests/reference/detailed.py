"""The detailed simulator cycle by cycle, every warp looked at in every cycle, with lists and dictionaries.

Order of work in a cycle: replies and requests that are due, thread blocks to
SMs, then SM by SM (another one first in each cycle) the L1, the load-store unit,
the schedulers, barriers and exits.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence

from warplens.traces import StaticInstruction

from .cache import l1_set
from .detailed_parts import (
    GRANULES,
    NEARNESS,
    UNKNOWN,
    Access,
    Bank,
    BlockOnSm,
    Channel,
    InPipe,
    Line,
    Machine,
    Mshr,
    Request,
    Sm,
    Warp,
    instruction,
    used,
)
from .traces import Block


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
        self.accesses: list[Access] = []
        self.totals: Counter[str] = Counter()
        #: By (instruction, name of the cache simulation's counter).
        self.counters: Counter[tuple[int, str]] = Counter()

    def run(self, longest: int = 200_000) -> Counter[str]:
        blocks = len(self.to_do)
        for t in range(longest):
            while self.events and self.events[0][0] <= t:
                now, _, what, request = heapq.heappop(self.events)
                what(now, request)
            self.dispatch(t)
            first = t % len(self.sms)
            for sm in self.sms[first:] + self.sms[:first]:
                self.l1_stage(t, sm)
                self.lsu_stage(t, sm)
                before = self.totals["ISSUED"]
                for number in range(len(sm.schedulers)):
                    self.schedule(t, sm, number)
                self.barriers_and_exits(t, sm)
                self.totals[sm.waits_for(issued=self.totals["ISSUED"] > before)] += 1
            if self.totals["BLOCKS"] == blocks:
                self.totals["CYCLES"] = t + 1
                self.count_accesses()
                return self.totals
        raise AssertionError("no end")

    def count(self, access: Access, name: str, amount: float) -> None:
        self.counters[access.instruction.number, name] += amount

    def count_accesses(self) -> None:
        """What served each memory instruction, when all are back."""
        for access in self.accesses:
            kind, lines = access.instruction.kind, len(access.instruction.lines)
            if kind == "shared":
                continue
            self.count(access, "EXECUTED", 1)
            self.count(access, "LINES", lines)
            self.count(access, "DIVERGENT", lines > 1)
            self.count(access, f"WORST_{('L1', 'LLC', 'DRAM')[access.worst]}", 1)
            for worst, name, left in ((0, "COMING_L1", access.coming), (1, "COMING_LLC", access.llc_coming)):
                if access.worst == worst and left:
                    self.count(access, name, 1)
                    self.count(access, f"{name}_LEFT", left)

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
        may = [warp for warp in warps if not (warp.finished or warp.meets or warp.found_waiting)]
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
            served_and_next = 2
            if self.machine.collectors is not None and len(sm.lsu) - served_and_next >= self.machine.collectors:
                return sm.blocked or "L1"
            unit = self.machine.timings[following.row.instruction_class][0]
            return "UNIT" if sm.units.get(unit, 0.0) >= t + 1 else ""
        if following.kind != "barrier" and len(sm.lsu) == self.machine.lsu_queue + 1:  # one is being served
            return sm.blocked or "L1"
        return ""

    def schedule(self, t: int, sm: Sm, number: int) -> None:
        scheduler, width = sm.schedulers[number], self.machine.issue_width
        slots = max(int(width), 1)
        if scheduler.next_issue > t:
            self.totals["BASE"] += slots
            scheduler.cause = ""
            return
        nearest, ended, issued = "IDLE", False, 0
        for _ in range(slots):
            mine = [warp for warp in sm.warps() if warp.slot % len(sm.schedulers) == number]
            active = self.active_set(mine)
            can = []
            for warp in mine:
                if warp.finished:
                    cause = "MEMORY" if warp.in_flight else "IDLE"
                elif warp.meets:
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
                    nearest, ended = cause, warp.finished
            if not can:
                break
            warp = self.machine.choose(can, scheduler.last)
            self.issue(t, sm, warp)
            scheduler.last = warp.slot
            issued += 1
        if issued:
            scheduler.next_issue = t + max(round(1 / width), 1)
        scheduler.cause, scheduler.ended = nearest, ended
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
            warp.ready.update(dict.fromkeys(issued.written, t + latency + self.machine.operand_cycles))
        else:
            access = Access(warp, issued, t, deque(issued.lines), ready=t + 1)
            sm.lsu.append(access)
            self.accesses.append(access)
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
            head.warp.give(head.instruction, t + head.instruction.degree - 1 + self.machine.shared_to_use)
        elif not head.instruction.lines:
            if kind == "store":
                head.warp.in_flight -= 1
            else:
                head.give(t + self.machine.l1_latency)
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

    def l1_set(self, sm: Sm, line: int) -> dict[int, Line]:
        return sm.l1[l1_set(line, self.machine.l1_sets, self.machine.l1_hashed)] if self.machine.l1_sets else {}

    def full(self) -> bool:
        """Whether the network takes no more stores."""
        return self.writes_flying >= 4 * self.machine.noc_queue * self.machine.sms

    def must_write_back(self, line: Line | None) -> bool:
        return bool(line and line.written and self.machine.l1_write_back)

    def oldest(self, lines: dict[int, Line]) -> int | None:
        """The line that leaves a full set: the least recently used that does not wait for data."""
        return next((number for number, line in lines.items() if not line.reserved), None)

    def missing(self, line: Line | None, kind: str, granules: set[int]) -> set[int]:
        """Those of the sectors of `granules` that an L1 line does not hold. Loads need all of a sector."""
        sectors = self.machine.sectors_of(granules)
        if line is None:
            return sectors
        if kind == "store":
            return sectors - line.valid - self.machine.sectors_of(line.written)
        return {s for s in sectors - line.valid if not self.machine.granules_of({s}) <= line.written}

    def l1_load(self, t: int, sm: Sm, entry: InPipe) -> str:
        machine, line = self.machine, entry.line
        touched = machine.sectors_of(entry.granules)
        lines = self.l1_set(sm, line)
        missing = self.missing(lines.get(line), "load", entry.granules)
        if not missing:
            entry.access.left -= 1
            entry.access.ready = max(entry.access.ready, t)
            used(lines, line)
        elif line in sm.mshrs:
            mshr = sm.mshrs[line]
            if not missing <= mshr.sectors or len(mshr.waiting) == machine.merges:
                return "MSHR"
            mshr.waiting.append(entry.access)
            mshr.since.append(t)
            if line in lines:
                used(lines, line)
        else:
            if len(sm.mshrs) == machine.mshrs:
                return "MSHR"
            if sm.injection.room_at() > t:
                return "NOC"
            if machine.l1_sets and machine.streaming and machine.l1_write_back and self.full():
                return "NOC"  # a line that leaves when the data come must find a place in the network
            if machine.l1_sets and not machine.streaming:
                if line not in lines and len(lines) == machine.l1_ways:
                    victim = self.oldest(lines)
                    if victim is None:
                        return "MSHR"
                    if self.must_write_back(lines[victim]) and self.full():
                        return "NOC"
                    self.write_back(t, sm, victim, lines.pop(victim), entry.access)
                lines.setdefault(line, Line()).reserved = True
                used(lines, line)
            sm.mshrs[line] = Mshr(missing, [entry.access], [t])
            entry.access.worst = max(entry.access.worst, 1)
            self.count(entry.access, "L1_HITS", -len(missing))
            self.totals["L1_MISSES"] += len(missing)
            self.totals["MISS_MSHR"] += t - entry.at
            self.inject(t, Request(sm, line, machine.granules_of(missing), "load", entry.access), 1)
        self.totals["L1_ACCESSES"] += len(touched)
        self.count(entry.access, "REQUESTS", len(touched))
        self.count(entry.access, "L1_HITS", len(touched))
        return ""

    def l1_write(self, t: int, sm: Sm, entry: InPipe, kind: str) -> str:
        machine, line = self.machine, entry.line
        touched = machine.sectors_of(entry.granules)
        lines = self.l1_set(sm, line)
        missing = touched if kind == "atomic" else self.missing(lines.get(line), "store", entry.granules)
        enters = kind == "store" and machine.l1_allocate and bool(machine.l1_sets)
        victim = None
        if enters and line not in lines and len(lines) == machine.l1_ways:
            victim = self.oldest(lines)
            if victim is None:
                return "MSHR"
        kept = touched if enters else touched - missing
        going = touched - kept if machine.l1_write_back else touched
        evicts = victim is not None and self.must_write_back(lines[victim])
        if (going or evicts) and (sm.injection.room_at() > t or self.full()):
            return "NOC"
        self.totals["L1_ACCESSES"] += len(touched)
        self.totals["L1_MISSES"] += len(missing)
        self.count(entry.access, "REQUESTS", len(touched))
        self.count(entry.access, "L1_HITS", len(touched) - len(missing))
        if victim is not None:
            self.write_back(t, sm, victim, lines.pop(victim), entry.access)
        if enters:
            lines.setdefault(line, Line())
        if line in lines and kind == "store":
            used(lines, line)
            if machine.l1_write_back or machine.l1_allocate:
                lines[line].written |= entry.granules & machine.granules_of(kept)
        elif line in lines:
            self.write_back(t, sm, line, lines[line], entry.access)
            if not lines[line].reserved:
                del lines[line]
        if going:
            sent = entry.granules & machine.granules_of(going)
            entry.access.worst = max(entry.access.worst, 1)
            sm.atomics += kind == "atomic"
            self.send_write(t, Request(sm, line, sent, kind, entry.access))
        return ""

    def write_back(self, now: float, sm: Sm, number: int, line: Line, access: Access) -> None:
        """What the L1 has written of a line goes to the LLC, on account of the access that makes it."""
        if self.must_write_back(line):
            self.send_write(now, Request(sm, number, line.written, "store", access, dirty=True))
        line.written = set()

    def send_write(self, now: float, request: Request) -> None:
        self.writes_flying += 1
        request.access.warp.in_flight += request.kind == "store"
        most = self.machine.line_bytes // 32
        pieces = {granule * most // GRANULES for granule in request.granules}
        self.inject(now, request, min(len(pieces) + 1, max(most, 2)))

    def filled(self, now: float, request: Request) -> None:
        sm = request.sm
        self.totals["RETURNED"] += 1
        if request.kind != "load":
            self.writes_flying -= 1
            if request.kind == "atomic":
                sm.atomics -= 1
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
                oldest = next(iter(lines))
                self.write_back(now, sm, oldest, lines.pop(oldest), mshr.waiting[0])
            line = lines.setdefault(request.line, Line())
            line.valid |= mshr.sectors
            line.reserved = False
        for access, since in zip(mshr.waiting, mshr.since, strict=True):
            if access is not request.access:
                access.coming = max(access.coming, (now - since) / (now - request.issued))
            access.part_back(now)

    # -- network, LLC and DRAM --------------------------------------------------

    def inject(self, t: float, request: Request, flits: int) -> None:
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
        stays_out = request.kind == "store" and not machine.allocate
        if line not in lines and not stays_out:
            if len(lines) == machine.llc_ways:
                dirty = machine.sectors_of(lines.pop(next(iter(lines))).written)
                if dirty and machine.write_back:
                    self.totals["DRAM_WRITES"] += len(dirty)
                    self.count(request.access, "DRAM_WRITES", len(dirty))
                    begin, _ = channel.take(begin, len(dirty))
            lines[line] = Line(fill=begin)
        ready = begin
        missed = to_dram = asked
        if line in lines:
            used(lines, line)
            held = lines[line]
            missed = asked - held.valid - machine.sectors_of(held.written)
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
                    self.count(request.access, "DRAM_READS", len(missed))
                    held.span = ready - now
                    request.access.worst = 2
                else:
                    ready = max(begin, held.fill)
                    request.dram = ready - begin
                    if request.dram:
                        request.access.llc_coming = max(request.access.llc_coming, request.dram / held.span)
            if request.kind != "load":
                kept = asked - missed if stays_out else asked
                held.written |= request.granules & machine.granules_of(kept)
                if machine.write_back:
                    to_dram = asked - kept
        if request.kind != "load" and to_dram:
            self.totals["DRAM_WRITES"] += len(to_dram)
            self.count(request.access, "DRAM_WRITES", len(to_dram))
            begin, _ = channel.take(begin, len(to_dram))
        self.totals["LLC_MISSES"] += len(missed)
        what = "WRITEBACK" if request.dirty else "LLC"
        self.count(request.access, f"{what}_MISSES", len(missed))
        self.count(request.access, f"{what}_HITS", len(asked) - len(missed))
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

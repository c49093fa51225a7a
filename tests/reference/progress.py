"""Caches in the order of an estimate of when warps reach memory: one object per warp, SM and bank."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warplens.machine import Gpu

from .cache import Geometry, Launch, Memory, spread
from .coalescer import Event


@dataclass(frozen=True)
class Timing:
    """Cycles, and how many misses of an SM may be outstanding."""

    issue_interval: float
    l1_latency: float
    llc_latency: float
    dram_latency: float
    noc_service: float
    sm_service: float
    dram_service: float
    outstanding: int
    queue: int
    greedy: bool
    collects: bool
    hashed: bool
    streaming: bool
    merge_lines: int
    noc_store_service: float
    sm_store_service: float
    noc_request: float
    sm_request: float
    lookup: float
    reply: float
    banked: bool

    @classmethod
    def of(cls, gpu: Gpu) -> Timing:
        """Of a machine. What it does not give takes no time or limits nothing."""
        noc = gpu.service_cycles_now("noc", "the oracle") if gpu.noc.bandwidth_bytes_per_s else 0.0
        block = gpu.l1.sector_bytes or gpu.l1.line_bytes
        port = gpu.noc.sm_bandwidth_bytes_per_s if noc else None
        sm = gpu.clock_hz * block / port if port else noc * gpu.sms
        writes = gpu.noc.write_bandwidth_bytes_per_s
        write_port = gpu.noc.sm_write_bandwidth_bytes_per_s if noc else None
        limit = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
        return cls(
            issue_interval=1.0 / (gpu.schedulers * gpu.issue_width),
            l1_latency=gpu.l1.latency_cycles or 0.0,
            llc_latency=gpu.llc.latency_cycles or 0.0,
            dram_latency=gpu.dram_latency_cycles_now("the oracle"),
            noc_service=noc,
            sm_service=sm,
            dram_service=gpu.service_cycles_now("dram", "the oracle"),
            outstanding=limit or 1_000_000,
            queue=gpu.l1.queue_entries or 8,
            greedy=gpu.scheduler in ("gto", "oldest"),
            collects=bool(gpu.operand_collectors) and gpu.operand_collectors <= (gpu.l1.queue_entries or 8),
            hashed=bool(gpu.llc.hashed),
            streaming=bool(gpu.l1.streaming),
            merge_lines=0 if gpu.l1.write_policy == "back" else gpu.l1.merge_lines or 0,
            noc_store_service=gpu.clock_hz * block / writes if noc and writes else noc,
            sm_store_service=gpu.clock_hz * block / write_port if write_port else sm,
            noc_request=gpu.noc.request_cycles or 0.0,
            sm_request=gpu.noc.sm_request_cycles or 0.0,
            lookup=1.0 / (gpu.l1.lines_per_cycle or 1.0),
            reply=gpu.l1.reply_cycles or 0.0,
            banked=bool(gpu.l1.banked),
        )


class _Warp:
    """A warp on its way through its events."""

    def __init__(self, number: int, block: _Block, events: Sequence[Event]) -> None:
        self.number = number
        self.block = block
        self.events = events
        self.next = 0
        self.queued = 0  # accesses in the queue of its SM
        self.since = 0.0  # when it went on after the event before
        self.done: dict[int, float] = {}  # when the data of each event that was served is there
        self.latest = 0.0  # when that of all loads so far is
        self.at_barrier = False
        self.waits = False  # for an access in the queue
        self.runs = 0  # of other instructions that wait for a collector

    def reach(self, now: float) -> float | None:
        """When the next event is reached, or the end: computation first, and data that is needed on the way.

        None while these data, or at the end any, are those of an access in the queue.
        """
        if self.next == len(self.events):
            if self.queued:
                return None
            return max(now, self.done[self.next - 1]) if self.events else now
        event = self.events[self.next]
        reached = self.since + event.gap
        if event.dependence >= 0:
            if event.dependence not in self.done:
                return None
            reached = max(reached, self.done[event.dependence] + event.tail)
        return max(now, reached)


class _Block:
    def __init__(self) -> None:
        self.sm: _Sm | None = None
        self.warps: list[_Warp] = []
        self.alive = 0

    @property
    def stopped(self) -> list[_Warp]:
        return [warp for warp in self.warps if warp.at_barrier]


class _Sm:
    def __init__(self, number: int, outstanding: int) -> None:
        self.number = number
        self.queue: list[tuple[_Warp, int]] = []  # warps with the events to serve, in order
        self.outside: list[_Warp] = []  # the queue was full
        self.last_in = -1
        self.free = 0.0
        self.in_free = self.out_free = 0.0  # its port, for data that come and that go
        self.in_flight = [0.0] * outstanding  # a ring: when each is back
        self.coming: dict[int, tuple[int, float, float]] = {}
        self.flown = 0
        self.stores: list[_Stored] = []


class _Stored:
    """Stores to a line that wait in an SM until the network takes them."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.sectors: set[int] = set()
        self.until = 0.0


class _Bank:
    """Ports and DRAM channel of an LLC bank."""

    def __init__(self) -> None:
        self.in_free = self.out_free = self.channel_free = 0.0


class Progress:
    """Memory instructions in the order of an estimate of when warps reach them.

    A warp that reaches an event enters its SM's memory queue, or waits outside
    while that is full. Once in, it goes on until it needs data. The SM serves the
    queue in order; a service takes the issue slots of the instructions since the
    warp's last event, a cycle per line, and the wait for a free MSHR. All happens
    in whole cycles; SMs take turns at being the first in one.
    """

    def __init__(self, memory: Memory, timing: Timing, blocks_per_sm: int) -> None:
        self.memory = memory
        self.timing = timing
        self.blocks_per_sm = blocks_per_sm
        self.arrivals: dict[int, Counter[str]] = memory.arrivals

    def run(self, launch: Launch) -> float:
        """Returns the estimated cycles."""
        self.sms = [_Sm(number, self.timing.outstanding) for number in range(self.memory.geometry.sms)]
        self.banks = [_Bank() for _ in range(self.memory.geometry.banks)]
        self.even = _Bank()  # has its share of what all do
        self.coming: dict[int, tuple[int, float, float]] = {}
        #: By neighbourhood of SMs and place: line, sectors, SM, until when under way, whether another joined.
        self.asked: dict[int, dict[int, tuple[int, set[int], _Sm | None, float, bool]]] = {}
        #: (cycle, rank, what): warps by number, and after them SMs from another one in every cycle.
        self.agenda: list[tuple[int, int, _Warp | _Sm]] = []
        self.warps: list[_Warp] = []
        self.waiting: list[_Block] = []
        for warps in launch:
            block = _Block()
            for events in warps:
                block.warps.append(_Warp(len(self.warps), block, events))
                self.warps.append(block.warps[-1])
            block.alive = len(block.warps)
            self.waiting.append(block)
        now = 0.0
        for _ in range(self.blocks_per_sm):
            for sm in self.sms:
                self._enter(sm, now)
        while self.agenda:
            cycle, _, what = heapq.heappop(self.agenda)
            now = float(cycle)
            block = self._arrive(what, now) if isinstance(what, _Warp) else self._serve(what, now)
            stopped = block.stopped
            if stopped and len(stopped) == block.alive:
                for warp in stopped:
                    warp.at_barrier = False
                    self._start(warp, now)
        return now

    def _start(self, warp: _Warp, now: float) -> None:
        warp.since = now
        self._send(warp, now)

    def _send(self, warp: _Warp, now: float) -> None:
        when = warp.reach(now)
        warp.waits = when is None
        if when is not None:
            heapq.heappush(self.agenda, (math.ceil(when), warp.number, warp))

    def _plan(self, sm: _Sm, when: float) -> None:
        cycle = math.ceil(when)
        heapq.heappush(self.agenda, (cycle, len(self.warps) + (sm.number - cycle) % len(self.sms), sm))

    def _enter(self, sm: _Sm, now: float) -> None:
        if self.waiting:
            block = self.waiting.pop(0)
            block.sm = sm
            for warp in block.warps:
                self._start(warp, now)

    def _arrive(self, warp: _Warp, now: float) -> _Block:
        sm = warp.block.sm
        assert sm is not None
        if warp.next == len(warp.events):
            warp.block.alive -= 1
            if not warp.block.alive:
                self._enter(sm, now)
        elif warp.events[warp.next].kind == "barrier":
            sm.free = max(now, sm.free) + warp.events[warp.next].instructions * self.timing.issue_interval
            warp.done[warp.next] = now
            warp.next += 1
            warp.at_barrier = True
        elif len(sm.queue) < self.timing.queue:
            self._line_up(sm, warp, now)
            self._send(warp, now)
            if len(sm.queue) == 1:
                self._plan(sm, max(now, sm.free))
        else:
            sm.outside.append(warp)
            warp.runs = warp.events[warp.next].runs if self.timing.collects else 0
        return warp.block

    def _line_up(self, sm: _Sm, warp: _Warp, now: float) -> None:
        sm.queue.append((warp, warp.next))
        sm.last_in = warp.number
        warp.next += 1
        warp.queued += 1
        warp.since = now

    def _next_in(self, sm: _Sm) -> _Warp:
        """Of those with the fewest runs, greedy: the one that entered last, again, else the oldest. Else in turn."""
        fewest = min(warp.runs for warp in sm.outside)
        numbers = [warp.number for warp in sm.outside if warp.runs == fewest]
        for warp in sm.outside:
            warp.runs = max(warp.runs - 1, 0)
        if self.timing.greedy:
            chosen = sm.last_in if sm.last_in in numbers else min(numbers)
        else:
            chosen = min((n for n in numbers if n > sm.last_in), default=min(numbers))
        return next(warp for warp in sm.outside if warp.number == chosen)

    def _serve(self, sm: _Sm, now: float) -> _Block:
        warp, number = sm.queue.pop(0)
        warp.queued -= 1
        enters = None
        if sm.outside:
            enters = self._next_in(sm)
            sm.outside.remove(enters)
            self._line_up(sm, enters, now)
        event = warp.events[number]
        there, accepts = self._lines(sm, now, event)
        there = max(there, now + self.timing.l1_latency)
        if event.kind == "load":
            there = max(there, warp.latest)
            warp.latest = there
        warp.done[number] = there
        sm.free = max(accepts, now + event.instructions * self.timing.issue_interval)
        if sm.queue:
            self._plan(sm, sm.free)
        if enters:
            self._send(enters, now)
        if warp.waits:
            self._send(warp, now)
        return warp.block

    def _lines(self, sm: _Sm, now: float, event: Event) -> tuple[float, float]:
        """(when all data are there, when the L1 goes on); counts what is left of a wait for data on their way.

        Lines on their way have places, of an SM and of the LLC, in which one may push out another.
        """
        there, start, left = now, now, {"L1": 0.0, "LLC": 0.0}
        all_moved = []
        for number in event.lines:
            start += self._wait_for_room(sm, start + self.timing.l1_latency, event.kind, number)
            waiting = self._waiting(sm, start, event, number)
            moved = self.memory.access(sm.number, event, number, frozenset(waiting.sectors if waiting else ()))
            all_moved.append(moved)
            if moved.written_back:  # before its own; nobody waits for them
                self._requests(
                    sm, now, start, moved.leaver, moved.written_back, 0, moved.stored_back, waits=False, row=event.row
                )
            back = now
            if moved.left:
                merges = event.kind == "store" and self.timing.merge_lines
                if merges and waiting is None:
                    waiting = _Stored(number)
                    sm.stores.append(waiting)
                    if len(sm.stores) > self.timing.merge_lines:
                        start = max(start, sm.stores.pop(0).until)
                back, start = self._requests(
                    sm,
                    now,
                    start,
                    number,
                    moved.left,
                    moved.read,
                    moved.stored,
                    waits=event.kind != "store",
                    row=event.row,
                )
                if merges and waiting:
                    waiting.sectors |= {self.memory.sector(granule) for granule in event.lines[number]}
                    waiting.until = back - self.timing.llc_latency
            if event.kind == "load" and moved.left:
                self._count_shared(sm, now, back, event, number, moved.left)
            if event.kind == "load":
                level = "DRAM" if moved.read else "LLC" if moved.left else "L1"
                where = {"L1": (sm.coming, 1 << 10), "LLC": (self.coming, 1 << 16)}
                if level in where:
                    coming, places = where[level]
                    line, time, span = coming.get(number % places, (-1, 0.0, 1.0))
                    if line == number and time > now:
                        left[level] = max(left[level], (time - now) / span)
                        back = max(back, time)
                else:
                    self.coming[number % (1 << 16)] = number, back, back - now
                if moved.left:
                    sm.coming[number % (1 << 10)] = number, back, back - now
            there = max(there, back)
        self.memory.executed(event, all_moved)
        if event.kind == "load":
            levels = ["DRAM" if each.missed else "LLC" if each.left else "L1" for each in all_moved]
            worst = max(levels, key=("L1", "LLC", "DRAM").index, default="L1")
            if left.get(worst, 0.0) > 0.0:
                found = self.arrivals.setdefault(event.row, Counter())
                found[worst] += 1
                found[f"{worst} left"] += left[worst]
            elif worst == "LLC" and any(each.crossing for each in all_moved):
                self.arrivals.setdefault(event.row, Counter())["crossed"] += 1
        return there, max(start, now + self._port(event, sum(moved.left > 0 for moved in all_moved)))

    def _port(self, event: Event, missed: int) -> float:
        """Cycles of the L1 for an instruction: a store's lines one by one, a load's lookups, banks and replies."""
        if event.kind != "load":
            return float(len(event.lines))
        takes = len(event.lines) * self.timing.lookup
        if self.timing.banked:
            words = Counter(granule for granules in event.lines.values() for granule in granules)
            takes = max(takes, float(max(words.values(), default=0)))
        return takes + missed * self.timing.reply

    def _count_shared(self, sm: _Sm, now: float, back: float, event: Event, number: int, sectors: int) -> None:
        """Count sectors that an SM nearby has under way and that no third SM has joined."""
        nearby = self.asked.setdefault(sm.number // 2 % -(-len(self.sms) // 16), {})
        place = spread(number, 1 << 14)
        mine = {self.memory.sector(granule) for granule in event.lines[number]}
        line, theirs, owner, until, shared = nearby.get(place, (-1, set(), None, 0.0, False))
        if line == number and until > now and mine <= theirs and owner is not sm and not shared:
            self.arrivals.setdefault(event.row, Counter())["shared"] += sectors
            nearby[place] = line, theirs, owner, until, True
        else:
            nearby[place] = number, mine, sm, back, False

    def _waiting(self, sm: _Sm, now: float, event: Event, number: int) -> _Stored | None:
        """The stores to a line that wait in an SM."""
        if event.kind != "store":
            return None
        return next((each for each in sm.stores if each.line == number and each.until > now), None)

    def _wait_for_room(self, sm: _Sm, now: float, kind: str, number: int) -> float:
        """Cycles until a line can enter the L1; of a full set the one that is to leave comes first.

        Unless the L1 streams, only lines whose data are there can leave; if there are none, the first that comes.
        """
        geometry = self.memory.geometry
        enters = kind == "load" or (kind == "store" and geometry.l1_allocate)
        if self.timing.streaming or not geometry.l1_sets or not enters:
            return 0.0
        lines = self.memory.l1[sm.number].sets.get((0, geometry.l1_set(number)), {})
        if number in lines or len(lines) < geometry.l1_ways:
            return 0.0

        def there(line: int) -> float:
            known, time, _ = sm.coming.get(line % (1 << 10), (-1, 0.0, 1.0))
            return max(time, now) if known == line else now

        leaves = min(lines, key=there)  # of equal ones, the least recently used
        lines.move_to_end(leaves, last=False)
        return there(leaves) - now

    def _ahead(self, row: int, name: str, free: float, even_free: float, now: float, service: float) -> None:
        """Count services for which a server is busy, and the even one is not."""
        if service:
            self.arrivals.setdefault(row, Counter())[name] += (max(free, now) - max(even_free, now)) / service

    def _requests(
        self,
        sm: _Sm,
        now: float,
        start: float,
        number: int,
        count: int,
        reads: int,
        stored: int,
        *,
        waits: bool,
        row: int,
    ) -> tuple[float, float]:
        """(when the last of a line's requests is back, when the L1 goes on); the first of them wait for DRAM.

        The first of a load also takes what is left of the least time of a line.
        """
        timing, banks = self.timing, len(self.banks)
        bank, even = self.banks[spread(number, banks) if timing.hashed else number % banks], self.even
        back = start
        more = {"SM": max(timing.sm_request - count * timing.sm_service, 0.0)}
        more["all"] = max(timing.noc_request - count * timing.noc_service, 0.0)
        for request in range(count):
            if waits:
                slot = sm.flown % timing.outstanding
                start = max(start, sm.in_flight[slot])
                sent = max(start, sm.in_free)
                sm.in_free = sent + timing.sm_service + more["SM"]
                arrival = max(sent, bank.out_free) + timing.llc_latency
                self._ahead(row, "bank", bank.out_free, even.out_free, now, timing.noc_service * banks)
                bank.out_free = max(now, bank.out_free) + timing.noc_service * banks + more["all"] * banks
                even.out_free = max(now, even.out_free) + timing.noc_service + more["all"]
                more = dict.fromkeys(more, 0.0)
                if request < reads:
                    arrival = max(arrival, bank.channel_free + timing.llc_latency) + timing.dram_latency
                    self._ahead(
                        row, "channel", bank.channel_free, even.channel_free, now, timing.dram_service * banks
                    )
                    bank.channel_free = max(now, bank.channel_free) + timing.dram_service * banks
                    even.channel_free = max(now, even.channel_free) + timing.dram_service
                sm.in_flight[slot] = arrival
                sm.flown += 1
            else:
                sent = max(start, sm.out_free)
                sm.out_free = sent + timing.sm_store_service
                arrival = max(sent, bank.in_free) + timing.llc_latency
                bank.in_free = max(now, bank.in_free) + timing.noc_store_service * banks
            back = max(back, arrival)
        if stored:
            bank.channel_free = max(now, bank.channel_free) + stored * (timing.dram_service * banks)
            even.channel_free = max(now, even.channel_free) + stored * timing.dram_service
        return back, start


def simulate_progress(
    chunks: Sequence[Launch], geometry: Geometry, timing: Timing, blocks_per_sm: int
) -> tuple[Memory, float]:
    """(caches and counts, estimated cycles of all chunks one after the other)."""
    memory = Memory(geometry)
    return memory, sum(Progress(memory, timing, blocks_per_sm).run(launch) for launch in chunks)

"""Caches over interleaved warps: one dictionary per set, one object per warp, no cleverness.

An L1 per SM and an LLC in banks, both LRU. A request is a sector of a line, or
the line where there are no sectors.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from warplens.machine import Gpu

from .coalescer import Event

GRANULES = 32
#: Blocks of warps of events.
Launch = Sequence[Sequence[Sequence[Event]]]


@dataclass(frozen=True)
class Geometry:
    sms: int
    l1_sets: int
    l1_ways: int
    banks: int
    llc_sets: int
    llc_ways: int
    sectors: int = 1
    l1_write_back: bool = False
    l1_allocate: bool = False
    write_back: bool = True
    allocate: bool = True
    together: int = 1

    @classmethod
    def of(cls, gpu: Gpu) -> Geometry:
        """Sets from sizes. An LLC with fewer sets than banks has one bank."""
        line = gpu.l1.line_bytes
        llc_sets = (gpu.llc.size_bytes or 0) // (line * (gpu.llc.ways or 1))
        banks = gpu.llc.banks or 1
        if llc_sets < banks:
            banks = 1
        sectors = line // (gpu.l1.sector_bytes or line)
        return cls(
            gpu.sms,
            (gpu.l1.size_bytes or 0) // (line * (gpu.l1.ways or 1)),
            gpu.l1.ways or 1,
            banks,
            llc_sets // banks,
            gpu.llc.ways or 1,
            sectors,
            gpu.l1.write_policy == "back",
            gpu.l1.write_allocate is True,
            gpu.llc.write_policy != "through",
            gpu.llc.write_allocate is not False,
            min(max((gpu.llc.fetch_bytes or 0) * sectors // line, 1), sectors),
        )


@dataclass
class Line:
    """Sectors that were fetched, and granules that were written."""

    fetched: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


class Lru:
    """Sets of lines, the least recently used first."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.sets: dict[tuple[int, int], OrderedDict[int, Line]] = {}

    def find(self, place: tuple[int, int], number: int) -> Line | None:
        return self.sets.get(place, {}).get(number)

    def use(self, place: tuple[int, int], number: int) -> tuple[Line, tuple[int, Line] | None]:
        """(the line, now the most recent of its set; what had to leave for it, with its number)."""
        here = self.sets.setdefault(place, OrderedDict())
        gone = None
        if number not in here:
            if len(here) == self.ways:
                gone = here.popitem(last=False)
            here[number] = Line()
        here.move_to_end(number)
        return here[number], gone

    def drop(self, place: tuple[int, int], number: int) -> Line:
        return self.sets[place].pop(number)

    def lines(self) -> list[Line]:
        return [line for lines in self.sets.values() for line in lines.values()]


class Memory:
    """The caches, and counts per static instruction."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.l1 = [Lru(geometry.l1_ways) for _ in range(geometry.sms)]
        self.llc = Lru(geometry.llc_ways)
        self.counts: dict[int, Counter[str]] = {}
        #: Level that served each line of the last instruction: L1, LLC or DRAM.
        self.served: dict[int, str] = {}
        #: Of loads whose data were on their way: how many, and the part of the wait that was left, by level.
        self.arrivals: dict[int, Counter[str]] = {}

    def sector(self, granule: int) -> int:
        return granule * self.geometry.sectors // GRANULES

    def granules(self, sector: int) -> set[int]:
        return {granule for granule in range(GRANULES) if self.sector(granule) == sector}

    def execute(self, sm: int, event: Event) -> tuple[int, int]:
        """All lines of one memory instruction; (requests that left the SM, that missed the LLC)."""
        count = self.counts.setdefault(event.row, Counter())
        left = missed = 0
        self.served = dict.fromkeys(event.lines, "L1")
        for number, granules in event.lines.items():
            touched = {self.sector(granule) for granule in granules}
            missing, asked, leaver = self._through_l1(sm, event.kind, number, granules, touched)
            count["REQUESTS"] += len(touched)
            count["L1_HITS"] += len(touched) - len(missing)
            if leaver is not None and self.geometry.l1_write_back:
                self._write_back(*leaver, count)
            if asked:
                sent = {granule for granule in granules if self.sector(granule) in asked}
                lost = self._through_llc(event.kind, number, sent, asked, count)
                left += len(asked)
                missed += len(lost)
                self.served[number] = "DRAM" if lost else "LLC"
        count["EXECUTED"] += 1
        count["LINES"] += len(event.lines)
        count["DIVERGENT"] += len(event.lines) > 1
        count["LLC_HITS"] += left - missed
        count["LLC_MISSES"] += missed
        count["WORST_DRAM" if missed else "WORST_LLC" if left else "WORST_L1"] += 1
        return left, missed

    def _through_l1(
        self, sm: int, kind: str, number: int, granules: set[int], touched: set[int]
    ) -> tuple[set[int], set[int], tuple[int, Line] | None]:
        """(Sectors that are not in the L1, those that are asked of the LLC, the line that leaves)."""
        geometry, cache = self.geometry, self.l1[sm]
        if not geometry.l1_sets:
            return touched, touched, None
        place = (0, number % geometry.l1_sets)
        there = cache.find(place, number) is not None
        if kind == "atomic":
            return touched, touched, (number, cache.drop(place, number)) if there else None
        if kind == "store" and not there and not geometry.l1_allocate:
            return touched, touched, None
        line, gone = cache.use(place, number)
        missing = {sector for sector in touched if not self._holds(line, kind, sector, granules)}
        if kind == "load":
            line.fetched |= missing
            return missing, missing, gone
        kept = touched if geometry.l1_allocate else touched - missing
        line.written |= {granule for granule in granules if self.sector(granule) in kept}
        return missing, touched - kept if geometry.l1_write_back else touched, gone

    def _write_back(self, number: int, line: Line, count: Counter[str]) -> None:
        """What an L1 has written of a line goes to the LLC like a store, on account of who made it leave."""
        sectors = {self.sector(granule) for granule in line.written}
        if sectors:
            lost = self._through_llc("store", number, line.written, sectors, count)
            count["WRITEBACK_MISSES"] += len(lost)
            count["WRITEBACK_HITS"] += len(sectors) - len(lost)

    def _through_llc(
        self, kind: str, number: int, granules: set[int], asked: set[int], count: Counter[str]
    ) -> set[int]:
        """Sectors that are not in the LLC."""
        geometry = self.geometry
        if not geometry.llc_sets:
            count["DRAM_READS"] += len(asked) if kind != "store" else 0
            count["DRAM_WRITES"] += len(asked) if kind != "load" else 0
            return asked
        bank, within = number % geometry.banks, number // geometry.banks
        place = (bank, within % geometry.llc_sets)
        stays_out = kind == "store" and not geometry.allocate
        if stays_out and self.llc.find(place, number) is None:
            count["DRAM_WRITES"] += len(asked)
            return asked
        line, gone = self.llc.use(place, number)
        if gone is not None and geometry.write_back:
            count["DRAM_WRITES"] += self.dirty(gone[1])
        lost = {sector for sector in asked if not self._holds(line, kind, sector, granules)}
        if kind != "store":
            near = {sector // geometry.together for sector in lost}
            neighbours = {sector for sector in range(geometry.sectors) if sector // geometry.together in near}
            fetched = {sector for sector in neighbours if not self._holds(line, "load", sector, granules)}
            count["DRAM_READS"] += len(fetched)
            line.fetched |= fetched
        if kind != "load":
            kept = asked - lost if stays_out else asked
            line.written |= {granule for granule in granules if self.sector(granule) in kept}
            count["DRAM_WRITES"] += len(asked - kept if geometry.write_back else asked)
        return lost

    def _holds(self, line: Line, kind: str, sector: int, granules: set[int]) -> bool:
        """Whether a cache has what an access needs of a sector; a load needs all of it, a store any part."""
        here = self.granules(sector)
        if sector in line.fetched:
            return True
        if kind == "load":
            return here <= line.written
        if kind == "atomic":
            return (here & granules) <= line.written
        return bool(here & line.written)

    def dirty(self, line: Line) -> int:
        """Sectors that were written."""
        return len({self.sector(granule) for granule in line.written})

    @property
    def dirty_left(self) -> int:
        return sum(map(self.dirty, self.llc.lines())) if self.geometry.write_back else 0

    @property
    def l1_dirty_left(self) -> int:
        if not self.geometry.l1_write_back:
            return 0
        return sum(self.dirty(line) for cache in self.l1 for line in cache.lines())


# -- order without timing --------------------------------------------------------------------


def in_rounds(launch: Launch, sms: int, blocks_per_sm: int, window: int) -> Iterator[tuple[int, Event]]:
    """(SM, memory instruction) in the order in which warps take turns; barriers do not count.

    SMs take turns. On each, the `window` oldest warps (0: all) do: one memory
    instruction each. A warp whose turn comes and that has none left goes away;
    with the last one of its block a new block enters.
    """
    waiting = list(range(len(launch)))
    here: list[list[tuple[int, list[Event]]]] = [[] for _ in range(sms)]
    unfinished = [len(block) for block in launch]
    turn = [0] * sms

    def enter(sm: int) -> None:
        if waiting:
            block = waiting.pop(0)
            for warp in launch[block]:
                here[sm].append((block, [event for event in warp if event.kind != "barrier"]))

    for _ in range(blocks_per_sm):
        for sm in range(sms):
            enter(sm)
    while any(here):
        for sm in range(sms):
            while here[sm]:
                if turn[sm] >= min(window or len(here[sm]), len(here[sm])):
                    turn[sm] = 0
                block, events = here[sm][turn[sm]]
                if events:
                    yield sm, events.pop(0)
                    turn[sm] += 1
                    break
                here[sm].pop(turn[sm])
                unfinished[block] -= 1
                if not unfinished[block]:
                    enter(sm)


def simulate_rounds(chunks: Sequence[Launch], geometry: Geometry, blocks_per_sm: int, window: int = 0) -> Memory:
    memory = Memory(geometry)
    for launch in chunks:
        for sm, event in in_rounds(launch, geometry.sms, blocks_per_sm, window):
            memory.execute(sm, event)
    return memory


# -- order by estimated progress ----------------------------------------------------------------


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

    @classmethod
    def of(cls, gpu: Gpu) -> Timing:
        """Of a machine. What it does not give takes no time or limits nothing."""
        noc = gpu.service_cycles_now("noc", "the oracle") if gpu.noc.bandwidth_bytes_per_s else 0.0
        block = gpu.l1.sector_bytes or gpu.l1.line_bytes
        port = gpu.noc.sm_bandwidth_bytes_per_s if noc else None
        limit = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
        return cls(
            issue_interval=1.0 / (gpu.schedulers * gpu.issue_width),
            l1_latency=gpu.l1.latency_cycles or 0.0,
            llc_latency=gpu.llc.latency_cycles or 0.0,
            dram_latency=gpu.dram_latency_cycles_now("the oracle"),
            noc_service=noc,
            sm_service=gpu.clock_hz * block / port if port else noc * gpu.sms,
            dram_service=gpu.service_cycles_now("dram", "the oracle"),
            outstanding=limit or 1_000_000,
            queue=gpu.l1.queue_entries or 8,
            greedy=gpu.scheduler in ("gto", "oldest"),
        )


class _Warp:
    """A warp on its way through its events."""

    def __init__(self, number: int, block: _Block, events: Sequence[Event]) -> None:
        self.number = number
        self.block = block
        self.events = events
        self.next = 0
        self.done: list[float] = []  # when the data of each event so far is there
        self.latest = 0.0  # when that of all loads so far is
        self.at_barrier = False

    def reach(self, now: float) -> float:
        """When the next event is reached, or the end: computation first, and data that is needed on the way."""
        if self.next == len(self.events):
            return max(now, self.done[-1]) if self.done else now
        event = self.events[self.next]
        reached = now + event.gap
        if event.dependence >= 0:
            reached = max(reached, self.done[event.dependence] + event.tail)
        return reached


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
        self.queue: list[_Warp] = []  # served in order
        self.outside: list[_Warp] = []  # the queue was full
        self.last_in = -1
        self.free = 0.0
        self.link_free = 0.0
        self.in_flight = [0.0] * outstanding  # a ring: when each is back
        self.coming: dict[int, tuple[int, float, float]] = {}
        self.flown = 0


class Progress:
    """Memory instructions in the order of an estimate of when warps reach them.

    A warp that reaches an event enters its SM's memory queue, or waits outside
    while that is full. The SM serves the queue in order; a service takes the
    issue slots of the instructions since the warp's last event, a cycle per
    line, and the wait for a free MSHR.
    """

    def __init__(self, memory: Memory, timing: Timing, blocks_per_sm: int) -> None:
        self.memory = memory
        self.timing = timing
        self.blocks_per_sm = blocks_per_sm
        self.arrivals: dict[int, Counter[str]] = memory.arrivals

    def run(self, launch: Launch) -> float:
        """Returns the estimated cycles."""
        self.sms = [_Sm(number, self.timing.outstanding) for number in range(self.memory.geometry.sms)]
        self.noc_free = self.dram_free = 0.0
        self.coming: dict[int, tuple[int, float, float]] = {}
        #: (time, number): a warp's number, or after all of those an SM's.
        self.agenda: list[tuple[float, int]] = []
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
            now, number = heapq.heappop(self.agenda)
            if number < len(self.warps):
                block = self._arrive(self.warps[number], now)
            else:
                block = self._serve(self.sms[number - len(self.warps)], now)
            stopped = block.stopped
            if stopped and len(stopped) == block.alive:
                for warp in stopped:
                    warp.at_barrier = False
                    self._send(warp, now)
        return now

    def _send(self, warp: _Warp, now: float) -> None:
        heapq.heappush(self.agenda, (warp.reach(now), warp.number))

    def _enter(self, sm: _Sm, now: float) -> None:
        if self.waiting:
            block = self.waiting.pop(0)
            block.sm = sm
            for warp in block.warps:
                self._send(warp, now)

    def _arrive(self, warp: _Warp, now: float) -> _Block:
        sm = warp.block.sm
        assert sm is not None
        if warp.next == len(warp.events):
            warp.block.alive -= 1
            if not warp.block.alive:
                self._enter(sm, now)
        elif len(sm.queue) < self.timing.queue:
            sm.queue.append(warp)
            sm.last_in = warp.number
            if len(sm.queue) == 1:
                heapq.heappush(self.agenda, (max(now, sm.free), len(self.warps) + sm.number))
        else:
            sm.outside.append(warp)
        return warp.block

    def _next_in(self, sm: _Sm) -> _Warp:
        """Greedy: the one that entered last, again, else the oldest. Else in turn."""
        numbers = [warp.number for warp in sm.outside]
        if self.timing.greedy:
            chosen = sm.last_in if sm.last_in in numbers else min(numbers)
        else:
            chosen = min((n for n in numbers if n > sm.last_in), default=min(numbers))
        return next(warp for warp in sm.outside if warp.number == chosen)

    def _serve(self, sm: _Sm, now: float) -> _Block:
        warp = sm.queue.pop(0)
        if sm.outside:
            enters = self._next_in(sm)
            sm.outside.remove(enters)
            sm.queue.append(enters)
            sm.last_in = enters.number
        event = warp.events[warp.next]
        warp.next += 1
        busy = event.instructions * self.timing.issue_interval
        if event.kind == "barrier":
            warp.done.append(now)
            warp.at_barrier = True
        else:
            count = self.memory.counts.setdefault(event.row, Counter())
            before = count["WRITEBACK_HITS"], count["WRITEBACK_MISSES"]
            left, missed = self.memory.execute(sm.number, event)
            hits, misses = count["WRITEBACK_HITS"] - before[0], count["WRITEBACK_MISSES"] - before[1]
            self._misses(sm, now, hits + misses, misses, store=True)  # before its own; nobody waits for them
            back, start = self._misses(sm, now, left, missed, store=event.kind == "store")
            done = max(back, now + self.timing.l1_latency)
            if event.kind == "load":
                done = max(done, self._arrival(sm, now, back, event), warp.latest)
                warp.latest = done
            warp.done.append(done)
            busy = max(busy, float(len(event.lines)), start - now)
            self._send(warp, now)
        sm.free = now + busy
        if sm.queue:
            heapq.heappush(self.agenda, (sm.free, len(self.warps) + sm.number))
        return warp.block

    def _arrival(self, sm: _Sm, now: float, back: float, event: Event) -> float:
        """When the last line is there that was on its way; counts the part of a wait that is left of it.

        Lines on their way have places, of an SM and of the LLC, in which one may push out another.
        """
        there, left = now, {"L1": 0.0, "LLC": 0.0}
        for number, level in self.memory.served.items():
            where = {"L1": (sm.coming, 1 << 10), "LLC": (self.coming, 1 << 16)}
            until = back
            for name, (coming, places) in where.items():
                line, time, span = coming.get(number % places, (-1, 0.0, 1.0))
                if level == name and line == number and time > now:
                    left[name] = max(left[name], (time - now) / span)
                    there = max(there, time)
                    until = max(back, there)
            if level != "L1":
                sm.coming[number % (1 << 10)] = number, until, until - now
            if level == "DRAM":
                self.coming[number % (1 << 16)] = number, back, back - now
        worst = max(self.memory.served.values(), key=("L1", "LLC", "DRAM").index, default="L1")
        if left.get(worst, 0.0) > 0.0:
            found = self.arrivals.setdefault(event.row, Counter())
            found[worst] += 1
            found[f"{worst} left"] += left[worst]
        return there

    def _misses(self, sm: _Sm, now: float, left: int, missed: int, *, store: bool) -> tuple[float, float]:
        """(when the last of them is back, when the L1 goes on). Those that miss the LLC go first."""
        timing = self.timing
        back = start = now
        for miss in range(left):
            slot = sm.flown % timing.outstanding
            if not store:
                start = max(start, sm.in_flight[slot])
            at_link = max(start, sm.link_free)
            sm.link_free = at_link + timing.sm_service
            arrival = max(at_link, self.noc_free) + timing.llc_latency
            self.noc_free = max(now, self.noc_free) + timing.noc_service
            if miss < missed:
                arrival = max(arrival, self.dram_free + timing.llc_latency) + timing.dram_latency
                self.dram_free = max(now, self.dram_free) + timing.dram_service
            if not store:
                sm.in_flight[slot] = arrival
                sm.flown += 1
            back = max(back, arrival)
        return back, start


def simulate_progress(
    chunks: Sequence[Launch], geometry: Geometry, timing: Timing, blocks_per_sm: int
) -> tuple[Memory, float]:
    """(caches and counts, estimated cycles of all chunks one after the other)."""
    memory = Memory(geometry)
    return memory, sum(Progress(memory, timing, blocks_per_sm).run(launch) for launch in chunks)

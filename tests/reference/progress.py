"""Caches in the order of an estimate of when warps reach memory: one object per warp and SM."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warplens.machine import Gpu

from .cache import Geometry, Launch, Memory
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

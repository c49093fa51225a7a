"""Small explicit simulations that check GPUMech's counts: warp scheduling, and loads that wait for MSHRs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

POLICIES = ("rr", "gto")


@dataclass(frozen=True)
class Interval:
    """Instructions that a warp can issue back to back, and the stall after them."""

    instructions: int
    stall_cycles: int


@dataclass(frozen=True)
class Issue:
    """One issued instruction; `instruction` counts from 0 within the interval."""

    cycle: int
    warp: int
    interval: int
    instruction: int


def issue_timeline(policy: str, intervals: Sequence[Interval], warps: int) -> tuple[Issue, ...]:
    """Every issue of `warps` equal warps on a core that issues one instruction a cycle.

    Round robin continues with the next ready warp. Greedy-then-oldest stays with a
    warp until it stalls, then takes the warp that has been ready longest. Warp 0 is
    the representative.
    """
    place = [(0, 0)] * warps  # interval and instruction to issue next
    ready = [0] * warps
    issued: list[Issue] = []
    last, cycle = -1, 0
    while any(interval < len(intervals) for interval, _ in place):
        waiting = [w for w in range(warps) if place[w][0] < len(intervals) and ready[w] <= cycle]
        if waiting:
            warp = _choose(policy, waiting, ready, last, warps)
            interval, instruction = place[warp]
            issued.append(Issue(cycle, warp, interval, instruction))
            stalls = instruction + 1 == intervals[interval].instructions
            place[warp] = (interval + 1, 0) if stalls else (interval, instruction + 1)
            ready[warp] = cycle + 1 + (intervals[interval].stall_cycles if stalls else 0)
            last = warp
        cycle += 1
    return tuple(issued)


def _choose(policy: str, waiting: list[int], ready: list[int], last: int, warps: int) -> int:
    if policy == "rr":
        return min(waiting, key=lambda warp: (warp - last - 1) % warps)
    if last in waiting:
        return last
    return min(waiting, key=lambda warp: (ready[warp], warp))


def stall_of(issued: Sequence[Issue], intervals: Sequence[Interval], number: int) -> range:
    """Cycles in which the representative warp stalls after interval `number`."""
    end = max(issue.cycle for issue in issued if issue.warp == 0 and issue.interval == number)
    return range(end + 1, end + 1 + intervals[number].stall_cycles)


def count_nonoverlapped(issued: Sequence[Issue], intervals: Sequence[Interval], number: int) -> int:
    """Instructions of other warps, issued during interval `number` of the representative one, that hide no stall."""
    own = [issue for issue in issued if issue.warp == 0]
    start = next(issue.cycle for issue in own if issue.interval == number)
    end = next(issue.cycle for issue in own if issue.interval == number + 1)
    hidden = stall_of(issued, intervals, number)
    return sum(issue.warp != 0 and start <= issue.cycle < end and issue.cycle not in hidden for issue in issued)


@dataclass(frozen=True)
class Miss:
    """One request in an MSHR; it waits from `asked` to `start`."""

    warp: int
    entry: int
    asked: int
    start: int
    end: int

    @property
    def wait_cycles(self) -> int:
        return self.start - self.asked


def mshr_timeline(asked: Sequence[int], requests: int, entries: int, latency: int) -> tuple[Miss, ...]:
    """Loads that each send `requests` misses at the cycles `asked`; a miss takes the first free entry."""
    free = [(0, entry) for entry in range(entries)]
    misses: list[Miss] = []
    for warp, cycle in sorted(enumerate(asked), key=lambda item: item[1]):
        for _ in range(requests):
            since, entry = heapq.heappop(free)
            start = max(cycle, since)
            misses.append(Miss(warp, entry, cycle, start, start + latency))
            heapq.heappush(free, (start + latency, entry))
    return tuple(misses)

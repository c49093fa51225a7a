"""What the plain network is made of: events, places, warps and thread blocks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from warplens.models._network_records import GUMBEL

NEVER = 1e300
PARTS = ("L1", "L2", "DRAM", "MSHR", "NOC", "QUEUE")
CAUSES = ("BASE", "DEP", *PARTS, "SYNC", "IDLE")


@dataclass
class Event:
    """What one warp asks for at a time (see `warplens.models._network_records`)."""

    kind: str
    level: str
    needs: int
    set: int
    clustered: bool
    steps: int
    issue: float
    gap: float
    tail: float
    port: float
    shared: float
    turn: float
    special: float
    misses: float
    places: float
    requests: float
    lookups: float
    flits_out: float
    flits_in: float
    dram_reads: float
    dram_writes: float
    weight: float
    left: float
    from_dram: float
    set_lines: float
    bank: float
    channel: float
    spread: float
    scatter: float
    units: list[float] = field(default_factory=list)
    #: Of a wait at an mbarrier: (warp of the block, event of that warp) that complete its phase.
    awaits: list[tuple[int, int]] = field(default_factory=list)
    #: Cycles that warps spent because of it.
    blame: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*CAUSES, "unit", "shared"), 0.0))

    @property
    def is_access(self) -> bool:
        return self.kind in ("load", "store", "atomic")


class Ring:
    """Places for so many, by the times until which they are taken."""

    def __init__(self, size: int, *, in_order: bool) -> None:
        self.until = [0.0] * max(size, 1)
        self.in_order = in_order

    def enter(self, count: int, first: float, last: float, clear: float, hold: float) -> tuple[float, float, int]:
        """(First, last) item of `count`, and how many places they take; fewer where it pays to wait for one's own.

        The servers are `clear` of what came before when the first places are left for `hold` cycles.
        """
        first = max(first, self.until[0])
        clear = max(clear, first)
        taken = min(count, len(self.until))
        if not self.in_order:
            while taken > 1 and self.until[taken - 1] > clear + (count - 1) // (taken - 1) * hold:
                taken -= 1
        rounds = (count - 1) // taken
        return first, max(last, self.until[taken - 1], clear + rounds * hold if rounds else first), taken

    def take(self, count: int, first: float, last: float) -> None:
        slope = (last - first) / max(count - 1, 1)
        self.until = self.until[count:] + [first + k * slope for k in range(count)]
        if not self.in_order:
            self.until.sort()


class Warp:
    def __init__(self, number: int) -> None:
        self.number = number
        self.ready = NEVER
        self.state = "data"
        self.events: list[Event] = []
        self.at = 0
        self.gap = self.since = self.back = 0.0
        self.left = 0
        self.age = 0
        self.done: list[float] = []
        self.parts: list[list[float]] = []
        self.source: list[Event] = []
        self.signalled: list[float] = []

    @property
    def event(self) -> Event:
        return self.events[self.at]


class Slot:
    """A place for a thread block."""

    def __init__(self, warps: list[Warp]) -> None:
        self.warps = warps
        self.alive = self.waiting = 0
        self.gathered = self.left_at = 0.0
        self.share = 1.0


def warps_of(stream: Any) -> list[list[Event]]:
    """The events of each warp of a compiled network's input."""
    kinds = {1: "load", 2: "store", 3: "atomic", 4: "barrier", 5: "end", 6: "signal", 7: "await"}
    levels = ("l1", "llc", "dram", "coming", "given")
    rows, starts = stream.awaited.tolist(), stream.await_start.tolist() or [0] * (len(stream.events) + 1)
    return [
        [
            Event(
                kinds[int(stream.events[e]["kind"])],
                levels[int(stream.events[e]["level"])],
                *stream.events[e].tolist()[2:],
                units=stream.units[e].tolist(),
                awaits=rows[starts[e] : starts[e + 1]],
            )
            for e in range(stream.event_start[w], stream.event_start[w + 1])
        ]
        for w in range(len(stream.event_start) - 1)
    ]


def least_latency(event: Any, machine: Any) -> float:
    """Cycles after which the result of an access is there at the earliest."""
    latencies = [event.left if event.level == "given" else machine["l1_latency"]]
    if machine["posted"] and event.kind == "store":
        return float(latencies[0] * event.weight)
    if event.level != "given" and event.misses > 0.0:
        latencies.append(machine["llc_latency"])
        if event.level == "dram" and event.dram_reads > 0.0 and event.kind != "store":
            latencies.append(machine["llc_latency"] + machine["dram_latency"])
    return float(max(max(latencies) * event.weight + 2.0 * event.scatter * GUMBEL[0], 0.0))


def least_of_blocks(stream: Any, machine: Any) -> list[float]:
    """Cycles of each sampled block, if no warp ever waits for another."""
    warps, found = warps_of(stream), []
    for first, end in itertools.pairwise(stream.block_start):
        ends = [0.0]
        for events in warps[first:end]:
            now, results = 0.0, [0.0]  # the first stands for all before the warp
            for event in events:
                now += event.gap
                if event.needs >= 0:
                    now = max(now, results[1 + event.needs] + event.tail)
                back = now + least_latency(event, machine) if event.is_access else now
                ends += [back, now + event.left if event.kind == "end" else 0.0]
                results.append(max(results[-1], now if event.kind == "store" else back))
        found.append(max(ends))
    return found


def having(block: int, full: int, places: int, blocks: float) -> float:
    """Part of the SMs that have a block of this number: those beyond full waves go to any place."""
    if block < full:
        return 1.0
    if full == 0:
        return min(max(blocks - block, 0.0), 1.0)
    taken = (blocks - full) / places
    more, exactly = 1.0, (1.0 - taken) ** places
    for k in range(block - full + 1):
        more -= exactly
        exactly *= (places - k) / (k + 1.0) * taken / (1.0 - taken)
    return max(more, 0.0)

"""Caches over interleaved warps: one dictionary per set, one object per warp, no cleverness.

An L1 per SM and an LLC in banks, both LRU. A request is a sector of a line, or
the line where there are no sectors.
"""

from __future__ import annotations

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
    l1_hashed: bool = False
    partitions: int = 1

    @classmethod
    def of(cls, gpu: Gpu) -> Geometry:
        """Sets from sizes. An LLC with fewer sets than banks has one bank."""
        line = gpu.l1.line_bytes
        partitions = gpu.llc.partitions or 1
        llc_sets = (gpu.llc.size_bytes or 0) // (line * (gpu.llc.ways or 1) * partitions)
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
            bool(gpu.l1.hashed),
            partitions,
        )

    def l1_set(self, number: int) -> int:
        return l1_set(number, self.l1_sets, self.l1_hashed)


def spread(number: int, places: int) -> int:
    """One of some places, by a hash of a line's number."""
    return ((number * 0x1E3779B97F4A7C15) % (1 << 63) >> 31) % places


def l1_set(number: int, sets: int, hashed: bool) -> int:
    """The number modulo the sets, or the sum of its digits to that base, each weighted by a power of one number."""
    if not hashed or sets == 1:
        return number % sets
    prime = next((p for p in range(sets - 1, 1, -1) if all(p % d for d in range(2, p))), 1)
    total, power = 0, 0
    while number:
        number, digit = divmod(number, sets)
        total += digit * (sets - prime) ** power
        power += 1
    return total % sets


@dataclass
class Line:
    """Sectors that were fetched, and granules that were written."""

    fetched: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


@dataclass
class Moved:
    """What one line makes of requests: that left the SM, that missed the LLC, and sectors that DRAM gives and gets.

    Those that another partition of the LLC was asked. And of a dirty line that leaves for it: its number, sectors
    written back to the LLC, and from there to DRAM.
    """

    left: int
    missed: int = 0
    read: int = 0
    stored: int = 0
    crossing: int = 0
    leaver: int = 0
    written_back: int = 0
    stored_back: int = 0


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

    def discard(self, place: tuple[int, int], number: int) -> None:
        self.sets.get(place, OrderedDict()).pop(number, None)

    def drop(self, place: tuple[int, int], number: int) -> Line:
        return self.sets[place].pop(number)

    def lines(self) -> list[Line]:
        return [line for lines in self.sets.values() for line in lines.values()]


class Memory:
    """The caches, and counts per static instruction."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.l1 = [Lru(geometry.l1_ways) for _ in range(geometry.sms)]
        self.llc = [Lru(geometry.llc_ways) for _ in range(geometry.partitions)]
        self.counts: dict[int, Counter[str]] = {}
        #: Of loads whose data were on their way: how many, and the part of the wait that was left, by level.
        self.arrivals: dict[int, Counter[str]] = {}

    def sector(self, granule: int) -> int:
        return granule * self.geometry.sectors // GRANULES

    def granules(self, sector: int) -> set[int]:
        return {granule for granule in range(GRANULES) if self.sector(granule) == sector}

    def execute(self, sm: int, event: Event) -> None:
        """All lines of one memory instruction."""
        self.executed(event, [self.access(sm, event, number) for number in event.lines])

    def access(self, sm: int, event: Event, number: int, merged: frozenset[int] = frozenset()) -> Moved:
        """One line of a memory instruction; sectors that are `merged` leave with an earlier store."""
        count = self.counts.setdefault(event.row, Counter())
        granules = event.lines[number]
        touched = {self.sector(granule) for granule in granules}
        missing, asked, leaver = self._through_l1(sm, event.kind, number, granules, touched)
        count["REQUESTS"] += len(touched)
        count["L1_HITS"] += len(touched) - len(missing - merged)
        moved = Moved(len(asked - merged))
        if leaver is not None and self.geometry.l1_write_back:
            moved.leaver, line = leaver
            before = count["DRAM_WRITES"]
            moved.written_back = self._write_back(sm, moved.leaver, line, count)
            moved.stored_back = count["DRAM_WRITES"] - before
        if asked:
            before, read_before = count["DRAM_WRITES"], count["DRAM_READS"]
            sent = {granule for granule in granules if self.sector(granule) in asked}
            lost, crossing = self._through_partitions(sm, event.kind, number, sent, asked, count)
            moved.missed, moved.crossing = min(len(lost), moved.left), len(crossing)
            moved.read = count["DRAM_READS"] - read_before
            moved.stored = count["DRAM_WRITES"] - before
            count["LLC_HITS"] += moved.left - moved.missed
            count["LLC_MISSES"] += moved.missed
        return moved

    def executed(self, event: Event, moved: Sequence[Moved]) -> None:
        """Count an execution, by the worst of its lines."""
        count = self.counts.setdefault(event.row, Counter())
        count["EXECUTED"] += 1
        count["LINES"] += len(event.lines)
        count["DIVERGENT"] += len(event.lines) > 1
        worst = "DRAM" if any(each.missed for each in moved) else "LLC" if any(each.left for each in moved) else "L1"
        count[f"WORST_{worst}"] += 1

    def _through_l1(
        self, sm: int, kind: str, number: int, granules: set[int], touched: set[int]
    ) -> tuple[set[int], set[int], tuple[int, Line] | None]:
        """(Sectors that are not in the L1, those that are asked of the LLC, the line that leaves)."""
        geometry, cache = self.geometry, self.l1[sm]
        if not geometry.l1_sets:
            return touched, touched, None
        place = (0, geometry.l1_set(number))
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

    def _write_back(self, sm: int, number: int, line: Line, count: Counter[str]) -> int:
        """What an L1 has written of a line goes to the LLC like a store, on account of who made it leave; sectors."""
        sectors = {self.sector(granule) for granule in line.written}
        if sectors:
            lost, _ = self._through_partitions(sm, "store", number, line.written, sectors, count)
            count["WRITEBACK_MISSES"] += len(lost)
            count["WRITEBACK_HITS"] += len(sectors) - len(lost)
        return len(sectors)

    def _through_partitions(
        self, sm: int, kind: str, number: int, granules: set[int], asked: set[int], count: Counter[str]
    ) -> tuple[set[int], set[int]]:
        """(Sectors that are not in the LLC, those that another partition than the SM's was asked).

        SMs 0, 1, 4, 5, … use one partition of two, the others the other one. A line has a home in one; what SMs of
        another load, or write as a whole, is copied there until somebody else writes to the line.
        """
        geometry = self.geometry
        part, home = sm // 2 % geometry.partitions, spread(number, geometry.partitions)
        if geometry.partitions == 1 or not geometry.llc_sets:
            return self._through_llc(0, kind, number, granules, asked, count), set()
        place = self._llc_place(number)
        for other, cache in enumerate(self.llc):
            if kind != "load" and other != home and not (kind == "store" and other == part):
                cache.discard(place, number)
        needed = asked
        if part != home and (kind == "load" or (kind == "store" and geometry.allocate)):
            copy, gone = self.llc[part].use(place, number)
            if gone is not None and geometry.write_back:
                count["DRAM_WRITES"] += self.dirty(gone[1])
            if kind == "load":
                needed = asked - copy.fetched
                copy.fetched |= asked
            else:
                copy.fetched |= {sector for sector in asked if self.granules(sector) <= granules}
        if not needed:
            return set(), set()
        lost = self._through_llc(home, kind, number, granules, needed, count)
        return lost, needed if part != home else set()

    def _llc_place(self, number: int) -> tuple[int, int]:
        geometry = self.geometry
        return number % geometry.banks, number // geometry.banks % geometry.llc_sets

    def _through_llc(
        self, part: int, kind: str, number: int, granules: set[int], asked: set[int], count: Counter[str]
    ) -> set[int]:
        """Sectors that are not in the LLC, or not in this part of it."""
        geometry = self.geometry
        if not geometry.llc_sets:
            count["DRAM_READS"] += len(asked) if kind != "store" else 0
            count["DRAM_WRITES"] += len(asked) if kind != "load" else 0
            return asked
        place, llc = self._llc_place(number), self.llc[part]
        stays_out = kind == "store" and not geometry.allocate
        if stays_out and llc.find(place, number) is None:
            count["DRAM_WRITES"] += len(asked)
            return asked
        line, gone = llc.use(place, number)
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
        lines = [line for part in self.llc for line in part.lines()]
        return sum(map(self.dirty, lines)) if self.geometry.write_back else 0

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

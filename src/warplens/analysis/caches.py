"""Cache simulation over all warps of a launch, and the miss profile it gives.

Orders in which the warps of an SM reach memory:

- `round-robin`: one memory instruction per warp in turn, without timing (GPUMech §V);
- `oldest-N`: the same, but only among the N oldest unfinished warps, because a
  greedy scheduler lets them run ahead;
- `progress`: in the order of each warp's estimated arrival time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._cache_records import (
    ARRIVALS,
    COUNTERS,
    EMPTY,
    GRANULES,
    LOAD,
    CacheConfig,
    Caches,
    Lines,
    records_of,
    table_of,
)
from .cache_run import CacheRun
from .events import Events


@dataclass(frozen=True, eq=False)
class MissProfile:
    """Where the memory instructions of a launch hit and miss, per static instruction and in total."""

    #: A row per static instruction, a column per field of `COUNTERS`.
    counters: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    transfer_bytes: int
    #: Dirty sectors (or lines, without sectors) that the L2 still holds at the end.
    dirty_left: int
    order: str
    estimated_cycles: float
    #: Dirty sectors that the L1 caches still hold at the end.
    l1_dirty_left: int = 0
    #: Busiest over mean: requests of the L2 banks, and transfers of the DRAM channels.
    busiest_bank: float = 1.0
    busiest_channel: float = 1.0
    #: A row per static instruction, a column per field of `ARRIVALS`: loads that find their data in flight, and
    #: requests queued at busy banks. None if the order needs no timing.
    arrivals: NDArray[np.float64] | None = None

    def column(self, name: str) -> NDArray[np.int64]:
        """A counter, by its name in `COUNTERS`."""
        return records_of(self.counters, COUNTERS)[name]

    def arrival(self, name: str) -> NDArray[np.float64]:
        """A sum per static instruction, by its name in `ARRIVALS`; 0 if no times were estimated."""
        if self.arrivals is None:
            return np.zeros(len(self.kinds))
        found: NDArray[np.float64] = records_of(self.arrivals, ARRIVALS)[name]
        return found

    def _total(self, *names: str) -> int:
        return int(sum(self.column(name).sum() for name in names))

    @property
    def executed(self) -> NDArray[np.int64]:
        """Executions of each static memory instruction."""
        return self.column("executed")

    def per_execution(self, name: str) -> NDArray[np.float64]:
        """A counter (requests, lines, l1_hits, llc_hits, llc_misses, worst_l1, …) per execution, or 0."""
        return self.column(name) / np.maximum(self.executed, 1)

    @property
    def levels(self) -> NDArray[np.float64]:
        """Per static instruction: shares of its executions whose worst request L1, L2 and DRAM served."""
        return np.stack([self.per_execution(f"worst_{level}") for level in ("l1", "llc", "dram")], axis=1)

    @property
    def misses_per_execution(self) -> NDArray[np.float64]:
        """Requests that leave the SM, per execution, without write-backs of evicted lines."""
        return self.per_execution("llc_hits") + self.per_execution("llc_misses")

    @property
    def packets_per_execution(self) -> NDArray[np.float64]:
        """Packets to the L2, per execution: the sectors of a line share one."""
        sectors = self.per_execution("requests") / np.maximum(self.per_execution("lines"), 1e-300)
        return self.misses_per_execution / np.maximum(sectors, 1.0)

    @property
    def writebacks_per_execution(self) -> NDArray[np.float64]:
        """Sectors that the L1 writes back to the L2, per execution."""
        return self.per_execution("writeback_hits") + self.per_execution("writeback_misses")

    @property
    def dram_requests_per_execution(self) -> NDArray[np.float64]:
        """Requests and written-back sectors that miss the L2, per execution."""
        return self.per_execution("llc_misses") + self.per_execution("writeback_misses")

    @property
    def divergent_loads(self) -> int:
        """Loads that touch more than one cache line."""
        return int(self.column("divergent")[self.kinds == LOAD].sum())

    @property
    def l1_accesses(self) -> int:
        return self._total("requests")

    @property
    def l1_misses(self) -> int:
        return self._total("requests") - self._total("l1_hits")

    @property
    def llc_accesses(self) -> int:
        """Requests to the L2, and sectors that the L1 caches wrote back to it."""
        return self._total("llc_hits", "llc_misses", "writeback_hits", "writeback_misses")

    @property
    def llc_loads(self) -> int:
        """Those requests that bring data to an SM."""
        loads = self.kinds == LOAD
        return int(self.column("llc_hits")[loads].sum() + self.column("llc_misses")[loads].sum())

    @property
    def shared_loads(self) -> float:
        """Share of the loaded sectors for which another SM nearby had a request under way."""
        return float(self.arrival("shared").sum()) / max(self.llc_loads, 1)

    @property
    def llc_misses(self) -> int:
        return self._total("llc_misses", "writeback_misses")

    @property
    def l1_miss_ratio(self) -> float:
        return self.l1_misses / max(self.l1_accesses, 1)

    @property
    def llc_miss_ratio(self) -> float:
        return self.llc_misses / max(self.llc_accesses, 1)

    @property
    def dram_read_bytes(self) -> int:
        return self._total("dram_reads") * self.transfer_bytes

    @property
    def dram_write_bytes(self) -> int:
        """Bytes written through, or back on eviction; data still dirty at the end stays in the cache."""
        return self._total("dram_writes") * self.transfer_bytes


class LlcContent(NamedTuple):
    """Tags and states of the L2's lines."""

    tags: NDArray[np.int64]
    states: NDArray[np.int64]


def simulate_caches(
    chunks: Iterable[Events],
    kinds: NDArray[np.uint8],
    run: CacheRun,
    launched: int = 0,
    llc: LlcContent | None = None,
) -> MissProfile:
    """Run the events of a launch through the per-SM L1 caches and the shared L2 of one machine.

    A chunk with fewer than the `launched` blocks runs on the SMs that it fills. `llc` is what the L2 holds before,
    and then after; by default nothing.
    """
    from ._round_kernels import simulate_rounds
    from .progress import run_in_progress

    config = run.config
    counters = np.zeros(len(kinds), dtype=COUNTERS)
    bank_load = np.zeros((2, config.llc_banks), dtype=np.int64)
    l1_tags, l1_states, llc_tags, llc_states = empty_caches(config)
    if llc is not None:
        llc_tags, llc_states = llc
    caches = Caches(l1_tags, l1_states, llc_tags, llc_states, config, counters, bank_load)
    arrivals = np.zeros(len(kinds), dtype=ARRIVALS)
    blocks, cycles = [], []
    for chunk in chunks:
        lines = placed_lines(chunk, config)
        part, longer = run.filled_by(chunk.blocks, launched)
        caches = caches._replace(config=part.config)
        if part.timing is None:
            simulate_rounds(
                chunk.block_start, chunk.event_start, chunk.event_static, chunk.line_start, kinds, lines, caches
            )
        else:
            cycles.append(run_in_progress(chunk, kinds, lines, caches, part.timing, arrivals) * longer)
            blocks.append(chunk.blocks)
        del chunk, lines  # the next ones take their room
    l1_dirty = written_sectors(caches.l1_states, config.sectors) if config.l1_write_back else 0
    dirty = written_sectors(caches.llc_states, config.sectors) if config.llc_write_back else 0
    uneven = [unevenness(each) for each in bank_load]
    return MissProfile(
        table_of(counters),
        kinds,
        run.transfer_bytes,
        dirty,
        run.order,
        float(np.dot(cycles, np.divide(blocks, sum(blocks))) if launched else sum(cycles)),
        l1_dirty,
        uneven[0],
        uneven[1],
        table_of(arrivals),
    )


def placed_lines(chunk: Events, config: CacheConfig) -> Lines:
    """The lines of a chunk with their sets in the caches."""
    from ._cache_kernels import find_places

    place = np.empty(len(chunk.line_id), dtype=np.int64)
    find_places(chunk.line_id, config, place)
    return Lines(chunk.line_id, chunk.line_words, place)


def unevenness(loads: NDArray[np.int64]) -> float:
    """Largest load over the mean load."""
    return float(loads.max() / loads.mean()) if loads.any() else 1.0


def empty_caches(config: CacheConfig) -> list[NDArray[np.int64]]:
    """Tags and states of all L1 lines, then of all L2 lines."""
    l1_slots = config.sms * config.l1_sets * config.l1_ways
    llc_slots = config.llc_partitions * config.llc_banks * config.llc_sets * config.llc_ways
    made: list[NDArray[np.int64]] = []
    for count in (l1_slots, llc_slots):
        made += [np.full(count, EMPTY), np.zeros(count, dtype=np.int64)]
    return made


def written_sectors(states: NDArray[np.int64], sectors: int) -> int:
    """Number of dirty sectors; a partly written sector counts."""
    written = states >> 32
    per = GRANULES // sectors
    firsts = range(0, GRANULES, per)
    return int(sum(np.count_nonzero((written >> first) & ((1 << per) - 1)) for first in firsts))

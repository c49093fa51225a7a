"""Cache simulation over all warps of a launch, and the miss profile it gives.

Orders in which the warps of an SM reach memory:

- `round-robin`: one memory instruction per warp in turn, without timing (GPUMech §V);
- `oldest-N`: the same among the N oldest unfinished warps only, as a greedy
  scheduler lets some run ahead;
- `progress`: in the order of an estimate of when each warp gets there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import MachineError, OptionError
from ..machine import Gpu
from .events import Events

if TYPE_CHECKING:
    from ._cache_kernels import Lines

DEFAULT_ORDER = "progress"
#: Memory instructions that wait in order for an L1, where a machine does not say.
DEFAULT_QUEUE = 8


@dataclass(frozen=True, eq=False)
class MissProfile:
    """What became of the memory instructions of a launch, per static instruction and in total."""

    counters: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    transfer_bytes: int
    #: Sectors (lines, where there are none) that are in the LLC at the end and not in DRAM.
    dirty_left: int
    order: str
    estimated_cycles: float
    #: Sectors that are in an L1 at the end and not in the LLC.
    l1_dirty_left: int = 0
    #: Requests, and DRAM transfers, of the busiest LLC bank over the mean of all.
    busiest_bank: float = 1.0
    busiest_channel: float = 1.0
    #: Loads of data that are on their way, and crowded banks, per static instruction (columns `A_…`); none where no
    #: times are estimated.
    arrivals: NDArray[np.float64] | None = None

    def _column(self, name: str) -> NDArray[np.int64]:
        from . import _cache_kernels as _kernels

        return self.counters[:, getattr(_kernels, f"C_{name}")]

    def _total(self, *names: str) -> int:
        return int(sum(self._column(name).sum() for name in names))

    @property
    def executed(self) -> NDArray[np.int64]:
        """Executions of each static memory instruction."""
        return self._column("EXECUTED")

    def per_execution(self, name: str) -> NDArray[np.float64]:
        """A counter (REQUESTS, LINES, L1_HITS, LLC_HITS, LLC_MISSES, WORST_L1, …) per execution, or 0."""
        return self._column(name) / np.maximum(self.executed, 1)

    @property
    def levels(self) -> NDArray[np.float64]:
        """Per static instruction: parts of its executions whose worst request was served by L1, LLC and DRAM."""
        return np.stack([self.per_execution(f"WORST_{level}") for level in ("L1", "LLC", "DRAM")], axis=1)

    @property
    def misses_per_execution(self) -> NDArray[np.float64]:
        """Requests that leave the SM, per execution, without the dirty lines that they push out."""
        return self.per_execution("LLC_HITS") + self.per_execution("LLC_MISSES")

    @property
    def packets_per_execution(self) -> NDArray[np.float64]:
        """Requests to the LLC, per execution: sectors of a line travel together, and miss together."""
        sectors = self.per_execution("REQUESTS") / np.maximum(self.per_execution("LINES"), 1e-300)
        return self.misses_per_execution / np.maximum(sectors, 1.0)

    @property
    def writebacks_per_execution(self) -> NDArray[np.float64]:
        """Sectors that an execution makes the L1 write back to the LLC."""
        return self.per_execution("WRITEBACK_HITS") + self.per_execution("WRITEBACK_MISSES")

    @property
    def dram_requests_per_execution(self) -> NDArray[np.float64]:
        """Requests and sectors written back that miss the LLC, per execution."""
        return self.per_execution("LLC_MISSES") + self.per_execution("WRITEBACK_MISSES")

    @property
    def divergent_loads(self) -> int:
        """Loads that touch more than one cache line."""
        from . import _cache_kernels as _kernels

        return int(self._column("DIVERGENT")[self.kinds == _kernels.LOAD].sum())

    @property
    def l1_accesses(self) -> int:
        return self._total("REQUESTS")

    @property
    def l1_misses(self) -> int:
        return self._total("REQUESTS") - self._total("L1_HITS")

    @property
    def llc_accesses(self) -> int:
        """Requests, and sectors that L1 caches wrote back."""
        return self._total("LLC_HITS", "LLC_MISSES", "WRITEBACK_HITS", "WRITEBACK_MISSES")

    @property
    def llc_misses(self) -> int:
        return self._total("LLC_MISSES", "WRITEBACK_MISSES")

    @property
    def l1_miss_ratio(self) -> float:
        return self.l1_misses / max(self.l1_accesses, 1)

    @property
    def llc_miss_ratio(self) -> float:
        return self.llc_misses / max(self.llc_accesses, 1)

    @property
    def dram_read_bytes(self) -> int:
        return self._total("DRAM_READS") * self.transfer_bytes

    @property
    def dram_write_bytes(self) -> int:
        """What is written through, or back when a line is evicted; what is dirty at the end stays in the cache."""
        return self._total("DRAM_WRITES") * self.transfer_bytes


def order_window(order: str) -> int:
    """Warps of an SM that take turns (0: all); raises `OptionError` for an unknown order."""
    if order in ("round-robin", "progress"):
        return 0
    match = re.fullmatch(r"oldest-([1-9]\d{0,5})", order)
    if not match:
        raise OptionError(f"order {order!r} is not one of round-robin, oldest-N (for example oldest-8), progress")
    return int(match[1])


def simulate_caches(
    chunks: Iterable[Events],
    kinds: NDArray[np.uint8],
    gpu: Gpu,
    blocks_per_sm: int,
    *,
    order: str = DEFAULT_ORDER,
    needed_by: str = "the cache simulation",
) -> MissProfile:
    """Run the events of a launch through per-SM L1 caches and the shared LLC of one machine."""
    from . import _cache_kernels as _kernels
    from ._round_kernels import simulate_rounds
    from .progress import run_in_progress, timing_of

    window = order_window(order)
    parameters = cache_parameters(gpu, blocks_per_sm, window, needed_by)
    counters = np.zeros((len(kinds), _kernels.COUNTERS), dtype=np.int64)
    bank_load = np.zeros((2, int(parameters[_kernels.P_LLC_BANKS])), dtype=np.int64)
    l1_tags, l1_states, llc_tags, llc_states = empty_caches(parameters)
    caches = _kernels.Caches(l1_tags, l1_states, llc_tags, llc_states, parameters, counters, bank_load)
    arrivals = np.zeros((len(kinds), _kernels.ARRIVALS))
    timing = timing_of(gpu, needed_by) if order == "progress" else None
    cycles = 0.0
    for chunk in chunks:
        lines = placed_lines(chunk, parameters)
        if timing is None:
            simulate_rounds(
                chunk.block_start, chunk.event_start, chunk.event_static, chunk.line_start, kinds, lines, caches
            )
        else:
            cycles += run_in_progress(chunk, kinds, lines, caches, timing, arrivals)
    if gpu.l1.streaming:  # profiles of such machines were made without, and cannot be made again everywhere
        arrivals[:, _kernels.A_BANK :] = 0.0
    sectors = int(parameters[_kernels.P_SECTORS])
    l1_dirty = written_sectors(caches.l1_states, sectors) if parameters[_kernels.P_L1_WRITE_BACK] else 0
    dirty = written_sectors(caches.llc_states, sectors) if parameters[_kernels.P_LLC_WRITE_BACK] else 0
    uneven = [unevenness(each) for each in bank_load]
    return MissProfile(
        counters, kinds, int(gpu.transfer_bytes), dirty, order, cycles, l1_dirty, uneven[0], uneven[1], arrivals
    )


def placed_lines(chunk: Events, parameters: NDArray[np.int64]) -> Lines:
    """The lines of a chunk, and where caches hold them."""
    from . import _cache_kernels as _kernels

    place = np.empty(len(chunk.line_id), dtype=np.int64)
    _kernels.find_places(chunk.line_id, parameters, place)
    return _kernels.Lines(chunk.line_id, chunk.line_words, place)


def unevenness(loads: NDArray[np.int64]) -> float:
    """The largest over the mean."""
    return float(loads.max() / loads.mean()) if loads.any() else 1.0


def cache_parameters(gpu: Gpu, blocks_per_sm: int, window: int, needed_by: str) -> NDArray[np.int64]:
    from . import _cache_kernels as _kernels

    line = int(gpu.require("l1.line_bytes", needed_by))
    sectors = line // int(gpu.transfer_bytes)
    if _kernels.GRANULES % sectors:
        raise MachineError(
            f"machine {gpu.name!r}: l1.sector_bytes: {gpu.transfer_bytes:g}: {needed_by} can split a line "
            f"in {_kernels.GRANULES} sectors at most"
        )
    l1_size, llc_size = int(gpu.l1.size_bytes or 0), int(gpu.llc.size_bytes or 0)
    l1_ways, llc_ways = int(gpu.l1.ways or 1), int(gpu.llc.ways or 1)
    banks = int(gpu.llc.banks or 1)
    if llc_size // (line * llc_ways) < banks:
        banks = 1
    found = np.zeros(_kernels.PARAMETERS, dtype=np.int64)
    found[_kernels.P_SMS] = gpu.sms
    found[_kernels.P_BLOCKS_PER_SM] = max(blocks_per_sm, 1)
    found[_kernels.P_L1_SETS] = l1_size // (line * l1_ways)
    found[_kernels.P_L1_WAYS] = l1_ways
    found[_kernels.P_LLC_BANKS] = banks
    found[_kernels.P_LLC_SETS] = llc_size // (line * llc_ways * banks)
    found[_kernels.P_LLC_WAYS] = llc_ways
    found[_kernels.P_SECTORS] = sectors
    found[_kernels.P_L1_WRITE_BACK] = gpu.l1.writes_back
    found[_kernels.P_L1_ALLOCATE] = gpu.l1.allocates_stores
    found[_kernels.P_LLC_WRITE_BACK] = gpu.llc.writes_back
    found[_kernels.P_LLC_ALLOCATE] = gpu.llc.allocates_stores
    found[_kernels.P_WINDOW] = window
    found[_kernels.P_QUEUE] = gpu.l1.queue_entries or DEFAULT_QUEUE
    found[_kernels.P_HASHED] = bool(gpu.llc.hashed)
    found[_kernels.P_FETCH] = min(max(int(gpu.llc.fetch_bytes or 0) // int(gpu.transfer_bytes), 1), sectors)
    found[_kernels.P_KEEPS] = not gpu.l1.streaming and found[_kernels.P_L1_SETS] > 0
    found[_kernels.P_GREEDY] = gpu.scheduler in ("gto", "oldest")
    return found


def empty_caches(parameters: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Tags and states of the slots of all L1 caches, then those of the LLC."""
    from . import _cache_kernels as _kernels

    p = parameters
    l1_slots = int(p[_kernels.P_SMS] * p[_kernels.P_L1_SETS] * p[_kernels.P_L1_WAYS])
    llc_slots = int(p[_kernels.P_LLC_BANKS] * p[_kernels.P_LLC_SETS] * p[_kernels.P_LLC_WAYS])
    made: list[NDArray[np.int64]] = []
    for count in (l1_slots, llc_slots):
        made += [np.full(count, _kernels.EMPTY), np.zeros(count, dtype=np.int64)]
    return made


def written_sectors(states: NDArray[np.int64], sectors: int) -> int:
    """Sectors of all lines that were written, at least in part."""
    from . import _cache_kernels as _kernels

    written = states >> 32
    per = _kernels.GRANULES // sectors
    firsts = range(0, _kernels.GRANULES, per)
    return int(sum(np.count_nonzero((written >> first) & ((1 << per) - 1)) for first in firsts))

"""What cache simulations take and change, as records that kernels read by name. Nothing here needs the compiler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# What an instruction does to memory (global and local space), or that it is a barrier.
NOTHING, LOAD, STORE, ATOMIC, BARRIER = range(5)

# A line is written in 32 granules. State of a cached line: granules written in the upper half, sectors fetched
# in the lower.
GRANULES = 32
ALL_GRANULES = 0xFFFFFFFF
# Tag of a slot that holds no line: no address has it.
EMPTY = np.iinfo(np.int64).min


class CacheConfig(NamedTuple):
    """Caches, and how warps reach them: what a machine has, with all its overrides.

    The last four matter to the order `progress` alone. They are 0 for others, so
    that runs which do not depend on them are equal.
    """

    sms: int
    blocks_per_sm: int
    #: Oldest warps of an SM that take turns; 0: all.
    window: int
    l1_sets: int
    l1_ways: int
    l1_write_back: bool
    l1_allocate: bool
    llc_banks: int
    llc_sets: int
    llc_ways: int
    llc_write_back: bool
    llc_allocate: bool
    llc_hashed: bool
    #: Of a line.
    sectors: int
    #: Sectors that an LLC miss brings in from DRAM.
    fetch_sectors: int
    #: Memory instructions of an SM that wait in order for its L1.
    queue: int
    #: The scheduler lets the same warp go on, or the oldest.
    greedy: bool
    #: Lines on their way have no places in an L1.
    streaming: bool
    #: Misses of an SM in flight.
    outstanding: int


class Timing(NamedTuple):
    """Times that decide which access comes first, in cycles: latencies, and how long each transfer holds a port."""

    issue_interval: float
    l1_latency: float
    llc_latency: float
    dram_latency: float
    noc_service: float
    sm_service: float
    dram_service: float


class Lines(NamedTuple):
    """Lines that instructions touch: their numbers, granules, and places.

    A place is the L1 set of a line (upper half) and the first slot of its LLC set (lower half).
    """

    number: NDArray[np.int64]
    words: NDArray[np.uint32]
    place: NDArray[np.int64]


class Caches(NamedTuple):
    """Tags and states of the slots of all L1 caches and of the LLC, and what is counted.

    `bank_load` has the requests and the DRAM transfers of each LLC bank.
    """

    l1_tags: NDArray[np.int64]
    l1_states: NDArray[np.int64]
    llc_tags: NDArray[np.int64]
    llc_states: NDArray[np.int64]
    config: CacheConfig
    counters: NDArray[np.int64]
    bank_load: NDArray[np.int64]

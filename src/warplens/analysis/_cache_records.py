"""What cache simulations take and change, as records that kernels read by name. Nothing here needs the compiler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# What an instruction does to memory (global and local space), or that it is a barrier.
NOTHING, LOAD, STORE, ATOMIC, BARRIER = range(5)

# A line is written in 32 granules. State of a cached line: granules written in the upper half, sectors fetched
# in the lower.
GRANULES = 32
# SMs get blocks one after the other in pairs, which share their way to the LLC.
PAIR = 2
ALL_GRANULES = 0xFFFFFFFF
# Tag of a slot that holds no line: no address has it.
EMPTY = np.iinfo(np.int64).min

#: What is counted of each static instruction. A request is a sector of a line, or a line where there are no sectors;
#: `worst_…` are executions by the level that served the last of their requests.
COUNTERS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "executed",
            "requests",
            "lines",
            "divergent",
            "l1_hits",
            "llc_hits",
            "llc_misses",
            "worst_l1",
            "worst_llc",
            "worst_dram",
            "dram_reads",
            "dram_writes",
            "writeback_hits",
            "writeback_misses",
        )
    ]
)
#: Loads whose data another load has asked for and that are not there yet: executions that found all in the L1 but for
#: that, and in the LLC, and the sums of the part of the wait that was left of each. And, summed over misses, how many
#: requests each found ahead of it at its bank's port, and at its DRAM channel, more than at the mean one. `shared`
#: are sectors for which an SM nearby had a request under way, `crossed` executions whose data the LLC had, but in
#: another of its parts alone. Files may lack fields at the end: new ones come last.
ARRIVALS = np.dtype(
    [
        (name, np.float64)
        for name in ("l1", "l1_left", "llc", "llc_left", "bank_ahead", "channel_ahead", "shared", "crossed")
    ]
)
#: A memory instruction whose turn it is: where it runs, which one it is, and its lines.
TURN = np.dtype([(name, np.int64) for name in ("sm", "static", "kind", "first", "last")])


def table_of(records: NDArray[Any]) -> NDArray[Any]:
    """Records of one type of field as a plain table, a column per field: the same memory."""
    names = records.dtype.names
    assert names is not None
    return records.view(records.dtype[0]).reshape(len(records), len(names))


def records_of(table: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """The inverse of `table_of`."""
    return np.ascontiguousarray(table).view(kind)[:, 0]


class CacheConfig(NamedTuple):
    """Caches, and how warps reach them: what a machine has, with all its overrides.

    `cache_run` derives most fields. A field that it does not derive is the machine
    parameter of that name: `llc_hashed` is `llc.hashed`. The last seven matter to the
    order `progress` alone. They are 0 for others, so that runs which do not depend on
    them are equal.
    """

    sms: int
    blocks_per_sm: int
    #: Oldest warps of an SM that take turns; 0: all.
    window: int
    l1_sets: int
    l1_ways: int
    l1_hashed: bool
    l1_write_back: bool
    l1_allocate: bool
    llc_banks: int
    #: Each has `llc_sets` of every bank.
    llc_partitions: int
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
    #: Where they fill the queue they hold all operand collectors, and others issue only when one of them leaves.
    collects: bool
    #: Lines on their way have no places in an L1.
    streaming: bool
    #: Misses of an SM in flight.
    outstanding: int
    #: Lines of stores that wait in an SM for the network, and with which others merge; 0: none do.
    merge_lines: int
    #: A load takes a cycle of the L1 for each word of its busiest bank.
    l1_banked: bool


class Timing(NamedTuple):
    """Times that decide which access comes first, in cycles: latencies, and how long each transfer holds a port."""

    issue_interval: float
    l1_latency: float
    llc_latency: float
    dram_latency: float
    noc_service: float
    sm_service: float
    dram_service: float
    #: Those of the network for stores.
    noc_store_service: float
    sm_store_service: float
    #: The least that a request for a line takes at the ports of all and of an SM.
    noc_request: float
    sm_request: float
    #: Of the L1: to look a line up, and for the reply of one that it lacks.
    lookup: float
    reply: float


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
    counters: NDArray[Any]
    bank_load: NDArray[np.int64]

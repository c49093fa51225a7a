"""Records and constants that the network of resources and its kernels share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NEVER = 1e300
#: Warps of an SM that are followed, or three waves; of longer launches the middle is left out and its time added.
MOST_WARPS, LEAST_WAVES = 160, 3

# What an event is: as in the cache simulation, the end of a warp, an arrival at an mbarrier and a wait there.
LOAD, STORE, ATOMIC, BARRIER, END, SIGNAL, AWAIT = 1, 2, 3, 4, 5, 6, 7

# Levels that serve an access. COMING: the L1, when the miss of another access is back; GIVEN: after `left` cycles.
L1, LLC, DRAM, COMING, GIVEN = range(5)

# Causes of waiting, in the order of the CPI stack. `PARTS` of them, from `FIRST_PART`, are those of a load.
CAUSE_NAMES = ("BASE", "DEP", "L1", "L2", "DRAM", "MSHR", "NOC", "QUEUE", "SYNC", "IDLE")
CAUSES = len(CAUSE_NAMES)
C_BASE, C_DEP, C_L1, C_L2, C_DRAM, C_MSHR, C_NOC, C_QUEUE, C_SYNC, C_IDLE = range(CAUSES)
FIRST_PART, PARTS = C_L1, 6
P_L1, P_L2, P_DRAM, P_MSHR, P_NOC, P_QUEUE = range(PARTS)
#: Cycles that warps spent because of an event, by cause. Two more tell what the instructions before it waited for.
B_UNIT, B_SHARED = CAUSES, CAUSES + 1
BLAMES = CAUSES + 2

# Resources, by the cycles that they are busy, and servers among them. No literals: `serve` is compiled once.
RESOURCES = 9
R_ISSUE, R_UNIT, R_PORT, R_SM_OUT, R_SM_IN, R_NET_IN, R_NET_OUT, R_DRAM, R_WAY = np.arange(RESOURCES)

# Servers of the L1: its port, and the way of loads.
PORT, WAY = range(2)

# Places for misses in flight: MSHRs for loads, and those of stores and atomics.
LOADS, STORES = range(2)

# Mean latencies of the last misses: those that the LLC served, those that went to DRAM.
BY_LLC, BY_DRAM = range(2)
#: Weight of one miss in them.
SMOOTHING = 0.1

#: A smaller free share of a server counts as none.
LEAST_FREE = 0.02

# What a warp does: waits for data, issues, waits for a scheduler, for the memory queue, at a barrier, at an mbarrier.
DATA, ISSUING, AT_SCHEDULER, AT_PORT, AT_BARRIER, AT_MBARRIER = range(6)

I64, F64, FLAG = np.int64, np.float64, np.bool_


#: Quantiles of a Gumbel distribution of scale 1 and mean 0, as the largest of many times has.
DRAWS = 1024
GUMBEL = -np.log(-np.log((np.arange(DRAWS) + 0.5) / DRAWS))
GUMBEL -= GUMBEL.mean()


def _record(**fields: Any) -> np.dtype[np.void]:
    return np.dtype(list(fields.items()), align=True)


#: What one warp asks for, in cycles, flits or transfers, for all executions that the event stands for (`weight`).
EVENT = _record(
    kind=I64,
    level=I64,
    needs=I64,  # event of the warp whose result it waits for, or -1
    set=I64,
    clustered=FLAG,  # a barrier of the cluster
    steps=I64,  # in which a warp computes until then; 0: one
    issue=F64,
    gap=F64,
    tail=F64,
    port=F64,
    shared=F64,
    turn=F64,  # cycles that it holds the way of loads: one for each of them
    special=F64,  # cycles for which conversions and special functions before it hold that way
    misses=F64,
    places=F64,  # MSHRs that one execution fills
    requests=F64,
    lookups=F64,  # of the LLC's tags beyond one for each request
    flits_out=F64,
    flits_in=F64,
    dram_reads=F64,
    dram_writes=F64,
    weight=F64,
    left=F64,  # part of a miss that is left where its data are on their way
    from_dram=F64,  # and the part of such misses that DRAM serves
    set_lines=F64,  # ways of its set that one execution fills
    bank=F64,  # requests ahead of a miss at its bank and at its DRAM channel, beyond the mean
    channel=F64,
    spread=F64,  # cycles that the last of its lines takes longer than one alone
    scatter=F64,  # by how many cycles its time differs from load to load: scale of a Gumbel distribution
)

#: Cycles of a request and of a flit at the port of an SM, and at those of the banks.
NETWORK = _record(request=F64, sm_flit=F64, net_request=F64, net_flit=F64)

#: Cycles of what SMs share are multiplied by the number of SMs.
MACHINE = _record(
    schedulers=I64,
    issue_interval=F64,
    greedy=FLAG,
    queue=I64,
    l1_latency=F64,
    tags=F64,  # cycles until the tags of the L1 are read: its latency on the machine as named
    llc_latency=F64,
    dram_latency=F64,
    sets=I64,
    ways=I64,
    outstanding=I64,
    together=FLAG,  # a load leaves all its places when the last of its lines is there
    stores=I64,
    posted=FLAG,  # a warp is done with a store when it is sent, not when the LLC has it
    network=(NETWORK, (3,)),  # of loads, stores and atomics
    injection=F64,
    dram_service=F64,
    dram_queue=F64,
    barrier=F64,
    cluster_barrier=F64,
    blocks_per_sm=I64,
    warps_per_block=I64,
    blocks=F64,  # of an SM in the mean
    most_blocks=I64,  # of the SM that has most
    block_launch=F64,
    block_start=F64,
    cold_start=F64,  # until the first instructions are there, while blocks are launched
    arrivals=F64,
    in_order=FLAG,
    partitions=I64,  # of an SM, each with its own units
    bank=F64,
    channel=F64,
)

WARP = _record(
    state=I64,
    event=I64,
    first=I64,
    last=I64,
    age=I64,
    behind=I64,  # next in the line for the scheduler
    gap=F64,  # cycles of its own until the event
    steps=I64,  # in which it computes until then, and those that are left
    left=I64,
    since=F64,  # when it began to wait for the scheduler, for the memory queue or at a barrier
    back=F64,  # when all its accesses are back
)
SCHEDULER = _record(
    free=F64,  # when it has a slot that nobody has reserved
    booked=I64,  # spans of its calendar
    first_in_line=I64,  # the oldest warp that waits for it, or -1
)
#: The share of a server that no warp has reserved, from the end of the span before it.
SPAN = _record(until=F64, free=F64)
#: A step of the launch: whose it is, if warps take turns with how many others and what these have to issue, and how
#: many places an access takes.
STEP = _record(warp=I64, others=F64, ahead=F64, places=I64, ways=I64)
#: What serves warps in turn, or what they reserve.
SERVER = _record(free=F64, booked=I64, busy=F64)
#: A place for a thread block.
SLOT = _record(
    gathered=F64,  # when the last warp reached the barrier, or left
    left_at=F64,  # when the last access is back
    share=F64,  # part of the SMs that have such a block
    alive=I64,
    waiting=I64,  # warps at the barrier
    parked=I64,  # warps at mbarriers
)
#: How far the launch has come.
RUN = _record(
    slots=I64,
    to_run=I64,  # blocks that are followed
    last=I64,  # of those, blocks of a wave that is not full
    skipped=I64,  # waves that are not
    entered=I64,
    finished=I64,
    place=I64,  # in the memory queue, of the next access
    at_port=I64,  # warps that wait for the queue, and the last one that entered it
    last_port=I64,
    clock=F64,
)


class Stream(NamedTuple):
    """What warps ask for (see `network.Demand`)."""

    block_start: Any
    event_start: Any
    events: Any
    units: Any
    order: Any  # blocks in the order in which an SM is given them
    traffic: Any  # what the mean block asks of shared resources, over what each does
    await_start: Any = np.zeros(0, dtype=I64)  # where the rows of each event begin in `awaited`; empty if none waits
    awaited: Any = np.zeros((0, 2), dtype=I64)  # (warp of the block, event of the warp) that a wait is for
    divided: Any = np.zeros(0, dtype=FLAG)  # whether each unit is divided among the partitions of an SM
    slower: Any = np.zeros(0, dtype=FLAG)  # whether it takes instructions more slowly than they issue


class Memory(NamedTuple):
    """The memory system of an SM: when servers are free, and when the last misses are back."""

    free: Any
    servers: Any  # the port of the L1 and the way of loads
    calendar: Any  # what warps have reserved of them
    places: Any  # of loads, and of stores
    next_place: Any
    ways: Any  # of each set, that wait for data
    next_way: Any
    recent: Any
    split: Any  # what the last misses waited for


class Sm(NamedTuple):
    """What changes on an SM: its warps, schedulers, functional units and places for blocks."""

    run: Any  # one record
    step: Any  # one record
    ready: Any  # when each warp goes on; one entry for each leaf of the tree
    order: Any  # the same bits as whole numbers, which come in the same order
    soonest: Any  # at each inner node of a tree over them, the least below, and the warp that it is of
    first: Any
    warps: Any
    done: Any  # when the result of each event of a warp is there, and what it waited for
    parts: Any
    source: Any  # the event that brings it: the event itself, or a slower one before it
    signalled: Any  # when others that wait for an event go on; no rows where nobody does
    blame: Any  # cycles of all warps because of each event; no rows where nobody asks
    schedulers: Any
    calendar: Any  # what warps have reserved of each scheduler
    units: Any  # of each partition
    unit_calendar: Any
    slots: Any
    queue: Any  # when the last accesses leave the memory queue
    ends: Any  # of blocks


def new_memory(stream: Stream, machines: Any, *, turns: bool = False) -> Memory:
    """Room for the memory system of each of some machines; calendars only where warps reserve ahead, not in turns."""
    sets, ways = (max(int(machines[name].max()), 1) for name in ("sets", "ways"))
    warps, waiting = (machines["blocks_per_sm"] * machines["warps_per_block"]).max(), machines["queue"].max()
    ahead = not turns and any(np.any(stream.events[name] > 0.0) for name in ("shared", "special"))
    return Memory(
        free=np.zeros(RESOURCES),
        servers=np.zeros(2, SERVER),
        calendar=np.zeros((2, 2 * (warps + waiting) + 4 if ahead else 0), SPAN),
        places=np.zeros((2, max(machines["outstanding"].max(), machines["stores"].max()))),
        next_place=np.zeros(2, dtype=I64),
        ways=np.zeros((sets, ways)),
        next_way=np.zeros(sets, dtype=I64),
        recent=np.zeros(2),
        split=np.zeros(PARTS),
    )


def new_sm(stream: Stream, machines: Any, *, turns: bool = False, blames: bool = False) -> Sm:
    """Room for the SM of each of some machines; `blames` adds up, over all of them, cycles by event.

    Warps that take `turns` at functional units reserve nothing of them.
    """
    slots = int(min(machines["blocks_per_sm"].max(), machines["most_blocks"].max()))
    warps = slots * int(machines["warps_per_block"].max())
    leaves = 1 << max((warps - 1).bit_length(), 1)
    events = max(int(np.diff(stream.event_start).max()), 1)
    ready = np.empty(leaves)
    units = stream.units.shape[1] * int(machines["partitions"].max())
    return Sm(
        run=np.zeros(1, RUN),
        step=np.zeros(1, STEP),
        ready=ready,
        order=ready.view(I64),
        soonest=np.empty(leaves, dtype=I64),
        first=np.empty(leaves, dtype=I64),
        warps=np.zeros(warps, WARP),
        done=np.zeros((warps, events)),
        parts=np.zeros((warps, events, PARTS)),
        source=np.zeros((warps, events), dtype=I64),
        signalled=np.zeros((warps if len(stream.await_start) else 0, events)),
        blame=np.zeros((len(stream.events) if blames else 0, BLAMES)),
        schedulers=np.zeros(machines["schedulers"].max(), SCHEDULER),
        calendar=np.zeros((machines["schedulers"].max(), 2 * warps + 4), SPAN),
        units=np.zeros(units, SERVER),
        unit_calendar=np.zeros((units, 0 if turns else 2 * warps + 4), SPAN),
        slots=np.zeros(slots, SLOT),
        queue=np.zeros(machines["queue"].max()),
        # Waves that are followed, what is left of a wave, and the last blocks of the fullest SM.
        ends=np.zeros(max(LEAST_WAVES * slots, MOST_WARPS) + 2 * slots + more_than_mean(machines)),
    )


def more_than_mean(machines: Any) -> int:
    """Blocks that the fullest SM has more than others, at most."""
    return int(np.ceil((machines["most_blocks"] - machines["blocks"]).max()))


def new_script(stream: Stream, machines: Any) -> Any:
    """Room for the steps of a launch: for each event of the warps that are followed, and one to give up a wait."""
    slots = np.minimum(machines["blocks_per_sm"], machines["most_blocks"])
    warps = int((slots * machines["warps_per_block"]).max())
    steps = np.maximum(stream.events["steps"], 1) + (2 if len(stream.await_start) else 1)
    most = int(np.diff(np.concatenate(([0], np.cumsum(steps)))[stream.event_start]).max(initial=0))
    last = more_than_mean(machines) * int(machines["warps_per_block"].max())
    return np.zeros(most * ((LEAST_WAVES + 2) * warps + MOST_WARPS + last), STEP)

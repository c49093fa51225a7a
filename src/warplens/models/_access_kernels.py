"""A memory instruction on its way through the network of resources: L1 port, MSHRs, network, LLC and DRAM.

A server is the time at which it is free again. The misses of an instruction go
through a server one behind the other: of each group only the first and the last
are followed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined

# What an event is (as in the cache simulation, and the end of a warp).
LOAD, STORE, ATOMIC, BARRIER, END = 1, 2, 3, 4, 5

# Levels that serve an access. COMING: the L1, when another one's miss is back; GIVEN: after E_LEFT cycles.
L1, LLC, DRAM, COMING, GIVEN = range(5)

# Columns of an event: what one warp asks for, in cycles, flits or transfers, all its weight together; but for
# MISSES, which fill MSHRs, SET_LINES, which fill a set, LEFT, a part of a miss, and requests that a miss finds ahead
# of it at its BANK and its DRAM CHANNEL, more than at the mean one.
(
    E_ISSUE,
    E_GAP,
    E_TAIL,
    E_PORT,
    E_SHARED,
    E_MISSES,
    E_REQUESTS,
    E_FLITS_OUT,
    E_FLITS_IN,
    E_DRAM_READS,
    E_DRAM_WRITES,
    E_WEIGHT,
    E_LEFT,
    E_SET_LINES,
    E_BANK,
    E_CHANNEL,
) = range(16)
EVENT_COLUMNS = 16

# Columns of a machine. Times of what SMs share are multiplied by their number.
(
    M_SCHEDULERS,
    M_ISSUE_INTERVAL,
    M_GREEDY,
    M_QUEUE,
    M_L1_LATENCY,
    M_LLC_LATENCY,
    M_DRAM_LATENCY,
    M_SETS,
    M_WAYS,
    M_OUTSTANDING,
    M_STORES,
    M_REQUEST,
    M_SM_FLIT,
    M_NET_REQUEST,
    M_NET_FLIT,
    M_STORE_REQUEST,
    M_STORE_SM_FLIT,
    M_STORE_NET_REQUEST,
    M_STORE_NET_FLIT,
    M_ATOMIC_REQUEST,
    M_ATOMIC_SM_FLIT,
    M_ATOMIC_NET_REQUEST,
    M_ATOMIC_NET_FLIT,
    M_INJECTION,
    M_DRAM_SERVICE,
    M_DRAM_QUEUE,
    M_BARRIER,
    M_BLOCKS_PER_SM,
    M_WARPS_PER_BLOCK,
    M_BLOCKS,
    M_BLOCK_LAUNCH,
    M_BLOCK_START,
    M_ARRIVALS,
    M_IN_ORDER,
    M_BANK,
    M_CHANNEL,
) = range(36)
MACHINE_COLUMNS = 36
#: From a column of the network for loads to the same for stores, and from that to the same for atomics.
NETWORK_COLUMNS = M_STORE_REQUEST - M_REQUEST

# Causes of waiting, in the order of the CPI stack.
C_BASE, C_DEP, C_L1, C_L2, C_DRAM, C_MSHR, C_NOC, C_QUEUE, C_SYNC, C_IDLE = range(10)
CAUSES = 10
# Of these, what a load waits for.
FIRST_PART, PARTS = C_L1, 6

# Resources, by the cycles that they are busy, and servers among them.
R_ISSUE, R_UNIT, R_PORT, R_SM_OUT, R_SM_IN, R_NET_IN, R_NET_OUT, R_DRAM = np.arange(
    8
)  # no literals: `serve` is compiled once
RESOURCES = 8

# Latencies of late misses: all, those that the LLC served, those that went to DRAM.
ALL, BY_LLC, BY_DRAM = range(3)
#: Weight of one miss in them.
SMOOTHING = 0.1


class Memory(NamedTuple):
    """The memory system of an SM: when servers are free, and when the last misses are back."""

    free: Any
    rings: Any  # places of loads, and of stores
    sets: Any  # ways of each set that wait for data
    next: Any  # place that the next one takes: of a load, of a store, and in each set
    recent: Any
    split: Any  # what the last misses waited for


def new_memory(machines: Any) -> Memory:
    """Room for the memory system of each of some machines."""
    most = np.maximum(machines.max(axis=0), 1.0).astype(np.int64)
    return Memory(
        np.zeros(RESOURCES),
        np.zeros((2, max(most[M_OUTSTANDING], most[M_STORES]))),
        np.zeros((most[M_SETS], most[M_WAYS])),
        np.zeros(2 + most[M_SETS], dtype=np.int64),
        np.zeros(3),
        np.zeros(PARTS),
    )


@inlined
def reset_memory(machine, memory):
    """Everything free, nothing on its way."""
    for r in range(RESOURCES):
        memory.free[r] = 0.0
    for r in range(2):
        for k in range(memory.rings.shape[1]):
            memory.rings[r, k] = 0.0
    for r in range(memory.sets.shape[0]):
        for k in range(memory.sets.shape[1]):
            memory.sets[r, k] = 0.0
    for k in range(len(memory.next)):
        memory.next[k] = 0
    memory.recent[ALL] = memory.recent[BY_LLC] = machine[M_LLC_LATENCY]
    memory.recent[BY_DRAM] = machine[M_LLC_LATENCY] + machine[M_DRAM_LATENCY]
    for c in range(PARTS):
        memory.split[c] = 0.0
    memory.split[0] = 1.0


@inlined
def serve(server, first, last, count, total, free, busy):
    """(First begins, last begins): `count` items that arrive from `first` to `last` keep a server for `total`."""
    begin = max(first, free[server])
    each = total / count
    end = max(last, begin + total - each)
    free[server] = end + each
    busy[server] += total
    return begin, end


@inlined
def places(rings, r, size, place, count, first, last, hold, in_order):
    """(First, last) item of `count` as a limited population lets them in, and the places that they take.

    Each takes the place that is left first, for `hold` cycles; one of these own
    places, if that is left sooner. Or `in_order` the one that was taken first.
    """
    first = max(first, rings[r, place])
    taken = min(count, size)
    while True:
        last_place = place + taken - 1
        left = rings[r, last_place if last_place < size else last_place - size]
        if in_order or taken == 1 or left <= first + (count - 1) // (taken - 1) * hold:
            break
        taken -= 1
    return first, max(last, left, first + (count - 1) // taken * hold), taken


@inlined
def fill(rings, r, size, place, count, first, last, in_order):
    """Items that are back from `first` to `last` hold their places until then; returns the place that is left first.

    From there on, round the ring, places are in the order in which they are left.
    """
    slope = (last - first) / max(count - 1, 1)
    start = place + count if place + count < size else place + count - size
    for k in range(count):
        until = first + k * slope
        here = place + k if place + k < size else place + k - size
        while here != start and not in_order:
            before = here - 1 if here > 0 else size - 1
            if rings[r, before] <= until:
                break
            rings[r, here] = rings[r, before]
            here = before
        rings[r, here] = until
    return start


@inlined
def hold_cycles(begin, event, level, what, weight, pipe, machine, free):
    """Cycles for which a miss that is sent now would hold its place, in the mean of those of an event."""
    sent = max(begin, free[R_SM_OUT], free[R_NET_IN], free[R_NET_OUT], free[R_SM_IN])
    latency = event[E_LEFT] if level == GIVEN else machine[M_LLC_LATENCY]
    hold = sent - begin + latency * weight - pipe
    if what != STORE:
        from_dram = min(event[E_DRAM_READS] / (event[E_MISSES] * weight), 1.0)
        hold += from_dram * (max(free[R_DRAM] - sent, 0.0) + machine[M_DRAM_LATENCY] * weight)
    return max(hold, 0.0)


@inlined
def access(now, e, shared, stream, machine, memory, busy, part):
    """(Time it leaves the memory queue, time its result is there) of event `e`, which enters in `now`.

    `shared` is the part of the SMs that have such a block; `part` is filled with
    what the result waits for.
    """
    what, level, set_, event = stream.kind[e], stream.level[e], stream.sets[e], stream.events[e]
    free = memory.free
    weight = event[E_WEIGHT]
    pipe = machine[M_L1_LATENCY] * weight
    begin = max(now, free[R_PORT])
    through = begin + event[E_PORT]
    free[R_PORT] = through
    busy[R_PORT] += event[E_PORT]
    last_in = max(through - weight, begin)  # when its last line enters the L1
    back = last_in + pipe
    part[0] = back - now
    for c in range(1, PARTS):
        part[c] = 0.0
    if level == COMING:
        back = max(back, begin + event[E_LEFT] * machine[M_ARRIVALS] * memory.recent[ALL] * weight)
        part[1] = back - now - part[0]
    elif level == GIVEN:
        back = begin + event[E_LEFT] * weight
    misses = event[E_MISSES]
    if misses <= 0.0:
        return begin, back
    # MSHRs, or places for stores, and ways of a set that wait for data: the L1 waits for them, in order.
    is_load = what == LOAD
    ring = 0 if is_load else 1
    size = max(int(machine[M_OUTSTANDING] if is_load else machine[M_STORES]), 1)
    count = max(int(misses + 0.5), 1)
    arrives = last_in
    in_order = machine[M_IN_ORDER] == 1.0
    hold = hold_cycles(begin, event, level, what, weight, pipe, machine, free)
    first_in, last_in, taken = places(
        memory.rings, ring, size, memory.next[ring], count, begin, last_in, hold, in_order
    )
    lines = 0
    ways = max(int(machine[M_WAYS]), 1)
    if is_load and machine[M_SETS] > 0.0:
        lines = max(int(event[E_SET_LINES] + 0.5), 1)
        first_in, last_in, lines = places(
            memory.sets, set_, ways, memory.next[2 + set_], lines, first_in, last_in, hold, in_order
        )
    free[R_PORT] = max(free[R_PORT], last_in)
    part[3] = last_in - arrives
    # Out of the SM, whose queue holds back the L1 when it is full, and into the banks.
    own = (what - LOAD) * NETWORK_COLUMNS
    total = max(event[E_FLITS_OUT] * machine[M_SM_FLIT + own], event[E_REQUESTS] * machine[M_REQUEST + own])
    first, last = serve(R_SM_OUT, first_in, last_in, misses, total, free, busy)
    free[R_PORT] = max(free[R_PORT], free[R_SM_OUT] - machine[M_INJECTION] * total / misses)
    total = max(event[E_FLITS_OUT] * machine[M_NET_FLIT + own], event[E_REQUESTS] * machine[M_NET_REQUEST + own])
    total *= shared
    first, last = serve(R_NET_IN, first, last, misses, total, free, busy)
    part[4] = last - last_in
    # DRAM: what is written goes by itself, what is read is waited for.
    latency = event[E_LEFT] * weight if level == GIVEN else machine[M_LLC_LATENCY] * weight
    part[1] = latency
    service = machine[M_DRAM_SERVICE] * shared
    written = event[E_DRAM_WRITES] * service
    if written > 0.0:
        free[R_DRAM] = max(free[R_DRAM], first) + written
        busy[R_DRAM] += written
    before = last
    if event[E_DRAM_READS] > 0.0 and what != STORE:
        reads = max(event[E_DRAM_READS] / weight, 1.0)
        first, last = serve(R_DRAM, first, last, reads, event[E_DRAM_READS] * service, free, busy)
        crowd = event[E_CHANNEL] * machine[M_CHANNEL] * weight
        first += crowd
        last += crowd
        if level == DRAM:
            latency += machine[M_DRAM_LATENCY] * weight
    if level == LLC and event[E_LEFT] > 0.0:  # the LLC has sent for it already
        longer = max(memory.recent[BY_DRAM] - memory.recent[BY_LLC], machine[M_DRAM_LATENCY])
        latency += event[E_LEFT] * machine[M_ARRIVALS] * longer * weight
    full = free[R_DRAM] - machine[M_DRAM_QUEUE]  # the banks wait for room in the queues of the channels
    if full > free[R_NET_IN]:
        free[R_NET_IN] = full
        if what == STORE:
            first, last = max(first, full), max(last, full)
    part[2] = latency - part[1]
    part[5] = last - before
    # And back.
    before = last
    first, last = serve(R_NET_OUT, first, last, misses, event[E_FLITS_IN] * machine[M_NET_FLIT] * shared, free, busy)
    first, last = serve(R_SM_IN, first, last, misses, event[E_FLITS_IN] * machine[M_SM_FLIT], free, busy)
    if is_load:
        crowd = event[E_BANK] * machine[M_BANK] * weight
        first += crowd
        last += crowd
    part[4] += last - before
    first += latency
    last += latency
    # An MSHR is taken when the tags are read, at the end of the L1's pipeline.
    memory.next[ring] = fill(memory.rings, ring, size, memory.next[ring], taken, first - pipe, last - pipe, in_order)
    if lines > 0:
        held = last - pipe
        memory.next[2 + set_] = fill(memory.sets, set_, ways, memory.next[2 + set_], lines, held, held, in_order)
    if is_load:
        took = (last - first_in) / weight
        memory.recent[ALL] += SMOOTHING * (took - memory.recent[ALL])
        if level == DRAM:
            memory.recent[BY_DRAM] += SMOOTHING * (took - memory.recent[BY_DRAM])
        elif event[E_LEFT] == 0.0:
            memory.recent[BY_LLC] += SMOOTHING * (took - memory.recent[BY_LLC])
    part[0] = max(begin - now, 0.0)
    for c in range(PARTS):
        memory.split[c] += SMOOTHING * (part[c] / weight - memory.split[c])
    return begin, max(back, last)

"""The warps of one SM: which one goes on first, how blocks enter, and what becomes of a warp after an event."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined
from ._access_kernels import (
    ATOMIC,
    BARRIER,
    C_SYNC,
    E_GAP,
    E_LEFT,
    E_TAIL,
    E_WEIGHT,
    END,
    FIRST_PART,
    M_BARRIER,
    M_BLOCK_LAUNCH,
    M_BLOCK_START,
    M_BLOCKS,
    M_BLOCKS_PER_SM,
    M_QUEUE,
    M_SCHEDULERS,
    M_WARPS_PER_BLOCK,
    PARTS,
    STORE,
)

NEVER = 1e300
# What a warp does until its time comes: waits for data, issues, waits for a scheduler, for a place in the memory
# queue, at a barrier.
DATA, ISSUING, AT_SCHEDULER, AT_PORT, AT_BARRIER = range(5)
#: Warps of an SM that are followed, or three waves; of longer launches the middle is left out and its time added.
MOST_WARPS, LEAST_WAVES = 160, 3


class Stream(NamedTuple):
    """What warps ask for (see `network.Demand`)."""

    block_start: Any
    event_start: Any
    kind: Any
    level: Any
    dependence: Any
    sets: Any
    events: Any
    units: Any
    order: Any  # blocks in the order in which an SM is given them
    traffic: Any  # what the mean block asks of shared resources, over what each does


class Sm(NamedTuple):
    """Room for what changes on an SM: its warps, schedulers, functional units and places for blocks."""

    ready: Any  # when each warp goes on; one entry for each leaf of the tree
    order: Any  # the same bits as whole numbers, which come in the same order
    soonest: Any  # at each inner node of a tree over them, the least below, and the warp that it is of
    first: Any
    times: Any  # of each warp
    places: Any
    done: Any  # when the result of each event of a warp is there, and what it waited for
    parts: Any
    schedulers: Any
    first_in_line: Any  # of those that wait for a scheduler, the oldest; or -1
    units: Any
    slots: Any
    crowd: Any
    queue: Any  # when the last accesses leave the memory queue
    ends: Any  # of blocks


# Columns of a warp: cycles of its own until the next event; when it began to wait for a scheduler or the queue; issue
# slots a cycle that it takes; when all its accesses are back.
GAP, SINCE, RATE, BACK = range(4)
# And its state, events, age, and who is behind it in the line for a scheduler.
STATE, EVENT, FIRST, LAST, AGE, BEHIND = range(6)
# Of a scheduler: slots a cycle that are taken, and when one that takes turns has issued all that it was given.
TAKEN, ISSUED = range(2)
# Of a unit.
FREE, BUSY = range(2)
# Of a place for a block: when the last warp reached the barrier, when the last access is back, the part of the SMs
# that have such a block; and warps that are there, and that wait at the barrier.
GATHERED, LEFT_AT, SHARE = range(3)
ALIVE, WAITING = range(2)


def new_sm(stream: Stream, machines: Any) -> Sm:
    """Room for the SM of each of some machines."""
    most = np.maximum(np.ceil(machines.max(axis=0)), 1.0).astype(np.int64)
    slots, schedulers = min(most[M_BLOCKS_PER_SM], most[M_BLOCKS]), most[M_SCHEDULERS]
    warps = slots * most[M_WARPS_PER_BLOCK]
    leaves = 1 << max(int(warps - 1).bit_length(), 1)
    events = max(int(np.diff(stream.event_start).max()), 1)
    ready = np.empty(leaves)
    return Sm(
        ready,
        ready.view(np.int64),
        np.empty(leaves, dtype=np.int64),
        np.empty(leaves, dtype=np.int64),
        np.zeros((warps, 4)),
        np.zeros((warps, 6), dtype=np.int64),
        np.zeros((warps, events)),
        np.zeros((warps, events, PARTS)),
        np.zeros((schedulers, 2)),
        np.zeros(schedulers, dtype=np.int64),
        np.zeros((stream.units.shape[1], 2)),
        np.zeros((slots, 3)),
        np.zeros((slots, 2), dtype=np.int64),
        np.zeros(most[M_QUEUE]),
        np.zeros(max(LEAST_WAVES * slots, MOST_WARPS) + slots),
    )


@inlined
def set_ready(w, time, ready, order, soonest, first):
    """A warp goes on at a time. At the root is the first of all then; of equal ones, that with the lowest number.

    No branch depends on which of two is earlier, which is like tossing a coin.
    """
    ready[w] = time
    node = len(ready) + w
    key = order[w]
    other = w ^ 1
    other_key = order[other]
    while node > 1:
        earlier = other_key < key + (node & 1)  # the right one of two only if it is less
        key = other_key if earlier else key
        w = other if earlier else w
        node >>= 1
        soonest[node] = key
        first[node] = w
        other_key = soonest[node ^ 1]
        other = first[node ^ 1]


@inlined
def book(cycles, shares, waits):
    """A warp waited for what is in proportion to `shares`."""
    if cycles == 0.0:
        return
    total = 0.0
    for c in range(PARTS):
        total += shares[c]
    if total > 0.0:
        for c in range(PARTS):
            waits[FIRST_PART + c] += cycles * shares[c] / total


@inlined
def reset(sm):
    """Nobody there, nothing taken."""
    leaves = len(sm.ready)
    for node in range(leaves - 1, -1, -1):
        sm.ready[node] = NEVER
        sm.soonest[node] = sm.order[node]
        sm.first[node] = 2 * node - leaves if 2 * node >= leaves else sm.first[2 * node]
    for q in range(len(sm.first_in_line)):
        sm.first_in_line[q] = -1
        sm.schedulers[q, TAKEN] = sm.schedulers[q, ISSUED] = 0.0
    for u in range(len(sm.units)):
        sm.units[u, FREE] = sm.units[u, BUSY] = 0.0
    for slot in range(len(sm.slots)):
        sm.slots[slot, LEFT_AT] = 0.0
        sm.crowd[slot, ALIVE] = 0
    for k in range(len(sm.queue)):
        sm.queue[k] = 0.0


@inlined
def enter_blocks(entered, finished, to_run, left_out, resident, stream, machine, sm):
    """Blocks take the places that are free; returns how many have entered, and left, since the beginning."""
    places, slots, crowd = sm.places, sm.slots, sm.crowd
    per_block = int(machine[M_WARPS_PER_BLOCK])
    for slot in range(resident):
        if crowd[slot, ALIVE] > 0 or entered >= to_run:
            continue
        begin = slots[slot, LEFT_AT] + machine[M_BLOCK_START]
        begin = max(begin, (entered + 1) * machine[M_BLOCK_LAUNCH])
        block = left_out + entered
        source = stream.order[entered % len(stream.order)]
        first = stream.block_start[source]
        here = stream.block_start[source + 1] - first
        slots[slot, SHARE] = min(max(machine[M_BLOCKS] - block, 0.0), 1.0) * stream.traffic[source]
        slots[slot, LEFT_AT] = begin
        slots[slot, GATHERED] = 0.0
        entered += 1
        for k in range(per_block):
            origin = first + min(k, here - 1)
            e = stream.event_start[origin]
            if k >= here > 1 or e == stream.event_start[origin + 1]:
                continue  # a block that lacks warps (but one alone stands for all), or a warp that has nothing to do
            w = slot * per_block + k
            places[w, STATE] = DATA
            places[w, EVENT] = places[w, FIRST] = e
            places[w, LAST] = stream.event_start[origin + 1] - 1
            places[w, AGE] = block * per_block + k
            sm.times[w, BACK] = begin
            sm.times[w, GAP] = stream.events[e, E_GAP]
            set_ready(w, begin, sm.ready, sm.order, sm.soonest, sm.first)
            crowd[slot, ALIVE] += 1
        if crowd[slot, ALIVE] == 0:
            sm.ends[finished] = begin
            finished += 1
    return entered, finished


@inlined
def line_up(w, q, lines, places):
    """A warp waits for a scheduler, behind those that are older."""
    before = -1
    behind = lines[q]
    while behind >= 0 and places[behind, AGE] < places[w, AGE]:
        before = behind
        behind = places[behind, BEHIND]
    places[w, BEHIND] = behind
    if before < 0:
        lines[q] = w
    else:
        places[before, BEHIND] = w


@inlined
def advance(w, slot, now, stream, sm, split, waits):
    """A warp turns to its next event, from `now` or from when the data that it needs are there; or leaves."""
    e = sm.places[w, EVENT]
    start = now
    sm.places[w, STATE] = DATA
    if e == sm.places[w, LAST]:
        book(max(sm.times[w, BACK] - now, 0.0), split, waits)
        sm.crowd[slot, ALIVE] -= 1
        sm.slots[slot, LEFT_AT] = max(sm.slots[slot, LEFT_AT], now, sm.times[w, BACK])
        start = NEVER
    else:
        e += 1
        gap = stream.events[e, E_GAP]
        reach = now + gap
        needed = stream.dependence[e]
        if needed >= 0:
            reach = max(reach, sm.done[w, needed] + stream.events[e, E_TAIL])
            start = max(now, reach - gap)
            book(start - now, sm.parts[w, needed], waits)
        sm.times[w, GAP] = reach - start
        sm.places[w, EVENT] = e
    set_ready(w, start, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def pass_event(w, slot, now, back, stream, machine, sm, split, waits):
    """A warp's event is over, but for the result of an access, which is there when it is `back`."""
    places, crowd, slots, parts = sm.places, sm.crowd, sm.slots, sm.parts
    e = places[w, EVENT]
    what = stream.kind[e]
    local = e - places[w, FIRST]
    done = back
    # What needs a load needs those before it: results are taken in order.
    if local > 0 and (what == STORE or back < sm.done[w, local - 1]):
        done = sm.done[w, local - 1]
        for c in range(PARTS):
            parts[w, local, c] = parts[w, local - 1, c]
    elif what > ATOMIC:
        for c in range(PARTS):
            parts[w, local, c] = 0.0
    sm.done[w, local] = done
    if what == END:
        back += stream.events[e, E_LEFT]
    sm.times[w, BACK] = max(sm.times[w, BACK], back)
    if what == BARRIER:
        places[w, STATE] = AT_BARRIER
        sm.times[w, SINCE] = now
        set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
        crowd[slot, WAITING] += 1
        slots[slot, GATHERED] = max(slots[slot, GATHERED], now)
    else:
        advance(w, slot, now, stream, sm, split, waits)
    if crowd[slot, WAITING] > 0 and crowd[slot, WAITING] == crowd[slot, ALIVE]:
        per_block = int(machine[M_WARPS_PER_BLOCK])
        for other in range(slot * per_block, (slot + 1) * per_block):
            if places[other, STATE] == AT_BARRIER:
                opens = slots[slot, GATHERED] + machine[M_BARRIER] * stream.events[places[other, EVENT], E_WEIGHT]
                waits[C_SYNC] += opens - sm.times[other, SINCE]
                advance(other, slot, opens, stream, sm, split, waits)
        crowd[slot, WAITING] = 0
        slots[slot, GATHERED] = 0.0

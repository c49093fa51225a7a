"""Caches in the order of an estimate of when warps reach memory.

Numba's cache looks at this file alone: touch it after editing `_kernels.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ._kernels import (
    A_L1,
    A_L1_LEFT,
    A_LLC,
    A_LLC_LEFT,
    BARRIER,
    LOAD,
    P_BLOCKS_PER_SM,
    P_GREEDY,
    P_QUEUE,
    P_SMS,
    Q_DRAM_LATENCY,
    Q_DRAM_SERVICE,
    Q_ISSUE_INTERVAL,
    Q_L1_LATENCY,
    Q_LLC_LATENCY,
    Q_NOC_SERVICE,
    Q_SM_SERVICE,
    STORE,
    access_lines,
    inner,
)

# Lines on their way that are remembered, of an SM and of the LLC (powers of two).
L1_PLACES, LLC_PLACES = 1 << 10, 1 << 16


SM = np.dtype(
    [
        ("head", np.int64),  # of the memory queue, a ring
        ("lined_up", np.int64),
        ("outside", np.int64),  # warps that wait for room in it
        ("last", np.int64),  # warp that entered it last
        ("flown", np.int64),  # misses sent so far
        ("free", np.float64),  # when the next of the queue is served
        ("link_free", np.float64),
    ],
    align=True,
)
BLOCK = np.dtype([("sm", np.int64), ("alive", np.int64), ("at_barrier", np.int64)])
WARP = np.dtype(
    [
        ("block", np.int64),
        ("event", np.int64),  # the next one
        ("end", np.int64),
        ("latest", np.float64),  # when the data of all loads so far are there
        ("held", np.bool_),  # at a barrier, or not started
    ],
    align=True,
)
COMING = np.dtype([("line", np.int64), ("there", np.float64), ("span", np.float64)])


class Progress(NamedTuple):
    """What changes while the order is estimated."""

    keys: NDArray[np.float64]
    entries: NDArray[np.int64]
    warps: NDArray[Any]
    blocks: NDArray[Any]
    sms: NDArray[Any]
    line_up: NDArray[np.int64]
    outside: NDArray[np.int64]
    flight: NDArray[np.float64]
    coming: NDArray[Any]
    llc_coming: NDArray[Any]
    done: NDArray[np.float64]
    #: Times at which the network and the DRAM are free.
    shared: NDArray[np.float64]


class Steps(NamedTuple):
    """Events of all warps: the columns of `Events` that the estimate needs."""

    static: NDArray[np.uint32]
    instructions: NDArray[np.int32]
    gap: NDArray[np.float32]
    dependence: NDArray[np.int64]
    tail: NDArray[np.float32]
    line_start: NDArray[np.int64]


@inner
def heap_push(keys, warps, size, key, warp):
    """Insert into a binary heap ordered by (key, warp); returns the new size."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if keys[parent] < key or (keys[parent] == key and warps[parent] <= warp):
            break
        keys[child] = keys[parent]
        warps[child] = warps[parent]
        child = parent
    keys[child] = key
    warps[child] = warp
    return size + 1


@inner
def heap_fill(keys, warps, size, key, warp):
    """Put an entry in place of the least one: cheaper than to remove that first, most of all where both are near."""
    hole = 0
    child = 1
    while child < size:
        if child + 1 < size and (
            keys[child + 1] < keys[child] or (keys[child + 1] == keys[child] and warps[child + 1] < warps[child])
        ):
            child += 1
        if key < keys[child] or (key == keys[child] and warp < warps[child]):
            break
        keys[hole] = keys[child]
        warps[hole] = warps[child]
        hole = child
        child = 2 * hole + 1
    keys[hole] = key
    warps[hole] = warp


@inner
def pick(queue, count, last, greedy):
    """Place in an SM's queue of the warp that goes next: the last one again, else the oldest; or in turn."""
    best = 0
    for k in range(count):
        w = queue[k]
        if greedy:
            if w == last:
                return k
            if w < queue[best]:
                best = k
        else:
            after = w > last
            best_after = queue[best] > last
            if (after and not best_after) or (after == best_after and w < queue[best]):
                best = k
    return best


@inner
def send_misses(sm, now, misses, llc_misses, store, timing, shared, flight):
    """(time the last datum is back, time the L1 accepts the next access) of one instruction's misses.

    Network and DRAM fill from the time of the event, which never runs backwards;
    a miss that waits for an MSHR starts later than that.
    """
    back = now
    start = now
    for miss in range(misses):
        place = sm.flown % len(flight)
        if not store:
            start = max(start, flight[place])  # the miss that many before this one must be back
        at_link = max(start, sm.link_free)
        sm.link_free = at_link + timing[Q_SM_SERVICE]
        arrival = max(at_link, shared[0]) + timing[Q_LLC_LATENCY]
        shared[0] = max(now, shared[0]) + timing[Q_NOC_SERVICE]
        if miss < llc_misses:
            arrival = max(arrival, shared[1] + timing[Q_LLC_LATENCY]) + timing[Q_DRAM_LATENCY]
            shared[1] = max(now, shared[1]) + timing[Q_DRAM_SERVICE]
        if not store:
            flight[place] = arrival
            sm.flown += 1
        back = max(back, arrival)
    return back, start


@inner
def note_arrivals(now, back, first, end, number, served, coming, llc_coming, arrivals):
    """When the data of a load are there that were on their way already; it is counted, and its own are remembered.

    `coming` has lines that were sent for, of an SM and of the LLC, when they are
    there and how long that takes; a line may push another out of its place.
    """
    in_l1 = 0.0
    in_llc = 0.0
    worst = 0
    there = now
    for j in range(first, end):
        line = number[j]
        level = served[j - first]
        worst = max(worst, level)
        own = coming[line & (L1_PLACES - 1)]
        other = llc_coming[line & (LLC_PLACES - 1)]
        if level == 0:
            if own.line == line and own.there > now:
                in_l1 = max(in_l1, (own.there - now) / own.span)
                there = max(there, own.there)
            continue
        until = back
        if level == 1:
            if other.line == line and other.there > now:
                in_llc = max(in_llc, (other.there - now) / other.span)
                there = max(there, other.there)
                until = max(back, there)
        else:
            other.line = line
            other.there = back
            other.span = back - now
        own.line = line
        own.there = until
        own.span = until - now
    if worst == 0 and in_l1 > 0.0:
        arrivals[A_L1] += 1.0
        arrivals[A_L1_LEFT] += in_l1
    elif worst == 1 and in_llc > 0.0:
        arrivals[A_LLC] += 1.0
        arrivals[A_LLC_LEFT] += in_llc
    return there


@inner
def reach_time(warp, first, now, steps, done):
    """When a warp that is free at `now` reaches its next event: after the instructions and data in between."""
    event = warp.event
    if event == warp.end:
        return max(now, done[event - 1]) if event > first else now
    reach = now + steps.gap[event]
    needed = steps.dependence[event]
    if needed >= 0:
        reach = max(reach, done[first + needed] + steps.tail[event])
    return reach


@njit(cache=True, nogil=True, _nrt=False)
def simulate_progress(block_start, event_start, steps, kind, lines, caches, timing, arrivals, state):
    """Memory instructions in the order of an estimate of when warps reach them; returns the estimated cycles.

    Warps that reach an access enter their SM's memory queue while it has room;
    when it is full the scheduling policy decides who enters next. The queue is
    served in order: a service takes the issue slots of the instructions since
    the warp's last access, a cycle of the L1 port per line, and the wait for
    MSHRs. The heap holds two kinds of entries: warp w reaches its next event,
    and (number of warps + sm) the SM can serve again.
    """
    keys = state.keys
    heap = state.entries
    done = state.done
    parameters = caches.parameters
    depth = parameters[P_QUEUE]
    warps = len(state.warps)
    blocks = len(state.blocks)
    started = min(blocks, parameters[P_SMS] * parameters[P_BLOCKS_PER_SM])
    size = np.int64(0)
    now = 0.0
    # Blocks whose held warps go on: at first those that are resident.
    freed = np.int64(0)
    freed_end = started
    while True:
        for b in range(freed, freed_end):
            for w in range(block_start[b], block_start[b + 1]):
                warp = state.warps[w]
                if warp.held:
                    warp.held = False
                    size = heap_push(keys, heap, size, reach_time(warp, event_start[w], now, steps, done), w)
        if size == 0:
            return now
        now = keys[0]
        entry = heap[0]
        freed_end = freed
        next_key = now  # what takes the place of this entry, if anything does
        next_entry = np.int64(-1)
        if entry < warps:
            w = entry
            warp = state.warps[w]
            block = state.blocks[warp.block]
            sm = state.sms[block.sm]
            if warp.event == warp.end:
                block.alive -= 1
                if block.alive == 0 and started < blocks:
                    state.blocks[started].sm = block.sm
                    freed = started
                    started += 1
                    freed_end = started
            elif sm.lined_up < depth:
                state.line_up[block.sm, (sm.head + sm.lined_up) % depth] = w
                sm.lined_up += 1
                sm.last = w
                if sm.lined_up == 1:
                    next_key = max(now, sm.free)
                    next_entry = warps + block.sm
            else:
                state.outside[block.sm, sm.outside] = w
                sm.outside += 1
        else:
            number = entry - warps
            sm = state.sms[number]
            w = state.line_up[number, sm.head]
            sm.head = (sm.head + 1) % depth
            sm.lined_up -= 1
            if sm.outside > 0:
                outside = state.outside[number]
                k = pick(outside, sm.outside, sm.last, parameters[P_GREEDY] == 1)
                sm.last = outside[k]
                state.line_up[number, (sm.head + sm.lined_up) % depth] = sm.last
                sm.lined_up += 1
                sm.outside -= 1
                outside[k] = outside[sm.outside]
            warp = state.warps[w]
            block = state.blocks[warp.block]
            event = warp.event
            warp.event = event + 1
            s = steps.static[event]
            what = kind[s]
            busy = steps.instructions[event] * timing[Q_ISSUE_INTERVAL]
            when = now
            if what == BARRIER:
                done[event] = now
                warp.held = True
                block.at_barrier += 1
            else:
                first = steps.line_start[event]
                end = steps.line_start[event + 1]
                misses, llc_misses, written_back, writeback_misses = access_lines(
                    number, first, end, s, what, lines, caches
                )
                flight = state.flight[number]
                if written_back:  # nobody waits for them, but what follows waits for the network
                    send_misses(sm, now, written_back, writeback_misses, np.bool_(True), timing, state.shared, flight)
                back, start = send_misses(sm, now, misses, llc_misses, what == STORE, timing, state.shared, flight)
                finish = max(back, now + timing[Q_L1_LATENCY])
                if what == LOAD:
                    there = note_arrivals(
                        now,
                        back,
                        first,
                        end,
                        lines.number,
                        caches.served,
                        state.coming[number],
                        state.llc_coming,
                        arrivals[s],
                    )
                    finish = max(finish, there, warp.latest)
                    warp.latest = finish  # results are taken in order
                done[event] = finish
                busy = max(busy, float(end - first), start - now)
                when = reach_time(warp, event_start[w], now, steps, done)
            sm.free = now + busy
            # The SM's next service takes the place of this one, else the warp's next event.
            if sm.lined_up > 0:
                next_key = sm.free
                next_entry = entry
            elif what != BARRIER:
                next_key = when
                next_entry = w
        if next_entry >= 0:
            heap_fill(keys, heap, size, next_key, next_entry)
        else:
            size -= 1
            heap_fill(keys, heap, size, keys[size], heap[size])
        if entry >= warps and next_entry == entry and what != BARRIER:
            size = heap_push(keys, heap, size, when, w)
        if block.at_barrier > 0 and block.at_barrier == block.alive:
            block.at_barrier = 0
            freed = warp.block
            freed_end = freed + 1
